//! The cases: a walk through a schema, and for each field the values that try it.

use std::collections::BTreeSet;
use std::fmt;

use mapwright::engine::samples::HOSTILE;
use serde_json::{Value, json};

/// One request: a valid spec in which one field has one value.
#[derive(Clone, Debug)]
pub(super) struct Case {
    spec: Value,
    /// The pointer of the field in the spec.
    pub(super) field: String,
    /// None where the field is left out.
    pub(super) value: Option<Value>,
    /// JSON text that stands for [`PLACE`], for values that no JSON library writes.
    raw: Option<&'static str>,
    /// The field is a member that is named by the caller, with a name under test.
    named: bool,
}

/// Stands in a spec where raw text is to come.
const PLACE: &str = "$raw";

/// Text in the place of a value: numbers beyond every range, and strings that are none.
const RAW: [&str; 6] =
    ["1e400", "9007199254740993", "18446744073709551616", "-0.0", "\"\\ud800\"", "\"\\udc00\\ud800\""];

/// Odd names of members.
const NAMES: [&str; 14] = [
    "a",
    "",
    "a/b",
    "/b",
    "a/",
    "a/b/c",
    "A.b/c",
    "a.b/C_d",
    " a",
    "a~b",
    "\u{e4}",
    "dcm.project/managed-by",
    "kubernetes.io/x",
    "a\nb",
];

/// Every case of a schema; `base` is a valid spec that has each field.
pub(super) fn cases(schema: &Value, base: &Value) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut fields = Vec::new();
    walk(schema, schema, base, "", &mut fields);
    for (field, place) in fields {
        let with = |value: Value| Case::new(base, &field, Some(value));
        if !field.ends_with("/0") {
            cases.push(Case::new(base, &field, None));
        }
        cases.extend(values(place).into_iter().map(with));
        cases.extend(RAW.map(|raw| Case {
            value: serde_json::from_str(raw).ok(),
            raw: Some(raw),
            ..with(PLACE.into())
        }));
        if place["additionalProperties"].is_object() {
            cases.extend(names().map(|name| Case { named: true, ..with(json!({ name: "v" })) }));
        }
    }
    cases
}

/// Names that a caller gives to members, such as keys of labels: odd ones, and those at their bounds.
fn names() -> impl Iterator<Item = String> {
    let prefixed = |length| format!("{}/a", "p".repeat(length));
    let long = [prefixed(63), prefixed(64), prefixed(253), prefixed(254), "k".repeat(63), "k".repeat(64)];
    NAMES.into_iter().map(str::to_owned).chain(long)
}

/// Every field of which the base has a value, with its schema.
fn walk<'s>(
    root: &'s Value,
    schema: &'s Value,
    base: &Value,
    at: &str,
    fields: &mut Vec<(String, &'s Value)>,
) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    if !at.is_empty() {
        fields.push((at.to_owned(), schema));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = base.get(name).unwrap_or(&Value::Null);
        walk(root, property, value, &format!("{at}/{name}"), fields);
    }
    if schema["items"].is_object() {
        walk(root, &schema["items"], &base[0], &format!("{at}/0"), fields);
    }
    if schema["additionalProperties"].is_object() {
        for (name, value) in base.as_object().into_iter().flatten() {
            walk(root, &schema["additionalProperties"], value, &format!("{at}/{name}"), fields);
        }
    }
}

/// What a field is tried with, whatever its type, and what its own bounds suggest.
fn values(schema: &Value) -> Vec<Value> {
    let mut values = vec![
        Value::Null,
        json!(true),
        json!([]),
        json!({}),
        json!([null]),
        json!({ "a": "b" }),
        json!([[]]),
        json!(0),
        json!(-1),
        json!(1),
        json!(1.5),
        json!(8740.0),
        json!(i64::MAX),
        json!(u64::MAX),
    ];
    // Where no text may stand, a few stand for all.
    let takes_text = schema["type"].to_string().contains("string") || schema["type"].is_null();
    values.extend(HOSTILE.iter().take(if takes_text { HOSTILE.len() } else { 3 }).map(|text| (*text).into()));
    values.push("x".repeat(100 << 10).into());
    values.push(vec![json!("x"); 2000].into());
    for (bound, beyond) in [("minimum", -1), ("maximum", 1)] {
        if let Some(bound) = schema[bound].as_i64() {
            values.extend([json!(bound), json!(bound + beyond)]);
        }
    }
    let longest = schema["maxLength"].as_u64().unwrap_or(63) as usize;
    values.extend([json!("x".repeat(longest)), json!("x".repeat(longest + 1))]);
    values.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    // Amounts: the types that have them take strings with units.
    let text = schema.to_string();
    if text.contains("quantity") || text.contains("[0-9]") {
        values.extend(amounts());
    }
    let numbers = ["1m", "999999999999999m", "99999999999999999999999m", "1", "9223372036854775808"];
    values.extend(numbers.map(Value::from));
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.to_string()));
    values
}

/// Amounts at the bounds of what a machine holds, with units of every sort, and in every spelling.
fn amounts() -> impl Iterator<Item = Value> {
    let digits =
        ["0", "00", "1", "9223372036854775807", "9223372036854775808", "99999999999999999999999999999999"];
    let units = ["", "MB", "TB", "Gi", "Ei", "m", "K"];
    let spelt = ["1e3", "1E3", "1e99", "1e-99", "-1Gi", "+1Gi", "1.5Gi", ".5Gi", "0.0001", "1n"];
    let bounds = digits.into_iter().flat_map(move |digits| units.map(|unit| format!("{digits}{unit}")));
    bounds.map(Value::from).chain(spelt.map(Value::from))
}

/// A copy of the base in which one field has another value, or none.
fn changed(base: &Value, field: &str, value: Option<&Value>) -> Value {
    let mut spec = base.clone();
    let (parent, name) = field.rsplit_once('/').unwrap();
    match (spec.pointer_mut(parent), value) {
        (Some(Value::Object(members)), Some(value)) => {
            members.insert(name.to_owned(), value.clone());
        }
        (Some(Value::Object(members)), None) => {
            members.shift_remove(name);
        }
        (Some(Value::Array(items)), Some(value)) => items[name.parse::<usize>().unwrap()] = value.clone(),
        (other, _) => unreachable!("{field} is in no object: {other:?}"),
    }
    spec
}

impl Case {
    fn new(base: &Value, field: &str, value: Option<Value>) -> Self {
        let spec = changed(base, field, value.as_ref());
        Self { spec, field: field.to_owned(), value, raw: None, named: false }
    }

    /// The request's body; `$id` in the base stands for a name that no other case has.
    pub(super) fn body(&self, id: &str) -> String {
        let body = json!({ "spec": self.spec }).to_string().replace("$id", id);
        match self.raw {
            Some(raw) => body.replace(&format!("\"{PLACE}\""), raw),
            None => body,
        }
    }

    /// Whether the body is no JSON at all, so that no pointer can name a place in it.
    pub(super) fn is_malformed(&self) -> bool {
        self.raw.is_some_and(|raw| raw.starts_with('"'))
    }

    /// Whether the name of a member is what is tried.
    pub(super) fn names_the_member(&self) -> bool {
        self.named
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match (&self.raw, &self.value) {
            (Some(raw), _) => (*raw).to_owned(),
            (None, Some(value)) => value.to_string().chars().take(60).collect(),
            (None, None) => "nothing".to_owned(),
        };
        write!(f, "{} = {value}", self.field)
    }
}
