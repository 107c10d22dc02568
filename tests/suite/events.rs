//! Events on NATS: each change once, in order, in the contract's form, over outages and restarts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mapwright_testbed::ground::has_servers;
use mapwright_testbed::{Events, Kind, Nats, NatsKind, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{CONTAINERS, Dcm, SOON, name_of, running, source, web};

#[tokio::test]
async fn an_event_has_exactly_the_attributes_of_the_contract() {
    let dcm = Dcm::start("m01").await;
    dcm.container("web-1", web()).await;
    dcm.pod("web-1").await;
    dcm.says(CONTAINERS, "web-1", "PENDING", &[]).await;
    let before = dcm.events.of("web-1").len();
    dcm.pod_becomes("web-1", running()).await;
    let event = dcm.events.wait_for("web-1", "RUNNING", SOON).await.unwrap();
    let expected = json!({
        "specversion": "1.0",
        "id": event["id"],
        "source": source(&dcm.objects),
        "type": "dcm.status.container",
        "subject": "dcm.container",
        "datacontenttype": "application/json",
        "time": event["time"],
        "data": { "id": "web-1", "status": "RUNNING", "message": "the pod is running" },
    });
    assert_eq!(event, expected);
    assert!(uuid::Uuid::parse_str(event["id"].as_str().unwrap()).is_ok());
    let time = event["time"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    let message = dcm.events.received().pop().unwrap();
    assert_eq!(
        (message.subject.as_str(), message.message_id.as_deref()),
        ("dcm.container", event["id"].as_str())
    );
    dcm.events.quiet("web-1", secs(1)).await.unwrap();
    assert_eq!(dcm.events.of("web-1").len(), before + 1);
}

#[tokio::test]
async fn a_busy_instance_says_the_first_change_and_the_last() {
    let dcm = unhurried("m02").await;
    let pod = lone_pod(&dcm, "busy").await;
    dcm.container("calm", web()).await;
    dcm.events.wait_for("calm", "PENDING", SOON).await.unwrap();
    dcm.says(CONTAINERS, "busy", "PENDING", &["starting"]).await;
    dcm.events.quiet("busy", BEHIND_THE_WINDOW).await.unwrap();
    let before = dcm.events.of("busy").len();
    for status in [running(), json!({ "phase": "Pending" }), running(), json!({ "phase": "Failed" })] {
        dcm.becomes(&Kind::POD, &pod, status).await;
    }
    dcm.events.wait_for("busy", "FAILED", SOON).await.unwrap();
    dcm.events.quiet("busy", BEHIND_THE_WINDOW).await.unwrap();
    assert_eq!(dcm.events.statuses("busy")[before..], ["RUNNING", "FAILED"]);
    assert_eq!(dcm.events.statuses("calm"), ["PENDING"]);
}

#[tokio::test]
async fn an_error_that_heals_within_the_window_is_not_said() {
    let dcm = unhurried("m14").await;
    let pod = lone_pod(&dcm, "brave").await;
    dcm.becomes(&Kind::POD, &pod, running()).await;
    dcm.says(CONTAINERS, "brave", "RUNNING", &[]).await;
    dcm.events.quiet("brave", BEHIND_THE_WINDOW).await.unwrap();
    let before = dcm.events.of("brave").len();
    dcm.becomes(&Kind::POD, &pod, json!({ "phase": "Failed" })).await;
    dcm.becomes(&Kind::POD, &pod, running()).await;
    dcm.events.quiet("brave", BEHIND_THE_WINDOW).await.unwrap();
    assert_eq!(dcm.events.of("brave").len(), before);
    dcm.becomes(&Kind::POD, &pod, json!({ "phase": "Failed" })).await;
    dcm.events.wait_for("brave", "FAILED", SOON).await.unwrap();
    assert_eq!(dcm.events.of("brave").len(), before + 1);
}

#[tokio::test]
async fn a_first_change_waits_for_nothing() {
    let dcm = unhurried("m15").await;
    let pod = lone_pod(&dcm, "quick").await;
    dcm.says(CONTAINERS, "quick", "PENDING", &["starting"]).await;
    dcm.events.quiet("quick", BEHIND_THE_WINDOW).await.unwrap();
    dcm.becomes(&Kind::POD, &pod, running()).await;
    let written = Instant::now();
    dcm.events.wait_for("quick", "RUNNING", SOON).await.unwrap();
    let arrived = dcm.events.received().pop().unwrap().at;
    let took = arrived.saturating_duration_since(written);
    assert!(took < WINDOW, "{took:?}");
}

#[tokio::test]
async fn a_pod_that_succeeded_is_no_news() {
    let dcm = quiet("m05").await;
    let pod = lone_pod(&dcm, "done").await;
    dcm.becomes(&Kind::POD, &pod, running()).await;
    dcm.says(CONTAINERS, "done", "RUNNING", &[]).await;
    dcm.becomes(&Kind::POD, &pod, json!({ "phase": "Succeeded" })).await;
    dcm.events.quiet("done", secs(2)).await.unwrap();
    assert_eq!(dcm.read(CONTAINERS, "done").await["status"], "RUNNING");
}

#[tokio::test]
async fn an_empty_ledger_says_everything_once_and_a_full_one_nothing() {
    let mut dcm = quiet("m03").await;
    for id in ["a", "b", "c"] {
        dcm.container(id, web()).await;
        dcm.events.wait_for(id, "PENDING", SOON).await.unwrap();
    }
    dcm.provider.terminate(SOON).await.unwrap();
    dcm.provider.restart().await.unwrap();
    // Health answers before the ledger is read; a change proves that the monitor is at work.
    lone_pod_of(&dcm, "a").await;
    dcm.events.wait_for("a", "PENDING", SOON).await.unwrap();
    dcm.events.quiet("b", secs(2)).await.unwrap();
    assert_eq!((dcm.events.of("b").len(), dcm.events.of("c").len()), (1, 1));

    let bucket = format!("ledger-{}", dcm.objects.namespace());
    dcm.provider.restart_with("SP_LEDGER_BUCKET", &bucket).await.unwrap();
    for id in ["b", "c"] {
        let twice = async || (dcm.events.of(id).len() == 2).then_some(());
        eventually("it is said once more", SOON, twice).await.unwrap();
    }
    dcm.events.quiet("b", secs(1)).await.unwrap();
    assert_eq!(dcm.events.statuses("b"), ["PENDING", "PENDING"]);
}

#[tokio::test]
async fn a_resync_says_nothing_new() {
    let dcm = Dcm::start_quietly("m08", |launch| launch.env("SP_MONITOR_RESYNC_PERIOD", "1s")).await;
    dcm.container("same", web()).await;
    dcm.events.wait_for("same", "PENDING", SOON).await.unwrap();
    dcm.events.quiet("same", secs(4)).await.unwrap();
}

#[tokio::test]
async fn what_vanished_while_nobody_looked_is_reported_at_the_start() {
    let mut dcm = quiet("m04").await;
    for id in ["gone-1", "gone-2", "stays"] {
        dcm.container(id, web()).await;
        dcm.events.wait_for(id, "PENDING", SOON).await.unwrap();
    }
    // A process that dies between an acknowledgement and its note of it may repeat itself: not here.
    dcm.events.quiet("stays", secs(1)).await.unwrap();
    dcm.provider.kill();
    for id in ["gone-1", "gone-2"] {
        let deployment = dcm.only(&Kind::DEPLOYMENT, id).await;
        dcm.objects.delete(&Kind::DEPLOYMENT, name_of(&deployment)).await.unwrap();
    }
    dcm.provider.restart().await.unwrap();
    for id in ["gone-1", "gone-2"] {
        dcm.events.wait_for(id, "DELETED", SOON).await.unwrap();
        dcm.is_gone(CONTAINERS, id).await;
    }
    dcm.events.quiet("gone-1", secs(1)).await.unwrap();
    assert_eq!(dcm.events.statuses("gone-1"), ["PENDING", "DELETED"]);
    assert_eq!(dcm.events.statuses("stays"), ["PENDING"]);
    // Said is said.
    dcm.provider.restart().await.unwrap();
    dcm.events.quiet("gone-1", secs(2)).await.unwrap();
}

#[tokio::test]
async fn a_bus_that_comes_late_gets_the_newest_status() {
    if !has_servers() {
        return;
    }
    let port = mapwright_testbed::process::free_port().unwrap();
    let url = format!("nats://127.0.0.1:{port}");
    let dcm = Dcm::start_quietly("m10", |launch| launch.env("SP_NATS_URL", &url)).await;
    let pod = lone_pod(&dcm, "early").await;
    dcm.becomes(&Kind::POD, &pod, running()).await;
    let shown = async || (dcm.read(CONTAINERS, "early").await["status"] == "RUNNING").then_some(());
    eventually("GET says RUNNING", SOON, shown).await.unwrap();
    let mut nats = Nats::start_at(NatsKind::JetStream, port).await.unwrap();
    nats.stream("dcm-status", &["dcm.*"]).await.unwrap();
    let newest = async || nats.newest("dcm-status", "dcm.container").await.ok();
    let event = eventually("the event is in the stream", SOON, newest).await.unwrap();
    assert_eq!(event["data"], json!({ "id": "early", "status": "RUNNING", "message": "the pod is running" }));

    // An outage keeps the newest status of every instance, and gives it back in order.
    let other = lone_pod(&dcm, "late").await;
    let both = [("early", &pod), ("late", &other)];
    let seen = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    seen.wait_for("late", "PENDING", SOON).await.unwrap();
    nats.kill();
    for number in 0..20 {
        for (_, pod) in both {
            let failed = json!({ "phase": "Failed", "message": format!("number {number}") });
            dcm.becomes(&Kind::POD, pod, failed).await;
        }
    }
    assert_eq!(dcm.get("/health").await.status, 200);
    nats.restart().await.unwrap();
    for (id, _) in both {
        let event = seen.wait_for(id, "FAILED", SOON).await.unwrap();
        assert_eq!(event["data"]["message"], "number 19");
    }
    seen.quiet("late", secs(1)).await.unwrap();
    let last = seen.of("late").pop().unwrap();
    assert_eq!(last["data"]["message"], "number 19");
}

#[tokio::test]
async fn an_event_without_a_stream_is_owed_until_there_is_one() {
    if !has_servers() {
        return;
    }
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    let dcm = Dcm::start_quietly("m16", |launch| launch.env("SP_NATS_URL", &nats.url())).await;
    let heard = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    dcm.container("owed", web()).await;
    heard.wait_for("owed", "PENDING", SOON).await.unwrap();
    nats.stream("dcm-status", &["dcm.*"]).await.unwrap();
    let newest = async || nats.newest("dcm-status", "dcm.container").await.ok();
    let event = eventually("the stream holds the event", SOON, newest).await.unwrap();
    assert_eq!((&event["data"]["id"], &event["data"]["status"]), (&json!("owed"), &json!("PENDING")));
    let settled = async || {
        let health = dcm.get(&format!("{CONTAINERS}/health")).await.json();
        (health["events"]["owed"] == 0).then_some(())
    };
    eventually("nothing is owed", SOON, settled).await.unwrap();
    let ids: BTreeSet<String> = heard.of("owed").iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "a repeat carries its id");
}

#[tokio::test]
async fn a_shutdown_flushes_what_is_owed() {
    let mut dcm = quiet("p19").await;
    let pod = lone_pod(&dcm, "last").await;
    dcm.becomes(&Kind::POD, &pod, running()).await;
    dcm.says(CONTAINERS, "last", "RUNNING", &[]).await;
    let text = "a \"quote\", a \\ and\na\ttab \u{7} \u{1f980} ".to_owned() + &"x".repeat(4000);
    dcm.becomes(&Kind::POD, &pod, json!({ "phase": "Failed", "message": text })).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let status = dcm.provider.terminate(secs(15)).await.unwrap();
    assert!(status.success(), "{status}");
    let event = dcm.events.wait_for("last", "FAILED", secs(2)).await.unwrap();
    assert_eq!(event["data"], json!({ "id": "last", "status": "FAILED", "message": text }));
}

#[tokio::test]
async fn a_dead_server_at_the_head_of_the_list_keeps_no_event_back() {
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    nats.stream("dcm-status", &["dcm.*"]).await.unwrap();
    let heard = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    let servers = format!("nats://127.0.0.1:1,{}", nats.url());
    let dcm = Dcm::start_quietly("p19c", |launch| launch.env("SP_NATS_URL", &servers)).await;
    dcm.container("early", web()).await;
    heard.wait_for("early", "PENDING", SOON).await.unwrap();
}

/// A window so long that a busy machine is faster.
const WINDOW: Duration = secs(2);
const BEHIND_THE_WINDOW: Duration = Duration::from_millis(2_500);

async fn unhurried(name: &str) -> Dcm {
    let window = WINDOW.as_millis().to_string();
    Dcm::start_quietly(name, |launch| launch.env("SP_MONITOR_DEBOUNCE_MS", &window)).await
}

async fn quiet(name: &str) -> Dcm {
    Dcm::start_quietly(name, |launch| launch).await
}

/// A container whose one pod obeys the test.
async fn lone_pod(dcm: &Dcm, id: &str) -> Value {
    dcm.container(id, web()).await;
    lone_pod_of(dcm, id).await
}

async fn lone_pod_of(dcm: &Dcm, id: &str) -> Value {
    let set = dcm.replica_set(id, 1).await;
    dcm.pod_of(&set, &format!("{id}-pod"), json!({ "phase": "Pending" })).await
}
