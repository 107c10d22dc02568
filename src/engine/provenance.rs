//! Where each field of an object, a view or a patch comes from, and back again: from the API server's words
//! about a field to the caller's own.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::Value as Json;

use crate::expression::{EvalError, Expression, Place};
use crate::inputs::{Identity, Inputs};
use crate::json::{child, unescape};
use crate::manifest::Manifest;
use crate::problem::Fault;
use crate::scope::Scope;
use crate::service::{ObjectRule, Service};
use crate::shape::Step;

/// One leaf of a rendered tree.
#[derive(Clone, Debug)]
pub struct Field {
    /// A JSON pointer from the root of the tree.
    pub pointer: String,
    /// None where the leaf is absent, and with it its key.
    pub value: Option<Json>,
    /// The template's line and its expression; none for what the engine itself adds.
    pub place: Option<Arc<Place>>,
    /// What the value was made from.
    pub inputs: Vec<Input>,
    /// What decided that the field is there, and how often.
    pub governed: Vec<Input>,
}

/// A place in a document that a mapping reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The variable: `spec`, `patch`, `settings`, `dcm`, or what is observed.
    pub root: String,
    /// A JSON pointer from there; a `*` stands for any item.
    pub pointer: String,
}

/// An object of an instance, and where its fields come from.
#[derive(Clone, Debug)]
pub struct TracedObject {
    /// The object's name within the mapping.
    pub object: String,
    /// The condition under which the object exists, and what it reads.
    pub condition: Option<(Arc<Place>, Vec<Input>)>,
    /// None where the condition leaves the object out.
    pub manifest: Option<Manifest>,
    pub fields: Vec<Field>,
}

/// A field of a manifest that the cluster refuses, in its own words.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'r> {
    /// The field as the API server names it: `spec.template.spec.containers[0].image`.
    pub field: &'r str,
    pub message: &'r str,
}

impl Service {
    /// Renders as [`Service::render`] does, with the origin of each field.
    pub fn trace(
        &self,
        identity: &Identity,
        inputs: &Inputs,
        attempt: u32,
    ) -> Result<Vec<TracedObject>, EvalError> {
        let scope = self.scope(identity, inputs)?;
        self.objects.iter().map(|rule| self.trace_object(rule, identity, &scope, attempt)).collect()
    }

    fn trace_object(
        &self,
        rule: &ObjectRule,
        identity: &Identity,
        scope: &Scope,
        attempt: u32,
    ) -> Result<TracedObject, EvalError> {
        let condition = rule.when.as_ref().map(|when| (when.place.clone(), static_inputs(when)));
        let mut traced =
            TracedObject { object: rule.name.clone(), condition, manifest: None, fields: Vec::new() };
        if let Some(when) = &rule.when
            && !self.program.holds(when, scope)?
        {
            return Ok(traced);
        }
        let (body, mut fields) = rule.template.trace(scope)?;
        let manifest = self.manifest(rule, identity, body, attempt);
        added(&manifest, &mut fields);
        traced.fields = fields;
        traced.manifest = Some(manifest);
        Ok(traced)
    }

    /// The patches of an update with the origin of each field, each with the name of its object.
    pub fn trace_patches(
        &self,
        identity: &Identity,
        inputs: &Inputs,
    ) -> Result<Vec<(String, Vec<Field>)>, EvalError> {
        let Some(update) = &self.update else { return Ok(Vec::new()) };
        let scope = self.scope(identity, inputs)?;
        let patches = update
            .patches
            .iter()
            .map(|(index, template)| Ok((self.objects[*index].name.clone(), template.trace(&scope)?.1)));
        patches.collect()
    }

    /// The fields that the view lays over the stored spec.
    pub fn trace_view(&self, identity: &Identity, inputs: &Inputs) -> Result<Vec<Field>, EvalError> {
        let Some(view) = &self.view else { return Ok(Vec::new()) };
        Ok(view.template.trace(&self.scope(identity, inputs)?)?.1)
    }
}

/// What the engine itself adds to a manifest: the name comes from what its prefix comes from.
fn added(manifest: &Manifest, fields: &mut Vec<Field>) {
    let known = |pointer: &str| fields.iter().find(|field| field.pointer == pointer);
    let prefix = known("/metadata/generateName").cloned();
    let mut engine = Vec::new();
    let mut add = |pointer: &str, inputs: Vec<Input>| {
        engine.push(Field {
            pointer: pointer.to_owned(),
            value: manifest.body.pointer(pointer).cloned(),
            place: None,
            inputs,
            governed: Vec::new(),
        });
    };
    add("/metadata/namespace", Vec::new());
    if known("/metadata/name").is_none_or(|field| field.value.is_none()) {
        add("/metadata/name", prefix.map(|field| field.inputs).unwrap_or_default());
    }
    for map in ["/metadata/labels", "/metadata/annotations"] {
        let members = manifest.body.pointer(map).and_then(Json::as_object);
        for key in members.into_iter().flatten().map(|(key, _)| key) {
            let pointer = child(map, key);
            let value = manifest.body.pointer(&pointer);
            // Where a template writes the same value, the template says more.
            if known(&pointer).is_none_or(|field| field.value.as_ref() != value) {
                add(&pointer, Vec::new());
            }
        }
    }
    fields.retain(|field| !engine.iter().any(|own| own.pointer == field.pointer));
    fields.extend(engine);
}

/// What an expression of the outermost scope reads.
pub fn static_inputs(expression: &Expression) -> Vec<Input> {
    inputs_of(expression.reads.iter().map(|read| {
        let keys = read.path.iter().map(|step| match step {
            Step::Key(key) => key.as_str(),
            Step::Any => "*",
        });
        let pointer = keys.fold(String::new(), |above, key| child(&above, key));
        Input { root: read.root.clone(), pointer }
    }))
}

/// Each input once, and none of which a part is named as well.
pub(crate) fn inputs_of(inputs: impl Iterator<Item = Input>) -> Vec<Input> {
    let mut kept: Vec<Input> = Vec::new();
    for input in inputs {
        if !kept.iter().any(|known| known.is_within(&input)) {
            kept.retain(|known| !input.is_within(known));
            kept.push(input);
        }
    }
    kept
}

impl Input {
    pub fn new(root: &str, pointer: &str) -> Self {
        Self { root: root.to_owned(), pointer: pointer.to_owned() }
    }

    /// Whether it is the other, or a part of it.
    fn is_within(&self, other: &Self) -> bool {
        self.root == other.root
            && self
                .pointer
                .strip_prefix(&other.pointer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether one of the two places is a part of the other; `*` is any item.
    pub fn touches(&self, root: &str, pointer: &str) -> bool {
        let tokens = self.pointer.split('/').zip(pointer.split('/'));
        self.root == root && tokens.into_iter().all(|(a, b)| a == b || a == "*" || b == "*")
    }

    /// What stands there in a scope.
    pub fn value(&self, scope: &Scope) -> Option<Value> {
        at(&scope.get(&self.root)?, &self.pointer)
    }
}

/// The caller's spec is a bare pointer; everything else is written as an expression writes it.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.root == "spec" {
            return f.write_str(if self.pointer.is_empty() { "/" } else { &self.pointer });
        }
        f.write_str(&self.root)?;
        for token in self.pointer.split('/').skip(1) {
            match token {
                "*" => f.write_str("[*]")?,
                _ if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) => {
                    write!(f, "[{token}]")?
                }
                _ => write!(f, ".{}", unescape(token))?,
            }
        }
        Ok(())
    }
}

/// What a pointer names in a value; nothing where it leads nowhere.
pub(crate) fn at(value: &Value, pointer: &str) -> Option<Value> {
    let mut here = value.clone();
    for token in pointer.split('/').skip(1) {
        here = match here.kind() {
            ValueKind::Seq => here.get_item_by_index(token.parse().ok()?).ok()?,
            ValueKind::Map => here.get_attr(&unescape(token)).ok()?,
            _ => return None,
        };
        if here.is_undefined() {
            return None;
        }
    }
    Some(here)
}

/// The faults of a request from those of a manifest. `root` is the variable that the caller sent, and
/// `body_root` its pointer in the body; a fault of which nothing was sent has no pointer.
pub fn faults(refused: &[Refused<'_>], fields: &[Field], root: &str, body_root: &str) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for cause in refused {
        let sent = sent_as(&pointer_of(cause.field), fields, root);
        let fault = match sent {
            Some(pointer) => Fault::at(
                format!("{body_root}{pointer}"),
                format!("the cluster refuses it: {}", cause.message),
            ),
            None => Fault {
                pointer: None,
                detail: format!("the cluster refuses {}: {}", cause.field, cause.message),
            },
        };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    faults
}

/// The one place of what was sent that a field of a manifest comes from: where there are several, what they
/// have in common.
fn sent_as(pointer: &str, fields: &[Field], root: &str) -> Option<String> {
    let below = |pointer: &str| -> Vec<&Field> {
        let wanted = Input::new("", pointer);
        fields.iter().filter(|field| Input::new("", &field.pointer).is_within(&wanted)).collect()
    };
    let mut made = below(pointer);
    if let (true, Some((parent, key))) = (made.is_empty(), pointer.rsplit_once('/')) {
        // Of a template's labels and annotations the API server speaks without their `metadata`.
        made = below(&format!("{parent}/metadata/{key}"));
    }
    let mut above = pointer;
    while made.is_empty() {
        above = above.rsplit_once('/')?.0;
        made = fields.iter().filter(|field| field.pointer == above).collect();
    }
    let sent = |inputs: &[Input]| -> Vec<String> {
        inputs.iter().filter(|input| input.root == root).map(|input| input.pointer.clone()).collect()
    };
    let mut pointers: Vec<String> = made.iter().flat_map(|field| sent(&field.inputs)).collect();
    if pointers.is_empty() {
        pointers = made.iter().flat_map(|field| sent(&field.governed)).collect();
    }
    let first = pointers.pop()?;
    let common = pointers.iter().fold(first, |common, pointer| {
        let tokens = common.split('/').zip(pointer.split('/'));
        let equal: Vec<&str> = tokens.take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
        equal.join("/")
    });
    let known: Vec<&str> = common.split('/').take_while(|token| *token != "*").collect();
    Some(known.join("/")).filter(|pointer| !pointer.is_empty())
}

/// The JSON pointer of a field as the API server names it, or as a person writes it.
pub fn pointer_of(field: &str) -> String {
    if field.is_empty() || field.starts_with('/') {
        return field.to_owned();
    }
    let mut pointer = String::new();
    let mut rest = field;
    while !rest.is_empty() {
        // A key in brackets may hold points: `metadata.labels[a.b/c]`.
        let (token, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        pointer = child(&pointer, token.trim_matches('"'));
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    pointer
}
