//! From a spec to manifests: templates, and what the engine itself adds to every object.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use crate::coverage::Point;
use crate::expression::EvalError;
use crate::inputs::{Identity, Inputs, LIFE_ANNOTATION, OBJECT_ANNOTATION, PROVIDER_ANNOTATION};
use crate::json::unescape;
use crate::names::{NameSeed, generated};
use crate::service::{KindRef, ObjectRule, Service};

/// One object to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object's name within the mapping.
    pub object: String,
    pub kind: KindRef,
    /// The name in the cluster.
    pub name: String,
    /// Whether another name may be taken where this one is in use.
    pub renamable: bool,
    pub root: bool,
    pub owned_by: Option<String>,
    pub body: Json,
}

impl Service {
    /// Renders the objects of an instance, in the mapping's order. `attempt` picks the next candidate of
    /// every generated name.
    pub fn render(
        &self,
        identity: &Identity,
        inputs: &Inputs,
        attempt: u32,
    ) -> Result<Vec<Manifest>, EvalError> {
        let scope = self.scope(identity, inputs)?;
        let mut manifests = Vec::new();
        for (index, rule) in self.objects.iter().enumerate() {
            let made = match &rule.when {
                Some(when) => self.program.holds(when, &scope)?,
                None => true,
            };
            scope.mark(|| Point::Object(index), made);
            if !made {
                continue;
            }
            let body = rule.template.render(&scope)?;
            manifests.push(self.manifest(rule, identity, body, attempt));
        }
        Ok(manifests)
    }

    pub(crate) fn manifest(
        &self,
        rule: &ObjectRule,
        identity: &Identity,
        mut body: Json,
        attempt: u32,
    ) -> Manifest {
        let seed = NameSeed { instance: &identity.id, life: identity.life, object: &rule.name, attempt };
        let (name, renamable) = self.complete(&mut body, identity, &rule.name, seed);
        Manifest {
            object: rule.name.clone(),
            kind: rule.kind.clone(),
            name,
            renamable,
            root: rule.root,
            owned_by: rule.owned_by.clone(),
            body,
        }
    }

    /// Adds what a mapping cannot forget: namespace, labels, annotations and the name.
    fn complete(
        &self,
        body: &mut Json,
        identity: &Identity,
        object: &str,
        seed: NameSeed<'_>,
    ) -> (String, bool) {
        let metadata = member(body, "metadata");
        metadata.insert("namespace".to_owned(), identity.namespace.as_str().into());
        let given = metadata.get("name").and_then(Json::as_str).map(str::to_owned);
        let prefix = metadata.get("generateName").and_then(Json::as_str);
        let (name, renamable) = match (given, prefix) {
            (Some(name), _) => (name, false),
            (None, prefix) => (generated(prefix.unwrap_or(object), seed), true),
        };
        metadata.insert("name".to_owned(), name.as_str().into());
        lay(inner(metadata, "labels", Map::new), self.label_pairs(&identity.id));
        let life = identity.life.to_string();
        let annotations = [
            (PROVIDER_ANNOTATION, identity.provider.as_str()),
            (LIFE_ANNOTATION, life.as_str()),
            (OBJECT_ANNOTATION, object),
        ];
        lay(inner(metadata, "annotations", || ANNOTATIONS.clone()), annotations);
        (name, renamable)
    }

    /// The merge patches of an update, each with the position of its object.
    pub fn patches(&self, identity: &Identity, inputs: &Inputs) -> Result<Vec<(usize, Json)>, EvalError> {
        let Some(update) = &self.update else {
            return Ok(Vec::new());
        };
        let scope = self.scope(identity, inputs)?;
        update.patches.iter().map(|(index, template)| Ok((*index, template.render(&scope)?))).collect()
    }

    /// The spec after an update: the same document with the values that the mapping sets.
    pub fn updated_spec(&self, identity: &Identity, inputs: &Inputs) -> Result<Json, EvalError> {
        let Some(update) = &self.update else {
            return Ok(inputs.spec.clone());
        };
        let scope = self.scope(identity, inputs)?;
        let mut spec = inputs.spec.clone();
        for (pointer, expression) in &update.set {
            let value = self.program.eval(expression, &scope)?;
            let value = crate::value::to_json(&value)
                .map_err(|message| EvalError::new(message, &expression.place))?;
            if let Some(value) = value {
                put(&mut spec, pointer, value);
            }
        }
        Ok(spec)
    }
}

/// Puts a value at a place. Members of maps that are not there yet are added; items of lists are not.
fn put(document: &mut Json, pointer: &str, value: Json) {
    let mut here = document;
    for key in pointer.split('/').skip(1).map(unescape) {
        let inner = match here {
            Json::Array(items) => key.parse().ok().and_then(|at: usize| items.get_mut(at)),
            Json::Object(members) => Some(members.entry(key).or_insert(Json::Null)),
            Json::Null => {
                *here = Json::Object(Map::new());
                here.as_object_mut().map(|members| members.entry(key).or_insert(Json::Null))
            }
            _ => None,
        };
        let Some(inner) = inner else { return };
        here = inner;
    }
    *here = value;
}

/// The engine's annotations without their values: a copy needs no hash of a key.
static ANNOTATIONS: LazyLock<Map<String, Json>> = LazyLock::new(|| {
    let keys = [PROVIDER_ANNOTATION, LIFE_ANNOTATION, OBJECT_ANNOTATION];
    keys.into_iter().map(|key| (key.to_owned(), Json::Null)).collect()
});

/// Sets members that are texts. Looking through so few is quicker than hashing.
fn lay(map: &mut Map<String, Json>, members: [(&str, &str); 3]) {
    for (key, value) in members {
        match map.iter_mut().find(|(name, _)| *name == key) {
            Some((_, slot)) if slot.as_str() == Some(value) => {}
            Some((_, slot)) => *slot = value.into(),
            None => drop(map.insert(key.to_owned(), value.into())),
        }
    }
}

fn member<'v>(value: &'v mut Json, key: &str) -> &'v mut Map<String, Json> {
    if !value.is_object() {
        *value = Json::Object(Map::new());
    }
    match value {
        Json::Object(map) => inner(map, key, Map::new),
        _ => unreachable!("made an object above"),
    }
}

fn inner<'v>(
    map: &'v mut Map<String, Json>,
    key: &str,
    fresh: fn() -> Map<String, Json>,
) -> &'v mut Map<String, Json> {
    let slot = map.entry(key).or_insert_with(|| Json::Object(fresh()));
    if !slot.is_object() {
        *slot = Json::Object(Map::new());
    }
    match slot {
        Json::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}
