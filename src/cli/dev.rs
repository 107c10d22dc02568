//! `mapwright dev`: everything in one process, without a cluster and without NATS.

use std::path::PathBuf;
use std::time::Instant;

use tracing_subscriber::EnvFilter;

use super::End;
use crate::app::{Dev, DevOptions, StartError};

/// Everything in one process: a cluster in memory, all mappings, REST, and events on the screen.
///
/// Example: mapwright dev --kubeconfig-out /tmp/dev.kubeconfig
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder that holds `mappings` and `schemas`.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// A NATS server that hears the events as well.
    #[arg(long)]
    nats: Option<String>,
    /// The port of REST on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The port of the Kubernetes API on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    api_port: u16,
    /// Where to leave a kubeconfig for kubectl.
    #[arg(long)]
    kubeconfig_out: Option<PathBuf>,
    /// A file of stages that come before the built-in ones: what fails, and when.
    #[arg(long)]
    scenario: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> End {
    let begin = Instant::now();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(play(arguments, begin)),
        Err(error) => Err(StartError::Other(format!("the runtime does not start: {error}"))),
    };
    match ended {
        Ok(()) => End::Success,
        Err(error) => {
            eprintln!("{error}");
            match error {
                StartError::Unreadable(_) => End::Usage,
                _ => End::Findings,
            }
        }
    }
}

async fn play(arguments: Arguments, begin: Instant) -> Result<(), StartError> {
    let options = DevOptions {
        root: arguments.root,
        nats: arguments.nats,
        port: arguments.port,
        api_port: arguments.api_port,
        kubeconfig_out: arguments.kubeconfig_out,
        scenario: arguments.scenario,
    };
    let dev = Dev::start(options, &|name| std::env::var(name).ok()).await?;
    guide(&dev, begin);
    dev.run(|message| println!("{}  {}", message.subject, String::from_utf8_lossy(&message.payload))).await
}

/// What to paste.
fn guide(dev: &Dev, begin: Instant) {
    let base = format!("http://{}/api/v1alpha1", dev.rest);
    println!("ready in {} ms; Ctrl-C ends everything\n", begin.elapsed().as_millis());
    for (collection, _) in &dev.collections {
        println!("  {base}/{collection}");
    }
    println!("\nIn a second terminal:\n");
    for (collection, spec) in &dev.collections {
        let item = format!("{base}/{collection}/first");
        println!("  curl '{base}/{collection}?id=first' -H 'content-type: application/json' -d '{spec}'");
        println!("  curl {item}\n  curl -X DELETE {item}\n");
    }
    println!("Look at the objects:\n");
    println!("  kubectl --kubeconfig {} get all\n", dev.kubeconfig.display());
    println!("Status events, as they happen:\n");
}
