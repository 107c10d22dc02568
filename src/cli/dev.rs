//! `mapwright dev`: everything in one process, without a cluster and without NATS.

use std::io::IsTerminal as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tracing_subscriber::EnvFilter;

use super::check::summary;
use super::report::prefix;
use super::{End, colour};
use crate::app::{Dev, DevOptions, Shown, StartError};
use crate::revision::{Refused, Revisions, Unfit};

/// Everything in one process: a cluster in memory, all mappings, REST, and events on the screen.
///
/// Mappings are read anew when they are saved. What does not check is said as `mapwright check` says it, and
/// the last good revision serves on.
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
    /// The port of REST on 127.0.0.1; 0 takes a free one. Without it 8080, or a free one where that is taken.
    #[arg(long)]
    port: Option<u16>,
    /// The port of the Kubernetes API on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    api_port: u16,
    /// Where to leave a kubeconfig for kubectl.
    #[arg(long)]
    kubeconfig_out: Option<PathBuf>,
    /// A file of stages that come before the built-in ones: what fails, and when.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// A directory in which the cluster and what was said of it outlive the process.
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
}

const USUAL_PORT: u16 = 8080;

/// What becomes of a save is on the screen already.
const LOG: &str = "warn,mapwright::app::reload=off";

pub(super) fn run(arguments: Arguments) -> End {
    let begin = Instant::now();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
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
    let root = arguments.root.clone();
    let options = DevOptions {
        root: arguments.root,
        nats: arguments.nats,
        port: arguments.port.unwrap_or_else(usual_port),
        api_port: arguments.api_port,
        kubeconfig_out: arguments.kubeconfig_out,
        scenario: arguments.scenario,
        persist: arguments.persist,
    };
    let dev = Dev::start(options, |name| std::env::var(name).ok()).await?;
    guide(&dev, begin);
    let mut before = Revisions::default();
    dev.run(move |shown| match shown {
        Shown::Said(message) => {
            println!("{}  {}", message.subject, String::from_utf8_lossy(&message.payload));
        }
        Shown::Revisions(now) => {
            tell(&root, &before, now);
            before = now.clone();
        }
    })
    .await
}

/// The port that the documents name, if nobody has it.
fn usual_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", USUAL_PORT)).is_ok();
    if free { USUAL_PORT } else { 0 }
}

/// What has become of a save.
fn tell(root: &Path, before: &Revisions, now: &Revisions) {
    if let Some(refused) = now.refused.as_deref().filter(|_| now.refusals > before.refusals) {
        diagnose(root, refused);
        let name = refused.revision.as_deref().unwrap_or("that cannot be read");
        println!("revision {name} is refused; revision {} serves on", now.in_use);
    } else if now.taken > before.taken {
        println!("revision {} serves from now on", now.in_use);
    } else if before.refused.is_some() && now.refused.is_none() && now.waiting.is_none() {
        println!("revision {} is what the files say again", now.in_use);
    }
    if let Some(why) =
        now.waiting.as_ref().filter(|_| now.waiting != before.waiting).and_then(|w| w.why.as_ref())
    {
        println!("the next revision waits: {why}");
    }
}

/// The same text as `mapwright check` prints.
fn diagnose(root: &Path, refused: &Refused) {
    match &refused.why {
        Unfit::Mappings(findings) => {
            let mut findings = findings.clone();
            findings.place_below(&prefix(root));
            eprintln!("{}\n{}", findings.painted(colour()), summary(findings.len()));
        }
        other => eprintln!("{other}"),
    }
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
