//! Every setting of the process, one row each: its variable, its key in provider.toml, its form, its default.

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub env: &'static str,
    /// The dotted key in `provider.toml`.
    pub key: &'static str,
    /// What a value looks like: ends the sentence "set it to ...".
    pub form: &'static str,
    pub default: Option<&'static str>,
    pub about: &'static str,
}

/// The rows, in the order in which the reference shows them.
pub const SETTINGS: &[Setting] = &[
    row_of("SP_NAME", "name", NAME, None, "the provider's name in DCM; `serve` needs it"),
    row_of("SP_DISPLAY_NAME", "display_name", "a text", None, "the provider's name for people"),
    row_of("SP_ENDPOINT", "endpoint", HTTP_URL, None, "where DCM reaches this process; `serve` needs it"),
    row_of(
        "DCM_REGISTRATION_URL",
        "registry.url",
        HTTP_URL,
        None,
        "DCM's registry with its API prefix; `serve` needs it",
    ),
    row_of(
        "SP_REGISTRATION_INTERVAL",
        "registry.interval",
        DURATION,
        Some("60s"),
        "how often the registration is renewed",
    ),
    row_of(
        "SP_DEREGISTER",
        "registry.deregister",
        BOOLEAN,
        Some("false"),
        "whether the registration is taken back when the process ends; not for replicas that share a name",
    ),
    row_of("SP_REGION", "registry.region", "a region code", None, "told to DCM as metadata.region_code"),
    row_of("SP_ZONE", "registry.zone", "a zone", None, "told to DCM as metadata.zone"),
    row_of(
        "SP_RESOURCES_TOTAL_CPU",
        "registry.total_cpu",
        "a text",
        None,
        "told to DCM as metadata.resources.total_cpu",
    ),
    row_of(
        "SP_RESOURCES_TOTAL_MEMORY",
        "registry.total_memory",
        "a text",
        None,
        "told to DCM as metadata.resources.total_memory",
    ),
    row_of(
        "SP_RESOURCES_TOTAL_STORAGE",
        "registry.total_storage",
        "a text",
        None,
        "told to DCM as metadata.resources.total_storage",
    ),
    row_of(
        "SP_NATS_URL",
        "bus.servers",
        NATS_URLS,
        None,
        "NATS servers, any of which may answer; `serve` needs it",
    ),
    row_of("SP_NATS_TOKEN", "bus.token", "a token", None, "signs in to NATS by token"),
    row_of(
        "SP_NATS_TOKEN_FILE",
        "bus.token_file",
        PATH,
        None,
        "signs in to NATS by the token in a file, read at each connect",
    ),
    row_of("SP_NATS_USER", "bus.user", "a user name", None, "signs in to NATS by user and password"),
    row_of("SP_NATS_PASSWORD", "bus.password", "a password", None, "signs in to NATS by user and password"),
    row_of(
        "SP_NATS_PASSWORD_FILE",
        "bus.password_file",
        PATH,
        None,
        "the password of SP_NATS_USER in a file, read at each connect",
    ),
    row_of(
        "SP_NATS_NKEY_FILE",
        "bus.nkey_file",
        PATH,
        None,
        "signs in to NATS by the seed of an nkey in a file, read at each connect",
    ),
    row_of(
        "SP_NATS_CREDENTIALS_FILE",
        "bus.credentials_file",
        PATH,
        None,
        "signs in to NATS by a .creds file, read at each connect",
    ),
    row_of("SP_NATS_TLS_CA", "bus.tls_ca", PATH, None, "PEM file of the authority that NATS is trusted by"),
    row_of(
        "SP_NATS_TLS_CERT",
        "bus.tls_cert",
        PATH,
        None,
        "PEM file of this client's certificate, read at each connect",
    ),
    row_of(
        "SP_NATS_TLS_KEY",
        "bus.tls_key",
        PATH,
        None,
        "PEM file of this client's key, read at each connect",
    ),
    row_of(
        "SP_LEDGER_BUCKET",
        "ledger.bucket",
        "letters, digits, hyphens and underscores",
        Some("mapwright-ledger"),
        "the JetStream key-value bucket of what was delivered",
    ),
    row_of(
        "SP_STATE_DIRECTORY",
        "ledger.state_directory",
        PATH,
        Some("/var/lib/mapwright"),
        "holds the ledger where NATS has no JetStream",
    ),
    row_of(
        "SP_SERVER_ADDRESS",
        "server.address",
        "host:port, or :port for all interfaces",
        Some(":8080"),
        "where HTTP listens",
    ),
    row_of(
        "SP_SERVER_TLS_CERT",
        "server.tls_cert",
        PATH,
        None,
        "PEM file of the server's certificate and those between it and its authority; with it HTTP is served over TLS only",
    ),
    row_of("SP_SERVER_TLS_KEY", "server.tls_key", PATH, None, "PEM file of the key of SP_SERVER_TLS_CERT"),
    row_of(
        "SP_SERVER_TLS_CLIENT_CA",
        "server.tls_client_ca",
        PATH,
        None,
        "PEM file of the authority that certificates of clients are trusted by",
    ),
    row_of(
        "SP_SERVER_TLS_CLIENT_NAMES",
        "server.tls_client_names",
        NAMES,
        None,
        "the names in certificates of clients that may call: DNS names, URIs, else the common name",
    ),
    row_of(
        "SP_SERVER_TOKENS_FILE",
        "server.tokens_file",
        PATH,
        None,
        "a file of bearer tokens that may call, one a line: its SHA-256 and a name",
    ),
    row_of(
        "SP_SERVER_TOKEN_REVIEW",
        "server.token_review",
        BOOLEAN,
        Some("false"),
        "whether bearer tokens that the cluster knows may call, if its rules allow the request",
    ),
    row_of(
        "SP_SERVER_TOKEN_AUDIENCES",
        "server.token_audiences",
        "words separated by commas",
        None,
        "for whom such a token must have been made; by default for the API server",
    ),
    row_of(
        "SP_SERVER_ALLOW_UNAUTHENTICATED",
        "server.allow_unauthenticated",
        BOOLEAN,
        Some("false"),
        "whether everybody may call on an address that is not loopback",
    ),
    row_of(
        "SP_SERVER_SHUTDOWN_DELAY",
        "server.shutdown_delay",
        DELAY,
        Some("0s"),
        "how long a process that was asked to end still serves, and says on /readyz that it is not ready",
    ),
    row_of(
        "SP_SERVER_SHUTDOWN_TIMEOUT",
        "server.shutdown_timeout",
        DURATION,
        Some("15s"),
        "how long a shutdown may take",
    ),
    row_of(
        "SP_SERVER_REQUEST_TIMEOUT",
        "server.request_timeout",
        DURATION,
        Some("30s"),
        "how long one request may take",
    ),
    row_of(
        "SP_SERVER_READ_TIMEOUT",
        "server.read_timeout",
        LIMIT,
        Some("15s"),
        "how long a client may take to send a body; a head has 5s at most",
    ),
    row_of(
        "SP_SERVER_WRITE_TIMEOUT",
        "server.write_timeout",
        LIMIT,
        Some("60s"),
        "how long a client may take to receive an answer",
    ),
    row_of(
        "SP_SERVER_IDLE_TIMEOUT",
        "server.idle_timeout",
        LIMIT,
        Some("60s"),
        "how long a connection may be idle",
    ),
    row_of(
        "SP_K8S_KUBECONFIG",
        "cluster.kubeconfig",
        PATH,
        None,
        "by default the usual kubeconfig rules, then in-cluster",
    ),
    row_of(
        "SP_K8S_NAMESPACE",
        "cluster.namespace",
        "a namespace's name",
        Some("default"),
        "where objects are made",
    ),
    row_of(
        "SP_ADOPT_UNNAMED",
        "cluster.adopt_unnamed",
        BOOLEAN,
        Some("true"),
        "whether objects without a provider's name are this provider's",
    ),
    row_of(
        "SP_K8S_STREAMING_LISTS",
        "cluster.streaming_lists",
        BOOLEAN,
        Some("true"),
        "whether watches begin with what is there, where the server can; else it is read in pages",
    ),
    row_of(
        "SP_MONITOR_DEBOUNCE_MS",
        "monitor.debounce_ms",
        MILLISECONDS,
        Some("500"),
        "the window in which changes of one instance become one event",
    ),
    row_of(
        "SP_MONITOR_RESYNC_PERIOD",
        "monitor.resync_period",
        DURATION,
        Some("10m"),
        "how often everything is looked at again",
    ),
    row_of(
        "SP_MONITOR_PUBLISH_MAX_ATTEMPTS",
        "monitor.publish_max_attempts",
        "a whole number",
        Some("3"),
        "accepted and not used: delivery is tried until acknowledged",
    ),
    row_of(
        "SP_FIND_BY_NAME",
        "requests.find_by_name",
        BOOLEAN,
        Some("true"),
        "whether an instance is found by its metadata.name too",
    ),
    row_of(
        "SP_ID_FROM",
        "requests.id_from",
        "random or idempotency-key",
        Some("random"),
        "where an id comes from when the caller names none: `idempotency-key` takes the key itself where it can be an id",
    ),
    row_of(
        "SP_TRACES_URL",
        "traces.url",
        HTTP_URL,
        None,
        "an OpenTelemetry collector, to whose /v1/traces spans are sent as JSON; without it none are",
    ),
];

const NAME: &str = "a name of lower-case letters, digits and hyphens";
const HTTP_URL: &str = "a URL with scheme and host, as https://dcm.example.com/api/v1alpha1";
const NATS_URLS: &str = "URLs separated by commas, as nats://a.example.com:4222,tls://b.example.com:4222";
const NAMES: &str = "names separated by commas, or * for every certificate of the authority";
const DURATION: &str = "a duration above zero, as 500ms, 15s or 10m";
const LIMIT: &str = "a duration, as 500ms, 15s or 10m; 0 means no limit";
const DELAY: &str = "a duration, as 500ms, 15s or 10m";
const PATH: &str = "a path";
const BOOLEAN: &str = "true or false";
const MILLISECONDS: &str = "a whole number of milliseconds, at most 60000";

const fn row_of(
    env: &'static str,
    key: &'static str,
    form: &'static str,
    default: Option<&'static str>,
    about: &'static str,
) -> Setting {
    Setting { env, key, form, default, about }
}

/// The row of a variable that this program itself reads.
pub(super) fn row(env: &str) -> &'static Setting {
    let found = SETTINGS.iter().find(|setting| setting.env == env);
    found.expect("every variable that is read has a row in the table")
}
