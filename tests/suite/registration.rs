//! Registration against a registry that answers from a script.

use std::time::Duration;

use mapwright::registry::{Outcome, Registration, RegistryState, run};
use mapwright_testbed::registry::Scripted;
use mapwright_testbed::{Registry, secs};
use serde_json::json;
use tokio::sync::{oneshot, watch};

/// A registration that is under way, and ends with this.
struct Registering {
    state: watch::Receiver<RegistryState>,
    _running: oneshot::Sender<()>,
}

fn register_at(url: &str, interval: Duration) -> Registering {
    let registration = Registration {
        name: "k8s-east".to_owned(),
        display_name: None,
        service_type: "sample".to_owned(),
        schema_version: "v1alpha1".to_owned(),
        endpoint: "http://east:8080/api/v1alpha1/samples".to_owned(),
        operations: vec!["CREATE".to_owned(), "READ".to_owned()],
        metadata: None,
    };
    let (tell, state) = watch::channel(RegistryState::default());
    let (running, ended) = oneshot::channel::<()>();
    let url = url.to_owned();
    tokio::spawn(async move {
        let shutdown = async { drop(ended.await) };
        run(registration, &url, interval, tell, shutdown).await;
    });
    Registering { state, _running: running }
}

impl Registering {
    async fn until(&mut self, reached: impl Fn(&RegistryState) -> bool) -> RegistryState {
        let waiting = self.state.wait_for(|state| reached(state));
        tokio::time::timeout(secs(20), waiting).await.unwrap().unwrap().clone()
    }
}

fn is_registered(state: &RegistryState) -> bool {
    matches!(state.outcome, Outcome::Registered { .. })
}

#[tokio::test]
async fn two_faults_and_a_success_are_three_attempts_and_then_quiet() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(500), Scripted::status(500)]);
    let mut registering = register_at(&registry.url(), secs(60));
    let state = registering.until(is_registered).await;
    tokio::time::sleep(secs(2)).await;
    let requests = registry.requests();
    assert_eq!((requests.len(), state.attempts), (3, 3));
    let pauses = requests.windows(2).map(|pair| pair[1].at - pair[0].at).collect::<Vec<_>>();
    assert!(pauses[0] >= secs(1) && pauses[1] >= secs(2), "{pauses:?}");
    assert!(state.next_try.is_some());
}

#[tokio::test]
async fn the_request_is_a_post_of_the_registration() {
    let registry = Registry::start().await.unwrap();
    register_at(&format!("{}/", registry.url()), secs(60)).until(is_registered).await;
    let request = registry.requests().remove(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/v1alpha1/providers"));
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.body["operations"], json!(["CREATE", "READ"]));
}

#[tokio::test]
async fn a_registration_is_renewed_and_does_not_change_its_id() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(201).body(json!({"id": "p-1"}))]);
    registry.otherwise(Scripted::status(200).body(json!({"id": "p-2"})));
    let mut registering = register_at(&registry.url(), secs(1));
    registering.until(is_registered).await;
    let state = registering.until(|state| !is_registered(state)).await;
    let Outcome::Refused { why } = &state.outcome else { panic!("{state:?}") };
    assert!(why.contains("p-1") && why.contains("p-2"), "{why}");
}

#[tokio::test]
async fn patience_is_kept_as_long_as_the_registry_asks() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(429).header("Retry-After", "4")]);
    register_at(&registry.url(), secs(60)).until(is_registered).await;
    let requests = registry.requests();
    assert!(requests[1].at - requests[0].at >= secs(4));
}

#[tokio::test]
async fn a_refusal_is_kept_for_health_and_tried_again_at_the_interval_only() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(400).body(json!({"detail": "no such type"}))]);
    let mut registering = register_at(&registry.url(), secs(3));
    let state = registering.until(|state| state.attempts == 1).await;
    let Outcome::Refused { why } = &state.outcome else { panic!("{state:?}") };
    assert!(why.contains("no such type"), "{why}");
    registering.until(is_registered).await;
    let requests = registry.requests();
    assert!(requests[1].at - requests[0].at >= Duration::from_millis(2_300));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(307).header("Location", &registry.url())]);
    let mut registering = register_at(&registry.url(), secs(60));
    registering.until(|state| matches!(state.outcome, Outcome::Refused { .. })).await;
    assert_eq!(registry.requests().len(), 1);
}

#[tokio::test]
async fn a_registry_that_comes_late_is_found() {
    let port = mapwright_testbed::process::free_port().unwrap();
    let mut registering = register_at(&format!("http://127.0.0.1:{port}/api/v1alpha1"), secs(60));
    let state = registering.until(|state| state.attempts == 1).await;
    let Outcome::Unavailable { why } = &state.outcome else { panic!("{state:?}") };
    assert!(why.starts_with("cannot reach the registry at http://127.0.0.1:"), "{why}");
    let _registry = Registry::start_at(port).await.unwrap();
    registering.until(is_registered).await;
}
