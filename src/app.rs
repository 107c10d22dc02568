//! The only wiring: reads, builds, spawns, and ends everything in order.

mod dev;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::{Api, Served};
use crate::bus::{Bus, Credentials, Options, Tls};
use crate::cluster::{Cluster, ConnectOptions, Lease, RecordStore, Watches};
use crate::engine::diagnostic::Findings;
use crate::engine::format::SettingKind;
use crate::engine::names::dns_label;
use crate::engine::service::Service;
use crate::files::{MappingRoot, Unreadable};
use crate::http::{self, Limits};
use crate::kinds;
use crate::leader::{self, Leadership};
use crate::monitor::{self, MonitorSettings, MonitorState};
use crate::provider::{Parts, Provider};
use crate::provision::{KEY_MARKER, PageTokens, Provisioner};
use crate::registry::{self, Metadata, Registration, RegistryState, Resources};
use crate::settings::{self, DeclaredSetting, Faults, IdFrom, ProviderSettings, Secret, Settings, Sources};

/// No call to the API server takes longer than this, whatever a request may take.
const LONGEST_CALL: Duration = Duration::from_secs(10);

pub use dev::{Dev, DevOptions};

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
    Mappings(Findings),
    UnknownType { name: String, known: Vec<String> },
    Settings(Faults),
    Other(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Mappings(findings) => findings.fmt(f),
            Self::UnknownType { name, known } => {
                write!(f, "there is no mapping for `{name}`; there are: {}", known.join(", "))
            }
            Self::Settings(faults) => faults.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Serves until the process is asked to end.
pub async fn serve(
    options: ServeOptions,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), StartError> {
    let services = load(&options)?;
    let settings = read_settings(&options, &services, environment, true)?;
    let cluster = connect_cluster(&settings).await?;
    let bus = connect_bus(&settings).await?;
    let resync = settings.monitor.resync_period;
    let parts: Vec<Parts> =
        services.into_iter().filter_map(|service| parts(service, &settings, &cluster)).collect();
    let watches = Watches::start(&cluster, parts.iter().flat_map(|parts| parts.watches(resync)));
    let listener = listen(&settings).await?;
    let identity = identity(&listener);
    let running = Running::start(parts, watches, bus, cluster, &settings, &identity)?;
    running.until_asked_to_end(listener, &settings).await
}

fn load(options: &ServeOptions) -> Result<Vec<Arc<Service>>, StartError> {
    let root = MappingRoot::at(&options.root);
    let files = root.read().map_err(StartError::Unreadable)?;
    let known = root.types().map_err(StartError::Unreadable)?;
    let wanted = if options.types.is_empty() { &known } else { &options.types };
    let mut findings = Findings::default();
    let kinds = kinds::of(&files, &mut findings);
    let mut services = Vec::new();
    for name in wanted {
        if !known.contains(name) {
            return Err(StartError::UnknownType { name: name.clone(), known });
        }
        match Service::load(&files, name, &kinds) {
            Ok(service) => services.push(Arc::new(service)),
            Err(found) => findings.append(found),
        }
    }
    if findings.is_empty() { Ok(services) } else { Err(StartError::Mappings(findings)) }
}

fn read_settings(
    options: &ServeOptions,
    services: &[Arc<Service>],
    environment: &dyn Fn(&str) -> Option<String>,
    complete: bool,
) -> Result<Settings, StartError> {
    let file = match &options.config {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let unreadable = |error| StartError::Unreadable(Unreadable { path: path.clone(), error });
            Some((path.display().to_string(), text.map_err(unreadable)?))
        }
    };
    let types: Vec<String> = services.iter().map(|service| service.service_type.clone()).collect();
    let declared: Vec<DeclaredSetting> = services.iter().flat_map(|service| declared(service)).collect();
    let sources = Sources {
        environment,
        file: file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        service_types: &types,
        declared: &declared,
        complete,
    };
    Settings::read(&sources).map_err(StartError::Settings)
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
    };
    let connected = Cluster::connect(options).await;
    connected.map_err(|refusal| StartError::Other(format!("SP_K8S_KUBECONFIG: {}", refusal.message)))
}

async fn connect_bus(settings: &Settings) -> Result<Bus, StartError> {
    let bus = &settings.bus;
    let credentials = match (&bus.credentials_file, &bus.token, &bus.user, &bus.password) {
        (Some(file), ..) => Credentials::File(file.clone()),
        (_, Some(token), ..) => Credentials::Token(token.reveal().to_owned()),
        (_, _, Some(user), Some(password)) => {
            Credentials::UserPassword { user: user.clone(), password: password.reveal().to_owned() }
        }
        _ => Credentials::Url,
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

fn provider_settings<'s>(settings: &'s Settings, service: &Service) -> Option<&'s ProviderSettings> {
    settings.providers.iter().find(|provider| provider.service_type == service.service_type)
}

fn parts(service: Arc<Service>, settings: &Settings, cluster: &Cluster) -> Option<Parts> {
    let provider = provider_settings(settings, &service)?;
    Some(Parts {
        name: provider.name.clone(),
        namespace: settings.cluster.namespace.clone(),
        settings: provider.values.clone().into_iter().collect(),
        cluster: cluster.clone(),
        request_timeout: settings.server.request_timeout,
        find_by_name: settings.requests.find_by_name,
        id_from_key: settings.requests.id_from == IdFrom::IdempotencyKey,
        adopts: settings.cluster.adopt_unnamed,
        service,
    })
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
    bus: Bus,
    monitors: JoinSet<()>,
    /// They give their leases up when the monitors have flushed.
    leaders: JoinSet<()>,
    flushed: watch::Sender<bool>,
    registrations: Vec<(Registration, watch::Sender<RegistryState>)>,
    stop: watch::Sender<bool>,
}

impl Running {
    fn start(
        parts: Vec<Parts>,
        watches: Watches,
        bus: Bus,
        cluster: Cluster,
        settings: &Settings,
        identity: &str,
    ) -> Result<Self, StartError> {
        let (stop, stopped) = watch::channel(false);
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
        for parts in parts {
            let provider = parts.build(&watches).map(Arc::new);
            let Some(provider) = provider else {
                return Err(StartError::Other("a watch of a mapping was not started".to_owned()));
            };
            let (tell_monitor, monitor) = watch::channel(MonitorState::default());
            let (tell_registry, registry) = watch::channel(RegistryState::default());
            let (tell_leader, leadership) = watch::channel(Leadership::default());
            leaders.spawn(leader::run(lease(&provider, identity), tell_leader, until(flushed.subscribe())));
            monitors.spawn(monitor::take_turns(
                provider.clone(),
                bus.clone(),
                monitor_settings(settings),
                tell_monitor,
                leadership.clone(),
                stopped.clone(),
            ));
            registrations.extend(registration(settings, &provider.service).map(|body| (body, tell_registry)));
            let provisioner = Provisioner { provider, tokens: tokens.clone() };
            services.push(Served { provisioner, monitor, registry, leadership });
        }
        let api = Arc::new(Api::new(services, cluster, Arc::new(watches)));
        Ok(Self { api, bus, monitors, leaders, flushed, registrations, stop })
    }

    /// HTTP first, then the registry; at the end HTTP drains, then the monitors flush.
    async fn until_asked_to_end(
        mut self,
        listener: TcpListener,
        settings: &Settings,
    ) -> Result<(), StartError> {
        let limits = limits(settings);
        let service = http::service(self.api.clone(), &limits);
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "serving");
        }
        let server = tokio::spawn(http::run(listener, service, limits, until(self.stop.subscribe())));
        let mut registering = self.register(settings);
        let ended = tokio::select! {
            signal = asked_to_end() => signal.map(|name| tracing::info!(name, "asked to end")),
            // No monitor ends by itself: a dead one is a reason to end, since nothing would be reported.
            Some(ended) = self.monitors.join_next() => Err(format!("a monitor ended: {ended:?}")),
        };
        self.stop.send_replace(true);
        let _ = server.await;
        while self.monitors.join_next().await.is_some() {}
        self.flushed.send_replace(true);
        while self.leaders.join_next().await.is_some() {}
        registering.shutdown().await;
        self.bus.close().await;
        ended.map_err(StartError::Other)
    }

    fn register(&mut self, settings: &Settings) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let Some(url) = settings.registry.url.clone() else { return tasks };
        for (body, state) in self.registrations.drain(..) {
            let (url, interval) = (url.clone(), settings.registry.interval);
            let stopped = until(self.stop.subscribe());
            tasks.spawn(async move { registry::run(body, &url, interval, state, stopped).await });
        }
        tasks
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
        body_read: server.read_timeout.unwrap_or(base.body_read),
        idle: server.idle_timeout.unwrap_or(base.idle),
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
