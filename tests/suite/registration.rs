//! Registration against a registry that answers from a script.

use std::time::Duration;

use mapwright::registry::{Outcome, Registration, RegistryState, Terms, run};
use mapwright_testbed::registry::Scripted;
use mapwright_testbed::{Registry, secs};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// A registration that is under way, and ends with this.
struct Registering {
    state: watch::Receiver<RegistryState>,
    running: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn register_at(url: &str, interval: Duration) -> Registering {
    register(url, interval, false)
}

fn register(url: &str, interval: Duration, deregister: bool) -> Registering {
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
    let terms = Terms { base_url: url.to_owned(), interval, deregister };
    let task = tokio::spawn(async move {
        let shutdown = async { drop(ended.await) };
        run(registration, &terms, tell, shutdown).await;
    });
    Registering { state, running, task }
}

impl Registering {
    async fn until(&mut self, reached: impl Fn(&RegistryState) -> bool) -> RegistryState {
        let waiting = self.state.wait_for(|state| reached(state));
        tokio::time::timeout(secs(20), waiting).await.unwrap().unwrap().clone()
    }
}

impl Registering {
    /// The process ends.
    async fn end(self) {
        drop(self.running);
        tokio::time::timeout(secs(5), self.task).await.expect("an end in time").unwrap();
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

#[tokio::test]
async fn a_registration_is_taken_back_only_where_that_is_wanted_and_known() {
    for (deregister, id, expected) in [
        (true, Some("p-1"), Some("p-1")),
        (true, Some("a/../b c"), Some("a%2F%2E%2E%2Fb%20c")),
        (false, Some("p-1"), None),
    ] {
        let registry = Registry::start().await.unwrap();
        registry.script([Scripted::status(201).body(json!({ "id": id }))]);
        let mut registering = register(&registry.url(), secs(60), deregister);
        registering.until(is_registered).await;
        registering.end().await;
        let last = registry.requests().pop().unwrap();
        let deleted = (last.method == "DELETE").then_some(last.path);
        assert_eq!(deleted, expected.map(|id| format!("/api/v1alpha1/providers/{id}")), "{id:?}");
    }
}

#[tokio::test]
async fn the_end_waits_for_no_registry_that_offers_no_end_or_hangs() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(201).body(json!({ "id": "p-1" })), Scripted::status(405)]);
    let mut registering = register(&registry.url(), secs(60), true);
    registering.until(is_registered).await;
    registering.end().await;
    assert_eq!(registry.requests().len(), 2);

    let mut refused = register("http://127.0.0.1:1/api/v1alpha1", secs(60), true);
    refused.until(|state| state.attempts == 1).await;
    refused.end().await;
}
