//! What a store holds, and the rules by which it changes. Knows no watch and no waiting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::changes::{Changes, Subscribers};
use super::store::{ObjectKey, metadata};

/// The objects of a store, their index, and what must not come back.
#[derive(Default)]
pub(crate) struct Shelf {
    objects: BTreeMap<ObjectKey, Entry>,
    index: BTreeMap<String, BTreeSet<ObjectKey>>,
    graves: Graves,
    subscribers: Subscribers,
    /// How many lists began so far; tells writes before a list from writes during it.
    lists: u64,
}

/// One object, pruned.
pub(crate) struct Entry {
    /// JSON text without the resource version: a tenth of a tree's size, and equal exactly when nothing
    /// that is kept has changed.
    text: Box<str>,
    version: Box<str>,
    uid: Box<str>,
    keys: Arc<[String]>,
    /// The number of lists at the time of the write that put it here; None if the watch did.
    written: Option<u64>,
}

/// Who says what an object is like.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Source {
    Watch,
    List(u64),
    Write,
}

/// A list that is being read; what it does not name by its end is gone.
pub(crate) struct Listing {
    number: u64,
    named: BTreeSet<ObjectKey>,
}

/// How long a deletion is remembered against older news of the same object.
const GRAVE: Duration = Duration::from_secs(120);

/// Deletions that older news must not undo.
#[derive(Default)]
struct Graves {
    /// Up to which version news of a uid is older than its end; None for all of it.
    by_uid: BTreeMap<Box<str>, Option<u64>>,
    by_age: VecDeque<(Instant, Box<str>)>,
}

impl Shelf {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Value> {
        self.objects.get(key).map(Entry::object)
    }

    pub(crate) fn by_index(&self, index_key: &str) -> Vec<Value> {
        let keys = self.index.get(index_key).into_iter().flatten();
        keys.filter_map(|key| self.get(key)).collect()
    }

    pub(crate) fn index_keys_after(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.index.range::<str, _>((from, Unbounded)).take(limit).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// What the texts of all objects take.
    pub(crate) fn bytes(&self) -> usize {
        self.objects.values().map(|entry| entry.text.len()).sum()
    }

    pub(crate) fn subscribe(&mut self) -> Changes {
        self.subscribers.add(self.index.keys())
    }

    /// Takes news of an object in, unless it is older than what is known.
    pub(crate) fn put(&mut self, key: ObjectKey, mut entry: Entry, source: Source) {
        let old = self.objects.get(&key);
        if self.graves.cover(&entry) || old.is_some_and(|old| old.outdates(&entry.version, source)) {
            return;
        }
        let unchanged = old.is_some_and(|old| old.text == entry.text && old.keys == entry.keys);
        entry.written = (source == Source::Write).then_some(self.lists);
        if unchanged {
            self.objects.insert(key, entry);
            return;
        }
        self.take(&key);
        for index_key in &*entry.keys {
            self.index.entry(index_key.clone()).or_default().insert(key.clone());
        }
        self.subscribers.tell(&entry.keys);
        self.objects.insert(key, entry);
    }

    /// The server answered us that this object is gone: no news of it can be newer than that.
    pub(crate) fn remove(&mut self, key: &ObjectKey, uid: &str) {
        self.graves.dig(uid, None);
        if self.objects.get(key).is_some_and(|entry| *entry.uid == *uid) {
            self.take(key);
        }
    }

    /// The watch saw this object's end. A write of ours may have put the next of its name here already.
    pub(crate) fn saw_gone(&mut self, key: &ObjectKey, object: &Value) {
        let (uid, version) = (metadata(object, "uid"), metadata(object, "resourceVersion"));
        if let Ok(version) = version.parse() {
            self.graves.dig(uid, Some(version));
        }
        let known = self.objects.get(key);
        if known.is_some_and(|entry| {
            (uid.is_empty() || *entry.uid == *uid) && !entry.outdates(version, Source::Watch)
        }) {
            self.take(key);
        }
    }

    pub(crate) fn begin_list(&mut self) -> Listing {
        self.lists += 1;
        Listing { number: self.lists, named: BTreeSet::new() }
    }

    /// Removes what a complete list did not name, unless it was written after the list began.
    pub(crate) fn end_list(&mut self, listing: &Listing) {
        let absent: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(key, entry)| !listing.named.contains(key) && entry.written != Some(listing.number))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &absent {
            self.take(key);
        }
    }

    fn take(&mut self, key: &ObjectKey) {
        let Some(entry) = self.objects.remove(key) else {
            return;
        };
        for index_key in &*entry.keys {
            if let Some(set) = self.index.get_mut(index_key) {
                set.remove(key);
                if set.is_empty() {
                    self.index.remove(index_key);
                }
            }
        }
        self.subscribers.tell(&entry.keys);
    }
}

impl Listing {
    /// An object that is there, however malformed, is not gone.
    pub(crate) fn name(&mut self, key: ObjectKey) {
        self.named.insert(key);
    }

    pub(crate) fn source(&self) -> Source {
        Source::List(self.number)
    }
}

impl Entry {
    pub(crate) fn new(mut object: Value, keys: Vec<String>) -> Self {
        let uid = metadata(&object, "uid").into();
        let version = metadata(&object, "resourceVersion").into();
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.shift_remove("resourceVersion");
        }
        Self { text: object.to_string().into(), version, uid, keys: keys.into(), written: None }
    }

    fn object(&self) -> Value {
        // The text is our own, so it parses; a null in its place could mislead nobody.
        let mut object: Value = serde_json::from_str(&self.text).unwrap_or_default();
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("resourceVersion".to_owned(), Value::from(&*self.version));
        }
        object
    }

    /// Whether news of this version is older than this entry. The watch is in order by itself, even where
    /// versions are not (a cluster that was restored from a backup), so only our own writes, which run
    /// ahead of it, are compared with it; and a list knows of all writes before it began.
    fn outdates(&self, version: &str, source: Source) -> bool {
        let comparable = match source {
            Source::Watch => self.written.is_some(),
            Source::List(number) => self.written == Some(number),
            Source::Write => true,
        };
        comparable && is_newer(&self.version, version)
    }
}

impl Graves {
    fn dig(&mut self, uid: &str, version: Option<u64>) {
        while self.by_age.front().is_some_and(|(at, _)| at.elapsed() > GRAVE) {
            if let Some((_, uid)) = self.by_age.pop_front() {
                self.by_uid.remove(&uid);
            }
        }
        // What the server's answer says of all news outlasts what one event says of older news.
        let known = self.by_uid.get(uid);
        if !uid.is_empty() && known != Some(&None) {
            self.by_uid.insert(uid.into(), version);
            self.by_age.push_back((Instant::now(), uid.into()));
        }
    }

    fn cover(&self, entry: &Entry) -> bool {
        match self.by_uid.get(&entry.uid) {
            Some(Some(end)) => entry.version.parse::<u64>().is_ok_and(|version| version <= *end),
            Some(None) => true,
            None => false,
        }
    }
}

/// Whether the first version is later than the second. Versions that are no numbers cannot be compared;
/// then what arrives last is taken to be later.
fn is_newer(left: &str, right: &str) -> bool {
    matches!((left.parse::<u64>(), right.parse::<u64>()), (Ok(left), Ok(right)) if left > right)
}
