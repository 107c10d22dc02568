//! The cluster room against a scripted server: what no real one does on demand.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mapwright::cluster::{
    Cluster, ConnectOptions, ListOptions, ObjectKey, Prune, RefusalKind, Resource, ResourceRef, Store,
    WatchKey, WatchSpec, Watches,
};
use mapwright_testbed::wait::{eventually, secs};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::wire::{Reply, Scripted};

#[tokio::test]
async fn every_form_of_410_leads_to_a_new_list() {
    let gone = json!({ "kind": "Status", "status": "Failure", "reason": "Expired", "code": 410 });
    for form in ["in the stream", "bare in the stream", "over HTTP"] {
        let gone = gone.clone();
        let mut lists = 0;
        let server = Scripted::start(move |asked| match (asked.is_watch(), lists) {
            (false, _) => {
                lists += 1;
                if lists == 1 { list(&["a", "b"]) } else { list(&["b", "c"]) }
            }
            (true, 1) => match form {
                "in the stream" => Reply::Lines(vec![json!({ "type": "ERROR", "object": gone })]),
                "bare in the stream" => Reply::Lines(vec![gone.clone()]),
                _ => Reply::Json(410, gone.clone()),
            },
            (true, _) => Reply::Silence,
        })
        .await;
        let (_watches, store) = watch(&server).await;
        eventually(form, secs(5), async || (names(&store) == ["b", "c"]).then_some(())).await.unwrap();
        assert_eq!(store.lists(), 2, "{form}");
    }
}

#[tokio::test]
async fn an_incomplete_list_proves_nothing() {
    let mut lists = 0;
    let server = Scripted::start(move |asked| {
        if asked.is_watch() {
            return Reply::Lines(vec![json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } })]);
        }
        lists += 1;
        match (lists, asked.query.contains("continue=")) {
            (1, _) => list(&["a", "b"]),
            // The second list breaks after its first page, every time.
            (_, false) => Reply::Json(200, json!({
                "metadata": { "resourceVersion": "9", "continue": "more" }, "items": [object("b", 9, "x")],
            })),
            (_, true) => Reply::Json(500, json!("broken")),
        }
    })
    .await;
    let (_watches, store) = watch(&server).await;
    eventually("the second list broke", secs(5), async || {
        server.asked().iter().any(|asked| asked.query.contains("continue=")).then_some(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(names(&store), ["a", "b"]);
    assert_eq!(store.lists(), 1);
    assert!(store.failure().unwrap().contains("500"), "{:?}", store.failure());
}

#[tokio::test]
async fn a_watch_begins_with_what_is_there_and_only_its_mark_tells_of_absence() {
    let added = |name: &str| json!({ "type": "ADDED", "object": object(name, 5, "x") });
    let end = |version: &str| {
        let annotations = json!({ "k8s.io/initial-events-end": "true" });
        let metadata = json!({ "resourceVersion": version, "annotations": annotations });
        json!({ "type": "BOOKMARK", "object": { "kind": "ConfigMap", "metadata": metadata } })
    };
    let gone = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410, "reason": "Expired" } });
    let script = [
        // What was there, a change, and an end from which nothing leads on.
        vec![
            added("a"),
            added("b"),
            end("7"),
            json!({ "type": "ADDED", "object": object("c", 8, "x") }),
            gone,
        ],
        // It breaks before its mark: a is not gone.
        vec![added("b")],
        vec![added("b"), added("c"), end("9")],
    ];
    let mut watches = script.into_iter();
    let server = Scripted::start(move |asked| match (asked.is_watch(), watches.next()) {
        (true, Some(lines)) => Reply::Lines(lines),
        _ => Reply::Silence,
    })
    .await;
    let (_watches, store) = watch_of(&connect_with(&server, json!({}), secs(2), true).await).await;
    eventually("a is gone", secs(10), async || (names(&store) == ["b", "c"]).then_some(())).await.unwrap();
    eventually("the watch goes on", secs(5), async || (server.asked().len() == 4).then_some(()))
        .await
        .unwrap();
    let asked = server.asked();
    let begins: Vec<bool> =
        asked.iter().map(|asked| asked.query.contains("sendInitialEvents=true")).collect();
    assert_eq!((begins, store.lists()), (vec![true, true, true, false], 2));
    assert!(asked[3].query.contains("resourceVersion=9"), "{}", asked[3].query);
}

#[tokio::test]
async fn a_server_that_cannot_begin_a_watch_with_what_is_there_is_asked_for_pages() {
    let refusal = json!({ "kind": "Status", "code": 422, "reason": "Invalid",
        "message": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled" });
    for unknown in [false, true] {
        let refusal = refusal.clone();
        let mut kept = Vec::new();
        let server =
            Scripted::start(move |asked| match (asked.is_watch(), asked.query.contains("sendInitial")) {
                (false, _) => list(&["a", "b"]),
                // One that does not know of it sends what is there, and goes on without a mark.
                (true, true) if unknown => {
                    let (send, lines) = mpsc::unbounded_channel();
                    send.send(json!({ "type": "ADDED", "object": object("a", 5, "x") })).unwrap();
                    kept.push(send);
                    Reply::Open(lines)
                }
                (true, true) => Reply::Json(422, refusal.clone()),
                (true, false) => Reply::Silence,
            })
            .await;
        let cluster = connect_with(&server, json!({}), secs(2), true).await;
        let (_watches, store) = watch_of(&cluster).await;
        assert_eq!((names(&store), store.lists()), (vec!["a".to_owned(), "b".to_owned()], 1), "{unknown}");
    }
}

#[tokio::test]
async fn a_bad_object_is_skipped_and_a_deletion_of_nothing_leads_to_a_list() {
    let mut lists = 0;
    let server = Scripted::start(move |asked| match (asked.is_watch(), lists) {
        (false, _) => {
            lists += 1;
            if lists == 1 { list(&["a", "b"]) } else { list(&["b"]) }
        }
        (true, 1) => Reply::Lines(vec![
            json!({ "type": "BOOKMARK", "object": { "metadata": {
                "resourceVersion": "900", "creationTimestamp": null }, "spec": { "containers": null } } }),
            json!({ "type": "MODIFIED", "object": { "metadata": {
                "name": "a", "namespace": "n", "resourceVersion": "901" }, "data": { "value": 7 } } }),
            json!({ "type": "MODIFIED", "object": 7 }),
            json!({ "type": "MODIFIED", "object": object("b", 902, "new") }),
            json!({ "type": "DELETED", "object": null }),
        ]),
        (true, _) => Reply::Silence,
    })
    .await;
    let (_watches, store) = watch(&server).await;
    let mut changes = store.subscribe();
    eventually("a is gone", secs(5), async || (names(&store) == ["b"]).then_some(())).await.unwrap();
    assert_eq!(store.skipped(), 2);
    assert_eq!(value(&store, "b"), "x", "a complete list is the truth, also about versions that went back");
    assert_eq!(changes.next().await, ["a", "b"]);
}

#[tokio::test]
async fn a_throttling_server_is_left_alone_for_as_long_as_it_asks() {
    let mut lists = 0;
    let began = Instant::now();
    let server = Scripted::start(move |asked| {
        lists += usize::from(!asked.is_watch());
        match (asked.is_watch(), lists) {
            (true, _) => Reply::Silence,
            (false, 1) => Reply::ComeBack(429, 2),
            (false, _) => list(&["a"]),
        }
    })
    .await;
    let (_watches, _store) = watch(&server).await;
    assert!(began.elapsed() >= secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_write_is_seen_at_once_and_older_news_does_not_undo_it() {
    let (events, receiver) = mpsc::unbounded_channel();
    let mut receiver = Some(receiver);
    let server = Scripted::start(move |asked| match asked.is_watch() {
        false => list(&["a"]),
        true => receiver.take().map_or(Reply::Silence, Reply::Open),
    })
    .await;
    let (_watches, store) = watch(&server).await;

    store.insert(object("a", 20, "written"));
    events.send(json!({ "type": "MODIFIED", "object": object("a", 15, "older") })).unwrap();
    events.send(json!({ "type": "ADDED", "object": object("mark", 16, "x") })).unwrap();
    eventually("the mark", secs(5), async || store.get(&key("mark"))).await.unwrap();
    assert_eq!(value(&store, "a"), "written");
    events.send(json!({ "type": "MODIFIED", "object": object("a", 25, "newer") })).unwrap();
    eventually("newer", secs(5), async || (value(&store, "a") == "newer").then_some(())).await.unwrap();

    store.remove(&key("a"), "uid-a");
    events.send(json!({ "type": "MODIFIED", "object": object("a", 26, "from the dead") })).unwrap();
    events.send(json!({ "type": "DELETED", "object": object("mark", 27, "x") })).unwrap();
    eventually("no mark", secs(5), async || store.get(&key("mark")).is_none().then_some(())).await.unwrap();
    assert_eq!(names(&store), [""; 0]);
}

#[tokio::test]
async fn wishers_of_one_watch_share_it() {
    let server = Scripted::start(|asked| if asked.is_watch() { Reply::Silence } else { list(&["a"]) }).await;
    let cluster = connect(&server, json!({}), secs(2)).await;
    let spec = |prefix: &'static str, path: &[&str]| WatchSpec {
        key: watch_key(),
        prune: Prune::to(&[path.iter().map(|step| (*step).to_owned()).collect()]),
        indexer: Arc::new(move |_: &Value| Ok(vec![format!("{prefix}:x")])),
        resync: secs(600),
    };
    let watches = Watches::start(&cluster, [spec("one", &["data", "value"]), spec("two", &["spec"])]);
    watches.wait_synced().await;
    let store = watches.store(&watch_key()).unwrap();
    assert_eq!(names(&store), ["one:x", "two:x"]);
    assert_eq!(store.by_index("one:x"), store.by_index("two:x"));
    assert_eq!(value(&store, "a"), "x");
    assert_eq!(watches.health().len(), 1);
    assert_eq!(server.asked().iter().filter(|asked| !asked.is_watch()).count(), 1);
}

#[tokio::test]
async fn news_that_changes_nothing_that_is_kept_is_no_change() {
    let (events, receiver) = mpsc::unbounded_channel();
    let mut receiver = Some(receiver);
    let server = Scripted::start(move |asked| match asked.is_watch() {
        false => list(&["a"]),
        true => receiver.take().map_or(Reply::Silence, Reply::Open),
    })
    .await;
    let (_watches, store) = watch(&server).await;
    let mut changes = store.subscribe();
    assert_eq!(changes.next().await, ["a"]);
    events.send(json!({ "type": "MODIFIED", "object": object("a", 11, "x") })).unwrap();
    events.send(json!({ "type": "ADDED", "object": object("b", 12, "x") })).unwrap();
    assert_eq!(changes.next().await, ["b"]);
    assert_eq!(store.get(&key("a")).unwrap()["metadata"]["resourceVersion"], "11");
}

#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let server = Scripted::start(|_| Reply::Silence).await;
    let cluster = connect(&server, json!({}), Duration::from_millis(700)).await;
    let began = Instant::now();
    let kind = config_maps(&cluster).await;
    let refusal = cluster.create(&kind, "n", &object("a", 1, "x")).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable);
    assert!(refusal.kind.leaves_doubt());
    assert!(began.elapsed() < secs(2), "{:?}", began.elapsed());
    assert_eq!(server.asked().len(), 1, "a write is never repeated");
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_is_refused_before_any_call() {
    let server = Scripted::start(|_| Reply::Silence).await;
    let cluster = connect(&server, json!({}), secs(1)).await;
    let kind = config_maps(&cluster).await;
    for name in ["", "..", "a/b", "a?x=1", "a%2Fb", "a\nb"] {
        let refusal = cluster.get(&kind, "n", name).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Invalid, "{name:?}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn short_tokens_of_a_plugin_are_shared_and_renewed_in_time() {
    let folder = std::env::temp_dir().join(format!("mapwright-plugin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (runs, broken) = (folder.join("runs"), folder.join("broken"));
    let script = folder.join("plugin.sh");
    let text = format!(
        r#"#!/bin/sh
[ -e {broken} ] && {{ echo pw=hunter2 >&2; exit 1; }}
echo run >> {runs}
n=$(wc -l < {runs})
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t-'$n'","expirationTimestamp":"'$(date -u -d '+3 seconds' +%Y-%m-%dT%H:%M:%SZ)'"}}}}'
"#,
        broken = broken.display(),
        runs = runs.display(),
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Scripted::start(|_| Reply::Json(200, object("a", 1, "x"))).await;
    let user = json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": script } });
    let cluster = connect(&server, user, secs(2)).await;
    let kind = config_maps(&cluster).await;
    for _ in 0..40 {
        cluster.get(&kind, "n", "a").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let count = std::fs::read_to_string(&runs).unwrap().lines().count();
    assert!((2..=5).contains(&count), "{count} runs");
    assert_eq!(server.asked().last().unwrap().authorization, format!("Bearer t-{count}"));

    std::fs::write(&broken, "").unwrap();
    tokio::time::sleep(secs(3)).await;
    let refusal = cluster.get(&kind, "n", "a").await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unauthorized);
    assert!(!format!("{refusal:?}").contains("hunter2"), "{refusal:?}");
    std::fs::remove_file(&broken).unwrap();
    tokio::time::sleep(secs(1)).await;
    cluster.get(&kind, "n", "a").await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn pruning_keeps_what_is_named_and_what_every_object_is_known_by() {
    let paths = [vec!["status", "conditions", "*", "type"], vec!["spec", "a"]];
    let paths: Vec<Vec<String>> =
        paths.iter().map(|path| path.iter().map(|step| (*step).to_owned()).collect()).collect();
    let object = json!({
        "kind": "K", "metadata": { "name": "x", "managedFields": [1], "selfLink": "y" },
        "spec": { "a": { "deep": [1] }, "b": 2 },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }, 7], "phase": "P" },
    });
    let kept = json!({
        "kind": "K", "metadata": { "name": "x" },
        "spec": { "a": { "deep": [1] } },
        "status": { "conditions": [{ "type": "Ready" }, 7] },
    });
    assert_eq!(Prune::to(&paths).apply(object), kept);
}

async fn watch(server: &Scripted) -> (Watches, Store) {
    watch_of(&connect(server, json!({}), secs(2)).await).await
}

async fn watch_of(cluster: &Cluster) -> (Watches, Store) {
    let key = watch_key();
    let indexer = Arc::new(|object: &Value| {
        let value = object.pointer("/data/value").is_some_and(Value::is_string);
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if value { Ok(vec![name.to_owned()]) } else { Err("its value is no text".to_owned()) }
    });
    let spec = WatchSpec { key: key.clone(), prune: Prune::nothing(), indexer, resync: secs(600) };
    let watches = Watches::start(cluster, [spec]);
    let store = watches.store(&key).unwrap();
    tokio::time::timeout(secs(10), store.wait_synced()).await.unwrap();
    (watches, store)
}

fn watch_key() -> WatchKey {
    WatchKey {
        resource: ResourceRef::new("v1", "ConfigMap"),
        namespace: "n".to_owned(),
        select: ListOptions::default(),
    }
}

async fn connect(server: &Scripted, user: Value, request_timeout: Duration) -> Cluster {
    connect_with(server, user, request_timeout, false).await
}

async fn connect_with(
    server: &Scripted,
    user: Value,
    request_timeout: Duration,
    streaming_lists: bool,
) -> Cluster {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let path = server.kubeconfig(user);
    let options = ConnectOptions { kubeconfig: Some(path.clone()), request_timeout, streaming_lists };
    let cluster = Cluster::connect(options).await.unwrap();
    std::fs::remove_file(path).unwrap();
    cluster
}

async fn config_maps(cluster: &Cluster) -> Arc<Resource> {
    cluster.resource(&ResourceRef::new("v1", "ConfigMap")).await.unwrap()
}

fn list(names: &[&str]) -> Reply {
    let items: Vec<Value> = names.iter().map(|name| object(name, 5, "x")).collect();
    Reply::Json(200, json!({ "metadata": { "resourceVersion": "10" }, "items": items }))
}

fn object(name: &str, version: u32, value: &str) -> Value {
    let uid = format!("uid-{name}");
    let metadata =
        json!({ "name": name, "namespace": "n", "uid": uid, "resourceVersion": version.to_string() });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "value": value } })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

fn names(store: &Store) -> Vec<String> {
    store.index_keys_after(None, 100)
}

fn value(store: &Store, name: &str) -> String {
    let object = store.get(&key(name)).unwrap_or_default();
    object.pointer("/data/value").and_then(Value::as_str).unwrap_or_default().to_owned()
}
