//! Cases from the field, statuses: pods that lie about, crash or are not made, and claims that wait.

use std::time::{Duration, Instant};

use mapwright_testbed::{Kind, eventually, secs};
use serde_json::{Value, json};

use crate::controllers::{container, crashing, healthy, waiting};
use crate::dcm::{CONTAINERS, Dcm, SOON, VOLUMES, disk, make_classes, name_of, running, web, with};
use crate::volumes::event;

async fn quiet(name: &str) -> Dcm {
    Dcm::start_quietly(name, |launch| launch).await
}

/// A pod's status with its containers'.
fn pod(phase: &str, containers: Value) -> Value {
    json!({ "phase": phase, "containerStatuses": containers })
}

fn ready_since(time: &str) -> Value {
    json!([{ "type": "Ready", "status": "True", "lastTransitionTime": time }])
}

#[tokio::test]
async fn evicted_pods_beside_a_live_one_do_not_speak() {
    let dcm = quiet("p01").await;
    dcm.container("p01", web()).await;
    let set = dcm.replica_set("p01", 1).await;
    let first =
        dcm.pod_of(&set, "a1", with(running(), "/conditions", ready_since("2026-01-01T00:00:00Z"))).await;
    dcm.says(CONTAINERS, "p01", "RUNNING", &[]).await;
    let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "node was short of memory" });
    dcm.becomes(&Kind::POD, &first, evicted.clone()).await;
    dcm.says(CONTAINERS, "p01", "FAILED", &["evicted", "short of memory"]).await;
    let second = dcm.pod_of(&set, "a2", json!({ "phase": "Pending" })).await;
    dcm.says(CONTAINERS, "p01", "PENDING", &[]).await;
    let status = json!({ "phase": "Running", "podIP": "10.9.9.9", "podIPs": [{ "ip": "10.9.9.9" }], "conditions": [
        { "type": "Initialized", "status": "True", "lastTransitionTime": "2026-02-01T00:00:00Z" },
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-02-02T00:00:00Z" },
    ] });
    dcm.becomes(&Kind::POD, &second, status).await;
    dcm.says(CONTAINERS, "p01", "RUNNING", &[]).await;
    for number in 0..10 {
        dcm.pod_of(&set, &format!("dead-{number}"), evicted.clone()).await;
    }
    dcm.events.quiet("p01", secs(2)).await.unwrap();
    let shown = dcm.says(CONTAINERS, "p01", "RUNNING", &[]).await;
    assert_eq!(shown["update_time"], "2026-02-02T00:00:00Z");
    assert_eq!(shown["spec"]["network"]["ip"], "10.9.9.9");
}

#[tokio::test]
async fn a_crashing_init_container_is_named_with_its_exit_code() {
    let dcm = quiet("p04a").await;
    dcm.container("p04a", web()).await;
    let set = dcm.replica_set("p04a", 1).await;
    let last =
        json!({ "restartCount": 4, "lastState": { "terminated": { "exitCode": 3, "reason": "Error" } } });
    let status = json!({
        "phase": "Pending",
        "initContainerStatuses": [container("migrate", waiting("CrashLoopBackOff", ""), last)],
        "containerStatuses": [container("web", waiting("PodInitializing", ""), json!({}))],
    });
    dcm.pod_of(&set, "p04a-pod", status).await;
    dcm.says(CONTAINERS, "p04a", "PENDING", &["migrate", "CrashLoopBackOff", "3"]).await;
}

#[tokio::test]
async fn a_text_that_flips_is_said_once_a_window_and_delays_nobody() {
    let dcm = quiet("p04b").await;
    for id in ["p04b", "p04c"] {
        dcm.container(id, web()).await;
    }
    let missing = waiting("ErrImagePull", "tag nope not found in registry.example/web");
    let backing_off = waiting("ImagePullBackOff", "back-off pulling image registry.example/web:nope");
    let texts =
        [missing, backing_off].map(|state| pod("Pending", json!([container("web", state, json!({}))])));
    let set = dcm.replica_set("p04b", 1).await;
    let flipping = dcm.pod_of(&set, "p04b-pod", texts[0].clone()).await;
    dcm.says(CONTAINERS, "p04b", "PENDING", &["ErrImagePull", "nope"]).await;
    let other = dcm.replica_set("p04c", 1).await;
    let before = dcm.events.of("p04b").len();
    let began = Instant::now();
    let mut changed = None;
    let mut number = 0;
    while began.elapsed() < secs(10) {
        number += 1;
        dcm.becomes(&Kind::POD, &flipping, texts[number % 2].clone()).await;
        if number == 20 {
            dcm.pod_of(&other, "p04c-pod", running()).await;
            changed = Some(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(90)).await;
    }
    dcm.becomes(&Kind::POD, &flipping, texts[0].clone()).await;
    dcm.events.wait_for("p04c", "RUNNING", secs(1)).await.unwrap();
    let told = dcm.events.received().into_iter().find(|message| message.event["data"]["status"] == "RUNNING");
    assert!(told.unwrap().at.saturating_duration_since(changed.unwrap()) < secs(1));
    tokio::time::sleep(secs(2)).await;
    let events = dcm.events.of("p04b");
    let count = events.len() - before;
    assert!((5..=22).contains(&count), "{count}");
    assert!(events.iter().all(|event| event["data"]["status"] == "PENDING"));
    assert!(events.last().unwrap()["data"]["message"].as_str().unwrap().contains("ErrImagePull"));
}

#[tokio::test]
async fn a_native_sidecar_is_a_container_like_the_others() {
    for (setting, crashed) in [("RUNNING", "RUNNING"), ("FAILED", "FAILED")] {
        let dcm = Dcm::start_quietly("p05", |launch| launch.env("SP_CRASH_LOOP_STATUS", setting)).await;
        dcm.container("p05", web()).await;
        let set = dcm.replica_set("p05", 1).await;
        let status = |proxy: Value, web: Value| json!({ "phase": "Running", "initContainerStatuses": [proxy], "containerStatuses": [web] });
        let pod = dcm.pod_of(&set, "p05-pod", status(healthy("proxy"), healthy("web"))).await;
        let shown = dcm.says(CONTAINERS, "p05", "RUNNING", &[]).await;
        assert!(!shown["status_message"].as_str().unwrap().contains("init"), "{shown}");
        dcm.becomes(&Kind::POD, &pod, status(healthy("proxy"), crashing("web", 2))).await;
        dcm.says(CONTAINERS, "p05", crashed, &["web", "CrashLoopBackOff", "2"]).await;
        dcm.becomes(&Kind::POD, &pod, status(crashing("proxy", 9), healthy("web"))).await;
        dcm.says(CONTAINERS, "p05", crashed, &["proxy", "CrashLoopBackOff", "9"]).await;
    }
}

#[tokio::test]
async fn the_deployments_conditions_speak_where_there_is_no_pod() {
    let dcm = quiet("p07").await;
    dcm.container("p07", web()).await;
    let deployment = dcm.only(&Kind::DEPLOYMENT, "p07").await;
    let set = dcm.replica_set("p07", 1).await;
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "type": kind, "status": status, "reason": reason, "message": message });
    let says = async |conditions: Value| {
        dcm.becomes(&Kind::DEPLOYMENT, &deployment, json!({ "conditions": conditions })).await;
    };
    let quota = "exceeded quota: team-q, requested limits.memory=2Gi";
    let progressing = condition("Progressing", "True", "ReplicaSetUpdated", "progressing");
    says(json!([progressing, condition("ReplicaFailure", "True", "FailedCreate", quota)])).await;
    dcm.says(CONTAINERS, "p07", "FAILED", &["quota", "team-q"]).await;
    says(json!([progressing])).await;
    let pod = dcm.pod_of(&set, "p07-pod", json!({ "phase": "Pending" })).await;
    dcm.says(CONTAINERS, "p07", "PENDING", &[]).await;
    dcm.becomes(&Kind::POD, &pod, running()).await;
    dcm.says(CONTAINERS, "p07", "RUNNING", &[]).await;
    dcm.pod_ends(&pod).await;
    says(json!([condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out progressing")]))
        .await;
    dcm.says(CONTAINERS, "p07", "FAILED", &["ProgressDeadlineExceeded", "timed out"]).await;
    says(json!([condition("Progressing", "False", "SomethingElse", "")])).await;
    dcm.says(CONTAINERS, "p07", "PENDING", &[]).await;
    says(json!([condition("ReplicaFailure", "False", "FailedCreate", quota)])).await;
    dcm.says(CONTAINERS, "p07", "PENDING", &[]).await;
    dcm.events.quiet("p07", secs(1)).await.unwrap();
}

#[tokio::test]
async fn messages_name_what_ended_a_pod_or_holds_it_up() {
    let dcm = quiet("words").await;
    dcm.container("words", web()).await;
    let set = dcm.replica_set("words", 1).await;
    let held = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available" }]);
    let pod_of = dcm.pod_of(&set, "words-pod", json!({ "phase": "Pending", "conditions": held })).await;
    dcm.says(CONTAINERS, "words", "PENDING", &["Unschedulable", "0/3 nodes"]).await;
    dcm.becomes(&Kind::POD, &pod_of, json!({ "phase": "Unknown", "reason": "NodeLost", "conditions": null }))
        .await;
    dcm.says(CONTAINERS, "words", "UNKNOWN", &["NodeLost"]).await;
    let ended = |reason: &str| {
        let state = json!({ "terminated": { "exitCode": 137, "reason": reason } });
        json!({ "phase": "Failed", "reason": null, "containerStatuses": [container("web", state, json!({}))] })
    };
    dcm.becomes(&Kind::POD, &pod_of, ended("Error")).await;
    let shown = dcm.says(CONTAINERS, "words", "FAILED", &["web", "137"]).await;
    assert!(!shown["status_message"].as_str().unwrap().to_lowercase().contains("oom"), "{shown}");
    dcm.becomes(&Kind::POD, &pod_of, ended("OOMKilled")).await;
    dcm.says(CONTAINERS, "words", "FAILED", &["web", "137", "OOMKilled"]).await;
    dcm.pod_ends(&pod_of).await;
    dcm.says(CONTAINERS, "words", "PENDING", &[]).await;
    // Scaled by hand, but not yet seen by the controller: that says nothing.
    let deployment = dcm.only(&Kind::DEPLOYMENT, "words").await;
    let scaled = json!({ "spec": { "replicas": 0 } });
    let scaled = dcm.objects.patch(&Kind::DEPLOYMENT, name_of(&deployment), scaled).await.unwrap();
    dcm.events.quiet("words", secs(1)).await.unwrap();
    let seen = json!({ "observedGeneration": scaled["metadata"]["generation"] });
    dcm.becomes(&Kind::DEPLOYMENT, &deployment, seen).await;
    dcm.says(CONTAINERS, "words", "FAILED", &["scaled to zero"]).await;
}

#[tokio::test]
async fn a_claim_that_waits_is_no_fault_and_a_lost_one_is() {
    let mut dcm = quiet("p10").await;
    make_classes(&dcm.objects).await;
    dcm.volume("p10", disk("v-p10", "10Gi")).await;
    let claim = dcm.only(&Kind::CLAIM, "p10").await;
    event(&dcm, &claim, "consumer", "Normal", "WaitForFirstConsumer", "waiting for first consumer").await;
    dcm.says(VOLUMES, "p10", "PROVISIONING", &["first consumer"]).await;
    // A process that dies before it has noted a delivery repeats it, so this one gets the time.
    dcm.events.quiet("p10", secs(1)).await.unwrap();
    dcm.provider.restart().await.unwrap();
    dcm.events.quiet("p10", secs(2)).await.unwrap();
    dcm.says(VOLUMES, "p10", "PROVISIONING", &["first consumer"]).await;

    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "conditions": [{ "type": kind, "status": status, "reason": reason, "message": message }] });
    dcm.volume("p10b", disk("v-p10b", "10Gi")).await;
    let waits = condition("FileSystemResizePending", "False", "WaitForFirstConsumer", "");
    dcm.claim_becomes("p10b", with(waits, "/phase", json!("Pending"))).await;
    let shown = dcm.says(VOLUMES, "p10b", "PROVISIONING", &["consumer"]).await;
    assert!(!shown["status_message"].as_str().unwrap().contains("file system"), "{shown}");

    dcm.volume("p10c", disk("v-p10c", "10Gi")).await;
    dcm.claim_is_bound("p10c").await;
    dcm.claim_becomes("p10c", condition("FileSystemResizePending", "True", "", "a pod must start to finish"))
        .await;
    dcm.says(VOLUMES, "p10c", "PROVISIONING", &["pod"]).await;
    let lost = with(condition("Resizing", "True", "", ""), "/phase", json!("Lost"));
    dcm.claim_becomes("p10c", lost).await;
    dcm.says(VOLUMES, "p10c", "FAILED", &["lost"]).await;
    dcm.claim_becomes("p10c", json!({ "phase": "Bound", "conditions": null })).await;
    dcm.says(VOLUMES, "p10c", "RUNNING", &["pv-v-p10c"]).await;

    dcm.volume("p10f", disk("v-p10f", "10Gi")).await;
    dcm.claim_becomes("p10f", json!({ "phase": null })).await;
    dcm.says(VOLUMES, "p10f", "PROVISIONING", &[]).await;
}

#[tokio::test]
async fn a_running_container_shows_where_it_is_reached() {
    let dcm = Dcm::start("c27").await;
    let made = dcm.container("open", crate::dcm::web_with_ports(&[(80, "external")])).await;
    dcm.pod_becomes("open", with(running(), "/conditions", ready_since("2026-03-01T00:00:00Z"))).await;
    let service = dcm.only(&Kind::SERVICE, "open").await;
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7", "ipMode": "VIP" }] } });
    dcm.becomes(&Kind::SERVICE, &service, ingress).await;
    let expected = with(made["service"].clone(), "/external_ip", json!("192.0.2.7"));
    let shown = async || {
        let shown = dcm.says(CONTAINERS, "open", "RUNNING", &["the pod is running"]).await;
        (shown["service"] == expected).then_some(shown)
    };
    let shown = eventually("the service has its external address", SOON, shown).await.unwrap();
    assert_eq!(shown["spec"]["network"]["ip"], "10.1.2.3");
    let host = json!({ "loadBalancer": { "ingress": [{ "hostname": "lb.example" }] } });
    dcm.becomes(&Kind::SERVICE, &service, host).await;
    let named =
        async || (dcm.read(CONTAINERS, "open").await["service"]["external_ip"] == "lb.example").then_some(());
    eventually("a host name stands for the address", SOON, named).await.unwrap();
}

#[tokio::test]
async fn a_roll_out_stays_running_while_the_old_pod_serves() {
    let dcm = Dcm::start("c29").await;
    dcm.container("roll", web()).await;
    dcm.pod_becomes("roll", running()).await;
    dcm.says(CONTAINERS, "roll", "RUNNING", &[]).await;
    let deployment = dcm.only(&Kind::DEPLOYMENT, "roll").await;
    let again = json!({ "spec": { "template": { "metadata": { "annotations": { "example": "again" } } } } });
    dcm.objects.patch(&Kind::DEPLOYMENT, name_of(&deployment), again).await.unwrap();
    let second = async || (dcm.of(&Kind::POD, "roll").await.len() == 2).then_some(());
    eventually("the roll-out made a second pod", SOON, second).await.unwrap();
    dcm.events.quiet("roll", secs(1)).await.unwrap();
    assert_eq!(dcm.read(CONTAINERS, "roll").await["status"], "RUNNING");
    assert_eq!(dcm.read(CONTAINERS, "roll").await["spec"]["image"], web()["image"]);
}

#[tokio::test]
async fn a_quota_that_keeps_the_pods_away_is_named() {
    let dcm = Dcm::start("c49").await;
    let quota = json!({ "metadata": { "name": "team-q" }, "spec": { "hard": { "pods": "0" } } });
    dcm.objects.create(&Kind::QUOTA, quota).await.unwrap();
    let counted = async || {
        let quota = dcm.objects.get(&Kind::QUOTA, "team-q").await.ok()??;
        quota["status"]["hard"].is_object().then_some(())
    };
    eventually("the quota counts", SOON, counted).await.unwrap();
    dcm.container("big", web()).await;
    dcm.says(CONTAINERS, "big", "FAILED", &["quota", "team-q"]).await;
}
