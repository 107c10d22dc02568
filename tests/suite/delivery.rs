//! Ledger and bus together, as the monitor joins them: what NATS misses is owed, and nothing else.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mapwright::bus::{Bus, Credentials, Delivery, Message, Options, Tls};
use mapwright::cloudevent::{CloudEvent, Identity, rfc3339};
use mapwright::ledger::{Ledger, Outgoing, Report};
use mapwright_testbed::ground::has_servers;
use mapwright_testbed::{Events, Nats, NatsKind, secs};

/// A ledger whose reports go out over a real bus.
struct Delivering {
    ledger: Ledger,
    bus: Bus,
    start: Instant,
}

impl Delivering {
    async fn over(nats: &Nats) -> Self {
        let options = Options {
            servers: vec![nats.url()],
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
