//! What a provider wishes to watch, and the keys by which it finds things in its stores.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Parts, Provider, resource_ref};
use crate::cluster::{Indexer, ListOptions, Prune, RecordStore, Store, Stored, WatchKey, WatchSpec, Watches};
use crate::engine::format::Match;
use crate::engine::inputs::{MANAGED_BY, SERVICE_TYPE, instance_of, uid_of};
use crate::engine::service::{Service, WatchRule};
use crate::engine::shape::Step;
use crate::record::{InstanceRecord, MARKER};

/// The index keys of stores carry a prefix each, since ids, names and uids may be equal.
pub(super) fn id_key(id: &str) -> String {
    format!("id:{id}")
}

pub(super) fn name_key(name: &str) -> String {
    format!("name:{name}")
}

pub(super) fn uid_key(uid: &str) -> String {
    format!("uid:{uid}")
}

/// The key of every record about which something is left to be done.
pub(super) const UNFINISHED: &str = "unfinished:";

impl Parts {
    fn records(&self) -> RecordStore {
        let marker = (MARKER, self.service.service_type.as_str());
        RecordStore::new(self.cluster.clone(), self.namespace.clone(), marker)
    }

    /// Every watch that this type wishes for: one for its records, and one for each kind of its mapping.
    pub fn watches(&self, resync: Duration) -> Vec<WatchSpec> {
        let keys = |stored: &Stored| match InstanceRecord::from_json(&stored.value) {
            Ok(record) => {
                let unfinished = record.is_unfinished().then(|| UNFINISHED.to_owned());
                let name = record.name().map(name_key);
                std::iter::once(id_key(&record.id)).chain(name).chain(unfinished).collect()
            }
            Err(_) => Vec::new(),
        };
        let mut specs = vec![self.records().watch(keys, resync)];
        for watch in &self.service.watches {
            specs.push(WatchSpec {
                key: watch_key(&self.service, &self.namespace, watch),
                prune: prune(watch),
                indexer: indexer(watch.matching),
                resync,
            });
        }
        specs
    }

    /// The provider, once the watches run. None if they were started without [`Self::watches`].
    pub fn build(self, watches: &Watches) -> Option<Provider> {
        let records = self.records();
        let stores: Option<Vec<Store>> =
            keys(&self.service, &self.namespace).map(|key| watches.store(&key)).collect();
        let own = keys(&self.service, &self.namespace).chain([records.key()]);
        Some(Provider {
            record_store: watches.store(&records.key())?,
            stores: stores?,
            watches: watches.only(own)?,
            records,
            adopts: self.adopts && self.service.adopt.is_some(),
            memory: self.memory,
            service: self.service,
            name: self.name,
            namespace: self.namespace,
            settings: self.settings,
            cluster: self.cluster,
            request_timeout: self.request_timeout,
            find_by_name: self.find_by_name,
            id_from_key: self.id_from_key,
        })
    }
}

/// The keys of a mapping's watches, in its order.
pub(super) fn keys<'s>(service: &'s Service, namespace: &'s str) -> impl Iterator<Item = WatchKey> + use<'s> {
    service.watches.iter().map(move |watch| watch_key(service, namespace, watch))
}

fn watch_key(service: &Service, namespace: &str, watch: &WatchRule) -> WatchKey {
    let select = match watch.matching {
        Match::Label => ListOptions {
            labels: Some(format!("{MANAGED_BY}=dcm,{SERVICE_TYPE}={}", service.service_type)),
            fields: None,
        },
        Match::InvolvedObject => ListOptions::default(),
    };
    WatchKey { resource: resource_ref(&watch.kind), namespace: namespace.to_owned(), select }
}

/// What memory keeps of the objects that a watch observes.
pub fn prune(watch: &WatchRule) -> Prune {
    let mut paths: Vec<Vec<String>> =
        watch.reads.iter().map(|path| path.iter().map(step).collect()).collect();
    if watch.matching == Match::InvolvedObject {
        paths.push(vec!["involvedObject".to_owned(), "uid".to_owned()]);
    }
    Prune::to(&paths)
}

fn step(step: &Step) -> String {
    match step {
        Step::Key(key) => key.clone(),
        Step::Any => crate::cluster::prune::ANY.to_owned(),
    }
}

fn indexer(matching: Match) -> Indexer {
    match matching {
        Match::Label => Arc::new(|object| {
            let id = instance_of(object).map(id_key);
            Ok(id.into_iter().chain([uid_key(uid_of(object))]).collect())
        }),
        Match::InvolvedObject => Arc::new(|object| {
            let uid = object.pointer("/involvedObject/uid").and_then(Value::as_str);
            Ok(uid.map(uid_key).into_iter().collect())
        }),
    }
}
