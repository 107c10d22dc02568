//! One service type at work: its mapping, its stores and its records.
//!
//! Reads are answered from memory: what the watches saw, with our own writes put in at once.
//!
//! A provider never changes: another revision of the mapping is another provider, with the same [`Memory`].
//! Whoever serves looks at [`InUse`] once for each piece of work, and ends it with what it got.

mod adopt;
mod finding;
mod objects;
mod watching;

pub use watching::prune;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, watch};

use crate::cluster::{
    Cluster, RecordStore, Refusal, Resource, ResourceRef, Store, Stored, WatchHealth, Watches,
};
use crate::engine::expression::EvalError;
use crate::engine::inputs::{Identity, Inputs, Previous};
use crate::engine::service::{KindRef, Service};
use crate::engine::status::Observation;
use crate::record::{InstanceRecord, State};

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
    /// Whether an idempotency key that can be an id is one, where no id is given.
    pub id_from_key: bool,
    /// Whether objects without a provider's name are taken for instances of this one.
    adopts: bool,
    record_store: Store,
    stores: Vec<Store>,
    /// They run for as long as somebody reads their stores.
    watches: Watches,
    memory: Arc<Memory>,
}

/// Ids that name something else below a collection.
pub const RESERVED: [&str; 1] = ["health"];

/// The provider of the revision in use.
pub type InUse = watch::Receiver<Arc<Provider>>;

/// What a provider knows that neither the cluster nor its mapping tells: the next revision goes on with it.
#[derive(Debug, Default)]
pub struct Memory {
    /// Lives whose create has answered while their record does not say so yet.
    answered: Mutex<HashMap<String, u64>>,
    /// What was last delivered of each instance: the status that stands where a rule keeps it.
    delivered: RwLock<HashMap<String, Previous>>,
    /// Who updates which instance, and who waits for that.
    turns: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// Ids of objects that are not adopted because nobody could ask for them.
    left_out: Mutex<HashSet<String>>,
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
    pub id_from_key: bool,
    pub adopts: bool,
    pub memory: Arc<Memory>,
}

/// A record, and where it stands in the cluster. An adopted instance has a record that was made up from its
/// objects and stands nowhere until the first write.
#[derive(Clone, Debug)]
pub struct Known {
    pub record: InstanceRecord,
    pub stored: Option<Stored>,
}

/// An instance with what was observed of it, ready for the mapping's rules.
pub struct Instance {
    pub known: Known,
    pub identity: Identity,
    pub inputs: Inputs,
}

impl Provider {
    pub fn identity(&self, id: &str, life: u64) -> Identity {
        Identity { id: id.to_owned(), provider: self.name.clone(), namespace: self.namespace.clone(), life }
    }

    /// The instance of a record, with everything that memory holds of it.
    pub fn instance(&self, known: Known) -> Instance {
        let identity = self.identity(&known.record.id, known.record.life);
        let observed = self.observed(&identity);
        // What an adopted instance was made from is read from the same moment as what it has become.
        let adopted = known.stored.is_none().then(|| self.spec_of(&identity, observed.clone())).flatten();
        let inputs = Inputs {
            spec: adopted.unwrap_or_else(|| known.record.spec.clone()),
            coming: known.record.pending.as_ref().map(|update| update.spec.clone()),
            settings: self.settings.clone(),
            observed,
            previous: self.last_delivered(&known.record.id),
            ..Inputs::default()
        };
        Instance { known, identity, inputs }
    }

    /// What the status table says of an instance. While it is being deleted, and the table has no word for
    /// that, the previous status stands.
    pub fn observe(&self, instance: &Instance) -> Result<Observation, EvalError> {
        let seen = self.service.observe(&instance.identity, &instance.inputs)?;
        let word = &self.service.status.deleting;
        let record = &instance.known.record;
        let deleting = record.state == State::Deleting || self.roots_end(record);
        if !deleting || seen.status == self.service.status.gone || word.as_ref() == Some(&seen.status) {
            return Ok(seen);
        }
        let status = match word {
            Some(word) => word.clone(),
            None => instance.inputs.previous.as_ref().map_or(seen.status, |previous| previous.status.clone()),
        };
        let (message, rule) = ("is being deleted".to_owned(), "being deleted".to_owned());
        Ok(Observation { status, message, rule, kept: word.is_none() })
    }

    /// What there is to say of an instance, also where a rule fails: then the previous status stands, and an
    /// instance of which nothing was said yet has its first status.
    pub fn standing(&self, instance: &Instance) -> Observation {
        let error = match self.observe(instance) {
            Ok(seen) => return seen,
            Err(error) => error,
        };
        tracing::error!(id = instance.identity.id, %error, "a status rule failed; the previous status stands");
        let (status, message) = match &instance.inputs.previous {
            Some(previous) => (previous.status.clone(), previous.message.clone()),
            None => (self.service.status.initial.clone(), "a rule of the mapping failed".to_owned()),
        };
        Observation { status, message, rule: String::new(), kept: true }
    }

    /// Whether REST shows the instance: it has answered 201, or may have, and is not gone.
    pub fn is_visible(&self, record: &InstanceRecord) -> bool {
        match record.state {
            State::Ready => true,
            State::Creating => self.answered().get(&record.id) == Some(&record.life) || self.is_whole(record),
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
        self.memory.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn to update an instance: of this process, one at a time does.
    pub async fn turn(&self, id: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.memory.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let present = turns.get(id).and_then(Weak::upgrade);
            present.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(id.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }

    pub fn last_delivered(&self, id: &str) -> Option<Previous> {
        self.memory.delivered.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Takes note of a delivery; the end of a life leaves nothing that a next one could keep.
    pub fn note_delivered(&self, id: &str, previous: Option<Previous>) {
        let mut delivered = self.memory.delivered.write().unwrap_or_else(PoisonError::into_inner);
        match previous {
            Some(previous) => delivered.insert(id.to_owned(), previous),
            None => delivered.remove(id),
        };
    }

    /// Waits until every store has seen a complete list, so that an absence means something.
    pub async fn wait_synced(&self) {
        for store in self.all_stores() {
            store.wait_synced().await;
        }
    }

    /// The stores in whose changes the monitor is interested: the records, then one for each watch.
    pub fn all_stores(&self) -> impl Iterator<Item = &Store> {
        std::iter::once(&self.record_store).chain(&self.stores)
    }

    pub fn watch_health(&self) -> Vec<WatchHealth> {
        self.watches.health()
    }

    /// What the provider of another revision goes on with.
    pub fn memory(&self) -> Arc<Memory> {
        self.memory.clone()
    }

    pub async fn resource(&self, kind: &KindRef) -> Result<Arc<Resource>, Refusal> {
        self.cluster.resource(&resource_ref(kind)).await
    }
}

/// The present moment as records keep it.
pub fn now() -> String {
    crate::clock::now_in_seconds()
}

pub fn resource_ref(kind: &KindRef) -> ResourceRef {
    ResourceRef::new(kind.api_version.clone(), kind.kind.clone())
}

/// Labels that a record carries: people find it by them, the program by its name.
fn record_labels(service: &Service, id: &str) -> BTreeMap<String, String> {
    service
        .labels(id)
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())))
        .collect()
}
