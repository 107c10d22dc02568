//! The three kinds of patch: merge, JSON, and strategic merge with the keys that the definitions name.

use serde_json::{Map, Value, json};

use super::kinds::{Kind, Kinds};
use super::refusal::Refusal;
use super::schema::{below, resolved};

/// A JSON merge patch (RFC 7396).
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            members.shift_remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// More operations than any honest patch has; the API server has the same limit.
const MOST_OPERATIONS: usize = 10_000;

/// A JSON patch (RFC 6902).
pub(super) fn json_patch(target: &mut Value, patch: &Value) -> Result<(), Refusal> {
    let malformed = |text: String| Refusal::bad_request(text);
    let operations = patch.as_array().ok_or_else(|| {
        malformed(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
                .to_owned(),
        )
    })?;
    if operations.len() > MOST_OPERATIONS {
        let text = format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(Refusal::new(413, "RequestEntityTooLarge", text));
    }
    for operation in operations {
        // The real server keeps to itself which operation failed, and why.
        apply(target, operation).map_err(|reason| {
            tracing::debug!(reason, "a JSON patch was refused");
            let mut refusal = Refusal::new(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
            );
            refusal.details = json!({});
            refusal
        })?;
    }
    Ok(())
}

fn apply(target: &mut Value, operation: &Value) -> Result<(), String> {
    let path = operation["path"].as_str().ok_or("an operation has no path")?;
    let from = || operation["from"].as_str().ok_or_else(|| "an operation has no from".to_owned());
    let value = || operation.get("value").cloned().ok_or_else(|| "an operation has no value".to_owned());
    match operation["op"].as_str().unwrap_or_default() {
        "add" => add(target, path, value()?),
        "remove" => remove(target, path).map(|_| ()),
        // The server's library replaces a member that is not there as well.
        "replace" => match target.pointer_mut(path) {
            Some(place) => {
                *place = value()?;
                Ok(())
            }
            None => add(target, path, value()?),
        },
        "move" => {
            let moved = remove(target, from()?)?;
            add(target, path, moved)
        }
        "copy" => {
            let source = from()?;
            let copied = target.pointer(source).cloned().ok_or_else(|| absent(source))?;
            add(target, path, copied)
        }
        "test" => match target.pointer(path).unwrap_or(&Value::Null) == &value()? {
            true => Ok(()),
            false => Err(format!("testing value {path} failed: test failed")),
        },
        other => Err(format!("unexpected kind: {other:?}")),
    }
}

fn absent(path: &str) -> String {
    format!("{path} does not exist: missing value")
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let Some((parent, step)) = path.rsplit_once('/') else {
        *target = value;
        return Ok(());
    };
    match target.pointer_mut(parent).ok_or_else(|| absent(path))? {
        Value::Object(members) => {
            members.insert(unescaped(step), value);
        }
        Value::Array(items) if step == "-" => items.push(value),
        Value::Array(items) => {
            let index: usize = step.parse().map_err(|_| absent(path))?;
            if index > items.len() {
                return Err(absent(path));
            }
            items.insert(index, value);
        }
        _ => return Err(absent(path)),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, step) = path.rsplit_once('/').ok_or_else(|| absent(path))?;
    match target.pointer_mut(parent).ok_or_else(|| absent(path))? {
        Value::Object(members) => members.shift_remove(&unescaped(step)).ok_or_else(|| absent(path)),
        Value::Array(items) => {
            let index = step.parse::<usize>().ok().filter(|index| *index < items.len());
            Ok(items.remove(index.ok_or_else(|| absent(path))?))
        }
        _ => Err(absent(path)),
    }
}

/// A strategic merge patch: lists of objects with a key are merged by it, and `$patch`, `$retainKeys`,
/// `$deleteFromPrimitiveList` and `$setElementOrder` say the rest.
pub(super) fn strategic(
    kinds: &Kinds,
    kind: &Kind,
    target: &mut Value,
    patch: &Value,
) -> Result<(), Refusal> {
    if kind.custom {
        return Err(Refusal::unsupported_media_type(&[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ]));
    }
    let schema = kinds.schema(kind).map(|schema| (*schema).clone()).unwrap_or_default();
    Strategic { kinds }.map(&schema, target, patch);
    Ok(())
}

struct Strategic<'k> {
    kinds: &'k Kinds,
}

impl Strategic<'_> {
    fn map(&self, schema: &Value, target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        match patch.get("$patch").and_then(Value::as_str) {
            Some("replace") => *target = Value::Object(without_directives(patch)),
            Some("delete") => *target = Value::Object(Map::new()),
            _ => self.members(schema, target, patch),
        }
    }

    fn members(&self, schema: &Value, target: &mut Value, patch: &Map<String, Value>) {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        let Value::Object(members) = target else { return };
        if let Some(keep) = patch.get("$retainKeys").and_then(Value::as_array) {
            members.retain(|key, _| keep.iter().any(|kept| kept == key));
        }
        for (key, value) in patch {
            if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
                if let Some(Value::Array(items)) = members.get_mut(list) {
                    let gone = value.as_array().cloned().unwrap_or_default();
                    items.retain(|item| !gone.contains(item));
                }
            } else if key.starts_with('$') {
                // The order of elements is said for readers; it follows the patch below.
            } else if value.is_null() {
                members.shift_remove(key);
            } else {
                let inner = below(self.kinds, schema, key);
                let place = members.entry(key.clone()).or_insert(Value::Null);
                match value {
                    Value::Array(items) => self.list(&inner, place, items),
                    _ => self.map(&inner, place, value),
                }
            }
        }
    }

    fn list(&self, schema: &Value, target: &mut Value, patch: &[Value]) {
        let key = schema["x-kubernetes-patch-merge-key"].as_str();
        let replaces = patch
            .iter()
            .any(|item| item["$patch"] == "replace" && item.as_object().is_some_and(|o| o.len() == 1));
        let set = schema["x-kubernetes-list-type"] == "set";
        let Value::Array(items) = target else {
            *target =
                Value::Array(patch.iter().filter(|item| item.get("$patch").is_none()).cloned().collect());
            return;
        };
        match key {
            Some(key) if !replaces => self.keyed(schema, key, items, patch),
            None if set => {
                for item in patch {
                    if !items.contains(item) {
                        items.push(item.clone());
                    }
                }
            }
            _ => *items = patch.iter().filter(|item| item.get("$patch").is_none()).cloned().collect(),
        }
    }

    fn keyed(&self, schema: &Value, key: &str, items: &mut Vec<Value>, patch: &[Value]) {
        let inner = resolved(self.kinds, &schema["items"]);
        for change in patch {
            let place = items.iter().position(|item| item.get(key) == change.get(key));
            match (place, change["$patch"].as_str()) {
                (Some(place), Some("delete")) => {
                    items.remove(place);
                }
                (None, Some("delete")) => {}
                (Some(place), _) => self.map(&inner, &mut items[place], change),
                (None, _) => {
                    items.push(Value::Object(change.as_object().map(without_directives).unwrap_or_default()))
                }
            }
        }
    }
}

fn without_directives(members: &Map<String, Value>) -> Map<String, Value> {
    members.iter().filter(|(key, _)| !key.starts_with('$')).map(|(k, v)| (k.clone(), v.clone())).collect()
}
