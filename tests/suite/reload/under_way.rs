//! What is under way while revisions change: a create that the cluster keeps waiting, a watch that it refuses.

use mapwright_testbed::proxy::{Effect, Proxy};
use mapwright_testbed::{Http, Kind, Shared, eventually, secs};
use serde_json::{Value, json};

use super::{MAPPING, TAKEN, another, in_use};
use crate::cases::root::Root;
use crate::dcm::{CONTAINERS, Dcm, SOON, web};

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
