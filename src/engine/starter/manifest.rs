//! The template of a new mapping: what a kind requires, each scalar of it an input of the spec.

use serde_json::{Map, Value as Json, json};

use crate::service::KindRef;

use super::words;

/// A template, and the properties of the spec that it reads.
pub(super) struct Manifest {
    pub(super) text: String,
    pub(super) inputs: Map<String, Json>,
}

/// Schemas that contain themselves are shown no deeper.
const DEEPEST: usize = 12;

impl Manifest {
    pub(super) fn of(kind: &KindRef, schema: &Json) -> Self {
        let mut writer = Writer { root: schema, inputs: Map::new() };
        let mut body = writer.object(schema, &["apiVersion", "kind", "metadata"], "", 0);
        let head = json!({
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": { "generateName": "{{ spec.metadata.name }}-", "labels": "{{ labels }}" },
        });
        let mut all = head.as_object().cloned().unwrap_or_default();
        all.append(&mut body);
        let mut text = String::new();
        map(&all, 0, &mut text);
        Self { text, inputs: writer.inputs }
    }
}

struct Writer<'s> {
    root: &'s Json,
    inputs: Map<String, Json>,
}

impl<'s> Writer<'s> {
    fn resolve(&self, schema: &'s Json) -> &'s Json {
        let target = schema.get("$ref").and_then(Json::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|pointer| self.root.pointer(pointer)) {
            Some(target) => self.resolve(target),
            None => schema,
        }
    }

    /// The members of an object that are required, or that a new mapping should show.
    fn object(&mut self, schema: &'s Json, skipped: &[&str], name: &str, depth: usize) -> Map<String, Json> {
        let schema = self.resolve(schema);
        let properties: Vec<(&'s String, &'s Json)> = members_of(schema, "properties").collect();
        let starters: Vec<(&'s String, &'s Json)> = members_of(schema, "x-starter").collect();
        let has = |name: &str| properties.iter().any(|(key, _)| *key == name);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        // A selector that is not required is the API server's to write.
        let selects = has("template") && required.contains(&"selector");
        let mut members = Map::new();
        for (key, property) in properties.iter().copied() {
            if skipped.contains(&key.as_str()) || depth > DEEPEST {
                continue;
            }
            let labels = |value: &str| json!({ "matchLabels": value });
            if selects
                && key == "selector"
                && self.resolve(property).pointer("/properties/matchLabels").is_some()
            {
                members.insert(key.clone(), labels("{{ dcm.labels }}"));
            } else if required.contains(&key.as_str()) || starters.contains(&(key, &Json::Null)) {
                members.insert(key.clone(), self.value(property, key, name, depth));
            } else if key == "spec" && has("metadata") {
                // What a kind is about stands below its `spec`, required or not.
                let spec = self.object(property, &[], key, depth + 1);
                if !spec.is_empty() {
                    members.insert(key.clone(), spec.into());
                }
            }
        }
        for (key, _) in properties.iter().copied().filter(|(_, property)| self.is_template(property)) {
            // What a controller makes from it is watched by these labels.
            if let Some(Json::Object(template)) = members.get_mut(key) {
                template.shift_insert(0, "metadata".to_owned(), json!({ "labels": "{{ labels }}" }));
            }
        }
        if let Some(name) = members.shift_remove("name") {
            members.shift_insert(0, "name".to_owned(), name);
        }
        for (path, value) in starters {
            self.start(&mut members, schema, path, value);
        }
        members
    }

    /// Whether a member describes objects that a controller makes, such as pods.
    fn is_template(&self, property: &'s Json) -> bool {
        let has =
            |key: &str| self.resolve(property).get("properties").is_some_and(|all| all.get(key).is_some());
        has("metadata") && has("spec") && !has("kind")
    }

    /// A member that the additions name by its path.
    fn start(&mut self, members: &mut Map<String, Json>, schema: &'s Json, path: &str, value: &Json) {
        let mut here = members;
        let mut schema = schema;
        let keys: Vec<&str> = path.split('.').collect();
        let Some((last, parents)) = keys.split_last() else { return };
        for key in parents {
            schema = self.below(schema, key);
            let slot = here.entry((*key).to_owned()).or_insert_with(|| json!({}));
            let Json::Object(inner) = slot else { return };
            here = inner;
        }
        if here.contains_key(*last) {
            return;
        }
        let value = match value {
            Json::Null => {
                let schema = self.below(schema, last);
                self.value(schema, last, parents.last().unwrap_or(&""), 0)
            }
            literal => literal.clone(),
        };
        here.insert((*last).to_owned(), value);
    }

    fn below(&self, schema: &'s Json, key: &str) -> &'s Json {
        let schema = self.resolve(schema);
        let property = schema.get("properties").and_then(|properties| properties.get(key));
        property.or_else(|| schema.get("additionalProperties")).unwrap_or(&Json::Null)
    }

    fn value(&mut self, schema: &'s Json, key: &str, parent: &str, depth: usize) -> Json {
        let resolved = self.resolve(schema);
        match resolved.get("type").and_then(Json::as_str) {
            Some("object") if resolved.get("properties").is_some() => {
                self.object(resolved, &[], key, depth + 1).into()
            }
            Some("array") => {
                let item = resolved.get("items").map(|item| self.resolve(item)).unwrap_or(&Json::Null);
                if item.get("properties").is_some() && depth < DEEPEST {
                    return json!([Json::Object(self.object(item, &[], key, depth + 1))]);
                }
                let items = input(item);
                let mut list = input(resolved);
                list["items"] = items;
                if list.get("minItems").is_none() {
                    list["minItems"] = 1.into();
                }
                self.input(key, parent, list)
            }
            // An object's name is the caller's.
            Some("string") if key == "name" && resolved.get("enum").is_none() => {
                "{{ spec.metadata.name }}".into()
            }
            _ => self.input(key, parent, input(resolved)),
        }
    }

    /// A property of the spec, and the expression that reads it.
    fn input(&mut self, key: &str, parent: &str, schema: Json) -> Json {
        let mut name = words(key, '_');
        if name == "metadata"
            || name == "service_type"
            || self.inputs.get(&name).is_some_and(|known| *known != schema)
        {
            name = format!("{}_{name}", words(parent, '_'));
        }
        self.inputs.insert(name.clone(), schema);
        format!("{{{{ spec.{name} }}}}").into()
    }
}

fn members_of<'s>(schema: &'s Json, key: &str) -> impl Iterator<Item = (&'s String, &'s Json)> + use<'s> {
    schema.get(key).and_then(Json::as_object).into_iter().flatten()
}

/// Keywords that bound a value: what the API server refuses, the schema of the spec refuses first.
const BOUNDS: [&str; 10] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
];

/// What a caller may send for a value of Kubernetes.
fn input(schema: &Json) -> Json {
    let mut kept = Map::new();
    for key in ["type", "enum", "pattern", "oneOf"].into_iter().chain(BOUNDS) {
        if let Some(value) = schema.get(key) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    // OpenAPI says of a bound that it is exclusive; JSON Schema has bounds that are.
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let flag = kept.get(exclusive).and_then(Json::as_bool);
        if flag.is_some() {
            kept.shift_remove(exclusive);
        }
        if flag == Some(true)
            && let Some(number) = kept.shift_remove(bound)
        {
            kept.insert(exclusive.to_owned(), number);
        }
    }
    match schema.get("type").and_then(Json::as_str) {
        Some("string") if !["enum", "minLength"].iter().any(|key| kept.contains_key(*key)) => {
            kept.insert("minLength".to_owned(), 1.into());
        }
        // Most numbers of Kubernetes count something.
        Some("integer") if !BOUNDS.iter().any(|key| kept.contains_key(*key)) => {
            kept.insert("minimum".to_owned(), 1.into());
        }
        Some("object") => {
            let inner = schema.get("additionalProperties").cloned().unwrap_or(Json::Bool(true));
            kept.insert("additionalProperties".to_owned(), plain(inner));
        }
        _ => {}
    }
    kept.into()
}

/// A reference leads nowhere in the schema of a spec.
fn plain(schema: Json) -> Json {
    match schema.get("$ref") {
        Some(_) => json!({ "type": "string" }),
        None => schema,
    }
}

fn map(members: &Map<String, Json>, depth: usize, out: &mut String) {
    for (key, value) in members {
        let indent = "  ".repeat(depth);
        match value {
            Json::Object(inner) if !inner.is_empty() => {
                out.push_str(&format!("{indent}{key}:\n"));
                map(inner, depth + 1, out);
            }
            Json::Array(items)
                if items.iter().all(|item| item.as_object().is_some_and(|item| !item.is_empty())) =>
            {
                out.push_str(&format!("{indent}{key}:\n"));
                for item in items.iter().filter_map(Json::as_object) {
                    let mut text = String::new();
                    map(item, depth + 2, &mut text);
                    out.push_str(&format!("{indent}  - {}", text.trim_start()));
                }
            }
            Json::String(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '/' || c == '.') => {
                out.push_str(&format!("{indent}{key}: {text}\n"));
            }
            // JSON is YAML.
            other => out.push_str(&format!("{indent}{key}: {other}\n")),
        }
    }
}
