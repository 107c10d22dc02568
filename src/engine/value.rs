//! Between the values of expressions and JSON.

use minijinja::Value;
use minijinja::value::{Serde, ValueKind};
use serde_json::Value as Json;

/// A JSON document as a value of an expression. A whole number is an integer, however it was written: `80.0`
/// is 80 to JSON Schema, but Kubernetes reads no fraction where it wants an integer.
pub fn from_json(json: &Json) -> Value {
    if !holds_written_fraction(json) {
        return Value::from(Serde(json));
    }
    let mut plain = json.clone();
    write_whole(&mut plain);
    Value::from(Serde(&plain))
}

fn holds_written_fraction(json: &Json) -> bool {
    match json {
        Json::Number(number) => whole(number).is_some(),
        Json::Array(items) => items.iter().any(holds_written_fraction),
        Json::Object(members) => members.values().any(holds_written_fraction),
        _ => false,
    }
}

fn write_whole(json: &mut Json) {
    match json {
        Json::Number(number) => {
            if let Some(whole) = whole(number) {
                *json = whole.into();
            }
        }
        Json::Array(items) => items.iter_mut().for_each(write_whole),
        Json::Object(members) => members.values_mut().for_each(write_whole),
        _ => {}
    }
}

/// The integer that a number with a written fraction is, as far as floating point is exact.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}

/// The JSON of a value. Undefined and none are absent.
pub fn to_json(value: &Value) -> Result<Option<Json>, String> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(None),
        ValueKind::Plain => Ok(Some(Json::String(value.to_string()))),
        ValueKind::Number if value.is_integer() => integer(value).map(Some),
        ValueKind::Number => match f64::try_from(value.clone()).ok().and_then(serde_json::Number::from_f64) {
            Some(number) => Ok(Some(Json::Number(number))),
            None => Err(format!("{value} is not a JSON number")),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| error.to_string())?;
            let items: Result<Vec<Option<Json>>, String> = items.map(|item| to_json(&item)).collect();
            Ok(Some(items?.into_iter().map(|item| item.unwrap_or(Json::Null)).collect()))
        }
        ValueKind::Map => {
            let mut map = serde_json::Map::new();
            for key in value.try_iter().map_err(|error| error.to_string())? {
                let member = value.get_item(&key).map_err(|error| error.to_string())?;
                map.insert(key.to_string(), to_json(&member)?.unwrap_or(Json::Null));
            }
            Ok(Some(Json::Object(map)))
        }
        ValueKind::Bool => Ok(Some(value.is_true().into())),
        ValueKind::String => Ok(Some(value.as_str().unwrap_or_default().into())),
        other => Err(format!("a {other} has no place in a document")),
    }
}

fn integer(value: &Value) -> Result<Json, String> {
    if let Some(number) = value.as_i64() {
        return Ok(number.into());
    }
    u64::try_from(value.clone()).map(Json::from).map_err(|_| format!("{value} does not fit 64 bits"))
}
