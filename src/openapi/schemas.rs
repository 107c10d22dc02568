//! Schemas of a service type: its spec, what may be sent, what is answered, and its health.

use serde_json::{Map, Value, json};

use super::{pascal, reference};
use crate::engine::expression::Expression;
use crate::engine::json::unescape;
use crate::engine::service::Service;
use crate::engine::types::Form;

/// Members of an answer that the engine writes, and no request may set.
const HEADER: [&str; 6] = ["id", "path", "status", "status_message", "create_time", "update_time"];

/// Keywords whose schemas all speak of the same document.
const BRANCHES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// How deep schemas are followed: references may be circular.
const DEEPEST: usize = 16;

pub(super) fn of_type(service: &Service, schemas: &mut Map<String, Value>) {
    let name = &service.service_type;
    let mut view =
        service.view.as_ref().map(|view| view.template.schema(&of_expression)).unwrap_or(json!({}));
    let mut spec = document(name, "spec", &service.schema.document, schemas);
    // What the view writes into the spec is for reading only, and so is what it puts beside it.
    let mut beside = view.get_mut("properties").map(Value::take).unwrap_or(json!({}));
    let mut over = json!({});
    if let Some(members) = beside.as_object_mut() {
        over = members.shift_remove("spec").unwrap_or(over);
        members.retain(|member, _| !HEADER.contains(&member.as_str()));
        members.values_mut().for_each(mark_read_only);
    }
    let answered = answered(service, &spec, schemas).map(|mut answered| {
        lay_read_only(&mut answered, &over);
        schemas.insert(format!("{name}-answered-spec"), answered);
        format!("{name}-answered-spec")
    });
    lay_read_only(&mut spec, &over);
    schemas.insert(format!("{name}-spec"), spec);
    let answered = answered.unwrap_or(format!("{name}-spec"));
    schemas.insert(name.clone(), resource(service, &answered, &beside));
    schemas.insert(format!("{name}-create"), both_forms(&format!("{name}-spec"), &beside));
    schemas.insert(format!("{name}-list"), list(service));
    schemas.insert(format!("{name}-health"), health(service));
    if let Some(update) = &service.update {
        let change = document(name, "change", &update.schema.document, schemas);
        schemas.insert(format!("{name}-change"), change);
        let wrapped = json!({
            "type": "object", "required": ["spec"], "additionalProperties": false,
            "properties": { "spec": reference("schemas", &format!("{name}-change")) },
        });
        let forms = json!({ "oneOf": [wrapped, reference("schemas", &format!("{name}-change"))] });
        schemas.insert(format!("{name}-update"), forms);
    }
}

/// A schema file as a component: its definitions become components of their own.
fn document(name: &str, part: &str, file: &Value, schemas: &mut Map<String, Value>) -> Value {
    let mut schema = file.clone();
    let definitions = schema.as_object_mut().and_then(|schema| {
        schema.shift_remove("$schema");
        schema.shift_remove("$id");
        schema.shift_remove("$defs")
    });
    let rename = |reference: &str| match reference.strip_prefix("#/$defs/") {
        Some(definition) => format!("#/components/schemas/{name}-{definition}"),
        None => reference.replacen('#', &format!("#/components/schemas/{name}-{part}"), 1),
    };
    if let Some(Value::Object(definitions)) = definitions {
        for (definition, mut schema) in definitions {
            rename_references(&mut schema, &rename);
            schemas.insert(format!("{name}-{definition}"), schema);
        }
    }
    rename_references(&mut schema, &rename);
    schema
}

fn rename_references(schema: &mut Value, rename: &impl Fn(&str) -> String) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("$ref", Value::String(reference)) => *reference = rename(reference),
                    // Values, not schemas: what looks like a reference in them is none.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    (_, value) => rename_references(value, rename),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_references(item, rename)),
        _ => {}
    }
}

/// The spec as it is answered, where a view omits members that a caller sends.
fn answered(service: &Service, spec: &Value, schemas: &Map<String, Value>) -> Option<Value> {
    let omitted = &service.view.as_ref()?.omit;
    let mut answered = spec.clone();
    for pointer in omitted.iter().filter_map(|pointer| pointer.strip_prefix("/spec/")) {
        let keys: Vec<String> = pointer.split('/').map(unescape).collect();
        omit(&mut answered, &keys, schemas, 0);
    }
    (answered != *spec).then_some(answered)
}

/// Leaves a member out of a schema, in each of its branches. A definition that others share is copied first.
fn omit(schema: &mut Value, keys: &[String], schemas: &Map<String, Value>, depth: usize) {
    let (Some((key, rest)), true) = (keys.split_first(), depth < DEEPEST) else { return };
    if !names(schema, key, schemas, depth) {
        return;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str)
        && let Some(shared) =
            reference.strip_prefix("#/components/schemas/").and_then(|name| schemas.get(name))
    {
        let mut own = schema.clone();
        let members = own.as_object_mut();
        members.map(|members| members.shift_remove("$ref"));
        let mut copy = shared.clone();
        omit(&mut copy, keys, schemas, depth + 1);
        omit(&mut own, keys, schemas, depth + 1);
        *schema = if own == json!({}) { copy } else { json!({ "allOf": [copy, own] }) };
        return;
    }
    let Some(members) = schema.as_object_mut() else { return };
    for branches in BRANCHES {
        let branches = members.get_mut(branches).and_then(Value::as_array_mut);
        branches.into_iter().flatten().for_each(|branch| omit(branch, keys, schemas, depth + 1));
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    if !rest.is_empty() {
        let property = properties.and_then(|properties| properties.get_mut(key));
        property.into_iter().for_each(|property| omit(property, rest, schemas, depth + 1));
        return;
    }
    properties.map(|properties| properties.shift_remove(key));
    if let Some(required) = members.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str() != Some(key));
    }
}

/// Whether a schema says anything of a member.
fn names(schema: &Value, key: &str, schemas: &Map<String, Value>, depth: usize) -> bool {
    let shared = schema.get("$ref").and_then(Value::as_str);
    let shared = shared.and_then(|name| schemas.get(name.strip_prefix("#/components/schemas/")?));
    let branches = BRANCHES.iter().filter_map(|name| schema.get(name)?.as_array()).flatten();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    schema.get("properties").is_some_and(|properties| properties.get(key).is_some())
        || required.into_iter().any(|name| name.as_str() == Some(key))
        || (depth < DEEPEST && branches.chain(shared).any(|inner| names(inner, key, schemas, depth + 1)))
}

/// Lays what a view writes over the schema of what a caller sends.
fn lay_read_only(schema: &mut Value, over: &Value) {
    let Some(members) = over.get("properties").and_then(Value::as_object) else { return };
    let Some(schema) = schema.as_object_mut() else { return };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for (name, over) in members {
        match properties.get_mut(name) {
            Some(property) => lay_read_only(property, over),
            None => {
                let mut property = over.clone();
                mark_read_only(&mut property);
                properties[name] = property;
            }
        }
    }
}

fn mark_read_only(schema: &mut Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("readOnly".to_owned(), true.into());
    }
}

/// What is known of a view's lone expression: the forms that its value may have.
fn of_expression(expression: &Expression) -> Value {
    let Some(forms) = expression.gives.forms() else { return json!({}) };
    let mut types: Vec<&str> = forms.into_iter().flat_map(json_types).copied().collect();
    types.sort_unstable();
    types.dedup();
    match types.as_slice() {
        [] => json!({}),
        [only] => json!({ "type": only }),
        several => json!({ "type": several }),
    }
}

fn json_types(form: Form) -> &'static [&'static str] {
    match form {
        Form::Text => &["string"],
        Form::Number => &["number"],
        Form::Bool => &["boolean"],
        // An amount is written either way.
        Form::Quantity => &["number", "string"],
        Form::List => &["array"],
        Form::Map => &["object"],
    }
}

fn resource(service: &Service, spec: &str, beside: &Value) -> Value {
    let name = &service.service_type;
    let mut properties = header(service);
    properties.insert("spec".to_owned(), reference("schemas", spec));
    if let Some(beside) = beside.as_object() {
        properties.extend(beside.clone());
    }
    json!({
        "type": "object",
        "title": pascal(name),
        "description": format!("An instance of the service type {name}."),
        "required": HEADER.iter().chain(&["spec"]).collect::<Vec<_>>(),
        "properties": properties,
        "x-aep-resource": {
            "type": format!("k8s-{name}-service-provider.dcm.io/{name}"),
            "singular": name,
            "plural": service.collection,
            "patterns": [format!("{}/{{{}_id}}", service.collection, name.replace('-', "_"))],
        },
    })
}

fn header(service: &Service) -> Map<String, Value> {
    let time = |what: &str| json!({ "type": "string", "format": "date-time", "readOnly": true, "description": what });
    let members = [
        json!({ "type": "string", "readOnly": true, "description": "The instance's id." }),
        json!({
            "type": "string", "readOnly": true,
            "description": format!("The resource's path: {}/<id>.", service.collection),
        }),
        json!({ "type": "string", "readOnly": true, "enum": service.status.values }),
        json!({ "type": "string", "readOnly": true, "description": "The cause of the status, in words." }),
        time("When it was created, in UTC."),
        time("When it last changed by itself, in UTC."),
    ];
    HEADER.iter().map(|name| (*name).to_owned()).zip(members).collect()
}

/// A body that holds the spec under `spec`, or is the spec. Read-only members are refused in both.
fn both_forms(spec: &str, beside: &Value) -> Value {
    let mut read_only: Map<String, Value> =
        HEADER.iter().map(|name| ((*name).to_owned(), json!({ "readOnly": true }))).collect();
    let beside = beside.as_object().into_iter().flat_map(Map::keys);
    read_only.extend(beside.map(|name| (name.clone(), json!({ "readOnly": true }))));
    let mut wrapped = read_only.clone();
    wrapped.insert("spec".to_owned(), reference("schemas", spec));
    json!({
        "oneOf": [
            {
                "title": "Wrapped",
                "type": "object", "required": ["spec"], "additionalProperties": false, "properties": wrapped,
            },
            {
                "title": "Bare",
                "allOf": [reference("schemas", spec), { "type": "object", "properties": read_only }],
            },
        ],
    })
}

fn list(service: &Service) -> Value {
    let mut properties = Map::new();
    let items = reference("schemas", &service.service_type);
    properties.insert(service.list_key.clone(), json!({ "type": "array", "items": items }));
    let token = json!({
        "type": "string", "minLength": 1,
        "description": "The `page_token` of the next page; absent on the last one.",
    });
    properties.insert("next_page_token".to_owned(), token);
    json!({ "type": "object", "required": [service.list_key], "properties": properties })
}

/// The health of the provider: the worst of its service types, and each of them.
pub(super) fn provider_health(services: &[&Service]) -> Value {
    let mut schema = health_document("k8s-service-provider.dcm.io/health");
    let each: Vec<Value> = services
        .iter()
        .map(|service| reference("schemas", &format!("{}-health", service.service_type)))
        .collect();
    schema["properties"]["services"] = json!({ "type": "array", "items": { "anyOf": each } });
    schema
}

fn health(service: &Service) -> Value {
    let name = &service.service_type;
    let mut schema = health_document(&format!("k8s-{name}-service-provider.dcm.io/health"));
    let count = json!({ "type": "integer", "minimum": 0 });
    schema["properties"]["mapping_revision"] = json!({ "type": "string" });
    schema["properties"]["watches"] = json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["watch", "synced", "age_seconds", "objects", "skipped"],
            "properties": {
                "watch": { "type": "string" },
                "synced": { "type": "boolean" },
                "age_seconds": count,
                "objects": count,
                "skipped": count,
            },
        },
    });
    schema["properties"]["events"] = json!({
        "type": "object",
        "properties": { "owed": count, "ledger": { "type": "string" } },
    });
    schema["properties"]["registration"] = json!({
        "type": "object",
        "properties": {
            "status": { "enum": ["not tried yet", "registered", "refused", "unavailable"] },
            "attempts": count,
            "detail": { "type": ["string", "null"] },
        },
    });
    schema
}

/// The revision of all mapping files that is in use, and what became of a later one.
fn mappings() -> Value {
    let text_or_none = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "required": ["revision"],
        "properties": {
            "revision": { "type": "string", "description": "A digest of the files in use." },
            "refused": {
                "type": "object",
                "description": "What the files are now, where that does not check.",
                "properties": { "revision": text_or_none, "diagnostic": { "type": "string" } },
            },
            "waiting": {
                "type": "object",
                "description": "A sound revision whose watches have not read the cluster yet.",
                "properties": { "revision": { "type": "string" }, "why": text_or_none },
            },
        },
    })
}

fn health_document(kind: &str) -> Value {
    json!({
        "type": "object",
        "required": ["type", "status", "path", "version", "uptime"],
        "properties": {
            "type": { "const": kind },
            "status": { "enum": ["healthy", "unhealthy"] },
            "path": { "const": "health" },
            "version": { "type": "string" },
            "mappings": mappings(),
            "uptime": { "type": "integer", "minimum": 0, "description": "Seconds since the start." },
            "details": { "type": "array", "items": { "type": "string" }, "description": "What is wrong." },
        },
    })
}
