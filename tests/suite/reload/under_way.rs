//! What is under way while revisions change: a create that the cluster keeps waiting, a watch that it refuses.

use mapwright_testbed::proxy::{Effect, Proxy};
use mapwright_testbed::{Http, Kind, Shared, eventually, secs};
use serde_json::{Value, json};

use super::{MAPPING, TAKEN, another, in_use};
use crate::cases::root::Root;
use crate::dcm::{CONTAINERS, Dcm, SOON, running, web};

const DEPLOYMENT: &str = "mappings/container/deployment.yaml";

async fn start(name: &str, root: &Root) -> (Dcm, Proxy) {
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects(name).await.unwrap();
    let proxy = Proxy::start(&shared.control_plane).await.unwrap();
    let (kubeconfig, namespace) = (proxy.kubeconfig().to_owned(), objects.namespace().to_owned());
    let folder = root.path("").to_string_lossy().into_owned();
    let dcm = Dcm::start_of(&["container"], objects, |launch| {
        let launch = launch.cluster(&kubeconfig, &namespace).env("SP_SERVER_REQUEST_TIMEOUT", "60s");
        launch.arg("--root").arg(folder)
    })
    .await;
    (dcm, proxy)
}

#[tokio::test]
async fn a_create_ends_on_the_revision_that_it_began_with_and_is_seen_by_the_next() {
    let root = Root::new();
    root.replace(DEPLOYMENT, "spec:\n", "spec:\n  minReadySeconds: 1\n");
    let (dcm, proxy) = start("under-way", &root).await;
    let before = in_use(&dcm).await;
    proxy.plan(|call| match call.method == "POST" && call.uri.path().ends_with("/deployments") {
        true => Effect::Hold(secs(6)),
        false => Effect::Pass,
    });
    let http = Http::new(dcm.provider.base_url());
    let body = json!({ "spec": web() });
    let creating = tokio::spawn(async move { http.post(&format!("{CONTAINERS}?id=old"), &body).await });
    let held = async || {
        proxy
            .calls()
            .iter()
            .any(|call| call.target.contains("/deployments") && call.method == "POST")
            .then_some(())
    };
    eventually("the create is at the cluster", SOON, held).await.unwrap();

    root.replace(DEPLOYMENT, "minReadySeconds: 1", "minReadySeconds: 2");
    another(&dcm, &before).await;
    proxy.pass();
    dcm.container("new", web()).await;
    let answer = creating.await.unwrap().unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    dcm.read(CONTAINERS, "old").await;
    for (id, seconds) in [("old", 1), ("new", 2)] {
        let deployment = dcm.only(&Kind::DEPLOYMENT, id).await;
        assert_eq!(deployment["spec"]["minReadySeconds"], seconds, "{id}");
        dcm.events.wait_for(id, "PENDING", SOON).await.unwrap();
    }
    assert_eq!(dcm.delete(CONTAINERS, "old").await.status, 204);
    dcm.is_gone(CONTAINERS, "old").await;
}

#[tokio::test]
async fn a_revision_whose_watch_is_refused_waits_while_the_former_one_serves() {
    let root = Root::new();
    let (dcm, proxy) = start("reload-waits", &root).await;
    let before = in_use(&dcm).await;
    proxy.plan(|call| match call.uri.path().ends_with("/secrets") {
        true => Effect::Answer {
            status: 403,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "secrets is forbidden" })
            .to_string(),
        },
        false => Effect::Pass,
    });
    let watch = "[[watch]]\nname = \"secret\"\napi_version = \"v1\"\nkind = \"Secret\"\n\n[status]";
    root.replace(MAPPING, "[status]", watch);
    root.replace(MAPPING, "when    = \"refused\"", "when    = \"refused or secret\"");
    let waiting = async || {
        let said = dcm.get("/health").await.json()["mappings"]["waiting"].clone();
        said["why"].as_str().is_some_and(|why| why.contains("secrets is forbidden")).then_some(said)
    };
    let said: Value = eventually("health says what is waited for", TAKEN, waiting).await.unwrap();
    assert_ne!(said["revision"], json!(before));
    dcm.container("web", web()).await;
    assert_eq!(in_use(&dcm).await, before);
    proxy.pass();
    another(&dcm, &before).await;
    dcm.read(CONTAINERS, "web").await;
    assert_eq!(dcm.get("/health").await.json()["mappings"]["waiting"], Value::Null);
}

#[tokio::test]
async fn requests_that_never_pause_see_no_gap_while_revisions_change() {
    let root = Root::new();
    let (dcm, _proxy) = start("reload-busy", &root).await;
    dcm.container("steady", web()).await;
    dcm.pod_becomes("steady", running()).await;
    dcm.says(CONTAINERS, "steady", "RUNNING", &[]).await;
    let events = dcm.events.of("steady");
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let http = Http::new(dcm.provider.base_url());
    let asking = tokio::spawn(async move {
        let mut made = 0;
        while !*stopped.borrow() {
            let id = format!("busy-{made}");
            let body = json!({ "spec": web() });
            let created = http.post(&format!("{CONTAINERS}?id={id}"), &body).await.unwrap();
            assert_eq!(created.status, 201, "{}", created.text());
            for id in [id.as_str(), "steady"] {
                let read = http.get(&format!("{CONTAINERS}/{id}")).await.unwrap();
                assert_eq!(read.status, 200, "{}", read.text());
            }
            let deleted = http.delete(&format!("{CONTAINERS}/{id}")).await.unwrap();
            assert_eq!(deleted.status, 204, "{}", deleted.text());
            made += 1;
        }
        made
    });
    let mut before = in_use(&dcm).await;
    for word in ["one", "two", "three"] {
        // Another word, and another field that is observed: stores change as well.
        let rule =
            format!("when    = \"deployment.spec.paused or deployment.metadata.annotations['{word}']\"");
        let text = root.read(MAPPING);
        let start = text.find("name    = \"scaled to zero\"").unwrap();
        let when = start + text[start..].find("when").unwrap();
        let end = when + text[when..].find('\n').unwrap();
        std::fs::write(root.path(MAPPING), format!("{}{rule}{}", &text[..when], &text[end..])).unwrap();
        before = another(&dcm, &before).await;
    }
    stop.send_replace(true);
    assert!(asking.await.unwrap() > 0);
    assert_eq!(dcm.events.of("steady"), events, "nothing changed, and nothing is said");
}

#[tokio::test]
async fn what_a_mapping_says_of_itself_is_registered_and_served_anew() {
    let root = Root::new();
    let (dcm, _proxy) = start("reload-says", &root).await;
    let before = in_use(&dcm).await;
    root.replace(MAPPING, "\"v1alpha1\"", "\"v2\"");
    root.replace(MAPPING, "\"containers\"", "\"boxes\"");
    another(&dcm, &before).await;
    let registry = dcm.provider.registry().unwrap();
    let newest = async || {
        let body = registry.requests().pop()?.body;
        let endpoint = body["endpoint"].as_str()?.ends_with("/api/v1alpha1/boxes");
        (endpoint && body["schema_version"] == "v2").then_some(())
    };
    eventually("the registry knows", TAKEN, newest).await.unwrap();
    // The provider's description of before says nothing of it.
    let http = Http::new(dcm.provider.base_url());
    assert_eq!(http.get("/api/v1alpha1/boxes").await.unwrap().status, 200);
    assert_eq!(http.get(CONTAINERS).await.unwrap().status, 404);
    let document = http.get("/api/v1alpha1/openapi.json").await.unwrap().json();
    assert!(document["paths"].get("/api/v1alpha1/boxes").is_some());
}
