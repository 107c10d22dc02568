//! Objects without a record: instances that another program made, or whose record somebody deleted.
//!
//! Their record is made up from what is observed, with the mapping's `[adopt]` as the way back from objects
//! to a spec. It is written down at the first change, and not before: reading changes nothing.

use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::watching::id_key;
use super::{Known, Provider, RESERVED};
use crate::cluster::Store;
use crate::engine::inputs::{
    Identity, Inputs, LIFE_ANNOTATION, PROVIDER_ANNOTATION, annotation, name_of, uid_of,
};
use crate::record::{InstanceRecord, PlannedObject, State};

/// The life of what was not made by us; ours are counted from one.
const ADOPTED_LIFE: u64 = 0;

impl Provider {
    /// The instance that objects without a record make up; none without a root among them.
    pub(super) fn adopted(&self, id: &str) -> Option<Known> {
        if !self.adopts || !self.record_store.synced() {
            return None;
        }
        let roots = self.adopted_stores().flat_map(|store| store.by_index(&id_key(id)));
        let life = roots.filter(|root| self.may_adopt(root)).map(|root| life_of(&root)).max()?;
        if RESERVED.contains(&id) {
            self.leave_out(id);
            return None;
        }
        let identity = self.identity(id, life);
        let observed = self.observed(&identity);
        let plan = self.plan_of(&observed, life);
        let root = plan.iter().find(|planned| planned.root)?;
        let created = observed.iter().flatten().find(|object| root.uid.as_deref() == Some(uid_of(object)))?;
        let create_time = created.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        let create_time = create_time.unwrap_or_default().to_owned();
        let spec = self.spec_of(&identity, observed)?;
        let record = InstanceRecord {
            id: id.to_owned(),
            service_type: self.service.service_type.clone(),
            provider: self.name.clone(),
            life,
            state: State::Ready,
            claim: String::new(),
            revision: self.service.revision.clone(),
            create_time,
            spec,
            plan,
            old: Vec::new(),
            keys: Vec::new(),
            pending: None,
            owed_end: None,
            end_time: None,
        };
        Some(Known { record, stored: None })
    }

    /// What no path leads to is not shown in lists either. It is looked at again and again, and told once.
    fn leave_out(&self, id: &str) {
        let mut told = self.memory.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(id.to_owned()) {
            let service_type = &self.service.service_type;
            tracing::warn!(
                id,
                service_type,
                "objects are not adopted: their id is reserved; label them anew"
            );
        }
    }

    /// The spec that objects show; none where the mapping has no way back, or cannot read them.
    pub(super) fn spec_of(&self, identity: &Identity, observed: Vec<Vec<Arc<Value>>>) -> Option<Value> {
        let adopt = self.service.adopt.as_ref()?;
        let inputs = Inputs { settings: self.settings.clone(), observed, ..Inputs::default() };
        let scope = self.service.scope(identity, &inputs);
        let spec = scope.and_then(|scope| adopt.render(&scope));
        spec.inspect_err(|error| tracing::error!(id = identity.id, %error, "an instance cannot be adopted"))
            .ok()
    }

    /// The observed objects of kinds that the mapping makes.
    fn plan_of(&self, observed: &[Vec<Arc<Value>>], life: u64) -> Vec<PlannedObject> {
        let mut plan: Vec<PlannedObject> = Vec::new();
        for ((watch, _), objects) in self.watched().zip(observed) {
            let Some(rule) = self.service.objects.iter().find(|rule| rule.kind == watch.kind) else {
                continue;
            };
            for object in objects {
                plan.push(PlannedObject {
                    object: rule.name.clone(),
                    api_version: rule.kind.api_version.clone(),
                    kind: rule.kind.kind.clone(),
                    name: name_of(object).to_owned(),
                    life,
                    root: rule.root,
                    uid: Some(uid_of(object).to_owned()),
                });
            }
        }
        plan
    }

    /// The stores whose ids may be those of adopted instances: of the kinds of roots.
    pub(super) fn adopted_stores(&self) -> impl Iterator<Item = &Store> {
        let roots = self.service.objects.iter().filter(|rule| rule.root && self.adopts);
        roots.flat_map(|rule| self.labelled(&rule.kind)).map(|(_, store)| store)
    }

    /// Objects of no provider are anybody's; those of another one are not ours.
    fn may_adopt(&self, object: &Value) -> bool {
        annotation(object, PROVIDER_ANNOTATION).is_none_or(|name| name == self.name)
            || seeded!("foreign-is-ours")
    }
}

fn life_of(object: &Value) -> u64 {
    annotation(object, LIFE_ANNOTATION).and_then(|life| life.parse().ok()).unwrap_or(ADOPTED_LIFE)
}
