//! OpenAPI 3.1 of the REST surface, made from the mappings: what is served and what is printed are one text.

mod operations;
mod responses;
mod schemas;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::engine::service::Service;

/// The document of these services as it is served and printed: the same bytes for the same mappings,
/// whatever their order.
pub fn text<'s>(services: impl IntoIterator<Item = &'s Service>) -> String {
    let mut text = format!("{:#}", document(services));
    text.push('\n');
    text
}

/// The document of these services.
pub fn document<'s>(services: impl IntoIterator<Item = &'s Service>) -> Value {
    let mut services: Vec<&Service> = services.into_iter().collect();
    services.sort_by(|a, b| a.service_type.cmp(&b.service_type));
    let mut parts = Parts::default();
    operations::common(&services, &mut parts);
    for service in services {
        operations::of_type(service, &mut parts);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": info(),
        // Relative: where a provider is reached is not the mappings' to know.
        "servers": [{ "url": "/", "description": "This provider" }],
        "tags": parts.tags,
        "paths": parts.paths,
        "components": {
            "schemas": parts.schemas,
            "responses": parts.responses,
            "parameters": operations::parameters(),
            "headers": responses::headers(),
        },
    });
    prune(&mut document);
    document
}

/// What the service types add to the document, each in its order.
#[derive(Debug, Default)]
struct Parts {
    tags: Vec<Value>,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    responses: Map<String, Value>,
}

fn info() -> Value {
    json!({
        "title": "DCM service provider",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Service types on Kubernetes. Every answer carries an X-Request-Id; every error is a \
                        problem document (RFC 9457).",
        "contact": { "name": "The operator of this provider" },
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    })
}

/// Leaves out components that nothing refers to: a type without a list needs no page token.
fn prune(document: &mut Value) {
    loop {
        let mut used = BTreeSet::new();
        collect_references(document, &mut used);
        let Some(groups) = document.get_mut("components").and_then(Value::as_object_mut) else { return };
        let mut left_out = false;
        for (group, components) in groups {
            let Some(components) = components.as_object_mut() else { continue };
            let count = components.len();
            components.retain(|name, _| {
                let own = format!("#/components/{group}/{name}");
                used.iter().any(|used| used.strip_prefix(&own).is_some_and(|rest| !rest.starts_with(is_name)))
            });
            left_out |= components.len() < count;
        }
        if !left_out {
            return;
        }
    }
}

/// A character that a component's name may hold.
fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| collect_references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

/// A reference to a component.
fn reference(group: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{group}/{name}") })
}

/// `kube-manifest` as a part of an operation's id: `KubeManifest`.
fn pascal(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect()
}
