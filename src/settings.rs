//! Environment and file become [`Settings`]: the only room that is given the environment.
//!
//! Reading never acts: nothing is opened, connected or looked up, so every fault can be named at once,
//! before anything listens.

mod fault;
mod file;
mod form;
mod print;
mod providers;
mod reader;
mod schema;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

pub use fault::{Fault, Faults};
pub use form::ListenAddress;
pub use schema::schema;
pub use table::{SETTINGS, Setting};

use file::ProviderFile;
use reader::Reader;

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
    pub traces: Traces,
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
    /// How long requests are still taken after the process was asked to end, and says that it is not ready.
    pub shutdown_delay: Duration,
    pub shutdown_timeout: Duration,
    pub request_timeout: Duration,
    /// None, here and below, is Go's zero: no limit.
    pub read_timeout: Option<Duration>,
    pub write_timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub tls: Option<ServerTls>,
    pub access: Access,
}

/// PEM files for TLS of the server.
#[derive(Debug, Clone)]
pub struct ServerTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_authority: Option<PathBuf>,
}

/// Who may call. Without any way to prove who one is, everybody may.
#[derive(Debug, Clone)]
pub struct Access {
    /// Names in certificates of clients; empty where every certificate of the authority will do.
    pub client_names: Option<Vec<String>>,
    pub tokens_file: Option<PathBuf>,
    pub token_review: bool,
    pub token_audiences: Vec<String>,
    pub allow_unauthenticated: bool,
}

#[derive(Debug, Clone)]
pub struct Cluster {
    /// None means the usual rules: `KUBECONFIG`, the home directory, then the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    pub namespace: String,
    /// Whether objects that carry no provider's name are taken for this provider's.
    pub adopt_unnamed: bool,
    /// Whether watches may begin with what is there.
    pub streaming_lists: bool,
}

#[derive(Debug, Clone)]
pub struct Bus {
    /// URLs; each may hold a password. Empty where there is no bus.
    pub servers: Vec<Secret>,
    pub sign_in: SignIn,
    pub tls_authority: Option<PathBuf>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

/// How the process proves to NATS who it is. Files are read at each connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignIn {
    /// By what stands in the URLs, if anything does.
    Url,
    Token(Held),
    User {
        name: String,
        password: Held,
    },
    Nkey(PathBuf),
    Credentials(PathBuf),
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Here(Secret),
    File(PathBuf),
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
    /// Whether the registration is taken back when the process ends.
    pub deregister: bool,
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

#[derive(Debug, Clone)]
pub struct Traces {
    /// The collector's base, without a slash at the end. None where no spans are sent.
    pub url: Option<String>,
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
        Self::and_print(sources).map(|(settings, _)| settings)
    }

    /// What [`Settings::read`] reads, written as a provider.toml that says where each setting comes from. No
    /// secret is in it.
    pub fn print(sources: &Sources<'_>) -> Result<String, Faults> {
        Self::and_print(sources).map(|(_, text)| text)
    }

    fn and_print(sources: &Sources<'_>) -> Result<(Self, String), Faults> {
        let mut faults = Vec::new();
        let file = sources
            .file
            .map_or_else(ProviderFile::default, |(name, text)| ProviderFile::parse(name, text, &mut faults));
        let mut reader = Reader { sources, file: &file, faults };
        let settings = reader.settings();
        // Two mappings that want the same variable would otherwise complain twice.
        let mut named: Vec<Fault> = Vec::new();
        for fault in std::mem::take(&mut reader.faults) {
            if !named.contains(&fault) {
                named.push(fault);
            }
        }
        match settings {
            Some(settings) if named.is_empty() => {
                let text = print::print(&reader, &settings.providers);
                Ok((settings, text))
            }
            _ => Err(Faults(named)),
        }
    }
}

// === impl Access ===

impl Access {
    /// Whether there is a way to prove who one is.
    pub fn proves(&self) -> bool {
        self.client_names.is_some() || self.tokens_file.is_some() || self.token_review
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
