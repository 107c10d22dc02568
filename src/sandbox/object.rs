//! Objects as JSON: the members of metadata that everything here reads and writes.

use serde_json::{Map, Value, json};

/// A text of an object; empty where there is none.
pub(super) fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(super) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

pub(super) fn list<'o>(object: &'o Value, pointer: &str) -> &'o [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "/metadata/finalizers").iter().filter_map(Value::as_str).collect()
}

/// The members of a map of an object; an empty one is put where there is none, or something else.
pub(super) fn map_at<'o>(object: &'o mut Value, member: &str) -> &'o mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let inner = &mut object[member];
    if !inner.is_object() {
        *inner = json!({});
    }
    // What was just put there is an object.
    match inner {
        Value::Object(members) => members,
        _ => unreachable!("a map was put here"),
    }
}

pub(super) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, "metadata")
}

/// Puts a value, or takes the member away where there is none.
pub(super) fn set(members: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            members.insert(key.to_owned(), value);
        }
        None => {
            members.shift_remove(key);
        }
    }
}

/// The reference by which a dependent names the object that controls it.
pub(super) fn controlled_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// The reference to the object that controls this one.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    let owners = list(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner["controller"] == Value::Bool(true))
}

/// A condition of a status, by its type.
pub(super) fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    list(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// The present moment as Kubernetes writes it: whole seconds, in UTC.
pub(super) fn now() -> String {
    crate::clock::now_in_seconds()
}

/// Five characters that spell no word, as generated names end in.
pub(super) fn random_suffix(prefix: &str) -> String {
    let bits = crate::clock::unique(prefix).as_u128();
    encode_safely(bits, 5)
}

/// A number in characters that spell no word.
pub(super) fn encode_safely(mut bits: u128, length: usize) -> String {
    const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut text = String::new();
    for _ in 0..length {
        text.push(char::from(SAFE[usize::try_from(bits % 27).unwrap_or_default()]));
        bits /= 27;
    }
    text
}
