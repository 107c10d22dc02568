//! Two processes of one provider: both serve, one speaks, and an id is claimed once.

use std::time::{Duration, Instant};

use futures::future::join_all;
use mapwright_testbed::ground::has_servers;
use mapwright_testbed::{Events, Kind, Launch, Objects, Provider, Shared, eventually, secs};
use serde_json::{Value, json};

const CONTAINERS: &str = "/api/v1alpha1/containers";

struct Pair {
    objects: Objects,
    first: Provider,
    second: Provider,
    events: Events,
}

async fn pair(prefix: &str) -> Pair {
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects(prefix).await.unwrap();
    let events = Events::subscribe(&shared.nats.url(), "dcm.container").await.unwrap();
    let launch = || {
        let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
        launch.types(&["container"])
    };
    let first = launch().start().await.unwrap();
    eventually("the first process leads", secs(10), async || leads(&first).await.then_some(()))
        .await
        .unwrap();
    let second = launch().start().await.unwrap();
    Pair { objects, first, second, events }
}

async fn leads(provider: &Provider) -> bool {
    let health = provider.http().get(&format!("{CONTAINERS}/health")).await;
    health.is_ok_and(|answer| answer.json()["leadership"]["leads"] == true)
}

fn body(name: &str) -> Value {
    json!({ "spec": {
        "service_type": "container", "metadata": { "name": name }, "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": 1, "max": 1 }, "memory": { "min": "1GB", "max": "1GB" } },
    } })
}

impl Pair {
    async fn pod_of(&self, id: &str) -> String {
        let selector = format!("dcm.project/dcm-instance-id={id}");
        let pods = async || self.objects.list(&Kind::POD, &selector).await.ok()?.pop();
        let pod = eventually("the controllers make a pod", secs(20), pods).await.unwrap();
        pod["metadata"]["name"].as_str().unwrap().to_owned()
    }

    async fn phase(&self, pod: &str, phase: &str) {
        self.objects.patch_status(&Kind::POD, pod, json!({ "phase": phase })).await.unwrap();
    }
}

#[tokio::test]
async fn of_many_creates_of_one_id_through_two_processes_one_succeeds() {
    if !has_servers() {
        return;
    }
    let pair = pair("race").await;
    let path = format!("{CONTAINERS}?id=raced");
    let bodies: Vec<Value> = (0..20).map(|number| body(&format!("web-{number}"))).collect();
    let calls = bodies.iter().enumerate().map(|(number, body)| {
        let provider = if number % 2 == 0 { &pair.first } else { &pair.second };
        async move { provider.http().post(&format!("{CONTAINERS}?id=raced"), body).await.unwrap().status }
    });
    let statuses = join_all(calls).await;
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19, "{statuses:?}");
    let selector = "dcm.project/dcm-instance-id=raced";
    assert_eq!(pair.objects.list(&Kind::DEPLOYMENT, selector).await.unwrap().len(), 1);
    let item = format!("{CONTAINERS}/raced");
    let shown = async || {
        let one = pair.first.http().get(&item).await.ok()?.json();
        let other = pair.second.http().get(&item).await.ok()?.json();
        (one["spec"] == other["spec"] && one["create_time"] == other["create_time"]).then_some(())
    };
    eventually("both processes show the same", secs(3), shown).await.unwrap();
    assert_eq!(pair.first.http().post(&path, &bodies[0]).await.unwrap().status, 409);
}

#[tokio::test]
async fn each_event_goes_out_once_and_the_other_process_goes_on_when_the_leader_dies() {
    if !has_servers() {
        return;
    }
    let mut pair = pair("lead").await;
    let created = pair.second.http().post(&format!("{CONTAINERS}?id=r1"), &body("web")).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let pod = pair.pod_of("r1").await;
    pair.phase(&pod, "Running").await;
    pair.events.wait_for("r1", "RUNNING", secs(10)).await.unwrap();
    pair.first.kill();
    let died = Instant::now();
    pair.phase(&pod, "Unknown").await;
    pair.events.wait_for("r1", "UNKNOWN", secs(20)).await.unwrap();
    assert!(died.elapsed() < Duration::from_secs(15), "{:?}", died.elapsed());
    pair.events.quiet("r1", secs(2)).await.unwrap();
    let statuses = pair.events.statuses("r1");
    assert_eq!(statuses.iter().filter(|status| *status == "RUNNING").count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| *status == "UNKNOWN").count(), 1, "{statuses:?}");
}

#[tokio::test]
async fn a_leader_that_is_asked_to_end_hands_over_at_once() {
    if !has_servers() {
        return;
    }
    let mut pair = pair("hand").await;
    assert!(!leads(&pair.second).await);
    let status = pair.first.terminate(secs(10)).await.unwrap();
    assert!(status.success());
    eventually("the second process leads", secs(5), async || leads(&pair.second).await.then_some(()))
        .await
        .unwrap();
    let created = pair.second.http().post(&format!("{CONTAINERS}?id=h1"), &body("web")).await.unwrap();
    assert_eq!(created.status, 201);
    pair.events.wait_for("h1", "PENDING", secs(5)).await.unwrap();
}
