//! `mapwright serve`: the provider.

use std::io::IsTerminal;
use std::path::PathBuf;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::filter::{EnvFilter, dynamic_filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::End;
use crate::app::{self, ServeOptions, StartError};
use crate::revision::Unfit;
use crate::traces;

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
    let traces = log();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(app::serve(options, environment, traces)),
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

/// Logs go to standard error: for people on a terminal, else one JSON object a line. Spans go to whoever the
/// settings name, once they are read.
fn log() -> traces::Source {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,async_nats=warn"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match std::io::stderr().is_terminal() {
        true => lines.with_filter(filter).boxed(),
        false => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let (collector, switch, source) = traces::channel();
    // Without a collector a span that no line needs costs one look at a flag.
    let wanted = dynamic_filter_fn(move |metadata, _| switch.is_on() && traces::wants(metadata))
        .with_callsite_filter(|metadata| match traces::wants(metadata) {
            true => Interest::sometimes(),
            false => Interest::never(),
        })
        .with_max_level_hint(LevelFilter::DEBUG);
    tracing_subscriber::registry().with(lines).with(collector.with_filter(wanted)).init();
    source
}
