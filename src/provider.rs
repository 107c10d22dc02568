//! One service type at work: its mapping, its stores and its records.
//!
//! Reads are answered from memory: what the watches saw, with our own writes put in at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::cluster::record::stored;
use crate::cluster::{
    Cluster, Indexer, ListOptions, ObjectKey, Prune, RecordStore, Refusal, Resource, ResourceRef, Store,
    Stored, WatchKey, WatchSpec, Watches,
};
use crate::engine::expression::EvalError;
use crate::engine::format::Match;
use crate::engine::inputs::{
    Identity, Inputs, LIFE_ANNOTATION, MANAGED_BY, PROVIDER_ANNOTATION, Previous, SERVICE_TYPE, annotation,
    instance_of, name_of, uid_of,
};
use crate::engine::names;
use crate::engine::service::{KindRef, Service, WatchRule};
use crate::engine::shape::Step;
use crate::engine::status::Observation;
use crate::record::{InstanceRecord, MARKER, PlannedObject, State};

/// Everything that the requests and the monitor of one service type share.
pub struct Provider {
    pub service: Arc<Service>,
    /// The provider's name, as it is registered.
    pub name: String,
    pub namespace: String,
    pub settings: Map<String, Value>,
    pub cluster: Cluster,
    pub records: RecordStore,
    /// The deadline of one request.
    pub request_timeout: Duration,
    pub find_by_name: bool,
    record_store: Store,
    stores: Vec<Store>,
    /// Lives whose create has answered while their record does not say so yet.
    answered: Mutex<HashMap<String, u64>>,
    /// What was last delivered of each instance: the status that stands where a rule keeps it.
    delivered: RwLock<HashMap<String, Previous>>,
}

/// What a provider is made from.
pub struct Parts {
    pub service: Arc<Service>,
    pub name: String,
    pub namespace: String,
    pub settings: Map<String, Value>,
    pub cluster: Cluster,
    pub request_timeout: Duration,
    pub find_by_name: bool,
}

/// A record, and where it stands in the cluster.
#[derive(Clone, Debug)]
pub struct Known {
    pub record: InstanceRecord,
    pub stored: Stored,
}

/// An instance with what was observed of it, ready for the mapping's rules.
pub struct Instance {
    pub known: Known,
    pub identity: Identity,
    pub inputs: Inputs,
}

/// The index keys of stores: ids stand for themselves, other keys carry a prefix.
fn id_key(id: &str) -> String {
    format!("id:{id}")
}

fn name_key(name: &str) -> String {
    format!("name:{name}")
}

fn uid_key(uid: &str) -> String {
    format!("uid:{uid}")
}

impl Parts {
    fn records(&self) -> RecordStore {
        let marker = (MARKER, self.service.service_type.as_str());
        RecordStore::new(self.cluster.clone(), self.namespace.clone(), marker)
    }

    /// Every watch that this type wishes for: one for its records, and one for each kind of its mapping.
    pub fn watches(&self, resync: Duration) -> Vec<WatchSpec> {
        let keys = |stored: &Stored| match InstanceRecord::from_json(&stored.value) {
            Ok(record) => {
                let name = record.name().map(name_key);
                std::iter::once(id_key(&record.id)).chain(name).collect()
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
        Some(Provider {
            record_store: watches.store(&records.key())?,
            stores: stores?,
            records,
            answered: Mutex::default(),
            delivered: RwLock::default(),
            service: self.service,
            name: self.name,
            namespace: self.namespace,
            settings: self.settings,
            cluster: self.cluster,
            request_timeout: self.request_timeout,
            find_by_name: self.find_by_name,
        })
    }
}

impl Provider {
    pub fn identity(&self, id: &str, life: u64) -> Identity {
        Identity { id: id.to_owned(), provider: self.name.clone(), namespace: self.namespace.clone(), life }
    }

    pub fn record_name(&self, id: &str) -> String {
        names::record(&self.service.service_type, id)
    }

    /// Waits until every store has seen a complete list, so that an absence means something.
    pub async fn wait_synced(&self) {
        self.record_store.wait_synced().await;
        for store in &self.stores {
            store.wait_synced().await;
        }
    }

    /// The stores in whose changes the monitor is interested: the records, then one for each watch.
    pub fn all_stores(&self) -> impl Iterator<Item = &Store> {
        std::iter::once(&self.record_store).chain(&self.stores)
    }

    /// The id of the instance that an index key of a store concerns.
    pub fn id_of_key(&self, key: &str) -> Option<String> {
        match key.split_once(':')? {
            ("id", id) => Some(id.to_owned()),
            ("uid", _) => {
                let mut owners = self.stores.iter().flat_map(|store| store.by_index(key));
                owners.find_map(|object| instance_of(&object).map(str::to_owned))
            }
            _ => None,
        }
    }

    /// The record of an id, as memory has it.
    pub fn find(&self, id: &str) -> Option<Known> {
        self.record_store.by_index(&id_key(id)).iter().find_map(|object| self.known(object))
    }

    /// Every record of which exactly this is the name.
    pub fn find_by_name(&self, name: &str) -> Vec<Known> {
        let found = self.record_store.by_index(&name_key(name));
        found.iter().filter_map(|object| self.known(object)).collect()
    }

    /// The record of an id, as the API server has it; it may be another provider's.
    pub async fn find_live(&self, id: &str) -> Result<Option<Known>, Refusal> {
        let Some(stored) = self.records.read(&self.record_name(id)).await? else { return Ok(None) };
        self.remember(&stored);
        Ok(parse(&stored).filter(|known| known.record.id == id))
    }

    /// The record of an id, as the API server has it, if it is ours.
    pub async fn find_own_live(&self, id: &str) -> Result<Option<Known>, Refusal> {
        Ok(self.find_live(id).await?.filter(|known| known.record.provider == self.name))
    }

    /// Ids in their order, after one that need not exist any more.
    pub fn ids_after(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let mut ids = Vec::new();
        let mut last = after.map_or_else(|| id_key(""), id_key);
        while ids.len() < limit {
            let keys = self.record_store.index_keys_after(Some(&last), limit);
            let found = ids.len();
            ids.extend(keys.iter().filter_map(|key| key.strip_prefix("id:")).map(str::to_owned));
            match keys.last() {
                // Keys are sorted, so the first of another prefix ends the ids.
                Some(key) if ids.len() > found && key.starts_with("id:") => last.clone_from(key),
                _ => break,
            }
        }
        ids.truncate(limit);
        ids
    }

    /// Puts a record into memory, as a write answered it.
    pub fn remember(&self, stored: &Stored) {
        self.record_store.insert(self.records.object(stored));
    }

    pub fn forget(&self, stored: &Stored) {
        self.record_store.remove(&ObjectKey::new(self.namespace.as_str(), stored.name.as_str()), &stored.uid);
    }

    /// Puts an object into memory, as a write answered it.
    pub fn saw(&self, kind: &KindRef, object: &Value) {
        for (watch, store) in self.service.watches.iter().zip(&self.stores) {
            if watch.kind == *kind && watch.matching == Match::Label {
                store.insert(object.clone());
            }
        }
    }

    pub fn saw_gone(&self, kind: &KindRef, name: &str, uid: &str) {
        for (watch, store) in self.service.watches.iter().zip(&self.stores) {
            if watch.kind == *kind {
                store.remove(&ObjectKey::new(self.namespace.as_str(), name), uid);
            }
        }
    }

    fn known(&self, object: &Value) -> Option<Known> {
        let stored = stored(object).ok()?;
        parse(&stored).filter(|known| known.record.provider == self.name)
    }

    /// The instance of a record, with everything that memory holds of it.
    pub fn instance(&self, known: Known) -> Instance {
        let identity = self.identity(&known.record.id, known.record.life);
        let inputs = Inputs {
            spec: known.record.spec.clone(),
            settings: self.settings.clone(),
            observed: self.observed(&identity),
            previous: self.last_delivered(&known.record.id),
            ..Inputs::default()
        };
        Instance { known, identity, inputs }
    }

    /// The objects of one life, for each watch.
    pub fn observed(&self, identity: &Identity) -> Vec<Vec<Arc<Value>>> {
        let mut observed: Vec<Vec<Arc<Value>>> = Vec::new();
        for (watch, store) in self.service.watches.iter().zip(&self.stores) {
            if watch.matching == Match::Label {
                let objects = store.by_index(&id_key(&identity.id));
                observed.push(
                    objects.into_iter().filter(|object| self.is_of(object, identity)).map(Arc::new).collect(),
                );
            } else {
                observed.push(Vec::new());
            }
        }
        let uids: Vec<String> = observed.iter().flatten().map(|object| uid_key(uid_of(object))).collect();
        for ((watch, store), slot) in self.service.watches.iter().zip(&self.stores).zip(&mut observed) {
            if watch.matching == Match::InvolvedObject {
                *slot = uids.iter().flat_map(|uid| store.by_index(uid)).map(Arc::new).collect();
            }
        }
        observed
    }

    /// Another provider's object, or one of a former life, is no part of this instance.
    fn is_of(&self, object: &Value, identity: &Identity) -> bool {
        annotation(object, PROVIDER_ANNOTATION).is_none_or(|name| name == self.name)
            && annotation(object, LIFE_ANNOTATION).is_none_or(|life| life == identity.life.to_string())
    }

    /// Whether an object is the one that the plan of an instance names. Where a caller chooses names, another
    /// instance of ours may have it: so the id counts as well.
    pub fn is_planned(&self, object: &Value, id: &str, planned: &PlannedObject) -> bool {
        name_of(object) == planned.name
            && instance_of(object) == Some(id)
            && annotation(object, PROVIDER_ANNOTATION) == Some(self.name.as_str())
            && annotation(object, LIFE_ANNOTATION) == Some(planned.life.to_string().as_str())
    }

    /// Whether memory still holds a root object of the record's lives.
    pub fn roots_left(&self, record: &InstanceRecord) -> bool {
        record.all_planned().filter(|planned| planned.root).any(|planned| {
            let kind = KindRef { api_version: planned.api_version.clone(), kind: planned.kind.clone() };
            let key = ObjectKey::new(self.namespace.as_str(), planned.name.as_str());
            let stores = self.service.watches.iter().zip(&self.stores);
            let mut found =
                stores.filter(|(watch, _)| watch.kind == kind).filter_map(|(_, store)| store.get(&key));
            found.any(|object| self.is_planned(&object, &record.id, planned))
        })
    }

    /// Whether REST shows the instance: it has answered 201, and is not gone.
    pub fn is_visible(&self, record: &InstanceRecord) -> bool {
        match record.state {
            State::Ready => true,
            State::Creating => self.answered().get(&record.id) == Some(&record.life),
            State::Deleting => self.roots_left(record),
            State::Tombstone => false,
        }
    }

    /// The create of this life has answered: it is visible before its record says so.
    pub fn has_answered(&self, id: &str, life: u64) {
        self.answered().insert(id.to_owned(), life);
    }

    pub fn record_says_so(&self, id: &str) {
        self.answered().remove(id);
    }

    fn answered(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the status table says of an instance. While it is being deleted, and the table has no word for
    /// that, the previous status stands.
    pub fn observe(&self, instance: &Instance) -> Result<Observation, EvalError> {
        let seen = self.service.observe(&instance.identity, &instance.inputs)?;
        let deleting = instance.known.record.state == State::Deleting;
        if !deleting || self.service.status.deleting.as_ref() == Some(&seen.status) {
            return Ok(seen);
        }
        let status = match &self.service.status.deleting {
            Some(word) => word.clone(),
            None => instance.inputs.previous.as_ref().map_or(seen.status, |previous| previous.status.clone()),
        };
        let kept = self.service.status.deleting.is_none();
        Ok(Observation {
            status,
            message: "is being deleted".to_owned(),
            rule: "being deleted".to_owned(),
            kept,
        })
    }

    pub fn last_delivered(&self, id: &str) -> Option<Previous> {
        self.delivered.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Takes note of a delivery; the end of a life leaves nothing that a next one could keep.
    pub fn note_delivered(&self, id: &str, previous: Option<Previous>) {
        let mut delivered = self.delivered.write().unwrap_or_else(PoisonError::into_inner);
        match previous {
            Some(previous) => delivered.insert(id.to_owned(), previous),
            None => delivered.remove(id),
        };
    }

    /// Writes a record under the version that was read; memory learns of it.
    pub async fn update_record(&self, known: &Known, record: InstanceRecord) -> Result<Known, Refusal> {
        let Stored { name, resource_version, .. } = &known.stored;
        let stored = self.records.update(name, resource_version, &record.to_json()).await?;
        self.remember(&stored);
        Ok(Known { record, stored })
    }

    /// Whether this is the key of one of the provider's watches.
    pub fn watches(&self, key: &WatchKey) -> bool {
        self.records.key() == *key || keys(&self.service, &self.namespace).any(|own| own == *key)
    }

    pub async fn resource(&self, kind: &KindRef) -> Result<Arc<Resource>, Refusal> {
        self.cluster.resource(&resource_ref(kind)).await
    }
}

/// The keys of a mapping's watches, in its order.
fn keys<'s>(service: &'s Service, namespace: &'s str) -> impl Iterator<Item = WatchKey> + use<'s> {
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

fn parse(stored: &Stored) -> Option<Known> {
    match InstanceRecord::from_json(&stored.value) {
        Ok(record) => Some(Known { record, stored: stored.clone() }),
        Err(error) => {
            tracing::warn!(record = stored.name, %error, "a record cannot be read");
            None
        }
    }
}

/// The present moment as records keep it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub fn resource_ref(kind: &KindRef) -> ResourceRef {
    ResourceRef::new(kind.api_version.clone(), kind.kind.clone())
}

/// Labels that a record carries: people find it by them, the program by its name.
pub fn record_labels(service: &Service, id: &str) -> BTreeMap<String, String> {
    service
        .labels(id)
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())))
        .collect()
}

fn prune(watch: &WatchRule) -> Prune {
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
