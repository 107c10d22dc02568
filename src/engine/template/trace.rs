//! Where each leaf of a rendered tree comes from: looks on while a template is rendered.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::Value as Json;

use super::Each;
use super::render::{Of, Watch};
use crate::expression::{Expression, Leaf, Mixture, Place};
use crate::json::child;
use crate::provenance::{Field, Input, inputs_of};
use crate::reads::{Origin, Read};
use crate::scope::Scope;
use crate::shape::Step;

/// Collects the fields of a tree.
#[derive(Default)]
pub(super) struct Tracer {
    pub(super) fields: Vec<Field>,
    pointer: String,
    /// The lengths of the pointer above.
    above: Vec<usize>,
    loops: Vec<Loop>,
    /// What the loops and conditions around read.
    governing: Vec<Vec<Input>>,
}

/// A loop, and which item of the documents it is at.
struct Loop {
    lists: Vec<List>,
}

/// One of the lists that a loop's items may stand in.
struct List {
    root: String,
    path: Vec<Step>,
    /// The items of a list, or the keys of a map.
    items: Vec<Value>,
    keyed: bool,
    /// The position, or the key, of the present item.
    token: Option<String>,
    next: usize,
}

impl Tracer {
    /// The pointer of a path, with the present item of each loop around; `*` where it is not known.
    fn concrete(&self, root: &str, path: &[Step]) -> Input {
        let mut pointer = String::new();
        for (at, step) in path.iter().enumerate() {
            match step {
                Step::Key(key) => pointer = child(&pointer, key),
                Step::Any => {
                    let lists = self.loops.iter().rev().flat_map(|around| &around.lists);
                    let mut here = lists.filter(|list| list.root == root && list.path[..] == path[..at]);
                    let token = here.find_map(|list| list.token.as_deref());
                    pointer = child(&pointer, token.unwrap_or("*"));
                }
            }
        }
        Input { root: root.to_owned(), pointer }
    }

    fn reads(&self, reads: &[Read]) -> Vec<Input> {
        inputs_of(reads.iter().map(|read| self.concrete(&read.root, &read.path)))
    }

    fn mixture(&self, mixture: &Mixture) -> Vec<Input> {
        let reads = mixture.expressions().flat_map(|expression| expression.reads.iter());
        inputs_of(reads.map(|read| self.concrete(&read.root, &read.path)))
    }

    fn add(&mut self, pointer: String, value: Option<Json>, place: &Arc<Place>, inputs: Vec<Input>) {
        let governed = inputs_of(self.governing.iter().flatten().cloned());
        self.fields.push(Field { pointer, value, place: Some(place.clone()), inputs, governed });
    }

    /// A lone expression may give a whole tree: a leaf of it that stands in a document as it is there comes
    /// from that place alone.
    fn spread(&mut self, expression: &Expression, scope: &Scope, value: &Json) {
        let all = self.reads(&expression.reads);
        let origins: Vec<(Input, Value)> = expression
            .origins
            .iter()
            .map(|origin| self.concrete(origin.root(), origin.path()))
            .filter_map(|input| Some((input.clone(), input.value(scope)?)))
            .collect();
        let mut leaves = Vec::new();
        spread(value, String::new(), &mut leaves);
        for (relative, leaf) in leaves {
            // What is merged over something comes later, and wins.
            let source = origins.iter().rev().find_map(|(input, document)| {
                let there = crate::provenance::at(document, &relative)?;
                let same = crate::value::to_json(&there).ok()?.as_ref() == Some(leaf);
                same.then(|| Input {
                    root: input.root.clone(),
                    pointer: format!("{}{relative}", input.pointer),
                })
            });
            let inputs = source.map_or_else(|| all.clone(), |input| vec![input]);
            let pointer = format!("{}{relative}", self.pointer);
            self.add(pointer, Some(leaf.clone()), &expression.place, inputs);
        }
    }

    fn list(&self, origin: &Origin, scope: &Scope) -> Option<List> {
        let document = self.concrete(origin.root(), origin.path()).value(scope)?;
        let items = match document.kind() {
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => document.try_iter().ok()?.collect(),
            _ => return None,
        };
        let (root, path) = (origin.root().to_owned(), origin.path().to_vec());
        Some(List { root, path, items, keyed: document.kind() == ValueKind::Map, token: None, next: 0 })
    }
}

impl Watch for Tracer {
    fn key(&mut self, key: &str) {
        self.above.push(self.pointer.len());
        self.pointer = child(&self.pointer, key);
    }

    fn index(&mut self, index: usize) {
        self.key(&index.to_string());
    }

    fn up(&mut self) {
        let length = self.above.pop().unwrap_or_default();
        self.pointer.truncate(length);
    }

    fn loop_begins(&mut self, each: &Each, scope: &Scope) {
        self.governing.push(self.reads(&each.list.reads));
        let lists = each.list.origins.iter().filter_map(|origin| self.list(origin, scope)).collect();
        self.loops.push(Loop { lists });
    }

    fn item(&mut self, each: &Each, scope: &Scope) {
        let [name] = each.names.as_slice() else { return };
        let (Some(item), Some(around)) = (scope.get(name), self.loops.last_mut()) else { return };
        for list in &mut around.lists {
            // Filters keep the order, mostly; equal items are told apart by it.
            let after = list.items.iter().skip(list.next).position(|other| *other == item);
            let at =
                after.map(|at| at + list.next).or_else(|| list.items.iter().position(|other| *other == item));
            list.next = at.map_or(list.next, |at| at + 1);
            list.token = at.map(|at| match item.as_str() {
                Some(key) if list.keyed => key.to_owned(),
                _ => at.to_string(),
            });
        }
    }

    fn loop_ends(&mut self) {
        self.governing.pop();
        self.loops.pop();
    }

    fn condition(&mut self, when: &Expression) {
        self.governing.push(self.reads(&when.reads));
    }

    fn condition_ends(&mut self) {
        self.governing.pop();
    }

    fn leaf(&mut self, leaf: &Of<'_>, scope: &Scope, value: Option<&Json>) {
        let pointer = self.pointer.clone();
        match (leaf, value) {
            (Of::Literal(place) | Of::Text(Leaf::Literal(_), place), _) => {
                self.add(pointer, value.cloned(), place, Vec::new());
            }
            (Of::Text(Leaf::Mixture(mixture), place), _) => {
                self.add(pointer, value.cloned(), place, self.mixture(mixture));
            }
            (Of::Text(Leaf::Lone(expression), _), Some(value)) => self.spread(expression, scope, value),
            (Of::Text(Leaf::Lone(expression), _), None) => {
                self.add(pointer, None, &expression.place, self.reads(&expression.reads));
            }
        }
    }
}

/// The leaves of a tree, each with its pointer.
fn spread<'v>(value: &'v Json, at: String, leaves: &mut Vec<(String, &'v Json)>) {
    match value {
        Json::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(key, value)| spread(value, child(&at, key), leaves));
        }
        Json::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, value)| {
                spread(value, child(&at, &index.to_string()), leaves);
            });
        }
        _ => leaves.push((at, value)),
    }
}
