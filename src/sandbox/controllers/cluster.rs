//! The API as the controllers use it: by kind and key, without options.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::sandbox::api::{Api, DeleteOptions, Target, WriteOptions};
use crate::sandbox::kinds::Kind;
use crate::sandbox::object::{name, namespace, now, random_suffix, text, uid};
use crate::sandbox::quota;
use crate::sandbox::refusal::Refusal;
use crate::sandbox::store::{Key, Storage};

/// A client of its own house.
pub(in crate::sandbox) struct Cluster {
    api: Arc<Api>,
    said: Mutex<Said>,
}

/// Which events there are, so that what is said again is counted, and old ones make room.
#[derive(Default)]
struct Said {
    by_words: HashMap<String, Key>,
    by_age: VecDeque<(String, Key)>,
}

/// How many events of the controllers are kept.
const MOST_EVENTS: usize = 5000;

impl Cluster {
    pub(in crate::sandbox) fn new(api: Arc<Api>) -> Self {
        Self { api, said: Mutex::default() }
    }

    pub(super) fn get(&self, storage: &str, key: &Key) -> Option<Value> {
        self.api.store().get(storage, key).map(|stored| stored.object())
    }

    /// An object by its kind (`v1/Node`) and name, in this namespace where the kind has namespaces.
    pub(super) fn look_up(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let (api_version, kind) = kind.rsplit_once('/')?;
        let kind = self.api.kinds.by_kind(api_version, kind)?;
        let namespace = if kind.namespaced { namespace } else { "" };
        self.get(&kind.resource_name(), &(namespace.to_owned(), name.to_owned()))
    }

    /// The objects of a namespace, or of all.
    pub(super) fn all(&self, storage: &str, namespace: &str) -> Vec<Value> {
        self.api.store().all(storage, namespace).map(|stored| stored.object()).collect()
    }

    /// Where the object of this uid is.
    pub(super) fn holder(&self, uid: &str) -> Option<(Storage, Key)> {
        self.api.store().holder(uid).cloned()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<(Storage, Key)> {
        self.api.store().dependents(uid)
    }

    /// The objects of a kind that an object controls.
    pub(super) fn controlled(&self, owner: &Value, storage: &str) -> Vec<Value> {
        let store = self.api.store();
        let dependents = store.dependents(uid(owner)).into_iter().filter(|(kind, _)| &**kind == storage);
        dependents.filter_map(|(kind, key)| store.get(&kind, &key).map(|stored| stored.object())).collect()
    }

    /// Where each object is kept.
    pub(super) fn everything(&self) -> Vec<(Storage, Key)> {
        let store = self.api.store();
        let storages = store.storages().into_iter();
        storages
            .flat_map(|storage| {
                let keys: Vec<Key> = store.all(&storage, "").map(|stored| stored.key.clone()).collect();
                keys.into_iter().map(move |key| (storage.clone(), key))
            })
            .collect()
    }

    pub(super) fn storages(&self) -> Vec<Storage> {
        self.api.store().storages()
    }

    pub(super) fn count_quota(&self, quota: &Value) -> Value {
        quota::counted(&self.api, &self.api.store(), quota)
    }

    pub(super) fn create(&self, namespace: &str, object: Value) -> Result<Value, Refusal> {
        let kind = self.kind_of(&object).ok_or_else(Refusal::no_such_path)?;
        let target = Target::new(kind, namespace, "");
        self.api.create(&target, object, &WriteOptions::default()).map(|written| written.object)
    }

    /// Changes an object; one that is gone, or that refuses, is left to the next look.
    pub(super) fn change(&self, object: &Value, change: impl Fn(&mut Value)) -> Result<Value, Refusal> {
        self.change_below(object, "", change)
    }

    pub(super) fn change_status(
        &self,
        object: &Value,
        change: impl Fn(&mut Value),
    ) -> Result<Value, Refusal> {
        self.change_below(object, "status", change)
    }

    /// A change holds for this object only, and not for another that has its name by now.
    fn change_below(
        &self,
        object: &Value,
        subresource: &str,
        change: impl Fn(&mut Value),
    ) -> Result<Value, Refusal> {
        let target = self.target(object)?.below(subresource);
        let same = uid(object).to_owned();
        let changed = |old: &Value| {
            if uid(old) != same {
                return Err(Refusal::not_found(&target.kind, &target.name));
            }
            let mut new = old.clone();
            change(&mut new);
            Ok(new)
        };
        self.api.update(&target, &WriteOptions::default(), &changed).map(|written| written.object)
    }

    pub(super) fn delete(&self, object: &Value, propagation: &str) {
        self.delete_with(object, propagation, None);
    }

    /// Deletes a pod whose end nobody waits for.
    pub(super) fn delete_now(&self, object: &Value) {
        self.delete_with(object, "Background", Some(0));
    }

    fn delete_with(&self, object: &Value, propagation: &str, grace: Option<i64>) {
        let Ok(target) = self.target(object) else { return };
        let uid = Some(uid(object).to_owned());
        let propagation = propagation.to_owned();
        let options = DeleteOptions { propagation, uid, grace, ..DeleteOptions::default() };
        if let Err(refusal) = self.api.delete(&target, &options) {
            tracing::debug!(name = target.name, reason = refusal.message, "a deletion was refused");
        }
    }

    /// Says something of an object. The same said again is counted.
    pub(super) fn event(&self, about: &Value, component: &str, kind: &str, reason: &str, message: &str) {
        let namespace = match namespace(about) {
            "" => "default",
            namespace => namespace,
        };
        let words = format!("{} {reason} {message}", uid(about));
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let known = said.by_words.get(&words).and_then(|key| self.get("events", key));
        if let Some(known) = known {
            let _ = self.change(&known, |event| {
                event["count"] = (event["count"].as_i64().unwrap_or(1) + 1).into();
                event["lastTimestamp"] = now().into();
            });
            return;
        }
        let suffix = || random_suffix(name(about));
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{}.{}{}", name(about), suffix(), suffix())},
            "involvedObject": {
                "kind": about["kind"], "namespace": namespace, "name": name(about), "uid": uid(about),
                "apiVersion": about["apiVersion"], "resourceVersion": about["metadata"]["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
            "type": kind,
            "reportingComponent": component,
            "reportingInstance": "",
        });
        match self.create(namespace, event) {
            Ok(event) => self.keep(&mut said, words, &event),
            Err(refusal) => tracing::debug!(reason = refusal.message, "an event was refused"),
        }
    }

    fn keep(&self, said: &mut Said, words: String, event: &Value) {
        let key = (namespace(event).to_owned(), name(event).to_owned());
        said.by_words.insert(words.clone(), key.clone());
        said.by_age.push_back((words, key));
        if said.by_age.len() > MOST_EVENTS
            && let Some((words, key)) = said.by_age.pop_front()
        {
            said.by_words.remove(&words);
            if let Some(event) = self.get("events", &key) {
                self.delete(&event, "Background");
            }
        }
    }

    fn target(&self, object: &Value) -> Result<Target, Refusal> {
        let kind = self.kind_of(object).ok_or_else(Refusal::no_such_path)?;
        Ok(Target::new(kind, namespace(object), name(object)))
    }

    fn kind_of(&self, object: &Value) -> Option<Arc<Kind>> {
        self.api.kinds.by_kind(text(object, "/apiVersion"), text(object, "/kind"))
    }
}
