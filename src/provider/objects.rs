//! The objects of an instance: which of those in memory are its own, and what writes tell of them.

use std::sync::Arc;

use serde_json::Value;

use super::Provider;
use super::watching::{id_key, uid_key};
use crate::cluster::{ObjectKey, Store};
use crate::engine::format::Match;
use crate::engine::inputs::{
    Identity, LIFE_ANNOTATION, PROVIDER_ANNOTATION, annotation, instance_of, name_of, uid_of,
};
use crate::engine::service::{KindRef, WatchRule};
use crate::record::{InstanceRecord, PlannedObject};

impl Provider {
    /// The objects of one life, for each watch.
    pub fn observed(&self, identity: &Identity) -> Vec<Vec<Arc<Value>>> {
        let mut observed: Vec<Vec<Arc<Value>>> = Vec::new();
        for (watch, store) in self.watched() {
            let objects = match watch.matching {
                Match::Label => store.by_index(&id_key(&identity.id)),
                Match::InvolvedObject => Vec::new(),
            };
            let own = objects.into_iter().filter(|object| self.is_of(object, identity));
            observed.push(own.map(Arc::new).collect());
        }
        let uids: Vec<String> = observed.iter().flatten().map(|object| uid_key(uid_of(object))).collect();
        for ((watch, store), slot) in self.watched().zip(&mut observed) {
            if watch.matching == Match::InvolvedObject {
                *slot = uids.iter().flat_map(|uid| store.by_index(uid)).map(Arc::new).collect();
            }
        }
        observed
    }

    /// Another provider's object, or one of a former life, is no part of this instance.
    fn is_of(&self, object: &Value, identity: &Identity) -> bool {
        (annotation(object, PROVIDER_ANNOTATION).is_none_or(|name| name == self.name)
            || seeded!("foreign-is-ours"))
            && annotation(object, LIFE_ANNOTATION).is_none_or(|life| life == identity.life.to_string())
    }

    /// Whether an object is the one that the plan of an instance means. Where its uid is known, nothing else
    /// tells; else the id counts too, since a caller who chooses names may choose another instance's.
    pub fn is_planned(&self, object: &Value, id: &str, planned: &PlannedObject) -> bool {
        let named = name_of(object) == planned.name;
        if seeded!("name-is-enough") {
            return named;
        }
        match &planned.uid {
            Some(uid) => named && uid_of(object) == uid,
            None => {
                named
                    && instance_of(object) == Some(id)
                    && annotation(object, PROVIDER_ANNOTATION) == Some(self.name.as_str())
                    && annotation(object, LIFE_ANNOTATION) == Some(planned.life.to_string().as_str())
            }
        }
    }

    /// Whether memory holds everything that the record plans: a create that died now may have answered.
    pub fn is_whole(&self, record: &InstanceRecord) -> bool {
        if seeded!("forget-the-answered") {
            return false;
        }
        record.plan.iter().all(|planned| {
            let key = ObjectKey::new(self.namespace.as_str(), planned.name.as_str());
            let kind = planned.kind_ref();
            let mut found = self.labelled(&kind).filter_map(|(_, store)| store.get(&key));
            found.any(|object| self.is_planned(&object, &record.id, planned))
        })
    }

    /// Whether memory still holds a root object of the record's lives.
    pub fn roots_left(&self, record: &InstanceRecord) -> bool {
        self.roots(record).next().is_some()
    }

    /// Whether somebody has deleted every root, and something holds them.
    pub fn roots_end(&self, record: &InstanceRecord) -> bool {
        let mut roots = self.roots(record).peekable();
        roots.peek().is_some() && roots.all(|root| root.pointer("/metadata/deletionTimestamp").is_some())
    }

    fn roots(&self, record: &InstanceRecord) -> impl Iterator<Item = Value> {
        record.all_planned().filter(|planned| planned.root).filter_map(|planned| {
            let kind = planned.kind_ref();
            let key = ObjectKey::new(self.namespace.as_str(), planned.name.as_str());
            let mut found = self.labelled(&kind).filter_map(|(_, store)| store.get(&key));
            found.find(|object| self.is_planned(object, &record.id, planned))
        })
    }

    /// Puts an object into memory, as a write answered it.
    pub fn saw(&self, kind: &KindRef, object: &Value) {
        if seeded!("blind-to-own-writes") {
            return;
        }
        for (_, store) in self.labelled(kind) {
            store.insert(object.clone());
        }
    }

    /// Takes an object out of memory of which the cluster has said that it is gone.
    pub fn saw_gone(&self, kind: &KindRef, name: &str, uid: &str) {
        for (_, store) in self.labelled(kind) {
            store.remove(&ObjectKey::new(self.namespace.as_str(), name), uid);
        }
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = (&WatchRule, &Store)> {
        self.service.watches.iter().zip(&self.stores)
    }

    pub(super) fn labelled(&self, kind: &KindRef) -> impl Iterator<Item = (&WatchRule, &Store)> {
        self.watched().filter(move |(watch, _)| watch.kind == *kind && watch.matching == Match::Label)
    }
}
