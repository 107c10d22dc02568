//! What a start is told, and what it says when that is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use mapwright::settings::*;
use serde_json::{Value, json};

/// What `serve` cannot do without.
const LEAST: [(&str, &str); 5] = [
    ("SP_NAME", "k8s-east"),
    ("SP_ENDPOINT", "http://east.example.com:8080/"),
    ("DCM_REGISTRATION_URL", "https://dcm.example.com/api/v1alpha1"),
    ("SP_NATS_URL", "nats://nats:4222"),
    ("SP_SERVER_ALLOW_UNAUTHENTICATED", "true"),
];

/// One start, described by what differs from the least one.
#[derive(Default)]
struct Start {
    variables: BTreeMap<String, String>,
    file: Option<String>,
    types: Vec<String>,
    declared: Vec<DeclaredSetting>,
    incomplete: bool,
}

impl Start {
    fn least() -> Self {
        let variables = LEAST.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Self { variables, types: vec!["sample".to_owned()], ..Self::default() }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    fn file(mut self, text: &str) -> Self {
        self.file = Some(text.to_owned());
        self
    }

    fn declaring(mut self, declared: DeclaredSetting) -> Self {
        self.declared.push(declared);
        self
    }

    fn read(&self) -> Result<Settings, Faults> {
        Settings::read(&Sources {
            environment: &|name| self.variables.get(name).cloned(),
            file: self.file.as_deref().map(|text| ("provider.toml", text)),
            service_types: &self.types,
            declared: &self.declared,
            complete: !self.incomplete,
        })
    }

    fn settings(&self) -> Settings {
        self.read().unwrap_or_else(|faults| panic!("{faults}"))
    }

    fn faults(&self) -> Vec<String> {
        self.read().unwrap_err().0.iter().map(ToString::to_string).collect()
    }

    fn only_fault(&self) -> String {
        let mut faults = self.faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.remove(0)
    }
}

fn exposure() -> DeclaredSetting {
    DeclaredSetting {
        service_type: "sample".to_owned(),
        name: "exposure".to_owned(),
        env: "SP_EXPOSURE".to_owned(),
        kind: Kind::String,
        allowed: vec!["open".to_owned(), "closed".to_owned()],
        default: None,
        required: true,
    }
}

#[test]
fn no_mapping_may_read_a_variable_that_sets_up_the_provider() {
    let known: Vec<&str> = SETTINGS.iter().map(|row| row.env).collect();
    assert_eq!(mapwright::engine::reserved::VARIABLES.as_slice(), known);
}

#[test]
fn the_least_that_serve_needs_is_enough() {
    let settings = Start::least().settings();
    assert_eq!(settings.server.address, ListenAddress { host: None, port: 8080 });
    assert_eq!(settings.server.shutdown_timeout, Duration::from_secs(15));
    assert_eq!(settings.server.request_timeout, Duration::from_secs(30));
    assert_eq!(settings.cluster.namespace, "default");
    assert_eq!(settings.monitor.window, Duration::from_millis(500));
    assert_eq!(settings.monitor.resync_period, Duration::from_secs(600));
    assert_eq!(settings.registry.interval, Duration::from_secs(60));
    let [provider] = settings.providers.as_slice() else { panic!("{:?}", settings.providers) };
    assert_eq!(
        (provider.name.as_str(), provider.endpoint.as_str()),
        ("k8s-east", "http://east.example.com:8080")
    );
}

#[test]
fn everything_that_is_missing_or_wrong_is_named_at_once() {
    let start = Start::least()
        .without("SP_NAME")
        .without("SP_NATS_URL")
        .with("DCM_REGISTRATION_URL", "dcm.example.com/api")
        .with("SP_SERVER_SHUTDOWN_TIMEOUT", "15")
        .with("SP_EXPOSURE", "ajar")
        .declaring(exposure());
    let faults = start.faults();
    let named = faults.iter().map(|fault| fault.split(' ').next().unwrap()).collect::<Vec<_>>();
    let expected =
        ["SP_SERVER_SHUTDOWN_TIMEOUT", "SP_NAME", "SP_EXPOSURE", "DCM_REGISTRATION_URL", "SP_NATS_URL"];
    assert_eq!(named, expected, "{faults:?}");
    assert_eq!(faults[2], "SP_EXPOSURE is \"ajar\"; set it to open or closed");
}

#[test]
fn a_process_without_a_type_still_names_what_else_it_lacks() {
    let faults = Start::default().faults().join("\n");
    for name in ["service_type", "SP_NAME", "SP_ENDPOINT", "DCM_REGISTRATION_URL", "SP_NATS_URL"] {
        assert!(faults.contains(&format!("{name} is not")), "{name}: {faults}");
    }
}

#[test]
fn an_incomplete_start_needs_neither_registry_nor_bus() {
    let start = Start { incomplete: true, types: vec!["sample".to_owned()], ..Start::default() };
    let settings = start.settings();
    assert!(settings.registry.url.is_none() && settings.bus.servers.is_empty());
}

#[test]
fn durations_are_read_as_go_writes_them() {
    let cases = [
        ("500ms", 500),
        ("15s", 15_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("2000us", 2),
    ];
    for (text, milliseconds) in cases {
        let settings = Start::least().with("SP_MONITOR_RESYNC_PERIOD", text).settings();
        assert_eq!(settings.monitor.resync_period, Duration::from_millis(milliseconds), "{text}");
    }
    for text in ["15", "s", "1.s.", "-5s", "5 s", "5d", "1e3s", ".s", "0s", "99999999999h"] {
        let fault = Start::least().with("SP_MONITOR_RESYNC_PERIOD", text).only_fault();
        assert!(fault.starts_with("SP_MONITOR_RESYNC_PERIOD is"), "{text}: {fault}");
    }
}

#[test]
fn zero_lifts_a_limit_of_the_server() {
    assert_eq!(Start::least().with("SP_SERVER_IDLE_TIMEOUT", "0").settings().server.idle_timeout, None);
}

#[test]
fn addresses_are_read_as_go_writes_them() {
    for text in [":8080", "127.0.0.1:0", "localhost:80", "[::1]:9090"] {
        let address = Start::least().with("SP_SERVER_ADDRESS", text).settings().server.address;
        assert_eq!(address.to_string(), text);
    }
    for text in ["8080", "::1:80", "[nonsense]:80", ":http", ":70000", "http://x:80"] {
        assert!(
            Start::least().with("SP_SERVER_ADDRESS", text).only_fault().starts_with("SP_SERVER_ADDRESS"),
            "{text}"
        );
    }
}

#[test]
fn several_nats_servers_stand_between_commas() {
    let settings = Start::least().with("SP_NATS_URL", "nats://a:4222, tls://u:p@b,nats://[::1]").settings();
    let servers = settings.bus.servers.iter().map(Secret::reveal).collect::<Vec<_>>();
    assert_eq!(servers, ["nats://a:4222", "tls://u:p@b", "nats://[::1]"]);
    for text in ["a:4222", "http://a:4222", "nats://", "nats://a:port", ",", "nats://a,b"] {
        assert!(Start::least().with("SP_NATS_URL", text).only_fault().starts_with("SP_NATS_URL"), "{text}");
    }
}

#[test]
fn a_secret_is_shown_neither_by_a_fault_nor_by_debug() {
    let start = Start::least().with("SP_NATS_URL", "http://user:hush@a:4222");
    assert!(!start.only_fault().contains("hush"));
    let start = Start::least()
        .with("SP_NATS_URL", "nats://user:hush@a")
        .with("SP_NATS_USER", "user")
        .with("SP_NATS_PASSWORD", "hush");
    assert!(!format!("{:?}", start.settings()).contains("hush"));
}

#[test]
fn a_registration_url_needs_scheme_and_host_and_carries_nothing_else() {
    for text in
        ["dcm/api", "ftp://dcm/api", "http:///api", "https://u:p@dcm/api", "http://dcm/api?x=1", "/api"]
    {
        let fault = Start::least().with("DCM_REGISTRATION_URL", text).only_fault();
        assert!(fault.starts_with("DCM_REGISTRATION_URL "), "{text}: {fault}");
    }
}

#[test]
fn half_a_pair_and_two_ways_to_sign_in_are_faults() {
    assert!(Start::least().with("SP_NATS_USER", "u").only_fault().starts_with("SP_NATS_PASSWORD"));
    assert!(Start::least().with("SP_NATS_TLS_KEY", "k").only_fault().starts_with("SP_NATS_TLS_CERT"));
    let two = Start::least().with("SP_NATS_TOKEN", "t").with("SP_NATS_CREDENTIALS_FILE", "f");
    assert!(two.only_fault().starts_with("SP_NATS_TOKEN"));
}

#[test]
fn a_declared_setting_reaches_its_provider_by_name() {
    let settings = Start::least().with("SP_EXPOSURE", "open").declaring(exposure()).settings();
    assert_eq!(settings.providers[0].values, BTreeMap::from([("exposure".to_owned(), json!("open"))]));
}

#[test]
fn a_declared_setting_has_the_type_that_the_mapping_says() {
    let cases = [
        (Kind::Integer, "7", Some(json!(7))),
        (Kind::Integer, "7.5", None),
        (Kind::Number, "7.5", Some(json!(7.5))),
        (Kind::Number, "inf", None),
        (Kind::Boolean, "true", Some(json!(true))),
        (Kind::Boolean, "yes", None),
        (Kind::String, "yes", Some(json!("yes"))),
    ];
    for (kind, text, expected) in cases {
        let declared = DeclaredSetting { kind, allowed: vec![], ..exposure() };
        let read = Start::least().with("SP_EXPOSURE", text).declaring(declared).read();
        assert_eq!(
            read.ok().map(|settings| settings.providers[0].values["exposure"].clone()),
            expected,
            "{text}"
        );
    }
}

#[test]
fn the_environment_goes_before_the_file_and_the_file_before_the_default() {
    let default = DeclaredSetting { default: Some(json!("closed")), ..exposure() };
    let table = "[[provider]]\nservice_type = \"sample\"\n";
    let told = format!("{table}settings = {{ exposure = \"open\" }}\n");
    let exposed =
        |start: Start| start.declaring(default.clone()).settings().providers[0].values["exposure"].clone();
    assert_eq!(exposed(Start::least().file(table)), json!("closed"));
    assert_eq!(exposed(Start::least().file(&told)), json!("open"));
    assert_eq!(exposed(Start::least().file(&told).with("SP_EXPOSURE", "closed")), json!("closed"));
}

#[test]
fn a_file_gives_each_type_its_own_name() {
    let file = r#"
        endpoint = "http://east:8080"
        [bus]
        servers = "nats://nats:4222"
        [registry]
        url = "http://dcm/api/v1alpha1"
        [server]
        address = "127.0.0.1:9000"
        [monitor]
        debounce_ms = 250
        [[provider]]
        service_type = "sample"
        name = "sample-east"
        display_name = "Samples of the east"
        [[provider]]
        service_type = "other"
        name = "other-east"
        endpoint = "https://other:8443"
    "#;
    let settings = Start::default().file(file).settings();
    assert_eq!(settings.monitor.window, Duration::from_millis(250));
    assert_eq!(settings.server.address.to_string(), "127.0.0.1:9000");
    let names = settings.providers.iter().map(|provider| provider.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["sample-east", "other-east"]);
    assert_eq!(settings.providers[1].endpoint, "https://other:8443");
}

#[test]
fn a_wrong_file_is_named_with_its_line() {
    let cases = [
        (
            "[server]\nadress = \":1\"\n",
            "provider.toml:2: server.adress is no setting; did you mean `server.address`?",
        ),
        ("[monitor]\n\ndebounce_ms = \"soon\"\n", "provider.toml:3: SP_MONITOR_DEBOUNCE_MS is `soon`"),
        (
            "[[provider]]\nservice_typ = \"sample\"\n",
            "provider.toml:2: provider.service_typ is no setting; did you mean `service_type`?",
        ),
        (
            "[[provider]]\nservice_type = \"sample\"\nsettings = { exposur = 1 }\n",
            "provider.toml:3: provider.settings.exposur is no setting",
        ),
        ("[server]\naddress = [1]\n", "provider.toml:2: server.address has a value of no use here"),
        ("a = \n", "provider.toml:1: provider.toml is not TOML"),
    ];
    for (file, expected) in cases {
        let start = Start::least().file(file).with("SP_EXPOSURE", "open").declaring(exposure());
        let faults = start.faults();
        assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{file}: {faults:?}");
    }
}

#[test]
fn a_type_may_stand_in_one_table_only() {
    let table = "[[provider]]\nservice_type = \"sample\"\n";
    assert!(Start::least().file(&table.repeat(2)).only_fault().contains("a second time"));
}

#[test]
fn every_row_of_the_table_is_whole_and_unlike_every_other() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        assert!(!setting.form.is_empty() && !setting.about.is_empty(), "{}", setting.env);
        let clash =
            SETTINGS[..index].iter().any(|other| other.env == setting.env || other.key == setting.key);
        assert!(!clash, "{} or {} stands twice", setting.env, setting.key);
    }
}

#[test]
fn every_default_is_a_good_value_and_every_key_of_the_file_is_read() {
    for setting in SETTINGS {
        let Some(default) = setting.default else { continue };
        let least = || Start::least().with("SP_SERVER_ADDRESS", "127.0.0.1:8080");
        least().with(setting.env, default).with("SP_SERVER_ALLOW_UNAUTHENTICATED", "1").settings();
        let (section, key) = setting.key.split_once('.').unwrap();
        least().file(&format!("[{section}]\n{key} = {}\n", Value::from(default))).settings();
    }
}
