//! Figures: from a change in the cluster to the message on NATS, beside a watch that publishes at once; many
//! changes at a time; and a great number of instances that are looked at again.
//!
//!     cargo test --release --test suite -- --ignored --nocapture figures::change_to_event
#![expect(clippy::print_stderr, reason = "figures are for people")]

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use mapwright_testbed::process::memory;
use mapwright_testbed::{Events, Kind, Objects, Shared, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{CONTAINERS, Dcm, INSTANCE, web};

const CHANGED: usize = 400;
/// Longer than the window in which changes become one event.
const QUIET: Duration = Duration::from_millis(700);

const BUSY: usize = 500;
const CHANGES: usize = 20;

const MANY: usize = 10_000;
const RESYNC: Duration = secs(20);

/// A watch of pods that publishes every state on `bare.ID`, and knows nothing else.
async fn bare(objects: &Objects, nats_url: &str) -> tokio::task::JoinHandle<()> {
    let nats = async_nats::connect(nats_url).await.unwrap();
    let pods = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), "pods");
    let pods: Api<DynamicObject> = Api::namespaced_with(objects.client().clone(), objects.namespace(), &pods);
    let parameters = WatchParams::default().labels(INSTANCE).timeout(290);
    let mut changes = pods.watch(&parameters, "0").await.unwrap().boxed();
    tokio::spawn(async move {
        while let Some(Ok(event)) = changes.next().await {
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            let id = pod.metadata.labels.unwrap_or_default().remove(INSTANCE).unwrap();
            let data = json!({ "data": { "id": id, "status": pod.data["status"]["phase"] } });
            nats.publish("bare.pod", data.to_string().into()).await.unwrap();
            nats.flush().await.unwrap();
        }
    })
}

/// Creates containers, each with a pod that a test plays; answers their pods.
async fn containers(dcm: &Dcm, count: usize) -> Vec<(String, Value)> {
    let made = (0..count).map(|number| async move {
        let id = format!("c-{number:04}");
        dcm.container(&id, web()).await;
        let set = async || dcm.of(&Kind::DEPLOYMENT, &id).await.pop();
        let deployment = eventually("there is a Deployment", secs(20), set).await.unwrap();
        let labels = deployment["spec"]["template"]["metadata"]["labels"].clone();
        let pod = json!({
            "metadata": { "name": format!("pod-{id}"), "labels": labels },
            "spec": { "containers": [{ "name": "web", "image": "registry.example/web:1" }] },
        });
        let pod = dcm.objects.create(&Kind::POD, pod).await.unwrap();
        (id, pod)
    });
    futures::stream::iter(made).buffer_unordered(16).collect().await
}

fn phase(name: &str) -> Value {
    json!({ "phase": name })
}

fn percentile(times: &[Duration], part: usize) -> Duration {
    times[(times.len() * part / 100).min(times.len() - 1)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures; takes minutes"]
async fn first_changes_beside_a_bare_watch() {
    let dcm = Dcm::start_quietly("figures-first", |launch| launch).await;
    let nats_url = Shared::get().await.unwrap().nats.url();
    let theirs = Events::subscribe(&nats_url, "bare.*").await.unwrap();
    let ruler = bare(&dcm.objects, &nats_url).await;
    let pods = containers(&dcm, CHANGED).await;
    for (id, _) in &pods {
        dcm.events.wait_for(id, "PENDING", secs(20)).await.unwrap();
    }
    tokio::time::sleep(QUIET).await;
    let mut begun = BTreeMap::new();
    for (id, pod) in &pods {
        begun.insert(id.clone(), Instant::now());
        dcm.becomes(&Kind::POD, pod, phase("Running")).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let arrived = async |events: &Events, status: &str| {
        let all = async || {
            let received = events.received();
            let wanted = received.iter().filter(|message| message.event["data"]["status"] == status);
            let found: HashMap<String, Instant> = wanted
                .map(|message| (message.event["data"]["id"].as_str().unwrap().to_owned(), message.at))
                .collect();
            (found.len() == CHANGED).then_some(found)
        };
        let found = eventually("every change was told", secs(30), all).await.unwrap();
        let mut times: Vec<Duration> = found.iter().map(|(id, at)| *at - begun[id]).collect();
        times.sort();
        times
    };
    let (ours, theirs) = (arrived(&dcm.events, "RUNNING").await, arrived(&theirs, "Running").await);
    ruler.abort();
    for part in [50, 99] {
        let (ours, theirs) = (percentile(&ours, part), percentile(&theirs, part));
        let more = ours.as_secs_f64() - theirs.as_secs_f64();
        eprintln!(
            "first change to message, p{part}: provider {ours:?}, bare watch {theirs:?}: {:+.2} ms",
            more * 1e3
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures; takes minutes"]
async fn ten_thousand_changes_as_fast_as_the_api_server_takes_them() {
    let dcm = Dcm::start_quietly("figures-burst", |launch| launch).await;
    let pods = containers(&dcm, BUSY).await;
    let begun = Instant::now();
    // Each instance ends in a state of its own: a third runs, a third fails, a third waits.
    let ends = ["Running", "Failed", "Pending"];
    let writes = pods.iter().enumerate().map(|(number, (_, pod))| {
        let dcm = &dcm;
        async move {
            for change in 0..CHANGES {
                let last = change == CHANGES - 1;
                let next = if last { ends[number % 3] } else { ["Running", "Pending"][change % 2] };
                dcm.becomes(&Kind::POD, pod, phase(next)).await;
            }
        }
    });
    futures::stream::iter(writes).buffer_unordered(32).collect::<Vec<()>>().await;
    let written = begun.elapsed();
    let expected: HashMap<&str, String> = pods
        .iter()
        .enumerate()
        .map(|(number, (id, _))| (id.as_str(), ends[number % 3].to_uppercase()))
        .collect();
    let told = async || {
        let received = dcm.events.received();
        let last: HashMap<&str, &str> = received
            .iter()
            .filter_map(|message| {
                let data = &message.event["data"];
                Some((data["id"].as_str()?, data["status"].as_str()?))
            })
            .collect();
        expected.iter().all(|(id, status)| last.get(id) == Some(&status.as_str())).then_some(received.len())
    };
    let events = eventually("the last event of each is its last state", secs(60), told).await.unwrap();
    let changes = BUSY * CHANGES;
    eprintln!(
        "{changes} changes of {BUSY} instances in {written:?} ({:.0} a second): {events} events, no final state \
         lost, all said {:?} after the last change",
        changes as f64 / written.as_secs_f64(),
        begun.elapsed() - written,
    );
}

/// The versions of all objects of a namespace, which any write would change.
async fn versions(objects: &Objects) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for kind in [Kind::DEPLOYMENT, Kind::CONFIG_MAP] {
        for object in objects.list(&kind, "").await.unwrap() {
            let text = |pointer: &str| object.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            let name = format!("{}/{}", kind.plural, text("/metadata/name"));
            versions.insert(name, text("/metadata/resourceVersion"));
        }
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures; takes minutes"]
async fn three_resyncs_of_ten_thousand_instances() {
    let period = format!("{}s", RESYNC.as_secs());
    let dcm =
        Dcm::start_quietly("figures-resync", |launch| launch.env("SP_MONITOR_RESYNC_PERIOD", &period)).await;
    let begun = Instant::now();
    let creates = (0..MANY).map(|number| {
        let http = mapwright_testbed::Http::new(dcm.provider.base_url());
        async move {
            let path = format!("{CONTAINERS}?id=r-{number:05}");
            let answer = http.post(&path, &json!({ "spec": web() })).await.unwrap();
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
    });
    let made: Vec<()> = futures::stream::iter(creates).buffer_unordered(16).collect().await;
    let created = begun.elapsed();
    let all = async || (dcm.events.received().len() >= MANY).then_some(());
    eventually("each is said once", secs(300), all).await.unwrap();
    // Records become ready a moment after the answer.
    tokio::time::sleep(secs(5)).await;
    let (before, said) = (versions(&dcm.objects).await, dcm.events.received().len());
    tokio::time::sleep(RESYNC * 3 + secs(10)).await;
    let (after, again) = (versions(&dcm.objects).await, dcm.events.received().len() - said);
    let written = after.iter().filter(|(name, version)| before.get(*name) != Some(*version)).count();
    eprintln!(
        "{} instances made in {created:?}; three resyncs: {again} events, {written} of {} objects written, \
         {} MB resident",
        made.len(),
        after.len(),
        memory(dcm.provider.pid(), "VmRSS").unwrap() / 1024,
    );
    assert_eq!((again, written, after.len()), (0, 0, before.len()));
}
