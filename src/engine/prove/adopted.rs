//! There and back: what `[adopt]` reads from the objects of a spec must make the same objects again.

use serde_json::Value as Json;

use super::{Break, Trial, place_of, sentence};
use crate::expression::EvalError;
use crate::inputs::{Identity, Inputs};
use crate::json::child;
use crate::manifest::Manifest;
use crate::provenance::Field;
use crate::source::Span;
use crate::template::Template;

const CODE: &str = "lossy-adoption";

impl Trial<'_> {
    /// What is lost when an instance is known by its objects alone. `inputs` observe what was made.
    pub(super) fn adoption(
        &self,
        identity: &Identity,
        inputs: &Inputs,
        made: &[Manifest],
    ) -> Result<Option<Break>, EvalError> {
        let Some(adopt) = &self.service.adopt else { return Ok(None) };
        let seen = Inputs {
            settings: inputs.settings.clone(),
            observed: inputs.observed.clone(),
            ..Inputs::default()
        };
        let spec = adopt.render(&self.service.scope(identity, &seen)?)?;
        if let Some(fault) = self.service.schema.faults(&spec).into_iter().next() {
            let message = format!(
                "the objects of a valid spec give a spec that the schema refuses: {}",
                sentence(&fault.place, fault.detail())
            );
            return Ok(Some(lost(adopt, place_of(&adopt.tree, &fault.place), message)));
        }
        let again = Inputs { spec, observed: Vec::new(), lookups: inputs.lookups.clone(), ..seen };
        let again = self.service.render(identity, &again, 0)?;
        let Some((object, difference)) = first_difference(made, &again) else { return Ok(None) };
        let span = self.origin(adopt, identity, inputs, object, &difference)?;
        let message = format!("the spec that this reads from objects makes other objects: {difference}");
        Ok(Some(lost(adopt, span, message)))
    }

    /// Where the template of adoption writes what the field that differs was made of.
    fn origin(
        &self,
        adopt: &Template,
        identity: &Identity,
        inputs: &Inputs,
        object: &str,
        difference: &Difference,
    ) -> Result<Span, EvalError> {
        let traced = self.service.trace(identity, inputs, 0)?;
        let Some(traced) = traced.iter().find(|traced| traced.object == object) else {
            return Ok(place_of(&adopt.tree, ""));
        };
        let condition = traced.condition.iter().filter(|_| difference.pointer.is_empty());
        let below = |field: &&Field| field.pointer.starts_with(&difference.pointer);
        let mut read = condition
            .flat_map(|(_, inputs)| inputs)
            .chain(traced.fields.iter().filter(below).flat_map(|field| &field.inputs));
        let pointer = read.find(|input| input.root == "spec").map_or("", |input| &input.pointer);
        Ok(place_of(&adopt.tree, pointer))
    }
}

fn lost(adopt: &Template, span: Span, message: String) -> Break {
    Break { code: CODE, file: adopt.source.name.clone(), span, message }
}

/// A place at which two objects are not the same.
struct Difference {
    kind: String,
    pointer: String,
    was: Option<Json>,
    is: Option<Json>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = |value: &Option<Json>| value.as_ref().map_or("absent".to_owned(), Json::to_string);
        match self.pointer.as_str() {
            "" if self.is.is_none() => write!(f, "no {} is among them", self.kind),
            "" => write!(f, "a {} is among them that was not there", self.kind),
            pointer => write!(
                f,
                "{} {} is {}, and was {}",
                self.kind,
                pointer.trim_start_matches('/').replace('/', "."),
                said(&self.is),
                said(&self.was)
            ),
        }
    }
}

fn first_difference<'m>(made: &'m [Manifest], again: &'m [Manifest]) -> Option<(&'m str, Difference)> {
    let named = |all: &'m [Manifest], name: &str| all.iter().find(|manifest| manifest.object == name);
    let of = |manifest: &Manifest, pointer: String, was: Option<Json>, is: Option<Json>| Difference {
        kind: manifest.kind.kind.clone(),
        pointer,
        was,
        is,
    };
    for manifest in made {
        let Some(other) = named(again, &manifest.object) else {
            let gone = of(manifest, String::new(), Some(Json::Null), None);
            return Some((&manifest.object, gone));
        };
        let bodies = [manifest, other].map(but_for_a_made_name);
        if let Some((pointer, was, is)) = unlike(&bodies[0], &bodies[1], "") {
            return Some((&manifest.object, of(manifest, pointer, was, is)));
        }
    }
    let new = again.iter().find(|manifest| named(made, &manifest.object).is_none())?;
    Some((&new.object, of(new, String::new(), None, Some(Json::Null))))
}

/// What an object is, but for a name that was generated: that one stays whatever its prefix becomes.
fn but_for_a_made_name(manifest: &Manifest) -> Json {
    let mut body = manifest.body.clone();
    let metadata = body.get_mut("metadata").and_then(Json::as_object_mut);
    if let Some(metadata) = metadata.filter(|_| manifest.renamable) {
        metadata.shift_remove("generateName");
        metadata.shift_remove("name");
    }
    body
}

/// The first place at which two documents differ, and what stands there.
fn unlike(was: &Json, is: &Json, pointer: &str) -> Option<(String, Option<Json>, Option<Json>)> {
    match (was, is) {
        (Json::Object(before), Json::Object(after)) => {
            let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
            keys.map(|key| (child(pointer, key), before.get(key), after.get(key)))
                .find_map(|(pointer, was, is)| unlike_members(was, is, pointer))
        }
        (Json::Array(before), Json::Array(after)) => (0..before.len().max(after.len())).find_map(|index| {
            let pointer = child(pointer, &index.to_string());
            unlike_members(before.get(index), after.get(index), pointer)
        }),
        _ => (was != is).then(|| (pointer.to_owned(), Some(was.clone()), Some(is.clone()))),
    }
}

fn unlike_members(
    was: Option<&Json>,
    is: Option<&Json>,
    pointer: String,
) -> Option<(String, Option<Json>, Option<Json>)> {
    match (was, is) {
        (Some(was), Some(is)) => unlike(was, is, &pointer),
        (was, is) => (was.is_some() || is.is_some()).then(|| (pointer, was.cloned(), is.cloned())),
    }
}
