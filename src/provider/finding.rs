//! Instances by id, by name and in their order; and the writes of their records.

use std::collections::{BTreeMap, BTreeSet};

use super::watching::{UNFINISHED, id_key, name_key};
use super::{Known, Provider, record_labels};
use crate::cluster::record::stored;
use crate::cluster::{ObjectKey, Preconditions, Refusal, Store, Stored};
use crate::engine::inputs::instance_of;
use crate::engine::names;
use crate::record::InstanceRecord;
use serde_json::Value;

impl Provider {
    fn record_name(&self, id: &str) -> String {
        names::record(&self.service.service_type, id)
    }

    /// The instance of an id, as memory has it.
    pub fn find(&self, id: &str) -> Option<Known> {
        let records = self.record_store.by_index(&id_key(id));
        records.iter().find_map(|object| self.known(object)).or_else(|| self.adopted(id))
    }

    /// Every instance of which exactly this is the name.
    pub fn find_by_name(&self, name: &str) -> Vec<Known> {
        let found = self.record_store.by_index(&name_key(name));
        found.iter().filter_map(|object| self.known(object)).collect()
    }

    /// Instances about which something is left to be done.
    pub fn unfinished(&self) -> Vec<Known> {
        self.record_store.by_index(UNFINISHED).iter().filter_map(|object| self.known(object)).collect()
    }

    /// The instance of an id, as the API server has its record. Of another provider's there is none.
    pub async fn find_live(&self, id: &str) -> Result<Option<Known>, Refusal> {
        let live = self.claimed_live(id).await?;
        Ok(live.filter(|known| known.record.provider == self.name).or_else(|| self.adopted(id)))
    }

    /// The record of an id, whoever has it.
    pub async fn claimed_live(&self, id: &str) -> Result<Option<Known>, Refusal> {
        let Some(stored) = self.records.read(&self.record_name(id)).await? else { return Ok(None) };
        self.remember(&stored);
        Ok(parse(&stored).filter(|known| known.record.id == id))
    }

    /// Ids in their order, after one that need not exist any more. Of one of them there may be no instance.
    pub fn ids_after(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let mut ids: BTreeSet<String> = ids_of(&self.record_store, after, limit).into_iter().collect();
        for store in self.adopted_stores() {
            ids.extend(ids_of(store, after, limit));
        }
        ids.into_iter().take(limit).collect()
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

    pub async fn create_record(&self, record: InstanceRecord) -> Result<Known, Refusal> {
        let labels = record_labels(&self.service, &record.id);
        let name = self.record_name(&record.id);
        let stored = self.records.create(&name, &labels, &BTreeMap::new(), &record.to_json()).await?;
        self.remember(&stored);
        Ok(Known { record, stored: Some(stored) })
    }

    /// Writes a record under the version that was read; memory learns of it. The first write of an adopted
    /// instance creates its record.
    pub async fn update_record(&self, known: &Known, record: InstanceRecord) -> Result<Known, Refusal> {
        let Some(Stored { name, resource_version, .. }) = &known.stored else {
            return self.create_record(record).await;
        };
        let stored = self.records.update(name, resource_version, &record.to_json()).await?;
        self.remember(&stored);
        Ok(Known { record, stored: Some(stored) })
    }

    /// Deletes a record, if nobody has changed it since it was read.
    pub async fn drop_record(&self, known: &Known) -> Result<(), Refusal> {
        let Some(stored) = &known.stored else { return Ok(()) };
        let version =
            Preconditions { uid: Some(&stored.uid), resource_version: Some(&stored.resource_version) };
        self.records.delete(&stored.name, version).await?;
        let key = ObjectKey::new(self.namespace.as_str(), stored.name.as_str());
        self.record_store.remove(&key, &stored.uid);
        Ok(())
    }

    /// Puts a record into memory, as a write answered it.
    fn remember(&self, stored: &Stored) {
        self.record_store.insert(self.records.object(stored));
    }

    fn known(&self, object: &Value) -> Option<Known> {
        let stored = stored(object).ok()?;
        parse(&stored).filter(|known| known.record.provider == self.name)
    }
}

fn parse(stored: &Stored) -> Option<Known> {
    match InstanceRecord::from_json(&stored.value) {
        Ok(record) => Some(Known { record, stored: Some(stored.clone()) }),
        Err(error) => {
            tracing::warn!(record = stored.name, %error, "a record cannot be read");
            None
        }
    }
}

/// The ids that a store knows, in their order. Its keys are sorted, so ids stand together.
fn ids_of(store: &Store, after: Option<&str>, limit: usize) -> Vec<String> {
    let from = id_key(after.unwrap_or_default());
    let keys = store.index_keys_after(Some(&from), limit);
    keys.iter().map_while(|key| key.strip_prefix("id:")).map(str::to_owned).collect()
}
