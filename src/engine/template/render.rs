//! Rendering: a template and a scope become a tree, while somebody may look on.

use std::sync::Arc;

use minijinja::Value;
use serde_json::{Map, Value as Json};

use super::{Directed, Each, MAX_BYTES, MAX_ITEMS, Node};
use crate::coverage::Point;
use crate::expression::{EvalError, Expression, Leaf, Place};
use crate::scope::Scope;
use crate::value::to_json;

/// Looks on while a template is rendered. The empty one costs nothing.
pub(super) trait Watch {
    /// What follows stands below this key.
    fn key(&mut self, _key: &str) {}
    /// What follows stands below this position of a list.
    fn index(&mut self, _index: usize) {}
    /// The end of what a key or position began.
    fn up(&mut self) {}
    /// A loop begins, and what it governs is one item after the other.
    fn loop_begins(&mut self, _each: &Each, _scope: &Scope) {}
    fn item(&mut self, _each: &Each, _scope: &Scope) {}
    fn loop_ends(&mut self) {}
    /// A condition holds, and governs what follows.
    fn condition(&mut self, _when: &Expression) {}
    fn condition_ends(&mut self) {}
    /// A leaf; no value where it is absent.
    fn leaf(&mut self, _leaf: &Of<'_>, _scope: &Scope, _value: Option<&Json>) {}
}

/// What a leaf is made of.
pub(super) enum Of<'n> {
    Literal(&'n Arc<Place>),
    Text(&'n Leaf, &'n Arc<Place>),
}

impl Watch for () {}

/// The tree of a node. Nothing at all is `null`.
pub(super) fn render<W: Watch>(root: &Node, scope: &Scope, watch: &mut W) -> Result<Json, EvalError> {
    let mut run = Run { watch, room: MAX_BYTES };
    Ok(run.node(root, scope)?.unwrap_or(Json::Null))
}

struct Run<'w, W> {
    watch: &'w mut W,
    /// What the tree may still take.
    room: usize,
}

impl<W: Watch> Run<'_, W> {
    /// What stands here; `None` is absent, and takes its key or list item with it.
    fn node(&mut self, node: &Node, scope: &Scope) -> Result<Option<Json>, EvalError> {
        match node {
            Node::Literal(value, place) => {
                self.watch.leaf(&Of::Literal(place), scope, Some(value));
                Ok(Some(value.clone()))
            }
            Node::Leaf(leaf, place) => {
                let value = self.leaf(leaf, place, scope)?;
                self.watch.leaf(&Of::Text(leaf, place), scope, value.as_ref());
                Ok(value)
            }
            Node::Map(members, keys) => self.map(members, keys, scope),
            Node::List(nodes) => {
                let mut items = Vec::with_capacity(nodes.len());
                for node in nodes {
                    self.items(node, scope, &mut items)?;
                }
                Ok((nodes.is_empty() || !items.is_empty()).then_some(Json::Array(items)))
            }
            Node::Directed(directed) if directed.each.is_some() => {
                let mut items = Vec::new();
                self.items(node, scope, &mut items)?;
                Ok((!items.is_empty()).then_some(Json::Array(items)))
            }
            Node::Directed(directed) => {
                self.governed(directed, scope.clone(), |run, scope| run.node(&directed.body, scope))
            }
        }
    }

    fn map(
        &mut self,
        members: &[(String, Node)],
        keys: &Map<String, Json>,
        scope: &Scope,
    ) -> Result<Option<Json>, EvalError> {
        let mut map = keys.clone();
        let mut absent = Vec::new();
        for (at, ((key, node), slot)) in members.iter().zip(map.values_mut()).enumerate() {
            self.watch.key(key);
            match self.node(node, scope)? {
                Some(value) => *slot = value,
                None => absent.push(at),
            }
            self.watch.up();
        }
        // A map of which every member is absent is absent; one that is written `{}` stays.
        if absent.len() == members.len() && !members.is_empty() {
            return Ok(None);
        }
        if !absent.is_empty() {
            let mut at = 0..;
            map.retain(|_, _| at.next().is_some_and(|at| !absent.contains(&at)));
        }
        Ok(Some(Json::Object(map)))
    }

    fn leaf(&mut self, leaf: &Leaf, place: &Arc<Place>, scope: &Scope) -> Result<Option<Json>, EvalError> {
        let value = match leaf {
            Leaf::Literal(text) => Some(Json::String(text.clone())),
            Leaf::Mixture(mixture) => Some(scope.program().text(mixture, scope)?.into()),
            Leaf::Lone(expression) => {
                let value = scope.program().eval(expression, scope)?;
                self.bounded(&value, &expression.place)?;
                to_json(&value).map_err(|message| EvalError::new(message, &expression.place))?
            }
        };
        let size = value.as_ref().map_or(0, weight);
        if size > self.room {
            return Err(EvalError::too_large(format!("a document of more than {MAX_BYTES} bytes"), place));
        }
        self.room -= size;
        Ok(value)
    }

    fn bounded(&self, value: &Value, place: &Arc<Place>) -> Result<(), EvalError> {
        match value.as_object().and_then(|_| value.len()) {
            Some(length) if length > MAX_ITEMS => {
                Err(EvalError::too_large(format!("a list or map of more than {MAX_ITEMS} members"), place))
            }
            _ => Ok(()),
        }
    }

    /// The items that a node gives to a list.
    fn items(&mut self, node: &Node, scope: &Scope, items: &mut Vec<Json>) -> Result<(), EvalError> {
        let Node::Directed(directed) = node else {
            self.watch.index(items.len());
            items.extend(self.node(node, scope)?);
            self.watch.up();
            return Ok(());
        };
        let Some(each) = &directed.each else {
            let given = self.governed(directed, scope.clone(), |run, scope| {
                run.items(&directed.body, scope, items).map(Some)
            });
            return given.map(drop);
        };
        let scopes = each.scopes(scope)?;
        scope.mark(|| Point::branch(&each.list.place), !scopes.is_empty());
        self.watch.loop_begins(each, scope);
        for inner in scopes {
            self.watch.item(each, &inner);
            self.governed(directed, inner, |run, scope| run.items(&directed.body, scope, items).map(Some))?;
        }
        self.watch.loop_ends();
        Ok(())
    }

    /// Does what a map's `$let` and `$if` govern, if they let it.
    fn governed<T>(
        &mut self,
        directed: &Directed,
        mut scope: Scope,
        body: impl FnOnce(&mut Self, &Scope) -> Result<Option<T>, EvalError>,
    ) -> Result<Option<T>, EvalError> {
        for (name, expression) in &directed.lets {
            let value = scope.program().eval(expression, &scope)?;
            scope = scope.with(vec![(name.clone(), value)]);
        }
        let Some(when) = &directed.when else { return body(self, &scope) };
        let holds = scope.program().holds(when, &scope)?;
        scope.mark(|| Point::branch(&when.place), holds);
        if !holds {
            return Ok(None);
        }
        self.watch.condition(when);
        let done = body(self, &scope);
        self.watch.condition_ends();
        done
    }
}

/// What a value takes of the room of a document.
fn weight(value: &Json) -> usize {
    const EACH: usize = 16;
    match value {
        Json::String(text) => EACH + text.len(),
        Json::Array(items) => EACH + items.iter().map(weight).sum::<usize>(),
        Json::Object(members) => {
            EACH + members.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
        _ => EACH,
    }
}
