//! The instance record: what makes an id ours, across replicas, restarts and half-done work.
//!
//! The document of one instance, and the decisions that follow from finding one already there. Pure: the
//! clock is an argument, and where records are kept is the business of others.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::json::{depth, read_kept};
use crate::engine::service::KindRef;

/// The label that marks a record, with the service type as its value.
pub const MARKER: &str = "mapwright.dcm.project/record";

/// One instance, as its record tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceRecord {
    pub id: String,
    pub service_type: String,
    pub provider: String,
    /// Counts how often this id was created anew.
    pub life: u64,
    pub state: State,
    /// Whose create this is: a reply that got lost is recognised by it.
    pub claim: String,
    /// The mapping under which it was created or last updated.
    pub revision: String,
    pub create_time: String,
    /// The spec exactly as the caller sent it.
    #[serde(with = "sent")]
    pub spec: Value,
    /// Every object of this life, written before any of them is made.
    pub plan: Vec<PlannedObject>,
    /// Objects of former lives that may still be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old: Vec<PlannedObject>,
    /// Requests that carried an idempotency key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyUse>,
    /// An update under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// The life whose end has not been delivered as an event yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed_end: Option<u64>,
    /// When the last life ended; set in a tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its objects are being made.
    Creating,
    /// It answered 201.
    Ready,
    /// It is wanted no more; objects may be left.
    Deleting,
    /// Nothing is left but the memory: keys, and an end that may be owed.
    Tombstone,
}

/// One object that an instance is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedObject {
    /// Its name within the mapping.
    pub object: String,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub life: u64,
    /// While a root is there, so is the instance.
    pub root: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// An update that has passed its checks and may not have reached every object yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// What the caller sent: the patches of objects are made from it again if the process dies.
    #[serde(with = "sent")]
    pub patch: Value,
    /// The spec that it leaves behind.
    #[serde(with = "sent")]
    pub spec: Value,
    /// The key that it came with: a repeat waits for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyUse>,
}

impl PlannedObject {
    pub fn kind_ref(&self) -> KindRef {
        KindRef { api_version: self.api_version.clone(), kind: self.kind.clone() }
    }
}

/// One use of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    pub key: String,
    pub method: Method,
    /// A digest of the body that came with it.
    pub digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Create,
    Update,
    Delete,
}

/// What a create finds when its id is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its own, or a repeat of the one that succeeded: the same answer again.
    Replay,
    /// The first of two equal requests is under way.
    Wait,
    /// The key came with another body before.
    KeyReused,
    /// Somebody else's instance.
    Taken,
    /// The former life is not over yet.
    BeingDeleted,
    /// The former life is over: the next one begins.
    NewLife { life: u64 },
}

/// Who asks for an id.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub provider: &'a str,
    pub claim: &'a str,
    pub key: Option<&'a str>,
    pub digest: &'a str,
}

impl InstanceRecord {
    /// What a create may do where this record is found. `roots_left` says whether a root of the former
    /// life is still there, and is read only where the record is being deleted.
    pub fn claimed_by(&self, claimant: Claimant<'_>, roots_left: bool) -> Claim {
        if self.provider != claimant.provider {
            return Claim::Taken;
        }
        if self.claim == claimant.claim {
            return Claim::Replay;
        }
        // A key keeps its answer for as long as the record is kept, also after the end of the instance.
        match (self.key_use(claimant.key, Method::Create), self.state) {
            (Some(used), _) if used.digest != claimant.digest => return Claim::KeyReused,
            (Some(_), State::Creating) => return Claim::Wait,
            (Some(_), _) => return Claim::Replay,
            (None, _) => {}
        }
        match self.state {
            State::Creating | State::Ready if seeded!("claim-ignored") => Claim::Replay,
            State::Creating | State::Ready => Claim::Taken,
            State::Deleting if roots_left => Claim::BeingDeleted,
            State::Deleting | State::Tombstone => Claim::NewLife { life: self.life + 1 },
        }
    }

    pub fn key_use(&self, key: Option<&str>, method: Method) -> Option<&KeyUse> {
        let key = key.filter(|_| !seeded!("keys-ignored"))?;
        self.keys.iter().find(|used| used.key == key && used.method == method)
    }

    pub fn use_key(&mut self, key: Option<&str>, method: Method, digest: &str) {
        if let Some(key) = key
            && self.key_use(Some(key), method).is_none()
        {
            self.keys.push(KeyUse { key: key.to_owned(), method, digest: digest.to_owned() });
        }
    }

    /// Ends the update under way; one that is done leaves its spec behind, and its key is used.
    pub fn end_update(&mut self, done: bool) {
        if let Some(update) = self.pending.take().filter(|_| done) {
            self.spec = update.spec;
            if let Some(KeyUse { key, method, digest }) = &update.key {
                self.use_key(Some(key), *method, digest);
            }
        }
    }

    /// The document, as it is stored.
    pub fn to_json(&self) -> Value {
        // Plain data: strings, numbers, lists and maps with string keys always serialise.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub fn from_json(value: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(value)
    }

    /// The name by which a caller may know the instance beside its id.
    pub fn name(&self) -> Option<&str> {
        self.spec.pointer("/metadata/name")?.as_str()
    }

    /// Whether something is left to be done about it, by whoever comes by.
    pub fn is_unfinished(&self) -> bool {
        self.state != State::Ready
            || self.owed_end.is_some()
            || self.pending.is_some()
            || !self.old.is_empty()
    }

    /// Every object that may be there, of this life and of former ones.
    pub fn all_planned(&self) -> impl Iterator<Item = &PlannedObject> {
        self.plan.iter().chain(&self.old)
    }
}

/// What a caller sent, inside the record.
///
/// Readers of JSON give up at about 128 levels, serde_json among them, and a caller may send as many. What
/// comes near is kept as its text: the record itself stays flat, and can always be read.
mod sent {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Value, depth, read_kept};

    const DEEPEST: usize = 64;

    pub(super) fn serialize<S: Serializer>(sent: &Value, serializer: S) -> Result<S::Ok, S::Error> {
        match depth(sent) > DEEPEST {
            true => serializer.serialize_str(&sent.to_string()),
            false => sent.serialize(serializer),
        }
    }

    /// No spec and no patch is a string, so a string is the text of one.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => read_kept(&text).map_err(|problem| D::Error::custom(problem.detail)),
            sent => Ok(sent),
        }
    }
}
