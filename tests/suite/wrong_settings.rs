//! Each wrong setting, alone and in pairs: every fault is named, the start ends with 1, nothing listens.

use std::collections::BTreeMap;

use mapwright::settings::*;
use mapwright_testbed::process::{Scratch, free_port};
use mapwright_testbed::{Launch, secs};
use tokio::net::TcpStream;

use crate::offline::text;
use crate::source::root;

/// A wrong value of each setting that can be wrong by itself, and the setting that is named for it.
const WRONG: &[(&str, &str, &str)] = &[
    ("SP_NAME", "", "SP_NAME"),
    ("SP_NAME", "East!", "SP_NAME"),
    ("SP_ENDPOINT", "east:8080", "SP_ENDPOINT"),
    ("DCM_REGISTRATION_URL", "dcm.example.com/api", "DCM_REGISTRATION_URL"),
    ("SP_REGISTRATION_INTERVAL", "0s", "SP_REGISTRATION_INTERVAL"),
    ("SP_DEREGISTER", "at the end", "SP_DEREGISTER"),
    ("SP_NATS_URL", "http://nats:4222", "SP_NATS_URL"),
    ("SP_NATS_USER", "somebody", "SP_NATS_PASSWORD"),
    ("SP_NATS_TLS_CERT", "/some.pem", "SP_NATS_TLS_KEY"),
    ("SP_LEDGER_BUCKET", "a bucket", "SP_LEDGER_BUCKET"),
    ("SP_SERVER_ADDRESS", "8080", "SP_SERVER_ADDRESS"),
    ("SP_SERVER_TLS_KEY", "/some.key", "SP_SERVER_TLS_CERT"),
    ("SP_SERVER_TLS_CLIENT_NAMES", "a,,b", "SP_SERVER_TLS_CLIENT_NAMES"),
    ("SP_SERVER_TOKEN_REVIEW", "perhaps", "SP_SERVER_TOKEN_REVIEW"),
    ("SP_SERVER_TOKEN_AUDIENCES", "us", "SP_SERVER_TOKEN_AUDIENCES"),
    ("SP_SERVER_ALLOW_UNAUTHENTICATED", "maybe", "SP_SERVER_ALLOW_UNAUTHENTICATED"),
    ("SP_SERVER_SHUTDOWN_DELAY", "5", "SP_SERVER_SHUTDOWN_DELAY"),
    ("SP_SERVER_SHUTDOWN_TIMEOUT", "15", "SP_SERVER_SHUTDOWN_TIMEOUT"),
    ("SP_SERVER_REQUEST_TIMEOUT", "0", "SP_SERVER_REQUEST_TIMEOUT"),
    ("SP_SERVER_READ_TIMEOUT", "soon", "SP_SERVER_READ_TIMEOUT"),
    ("SP_SERVER_WRITE_TIMEOUT", "-1s", "SP_SERVER_WRITE_TIMEOUT"),
    ("SP_SERVER_IDLE_TIMEOUT", "1", "SP_SERVER_IDLE_TIMEOUT"),
    ("SP_K8S_NAMESPACE", "Default", "SP_K8S_NAMESPACE"),
    ("SP_ADOPT_UNNAMED", "2", "SP_ADOPT_UNNAMED"),
    ("SP_K8S_STREAMING_LISTS", "sometimes", "SP_K8S_STREAMING_LISTS"),
    ("SP_MONITOR_DEBOUNCE_MS", "500ms", "SP_MONITOR_DEBOUNCE_MS"),
    ("SP_MONITOR_RESYNC_PERIOD", "often", "SP_MONITOR_RESYNC_PERIOD"),
    ("SP_MONITOR_PUBLISH_MAX_ATTEMPTS", "-3", "SP_MONITOR_PUBLISH_MAX_ATTEMPTS"),
    ("SP_FIND_BY_NAME", "no way", "SP_FIND_BY_NAME"),
    ("SP_ID_FROM", "anywhere", "SP_ID_FROM"),
    ("SP_TRACES_URL", "collector:4318", "SP_TRACES_URL"),
];

/// Settings of which every value has its use, and those of files, which are read after the settings.
const NEVER_WRONG: &[&str] = &[
    "SP_DISPLAY_NAME",
    "SP_REGION",
    "SP_ZONE",
    "SP_RESOURCES_TOTAL_CPU",
    "SP_RESOURCES_TOTAL_MEMORY",
    "SP_RESOURCES_TOTAL_STORAGE",
    "SP_STATE_DIRECTORY",
];

/// Those that can be wrong only beside another one, or by their file: each is wrong in another test.
fn is_of_files(env: &str) -> bool {
    let endings = ["_FILE", "_CA", "_CERT", "_KEY", "KUBECONFIG"];
    endings.iter().any(|ending| env.ends_with(ending)) || ["SP_NATS_TOKEN", "SP_NATS_PASSWORD"].contains(&env)
}

fn good(port: u16) -> BTreeMap<String, String> {
    let settings = [
        ("SP_NAME", "k8s-east".to_owned()),
        ("SP_ENDPOINT", "http://east.example.com:8080".to_owned()),
        ("DCM_REGISTRATION_URL", "http://127.0.0.1:1/api/v1alpha1".to_owned()),
        ("SP_NATS_URL", "nats://127.0.0.1:1".to_owned()),
        ("SP_SERVER_ADDRESS", format!("127.0.0.1:{port}")),
        ("SP_K8S_EXTERNAL_SVC_TYPE", "LoadBalancer".to_owned()),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn faults(wrong: &[&(&str, &str, &str)]) -> Vec<String> {
    let mut variables = good(8080);
    variables.extend(wrong.iter().map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned())));
    let sources = Sources {
        environment: &|name| variables.get(name).cloned(),
        file: None,
        service_types: &["sample".to_owned()],
        declared: &[],
        complete: true,
    };
    Settings::read(&sources)
        .err()
        .map_or_else(Vec::new, |faults| faults.0.iter().map(|fault| fault.name.clone()).collect())
}

#[test]
fn every_setting_that_can_be_wrong_is_tried() {
    for setting in SETTINGS.iter().filter(|setting| !is_of_files(setting.env)) {
        let tried = WRONG.iter().any(|(env, ..)| *env == setting.env);
        assert!(tried != NEVER_WRONG.contains(&setting.env), "{}", setting.env);
    }
}

#[test]
fn of_two_wrong_settings_both_are_named() {
    assert_eq!(faults(&[]), Vec::<String>::new());
    for (at, one) in WRONG.iter().enumerate() {
        assert!(faults(&[one]).iter().any(|name| name == one.2), "{one:?}: {:?}", faults(&[one]));
        for other in WRONG[at + 1..].iter().filter(|other| other.0 != one.0) {
            let named = faults(&[one, other]);
            for (.., name) in [one, other] {
                assert!(named.iter().any(|named| named == name), "{one:?} and {other:?}: {named:?}");
            }
        }
    }
}

/// Starts the program with these settings wrong, and watches the port for as long as it runs.
async fn start(wrong: &[&(&str, &str, &str)]) {
    let (scratch, port) = (Scratch::new("wrong").unwrap(), free_port().unwrap());
    let mut launch =
        Launch::alone(env!("CARGO_BIN_EXE_mapwright"), &scratch).unwrap().at(port).types(&["container"]);
    for (name, value, _) in wrong {
        launch = launch.env(name, value);
    }
    let running = tokio::spawn(launch.run(secs(20)));
    while !running.is_finished() {
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "{wrong:?} listens");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let (status, log) = running.await.unwrap().unwrap();
    assert_eq!(status.code(), Some(1), "{wrong:?}: {log}");
    for (.., name) in wrong {
        assert!(log.contains(name), "{wrong:?}: {log}");
    }
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn a_wrong_start_ends_with_one_and_listens_on_nothing() {
    for neighbours in WRONG.chunks(2) {
        let both: Vec<_> = neighbours.iter().collect();
        let alone = futures::future::join_all(both.iter().map(|one| start(std::slice::from_ref(one))));
        // Two values of one setting cannot be wrong together.
        if both.iter().all(|wrong| wrong.0 != both[0].0 || std::ptr::eq(*wrong, both[0])) {
            tokio::join!(alone, start(&both));
        } else {
            alone.await;
        }
    }
    // One of each setting, all at once.
    let mut all: Vec<&(&str, &str, &str)> = WRONG.iter().collect();
    all.dedup_by_key(|wrong| wrong.0);
    start(&all).await;
}

fn print(change: &[(&str, &str)]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mapwright"));
    command.args(["serve", "container", "--print-settings"]).current_dir(root());
    command.env_clear().envs(good(8080));
    command.envs(change.iter().copied()).output().unwrap()
}

#[test]
fn the_settings_that_hold_are_printed_as_a_file_without_a_secret() {
    let printed = print(&[
        ("SP_NATS_URL", "nats://user:hush@a:4222, tls://hush@b"),
        ("SP_NATS_PASSWORD", "hush"),
        ("SP_NATS_USER", "somebody"),
        ("SP_MONITOR_DEBOUNCE_MS", "250"),
        ("SP_DISPLAY_NAME", "The \"east\" \\ west"),
    ]);
    let text_of = text(&printed.stdout);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    assert!(!text_of.contains("hush"), "{text_of}");
    for line in [
        "monitor.debounce_ms = \"250\" # SP_MONITOR_DEBOUNCE_MS",
        "server.request_timeout = \"30s\" # default",
        "bus.servers = \"nats://***@a:4222,tls://***@b\" # SP_NATS_URL",
        "bus.password = \"***\" # SP_NATS_PASSWORD",
        "# bus.token is not set (SP_NATS_TOKEN)",
    ] {
        assert!(text_of.lines().any(|printed| printed == line), "{line} in {text_of}");
    }
    // What was printed is a file that says the same.
    let scratch = Scratch::new("printed").unwrap();
    let file = scratch.write("provider.toml", &text_of).unwrap();
    let mut again = std::process::Command::new(env!("CARGO_BIN_EXE_mapwright"));
    again.args(["serve", "--print-settings", "--config", file.to_str().unwrap(), "container"]).env_clear();
    let again = again.current_dir(root()).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" # ").next().unwrap().to_owned()).collect()
    };
    let (first, second) = (values(&text_of), values(&text(&again.stdout)));
    let kept = first.iter().zip(&second).filter(|(one, other)| one == other).count();
    assert!(first.len() == second.len() && first.len() - kept <= 2, "{first:#?} {second:#?}");
}

#[test]
fn wrong_settings_are_named_and_not_printed() {
    let printed = print(&[("SP_NATS_URL", "http://user:hush@a"), ("SP_ID_FROM", "anywhere")]);
    assert_eq!((printed.status.code(), text(&printed.stdout).as_str()), (Some(1), ""));
    let told = text(&printed.stderr);
    assert!(told.contains("SP_NATS_URL") && told.contains("SP_ID_FROM") && !told.contains("hush"), "{told}");
}
