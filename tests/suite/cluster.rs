//! The cluster room against a real API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use mapwright::cluster::{
    Cluster, ConnectOptions, Deleted, ListOptions, ObjectKey, Preconditions, Propagation, Prune, RecordStore,
    RefusalKind, Resource, ResourceRef, Store, WatchKey, WatchSpec, Watches,
};
use mapwright_testbed::control_plane::{ControlPlane, Setup};
use mapwright_testbed::ground::is_sandbox;
use mapwright_testbed::objects::{Kind, Objects};
use mapwright_testbed::shared::{Shared, namespace};
use mapwright_testbed::wait::{eventually, secs};
use serde_json::{Value, json};

use crate::wire::Proxy;

const BACKGROUND: Propagation = Propagation::Background;

#[tokio::test]
async fn the_verbs_do_what_they_say() {
    let (cluster, objects) = fixture("verbs").await;
    let namespace = objects.namespace();
    let kind = config_maps(&cluster).await;
    assert_eq!(cluster.version().await.unwrap()["major"], "1");

    assert_eq!(cluster.get(&kind, namespace, "a").await.unwrap(), None);
    let dry = cluster.dry_run_create(&kind, namespace, &config_map("a")).await.unwrap();
    assert!(dry.pointer("/metadata/uid").is_some());
    let made = cluster.create(&kind, namespace, &config_map("a")).await.unwrap();
    assert_eq!(made.pointer("/metadata/managedFields"), None);
    let twice = cluster.create(&kind, namespace, &config_map("a")).await.unwrap_err();
    assert_eq!(twice.kind, RefusalKind::AlreadyExists);

    let version = text(&made, "/metadata/resourceVersion");
    let patch = json!({ "data": { "k": "2" } });
    let patched = cluster.merge_patch(&kind, namespace, "a", Some(&version), &patch).await.unwrap();
    assert_eq!(patched["data"]["k"], "2");
    let stale = cluster.merge_patch(&kind, namespace, "a", Some(&version), &patch).await.unwrap_err();
    assert_eq!(stale.kind, RefusalKind::Conflict);
    let stale = cluster.replace(&kind, namespace, "a", &version, &config_map("a")).await.unwrap_err();
    assert_eq!(stale.kind, RefusalKind::Conflict);
    let version = text(&patched, "/metadata/resourceVersion");
    cluster.replace(&kind, namespace, "a", &version, &config_map("a")).await.unwrap();

    let selected = ListOptions { labels: Some("mark=yes".to_owned()), fields: None };
    let listed = cluster.list(&kind, namespace, &selected).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["kind"], "ConfigMap");
}

#[tokio::test]
async fn a_deletion_reaches_only_the_object_that_is_meant() {
    let (cluster, objects) = fixture("delete").await;
    let namespace = objects.namespace();
    let kind = config_maps(&cluster).await;
    let made = cluster.create(&kind, namespace, &config_map("a")).await.unwrap();
    let (uid, other) = (text(&made, "/metadata/uid"), "00000000-0000-0000-0000-000000000000");
    let delete = async |uid: &str| {
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        cluster.delete(&kind, namespace, "a", preconditions, BACKGROUND).await.unwrap()
    };
    assert_eq!(delete(other).await, Deleted::NotOurs);
    let stale = Preconditions { uid: Some(&uid), resource_version: Some("1") };
    let stale = cluster.delete(&kind, namespace, "a", stale, BACKGROUND).await.unwrap();
    assert_eq!(stale, Deleted::NotOurs);

    let hold = json!({ "metadata": { "finalizers": ["test.example/hold"] } });
    cluster.merge_patch(&kind, namespace, "a", None, &hold).await.unwrap();
    let Deleted::Terminating(held) = delete(&uid).await else { panic!("a finalizer holds it") };
    assert!(held.pointer("/metadata/deletionTimestamp").is_some());
    let again = cluster.create(&kind, namespace, &config_map("a")).await.unwrap_err();
    assert_eq!(again.kind, RefusalKind::BeingDeleted, "{again}");

    let free = json!({ "metadata": { "finalizers": [] } });
    cluster.merge_patch(&kind, namespace, "a", None, &free).await.unwrap();
    assert_eq!(delete(&uid).await, Deleted::Missing);
    let made = cluster.create(&kind, namespace, &config_map("a")).await.unwrap();
    assert_eq!(delete(&text(&made, "/metadata/uid")).await, Deleted::Gone);
}

#[tokio::test]
async fn refusals_say_why() {
    let (cluster, objects) = fixture("refuse").await;
    let namespace = objects.namespace();
    let kind = config_maps(&cluster).await;

    let deployments = cluster.resource(&ResourceRef::new("apps/v1", "Deployment")).await.unwrap();
    let bad = json!({ "metadata": { "name": "web" }, "spec": { "replicas": -1, "selector": {},
        "template": { "spec": { "containers": [] } } } });
    let refusal = cluster.create(&deployments, namespace, &bad).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    let fields: BTreeSet<&str> = refusal.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert!(
        fields.contains("spec.replicas") && fields.contains("spec.template.spec.containers"),
        "{fields:?}"
    );

    let misspelt = json!({ "metadata": { "name": "a" }, "dta": {} });
    let refusal = cluster.create(&kind, namespace, &misspelt).await.unwrap_err();
    assert_eq!((refusal.kind, refusal.message.contains("dta")), (RefusalKind::Invalid, true));

    let refusal = cluster.create(&kind, "no-such-namespace", &config_map("a")).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotFound);
    let refusal = cluster.resource(&ResourceRef::new("example.com/v1", "Thing")).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotServed);
    let refusal = cluster.resource(&ResourceRef::new("v1", "Thing")).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotServed);

    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "count/configmaps": "0" } } });
    objects.create(&Kind::QUOTA, quota).await.unwrap();
    let refused = eventually("the quota counts", secs(20), async || {
        cluster.create(&kind, namespace, &json!({ "metadata": { "generateName": "x-" } })).await.err()
    });
    assert_eq!(refused.await.unwrap().kind, RefusalKind::QuotaExceeded);

    // In the sandbox everybody may do everything.
    if is_sandbox() {
        return;
    }
    let plane = &Shared::get().await.unwrap().control_plane;
    let limited = connect(&plane.kubeconfig_for("limited", &plane.url()).unwrap()).await;
    let refusal = limited.get(&kind, namespace, "a").await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Forbidden, "{refusal}");
}

#[tokio::test]
async fn a_list_is_read_to_its_last_page() {
    let (cluster, objects) = fixture("pages").await;
    let namespace = objects.namespace();
    let kind = config_maps(&cluster).await;
    for chunk in (0..620).collect::<Vec<u32>>().chunks(40) {
        let made = chunk
            .iter()
            .map(async |number| cluster.create(&kind, namespace, &config_map(&format!("m-{number}"))).await);
        assert!(join_all(made).await.iter().all(Result::is_ok));
    }
    let selected = ListOptions { labels: Some("mark=yes".to_owned()), fields: None };
    assert_eq!(cluster.list(&kind, namespace, &selected).await.unwrap().len(), 620);
    let (_watches, store) = watch(&cluster, namespace).await;
    assert_eq!((store.len(), store.lists()), (620, 1));
}

#[tokio::test]
async fn a_watch_sees_what_others_do() {
    let (cluster, objects) = fixture("watch").await;
    let namespace = objects.namespace();
    objects.create(&Kind::CONFIG_MAP, config_map("before")).await.unwrap();
    let (_watches, store) = watch(&cluster, namespace).await;
    let mut changes = store.subscribe();
    assert_eq!(changes.next().await, ["before"]);

    objects.create(&Kind::CONFIG_MAP, config_map("after")).await.unwrap();
    assert_eq!(next(&mut changes).await, ["after"]);
    objects.patch(&Kind::CONFIG_MAP, "after", json!({ "data": { "k": "3" } })).await.unwrap();
    assert_eq!(next(&mut changes).await, ["after"]);
    assert_eq!(store.by_index("after")[0]["data"]["k"], "3");
    objects.delete(&Kind::CONFIG_MAP, "before").await.unwrap();
    assert_eq!(next(&mut changes).await, ["before"]);
    assert_eq!(store.index_keys_after(None, 9), ["after"]);

    // Quiet is no silence: the watch is renewed and the store stays young.
    tokio::time::sleep(secs(12)).await;
    assert!(store.age() < secs(11), "{:?}", store.age());
    assert_eq!(store.failure(), None);
}

#[tokio::test]
async fn a_watch_survives_its_api_server() {
    // The sandbox keeps what is stored in itself: started again, it is another cluster.
    if is_sandbox() {
        return;
    }
    let setup = Setup { controller_manager: false, ..Setup::default() };
    let mut plane = ControlPlane::start_with(setup).await.unwrap();
    let client = plane.client().await.unwrap();
    let namespace = namespace(&client, "restart").await.unwrap();
    let objects = Objects::new(client, namespace.as_str());
    for name in ["stays", "goes"] {
        objects.create(&Kind::CONFIG_MAP, config_map(name)).await.unwrap();
    }
    let cluster = connect(plane.kubeconfig()).await;
    let (_watches, store) = watch(&cluster, &namespace).await;
    plane.stop_apiserver();
    eventually("the failure", secs(20), async || store.failure()).await.unwrap();
    assert_eq!(cluster.version().await.unwrap_err().kind, RefusalKind::Unavailable);
    assert_eq!(store.len(), 2, "what is known stays readable");

    plane.restart_apiserver().await.unwrap();
    let objects = Objects::new(plane.client().await.unwrap(), namespace.as_str());
    objects.delete(&Kind::CONFIG_MAP, "goes").await.unwrap();
    objects.create(&Kind::CONFIG_MAP, config_map("comes")).await.unwrap();
    let expected = ["comes", "stays"];
    eventually("the deletion and the creation", secs(30), async || {
        (store.index_keys_after(None, 9) == expected).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(store.failure(), None);
}

#[tokio::test]
async fn lost_connections_are_noticed_and_replaced() {
    let shared = Shared::get().await.unwrap();
    let plane = &shared.control_plane;
    let objects = shared.objects("blackhole").await.unwrap();
    let url = plane.url();
    let (scheme, address) = url.split_once("://").unwrap();
    let proxy = Proxy::start(address.to_owned()).await;
    let server = format!("{scheme}://127.0.0.1:{}", proxy.port);
    let cluster = connect(&plane.kubeconfig_for("admin", &server).unwrap()).await;
    let (_watches, store) = watch(&cluster, objects.namespace()).await;
    tokio::time::sleep(secs(1)).await;
    proxy.blackhole();
    let began = Instant::now();
    objects.create(&Kind::CONFIG_MAP, config_map("new")).await.unwrap();
    eventually("the new object", secs(40), async || store.get(&ObjectKey::new(objects.namespace(), "new")))
        .await
        .unwrap();
    assert!(began.elapsed() < secs(25), "{:?}", began.elapsed());
}

#[tokio::test]
async fn of_twenty_who_claim_a_record_one_succeeds() {
    let (cluster, objects) = fixture("record").await;
    let records = RecordStore::new(cluster.clone(), objects.namespace(), ("test.example/record", "yes"));
    let none = BTreeMap::new();
    let claims = (0..20).map(|number| {
        let (records, none) = (&records, &none);
        async move { records.create("claim", none, none, &json!({ "by": number })).await }
    });
    let answers = join_all(claims).await;
    let winners: Vec<&Value> = answers.iter().flatten().map(|stored| &stored.value).collect();
    assert_eq!(winners.len(), 1);
    let losers = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(losers.into_iter().all(|refusal| refusal.kind == RefusalKind::AlreadyExists));
    assert_eq!(&records.read("claim").await.unwrap().unwrap().value, winners[0]);
}

#[tokio::test]
async fn a_record_changes_only_under_its_version_and_is_watched() {
    let (cluster, objects) = fixture("records").await;
    let records = RecordStore::new(cluster.clone(), objects.namespace(), ("test.example/record", "yes"));
    let by = |stored: &mapwright::cluster::Stored| vec![stored.value["id"].to_string()];
    let watches = Watches::start(&cluster, [records.watch(by, secs(600))]);
    watches.wait_synced().await;
    let store = watches.store(&records.key()).unwrap();

    let none = BTreeMap::new();
    let first = records.create("r", &none, &none, &json!({ "id": 1 })).await.unwrap();
    let second = records.update("r", &first.resource_version, &json!({ "id": 2 })).await.unwrap();
    let stale = records.update("r", &first.resource_version, &json!({ "id": 3 })).await.unwrap_err();
    assert_eq!(stale.kind, RefusalKind::Conflict);
    assert_eq!((second.uid.as_str(), &second.value), (first.uid.as_str(), &json!({ "id": 2 })));
    eventually("the update", secs(5), async || store.by_index("2").pop()).await.unwrap();
    assert_eq!(store.by_index("1"), [] as [Value; 0]);
    assert_eq!(records.list().await.unwrap(), [second]);
}

#[tokio::test]
async fn a_record_has_a_largest_size_and_goes_only_as_it_was_seen() {
    let (cluster, objects) = fixture("large").await;
    let records = RecordStore::new(cluster.clone(), objects.namespace(), ("test.example/record", "yes"));
    let none = BTreeMap::new();
    let second = records.create("r", &none, &none, &json!({})).await.unwrap();
    let large = json!("x".repeat(901 * 1024));
    let refusal = records.update("r", &second.resource_version, &large).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::TooLarge);
    let largest = json!("x".repeat(899 * 1024));
    let third = records.update("r", &second.resource_version, &largest).await.unwrap();
    let stale = Preconditions { uid: Some(&third.uid), resource_version: Some(&second.resource_version) };
    // Not assert_eq, which would print 900 KB.
    assert!(matches!(records.delete("r", stale).await, Ok(Deleted::NotOurs)));
    let current = Preconditions { uid: Some(&third.uid), resource_version: Some(&third.resource_version) };
    assert!(matches!(records.delete("r", current).await, Ok(Deleted::Gone)));
    assert_eq!(records.read("r").await.unwrap(), None);
}

async fn fixture(prefix: &str) -> (Cluster, Objects) {
    let shared = Shared::get().await.unwrap();
    (connect(shared.kubeconfig()).await, shared.objects(prefix).await.unwrap())
}

async fn connect(kubeconfig: &std::path::Path) -> Cluster {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Some(kubeconfig.to_owned());
    let request_timeout = Duration::from_secs(10);
    Cluster::connect(ConnectOptions { kubeconfig, request_timeout, streaming_lists: true }).await.unwrap()
}

async fn config_maps(cluster: &Cluster) -> Arc<Resource> {
    cluster.resource(&ResourceRef::new("v1", "ConfigMap")).await.unwrap()
}

async fn watch(cluster: &Cluster, namespace: &str) -> (Watches, Store) {
    let select = ListOptions { labels: Some("mark=yes".to_owned()), fields: None };
    let resource = ResourceRef::new("v1", "ConfigMap");
    let key = WatchKey { resource, namespace: namespace.to_owned(), select };
    let indexer = Arc::new(|object: &Value| Ok(vec![text(object, "/metadata/name")]));
    let prune = Prune::to(&[vec!["data".to_owned()]]);
    let spec = WatchSpec { key: key.clone(), prune, indexer, resync: secs(600) };
    let watches = Watches::start(cluster, [spec]);
    let store = watches.store(&key).unwrap();
    tokio::time::timeout(secs(20), store.wait_synced()).await.unwrap();
    (watches, store)
}

async fn next(changes: &mut mapwright::cluster::Changes) -> Vec<String> {
    tokio::time::timeout(secs(10), changes.next()).await.unwrap()
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "mark": "yes" } }, "data": { "k": "1" } })
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
