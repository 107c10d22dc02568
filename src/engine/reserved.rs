//! Names that the engine keeps for itself, and a mapping may not give to something else.

/// Members of an answer of which a view says nothing. It may say `update_time`, and add to `spec`.
pub const ANSWER: [&str; 5] = ["id", "path", "status", "status_message", "create_time"];

/// A collection of this name could not be told from the health of the provider.
pub const COLLECTION: &str = "health";

/// Environment variables that set up the provider itself.
pub const VARIABLES: [&str; 37] = [
    "SP_NAME",
    "SP_DISPLAY_NAME",
    "SP_ENDPOINT",
    "DCM_REGISTRATION_URL",
    "SP_REGISTRATION_INTERVAL",
    "SP_REGION",
    "SP_ZONE",
    "SP_RESOURCES_TOTAL_CPU",
    "SP_RESOURCES_TOTAL_MEMORY",
    "SP_RESOURCES_TOTAL_STORAGE",
    "SP_NATS_URL",
    "SP_NATS_TOKEN",
    "SP_NATS_USER",
    "SP_NATS_PASSWORD",
    "SP_NATS_CREDENTIALS_FILE",
    "SP_NATS_TLS_CA",
    "SP_NATS_TLS_CERT",
    "SP_NATS_TLS_KEY",
    "SP_LEDGER_BUCKET",
    "SP_STATE_DIRECTORY",
    "SP_SERVER_ADDRESS",
    "SP_SERVER_SHUTDOWN_DELAY",
    "SP_SERVER_SHUTDOWN_TIMEOUT",
    "SP_SERVER_REQUEST_TIMEOUT",
    "SP_SERVER_READ_TIMEOUT",
    "SP_SERVER_WRITE_TIMEOUT",
    "SP_SERVER_IDLE_TIMEOUT",
    "SP_K8S_KUBECONFIG",
    "SP_K8S_NAMESPACE",
    "SP_ADOPT_UNNAMED",
    "SP_K8S_STREAMING_LISTS",
    "SP_MONITOR_DEBOUNCE_MS",
    "SP_MONITOR_RESYNC_PERIOD",
    "SP_MONITOR_PUBLISH_MAX_ATTEMPTS",
    "SP_FIND_BY_NAME",
    "SP_ID_FROM",
    "SP_TRACES_URL",
];
