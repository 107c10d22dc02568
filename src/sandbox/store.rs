//! What is stored: objects as text, one version for all of them, and for each kind a bounded history from
//! which watches and the pages of a list are read.
//!
//! Nobody is sent anything: a watch asks for what came after the version that it has seen, so a client that
//! reads slowly costs no memory, and one that reads too slowly is told that its version has expired.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::object::{list, name, namespace, text, uid};
use super::packed::{Example, Packed};
use super::persist::Snapshot;
use super::refusal::Refusal;

/// Namespace and name; the namespace is empty for kinds without.
pub(super) type Key = (String, String);

/// A kind's storage, shared by all its versions: `deployments.apps`.
pub(super) type Storage = Arc<str>;

/// One state of one object.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) key: Key,
    pub(super) uid: String,
    /// The object as JSON, complete with its version.
    pub(super) text: Packed,
    pub(super) labels: Vec<(String, String)>,
    owners: Vec<String>,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) before: Option<Arc<Stored>>,
    /// None when the object is gone; then `last` holds its last state.
    pub(super) after: Option<Arc<Stored>>,
    pub(super) last: Arc<Stored>,
}

/// News for the controllers.
#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) storage: Storage,
    pub(super) change: Change,
}

/// Everything that is stored.
pub(super) struct Store {
    version: u64,
    /// The version at which it began: of what was before, nothing is remembered.
    born: u64,
    shelves: HashMap<Storage, Shelf>,
    /// The dependents of each uid.
    dependents: HashMap<String, Vec<(Storage, Key)>>,
    /// Which uids there are.
    uids: HashMap<String, (Storage, Key)>,
    bytes: usize,
    news: Option<mpsc::UnboundedSender<News>>,
}

/// The objects of one kind.
struct Shelf {
    objects: BTreeMap<Key, Arc<Stored>>,
    history: VecDeque<Change>,
    history_bytes: usize,
    /// The newest version of which the history no longer knows.
    forgotten: u64,
    latest: watch::Sender<u64>,
    example: Example,
}

/// How much a kind's history remembers.
const HISTORY_CHANGES: usize = 10_000;
const HISTORY_BYTES: usize = 8 << 20;

/// How much may be stored in all: more is refused, as a full etcd refuses.
const MOST_BYTES: usize = 1 << 30;

impl Store {
    pub(super) fn new() -> Self {
        Self {
            version: 0,
            born: 0,
            shelves: HashMap::new(),
            dependents: HashMap::new(),
            uids: HashMap::new(),
            bytes: 0,
            news: None,
        }
    }

    /// From now on every change is told to the receiver.
    pub(super) fn tell(&mut self) -> mpsc::UnboundedReceiver<News> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.news = Some(sender);
        receiver
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, storage: &str, key: &Key) -> Option<&Arc<Stored>> {
        self.shelves.get(storage)?.objects.get(key)
    }

    /// The objects of a namespace, or of all, in the order of their names.
    pub(super) fn all<'s>(
        &'s self,
        storage: &str,
        namespace: &'s str,
    ) -> impl Iterator<Item = &'s Arc<Stored>> {
        let first = (namespace.to_owned(), String::new());
        let objects = self.shelves.get(storage).map(|shelf| shelf.objects.range(first..));
        let inside = move |key: &Key| namespace.is_empty() || key.0 == namespace;
        objects.into_iter().flatten().take_while(move |(key, _)| inside(key)).map(|(_, stored)| stored)
    }

    /// The storages that hold anything.
    pub(super) fn storages(&self) -> Vec<Storage> {
        self.shelves.iter().filter(|(_, s)| !s.objects.is_empty()).map(|(name, _)| name.clone()).collect()
    }

    /// The objects as they were at a former version.
    pub(super) fn all_at(
        &self,
        storage: &str,
        namespace: &str,
        version: u64,
    ) -> Result<Vec<Arc<Stored>>, Refusal> {
        let mut objects: BTreeMap<Key, Arc<Stored>> =
            self.all(storage, namespace).map(|stored| (stored.key.clone(), stored.clone())).collect();
        if version < self.forgotten(storage) {
            return Err(Refusal::expired(
                "The provided continue parameter is too old to display a consistent list result. You can \
                 start a new list without the continue parameter.",
            ));
        }
        let Some(shelf) = self.shelves.get(storage) else { return Ok(Vec::new()) };
        for change in shelf.history.iter().rev().take_while(|change| change.version > version) {
            let key = &change.last.key;
            if !namespace.is_empty() && key.0 != namespace {
                continue;
            }
            match &change.before {
                Some(before) => objects.insert(key.clone(), before.clone()),
                None => objects.remove(key),
            };
        }
        Ok(objects.into_values().collect())
    }

    /// The changes of a kind after a version, oldest first.
    pub(super) fn after(&self, storage: &str, version: u64, most: usize) -> Result<Vec<Change>, Refusal> {
        let oldest = self.forgotten(storage);
        if version < oldest {
            return Err(Refusal::expired(format!("too old resource version: {version} ({oldest})")));
        }
        let Some(shelf) = self.shelves.get(storage) else { return Ok(Vec::new()) };
        let from = shelf.history.partition_point(|change| change.version <= version);
        Ok(shelf.history.range(from..).take(most).cloned().collect())
    }

    /// Tells the version of the newest change of a kind.
    pub(super) fn follow(&mut self, storage: &Storage) -> watch::Receiver<u64> {
        self.shelf(storage).latest.subscribe()
    }

    /// Puts a state of an object, under a version that is new; answers the object with it.
    pub(super) fn put(&mut self, storage: &Storage, mut object: Value) -> Result<Value, Refusal> {
        let version = self.version + 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let stored = self.stored(storage, &object);
        let key = stored.key.clone();
        let before = self.shelf(storage).objects.get(&key).cloned();
        let former = before.as_ref().map_or(0, |before| before.text.len());
        if self.bytes + stored.text.len() - former.min(self.bytes) > MOST_BYTES {
            return Err(Refusal::new(500, "InternalError", "etcdserver: mvcc: database space exceeded"));
        }
        self.version = version;
        self.bytes = self.bytes + stored.text.len() - former.min(self.bytes);
        self.index(storage, before.as_deref(), Some(&stored));
        self.shelf(storage).objects.insert(key, stored.clone());
        self.record(storage, Change { version, before, after: Some(stored.clone()), last: stored });
        Ok(object)
    }

    /// Takes an object away; its last state bears the version of its end.
    pub(super) fn remove(&mut self, storage: &Storage, key: &Key) {
        let Some(before) = self.shelf(storage).objects.remove(key) else { return };
        self.version += 1;
        self.bytes = self.bytes.saturating_sub(before.text.len());
        let mut object = before.object();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let last = self.stored(storage, &object);
        self.index(storage, Some(&before), None);
        self.record(storage, Change { version: self.version, before: Some(before), after: None, last });
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<(Storage, Key)> {
        self.dependents.get(uid).cloned().unwrap_or_default()
    }

    pub(super) fn holder(&self, uid: &str) -> Option<&(Storage, Key)> {
        self.uids.get(uid)
    }

    /// Versions go on from here, and no client can read on from an earlier one.
    pub(super) fn begin_at(&mut self, version: u64) {
        (self.version, self.born) = (version, version);
    }

    /// Puts an object back as it was, with its version; to the controllers it is new.
    pub(super) fn restore(&mut self, storage: &Storage, object: &Value) {
        let stored = self.stored(storage, object);
        self.bytes += stored.text.len();
        self.index(storage, None, Some(&stored));
        self.shelf(storage).objects.insert(stored.key.clone(), stored.clone());
        let change =
            Change { version: self.version, before: None, after: Some(stored.clone()), last: stored };
        self.tell_controllers(storage, &change);
    }

    /// Everything as it is now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let objects = self.shelves.iter().flat_map(|(storage, shelf)| {
            shelf.objects.values().map(|stored| (storage.clone(), stored.clone()))
        });
        Snapshot { version: self.version, objects: objects.collect() }
    }

    /// The newest version of which the history of a kind no longer knows.
    fn forgotten(&self, storage: &str) -> u64 {
        self.shelves.get(storage).map_or(self.born, |shelf| shelf.forgotten)
    }

    fn tell_controllers(&self, storage: &Storage, change: &Change) {
        if let Some(news) = &self.news {
            // Without controllers there is nobody to tell.
            let _ = news.send(News { storage: storage.clone(), change: change.clone() });
        }
    }

    fn index(&mut self, storage: &Storage, before: Option<&Stored>, after: Option<&Stored>) {
        if let Some(before) = before {
            self.uids.remove(&before.uid);
            for owner in &before.owners {
                if let Some(dependents) = self.dependents.get_mut(owner) {
                    dependents.retain(|(kind, key)| kind != storage || *key != before.key);
                    if dependents.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
        }
        if let Some(after) = after {
            self.uids.insert(after.uid.clone(), (storage.clone(), after.key.clone()));
            for owner in &after.owners {
                let dependents = self.dependents.entry(owner.clone()).or_default();
                dependents.push((storage.clone(), after.key.clone()));
            }
        }
    }

    fn record(&mut self, storage: &Storage, change: Change) {
        self.tell_controllers(storage, &change);
        let shelf = self.shelf(storage);
        shelf.history_bytes += change.last.text.len();
        shelf.latest.send_replace(change.version);
        shelf.history.push_back(change);
        while shelf.history.len() > HISTORY_CHANGES || shelf.history_bytes > HISTORY_BYTES {
            let Some(oldest) = shelf.history.pop_front() else { return };
            shelf.history_bytes -= oldest.last.text.len();
            shelf.forgotten = oldest.version;
        }
    }

    fn stored(&mut self, storage: &Storage, object: &Value) -> Arc<Stored> {
        Arc::new(Stored::new(object, &mut self.shelf(storage).example))
    }

    fn shelf(&mut self, storage: &Storage) -> &mut Shelf {
        let born = self.born;
        self.shelves.entry(storage.clone()).or_insert_with(|| Shelf {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
            forgotten: born,
            latest: watch::channel(born).0,
            example: Example::default(),
        })
    }
}

impl Stored {
    fn new(object: &Value, example: &mut Example) -> Self {
        let whole = object.to_string();
        example.learn(whole.as_bytes());
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        let owners = list(object, "/metadata/ownerReferences");
        Self {
            key: (namespace(object).to_owned(), name(object).to_owned()),
            uid: uid(object).to_owned(),
            text: Packed::new(whole.as_bytes(), example),
            labels: labels
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            owners: owners.iter().map(|owner| text(owner, "/uid").to_owned()).collect(),
        }
    }

    /// The object as a tree. The text is our own, so it parses.
    pub(super) fn object(&self) -> Value {
        serde_json::from_slice(&self.text.unpack()).unwrap_or_default()
    }
}
