//! Updates that race: with one another, with repeats of themselves, through one process and through two.

use futures::future::join_all;
use mapwright_testbed::{Answer, Http, Kind, Launch, Objects, Shared, eventually};
use serde_json::{Value, json};

use crate::dcm::{
    CONTAINERS, Dcm, GROWING, SOON, VOLUMES, disk, faults, make_classes, name_of, problem, web_with_ports,
};
use crate::volumes::bind;

const JSON: &str = "application/json";

impl Dcm {
    async fn bound_volume(&self, id: &str) {
        self.volume(id, disk(id, "1Gi")).await;
        let claim = self.only(&Kind::CLAIM, id).await;
        let name = format!("{}-{id}", self.objects.namespace());
        bind(&self.objects, &name, &claim, GROWING, "1Gi").await;
        let bound = async || (self.read(VOLUMES, id).await["status"] == "RUNNING").then_some(());
        eventually("the volume is bound", SOON, bound).await.unwrap();
    }

    async fn requested(&self, id: &str) -> Value {
        self.only(&Kind::CLAIM, id).await["spec"]["resources"]["requests"]["storage"].clone()
    }
}

async fn patch(http: &Http, id: &str, key: Option<&str>, capacity: &str) -> Answer {
    let mut headers = vec![("content-type", JSON)];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let body = json!({ "capacity": capacity }).to_string();
    http.request("PATCH", &format!("{VOLUMES}/{id}"), &headers, body).await.unwrap()
}

async fn two_processes(name: &str) -> (Dcm, mapwright_testbed::Provider) {
    let objects = Shared::get().await.unwrap().objects(name).await.unwrap();
    let again = Objects::new(objects.client().clone(), objects.namespace());
    let dcm = Dcm::start_in(objects, |launch| launch).await;
    make_classes(&dcm.objects).await;
    let shared = Shared::get().await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, again.namespace()).unwrap();
    let second = launch.types(&["container", "storage"]).start().await.unwrap();
    (dcm, second)
}

#[tokio::test]
async fn two_updates_at_once_follow_one_another() {
    let dcm = Dcm::start("updates").await;
    make_classes(&dcm.objects).await;
    for round in 0..4 {
        let id = format!("raced-{round}");
        dcm.bound_volume(&id).await;
        let answers = join_all(["2Gi", "3Gi"].map(|capacity| patch(&dcm.http, &id, None, capacity))).await;
        assert_eq!(answers[1].status, 200, "the larger one always grows: {}", answers[1].text());
        match answers[0].status {
            200 => {}
            // It came second, and 3Gi is more than it asks for.
            _ => assert_eq!(faults(&answers[0]), ["#/capacity"], "{}", answers[0].text()),
        }
        assert_eq!(dcm.requested(&id).await, "3Gi");
        assert_eq!(dcm.read(VOLUMES, &id).await["spec"]["capacity"], "3Gi");
    }
}

#[tokio::test]
async fn a_repeat_of_an_update_under_way_waits_for_it_also_in_another_process() {
    let (dcm, second) = two_processes("repeats").await;
    dcm.bound_volume("one").await;
    dcm.bound_volume("both").await;
    let other = second.http();
    let here = eventually("the second process knows them", SOON, async || {
        let answer = other.get(&format!("{VOLUMES}/both")).await.ok()?;
        (answer.json()["status"] == "RUNNING").then_some(())
    });
    here.await.unwrap();
    for (id, processes) in [("one", [&dcm.http; 2]), ("both", [&dcm.http, &other])] {
        let calls = (0..8).map(|number| patch(processes[number % 2], id, Some("the-key"), "9Gi"));
        for answer in join_all(calls).await {
            assert_eq!(answer.status, 200, "{id}: {}", answer.text());
            assert_eq!(answer.json()["spec"]["capacity"], "9Gi");
        }
        assert_eq!(dcm.requested(id).await, "9Gi");
        let answer = patch(&dcm.http, id, Some("the-key"), "10Gi").await;
        problem(&answer, 422, "failed-precondition");
        assert_eq!(patch(&other, id, Some("another-key"), "10Gi").await.status, 200);
        assert_eq!(patch(&dcm.http, id, Some("the-key"), "9Gi").await.json()["spec"]["capacity"], "10Gi");
    }
}

#[tokio::test]
async fn whether_there_is_such_an_instance_is_judged_before_the_body() {
    let dcm = Dcm::start_quietly("order", |launch| launch).await;
    make_classes(&dcm.objects).await;
    dcm.volume("there", disk("there", "1Gi")).await;
    let bodies: [(&str, &[u8], u16, &str); 4] = [
        (JSON, b"{", 400, "invalid-argument"),
        (JSON, b"", 400, "invalid-argument"),
        (JSON, b"{\"capacity\": 1, \"capacity\": 2}", 400, "invalid-argument"),
        ("text/plain", b"{}", 415, "unsupported-media-type"),
    ];
    let send = async |id: &str, media_type: &str, body: &[u8]| {
        let headers = [("content-type", media_type)];
        dcm.http.request("PATCH", &format!("{VOLUMES}/{id}"), &headers, body.to_vec()).await.unwrap()
    };
    for (media_type, body, status, code) in bodies {
        problem(&send("nobody", media_type, body).await, 404, "not-found");
        problem(&send("there", media_type, body).await, status, code);
    }
    let hold = json!({ "metadata": { "finalizers": ["test.example/hold"] } });
    dcm.objects.patch(&Kind::CLAIM, "there", hold).await.unwrap();
    assert_eq!(dcm.delete(VOLUMES, "there").await.status, 204);
    for (media_type, body, ..) in bodies {
        problem(&send("there", media_type, body).await, 409, "failed-precondition");
    }
    dcm.objects.patch(&Kind::CLAIM, "there", json!({ "metadata": { "finalizers": [] } })).await.unwrap();
}

#[tokio::test]
async fn a_change_by_hand_is_named_and_an_update_is_none() {
    let dcm = Dcm::start("drift").await;
    make_classes(&dcm.objects).await;
    dcm.bound_volume("vol").await;
    assert_eq!(patch(&dcm.http, "vol", None, "2Gi").await.status, 200);
    dcm.says(VOLUMES, "vol", "PROVISIONING", &["2Gi"]).await;
    let told = dcm.events.of("vol");
    assert!(told.iter().all(|event| !event.to_string().contains("changed by hand")), "{told:#?}");
    let request = json!({ "spec": { "resources": { "requests": { "storage": "7Gi" } } } });
    dcm.objects.patch(&Kind::CLAIM, "vol", request).await.unwrap();
    let shown = dcm.says(VOLUMES, "vol", "PROVISIONING", &["changed by hand", "7Gi"]).await;
    assert_eq!(shown["spec"]["capacity"], "2Gi");
    assert_eq!(patch(&dcm.http, "vol", None, "8Gi").await.status, 200);
    let shown = dcm.says(VOLUMES, "vol", "PROVISIONING", &["8Gi"]).await;
    assert!(!shown["status_message"].as_str().unwrap().contains("by hand"), "{shown}");

    dcm.container("web", web_with_ports(&[(80, "internal")])).await;
    let shown = dcm.says(CONTAINERS, "web", "PENDING", &[]).await;
    assert!(!shown["status_message"].as_str().unwrap().contains("by hand"), "{shown}");
    let service = dcm.only(&Kind::SERVICE, "web").await;
    dcm.objects.delete(&Kind::SERVICE, name_of(&service)).await.unwrap();
    let deployment = dcm.only(&Kind::DEPLOYMENT, "web").await;
    dcm.objects
        .patch(&Kind::DEPLOYMENT, name_of(&deployment), json!({ "spec": { "replicas": 2 } }))
        .await
        .unwrap();
    dcm.says(CONTAINERS, "web", "PENDING", &["2 replicas", "the Service is gone"]).await;
}
