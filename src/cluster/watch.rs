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

/// The running watches and their stores. Dropping it ends them.
pub struct Watches {
    tasks: JoinSet<()>,
    stores: BTreeMap<WatchKey, Store>,
}

/// One wish to watch.
#[derive(Clone)]
pub struct WatchSpec {
    pub key: WatchKey,
    /// What the wisher reads of the objects.
    pub prune: Prune,
    /// By which keys the wisher looks objects up. Wishers that share a watch see each other's keys, so a
    /// prefix (`uid:`) keeps kinds of keys apart.
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
    pub skipped: u64,
    pub lists: u64,
}

impl Watches {
    /// Starts the watches and returns at once; a cluster that is away is waited for.
    #[must_use]
    pub fn start(cluster: &Cluster, specs: impl IntoIterator<Item = WatchSpec>) -> Self {
        let mut merged: BTreeMap<WatchKey, WatchSpec> = BTreeMap::new();
        for spec in specs {
            let spec = match merged.remove(&spec.key) {
                Some(known) => both(known, spec),
                None => spec,
            };
            merged.insert(spec.key.clone(), spec);
        }
        let mut watches = Self {
            tasks: JoinSet::new(),
            stores: BTreeMap::new(),
        };
        for (key, spec) in merged {
            let store = Store::new(spec.prune, spec.indexer);
            watches
                .tasks
                .spawn(Feed::new(cluster.clone(), key.clone(), store.clone(), spec.resync).run());
            watches.stores.insert(key, store);
        }
        watches
    }

    /// The store of a watch; None if nobody wished for it at the start.
    #[must_use]
    pub fn store(&self, key: &WatchKey) -> Option<Store> {
        self.stores.get(key).cloned()
    }

    /// Whether every watch has seen a complete list.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.stores.values().all(Store::synced)
    }

    /// Ends when every watch has seen a complete list.
    pub async fn wait_synced(&self) {
        for store in self.stores.values() {
            store.wait_synced().await;
        }
    }

    #[must_use]
    pub fn health(&self) -> Vec<WatchHealth> {
        let health = |(key, store): (&WatchKey, &Store)| WatchHealth {
            key: key.clone(),
            synced: store.synced(),
            age: store.age(),
            failure: store.failure(),
            objects: store.len(),
            skipped: store.skipped(),
            lists: store.lists(),
        };
        self.stores.iter().map(health).collect()
    }

    /// Ends only if a watch ended, which none does by itself: a mistake of ours, and a reason to end the
    /// process, since nothing would be noticed any more.
    pub async fn broken(&mut self) -> String {
        match self.tasks.join_next().await {
            Some(Err(error)) => format!("a watch ended: {error}"),
            Some(Ok(())) => "a watch ended".to_owned(),
            None => std::future::pending().await,
        }
    }

    /// Ends all watches and waits until they have.
    pub async fn shut_down(mut self) {
        self.tasks.shutdown().await;
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
    WatchSpec {
        key: one.key,
        prune: one.prune.or(other.prune),
        indexer,
        resync,
    }
}
