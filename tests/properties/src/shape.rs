//! What a document is, apart from the texts in it.

use mapwright_engine::json::child;
use serde_json::Value;

/// A value with each scalar replaced by the word for what it is.
pub fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Null => Value::Null,
    }
}

/// The pointers of every text.
pub fn texts(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at),
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| texts(value, child(&at, key), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| texts(value, child(&at, &index.to_string()), found));
        }
        _ => {}
    }
}
