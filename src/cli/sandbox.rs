//! `mapwright sandbox`: the in-memory Kubernetes API by itself.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::End;
use crate::sandbox::{Sandbox, Stages, kubeconfig};

/// Serve a Kubernetes API in memory, for kubectl and for tests.
///
/// Example: mapwright sandbox --kubeconfig-out /tmp/sandbox.kubeconfig
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write a kubeconfig for kubectl.
    #[arg(long)]
    kubeconfig_out: Option<PathBuf>,
    /// A cluster without machines: nothing runs its pods or makes its volumes, so that a test can say what
    /// became of them.
    #[arg(long)]
    bare: bool,
    /// Nothing follows from what is written: no pods of a Deployment, no collection of garbage.
    #[arg(long, hide = true)]
    no_controllers: bool,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(serve(arguments)),
        Err(error) => Err(format!("the runtime does not start: {error}")),
    };
    match ended {
        Ok(()) => End::Success,
        Err(error) => {
            eprintln!("{error}");
            End::Findings
        }
    }
}

async fn serve(arguments: &Arguments) -> Result<(), String> {
    let stages = Stages::load(Vec::new(), !arguments.bare, true).map_err(|findings| findings.to_string())?;
    let sandbox = Sandbox::start((!arguments.no_controllers).then(|| Arc::new(stages)))?;
    if !arguments.bare {
        sandbox.furnish()?;
    }
    let address = SocketAddr::from(([127, 0, 0, 1], arguments.port));
    let cannot = |error: io::Error| format!("cannot listen on {address}: {error}; choose another --port");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    if let Some(file) = &arguments.kubeconfig_out {
        let written = std::fs::write(file, kubeconfig(address));
        written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    println!("http://{address}");
    let end = async {
        // A process that cannot be told to end is ended by force.
        let _ = tokio::signal::ctrl_c().await;
    };
    sandbox.serve(listener, end).await;
    Ok(())
}
