//! Between the values of expressions and JSON.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde, ValueKind};
use serde_json::{Map, Value as Json};

/// The members of a map in their order. Almost every map of a document is so small that looking through it
/// is quicker than hashing.
#[derive(Debug)]
struct Members(Vec<(Value, Value)>);

/// Larger maps are hashed: a lookup must not cost what a caller chooses.
const FEW: usize = 16;

/// A JSON document as a value of an expression. A whole number is an integer, however it was written: `80.0`
/// is 80 to JSON Schema, but Kubernetes reads no fraction where it wants an integer.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Value::from(number),
            (_, Some(number), _) => Value::from(number),
            (_, _, Some(float)) => whole(float).map_or_else(|| Value::from(float), Value::from),
            _ => Value::from(Serde(number)),
        },
        Json::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<Value>>()),
        Json::Object(members) => from_members(members),
    }
}

/// The integer that a number with a written fraction is, as far as floating point is exact.
fn whole(float: f64) -> Option<i64> {
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}

/// A JSON object as a value of an expression.
pub fn from_members(members: &Map<String, Json>) -> Value {
    let pairs = members.iter().map(|(key, value)| (Value::from(key.as_str()), from_json(value)));
    if members.len() > FEW { Value::from_pairs(pairs) } else { few(pairs.collect()) }
}

/// A map of members of which a later one replaces an earlier one of the same name.
pub(crate) fn from_pairs(pairs: Vec<(Value, Value)>) -> Value {
    if pairs.len() > FEW {
        return Value::from_pairs(pairs);
    }
    let mut members: Vec<(Value, Value)> = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        match members.iter_mut().find(|(known, _)| *known == key) {
            Some(member) => member.1 = value,
            None => members.push((key, value)),
        }
    }
    few(members)
}

/// A small map of members that differ.
pub(crate) fn few(pairs: Vec<(Value, Value)>) -> Value {
    Value::from_object(Members(pairs))
}

impl Object for Members {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let members = self.clone();
        Enumerator::KeyValueIter(Box::new((0..self.0.len()).map(move |index| members.0[index].clone())))
    }
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
            let items: Result<Vec<Json>, String> =
                items.map(|item| Ok(to_json(&item)?.unwrap_or(Json::Null))).collect();
            Ok(Some(Json::Array(items?)))
        }
        ValueKind::Map => {
            let mut map = Map::with_capacity(value.len().unwrap_or_default());
            for_each_member(value, |key, member| {
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                map.insert(key, to_json(member)?.unwrap_or(Json::Null));
                Ok::<(), String>(())
            })?;
            Ok(Some(Json::Object(map)))
        }
        ValueKind::Bool => Ok(Some(value.is_true().into())),
        ValueKind::String => Ok(Some(value.as_str().unwrap_or_default().into())),
        other => Err(format!("a {other} has no place in a document")),
    }
}

/// Walks through a map.
pub(crate) fn for_each_member<E>(
    value: &Value,
    mut visit: impl FnMut(&Value, &Value) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(members) = value.downcast_object_ref::<Members>() {
        return members.0.iter().try_for_each(|(key, member)| visit(key, member));
    }
    let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
    pairs.into_iter().flatten().try_for_each(|(key, member)| visit(&key, &member))
}

fn integer(value: &Value) -> Result<Json, String> {
    if let Some(number) = value.as_i64() {
        return Ok(number.into());
    }
    u64::try_from(value.clone()).map(Json::from).map_err(|_| format!("{value} does not fit 64 bits"))
}
