//! The objects of one watch, in memory: what reads are answered from.
//!
//! Two hands write here. The watch tells what the server says, in the server's order. A caller puts the
//! answer of its own write in at once, so that a read right after the write tells the truth; the watch then
//! still has older news under way. The rules that keep the two apart:
//!
//! - News of the watch never replaces a write that is newer, by resource version.
//! - An object that is gone does not come back, by uid.
//! - A complete list is the truth about everything but what was written while it was read.
//!
//! Of one watch there may be two stores for a while: one that keeps what an older wisher reads, and its heir.
//! A caller's write goes into both, so that either tells the truth at once.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::changes::Changes;
use super::prune::Prune;
use super::shelf::{Entry, Listing, Shelf, Source};

/// The objects of one watch. Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// Where an object is; the namespace is empty for kinds that have none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

/// The index keys of an object, such as the id in a label; or why the object cannot be what it should be,
/// in which case it is skipped and the last good one stands. It sees the object before it is pruned.
pub type Indexer = Arc<dyn Fn(&Value) -> Result<Vec<String>, String> + Send + Sync>;

struct Shared {
    shelf: RwLock<Shelf>,
    life: Mutex<Life>,
    synced: watch::Sender<bool>,
    indexer: Indexer,
    prune: Prune,
    family: Arc<Family>,
}

/// The stores of one watch that are still in use.
type Family = Mutex<Vec<Weak<Shared>>>;

/// What health wants to know of the watch.
struct Life {
    last_sign: Instant,
    failure: Option<String>,
    skipped: u64,
    lists: u64,
}

impl Store {
    /// An empty store, not synced.
    #[must_use]
    pub fn new(prune: Prune, indexer: Indexer) -> Self {
        Self::in_family(prune, indexer, Arc::default())
    }

    /// An empty store of the same watch that keeps something else. What callers write to either goes into
    /// both; so the heir must exist before its watch lists.
    pub(crate) fn heir(&self, prune: Prune, indexer: Indexer) -> Self {
        Self::in_family(prune, indexer, self.shared.family.clone())
    }

    fn in_family(prune: Prune, indexer: Indexer, family: Arc<Family>) -> Self {
        let life = Life { last_sign: Instant::now(), failure: None, skipped: 0, lists: 0 };
        let shared = Shared {
            shelf: RwLock::default(),
            life: Mutex::new(life),
            synced: watch::Sender::new(false),
            indexer,
            prune,
            family: family.clone(),
        };
        let shared = Arc::new(shared);
        let mut members = family.lock().unwrap_or_else(PoisonError::into_inner);
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(&shared));
        drop(members);
        Self { shared }
    }

    /// This store and those that share its watch.
    fn family(&self) -> Vec<Self> {
        let members = self.shared.family.lock().unwrap_or_else(PoisonError::into_inner);
        members.iter().filter_map(Weak::upgrade).map(|shared| Self { shared }).collect()
    }

    /// The object of this name, pruned.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        self.read().get(key)
    }

    /// All objects with this index key, in the order of namespace and name.
    #[must_use]
    pub fn by_index(&self, index_key: &str) -> Vec<Value> {
        self.read().by_index(index_key)
    }

    /// The next index keys in their order, after one that need not exist (any more).
    #[must_use]
    pub fn index_keys_after(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        self.read().index_keys_after(after, limit)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// What the objects take, without their index.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.read().bytes()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a complete list has been seen. Before that an absence proves nothing.
    #[must_use]
    pub fn synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Ends when a complete list has been seen.
    pub async fn wait_synced(&self) {
        // The sender lives as long as this store, so the wait cannot fail.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Time since the watch last had a sign of life from the server. Quiet is no silence: a living watch
    /// is renewed every few seconds.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.life(|life| life.last_sign.elapsed())
    }

    /// Why the watch does not run, while it does not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.life(|life| life.failure.clone())
    }

    /// How many objects were skipped because they could not be what they should be.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.life(|life| life.skipped)
    }

    /// How many complete lists the watch has read.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.life(|life| life.lists)
    }

    /// Puts the answer of a write in. Only for objects that the watch selects.
    pub fn insert(&self, object: Value) {
        let family = self.family();
        let Some((last, others)) = family.split_last() else { return };
        others.iter().for_each(|store| store.put_written(object.clone()));
        last.put_written(object);
    }

    /// Takes an object out of which the server has said that it is gone; one that still terminates is
    /// inserted instead. Another object of the same name stays.
    pub fn remove(&self, key: &ObjectKey, uid: &str) {
        for store in self.family() {
            store.write().remove(key, uid);
        }
    }

    /// From now on tells which index keys changed. It begins with all that the store holds.
    #[must_use]
    pub fn subscribe(&self) -> Changes {
        self.write().subscribe()
    }

    /// An object as the watch saw it.
    pub(crate) fn saw(&self, object: Value) {
        if let Err(reason) = self.put(object, Source::Watch) {
            self.skip(&reason);
        }
    }

    /// The end of an object, as the watch saw it; false if it does not say which object.
    pub(crate) fn saw_gone(&self, object: &Value) -> bool {
        let Some(key) = ObjectKey::of(object) else {
            return false;
        };
        self.write().saw_gone(&key, object);
        true
    }

    pub(crate) fn begin_list(&self) -> Listing {
        self.write().begin_list()
    }

    /// An object of a list. One that is malformed is named all the same: it is not gone.
    pub(crate) fn listed(&self, listing: &mut Listing, object: Value) {
        if let Some(key) = ObjectKey::of(&object) {
            listing.name(key);
        }
        if let Err(reason) = self.put(object, listing.source()) {
            self.skip(&reason);
        }
    }

    /// The list is complete: what it did not name is gone, unless it was written after the list began.
    pub(crate) fn end_list(&self, listing: &Listing) {
        self.write().end_list(listing);
        self.life(|life| life.lists += 1);
        self.shared.synced.send_replace(true);
    }

    /// The server answered something.
    pub(crate) fn sign_of_life(&self) {
        self.life(|life| life.last_sign = Instant::now());
    }

    /// The watch runs (again).
    pub(crate) fn recover(&self) {
        self.life(|life| life.failure = None);
    }

    /// Says why the watch does not run; true if this is news.
    pub(crate) fn fail(&self, reason: String) -> bool {
        self.life(|life| {
            let news = life.failure.as_ref() != Some(&reason);
            life.failure = Some(reason);
            news
        })
    }

    pub(crate) fn skip(&self, reason: &str) {
        tracing::warn!(reason, "an object of a watch is malformed and was skipped");
        self.life(|life| life.skipped += 1);
    }

    fn put_written(&self, object: Value) {
        if let Err(reason) = self.put(object, Source::Write) {
            self.skip(&reason);
        }
    }

    fn put(&self, object: Value, source: Source) -> Result<(), String> {
        let key = ObjectKey::of(&object).ok_or("it has no metadata.name")?;
        let keys = (self.shared.indexer)(&object)
            .map_err(|reason| format!("{}/{}: {reason}", key.namespace, key.name))?;
        let entry = Entry::new(self.shared.prune.apply(object), keys);
        self.write().put(key, entry, source);
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Shelf> {
        self.shared.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shelf> {
        self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn life<T>(&self, look: impl FnOnce(&mut Life) -> T) -> T {
        look(&mut self.shared.life.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ObjectKey {
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Where this object is; None if it does not say.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let name = metadata(object, "name");
        (!name.is_empty()).then(|| Self::new(metadata(object, "namespace"), name))
    }
}

/// A text of the metadata; empty if there is none.
pub(crate) fn metadata<'a>(object: &'a Value, member: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(member)?.as_str()).unwrap_or_default()
}
