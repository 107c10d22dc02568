//! The shape that a JSON Schema gives a value: does a path exist in it?

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Key(String),
    /// Any item of a list, or any member.
    Any,
}

/// A path that leaves its schema: the step at which it does, and the names that stand there.
#[derive(Debug)]
pub struct Miss {
    pub at: usize,
    pub name: String,
    pub known: Vec<String>,
}

/// Follows a path through a schema. A place of which the schema says nothing accepts every path.
///
/// A property that an object's schema does not name is a miss unless `additionalProperties` is given: a
/// document may carry unknown members, but a mapping that reads one has made a mistake.
pub fn follow(schema: &Value, path: &[Step]) -> Result<(), Miss> {
    let mut places = vec![schema];
    for (at, step) in path.iter().enumerate() {
        let mut next = Vec::new();
        let mut known = Vec::new();
        let mut free = false;
        for place in alternatives(schema, &places) {
            match step {
                Step::Any => match place.get("items").or_else(|| place.get("additionalProperties")) {
                    Some(item) => next.push(item),
                    None => free = true,
                },
                Step::Key(name) => match place.get("properties").and_then(Value::as_object) {
                    None => free = true,
                    Some(properties) => match (properties.get(name), place.get("additionalProperties")) {
                        (Some(property), _) => next.push(property),
                        (None, Some(Value::Bool(false)) | None) => known.extend(properties.keys().cloned()),
                        (None, Some(other)) => next.push(other),
                    },
                },
            }
        }
        if free || next.is_empty() && known.is_empty() {
            return Ok(());
        }
        if next.is_empty() {
            let name = match step {
                Step::Key(name) => name.clone(),
                Step::Any => String::new(),
            };
            return Err(Miss { at, name, known });
        }
        places = next;
    }
    Ok(())
}

/// Every schema that may hold at these places: references resolved, alternatives side by side.
fn alternatives<'s>(root: &'s Value, places: &[&'s Value]) -> Vec<&'s Value> {
    let mut found = Vec::new();
    let mut open = places.to_vec();
    // References may be circular; a schema has far fewer places than this.
    while let (Some(place), true) = (open.pop(), found.len() < 256) {
        if let Some(target) = place.get("$ref").and_then(Value::as_str) {
            open.extend(target.strip_prefix('#').and_then(|pointer| root.pointer(pointer)));
            continue;
        }
        let branches = ["allOf", "oneOf", "anyOf"];
        let inner: Vec<&Value> = branches
            .iter()
            .filter_map(|key| place.get(key)?.as_array())
            .flatten()
            .collect();
        if inner.is_empty() || place.get("properties").is_some() || place.get("items").is_some() {
            found.push(place);
        }
        open.extend(inner);
    }
    found
}

/// A path as an expression writes it.
pub fn dotted(root: &str, path: &[Step]) -> String {
    let mut text = root.to_owned();
    for step in path {
        match step {
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Any => text.push_str("[]"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> Vec<Step> {
        text.split('.')
            .map(|key| {
                if key == "[]" {
                    Step::Any
                } else {
                    Step::Key(key.to_owned())
                }
            })
            .collect()
    }

    #[test]
    fn a_misspelt_property_misses_and_the_names_there_are_known() {
        let schema = json!({"properties": {"network": {"$ref": "#/$defs/net"}},
            "$defs": {"net": {"properties": {"ports": {"items": {"properties": {"port": {}}}}}}}});
        assert!(follow(&schema, &path("network.ports.[].port")).is_ok());
        let miss = follow(&schema, &path("network.ports.[].prot")).unwrap_err();
        assert_eq!(
            (miss.at, miss.name.as_str(), miss.known),
            (3, "prot", vec!["port".to_owned()])
        );
        assert!(follow(&json!({"properties": {"hints": {}}}), &path("hints.any.thing")).is_ok());
    }
}
