//! From text to [`Settings`], part by part, in the order in which the faults are shown.

use super::file::ProviderFile;
use super::table::{self, Setting};
use super::{
    Access, Bus, Cluster, Fault, Held, Ledger, ListenAddress, Monitor, Registry, Requests, Server, ServerTls,
    Settings, SignIn, Sources, Traces,
};
use super::{form, providers};

/// What to do where nobody has to prove who calls.
const WAYS: &str = "set SP_SERVER_TLS_CERT and SP_SERVER_TLS_KEY with SP_SERVER_TLS_CLIENT_CA, \
                    SP_SERVER_TOKENS_FILE or SP_SERVER_TOKEN_REVIEW; listen on 127.0.0.1; or, where something \
                    else keeps strangers out, set it to true";
const WAYS_OVER_TLS: &str = "set SP_SERVER_TLS_CLIENT_CA, SP_SERVER_TOKENS_FILE or SP_SERVER_TOKEN_REVIEW; or, \
                             where something else keeps strangers out, set it to true";

/// Reads one part after the other and collects what is wrong on the way.
pub(super) struct Reader<'a> {
    pub(super) sources: &'a Sources<'a>,
    pub(super) file: &'a ProviderFile,
    pub(super) faults: Vec<Fault>,
}

impl Reader<'_> {
    /// None only together with a fault. Each part is read before the first of them is missed.
    pub(super) fn settings(&mut self) -> Option<Settings> {
        let server = self.server();
        let providers = providers::read(self);
        let registry = self.registry();
        let bus = self.bus();
        let cluster = self.cluster();
        let monitor = self.monitor();
        let ledger = self.ledger();
        let requests = self.requests();
        let traces = Traces { url: self.get("SP_TRACES_URL", form::http_url) };
        Some(Settings {
            server: server?,
            cluster: cluster?,
            bus,
            ledger: ledger?,
            registry: registry?,
            monitor: monitor?,
            requests: requests?,
            traces,
            providers,
        })
    }

    fn server(&mut self) -> Option<Server> {
        let address = self.get("SP_SERVER_ADDRESS", form::listen_address);
        let shutdown_delay = self.get("SP_SERVER_SHUTDOWN_DELAY", form::duration);
        let shutdown_timeout = self.get("SP_SERVER_SHUTDOWN_TIMEOUT", form::duration);
        let request_timeout = self.get("SP_SERVER_REQUEST_TIMEOUT", form::positive_duration);
        let mut limit = |env| self.get(env, form::duration).filter(|limit| !limit.is_zero());
        let (read_timeout, write_timeout, idle_timeout) = (
            limit("SP_SERVER_READ_TIMEOUT"),
            limit("SP_SERVER_WRITE_TIMEOUT"),
            limit("SP_SERVER_IDLE_TIMEOUT"),
        );
        let tls = self.tls();
        let access = self.access(address.as_ref(), tls.as_ref());
        Some(Server {
            address: address?,
            shutdown_delay: shutdown_delay?,
            shutdown_timeout: shutdown_timeout?,
            request_timeout: request_timeout?,
            read_timeout,
            write_timeout,
            idle_timeout,
            tls,
            access: access?,
        })
    }

    fn tls(&mut self) -> Option<ServerTls> {
        let certificate = self.get("SP_SERVER_TLS_CERT", form::path);
        let key = self.get("SP_SERVER_TLS_KEY", form::path);
        let client_authority = self.get("SP_SERVER_TLS_CLIENT_CA", form::path);
        self.require_pair("SP_SERVER_TLS_CERT", certificate.is_some(), "SP_SERVER_TLS_KEY", key.is_some());
        if client_authority.is_some() && certificate.is_none() && key.is_none() {
            let what = "is not set, but SP_SERVER_TLS_CLIENT_CA is";
            let help =
                "certificates of clients need TLS: set SP_SERVER_TLS_CERT and SP_SERVER_TLS_KEY as well";
            self.faults.push(Fault::new("SP_SERVER_TLS_CERT", what, help));
        }
        Some(ServerTls { certificate: certificate?, key: key?, client_authority })
    }

    fn access(&mut self, address: Option<&ListenAddress>, tls: Option<&ServerTls>) -> Option<Access> {
        let names = self.get("SP_SERVER_TLS_CLIENT_NAMES", form::words);
        let authority = self.raw(table::row("SP_SERVER_TLS_CLIENT_CA")).is_some();
        self.require_pair(
            "SP_SERVER_TLS_CLIENT_CA",
            authority,
            "SP_SERVER_TLS_CLIENT_NAMES",
            self.raw(table::row("SP_SERVER_TLS_CLIENT_NAMES")).is_some(),
        );
        let audiences = self.get("SP_SERVER_TOKEN_AUDIENCES", form::words);
        let tokens_file = self.get("SP_SERVER_TOKENS_FILE", form::path);
        let token_review = self.get("SP_SERVER_TOKEN_REVIEW", form::boolean);
        let allow_unauthenticated = self.get("SP_SERVER_ALLOW_UNAUTHENTICATED", form::boolean);
        if audiences.is_some() && token_review != Some(true) {
            let what = "is set, but SP_SERVER_TOKEN_REVIEW is not true";
            let help = "set that to true, or remove this";
            self.faults.push(Fault::new("SP_SERVER_TOKEN_AUDIENCES", what, help));
        }
        let access = Access {
            client_names: names.map(|names| if names == ["*"] { Vec::new() } else { names }),
            tokens_file,
            token_review: token_review?,
            token_audiences: audiences.unwrap_or_default(),
            allow_unauthenticated: allow_unauthenticated?,
        };
        let address = address.filter(|address| !address.is_loopback());
        let needed = self.sources.complete && !access.proves() && !access.allow_unauthenticated;
        if let Some(address) = address.filter(|_| needed) {
            let what = format!("is not set, and on {address} everybody who reaches it could call");
            let help = if tls.is_some() { WAYS_OVER_TLS } else { WAYS };
            self.faults.push(Fault::new("SP_SERVER_ALLOW_UNAUTHENTICATED", what, help));
        }
        Some(access)
    }

    fn cluster(&mut self) -> Option<Cluster> {
        let kubeconfig = self.get("SP_K8S_KUBECONFIG", form::path);
        let namespace = self.get("SP_K8S_NAMESPACE", form::dns_label);
        let adopt_unnamed = self.get("SP_ADOPT_UNNAMED", form::boolean);
        let streaming_lists = self.get("SP_K8S_STREAMING_LISTS", form::boolean);
        Some(Cluster {
            kubeconfig,
            namespace: namespace?,
            adopt_unnamed: adopt_unnamed?,
            streaming_lists: streaming_lists?,
        })
    }

    fn bus(&mut self) -> Bus {
        let servers = match self.sources.complete {
            true => self.require("SP_NATS_URL", form::nats_servers),
            false => self.get("SP_NATS_URL", form::nats_servers),
        };
        let bus = Bus {
            servers: servers.unwrap_or_default(),
            sign_in: self.sign_in(),
            tls_authority: self.get("SP_NATS_TLS_CA", form::path),
            tls_certificate: self.get("SP_NATS_TLS_CERT", form::path),
            tls_key: self.get("SP_NATS_TLS_KEY", form::path),
        };
        self.require_pair(
            "SP_NATS_TLS_CERT",
            bus.tls_certificate.is_some(),
            "SP_NATS_TLS_KEY",
            bus.tls_key.is_some(),
        );
        bus
    }

    fn sign_in(&mut self) -> SignIn {
        let token = self.secret("SP_NATS_TOKEN", "SP_NATS_TOKEN_FILE").map(SignIn::Token);
        let user = self.get("SP_NATS_USER", form::text);
        let password = self.secret("SP_NATS_PASSWORD", "SP_NATS_PASSWORD_FILE");
        self.require_pair("SP_NATS_USER", user.is_some(), "SP_NATS_PASSWORD", password.is_some());
        let user = user.zip(password).map(|(name, password)| SignIn::User { name, password });
        let nkey = self.get("SP_NATS_NKEY_FILE", form::path).map(SignIn::Nkey);
        let credentials = self.get("SP_NATS_CREDENTIALS_FILE", form::path).map(SignIn::Credentials);
        let ways = [
            ("SP_NATS_TOKEN", token),
            ("SP_NATS_USER", user),
            ("SP_NATS_NKEY_FILE", nkey),
            ("SP_NATS_CREDENTIALS_FILE", credentials),
        ];
        let mut ways = ways.into_iter().filter_map(|(name, way)| Some((name, way?)));
        let Some((name, way)) = ways.next() else { return SignIn::Url };
        if ways.next().is_some() {
            let help = "keep one of SP_NATS_TOKEN, SP_NATS_USER with SP_NATS_PASSWORD, SP_NATS_NKEY_FILE, \
                        SP_NATS_CREDENTIALS_FILE";
            self.faults.push(Fault::new(name, "is one of several ways to sign in that are set", help));
        }
        way
    }

    /// A secret that stands in a variable or, better, in a file.
    fn secret(&mut self, here: &str, file: &str) -> Option<Held> {
        let secret = self.get(here, form::secret).map(Held::Here);
        let path = self.get(file, form::path).map(Held::File);
        if secret.is_some() && path.is_some() {
            let what = format!("is set, and so is {file}");
            self.faults.push(Fault::new(here, what, "keep one of them"));
        }
        secret.or(path)
    }

    fn ledger(&mut self) -> Option<Ledger> {
        let bucket = self.get("SP_LEDGER_BUCKET", form::bucket_name);
        let state_directory = self.get("SP_STATE_DIRECTORY", form::path);
        Some(Ledger { bucket: bucket?, state_directory: state_directory? })
    }

    fn registry(&mut self) -> Option<Registry> {
        let url = match self.sources.complete {
            true => self.require("DCM_REGISTRATION_URL", form::http_url),
            false => self.get("DCM_REGISTRATION_URL", form::http_url),
        };
        let interval = self.get("SP_REGISTRATION_INTERVAL", form::positive_duration);
        let deregister = self.get("SP_DEREGISTER", form::boolean);
        Some(Registry {
            url,
            region: self.get("SP_REGION", form::text),
            zone: self.get("SP_ZONE", form::text),
            total_cpu: self.get("SP_RESOURCES_TOTAL_CPU", form::text),
            total_memory: self.get("SP_RESOURCES_TOTAL_MEMORY", form::text),
            total_storage: self.get("SP_RESOURCES_TOTAL_STORAGE", form::text),
            interval: interval?,
            deregister: deregister?,
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
        Some(Requests { find_by_name: find_by_name?, id_from: id_from? })
    }

    /// A setting of the table, in the form that it must have. None: not set, or wrong and named.
    pub(super) fn get<T>(&mut self, env: &str, form: fn(&str) -> Result<T, String>) -> Option<T> {
        let setting = table::row(env);
        let (text, place) = self.raw(setting)?;
        match form(&text) {
            Ok(value) => Some(value),
            Err(what) => {
                self.faults.push(Fault::new(env, what, format!("set it to {}", setting.form)).at(place));
                None
            }
        }
    }

    pub(super) fn require<T>(&mut self, env: &str, form: fn(&str) -> Result<T, String>) -> Option<T> {
        if self.raw(table::row(env)).is_none() {
            self.faults.push(Fault::missing(env));
        }
        self.get(env, form)
    }

    /// The environment goes before the file, the file before the default; an empty variable is not set.
    pub(super) fn raw(&self, setting: &Setting) -> Option<(String, Option<String>)> {
        if let Some(text) = self.variable(setting.env) {
            return Some((text, None));
        }
        if let Some(leaf) = self.file.process.get(setting.key) {
            return Some((leaf.text(), Some(self.file.place(leaf.line))));
        }
        setting.default.map(|text| (text.to_owned(), None))
    }

    pub(super) fn variable(&self, env: &str) -> Option<String> {
        (self.sources.environment)(env).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn require_pair(&mut self, first: &str, has_first: bool, second: &str, has_second: bool) {
        let (lacking, present) = match (has_first, has_second) {
            (true, false) => (second, first),
            (false, true) => (first, second),
            _ => return,
        };
        self.faults.push(Fault::new(lacking, format!("is not set, but {present} is"), "set both or neither"));
    }
}
