//! The process is killed at every step of a create and of a delete: after the restart it is all or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, StreamExt};
use hyper::Method;
use mapwright_testbed::{Effect, Events, Kind, Launch, Objects, Provider, Proxy, Shared, eventually, secs};
use serde_json::{Value, json};
use tokio::sync::Notify;

const CONTAINERS: &str = "/api/v1alpha1/containers";
/// More writes than a create or a delete makes; a plan that is never reached proves that.
const STEPS: usize = 7;

/// When the process dies, counted by its writes.
#[derive(Clone, Copy, Debug)]
struct Death {
    write: usize,
    /// The write has taken effect, and its answer never arrives.
    after: bool,
}

fn deaths() -> impl Iterator<Item = Death> {
    (0..STEPS).flat_map(|write| [false, true].map(|after| Death { write, after }))
}

struct Stage {
    /// An id of its own, since all tests hear the same events.
    id: String,
    objects: Objects,
    proxy: Proxy,
    provider: Provider,
    events: Events,
}

impl Stage {
    async fn set() -> Self {
        let shared = Shared::get().await.unwrap();
        let objects = shared.objects("death").await.unwrap();
        let proxy = Proxy::start(&shared.control_plane).await.unwrap();
        let events = Events::subscribe(&shared.nats.url(), "dcm.container").await.unwrap();
        let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
        let launch = launch.cluster(proxy.kubeconfig(), objects.namespace());
        let launch = launch.env("SP_SERVER_REQUEST_TIMEOUT", "3s").types(&["container"]);
        Self {
            id: objects.namespace().to_owned(),
            objects,
            proxy,
            provider: launch.start().await.unwrap(),
            events,
        }
    }

    async fn post(&self) -> Option<u16> {
        let body = json!({ "spec": {
            "service_type": "container", "metadata": { "name": "web" },
            "image": { "reference": "registry.example/web:1" },
            "resources": { "cpu": { "min": 1, "max": 1 }, "memory": { "min": "1GB", "max": "1GB" } },
            "network": { "ports": [{ "container_port": 80, "visibility": "internal" }] },
        } });
        let answer = self.provider.http().post(&format!("{CONTAINERS}?id={}", self.id), &body).await;
        answer.ok().map(|answer| answer.status)
    }

    async fn delete(&self) -> Option<u16> {
        let answer = self.provider.http().delete(&format!("{CONTAINERS}/{}", self.id)).await;
        answer.ok().map(|answer| answer.status)
    }

    /// Lets the process die at a write of an instance's own objects; true if that write came.
    async fn dying<T>(&mut self, death: Death, act: impl AsyncFnOnce(&Self) -> T) -> (bool, Option<T>) {
        let reached = Arc::new(Notify::new());
        let count = Arc::new(AtomicUsize::new(0));
        let (told, counted) = (reached.clone(), count.clone());
        self.proxy.plan(move |head| {
            let write = head.method != Method::GET && !head.uri.path().contains("/leases");
            if !write || counted.fetch_add(1, Ordering::SeqCst) != death.write {
                return Effect::Pass;
            }
            told.notify_one();
            if death.after { Effect::CutReply } else { Effect::Swallow }
        });
        let (died, answer) = tokio::select! {
            answer = act(self) => (false, Some(answer)),
            () = async {
                reached.notified().await;
                // The write is on its way, or done; a moment later the process is gone.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            } => (true, None),
        };
        self.provider.kill();
        self.proxy.pass();
        self.provider.restart().await.unwrap();
        (died, answer)
    }

    async fn left(&self) -> Vec<Value> {
        let selector = format!("dcm.project/dcm-instance-id={}", self.id);
        let mut left = Vec::new();
        for kind in [&Kind::DEPLOYMENT, &Kind::SERVICE] {
            left.extend(self.objects.list(kind, &selector).await.unwrap());
        }
        left
    }

    async fn shown(&self) -> u16 {
        self.provider.http().get(&format!("{CONTAINERS}/{}", self.id)).await.map_or(0, |answer| answer.status)
    }
}

async fn create_and_die(death: Death) {
    let mut stage = Stage::set().await;
    let (died, answer) = stage.dying(death, async |stage| stage.post().await).await;
    let settled = async || {
        let (shown, left) = (stage.shown().await, stage.left().await.len());
        matches!((shown, left), (200, 2) | (404, 0)).then_some(shown)
    };
    let what = format!("{death:?}: all or nothing");
    let shown = eventually(&what, secs(30), settled).await.unwrap();
    if answer == Some(Some(201)) {
        assert_eq!(shown, 200, "{death:?}: an acknowledged create exists");
    }
    let again = async || {
        let status = stage.post().await?;
        matches!((shown, status), (200, 409) | (404, 201)).then_some(())
    };
    eventually(&format!("{death:?}: the id is taken, or free again"), secs(30), again).await.unwrap();
    assert!(died || answer.is_some());
}

async fn delete_and_die(death: Death) {
    let mut stage = Stage::set().await;
    // On a busy machine the first attempt may run out of its short time, and be completed all the same.
    let made = async || stage.post().await.filter(|status| matches!(status, 201 | 409));
    eventually("the instance is made", secs(20), made).await.unwrap();
    stage.events.wait_for(&stage.id, "PENDING", secs(20)).await.unwrap();
    let (died, answer) = stage.dying(death, async |stage| stage.delete().await).await;
    let settled = async || {
        let (shown, left) = (stage.shown().await, stage.left().await.len());
        matches!((shown, left), (200, 2) | (404, 0)).then_some(shown)
    };
    let shown = eventually(&format!("{death:?}: all or nothing"), secs(30), settled).await.unwrap();
    if answer == Some(Some(204)) {
        assert_eq!(shown, 404, "{death:?}: an acknowledged deletion stands");
    }
    if shown == 404 {
        stage.events.wait_for(&stage.id, "DELETED", secs(20)).await.unwrap();
        stage.events.quiet(&stage.id, secs(1)).await.unwrap();
        let statuses = stage.events.statuses(&stage.id);
        assert_eq!(
            statuses.iter().filter(|status| *status == "DELETED").count(),
            1,
            "{death:?}: {statuses:?}"
        );
    }
    assert!(died || answer.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_dies_at_any_write_is_whole_or_nothing_after_the_restart() {
    stream::iter(deaths()).for_each_concurrent(4, create_and_die).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_dies_at_any_write_is_whole_or_nothing_after_the_restart() {
    stream::iter(deaths()).for_each_concurrent(4, delete_and_die).await;
}
