//! `mapwright serve`: the provider.

use std::io::IsTerminal;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

use super::End;
use crate::app::{self, ServeOptions, StartError};
use crate::revision::Unfit;

/// Serve service types: REST, events and registration.
///
/// Settings come from the environment (`SP_...`, `DCM_REGISTRATION_URL`) and, where it is given, a file.
///
/// Example: mapwright serve container storage
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The service types to serve; all mappings where none is named.
    types: Vec<String>,
    /// The folder that holds `mappings` and `schemas`.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// A file with settings, and with a [[provider]] table for each type.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Print the settings that would hold, with secrets masked, and serve nothing.
    #[arg(long)]
    print_settings: bool,
}

pub(super) fn run(arguments: Arguments) -> End {
    let options = ServeOptions { types: arguments.types, root: arguments.root, config: arguments.config };
    let environment = |name: &str| std::env::var(name).ok();
    if arguments.print_settings {
        return end(app::print_settings(options, environment).map(|text| super::result(&text)));
    }
    log();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(app::serve(options, environment)),
        Err(error) => Err(StartError::Other(format!("the runtime does not start: {error}"))),
    };
    end(ended)
}

fn end(ended: Result<(), StartError>) -> End {
    match ended {
        Ok(()) => End::Success,
        Err(error) => {
            eprintln!("{error}");
            match error {
                StartError::Unreadable(_) | StartError::Mappings(Unfit::UnknownType { .. }) => End::Usage,
                StartError::Mappings(_) | StartError::Settings(_) | StartError::Other(_) => End::Findings,
            }
        }
    }
}

/// Logs go to standard error: for people on a terminal, else one JSON object a line.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,async_nats=warn"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        subscriber.init();
    } else {
        subscriber.json().flatten_event(true).init();
    }
}
