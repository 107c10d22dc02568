//! A rule that fails at run time: its instance is shown all the same, and costs nobody the list.

use mapwright_testbed::{Shared, eventually, secs};
use serde_json::json;

use super::cases::root::Root;
use crate::dcm::{CONTAINERS, Dcm, running, web};

async fn start(name: &str, root: &Root) -> Dcm {
    let objects = Shared::get().await.unwrap().objects(name).await.unwrap();
    let root = root.path("").to_string_lossy().into_owned();
    Dcm::start_of(&["container"], objects, |launch| launch.arg("--root").arg(root)).await
}

#[tokio::test]
async fn a_status_rule_that_fails_leaves_the_previous_status_and_the_list_whole() {
    let root = Root::new();
    // No scheduler has given the pod a node.
    root.replace(
        "mappings/container/mapping.toml",
        "{{ cause or 'the pod is running' }}",
        "runs on {{ pod.spec.nodeName }}",
    );
    let dcm = start("failing-rule", &root).await;
    for id in ["one", "two"] {
        dcm.container(id, web()).await;
        dcm.says(CONTAINERS, id, "PENDING", &[]).await;
    }
    dcm.pod_becomes("one", running()).await;
    let told = async || dcm.provider.log().contains("a status rule failed").then_some(());
    eventually("the log says that a rule failed", secs(60), told).await.unwrap();
    dcm.says(CONTAINERS, "one", "PENDING", &[]).await;
    let list = dcm.get(CONTAINERS).await.json();
    let ids: Vec<_> = list["containers"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["one", "two"]);
    let events = dcm.events.of("one");
    assert!(events.iter().all(|event| event["data"]["status"] == "PENDING"), "{events:#?}");
    let health =
        async || dcm.get(&format!("{CONTAINERS}/health")).await.text().contains("rule").then_some(());
    eventually("health says that a rule failed", secs(60), health).await.unwrap();
}

#[tokio::test]
async fn a_view_that_fails_is_left_out() {
    let root = Root::new();
    let view = root.read("mappings/container/view.yaml");
    let view = format!("node: \"on {{{{ deployment.metadata.annotations.node }}}}\"\n{view}");
    std::fs::write(root.path("mappings/container/view.yaml"), view).unwrap();
    let dcm = start("failing-view", &root).await;
    let created = dcm.container("one", web()).await;
    assert_eq!(created["id"], "one");
    let shown = dcm.read(CONTAINERS, "one").await;
    assert_eq!((&shown["spec"]["service_type"], shown.get("node")), (&json!("container"), None));
    assert_eq!(dcm.get(CONTAINERS).await.json()["containers"].as_array().unwrap().len(), 1);
}
