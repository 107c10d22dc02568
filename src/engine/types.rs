//! What is known of a value before anything runs: the types of variables, fields and expressions.
//!
//! A type never says that a value is there: everything may be absent, and most of a Kubernetes object is.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::json::child;

/// The values that may stand at one place.
#[derive(Clone, Debug, Default)]
pub enum Type {
    /// Nothing is known, so nothing is a mistake.
    #[default]
    Any,
    /// A value that a JSON Schema describes. Resolved when asked: schemas may be circular.
    Place(Place),
    Text(Words),
    Number,
    Bool,
    /// What the filter `quantity` gives: it compares with its like only.
    Quantity,
    List(Box<Type>),
    /// A list of fixed length, as `items` gives for each member of a map.
    Pair(Vec<Type>),
    Map(Members),
    /// One of these; of none, a value that is never there.
    Either(Vec<Type>),
}

/// A place in a schema.
#[derive(Clone, Debug)]
pub struct Place {
    document: Arc<Json>,
    pointer: String,
}

/// The texts that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    Free,
    /// These are usual, others are possible.
    Known(Vec<String>),
    /// There are no others.
    Only(Vec<String>),
}

/// The members of a map: those that have names, and the type of all others where there may be others.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub named: Vec<(String, Type)>,
    pub required: Vec<String>,
    pub rest: Option<Box<Type>>,
}

/// The form of a value, by which operations tell values apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Text,
    Number,
    Bool,
    Quantity,
    List,
    Map,
}

/// The type of a member, or why there is none.
#[derive(Debug)]
pub enum Member {
    Found(Type),
    /// Maps stand here, and none has such a member; these are the names that they have.
    Missing(Vec<String>),
    /// No map stands here, but values of these forms.
    NoMap(BTreeSet<Form>),
}

/// As deep as alternatives and references of a schema may lead without a step into a value.
const DEEPEST: usize = 16;

impl Form {
    pub fn noun(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Bool => "true or false",
            Self::Quantity => "a quantity",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}

/// Forms as a message lists them: "a string or a number".
pub fn nouns(forms: &BTreeSet<Form>) -> String {
    let nouns: Vec<&str> = forms.iter().map(|form| form.noun()).collect();
    nouns.join(" or ")
}

impl Type {
    pub fn schema(document: Arc<Json>) -> Self {
        Self::Place(Place { document, pointer: String::new() })
    }

    pub fn text() -> Self {
        Self::Text(Words::Free)
    }

    pub fn words<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::Text(Words::Only(words.into_iter().map(Into::into).collect()))
    }

    pub fn list(item: Type) -> Self {
        Self::List(Box::new(item))
    }

    /// A map of exactly these members.
    pub fn map<S: Into<String>>(named: impl IntoIterator<Item = (S, Type)>) -> Self {
        let named = named.into_iter().map(|(name, kind)| (name.into(), kind)).collect();
        Self::Map(Members { named, ..Members::default() })
    }

    /// A map whose members all have this type, whatever their names.
    pub fn free_map(item: Type) -> Self {
        Self::Map(Members { rest: Some(Box::new(item)), ..Members::default() })
    }

    pub fn either(types: impl IntoIterator<Item = Type>) -> Self {
        let mut all: Vec<Type> = types.into_iter().collect();
        if all.len() == 1 { all.pop().unwrap_or_default() } else { Self::Either(all) }
    }

    /// Whether so much is known that looking at it takes long.
    pub fn is_huge(&self) -> bool {
        !self.within(&mut 1000)
    }

    fn within(&self, room: &mut usize) -> bool {
        *room = room.saturating_sub(1);
        *room > 0
            && match self {
                Self::List(item) => item.within(room),
                Self::Pair(types) | Self::Either(types) => types.iter().all(|kind| kind.within(room)),
                Self::Map(members) => {
                    let rest = members.rest.as_deref();
                    members.named.iter().map(|(_, kind)| kind).chain(rest).all(|kind| kind.within(room))
                }
                _ => true,
            }
    }

    /// This type as plain alternatives: no schema, nothing nested. `None` where anything may stand.
    pub fn alternatives(&self) -> Option<Vec<Type>> {
        let mut found = Vec::new();
        self.expand(&mut found, 0).then_some(found)
    }

    fn expand(&self, found: &mut Vec<Type>, depth: usize) -> bool {
        match self {
            Self::Any => false,
            Self::Either(types) => types.iter().all(|kind| kind.expand(found, depth)),
            Self::Place(place) => depth < DEEPEST && place.expand(found, depth + 1),
            _ => {
                found.push(self.clone());
                true
            }
        }
    }

    /// The forms that a value may have. `None` where anything may stand.
    pub fn forms(&self) -> Option<BTreeSet<Form>> {
        Some(self.alternatives()?.iter().filter_map(Type::form).collect())
    }

    fn form(&self) -> Option<Form> {
        match self {
            Self::Text(_) => Some(Form::Text),
            Self::Number => Some(Form::Number),
            Self::Bool => Some(Form::Bool),
            Self::Quantity => Some(Form::Quantity),
            Self::List(_) | Self::Pair(_) => Some(Form::List),
            Self::Map(_) => Some(Form::Map),
            Self::Any | Self::Place(_) | Self::Either(_) => None,
        }
    }

    /// The texts that may stand here, beside values of other forms.
    pub fn texts(&self) -> Words {
        let Some(alternatives) = self.alternatives() else {
            return Words::Free;
        };
        let texts = alternatives.into_iter().filter_map(|kind| match kind {
            Type::Text(words) => Some(words),
            _ => None,
        });
        texts.reduce(Words::or).unwrap_or(Words::Free)
    }

    pub fn member(&self, name: &str) -> Member {
        let Some(alternatives) = self.alternatives() else {
            return Member::Found(Type::Any);
        };
        let (mut found, mut known, mut maps) = (Vec::new(), Vec::new(), false);
        for alternative in &alternatives {
            if let Type::Map(members) = alternative {
                maps = true;
                found.extend(members.get(name).cloned());
                known.extend(members.named.iter().map(|(name, _)| name.clone()));
            }
        }
        if !found.is_empty() || alternatives.is_empty() {
            return Member::Found(Type::either(found));
        }
        if maps {
            return Member::Missing(known);
        }
        Member::NoMap(alternatives.iter().filter_map(Type::form).collect())
    }

    /// The type of the items of a list, or of the keys of a map. `None` where nothing can be walked.
    pub fn items(&self) -> Option<Type> {
        let Some(alternatives) = self.alternatives() else {
            return Some(Type::Any);
        };
        let none = alternatives.is_empty();
        let items: Vec<Type> = alternatives
            .into_iter()
            .filter_map(|kind| match kind {
                Type::List(item) => Some(*item),
                Type::Pair(items) => Some(Type::either(items)),
                Type::Map(_) => Some(Type::text()),
                _ => None,
            })
            .collect();
        (none || !items.is_empty()).then(|| Type::either(items))
    }

    /// The type of one item of a list of fixed length.
    pub fn at(&self, position: usize) -> Type {
        let Some(alternatives) = self.alternatives() else {
            return Type::Any;
        };
        Type::either(alternatives.into_iter().flat_map(|kind| match kind {
            Type::Pair(items) => items.into_iter().nth(position),
            other => other.items(),
        }))
    }

    /// The type of a map's members, whatever their names.
    pub fn values(&self) -> Type {
        let Some(alternatives) = self.alternatives() else {
            return Type::Any;
        };
        Type::either(alternatives.into_iter().flat_map(|kind| match kind {
            Type::Map(members) => {
                let named = members.named.into_iter().map(|(_, kind)| kind);
                named.chain(members.rest.map(|rest| *rest)).collect()
            }
            _ => Vec::new(),
        }))
    }
}

impl Members {
    pub fn get(&self, name: &str) -> Option<&Type> {
        let named = self.named.iter().find(|(key, _)| key == name).map(|(_, kind)| kind);
        named.or(self.rest.as_deref())
    }
}

impl Words {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Only(mut a), Self::Only(b)) => {
                a.extend(b);
                Self::Only(a)
            }
            (Self::Free, _) | (_, Self::Free) => Self::Free,
            (Self::Known(mut a) | Self::Only(mut a), Self::Known(b) | Self::Only(b)) => {
                a.extend(b);
                Self::Known(a)
            }
        }
    }

    pub fn list(&self) -> &[String] {
        match self {
            Self::Free => &[],
            Self::Known(words) | Self::Only(words) => words,
        }
    }
}

impl Place {
    fn at(&self, pointer: String) -> Type {
        Type::Place(Self { document: self.document.clone(), pointer })
    }

    fn below(&self, key: &str) -> Type {
        self.at(child(&self.pointer, key))
    }

    fn node(&self) -> Option<&Json> {
        self.document.pointer(&self.pointer)
    }

    /// What the schema says here: references and branches first, then the node itself where it says more.
    fn expand(&self, found: &mut Vec<Type>, depth: usize) -> bool {
        let Some(Json::Object(node)) = self.node() else {
            return self.node() == Some(&Json::Bool(false));
        };
        let mut inner = Vec::new();
        let mut known = true;
        let mut says = false;
        if let Some(target) = node.get("$ref").and_then(Json::as_str) {
            says = true;
            known &= match target.strip_prefix('#') {
                Some(pointer) => self.at(pointer.to_owned()).expand(&mut inner, depth),
                None => false,
            };
        }
        for (key, branches) in
            ["allOf", "oneOf", "anyOf"].iter().filter_map(|key| Some((key, node.get(*key)?)))
        {
            for (index, branch) in branches.as_array().into_iter().flatten().enumerate() {
                if describes(branch) {
                    says = true;
                    let pointer = format!("{}/{key}/{index}", self.pointer);
                    known &= self.at(pointer).expand(&mut inner, depth);
                }
            }
        }
        for key in ["then", "else"].iter().filter(|key| node.get(**key).is_some_and(describes)) {
            known &= self.below(key).expand(&mut inner, depth);
        }
        let own = self.own(node);
        says |= !own.is_empty();
        // `type: object` beside branches that name members says nothing more than they do.
        let refined = |kind: &Type| inner.iter().any(|other| other.form() == kind.form()) && is_open(kind);
        found.extend(own.into_iter().filter(|kind| !refined(kind)));
        found.extend(inner);
        known && says
    }

    fn own(&self, node: &serde_json::Map<String, Json>) -> Vec<Type> {
        let constant = node.get("const").map(std::slice::from_ref);
        if let Some(values) =
            constant.or_else(|| node.get("enum").and_then(Json::as_array).map(Vec::as_slice))
        {
            return of_constants(values);
        }
        let named: Vec<&str> = match node.get("type") {
            Some(Json::String(name)) => vec![name],
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ if node.contains_key("properties") || node.contains_key("additionalProperties") => {
                vec!["object"]
            }
            _ if node.contains_key("items") => vec!["array"],
            _ if node.contains_key("pattern") => vec!["string"],
            _ => Vec::new(),
        };
        named.into_iter().filter_map(|name| self.named(name, node)).collect()
    }

    fn named(&self, name: &str, node: &serde_json::Map<String, Json>) -> Option<Type> {
        match name {
            "string" => {
                let known = node.get("x-known-values").and_then(Json::as_array);
                let known =
                    known.map(|words| words.iter().filter_map(Json::as_str).map(str::to_owned).collect());
                Some(Type::Text(known.map_or(Words::Free, Words::Known)))
            }
            "integer" | "number" => Some(Type::Number),
            "boolean" => Some(Type::Bool),
            "array" => {
                let items = node.contains_key("items").then(|| self.below("items"));
                Some(Type::list(items.unwrap_or_default()))
            }
            "object" => Some(Type::Map(self.members(node))),
            _ => None,
        }
    }

    /// A member that an object's schema does not name is a mistake in a mapping, although a document may carry
    /// it: `additionalProperties` must say so.
    fn members(&self, node: &serde_json::Map<String, Json>) -> Members {
        let properties = node.get("properties").and_then(Json::as_object);
        let inside = child(&self.pointer, "properties");
        let named = properties.into_iter().flat_map(serde_json::Map::keys);
        let named: Vec<(String, Type)> =
            named.map(|name| (name.clone(), self.at(child(&inside, name)))).collect();
        let rest = match node.get("additionalProperties") {
            _ if node.contains_key("patternProperties") => Some(Type::Any),
            Some(Json::Bool(false)) => None,
            Some(Json::Bool(true)) => Some(Type::Any),
            Some(_) => Some(self.below("additionalProperties")),
            None if properties.is_none() => Some(Type::Any),
            None => None,
        };
        let required = node.get("required").and_then(Json::as_array).into_iter().flatten();
        let required = required.filter_map(Json::as_str).map(str::to_owned).collect();
        Members { named, required, rest: rest.map(Box::new) }
    }
}

/// A branch such as `{required: [..]}` narrows what stands beside it and describes nothing itself.
fn describes(branch: &Json) -> bool {
    const NARROWING: [&str; 9] = [
        "required",
        "not",
        "title",
        "description",
        "if",
        "minProperties",
        "maxProperties",
        "default",
        "$comment",
    ];
    match branch {
        Json::Object(members) => {
            members.is_empty() || members.keys().any(|key| !NARROWING.contains(&key.as_str()))
        }
        _ => true,
    }
}

fn is_open(kind: &Type) -> bool {
    match kind {
        Type::Map(members) => members.named.is_empty() && matches!(members.rest.as_deref(), Some(Type::Any)),
        Type::Text(words) => *words == Words::Free,
        Type::List(item) => matches!(**item, Type::Any),
        _ => true,
    }
}

fn of_constants(values: &[Json]) -> Vec<Type> {
    let mut found = Vec::new();
    let texts: Vec<&str> = values.iter().filter_map(Json::as_str).collect();
    if !texts.is_empty() {
        found.push(Type::words(texts));
    }
    if values.iter().any(Json::is_number) {
        found.push(Type::Number);
    }
    if values.iter().any(Json::is_boolean) {
        found.push(Type::Bool);
    }
    if values.iter().any(Json::is_array) {
        found.push(Type::list(Type::Any));
    }
    if values.iter().any(Json::is_object) {
        found.push(Type::free_map(Type::Any));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn member<'t>(kind: &Type, path: &'t str) -> Result<Type, (&'t str, Vec<String>)> {
        path.split('.').try_fold(kind.clone(), |kind, key| match key {
            "[]" => Ok(kind.items().unwrap_or_default()),
            key => match kind.member(key) {
                Member::Found(kind) => Ok(kind),
                Member::Missing(known) => Err((key, known)),
                Member::NoMap(_) => Err((key, Vec::new())),
            },
        })
    }

    #[test]
    fn a_misspelt_property_misses_and_the_names_there_are_known() {
        let schema = Type::schema(Arc::new(json!({"properties": {"network": {"$ref": "#/$defs/net"}},
            "$defs": {"net": {"properties": {"ports": {"items": {"properties": {"port": {}}}}}}}})));
        assert!(member(&schema, "network.ports.[].port").is_ok());
        assert_eq!(member(&schema, "network.ports.[].prot").unwrap_err(), ("prot", vec!["port".to_owned()]));
        let free = Type::schema(Arc::new(json!({"properties": {"hints": {}, "map": {"type": "object"}}})));
        assert!(member(&free, "hints.any.thing").is_ok() && member(&free, "map.any.thing").is_ok());
    }

    #[test]
    fn branches_are_looked_through_and_those_that_only_narrow_say_nothing() {
        let schema = Type::schema(Arc::new(json!({
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}],
            "oneOf": [{"properties": {"b": {"type": "integer"}}}, {"properties": {"c": {"enum": ["x", "y"]}}}],
        })));
        for name in ["a", "b", "c"] {
            assert!(member(&schema, name).is_ok(), "{name}");
        }
        assert_eq!(member(&schema, "d").unwrap_err().1, ["a", "b", "c"]);
        assert_eq!(member(&schema, "c").unwrap().texts(), Words::Only(vec!["x".into(), "y".into()]));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = Type::schema(Arc::new(json!({"$ref": "#"})));
        assert!(schema.alternatives().is_none());
        let tree = Type::schema(Arc::new(json!({"properties": {"next": {"$ref": "#"}}})));
        assert!(member(&tree, "next.next.next").is_ok() && member(&tree, "next.nxet").is_err());
    }
}
