//! How a container ends, begins again and stays the only one, whatever happens in between.

use futures::future::join_all;
use mapwright_testbed::{Answer, Events, Kind, Objects, Shared, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{
    CONTAINERS, Dcm, SOON, VOLUMES, created, disk, make_classes, name_of, problem, running, web,
    web_with_ports,
};

const HOLD: &str = "test.example/hold";

async fn hold(dcm: &Dcm, kind: &Kind, object: &Value) {
    let finalizers = json!({ "metadata": { "finalizers": [HOLD] } });
    dcm.objects.patch(kind, name_of(object), finalizers).await.unwrap();
}

async fn release(objects: &Objects, kind: &Kind, object: &Value) {
    let none = json!({ "metadata": { "finalizers": [] } });
    objects.patch(kind, name_of(object), none).await.unwrap();
}

#[tokio::test]
async fn a_deleted_container_leaves_nothing() {
    let dcm = Dcm::start("c32").await;
    dcm.container("web-1", web_with_ports(&[(80, "external")])).await;
    let answer = dcm.delete(CONTAINERS, "web-1").await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    dcm.is_gone(CONTAINERS, "web-1").await;
    problem(&dcm.delete(CONTAINERS, "web-1").await, 404, "not-found");
    dcm.is_swept("web-1").await;
    assert_eq!(dcm.get(CONTAINERS).await.json(), json!({ "containers": [] }));
    dcm.events.wait_for("web-1", "DELETED", SOON).await.unwrap();
}

#[tokio::test]
async fn of_twenty_creates_of_one_id_one_succeeds() {
    let dcm = Dcm::start("c08").await;
    let path = format!("{CONTAINERS}?id=only");
    let body = json!({ "spec": web_with_ports(&[(80, "internal")]) });
    let answers = join_all((0..20).map(|_| dcm.post(&path, &body))).await;
    exactly_one_succeeded(&answers);
    dcm.only(&Kind::DEPLOYMENT, "only").await;
    dcm.only(&Kind::SERVICE, "only").await;
}

fn exactly_one_succeeded(answers: &[Answer]) {
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(made, 1, "{statuses:?}");
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        problem(answer, 409, "already-exists");
    }
}

#[tokio::test]
async fn a_new_life_begins_while_the_old_pod_still_ends() {
    let dcm = Dcm::start("c45").await;
    dcm.container("again", web()).await;
    dcm.pod_becomes("again", running()).await;
    let old = dcm.pod("again").await;
    hold(&dcm, &Kind::POD, &old).await;
    dcm.says(CONTAINERS, "again", "RUNNING", &[]).await;

    assert_eq!(dcm.delete(CONTAINERS, "again").await.status, 204);
    let anew = dcm.container("again", web()).await;
    assert_eq!(anew["status"], "PENDING");
    assert_eq!(anew["spec"].pointer("/network/ip"), None);
    dcm.events.wait_for("again", "PENDING", SOON).await.unwrap();
    let statuses = dcm.events.statuses("again");
    let end = statuses.iter().position(|status| status == "DELETED").unwrap();
    assert!(statuses[..end].contains(&"RUNNING".to_owned()), "{statuses:?}");
    assert!(statuses[end + 1..].iter().all(|status| status == "PENDING"), "{statuses:?}");

    // The old pod speaks no more, whatever becomes of it.
    dcm.says(CONTAINERS, "again", "PENDING", &["starting"]).await;
    dcm.becomes(&Kind::POD, &old, json!({ "phase": "Failed" })).await;
    dcm.events.quiet("again", secs(1)).await.unwrap();
    assert_eq!(dcm.read(CONTAINERS, "again").await["status"], "PENDING");
    release(&dcm.objects, &Kind::POD, &old).await;
    dcm.events.quiet("again", secs(1)).await.unwrap();
}

#[tokio::test]
async fn a_container_that_a_finalizer_holds_is_shown_as_being_deleted() {
    let dcm = Dcm::start("c46").await;
    dcm.container("held", web_with_ports(&[(80, "internal")])).await;
    dcm.pod_becomes("held", running()).await;
    dcm.says(CONTAINERS, "held", "RUNNING", &[]).await;
    let deployment = dcm.only(&Kind::DEPLOYMENT, "held").await;
    hold(&dcm, &Kind::DEPLOYMENT, &deployment).await;
    for _ in 0..2 {
        assert_eq!(dcm.delete(CONTAINERS, "held").await.status, 204);
    }
    let shown = dcm.read(CONTAINERS, "held").await;
    assert_eq!((&shown["status"], &shown["status_message"]), (&json!("RUNNING"), &json!("is being deleted")));
    let again = dcm.post(&format!("{CONTAINERS}?id=held"), &json!({ "spec": web() })).await;
    let document = problem(&again, 409, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("is being deleted"), "{document}");
    assert!(!dcm.events.statuses("held").contains(&"DELETED".to_owned()));
    release(&dcm.objects, &Kind::DEPLOYMENT, &deployment).await;
    dcm.is_gone(CONTAINERS, "held").await;
    dcm.events.wait_for("held", "DELETED", SOON).await.unwrap();
    dcm.is_swept("held").await;
}

#[tokio::test]
async fn a_service_that_was_deleted_by_hand_is_no_obstacle() {
    let dcm = Dcm::start("c42").await;
    dcm.container("half", web_with_ports(&[(80, "internal")])).await;
    let service = dcm.only(&Kind::SERVICE, "half").await;
    dcm.objects.delete(&Kind::SERVICE, name_of(&service)).await.unwrap();
    assert_eq!(dcm.delete(CONTAINERS, "half").await.status, 204);
    dcm.is_swept("half").await;
    dcm.is_gone(CONTAINERS, "half").await;
}

#[tokio::test]
async fn a_deployment_that_was_deleted_by_hand_ends_its_instance() {
    let dcm = Dcm::start("c43").await;
    dcm.container("lost", web_with_ports(&[(80, "internal")])).await;
    dcm.events.wait_for("lost", "PENDING", SOON).await.unwrap();
    let deployment = dcm.only(&Kind::DEPLOYMENT, "lost").await;
    dcm.objects.delete(&Kind::DEPLOYMENT, name_of(&deployment)).await.unwrap();
    dcm.events.wait_for("lost", "DELETED", SOON).await.unwrap();
    dcm.is_gone(CONTAINERS, "lost").await;
    dcm.is_swept("lost").await;
    // The id is free again.
    dcm.container("lost", web()).await;
}

#[tokio::test]
async fn providers_of_other_names_do_not_see_each_other() {
    let objects = Shared::get().await.unwrap().objects("c50").await.unwrap();
    make_classes(&objects).await;
    let one = Dcm::start_in(objects.clone(), |launch| launch).await;
    let theirs = Events::subscribe(&Shared::get().await.unwrap().nats.url(), "dcm.*").await.unwrap();
    let theirs = theirs.of_source("dcm/providers/stranger-c50");
    let other = Dcm::start_in(objects, |launch| launch.env("SP_NAME", "stranger-c50")).await;
    one.container("mine", web()).await;
    one.volume("disk", disk("disk", "1Gi")).await;
    for (collection, id) in [(CONTAINERS, "mine"), (VOLUMES, "disk")] {
        problem(&other.get(&format!("{collection}/{id}")).await, 404, "not-found");
        problem(&other.delete(collection, id).await, 404, "not-found");
        assert_eq!(other.get(collection).await.json()[collection.rsplit('/').next().unwrap()], json!([]));
    }
    let answer = other.post(&format!("{CONTAINERS}?id=mine"), &json!({ "spec": web() })).await;
    problem(&answer, 409, "already-exists");
    one.events.wait_for("mine", "PENDING", SOON).await.unwrap();
    assert_eq!(theirs.received().len(), 0);
    one.only(&Kind::DEPLOYMENT, "mine").await;
    assert_eq!(one.read(CONTAINERS, "mine").await["id"], "mine");
}

#[tokio::test]
async fn a_create_that_is_refused_half_way_leaves_nothing() {
    let dcm = Dcm::start("roll").await;
    let quota = json!({ "metadata": { "name": "no-more" }, "spec": { "hard": { "count/services": "0" } } });
    dcm.objects.create(&Kind::QUOTA, quota).await.unwrap();
    let counted = async || {
        let quota = dcm.objects.get(&Kind::QUOTA, "no-more").await.ok()??;
        quota["status"]["hard"].is_object().then_some(())
    };
    eventually("the quota counts", SOON, counted).await.unwrap();
    let body = json!({ "spec": web_with_ports(&[(80, "internal")]) });
    let answer = dcm.post(&format!("{CONTAINERS}?id=too-much"), &body).await;
    let document = problem(&answer, 409, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("no-more"), "{document}");
    assert_eq!(dcm.of(&Kind::DEPLOYMENT, "too-much").await, Vec::<Value>::new());
    assert_eq!(dcm.of(&Kind::CONFIG_MAP, "too-much").await, Vec::<Value>::new());
    problem(&dcm.get(&format!("{CONTAINERS}/too-much")).await, 404, "not-found");
    // Without the Service it may be made, under the same id.
    dcm.container("too-much", web()).await;
}

#[tokio::test]
async fn a_key_makes_a_create_repeatable() {
    let mut dcm = Dcm::start("r06").await;
    let post = async |dcm: &Dcm, key: &str, spec: &Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        dcm.http.request("POST", CONTAINERS, &headers, spec.to_string()).await.unwrap()
    };
    let first = created(&post(&dcm, "k-1", &web()).await);
    let again = created(&post(&dcm, "k-1", &web()).await);
    for member in ["id", "path", "create_time", "spec"] {
        assert_eq!(again[member], first[member]);
    }
    problem(&post(&dcm, "k-1", &web_with_ports(&[(80, "none")])).await, 422, "failed-precondition");
    for key in ["", "x y z \u{e9}", &"k".repeat(256)] {
        let key = key.to_owned();
        problem(&post(&dcm, &key, &web()).await, 400, "invalid-argument");
    }
    dcm.provider.kill();
    dcm.provider.restart().await.unwrap();
    assert_eq!(created(&post(&dcm, "k-1", &web()).await)["id"], first["id"]);
    let spec = web();
    let together = join_all((0..6).map(|_| post(&dcm, "k-2", &spec))).await;
    let ids: Vec<Value> = together.iter().map(|answer| created(answer)["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && *id != first["id"]), "{ids:?}");
    assert_eq!(dcm.objects.list(&Kind::DEPLOYMENT, "").await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_environment_agent_is_served_as_it_calls() {
    let dcm = Dcm::start("r07").await;
    let health = dcm.get(&format!("{CONTAINERS}/health")).await;
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("healthy")));
    let named = crate::dcm::with(web(), "/metadata/name", json!("r-4711"));
    let headers = [("content-type", "application/json"), ("idempotency-key", "r-4711-create")];
    for _ in 0..3 {
        let answer = dcm.http.request("POST", CONTAINERS, &headers, named.to_string()).await.unwrap();
        assert_eq!(created(&answer)["spec"]["metadata"]["name"], "r-4711");
    }
    assert_eq!(dcm.objects.list(&Kind::DEPLOYMENT, "").await.unwrap().len(), 1);
    let path = format!("{CONTAINERS}/r-4711");
    assert_eq!(dcm.get(&path).await.status, 200);
    for _ in 0..2 {
        let answer =
            dcm.http.request("DELETE", &path, &[("idempotency-key", "r-4711-delete")], "").await.unwrap();
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    let empty = async || dcm.objects.list(&Kind::DEPLOYMENT, "").await.ok()?.is_empty().then_some(());
    eventually("nothing is left", SOON, empty).await.unwrap();
}
