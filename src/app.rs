//! The only wiring: reads, builds, spawns, and ends everything in order.

mod dev;
mod doors;
mod reload;
mod simulate;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::{Api, Served};
use crate::bus::{self, Bus, Credentials, Options, Tls};
use crate::cluster::{Cluster, ConnectOptions, Lease, RecordStore};
use crate::engine::format::SettingKind;
use crate::engine::names::dns_label;
use crate::engine::service::Service;
use crate::files::Unreadable;
use crate::http::{self, Limits};
use crate::leader::{self, Leadership};
use crate::monitor::{self, MonitorSettings, MonitorState};
use crate::provider::{InUse, Provider};
use crate::provision::{KEY_MARKER, PageTokens};
use crate::registry::{self, Metadata, Registration, RegistryState, Resources, Terms};
use crate::revision::{Revisions, Unfit};
use crate::settings::{
    self, DeclaredSetting, Faults, ProviderSettings, Registry, Secret, Settings, SignIn, Sources,
};
use crate::traces;
use doors::Doors;
use reload::{Loaded, Reload};

/// No call to the API server takes longer than this, whatever a request may take.
const LONGEST_CALL: Duration = Duration::from_secs(10);

pub use dev::{Dev, DevOptions, Shown};
pub use simulate::Simulator;

/// What `serve` is asked to do.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub types: Vec<String>,
    pub root: PathBuf,
    pub config: Option<PathBuf>,
}

/// Why a start ended before anything was listened on.
#[derive(Debug)]
pub enum StartError {
    Unreadable(Unreadable),
    Mappings(Unfit),
    Settings(Faults),
    Other(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Mappings(unfit) => unfit.fmt(f),
            Self::Settings(faults) => faults.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// The settings that `serve` would run with, without a secret in them.
pub fn print_settings(
    options: ServeOptions,
    environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Result<String, StartError> {
    let loaded = Loaded::read(options.root, options.types)?;
    let file = read_config(options.config)?;
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    let print = |sources: &Sources<'_>| Settings::print(sources).map_err(StartError::Settings);
    with_sources(&loaded.services, file, &environment, true, print)
}

/// Serves until the process is asked to end.
pub async fn serve(
    options: ServeOptions,
    environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    traces: traces::Source,
) -> Result<(), StartError> {
    let loaded = Loaded::read(options.root, options.types)?;
    let settings_of = settings_of(options.config, Box::new(environment), true)?;
    let settings = settings_of(&loaded.services)?;
    let (cluster, bus) = (connect_cluster(&settings).await, connect_bus(&settings).await);
    let doors = Doors::open(&settings, cluster.as_ref().ok());
    // Each of them opens files, and all that is wrong with them is told at once.
    let (cluster, bus, doors) = all(cluster, bus, doors)?;
    let listener = listen(&settings).await?;
    let identity = identity(&listener);
    let (end, ended) = watch::channel(false);
    let exporting = tokio::spawn(export(traces, settings.clone(), identity.clone(), ended));
    let running = Running::start(loaded, settings_of, settings, bus, cluster, doors, &identity)?;
    let served = running.until_asked_to_end(listener).await;
    end.send_replace(true);
    let _ = exporting.await;
    served
}

/// Spans of this process go where the settings say, under its own name.
async fn export(spans: traces::Source, settings: Settings, identity: String, ended: watch::Receiver<bool>) {
    let Some(url) = &settings.traces.url else { return };
    let resource = [
        ("service.name", "mapwright"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", &identity),
        ("k8s.namespace.name", &settings.cluster.namespace),
    ];
    traces::export(spans, registry::client(url), url, &resource, until(ended)).await;
}

fn all<A, B, C>(
    one: Result<A, StartError>,
    other: Result<B, StartError>,
    third: Result<C, StartError>,
) -> Result<(A, B, C), StartError> {
    match (one, other, third) {
        (Ok(one), Ok(other), Ok(third)) => Ok((one, other, third)),
        (one, other, third) => {
            let faults = [one.err(), other.err(), third.err()];
            let faults: Vec<String> = faults.iter().flatten().map(ToString::to_string).collect();
            Err(StartError::Other(faults.join("\n")))
        }
    }
}

/// The variables of whoever started the process.
type Environment = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Settings for these mappings. What they are read from is read once: a revision of the mappings that declares
/// others is told these, and nothing else of the process changes.
type SettingsOf = Box<dyn Fn(&[Arc<Service>]) -> Result<Settings, StartError> + Send + Sync>;

fn settings_of(
    config: Option<PathBuf>,
    environment: Environment,
    complete: bool,
) -> Result<SettingsOf, StartError> {
    let file = read_config(config)?;
    Ok(Box::new(move |services| {
        let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        read_settings(services, file, &environment, complete)
    }))
}

/// Name and text of `provider.toml`, where one is given.
fn read_config(config: Option<PathBuf>) -> Result<Option<(String, String)>, StartError> {
    let Some(path) = config else { return Ok(None) };
    let text = std::fs::read_to_string(&path);
    let unreadable = |error| StartError::Unreadable(Unreadable { path: path.clone(), error });
    Ok(Some((path.display().to_string(), text.map_err(unreadable)?)))
}

fn read_settings(
    services: &[Arc<Service>],
    file: Option<(&str, &str)>,
    environment: &dyn Fn(&str) -> Option<String>,
    complete: bool,
) -> Result<Settings, StartError> {
    let read = |sources: &Sources<'_>| Settings::read(sources).map_err(StartError::Settings);
    with_sources(services, file, environment, complete, read)
}

fn with_sources<T>(
    services: &[Arc<Service>],
    file: Option<(&str, &str)>,
    environment: &dyn Fn(&str) -> Option<String>,
    complete: bool,
    read: impl FnOnce(&Sources<'_>) -> T,
) -> T {
    let types: Vec<String> = services.iter().map(|service| service.service_type.clone()).collect();
    let declared: Vec<DeclaredSetting> = services.iter().flat_map(|service| declared(service)).collect();
    read(&Sources { environment, file, service_types: &types, declared: &declared, complete })
}

fn declared(service: &Service) -> Vec<DeclaredSetting> {
    let settings = service.settings.iter().map(|rule| DeclaredSetting {
        service_type: service.service_type.clone(),
        name: rule.name.clone(),
        env: rule.env.clone(),
        kind: match rule.kind {
            SettingKind::String => settings::Kind::String,
            SettingKind::Integer => settings::Kind::Integer,
            SettingKind::Number => settings::Kind::Number,
            SettingKind::Boolean => settings::Kind::Boolean,
        },
        allowed: rule.allowed.clone(),
        default: rule.default.clone(),
        required: rule.required,
    });
    settings.collect()
}

async fn connect_cluster(settings: &Settings) -> Result<Cluster, StartError> {
    let options = ConnectOptions {
        kubeconfig: settings.cluster.kubeconfig.clone(),
        // One request makes several calls, and one that hangs must leave time for the others.
        request_timeout: (settings.server.request_timeout / 3).min(LONGEST_CALL),
        streaming_lists: settings.cluster.streaming_lists,
    };
    let connected = Cluster::connect(options).await;
    connected.map_err(|refusal| StartError::Other(format!("SP_K8S_KUBECONFIG: {}", refusal.message)))
}

async fn connect_bus(settings: &Settings) -> Result<Bus, StartError> {
    let bus = &settings.bus;
    let credentials = match &bus.sign_in {
        SignIn::Url => Credentials::Url,
        SignIn::Token(token) => Credentials::Token(held(token)),
        SignIn::User { name, password } => {
            Credentials::UserPassword { user: name.clone(), password: held(password) }
        }
        SignIn::Nkey(path) => Credentials::Nkey(path.clone()),
        SignIn::Credentials(path) => Credentials::File(path.clone()),
    };
    let pair = bus.tls_certificate.clone().zip(bus.tls_key.clone());
    let options = Options {
        servers: bus.servers.iter().map(Secret::reveal).map(str::to_owned).collect(),
        name: settings.providers.first().map(|provider| provider.name.clone()).unwrap_or_default(),
        credentials,
        tls: Tls { authority: bus.tls_authority.clone(), certificate_and_key: pair },
        deadline: settings.server.request_timeout.min(Duration::from_secs(5)),
    };
    Bus::connect(options).await.map_err(|error| StartError::Other(error.to_string()))
}

fn held(secret: &settings::Held) -> bus::Held {
    match secret {
        settings::Held::Here(secret) => bus::Held::Here(secret.reveal().to_owned()),
        settings::Held::File(path) => bus::Held::File(path.clone()),
    }
}

fn provider_settings<'s>(settings: &'s Settings, service: &Service) -> Option<&'s ProviderSettings> {
    settings.providers.iter().find(|provider| provider.service_type == service.service_type)
}

async fn listen(settings: &Settings) -> Result<TcpListener, StartError> {
    let address = &settings.server.address;
    // No host means every interface, as Go writes it.
    let host = address.host.clone().unwrap_or_else(|| "::".to_owned());
    let listener = match TcpListener::bind((host.as_str(), address.port)).await {
        Err(_) if address.host.is_none() => TcpListener::bind(("0.0.0.0", address.port)).await,
        bound => bound,
    };
    listener.map_err(|error| {
        StartError::Other(format!(
            "SP_SERVER_ADDRESS: cannot listen on {host}:{}: {error}; choose another address",
            address.port
        ))
    })
}

/// Everything that runs beside the accept loop.
struct Running {
    api: Arc<Api>,
    doors: Doors,
    bus: Bus,
    settings: Arc<Settings>,
    monitors: JoinSet<()>,
    /// They give their leases up when the monitors have flushed.
    leaders: JoinSet<()>,
    flushed: watch::Sender<bool>,
    registrations: Vec<(InUse, watch::Sender<RegistryState>)>,
    reload: Reload,
    revisions: watch::Receiver<Revisions>,
    /// Raised first: who sends us traffic is told, and given the time to hear of it.
    stopping: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

impl Running {
    fn start(
        loaded: Loaded,
        settings_of: SettingsOf,
        settings: Settings,
        bus: Bus,
        cluster: Cluster,
        doors: Doors,
        identity: &str,
    ) -> Result<Self, StartError> {
        let settings = Arc::new(settings);
        let (stop, stopped) = watch::channel(false);
        let (stopping, told) = watch::channel(false);
        let (flushed, _) = watch::channel(false);
        let mut monitors = JoinSet::new();
        let mut leaders = JoinSet::new();
        let mut registrations = Vec::new();
        let mut services = Vec::new();
        let tokens = PageTokens::new(RecordStore::new(
            cluster.clone(),
            settings.cluster.namespace.clone(),
            KEY_MARKER,
        ));
        let reload = Reload::start(loaded, settings_of, &settings, cluster.clone())?;
        let revisions = reload.revisions();
        for in_use in reload.in_use() {
            let (tell_monitor, monitor) = watch::channel(MonitorState::default());
            let (tell_registry, registry) = watch::channel(RegistryState::default());
            let (tell_leader, leadership) = watch::channel(Leadership::default());
            let lease = lease(&in_use.borrow(), identity);
            leaders.spawn(leader::run(lease, tell_leader, until(flushed.subscribe())));
            monitors.spawn(monitor::take_turns(
                in_use.clone(),
                bus.clone(),
                monitor_settings(&settings),
                tell_monitor,
                leadership.clone(),
                stopped.clone(),
            ));
            registrations.push((in_use.clone(), tell_registry));
            services.push(Served { in_use, tokens: tokens.clone(), monitor, registry, leadership });
        }
        let api = Arc::new(Api::new(services, cluster, revisions.clone(), doors.standings(), told));
        Ok(Self {
            api,
            doors,
            bus,
            settings,
            monitors,
            leaders,
            flushed,
            registrations,
            reload,
            revisions,
            stopping,
            stop,
        })
    }

    /// HTTP first, then the registry; at the end HTTP drains, then the monitors flush.
    async fn until_asked_to_end(mut self, listener: TcpListener) -> Result<(), StartError> {
        let limits = limits(&self.settings);
        let Doors { access, tls } = self.doors.clone();
        let service = http::service(self.api.clone(), access, &limits);
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, tls = tls.is_some(), "serving");
        }
        self.doors.warn(&self.settings);
        let mut looking = JoinSet::new();
        looking.spawn(self.doors.clone().look());
        let server = tokio::spawn(http::run(listener, tls, service, limits, until(self.stop.subscribe())));
        let registrations = std::mem::take(&mut self.registrations);
        let mut registering = register(registrations, &self.settings, &self.stop);
        let reloading = tokio::spawn(self.reload.run(until(self.stop.subscribe())));
        let ended = tokio::select! {
            signal = asked_to_end() => signal.map(|name| tracing::info!(name, "asked to end")),
            // No monitor ends by itself: a dead one is a reason to end, since nothing would be reported.
            Some(ended) = self.monitors.join_next() => Err(format!("a monitor ended: {ended:?}")),
        };
        self.stopping.send_replace(true);
        if ended.is_ok() {
            tokio::time::sleep(self.settings.server.shutdown_delay).await;
        }
        self.stop.send_replace(true);
        let _ = server.await;
        while self.monitors.join_next().await.is_some() {}
        self.flushed.send_replace(true);
        while self.leaders.join_next().await.is_some() {}
        // Each ends with its own deadline once it is told to.
        while registering.join_next().await.is_some() {}
        // It holds the watches, which the monitors needed to the last.
        let _ = reloading.await;
        looking.shutdown().await;
        self.bus.close().await;
        ended.map_err(StartError::Other)
    }
}

fn register(
    registrations: Vec<(InUse, watch::Sender<RegistryState>)>,
    settings: &Arc<Settings>,
    stop: &watch::Sender<bool>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let Some(base_url) = settings.registry.url.clone() else { return tasks };
    let Registry { interval, deregister, .. } = settings.registry;
    let terms = Terms { base_url, interval, deregister };
    for (in_use, state) in registrations {
        tasks.spawn(keep_registered(in_use, settings.clone(), terms.clone(), state, stop.subscribe()));
    }
    tasks
}

/// What a mapping says of itself to the registry may be another thing in its next revision.
async fn keep_registered(
    mut in_use: InUse,
    settings: Arc<Settings>,
    terms: Terms,
    state: watch::Sender<RegistryState>,
    stopped: watch::Receiver<bool>,
) {
    loop {
        let Some(body) = registration(&settings, &in_use.borrow_and_update().service) else { return };
        let (said, stop) = (body.clone(), until(stopped.clone()));
        tokio::select! {
            () = registry::run(body, &terms, state.clone(), stop) => return,
            () = says_another(&mut in_use, &settings, &said) => {}
        }
    }
}

async fn says_another(in_use: &mut InUse, settings: &Settings, said: &Registration) {
    let other = |provider: &Arc<Provider>| {
        registration(settings, &provider.service).is_some_and(|registration| registration != *said)
    };
    if in_use.wait_for(other).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ends when the flag is raised; a sender that is gone means the same.
async fn until(mut flag: watch::Receiver<bool>) {
    let _ = flag.wait_for(|raised| *raised).await;
}

/// Who this process is among replicas: the host and the address it listens on, which no two share.
fn identity(listener: &TcpListener) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
    format!("{}/{address}", host.trim())
}

fn lease(provider: &Provider, identity: &str) -> Lease {
    let name = dns_label(&format!("dcm-{}-{}", provider.service.service_type, provider.name));
    Lease::new(provider.cluster.clone(), provider.namespace.clone(), name, identity, leader::LEASE)
}

fn monitor_settings(settings: &Settings) -> MonitorSettings {
    MonitorSettings {
        window: settings.monitor.window,
        bucket: settings.ledger.bucket.clone(),
        state_directory: settings.ledger.state_directory.clone(),
        shutdown_timeout: settings.server.shutdown_timeout,
    }
}

fn limits(settings: &Settings) -> Limits {
    let server = &settings.server;
    let base = Limits::default();
    Limits {
        request: server.request_timeout,
        drain: server.shutdown_timeout,
        // However long bodies may take, a head is a few lines.
        header_read: server.read_timeout.unwrap_or(base.header_read).min(base.header_read),
        body_read: server.read_timeout,
        write: server.write_timeout,
        idle: server.idle_timeout,
        ..base
    }
}

fn registration(settings: &Settings, service: &Service) -> Option<Registration> {
    let provider = provider_settings(settings, service)?;
    let registry = &settings.registry;
    let resources = Resources {
        total_cpu: registry.total_cpu.clone(),
        total_memory: registry.total_memory.clone(),
        total_storage: registry.total_storage.clone(),
    };
    let metadata = Metadata {
        region_code: registry.region.clone(),
        zone: registry.zone.clone(),
        resources: (resources != Resources::default()).then_some(resources),
    };
    Some(Registration {
        name: provider.name.clone(),
        display_name: provider.display_name.clone(),
        service_type: service.service_type.clone(),
        schema_version: service.schema_version.clone(),
        endpoint: format!("{}/api/v1alpha1/{}", provider.endpoint.trim_end_matches('/'), service.collection),
        operations: service.operations.iter().map(|operation| operation.word().to_owned()).collect(),
        metadata: (metadata != Metadata::default()).then_some(metadata),
    })
}

/// Ends when the process is asked to end, with the name of the signal.
async fn asked_to_end() -> Result<&'static str, String> {
    let told = |error: std::io::Error| format!("signals cannot be received: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(told)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(told)?;
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}
