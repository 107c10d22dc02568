//! Kubernetes' types as the API server describes them: its OpenAPI v3 documents, trimmed to what mappings need.

use std::collections::BTreeMap;

use hyper::Request;
use kube::Client;
use miniz_oxide::deflate::compress_to_vec_zlib;
use serde_json::{Map, Value, json};

use crate::failure::{Context, Result};

/// The kinds and definitions of one server, from its own documents.
#[derive(Debug, Default)]
pub struct Types {
    /// The version of the server, such as `v1.36.1`.
    pub version: String,
    /// `apps/v1` -> `Deployment` -> what discovery says of it.
    pub kinds: BTreeMap<String, BTreeMap<String, Value>>,
    /// `io.k8s.api.apps.v1.Deployment` -> its schema.
    pub definitions: BTreeMap<String, Value>,
}

impl Types {
    /// Asks a server for everything.
    pub async fn of(client: &Client) -> Result<Self> {
        let version = get(client, "/version").await?;
        let mut types = Self { version: text(&version["gitVersion"]), ..Self::default() };
        let index = get(client, "/openapi/v3").await?;
        for (path, entry) in index["paths"].as_object().into_iter().flatten() {
            let Some(api_version) = api_version_of(path) else { continue };
            let document = get(client, &text(&entry["serverRelativeURL"])).await?;
            let resources = get(client, &format!("/{path}")).await?;
            types.take(&api_version, &document, &resources);
        }
        types.keep_reachable();
        Ok(types)
    }

    /// The file that the product embeds: one line of JSON that says what is where, then the definitions, each
    /// package of them compressed by itself, so that a reader inflates only those that it needs.
    pub fn pack(&self) -> Vec<u8> {
        let mut packages: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
        for (name, schema) in &self.definitions {
            let package = name.rsplit_once('.').map_or("", |(package, _)| package);
            packages.entry(package).or_default().insert(name, schema);
        }
        let mut places = Map::new();
        let mut bytes = Vec::new();
        for (package, definitions) in packages {
            let packed = compress_to_vec_zlib(json!(definitions).to_string().as_bytes(), 10);
            places.insert(package.to_owned(), json!([bytes.len(), packed.len()]));
            bytes.extend(packed);
        }
        let index = json!({"version": self.version, "kinds": self.kinds, "packages": places});
        let mut pack = index.to_string().into_bytes();
        pack.push(b'\n');
        pack.extend(bytes);
        pack
    }

    fn take(&mut self, api_version: &str, document: &Value, resources: &Value) {
        let schemas = document["components"]["schemas"].as_object();
        let mut named: BTreeMap<String, &String> = BTreeMap::new();
        for (name, schema) in schemas.into_iter().flatten() {
            for row in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                if api_version == joined(&text(&row["group"]), &text(&row["version"])) {
                    named.insert(text(&row["kind"]), name);
                }
            }
            self.definitions.insert(name.clone(), trimmed(schema));
        }
        for resource in resources["resources"].as_array().into_iter().flatten() {
            let (plural, kind) = (text(&resource["name"]), text(&resource["kind"]));
            // A sub-resource (`pods/eviction`) is not a kind that a mapping makes or watches.
            if plural.contains('/') {
                continue;
            }
            let Some(definition) = named.get(&kind) else { continue };
            let below = format!("{plural}/");
            let names =
                resources["resources"].as_array().into_iter().flatten().map(|other| text(&other["name"]));
            let parts: Vec<String> =
                names.filter_map(|name| name.strip_prefix(&below).map(str::to_owned)).collect();
            let row = json!({
                "plural": plural,
                "namespaced": resource["namespaced"],
                "verbs": resource["verbs"],
                "subresources": parts,
                "short": resource["shortNames"].as_array().cloned().unwrap_or_default(),
                "schema": definition,
            });
            self.kinds.entry(api_version.to_owned()).or_default().insert(kind, row);
        }
    }

    /// Lists, options and answers of sub-resources are not reached from any kind.
    fn keep_reachable(&mut self) {
        let mut reached: BTreeMap<String, Value> = BTreeMap::new();
        let mut open: Vec<String> =
            self.kinds.values().flat_map(BTreeMap::values).map(|row| text(&row["schema"])).collect();
        while let Some(name) = open.pop() {
            let Some(schema) = self.definitions.get(&name) else { continue };
            reached.entry(name).or_insert_with(|| {
                references(schema, &mut open);
                schema.clone()
            });
        }
        self.definitions = reached;
    }
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    let request = Request::get(path).header("accept", "application/json").body(Vec::new())?;
    client.request(request).await.context(format!("GET {path}"))
}

/// `apis/apps/v1` is `apps/v1`, `api/v1` is `v1`; `apis/apps`, `version` and others describe no kinds.
fn api_version_of(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["api", version] => Some(version.to_owned()),
        ["apis", group, version] => Some(joined(group, version)),
        _ => None,
    }
}

fn joined(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What says something of a value. Descriptions are nine tenths of the documents.
const KEPT: [&str; 14] = [
    "type",
    "format",
    "enum",
    "required",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];

fn trimmed(schema: &Value) -> Value {
    let mut kept = Map::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "$ref" => {
                kept.insert(key.clone(), local(value));
            }
            // `allOf` with one reference is how a default stands beside a reference.
            "allOf" if value.as_array().is_some_and(|parts| parts.len() == 1) => {
                kept.extend(trimmed(&value[0]).as_object().cloned().unwrap_or_default());
            }
            "allOf" | "oneOf" | "anyOf" => {
                let parts: Vec<Value> = value.as_array().into_iter().flatten().map(trimmed).collect();
                kept.insert(key.clone(), parts.into());
            }
            "items" | "additionalProperties" if value.is_object() => {
                kept.insert(key.clone(), trimmed(value));
            }
            "properties" => {
                let members = value.as_object().into_iter().flatten();
                let members: Map<String, Value> =
                    members.map(|(name, schema)| (name.clone(), trimmed(schema))).collect();
                kept.insert(key.clone(), members.into());
            }
            _ if KEPT.contains(&key.as_str()) || value.is_boolean() && key == "additionalProperties" => {
                kept.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    kept.into()
}

/// A reference into the document that the product puts together for one kind.
fn local(reference: &Value) -> Value {
    text(reference).replace("#/components/schemas/", "#/$defs/").into()
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str().and_then(|target| target.strip_prefix("#/$defs/")) {
                    Some(name) if key == "$ref" => found.push(name.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}
