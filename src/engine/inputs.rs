//! What an evaluation is given: the instance, its spec, and what was observed of it.

use std::sync::{Arc, LazyLock};

use minijinja::Value;
use serde_json::{Map, Value as Json, json};

use crate::coverage::Trace;
use crate::expression::EvalError;
use crate::scope::Scope;
use crate::service::{Service, WatchRule};
use crate::value::{few, from_json, from_members};

pub const MANAGED_BY: &str = "dcm.project/managed-by";
pub const INSTANCE_ID: &str = "dcm.project/dcm-instance-id";
pub const SERVICE_TYPE: &str = "dcm.project/dcm-service-type";

/// The labels' keys and the names of variables, of which each scope holds a copy that allocates nothing.
static LABEL_KEYS: LazyLock<[Value; 3]> =
    LazyLock::new(|| [MANAGED_BY, INSTANCE_ID, SERVICE_TYPE].map(Value::from));
static ROOTS: LazyLock<[Arc<str>; 3]> = LazyLock::new(|| ["spec", "settings", "dcm"].map(Arc::from));

/// The annotations by which the provider knows its own objects.
pub const PROVIDER_ANNOTATION: &str = "mapwright.dcm.project/provider";
pub const LIFE_ANNOTATION: &str = "mapwright.dcm.project/life";
pub const OBJECT_ANNOTATION: &str = "mapwright.dcm.project/object";

/// One instance of a service type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub id: String,
    pub provider: String,
    pub namespace: String,
    /// Counts how often this id was created anew.
    pub life: u64,
}

/// Everything that an expression may read. What is not given is undefined.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub spec: Json,
    /// The spec that an update under way leaves behind: what it explains is no note of a status.
    pub coming: Option<Json>,
    pub patch: Option<Json>,
    pub settings: Map<String, Json>,
    /// For each watch, in the mapping's order, the objects of the instance.
    pub observed: Vec<Vec<Arc<Json>>>,
    /// Look-ups by their position; `None` while not fetched, null where there is no such object.
    pub lookups: Vec<Option<Json>>,
    pub previous: Option<Previous>,
    /// Where somebody asks which ways of the mapping are gone.
    pub trace: Option<Arc<Trace>>,
}

/// The status that was last said of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    pub status: String,
    pub message: String,
}

impl Service {
    pub fn labels(&self, id: &str) -> Map<String, Json> {
        self.label_pairs(id).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
    }

    pub(crate) fn label_pairs<'a>(&'a self, id: &'a str) -> [(&'static str, &'a str); 3] {
        [(MANAGED_BY, "dcm"), (INSTANCE_ID, id), (SERVICE_TYPE, self.service_type.as_str())]
    }

    /// What the variable `dcm` tells of an instance.
    fn dcm(&self, identity: &Identity) -> Value {
        let labels = LABEL_KEYS.iter().cloned();
        let labels = labels.zip(self.label_pairs(&identity.id).map(|(_, value)| Value::from(value)));
        few(vec![
            ("id".into(), identity.id.as_str().into()),
            ("provider".into(), identity.provider.as_str().into()),
            ("namespace".into(), identity.namespace.as_str().into()),
            ("service_type".into(), self.service_type.as_str().into()),
            ("collection".into(), self.collection.as_str().into()),
            ("labels".into(), few(labels.collect())),
        ])
    }

    /// The scope of every rule of this mapping for one instance.
    pub fn scope(&self, identity: &Identity, inputs: &Inputs) -> Result<Scope, EvalError> {
        let [spec, settings, dcm] = ROOTS.clone();
        let mut values: Vec<(Arc<str>, Value)> = vec![
            (spec, from_json(&inputs.spec)),
            (settings, from_members(&inputs.settings)),
            (dcm, self.dcm(identity)),
        ];
        if let Some(patch) = &inputs.patch {
            values.push(("patch".into(), from_json(patch)));
        }
        if let Some(previous) = &inputs.previous {
            let pair = json!({ "status": previous.status, "message": previous.message });
            values.push(("previous".into(), from_json(&pair)));
        }
        for (rule, found) in self.lookups.iter().zip(&inputs.lookups) {
            if let Some(found) = found {
                values.push((rule.name.as_str().into(), from_json(found)));
            }
        }
        for (watch, objects) in self.watches.iter().zip(&inputs.observed) {
            // A later watch may order its candidates by an earlier one.
            let so_far = Scope::root(self.program.clone(), self.lets.clone(), values.clone(), None);
            values.extend(representative(watch, objects, &so_far)?);
        }
        Ok(Scope::root(self.program.clone(), self.lets.clone(), values, inputs.trace.clone()))
    }
}

/// The object that speaks for the instance, and all of them.
fn representative(
    watch: &WatchRule,
    objects: &[Arc<Json>],
    scope: &Scope,
) -> Result<Vec<(Arc<str>, Value)>, EvalError> {
    let mut candidates = Vec::new();
    let mut all = Vec::new();
    for object in objects {
        let item = from_json(object);
        let inner = scope.with(vec![("item".into(), item.clone())]);
        all.push(item.clone());
        if let Some(filter) = &watch.filter
            && !scope.program().holds(filter, &inner)?
        {
            continue;
        }
        let keys: Result<Vec<Value>, EvalError> =
            watch.order.iter().map(|order| scope.program().eval(order, &inner)).collect();
        candidates.push((keys?, name_of(object).to_owned(), item));
    }
    // True before false and larger before smaller; names break ties, so that the choice repeats itself.
    candidates.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut values = Vec::new();
    if let Some((_, _, first)) = candidates.into_iter().next() {
        values.push((watch.name.as_str().into(), first));
    }
    if let Some(name) = &watch.all {
        values.push((name.as_str().into(), Value::from(all)));
    }
    Ok(values)
}

pub fn name_of(object: &Json) -> &str {
    object.pointer("/metadata/name").and_then(Json::as_str).unwrap_or_default()
}

pub fn uid_of(object: &Json) -> &str {
    object.pointer("/metadata/uid").and_then(Json::as_str).unwrap_or_default()
}

/// The id of the instance that an object's label names.
pub fn instance_of(object: &Json) -> Option<&str> {
    object.pointer("/metadata/labels")?.get(INSTANCE_ID)?.as_str()
}

pub fn annotation<'o>(object: &'o Json, key: &str) -> Option<&'o str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}
