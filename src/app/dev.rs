//! Everything in one process: a sandbox for a cluster, every mapping, REST, and a bus that is heard here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::{
    Doors, Environment, Loaded, Running, SettingsOf, StartError, connect_bus, connect_cluster, declared,
    read_settings,
};
use crate::bus::{Bus, Message};
use crate::engine::samples::samples;
use crate::engine::service::Service;
use crate::engine::source::Source;
use crate::files::Unreadable;
use crate::revision::{Revisions, Unfit};
use crate::sandbox::{Kept, Sandbox, Stages, kubeconfig};

/// Who speaks, of those that know this cluster: after a restart the same one, so that it waits for nobody.
const IDENTITY: &str = "dev";

/// What `dev` is asked to do.
#[derive(Clone, Debug)]
pub struct DevOptions {
    pub root: PathBuf,
    /// The URL of a NATS server that hears the events as well.
    pub nats: Option<String>,
    /// The port of REST on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The port of the Kubernetes API on 127.0.0.1; 0 takes a free one.
    pub api_port: u16,
    pub kubeconfig_out: Option<PathBuf>,
    /// A file of stages that come before the built-in ones.
    pub scenario: Option<PathBuf>,
    /// A directory that keeps the cluster and the ledger.
    pub persist: Option<PathBuf>,
}

/// What a person at the screen wants to see.
pub enum Shown<'a> {
    Said(&'a Message),
    /// Mappings were saved: how their revisions stand now.
    Revisions(&'a Revisions),
}

/// Everything that is ready to run.
pub struct Dev {
    /// Where REST is.
    pub rest: SocketAddr,
    /// Where the Kubernetes API is.
    pub cluster: SocketAddr,
    pub kubeconfig: PathBuf,
    /// The collections that are served, each with the simplest spec that its schema takes.
    pub collections: Vec<(String, Value)>,
    running: Running,
    listener: TcpListener,
    events: mpsc::UnboundedReceiver<Message>,
    end: watch::Sender<bool>,
    sandbox: JoinHandle<()>,
    /// Whether the kubeconfig is ours to remove.
    temporary: bool,
}

impl Dev {
    /// Starts the sandbox and connects everything to it.
    pub async fn start(
        options: DevOptions,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let loaded = Loaded::read(options.root.clone(), Vec::new())?;
        let sandbox = furnished(&options)?;
        // All services of a root share its definitions.
        let definitions = loaded.services.first().map(|service| service.definitions.clone());
        sandbox.define(&definitions.unwrap_or_default()).map_err(|why| {
            StartError::Other(format!("the cluster in memory refuses a file of schemas/crds: {why}"))
        })?;
        let api = bind(options.api_port, "--api-port").await?;
        let cluster_address = address_of(&api)?;
        let (file, temporary) = write_kubeconfig(&options, cluster_address)?;
        let (end, ended) = watch::channel(false);
        let sandbox = tokio::spawn(run_sandbox(sandbox, api, ended));

        let settings_of = dev_settings(Box::new(environment), file.clone(), options.nats.clone());
        let settings = settings_of(&loaded.services)?;
        let cluster = connect_cluster(&settings).await?;
        let mut bus = match options.nats {
            Some(_) => connect_bus(&settings).await?,
            None => Bus::local(options.persist.map(|directory| directory.join("ledger"))),
        };
        let events = bus.listen();
        let simplest =
            |service: &Service| samples(&service.schema.document).into_iter().next().unwrap_or_default();
        let collections =
            loaded.services.iter().map(|service| (service.collection.clone(), simplest(service))).collect();
        let doors = Doors::open(&settings, Some(&cluster))?;
        let listener = bind(options.port, "--port").await?;
        let rest = address_of(&listener)?;
        let running = Running::start(loaded, settings_of, settings, bus, cluster, doors, IDENTITY)?;
        Ok(Self {
            rest,
            cluster: cluster_address,
            kubeconfig: file,
            collections,
            running,
            listener,
            events,
            end,
            sandbox,
            temporary,
        })
    }

    /// Serves until the process is asked to end; each event and each revision is shown as it comes.
    pub async fn run(self, mut show: impl FnMut(Shown<'_>) + Send + 'static) -> Result<(), StartError> {
        let mut events = self.events;
        let mut revisions = self.running.revisions.clone();
        let showing = tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(message) = events.recv() => show(Shown::Said(&message)),
                    Ok(()) = revisions.changed() => {
                        let now = revisions.borrow_and_update().clone();
                        show(Shown::Revisions(&now));
                    }
                    else => return,
                }
            }
        });
        let ended = self.running.until_asked_to_end(self.listener).await;
        self.end.send_replace(true);
        // Both end with what they serve; a panic in one has been told already.
        let _ = self.sandbox.await;
        showing.abort();
        if self.temporary {
            let _ = std::fs::remove_file(&self.kubeconfig);
        }
        ended
    }
}

/// The settings of `serve`, with what `dev` knows by itself.
fn dev_settings(environment: Environment, kubeconfig: PathBuf, nats: Option<String>) -> SettingsOf {
    Box::new(move |services: &[Arc<Service>]| {
        let first_words: Vec<(String, String)> = services
            .iter()
            .flat_map(|service| declared(service))
            .filter(|setting| setting.required)
            .filter_map(|setting| Some((setting.env.clone(), setting.allowed.first()?.clone())))
            .collect();
        let first_word =
            |name: &str| first_words.iter().find(|(env, _)| env == name).map(|(_, word)| word.clone());
        let overlay = |name: &str| match name {
            "SP_K8S_KUBECONFIG" => Some(kubeconfig.display().to_string()),
            "SP_NATS_URL" => nats.clone(),
            "SP_NAME" => environment(name).or_else(|| Some("dev".to_owned())),
            // What a mapping wants to be told and nobody told it is its first possible word.
            _ => environment(name).or_else(|| first_word(name)),
        };
        read_settings(services, None, &overlay, false)
    })
}

fn furnished(options: &DevOptions) -> Result<Sandbox, StartError> {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path);
        let unreadable = |error| StartError::Unreadable(Unreadable { path: path.to_owned(), error });
        Ok(Source::new(path.display().to_string(), text.map_err(unreadable)?))
    };
    let files = options.scenario.as_deref().map(read).transpose()?.into_iter().collect();
    let stages = Stages::load(files, true, true)
        .map(Arc::new)
        .map_err(|findings| StartError::Mappings(Unfit::Mappings(findings)))?;
    if let Some(directory) = &options.persist {
        let kept = Kept::open(directory).map_err(StartError::Other)?;
        return Sandbox::resume(Some(stages), kept).map_err(StartError::Other);
    }
    let sandbox = Sandbox::start(Some(stages)).map_err(StartError::Other)?;
    sandbox.furnish().map_err(StartError::Other)?;
    Ok(sandbox)
}

async fn run_sandbox(sandbox: Sandbox, listener: TcpListener, mut ended: watch::Receiver<bool>) {
    let shutdown = async move {
        let _ = ended.wait_for(|end| *end).await;
    };
    sandbox.serve(listener, shutdown).await;
}

async fn bind(port: u16, option: &str) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(("127.0.0.1", port)).await;
    bound.map_err(|error| {
        StartError::Other(format!("cannot listen on 127.0.0.1:{port}: {error}; choose another {option}"))
    })
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|error| StartError::Other(format!("the port is not known: {error}")))
}

/// Where the kubeconfig is, and whether it is ours to remove.
fn write_kubeconfig(options: &DevOptions, address: SocketAddr) -> Result<(PathBuf, bool), StartError> {
    let (file, temporary) = match &options.kubeconfig_out {
        Some(file) => (file.clone(), false),
        None => {
            let name = format!("mapwright-dev-{}.kubeconfig", address.port());
            (std::env::temp_dir().join(name), true)
        }
    };
    let written = std::fs::write(&file, kubeconfig(address));
    written.map_err(|error| StartError::Unreadable(Unreadable { path: file.clone(), error }))?;
    Ok((file, temporary))
}
