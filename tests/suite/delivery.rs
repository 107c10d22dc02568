//! Ledger and bus together, as the monitor joins them: what NATS misses is owed, and nothing else.

use std::time::{Duration, Instant};

use async_nats::jetstream::{
    self,
    stream::{Config, Stream},
};
use bytes::Bytes;
use mapwright::bus::{Bus, Credentials, Delivery, Message, Options, Tls};
use mapwright::cloudevent::{CloudEvent, Identity, rfc3339};
use mapwright::ledger::{Ledger, Outgoing, Report};
use mapwright_testbed::ground::has_servers;
use mapwright_testbed::{Events, Nats, NatsKind, eventually, secs};
use serde_json::Value;

/// A ledger whose reports go out over a real bus.
struct Delivering {
    ledger: Ledger,
    bus: Bus,
    start: Instant,
}

impl Delivering {
    async fn over(nats: &Nats) -> Self {
        Self::over_all(vec![nats.url()]).await
    }

    async fn over_all(servers: Vec<String>) -> Self {
        let options = Options {
            servers,
            name: "suite".to_owned(),
            credentials: Credentials::Url,
            tls: Tls::default(),
            deadline: secs(2),
        };
        let bus = Bus::connect(options).await.unwrap();
        Self { ledger: Ledger::new(Duration::from_millis(100)), bus, start: Instant::now() }
    }

    fn observe(&mut self, id: &str, status: &str) {
        let report = Report { status: status.to_owned(), message: String::new(), settling: false };
        self.ledger.observe(self.start.elapsed(), id, 1, report);
    }

    async fn deliver_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for outgoing in self.ledger.due(self.start.elapsed()) {
                self.send(&outgoing).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn send(&mut self, outgoing: &Outgoing) {
        let event = CloudEvent::new(&identity(outgoing), rfc3339(self.start.elapsed()));
        let message = Message {
            subject: event.envelope.subject.clone(),
            id: event.id.to_string(),
            payload: Bytes::from(event.to_bytes()),
            announced: outgoing.announced,
        };
        let delivery = self.bus.publish(&message).await;
        let now = self.start.elapsed();
        match delivery {
            Ok(Delivery::Acknowledged | Delivery::Flushed) => self.ledger.delivered(outgoing),
            Ok(Delivery::NoStreamYet) => self.ledger.announced(now, outgoing),
            Err(_) => self.ledger.failed(now, outgoing),
        }
    }
}

fn identity(outgoing: &Outgoing) -> Identity<'_> {
    Identity {
        provider: "k8s-east",
        service_type: "sample",
        instance: &outgoing.id,
        life: outgoing.life,
        status: &outgoing.report.status,
        message: &outgoing.report.message,
        revision: outgoing.revision,
    }
}

#[tokio::test]
async fn after_an_outage_the_newest_status_of_every_instance_arrives_and_none_older() {
    if !has_servers() {
        return;
    }
    let mut nats = Nats::start(NatsKind::JetStream).await.unwrap();
    nats.stream("dcm", &["dcm.*"]).await.unwrap();
    let events = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    let mut delivering = Delivering::over(&nats).await;
    let ids = (0..20).map(|number| format!("web-{number}")).collect::<Vec<_>>();
    ids.iter().for_each(|id| delivering.observe(id, "PENDING"));
    delivering.deliver_for(secs(2)).await;
    nats.kill();
    for round in 0..10 {
        ids.iter().for_each(|id| delivering.observe(id, &format!("CHANGED-{round}")));
        delivering.deliver_for(Duration::from_millis(150)).await;
    }
    nats.restart().await.unwrap();
    let mut link = delivering.bus.link();
    tokio::time::timeout(secs(10), link.wait_for(|link| link.up)).await.unwrap().unwrap();
    delivering.ledger.retry_now();
    delivering.deliver_for(secs(1)).await;
    assert_eq!(delivering.ledger.owing(), 0);
    for id in &ids {
        assert_eq!(events.statuses(id), ["PENDING", "CHANGED-9"], "{id}");
    }
}

#[tokio::test]
async fn a_node_that_leaves_the_cluster_costs_no_status_and_no_order() {
    if !has_servers() {
        return;
    }
    let mut nodes = Nats::cluster(3).await.unwrap();
    let made = async || made_stream(&nodes[1]).await;
    let stream = eventually("the cluster has a stream", secs(60), made).await.unwrap();
    let mut delivering = Delivering::over_all(vec![nodes[0].url()]).await;
    let mut link = delivering.bus.link();
    tokio::time::timeout(secs(20), link.wait_for(|link| link.up)).await.unwrap().unwrap();
    let ids = (0..20).map(|number| format!("web-{number}")).collect::<Vec<_>>();
    for round in 0..5 {
        if round == 2 {
            nodes[0].lame_duck();
        }
        ids.iter().for_each(|id| delivering.observe(id, &format!("CHANGED-{round}")));
        delivering.deliver_for(Duration::from_millis(300)).await;
    }
    let end = Instant::now() + secs(60);
    while delivering.ledger.owing() > 0 && Instant::now() < end {
        delivering.deliver_for(Duration::from_millis(200)).await;
    }
    assert_eq!(delivering.ledger.owing(), 0);
    let kept = kept(&stream).await;
    for id in &ids {
        let said: Vec<&String> = kept.iter().filter(|(of, _)| of == id).map(|(_, status)| status).collect();
        assert!(said.is_sorted(), "{id}: {said:?}");
        assert_eq!(said.last().map(|last| last.as_str()), Some("CHANGED-4"), "{id}: {said:?}");
    }
}

/// A stream on all nodes of a cluster, once the cluster has come together.
async fn made_stream(node: &Nats) -> Option<Stream> {
    let client = async_nats::connect(node.url()).await.ok()?;
    let subjects = vec!["dcm.*".to_owned()];
    let config = Config { name: "dcm".to_owned(), subjects, num_replicas: 3, ..Config::default() };
    jetstream::new(client).get_or_create_stream(config).await.ok()
}

/// Id and status of each message that a stream holds, oldest first.
async fn kept(stream: &Stream) -> Vec<(String, String)> {
    let state = stream.get_info().await.unwrap().state;
    let mut kept = Vec::new();
    for number in state.first_sequence..=state.last_sequence {
        let message = stream.get_raw_message(number).await.unwrap();
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        let text = |member: &str| event["data"][member].as_str().unwrap().to_owned();
        kept.push((text("id"), text("status")));
    }
    kept
}

#[tokio::test]
async fn an_event_that_no_stream_kept_is_kept_once_there_is_one() {
    if !has_servers() {
        return;
    }
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    let events = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    let mut delivering = Delivering::over(&nats).await;
    delivering.observe("web", "RUNNING");
    delivering.deliver_for(secs(3)).await;
    assert_eq!(events.statuses("web"), ["RUNNING"], "listeners hear it once, however often it is tried");
    assert!(delivering.ledger.owes("web"));
    nats.stream("dcm", &["dcm.*"]).await.unwrap();
    delivering.deliver_for(secs(7)).await;
    assert!(!delivering.ledger.owes("web"));
}
