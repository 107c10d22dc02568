//! Environment and file become [`Settings`]: the only room that is given the environment.
//!
//! Reading never acts: nothing is opened, connected or looked up, so every fault can be named at once,
//! before anything listens.

mod fault;
mod file;
mod form;
mod providers;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

pub use fault::{Fault, Faults};
pub use form::ListenAddress;
pub use table::{SETTINGS, Setting};

use file::ProviderFile;

/// Everything that a process is told from outside.
#[derive(Debug, Clone)]
pub struct Settings {
    pub server: Server,
    pub cluster: Cluster,
    pub bus: Bus,
    pub ledger: Ledger,
    pub registry: Registry,
    pub monitor: Monitor,
    pub requests: Requests,
    pub providers: Vec<ProviderSettings>,
}

/// What [`Settings::read`] reads from.
pub struct Sources<'a> {
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Name and text of `provider.toml`, where one is given.
    pub file: Option<(&'a str, &'a str)>,
    /// The types of the command line; each that has no table in the file is provided under `SP_NAME`.
    pub service_types: &'a [String],
    /// What the mappings want to be told.
    pub declared: &'a [DeclaredSetting],
    /// Whether what DCM needs must be there: so for `serve`, not so for `dev`.
    pub complete: bool,
}

#[derive(Debug, Clone)]
pub struct Server {
    pub address: ListenAddress,
    pub shutdown_timeout: Duration,
    pub request_timeout: Duration,
    /// None, here and below, is Go's zero: no limit.
    pub read_timeout: Option<Duration>,
    pub write_timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct Cluster {
    /// None means the usual rules: `KUBECONFIG`, the home directory, then the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    pub namespace: String,
    /// Whether objects that carry no provider's name are taken for this provider's.
    pub adopt_unnamed: bool,
}

#[derive(Debug, Clone)]
pub struct Bus {
    /// URLs; each may hold a password. Empty where there is no bus.
    pub servers: Vec<Secret>,
    pub token: Option<Secret>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub credentials_file: Option<PathBuf>,
    pub tls_authority: Option<PathBuf>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct Ledger {
    pub bucket: String,
    pub state_directory: PathBuf,
}

#[derive(Debug, Clone)]
pub struct Registry {
    /// With the API prefix, without a slash at the end. None where there is no registry.
    pub url: Option<String>,
    pub interval: Duration,
    pub region: Option<String>,
    pub zone: Option<String>,
    pub total_cpu: Option<String>,
    pub total_memory: Option<String>,
    pub total_storage: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Monitor {
    pub window: Duration,
    pub resync_period: Duration,
    /// Accepted for the sake of existing deployments; delivery is retried until it is acknowledged.
    pub publish_max_attempts: u64,
}

#[derive(Debug, Clone)]
pub struct Requests {
    pub find_by_name: bool,
    pub id_from: IdFrom,
}

/// Where an instance gets its id when the caller names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdFrom {
    Random,
    IdempotencyKey,
}

/// One service type under one provider's name.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    pub service_type: String,
    pub name: String,
    pub display_name: Option<String>,
    /// The base of the REST surface as DCM reaches it, without a slash at the end.
    pub endpoint: String,
    /// The values of the settings that the mapping declares, by their names.
    pub values: BTreeMap<String, Value>,
}

/// A setting that a mapping declares.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredSetting {
    pub service_type: String,
    pub name: String,
    pub env: String,
    pub kind: Kind,
    /// Empty means that every value of the kind will do.
    pub allowed: Vec<String>,
    pub default: Option<Value>,
    pub required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    String,
    Integer,
    Boolean,
    Number,
}

/// A text that no log, problem or debug line may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

// === impl Settings ===

impl Settings {
    /// Reads everything, or names everything that is wrong.
    pub fn read(sources: &Sources<'_>) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let file = sources.file.map_or_else(ProviderFile::default, |(name, text)| {
            ProviderFile::parse(name, text, &mut faults)
        });
        let mut reader = Reader {
            sources,
            file: &file,
            faults,
        };
        let settings = reader.settings();
        // Two mappings that want the same variable would otherwise complain twice.
        let mut named: Vec<Fault> = Vec::new();
        for fault in reader.faults {
            if !named.contains(&fault) {
                named.push(fault);
            }
        }
        match settings {
            Some(settings) if named.is_empty() => Ok(settings),
            _ => Err(Faults(named)),
        }
    }
}

// === impl Secret ===

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}

// === reading ===

struct Reader<'a> {
    sources: &'a Sources<'a>,
    file: &'a ProviderFile,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    /// None only together with a fault. Each part is read before the first of them is missed.
    fn settings(&mut self) -> Option<Settings> {
        let server = self.server();
        let providers = providers::read(self);
        let registry = self.registry();
        let bus = self.bus();
        let cluster = self.cluster();
        let monitor = self.monitor();
        let ledger = self.ledger();
        let requests = self.requests();
        Some(Settings {
            server: server?,
            cluster: cluster?,
            bus,
            ledger: ledger?,
            registry: registry?,
            monitor: monitor?,
            requests: requests?,
            providers,
        })
    }

    fn server(&mut self) -> Option<Server> {
        let address = self.get("SP_SERVER_ADDRESS", form::listen_address);
        let shutdown_timeout = self.get("SP_SERVER_SHUTDOWN_TIMEOUT", form::duration);
        let request_timeout = self.get("SP_SERVER_REQUEST_TIMEOUT", form::positive_duration);
        let mut limit = |env| self.get(env, form::duration).filter(|limit| !limit.is_zero());
        let (read_timeout, write_timeout, idle_timeout) = (
            limit("SP_SERVER_READ_TIMEOUT"),
            limit("SP_SERVER_WRITE_TIMEOUT"),
            limit("SP_SERVER_IDLE_TIMEOUT"),
        );
        Some(Server {
            address: address?,
            shutdown_timeout: shutdown_timeout?,
            request_timeout: request_timeout?,
            read_timeout,
            write_timeout,
            idle_timeout,
        })
    }

    fn cluster(&mut self) -> Option<Cluster> {
        let kubeconfig = self.get("SP_K8S_KUBECONFIG", form::path);
        let namespace = self.get("SP_K8S_NAMESPACE", form::dns_label);
        let adopt_unnamed = self.get("SP_ADOPT_UNNAMED", form::boolean);
        Some(Cluster {
            kubeconfig,
            namespace: namespace?,
            adopt_unnamed: adopt_unnamed?,
        })
    }

    fn bus(&mut self) -> Bus {
        let servers = match self.sources.complete {
            true => self.require("SP_NATS_URL", form::nats_servers),
            false => self.get("SP_NATS_URL", form::nats_servers),
        };
        let bus = Bus {
            servers: servers.unwrap_or_default(),
            token: self.get("SP_NATS_TOKEN", form::secret),
            user: self.get("SP_NATS_USER", form::text),
            password: self.get("SP_NATS_PASSWORD", form::secret),
            credentials_file: self.get("SP_NATS_CREDENTIALS_FILE", form::path),
            tls_authority: self.get("SP_NATS_TLS_CA", form::path),
            tls_certificate: self.get("SP_NATS_TLS_CERT", form::path),
            tls_key: self.get("SP_NATS_TLS_KEY", form::path),
        };
        self.require_pair(
            "SP_NATS_USER",
            bus.user.is_some(),
            "SP_NATS_PASSWORD",
            bus.password.is_some(),
        );
        self.require_pair(
            "SP_NATS_TLS_CERT",
            bus.tls_certificate.is_some(),
            "SP_NATS_TLS_KEY",
            bus.tls_key.is_some(),
        );
        let ways = [
            bus.token.is_some(),
            bus.user.is_some(),
            bus.credentials_file.is_some(),
        ];
        if ways.into_iter().filter(|given| *given).count() > 1 {
            let what = "is one of several ways to sign in that are set";
            let help =
                "keep one of SP_NATS_TOKEN, SP_NATS_USER with SP_NATS_PASSWORD, SP_NATS_CREDENTIALS_FILE";
            let named = if bus.token.is_some() {
                "SP_NATS_TOKEN"
            } else {
                "SP_NATS_USER"
            };
            self.faults.push(Fault::new(named, what, help));
        }
        bus
    }

    fn ledger(&mut self) -> Option<Ledger> {
        let bucket = self.get("SP_LEDGER_BUCKET", form::bucket_name);
        let state_directory = self.get("SP_STATE_DIRECTORY", form::path);
        Some(Ledger {
            bucket: bucket?,
            state_directory: state_directory?,
        })
    }

    fn registry(&mut self) -> Option<Registry> {
        let url = match self.sources.complete {
            true => self.require("DCM_REGISTRATION_URL", form::http_url),
            false => self.get("DCM_REGISTRATION_URL", form::http_url),
        };
        let interval = self.get("SP_REGISTRATION_INTERVAL", form::positive_duration);
        Some(Registry {
            url,
            region: self.get("SP_REGION", form::text),
            zone: self.get("SP_ZONE", form::text),
            total_cpu: self.get("SP_RESOURCES_TOTAL_CPU", form::text),
            total_memory: self.get("SP_RESOURCES_TOTAL_MEMORY", form::text),
            total_storage: self.get("SP_RESOURCES_TOTAL_STORAGE", form::text),
            interval: interval?,
        })
    }

    fn monitor(&mut self) -> Option<Monitor> {
        let window = self.get("SP_MONITOR_DEBOUNCE_MS", form::milliseconds);
        let resync_period = self.get("SP_MONITOR_RESYNC_PERIOD", form::positive_duration);
        let publish_max_attempts = self.get("SP_MONITOR_PUBLISH_MAX_ATTEMPTS", form::count);
        Some(Monitor {
            window: window?,
            resync_period: resync_period?,
            publish_max_attempts: publish_max_attempts?,
        })
    }

    fn requests(&mut self) -> Option<Requests> {
        let find_by_name = self.get("SP_FIND_BY_NAME", form::boolean);
        let id_from = self.get("SP_ID_FROM", form::id_from);
        Some(Requests {
            find_by_name: find_by_name?,
            id_from: id_from?,
        })
    }

    /// A setting of the table, in the form that it must have. None: not set, or wrong and named.
    fn get<T>(&mut self, env: &str, form: fn(&str) -> Result<T, String>) -> Option<T> {
        let setting = table::row(env);
        let (text, place) = self.raw(setting)?;
        match form(&text) {
            Ok(value) => Some(value),
            Err(what) => {
                self.faults
                    .push(Fault::new(env, what, format!("set it to {}", setting.form)).at(place));
                None
            }
        }
    }

    fn require<T>(&mut self, env: &str, form: fn(&str) -> Result<T, String>) -> Option<T> {
        if self.raw(table::row(env)).is_none() {
            self.faults.push(Fault::missing(env));
        }
        self.get(env, form)
    }

    /// The environment goes before the file, the file before the default; an empty variable is not set.
    fn raw(&self, setting: &Setting) -> Option<(String, Option<String>)> {
        if let Some(text) = self.variable(setting.env) {
            return Some((text, None));
        }
        if let Some(leaf) = self.file.process.get(setting.key) {
            return Some((leaf.text(), Some(self.file.place(leaf.line))));
        }
        setting.default.map(|text| (text.to_owned(), None))
    }

    fn variable(&self, env: &str) -> Option<String> {
        (self.sources.environment)(env)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    }

    fn require_pair(&mut self, first: &str, has_first: bool, second: &str, has_second: bool) {
        let (lacking, present) = match (has_first, has_second) {
            (true, false) => (second, first),
            (false, true) => (first, second),
            _ => return,
        };
        self.faults.push(Fault::new(
            lacking,
            format!("is not set, but {present} is"),
            "set both or neither",
        ));
    }
}
