//! Reads that ask nobody, and what happens when the API server is slow, gone or lies.

use std::time::Duration;

use mapwright_testbed::{Effect, Events, Kind, Launch, Objects, Provider, Proxy, Shared, eventually, secs};
use serde_json::{Value, json};

const CONTAINERS: &str = "/api/v1alpha1/containers";

struct Stage {
    proxy: Proxy,
    objects: Objects,
    provider: Provider,
    events: Events,
}

async fn stage(prefix: &str) -> Stage {
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects(prefix).await.unwrap();
    let proxy = Proxy::start(&shared.control_plane).await.unwrap();
    let events = Events::subscribe(&shared.nats.url(), "dcm.container").await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
    let launch =
        launch.cluster(proxy.kubeconfig(), objects.namespace()).env("SP_SERVER_REQUEST_TIMEOUT", "6s");
    let provider = launch.types(&["container"]).start().await.unwrap();
    Stage { proxy, objects, provider, events }
}

fn body() -> Value {
    json!({ "spec": {
        "service_type": "container", "metadata": { "name": "web" }, "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": 1, "max": 1 }, "memory": { "min": "1GB", "max": "1GB" } },
    } })
}

impl Stage {
    async fn create(&self, id: &str) {
        let answer = self.provider.http().post(&format!("{CONTAINERS}?id={id}"), &body()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    async fn pod(&self, id: &str) -> String {
        let selector = format!("dcm.project/dcm-instance-id={id}");
        let pods = async || self.objects.list(&Kind::POD, &selector).await.ok()?.pop();
        let pod = eventually("the controllers make a pod", secs(20), pods).await.unwrap();
        pod["metadata"]["name"].as_str().unwrap().to_owned()
    }

    async fn phase(&self, pod: &str, phase: &str) {
        self.objects.patch_status(&Kind::POD, pod, json!({ "phase": phase })).await.unwrap();
    }
}

/// It answered 201, and then nothing of its record could be written until its root was deleted by hand.
#[tokio::test]
async fn an_instance_whose_record_never_said_ready_is_ended_as_any_other() {
    let stage = stage("unsaid").await;
    let is_update = |head: &hyper::http::request::Parts| {
        head.method == hyper::Method::PUT && head.uri.path().contains("/configmaps/")
    };
    stage.proxy.plan(move |head| if is_update(head) { Effect::Reset } else { Effect::Pass });
    stage.create("unsaid").await;
    stage.events.wait_for("unsaid", "PENDING", secs(20)).await.unwrap();
    let selector = "dcm.project/dcm-instance-id=unsaid";
    let root = stage.objects.list(&Kind::DEPLOYMENT, selector).await.unwrap().remove(0);
    stage.objects.delete(&Kind::DEPLOYMENT, root["metadata"]["name"].as_str().unwrap()).await.unwrap();
    let unseen = async || {
        let health = stage.provider.http().get(&format!("{CONTAINERS}/health")).await.ok()?.json();
        (health["watches"][0]["objects"] == 0).then_some(())
    };
    eventually("the watch tells of the deletion", secs(20), unseen).await.unwrap();
    stage.proxy.pass();
    stage.events.wait_for("unsaid", "DELETED", secs(30)).await.unwrap();
}

#[tokio::test]
async fn reads_of_what_is_known_ask_the_cluster_nothing() {
    let stage = stage("reads").await;
    for id in ["r1", "r2", "r3"] {
        stage.create(id).await;
    }
    let reported = stage.events.wait_for("r3", "PENDING", secs(10)).await;
    reported.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.proxy.forget_calls();
    for _ in 0..20 {
        assert_eq!(stage.provider.http().get(&format!("{CONTAINERS}/r1")).await.unwrap().status, 200);
        let list = stage.provider.http().get(CONTAINERS).await.unwrap().json();
        assert_eq!(list["containers"].as_array().unwrap().len(), 3);
    }
    let calls = stage.proxy.calls();
    // The leader renews its lease whether anybody reads or not.
    let others: Vec<_> =
        calls.iter().filter(|call| !call.is_watch() && !call.target.contains("/leases/")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_and_nothing_that_happened_meanwhile_is_lost() {
    let stage = stage("hole").await;
    stage.create("e1").await;
    let pod = stage.pod("e1").await;
    stage.phase(&pod, "Running").await;
    stage.events.wait_for("e1", "RUNNING", secs(10)).await.unwrap();
    stage.proxy.black_hole();
    stage.phase(&pod, "Unknown").await;
    let created = stage.provider.http().post(&format!("{CONTAINERS}?id=e2"), &body()).await.unwrap();
    assert!(created.status == 201 || (created.status == 503 && !created.header("retry-after").is_empty()));
    let health = tokio::time::timeout(secs(2), stage.provider.http().get("/health")).await;
    assert_eq!(health.unwrap().unwrap().status, 200);
    stage.events.wait_for("e1", "UNKNOWN", secs(40)).await.unwrap();
}

#[tokio::test]
async fn a_deletion_in_the_gap_of_an_expired_watch_is_reported_once_and_the_rest_stays_silent() {
    let stage = stage("gone").await;
    for id in ["c1", "c2"] {
        stage.create(id).await;
        let pod = stage.pod(id).await;
        stage.phase(&pod, "Running").await;
        stage.events.wait_for(id, "RUNNING", secs(10)).await.unwrap();
    }
    let before = stage.events.of("c1").len();
    stage.proxy.plan(|_| Effect::Hold(secs(3)));
    stage.proxy.reset();
    let deployment = stage.objects.list(&Kind::DEPLOYMENT, "dcm.project/dcm-instance-id=c2").await.unwrap();
    let name = deployment[0]["metadata"]["name"].as_str().unwrap().to_owned();
    stage.objects.delete(&Kind::DEPLOYMENT, &name).await.unwrap();
    let expired = concat!(
        r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}"#,
        "\n"
    );
    let mut left = 5;
    stage.proxy.plan(move |head| {
        let watch = head.uri.query().is_some_and(|query| query.contains("watch="));
        if watch && left > 0 {
            left -= 1;
            return Effect::Answer { status: 200, headers: Vec::new(), body: expired.to_owned() };
        }
        Effect::Pass
    });
    stage.events.wait_for("c2", "DELETED", secs(30)).await.unwrap();
    stage.events.quiet("c1", secs(2)).await.unwrap();
    assert_eq!(stage.events.of("c1").len(), before);
    assert_eq!(stage.events.statuses("c2").iter().filter(|status| *status == "DELETED").count(), 1);
    assert_eq!(stage.provider.http().get(&format!("{CONTAINERS}/c2")).await.unwrap().status, 404);
    assert_eq!(stage.provider.http().get(&format!("{CONTAINERS}/c1")).await.unwrap().status, 200);
}

#[tokio::test]
async fn an_answer_of_the_api_server_that_never_arrives_makes_nothing_twice() {
    let stage = stage("cut").await;
    for (id, kind) in [("x1", "configmaps"), ("x2", "deployments")] {
        let mut cut = false;
        stage.proxy.plan(move |head| {
            let hit = !cut && head.method == "POST" && head.uri.path().ends_with(kind);
            cut |= hit;
            if hit { Effect::CutReply } else { Effect::Pass }
        });
        stage.create(id).await;
        let selector = format!("dcm.project/dcm-instance-id={id}");
        for kind in [&Kind::DEPLOYMENT, &Kind::CONFIG_MAP] {
            assert_eq!(stage.objects.list(kind, &selector).await.unwrap().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_unreachable_cluster_is_503_for_writes_while_reads_and_health_answer() {
    let stage = stage("down").await;
    stage.create("d1").await;
    stage.proxy.plan(|_| Effect::Reset);
    stage.proxy.reset();
    let created = stage.provider.http().post(&format!("{CONTAINERS}?id=d2"), &body()).await.unwrap();
    assert_eq!(created.status, 503, "{}", created.text());
    assert_eq!(created.header("content-type"), "application/problem+json");
    assert!(!created.header("retry-after").is_empty());
    assert_eq!(stage.provider.http().get(&format!("{CONTAINERS}/d1")).await.unwrap().status, 200);
    assert_eq!(stage.provider.http().get(CONTAINERS).await.unwrap().status, 200);
    let health = tokio::time::timeout(secs(2), stage.provider.http().get("/health")).await.unwrap().unwrap();
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("unhealthy")));
    stage.proxy.pass();
    let again = async || {
        let answer = stage.provider.http().post(&format!("{CONTAINERS}?id=d2"), &body()).await.ok()?;
        (answer.status == 201).then_some(())
    };
    eventually("the cluster is back", secs(20), again).await.unwrap();
}
