//! The controllers: what follows from what is stored, until nothing more follows.
//!
//! One task works one queue, so that what happens is in one order; each step is short and holds no lock between
//! its reads and its writes, which the versions of objects make safe.

mod claim;
mod cluster;
mod collect;
mod deployment;
mod job;
mod namespace;
mod replica_set;
mod stage;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::api::Api;
use super::object::{is_deleting, list, text};
use super::stages::Stages;
use super::store::{Key, News, Storage};

pub(super) use cluster::Cluster;

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Work {
    Deployment(Key),
    ReplicaSet(Key),
    Job(Key),
    Claim(Key),
    Volume(Key),
    Namespace(Key),
    Quotas(String),
    /// The owner of this uid is gone.
    Orphans(String),
    /// An object that is being deleted in front of, or apart from, its dependents; or whose owners may be gone.
    Owner(Storage, Key),
    /// What the pretended machines do with an object.
    Stage(Storage, Key),
}

/// How a step ended.
enum Next {
    Done,
    /// To be looked at again, whatever happens meanwhile.
    Again(Duration),
}

/// The queue and what is to be looked at later.
struct Machinery {
    cluster: Cluster,
    stages: Arc<Stages>,
    queue: VecDeque<Work>,
    queued: HashSet<Work>,
    later: BTreeMap<(Instant, Work), ()>,
    /// Since when a stage has been waiting for its time, and which.
    waiting: stage::Waiting,
    /// Claims that are not bound: a new volume or class may be what they wait for.
    unbound: HashSet<Key>,
}

/// Steps between two looks at the news.
const AT_ONCE: usize = 200;

/// Runs until it is dropped.
pub(super) async fn run(
    api: Arc<Api>,
    mut stages: watch::Receiver<Arc<Stages>>,
    mut news: UnboundedReceiver<News>,
) {
    let mut machinery = Machinery {
        cluster: Cluster::new(api),
        stages: stages.borrow_and_update().clone(),
        queue: VecDeque::new(),
        queued: HashSet::new(),
        later: BTreeMap::new(),
        waiting: stage::Waiting::default(),
        unbound: HashSet::new(),
    };
    loop {
        while let Ok(news) = news.try_recv() {
            machinery.hear(&news);
        }
        for _ in 0..AT_ONCE {
            let Some(work) = machinery.queue.pop_front() else { break };
            machinery.queued.remove(&work);
            machinery.step(work);
        }
        if !machinery.queue.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let wake = machinery.later.keys().next().map(|(at, _)| *at);
        let far = Instant::now() + Duration::from_secs(3600);
        tokio::select! {
            heard = news.recv() => match heard {
                Some(news) => machinery.hear(&news),
                None => return,
            },
            Ok(()) = stages.changed() => machinery.play(stages.borrow_and_update().clone()),
            () = sleep_until(wake.unwrap_or(far)) => machinery.wake(),
        }
    }
}

impl Machinery {
    fn wake(&mut self) {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= Instant::now()) {
            let ((_, work), ()) = entry.remove_entry();
            self.push(work);
        }
    }

    /// Other stages: what each object waited for is no more, and all of them are looked at.
    fn play(&mut self, stages: Arc<Stages>) {
        self.stages = stages;
        self.waiting = stage::Waiting::default();
        for (storage, key) in self.cluster.everything() {
            self.push(Work::Stage(storage, key));
        }
    }

    fn push(&mut self, work: Work) {
        if self.queued.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    /// What a change may have consequences for.
    fn hear(&mut self, news: &News) {
        let change = &news.change;
        let object = change.last.object();
        let key = change.last.key.clone();
        let gone = change.after.is_none();
        if gone {
            self.push(Work::Orphans(change.last.uid.clone()));
            self.waiting.forget(&news.storage, &key);
        } else {
            self.push(Work::Stage(news.storage.clone(), key.clone()));
        }
        let new = change.before.is_none();
        if !gone && (is_deleting(&object) || new && object.pointer("/metadata/ownerReferences").is_some()) {
            self.push(Work::Owner(news.storage.clone(), key.clone()));
        }
        for owner in list(&object, "/metadata/ownerReferences") {
            self.hear_of_owner(text(owner, "/uid"), gone);
        }
        match &*news.storage {
            "deployments.apps" => self.push(Work::Deployment(key.clone())),
            "replicasets.apps" => self.push(Work::ReplicaSet(key.clone())),
            "jobs.batch" => self.push(Work::Job(key.clone())),
            "persistentvolumeclaims" => {
                if gone || text(&object, "/status/phase") == "Bound" {
                    self.unbound.remove(&key);
                } else {
                    self.unbound.insert(key.clone());
                }
                self.push(Work::Claim(key.clone()));
                let volume = text(&object, "/spec/volumeName");
                if gone && !volume.is_empty() {
                    self.push(Work::Volume((String::new(), volume.to_owned())));
                }
            }
            "persistentvolumes" => self.push(Work::Volume(key.clone())),
            "namespaces" => self.push(Work::Namespace(key.clone())),
            "storageclasses.storage.k8s.io" => self.all_claims(),
            "pods" => self.claims_of(&object, &key.0),
            _ => {}
        }
        if &*news.storage == "persistentvolumes" {
            self.claims_of_volume(&object);
        } else if !key.0.is_empty() && &*news.storage != "events" {
            self.push(Work::Quotas(key.0.clone()));
            if gone {
                self.push(Work::Namespace((String::new(), key.0)));
            }
        }
    }

    fn hear_of_owner(&mut self, uid: &str, gone: bool) {
        let Some((storage, key)) = self.cluster.holder(uid) else { return };
        match &*storage {
            "deployments.apps" => self.push(Work::Deployment(key.clone())),
            "replicasets.apps" => self.push(Work::ReplicaSet(key.clone())),
            "jobs.batch" => self.push(Work::Job(key.clone())),
            _ => {}
        }
        if gone {
            self.push(Work::Owner(storage, key));
        }
    }

    /// A pod's consumption of claims matters to their binding and to their end.
    fn claims_of(&mut self, pod: &serde_json::Value, namespace: &str) {
        for volume in list(pod, "/spec/volumes") {
            let claim = text(volume, "/persistentVolumeClaim/claimName");
            if !claim.is_empty() {
                self.push(Work::Claim((namespace.to_owned(), claim.to_owned())));
            }
        }
    }

    /// A volume matters to the claim that it names, and a free one to every claim that waits.
    fn claims_of_volume(&mut self, volume: &serde_json::Value) {
        let claim = &volume["spec"]["claimRef"];
        if claim.is_object() {
            self.push(Work::Claim((text(claim, "/namespace").to_owned(), text(claim, "/name").to_owned())));
        } else {
            self.all_claims();
        }
    }

    fn all_claims(&mut self) {
        for key in self.unbound.clone() {
            self.push(Work::Claim(key));
        }
    }

    fn step(&mut self, work: Work) {
        let cluster = &self.cluster;
        let next = match &work {
            Work::Deployment(key) => deployment::reconcile(cluster, key),
            Work::ReplicaSet(key) => replica_set::reconcile(cluster, key),
            Work::Job(key) => job::reconcile(cluster, key),
            Work::Claim(key) => claim::reconcile(cluster, key),
            Work::Volume(key) => claim::reconcile_volume(cluster, key),
            Work::Namespace(key) => namespace::reconcile(cluster, key),
            Work::Quotas(namespace) => namespace::count_quotas(cluster, namespace),
            Work::Orphans(uid) => collect::orphans(cluster, uid),
            Work::Owner(storage, key) => collect::owner(cluster, storage, key),
            Work::Stage(storage, key) => stage::step(cluster, &self.stages, &mut self.waiting, storage, key),
        };
        if let Next::Again(after) = next {
            self.later.insert((Instant::now() + after, work), ());
        }
    }
}
