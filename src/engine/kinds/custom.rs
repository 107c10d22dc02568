//! CustomResourceDefinitions of a mapping root: kinds that its own clusters know.

use serde_json::{Map, Value as Json, json};

use super::KindRow;
use crate::diagnostic::Findings;
use crate::read::read;
use crate::service::{Files, KindRef};
use crate::source::{Kind, Source, Tree};

/// Where a mapping root keeps them.
const FOLDER: &str = "schemas/crds/";

/// The definition that carries labels and names.
const METADATA: &str = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub(super) struct Custom {
    pub(super) kind: KindRef,
    pub(super) row: KindRow,
    pub(super) schema: Json,
    /// The document that defines it.
    pub(super) document: Json,
}

pub(super) fn read_all(files: &Files, findings: &mut Findings) -> Vec<Custom> {
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with(FOLDER)) {
        let source = Source::new(path.clone(), text.clone());
        if let Some(tree) = read(&source, findings) {
            found.extend(kinds_of(&source, &tree, findings));
        }
    }
    found
}

/// One kind for each version that is served.
fn kinds_of(source: &Source, tree: &Tree, findings: &mut Findings) -> Vec<Custom> {
    let at = |path: &str| path.split('.').try_fold(tree, |here, key| here.get(key));
    let text = |path: &str| at(path).and_then(Tree::as_str).map(str::to_owned);
    let named = (text("spec.group"), text("spec.names.kind"), text("spec.names.plural"));
    let (Some(group), Some(kind), Some(plural)) = named else {
        return refuse(source, tree, findings, "spec.group, spec.names.kind and spec.names.plural");
    };
    let Some(Tree { kind: Kind::List(versions), .. }) = at("spec.versions") else {
        return refuse(source, tree, findings, "spec.versions");
    };
    let namespaced = text("spec.scope").as_deref() != Some("Cluster");
    let mut found = Vec::new();
    for version in versions {
        let Some(name) = version.get("name").and_then(Tree::as_str) else { continue };
        let schema =
            version.get("schema").and_then(|schema| schema.get("openAPIV3Schema")).map(Tree::to_json);
        let mut row = KindRow::new(&plural, namespaced, format!("{group}.{name}.{kind}"));
        row.subresources = match version.get("subresources").map(|tree| &tree.kind) {
            Some(Kind::Map(entries)) => entries.iter().map(|entry| entry.key.clone()).collect(),
            _ => Vec::new(),
        };
        let kind = KindRef { api_version: format!("{group}/{name}"), kind: kind.clone() };
        let schema = with_metadata(schema.unwrap_or_else(|| json!({})));
        found.push(Custom { kind, row, schema, document: tree.to_json() });
    }
    found
}

fn refuse(source: &Source, tree: &Tree, findings: &mut Findings, missing: &str) -> Vec<Custom> {
    let message = format!("a file in {FOLDER} is a CustomResourceDefinition with {missing}");
    findings.add(source, &tree.span, "malformed-crd", message);
    Vec::new()
}

/// What the API server itself adds to every custom object.
fn with_metadata(mut schema: Json) -> Json {
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        let mut all = Map::new();
        all.insert("apiVersion".to_owned(), json!({"type": "string"}));
        all.insert("kind".to_owned(), json!({"type": "string"}));
        all.extend(std::mem::take(properties));
        all.insert("metadata".to_owned(), json!({ "$ref": METADATA }));
        *properties = all;
    }
    schema
}
