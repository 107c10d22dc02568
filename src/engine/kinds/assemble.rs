//! One complete schema out of definitions that refer to one another.

use serde_json::{Map, Value as Json, json};

const LOCAL: &str = "#/$defs/";

/// The schema of one definition with everything that it reaches, in the strict form of the API server.
pub(super) fn assemble(root: &str, definition: impl Fn(&str) -> Option<Json>) -> Json {
    let mut definitions = Map::new();
    let mut open = vec![root.to_owned()];
    while let Some(name) = open.pop() {
        if definitions.contains_key(&name) {
            continue;
        }
        // A reference to nothing says nothing.
        let mut schema = definition(&name).unwrap_or_else(|| json!({}));
        sharpen(&mut schema, &mut open);
        definitions.insert(name, schema);
    }
    json!({ "$ref": format!("{LOCAL}{root}"), "$defs": definitions })
}

/// Says in JSON Schema what Kubernetes means: no unknown members, numbers of the width that is named.
fn sharpen(schema: &mut Json, references: &mut Vec<String>) {
    let Json::Object(members) = schema else {
        return;
    };
    if let Some(name) =
        members.get("$ref").and_then(Json::as_str).and_then(|target| target.strip_prefix(LOCAL))
    {
        references.push(name.to_owned());
    }
    match members.get("format").and_then(Json::as_str) {
        Some("int32") => bound(members, i32::MIN.into(), i32::MAX.into()),
        Some("int64") => bound(members, i64::MIN, i64::MAX),
        _ => {}
    }
    if members.get("x-kubernetes-int-or-string") == Some(&Json::Bool(true)) {
        members.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if members.get("nullable") == Some(&Json::Bool(true))
        && let Some(kind @ Json::String(_)) = members.get("type").cloned()
    {
        members.insert("type".to_owned(), json!([kind, "null"]));
    }
    let open = members.get("x-kubernetes-preserve-unknown-fields") == Some(&Json::Bool(true));
    if members.contains_key("properties") && !members.contains_key("additionalProperties") {
        members.insert("additionalProperties".to_owned(), open.into());
    }
    for (key, value) in members {
        match (key.as_str(), value) {
            ("properties", Json::Object(inner)) => {
                inner.values_mut().for_each(|schema| sharpen(schema, references));
            }
            ("items" | "additionalProperties", inner) => sharpen(inner, references),
            ("allOf" | "oneOf" | "anyOf", Json::Array(inner)) => {
                inner.iter_mut().for_each(|schema| sharpen(schema, references));
            }
            _ => {}
        }
    }
}

fn bound(members: &mut Map<String, Json>, least: i64, most: i64) {
    members.entry("minimum").or_insert(least.into());
    members.entry("maximum").or_insert(most.into());
}

/// Lays an addition over a definition. A property that the definition does not have is not added.
pub(super) fn add(definition: &mut Json, addition: &Json) {
    let (Json::Object(definition), Json::Object(addition)) = (definition, addition) else {
        return;
    };
    for (key, value) in addition {
        match (definition.get_mut(key), value) {
            (Some(Json::Object(properties)), Json::Object(added)) if key == "properties" => {
                for (name, addition) in added {
                    if let Some(property) = properties.get_mut(name) {
                        add(property, addition);
                    }
                }
            }
            (Some(known @ Json::Object(_)), Json::Object(_)) => add(known, value),
            (None, _) if key == "properties" => {}
            _ => {
                definition.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_holds_what_it_reaches_and_names_no_other_member() {
        let all = json!({
            "a.Root": {"type": "object", "properties": {"part": {"$ref": "#/$defs/a.Part"}}},
            "a.Part": {"type": "object", "properties": {"n": {"type": "integer", "format": "int32"},
                "again": {"$ref": "#/$defs/a.Part"}}},
            "a.Other": {},
        });
        let schema = assemble("a.Root", |name| all.get(name).cloned());
        let names: Vec<&String> = schema["$defs"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["a.Root", "a.Part"]);
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&json!({"part": {"again": {"n": 1}}})));
        assert!(!validator.is_valid(&json!({"prat": {}})));
        assert!(!validator.is_valid(&json!({"part": {"n": 1_i64 << 31}})));
    }

    #[test]
    fn an_addition_refines_what_is_there_and_adds_no_property() {
        let mut definition = json!({"properties": {"status": {"type": "string"}}});
        let addition = json!({"properties": {"status": {"enum": ["True"]}, "none": {}}, "x-starter": ["a"]});
        add(&mut definition, &addition);
        let expected =
            json!({"properties": {"status": {"type": "string", "enum": ["True"]}}, "x-starter": ["a"]});
        assert_eq!(definition, expected);
    }
}
