//! Which fields of an object stay in memory.

use std::collections::BTreeMap;

use serde_json::Value;

/// A set of fields to keep. Applied to objects as they arrive, because an object as the server sends it is
/// ten to thirty times as large as what anybody reads of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// None keeps everything but the server's records of field ownership.
    root: Option<Keep>,
}

/// Any item of a list, or any member of a map.
pub const ANY: &str = "*";

/// What the room itself, and every reader, counts on.
const ALWAYS: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "generation"],
    &["metadata", "creationTimestamp"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["metadata", "ownerReferences"],
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Keep {
    /// Everything below stays.
    whole: bool,
    members: BTreeMap<String, Keep>,
}

impl Prune {
    /// Keeps every field.
    #[must_use]
    pub fn nothing() -> Self {
        Self { root: None }
    }

    /// Keeps what these paths name, with all that lies below, and what every object is known by. A step of
    /// a path is a member's name or [`ANY`].
    #[must_use]
    pub fn to(paths: &[Vec<String>]) -> Self {
        let mut root = Keep::default();
        for path in ALWAYS {
            root.add(path.iter().copied());
        }
        for path in paths {
            root.add(path.iter().map(String::as_str));
        }
        Self { root: Some(root) }
    }

    /// Keeps what either of the two keeps.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self.root, other.root) {
            (Some(mut root), Some(more)) => {
                root.merge(more);
                Self { root: Some(root) }
            }
            _ => Self::nothing(),
        }
    }

    /// The object with only the kept fields, in their order.
    #[must_use]
    pub fn apply(&self, object: Value) -> Value {
        match &self.root {
            Some(root) => root.cut(object),
            None => super::objects::without_managed_fields(object),
        }
    }
}

impl Keep {
    fn add<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) {
        let mut node = self;
        for step in path {
            node = node.members.entry(step.to_owned()).or_default();
        }
        node.whole = true;
    }

    fn merge(&mut self, other: Self) {
        self.whole |= other.whole;
        for (name, more) in other.members {
            self.members.entry(name).or_default().merge(more);
        }
    }

    /// A value of another shape than the paths expect stays as it is: whoever reads it should see the
    /// misfit and not an absence.
    fn cut(&self, value: Value) -> Value {
        if self.whole {
            return value;
        }
        match value {
            Value::Object(members) => {
                let kept = members.into_iter().filter_map(|(name, value)| {
                    let value = self.member(&name, value)?;
                    Some((name, value))
                });
                Value::Object(kept.collect())
            }
            Value::Array(items) => match self.members.get(ANY) {
                Some(each) => Value::Array(items.into_iter().map(|item| each.cut(item)).collect()),
                None => Value::Array(items),
            },
            scalar => scalar,
        }
    }

    /// A member may be named and matched by [`ANY`] as well; then both say what stays.
    fn member(&self, name: &str, value: Value) -> Option<Value> {
        match (self.members.get(name), self.members.get(ANY)) {
            (Some(named), Some(any)) => {
                let mut both = named.clone();
                both.merge(any.clone());
                Some(both.cut(value))
            }
            (Some(one), None) | (None, Some(one)) => Some(one.cut(value)),
            (None, None) => None,
        }
    }
}
