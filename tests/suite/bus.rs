//! The bus against real servers: with a stream, without one, without JetStream, and with fewer rights.

use std::time::Duration;

use bytes::Bytes;
use mapwright::bus::*;
use mapwright_testbed::ground::has_servers;
use mapwright_testbed::process::Scratch;
use mapwright_testbed::{Events, Nats, NatsKind, secs};

const SUBJECT: &str = "dcm.sample";

async fn bus_at(url: String) -> Bus {
    let options = Options {
        servers: vec![url],
        name: "suite".to_owned(),
        credentials: Credentials::Url,
        tls: Tls::default(),
        deadline: Duration::from_secs(2),
    };
    Bus::connect(options).await.unwrap()
}

async fn connected(nats: &Nats) -> Bus {
    let bus = bus_at(nats.url()).await;
    up(&bus).await;
    bus
}

async fn up(bus: &Bus) {
    let mut link = bus.link();
    tokio::time::timeout(secs(10), link.wait_for(|link| link.up)).await.unwrap().unwrap();
}

fn message(id: &str, announced: bool) -> Message {
    let payload = Bytes::from(format!(r#"{{"data": {{"id": "{id}", "status": "RUNNING"}}}}"#));
    Message { subject: SUBJECT.to_owned(), id: id.to_owned(), payload, announced }
}

async fn stored(nats: &Nats) -> u64 {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("dcm").await.unwrap();
    stream.cached_info().state.messages
}

#[tokio::test]
async fn a_stream_acknowledges_and_drops_a_second_copy() {
    if !has_servers() {
        return;
    }
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    nats.stream("dcm", &["dcm.*"]).await.unwrap();
    let bus = connected(&nats).await;
    for _ in 0..2 {
        assert_eq!(bus.publish(&message("a", false)).await.unwrap(), Delivery::Acknowledged);
    }
    assert_eq!(stored(&nats).await, 1);
}

#[tokio::test]
async fn without_a_stream_listeners_hear_it_once_and_the_stream_gets_it_when_it_comes() {
    if !has_servers() {
        return;
    }
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    let events = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    let bus = connected(&nats).await;
    assert_eq!(bus.publish(&message("a", false)).await.unwrap(), Delivery::NoStreamYet);
    assert_eq!(bus.publish(&message("a", true)).await.unwrap(), Delivery::NoStreamYet);
    events.wait_for("a", "RUNNING", secs(5)).await.unwrap();
    assert_eq!(events.received().len(), 1);
    nats.stream("dcm", &["dcm.*"]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(bus.publish(&message("a", true)).await.unwrap(), Delivery::Acknowledged);
    assert_eq!(stored(&nats).await, 1);
}

#[tokio::test]
async fn a_stream_that_was_removed_is_noticed_although_somebody_listens() {
    if !has_servers() {
        return;
    }
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    nats.stream("dcm", &["dcm.*"]).await.unwrap();
    let _events = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    let bus = connected(&nats).await;
    bus.publish(&message("a", false)).await.unwrap();
    let client = async_nats::connect(nats.url()).await.unwrap();
    async_nats::jetstream::new(client).delete_stream("dcm").await.unwrap();
    assert_eq!(bus.publish(&message("b", false)).await.unwrap_err().kind(), BusErrorKind::TimedOut);
    assert_eq!(bus.publish(&message("b", false)).await.unwrap(), Delivery::NoStreamYet);
}

#[tokio::test]
async fn a_server_without_jetstream_takes_a_flush_for_delivery() {
    let nats = Nats::start(NatsKind::Plain).await.unwrap();
    let events = Events::subscribe(&nats.url(), "dcm.*").await.unwrap();
    let bus = connected(&nats).await;
    assert_eq!(bus.publish(&message("a", false)).await.unwrap(), Delivery::Flushed);
    events.wait_for("a", "RUNNING", secs(5)).await.unwrap();
    assert_eq!(events.received()[0].message_id.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_server_that_comes_late_or_comes_back_is_found() {
    if !has_servers() {
        return;
    }
    let mut nats = Nats::start(NatsKind::JetStream).await.unwrap();
    nats.stream("dcm", &["dcm.*"]).await.unwrap();
    nats.kill();
    let bus = bus_at(nats.url()).await;
    assert_eq!(bus.publish(&message("a", false)).await.unwrap_err().kind(), BusErrorKind::Disconnected);
    nats.restart().await.unwrap();
    up(&bus).await;
    bus.publish(&message("a", false)).await.unwrap();
    nats.kill();
    let mut link = bus.link();
    tokio::time::timeout(secs(10), link.wait_for(|link| !link.up)).await.unwrap().unwrap();
    let error = bus.publish(&message("b", false)).await.unwrap_err();
    assert!(
        error.to_string().starts_with("cannot publish on `dcm.sample`: NATS is not connected"),
        "{error}"
    );
    nats.restart().await.unwrap();
    up(&bus).await;
    bus.publish(&message("b", false)).await.unwrap();
    assert_eq!(stored(&nats).await, 2);
}

#[tokio::test]
async fn the_bucket_keeps_the_ledger_and_refuses_a_stale_revision() {
    if !has_servers() {
        return;
    }
    let mut nats = Nats::start(NatsKind::JetStream).await.unwrap();
    let scratch = Scratch::new("ledger").unwrap();
    let bus = connected(&nats).await;
    let store = LedgerStore::open(&bus, "ledger", scratch.path()).await.unwrap();
    assert!(store.is_shared() && store.load_all("").await.unwrap().is_empty(), "{store}");
    let first = store.put("k8s-east/sample/a", Bytes::from_static(b"1"), None).await.unwrap();
    let second = store.put("k8s-east/sample/a", Bytes::from_static(b"2"), Some(first)).await.unwrap();
    for stale in [None, Some(first)] {
        let error = store.put("k8s-east/sample/a", Bytes::from_static(b"3"), stale).await.unwrap_err();
        assert_eq!(error.kind(), BusErrorKind::Conflict, "{error}");
    }
    nats.restart().await.unwrap();
    let bus = connected(&nats).await;
    let store = LedgerStore::open(&bus, "ledger", scratch.path()).await.unwrap();
    let kept = store.load_all("").await.unwrap();
    assert_eq!(kept["k8s-east/sample/a"], Stored { value: Bytes::from_static(b"2"), revision: second });
    store.delete("k8s-east/sample/a").await.unwrap();
    assert!(store.load_all("").await.unwrap().is_empty());
    store.put("k8s-east/sample/a", Bytes::from_static(b"4"), None).await.unwrap();
}

#[tokio::test]
async fn a_bucket_of_many_is_read_whole() {
    if !has_servers() {
        return;
    }
    let nats = Nats::start(NatsKind::JetStream).await.unwrap();
    let bus = connected(&nats).await;
    let store = LedgerStore::open(&bus, "ledger", std::path::Path::new("unused")).await.unwrap();
    for number in 0..1_000 {
        store.put(&format!("instance {number}"), Bytes::from(number.to_string()), None).await.unwrap();
    }
    let kept = store.load_all("").await.unwrap();
    assert_eq!(kept.len(), 1_000);
    assert_eq!(kept["instance 999"].value, Bytes::from_static(b"999"));
}

#[tokio::test]
async fn without_jetstream_the_ledger_is_a_directory() {
    let nats = Nats::start(NatsKind::Plain).await.unwrap();
    let scratch = Scratch::new("ledger").unwrap();
    let bus = connected(&nats).await;
    let store = LedgerStore::open(&bus, "ledger", scratch.path()).await.unwrap();
    assert!(!store.is_shared() && store.to_string().starts_with("files in "), "{store}");
}

#[tokio::test]
async fn a_directory_keeps_every_key_apart_and_ignores_what_is_half_written() {
    let scratch = Scratch::new("ledger").unwrap();
    let store = LedgerStore::in_directory(scratch.join("ledger")).unwrap();
    let keys = ["a", "A", "a/b", "a_b", "a.b", "../a", "a b", "ä", ""];
    for key in keys {
        store.put(key, Bytes::from(key.to_owned()), None).await.unwrap();
        store.put(key, Bytes::from(key.to_owned()), Some(1)).await.unwrap();
    }
    scratch.write("ledger/b.new", "half").unwrap();
    let store = LedgerStore::in_directory(scratch.join("ledger")).unwrap();
    let kept = store.load_all("").await.unwrap();
    assert_eq!(kept.len(), keys.len());
    assert!(kept.iter().all(|(key, stored)| stored.value == key.as_bytes()), "{kept:?}");
    store.delete("a").await.unwrap();
    store.delete("a").await.unwrap();
    assert_eq!(store.load_all("").await.unwrap().len(), keys.len() - 1);
}

#[tokio::test]
async fn a_credentials_file_that_cannot_be_used_is_named_at_the_start() {
    let scratch = Scratch::new("creds").unwrap();
    let seedless = "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n";
    let cases =
        [("absent", None, "cannot read"), ("seedless", Some(seedless), "has no block `USER NKEY SEED`")];
    for (name, text, expected) in cases {
        let path = scratch.join(name);
        text.map(|text| scratch.write(name, text).unwrap());
        let options = Options {
            servers: vec!["nats://127.0.0.1:1".to_owned()],
            name: "suite".to_owned(),
            credentials: Credentials::File(path),
            tls: Tls::default(),
            deadline: secs(1),
        };
        let error = Bus::connect(options).await.err().unwrap();
        assert!(error.kind() == BusErrorKind::Options && error.to_string().contains(expected), "{error}");
    }
}

/// The rights of a user who may publish events, and nothing else.
const FEW_RIGHTS: &str = r#"
    authorization { users = [
        { user: full, password: full }
        { user: few, password: few, permissions: { publish: "dcm.>", subscribe: "_INBOX.>" } }
    ] }
"#;

#[tokio::test]
async fn with_fewer_rights_events_still_go_out_and_the_ledger_is_a_directory() {
    if !has_servers() {
        return;
    }
    let scratch = Scratch::new("rights").unwrap();
    let port = mapwright_testbed::process::free_port().unwrap();
    let config = format!(
        "listen: 127.0.0.1:{port}\njetstream {{ store_dir: {:?} }}\n{FEW_RIGHTS}",
        scratch.join("js")
    );
    let config = scratch.write("nats.conf", &config).unwrap();
    let mut command = std::process::Command::new(mapwright_testbed::Binaries::find().unwrap().nats_server);
    command.arg("-c").arg(config);
    let _server = mapwright_testbed::process::Process::spawn_logged(&command, &scratch.join("log")).unwrap();
    let bus = bus_at(format!("nats://few:few@127.0.0.1:{port}")).await;
    up(&bus).await;
    let store = LedgerStore::open(&bus, "ledger", scratch.path()).await.unwrap();
    assert!(!store.is_shared(), "{store}");
    assert!(bus.publish(&message("a", false)).await.is_err(), "no stream, so nothing acknowledges");
    let full = async_nats::ConnectOptions::with_user_and_password("full".to_owned(), "full".to_owned());
    let full = full.connect(format!("nats://127.0.0.1:{port}")).await.unwrap();
    let config = async_nats::jetstream::stream::Config {
        name: "dcm".to_owned(),
        subjects: vec!["dcm.*".to_owned()],
        ..Default::default()
    };
    async_nats::jetstream::new(full).create_stream(config).await.unwrap();
    assert_eq!(bus.publish(&message("a", false)).await.unwrap(), Delivery::Acknowledged);
}
