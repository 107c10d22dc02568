//! All watches of the process: one for each kind, place and selector, however many ask for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::connection::Cluster;
use super::feed::Feed;
use super::objects::ListOptions;
use super::prune::Prune;
use super::resource::ResourceRef;
use super::store::{Indexer, Store};

/// The running watches and their stores. Clones share them; a watch ends with the last that holds it.
#[derive(Clone, Default)]
pub struct Watches {
    running: BTreeMap<WatchKey, Arc<Running>>,
}

/// A watch while it runs.
struct Running {
    store: Store,
    prune: Prune,
    resync: Duration,
    /// Its only task, which ends when this is dropped.
    _task: JoinSet<()>,
}

/// One wish to watch.
#[derive(Clone)]
pub struct WatchSpec {
    pub key: WatchKey,
    /// What the wisher reads of the objects.
    pub prune: Prune,
    /// By which keys the wisher looks objects up. Wishers that share a watch see each other's keys, so a
    /// prefix (`uid:`) keeps kinds of keys apart. It must follow from the watch's key: a watch that is wished
    /// for again keeps the indexer that it has.
    pub indexer: Indexer,
    /// How often everything is compared by a new list.
    pub resync: Duration,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchKey {
    pub resource: ResourceRef,
    /// Empty means all namespaces, or a kind without them.
    pub namespace: String,
    pub select: ListOptions,
}

/// How one watch is, for health and metrics.
#[derive(Clone, Debug)]
pub struct WatchHealth {
    pub key: WatchKey,
    pub synced: bool,
    /// Time since the server last gave a sign of life on it.
    pub age: Duration,
    pub failure: Option<String>,
    pub objects: usize,
    pub bytes: usize,
    pub skipped: u64,
    pub lists: u64,
}

impl Watches {
    /// Starts the watches and returns at once; a cluster that is away is waited for.
    #[must_use]
    pub fn start(cluster: &Cluster, specs: impl IntoIterator<Item = WatchSpec>) -> Self {
        Self::default().renew(cluster, specs)
    }

    /// The watches for other wishes: those that suit run on, the others are started beside these.
    #[must_use]
    pub fn renew(&self, cluster: &Cluster, specs: impl IntoIterator<Item = WatchSpec>) -> Self {
        let mut merged: BTreeMap<WatchKey, WatchSpec> = BTreeMap::new();
        for spec in specs {
            let spec = match merged.remove(&spec.key) {
                Some(known) => both(known, spec),
                None => spec,
            };
            merged.insert(spec.key.clone(), spec);
        }
        let running = merged.into_iter().map(|(key, spec)| {
            let running = match self.running.get(&key) {
                Some(known) if known.prune == spec.prune && known.resync == spec.resync => known.clone(),
                Some(known) => {
                    let store = known.store.heir(spec.prune.clone(), spec.indexer.clone());
                    Arc::new(Running::start(cluster, spec, store))
                }
                None => {
                    let store = Store::new(spec.prune.clone(), spec.indexer.clone());
                    Arc::new(Running::start(cluster, spec, store))
                }
            };
            (key, running)
        });
        Self { running: running.collect() }
    }

    /// These of the watches alone; None if one of them does not run.
    #[must_use]
    pub fn only(&self, keys: impl IntoIterator<Item = WatchKey>) -> Option<Self> {
        let found = keys.into_iter().map(|key| self.running.get(&key).cloned().map(|running| (key, running)));
        Some(Self { running: found.collect::<Option<_>>()? })
    }

    /// The store of a watch; None if nobody wished for it.
    #[must_use]
    pub fn store(&self, key: &WatchKey) -> Option<Store> {
        self.running.get(key).map(|running| running.store.clone())
    }

    /// Ends when every watch has seen a complete list.
    pub async fn wait_synced(&self) {
        for running in self.running.values() {
            running.store.wait_synced().await;
        }
    }

    #[must_use]
    pub fn health(&self) -> Vec<WatchHealth> {
        let health = |(key, running): (&WatchKey, &Arc<Running>)| WatchHealth {
            key: key.clone(),
            synced: running.store.synced(),
            age: running.store.age(),
            failure: running.store.failure(),
            objects: running.store.len(),
            bytes: running.store.bytes(),
            skipped: running.store.skipped(),
            lists: running.store.lists(),
        };
        self.running.iter().map(health).collect()
    }
}

impl Running {
    fn start(cluster: &Cluster, spec: WatchSpec, store: Store) -> Self {
        let WatchSpec { key, prune, resync, .. } = spec;
        let mut task = JoinSet::new();
        task.spawn(Feed::new(cluster.clone(), key, store.clone(), resync).run());
        Self { store, prune, resync, _task: task }
    }
}

impl fmt::Display for WatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        if !self.namespace.is_empty() {
            write!(f, " in {}", self.namespace)?;
        }
        for selector in self.select.labels.iter().chain(&self.select.fields) {
            write!(f, " with {selector}")?;
        }
        Ok(())
    }
}

/// One watch that gives both wishers what they read.
fn both(one: WatchSpec, other: WatchSpec) -> WatchSpec {
    let (first, second) = (one.indexer, other.indexer);
    let indexer: Indexer = Arc::new(move |object| {
        let mut keys = first(object)?;
        for key in second(object)? {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(keys)
    });
    let resync = one.resync.min(other.resync);
    WatchSpec { key: one.key, prune: one.prune.or(other.prune), indexer, resync }
}
