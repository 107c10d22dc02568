//! A new mapping for a kind: the files that a platform engineer begins with.

mod manifest;

use serde_json::{Map, Value as Json, json};

use crate::inputs::MANAGED_BY;
use crate::kinds::{KindRow, Kinds};
use crate::names::DNS_LABEL;
use crate::samples::samples;
use crate::service::{Files, KindRef};
use crate::types::{Member, Type};

use manifest::Manifest;

/// Variables that every mapping has, and which an object must not be named like.
const TAKEN: [&str; 7] = ["spec", "settings", "dcm", "previous", "patch", "item", "labels"];

/// The files of a new mapping that passes `check`, under their names in a mapping root.
pub fn starter(service_type: &str, kind: &str, kinds: &Kinds) -> Result<Files, String> {
    if !DNS_LABEL.accepts(service_type) {
        return Err(format!("`{service_type}` is no name of a service type: small letters, digits and `-`"));
    }
    let (kind, row) = find(kind, kinds)?;
    if !row.namespaced {
        return Err(format!(
            "objects of the kind `{}` live in no namespace, and an instance does",
            kind.kind
        ));
    }
    if !row.verbs.iter().any(|verb| verb == "create") || !row.verbs.iter().any(|verb| verb == "watch") {
        return Err(format!(
            "the kind `{}` cannot be made and watched: the API server only {}",
            kind.kind,
            row.verbs.join("s, ")
        ));
    }
    let schema = kinds.schema(kind).ok_or_else(|| format!("nothing is known of the kind `{}`", kind.kind))?;
    let manifest = Manifest::of(kind, &schema);
    let names = Names::of(service_type, kind, row);
    let folder = format!("mappings/{service_type}");
    let mut files = Files::new();
    files.insert(format!("{folder}/mapping.toml"), mapping(&names, kind, &Type::schema(schema)));
    files.insert(format!("{folder}/{}", names.template), manifest.text);
    files.insert(format!("{folder}/README.md"), readme(&names, kind));
    let schema = spec_schema(service_type, manifest.inputs);
    files.extend(cases(&names, kind, &schema));
    files.insert(format!("schemas/{service_type}.json"), pretty(&schema));
    Ok(files)
}

/// Reads `apps/v1/Deployment`.
fn find<'k>(text: &str, kinds: &'k Kinds) -> Result<(&'k KindRef, &'k KindRow), String> {
    let (api_version, kind) = text
        .rsplit_once('/')
        .ok_or("a kind is written with its version: apps/v1/Deployment, or v1/Service")?;
    let wanted = KindRef { api_version: api_version.to_owned(), kind: kind.to_owned() };
    kinds.iter().find(|(known, _)| **known == wanted).ok_or_else(|| match kinds.nearest(&wanted) {
        Some(near) => {
            let near = format!("{}/{}", near.api_version, near.kind);
            format!("there is no kind `{text}`; did you mean `{near}`?")
        }
        None => format!("there is no kind `{text}`; a CustomResourceDefinition in schemas/crds/ adds one"),
    })
}

struct Names<'n> {
    service_type: &'n str,
    collection: String,
    /// The variable of the object, and its name within the mapping.
    object: String,
    template: String,
}

impl<'n> Names<'n> {
    fn of(service_type: &'n str, kind: &KindRef, row: &KindRow) -> Self {
        let mut object = words(&kind.kind, '_');
        if TAKEN.contains(&object.as_str()) {
            object.push_str("_object");
        }
        // The plural of the kind where the type is named like it, for the sake of words like `proxy`.
        let collection =
            match row.plural == format!("{service_type}s") || row.plural.starts_with(service_type) {
                true => row.plural.clone(),
                false => format!("{service_type}s"),
            };
        Self { service_type, collection, template: format!("{}.yaml", words(&kind.kind, '-')), object }
    }
}

/// `ReplicaSet` in small letters: `replica_set`. A run of capitals is one word: `CSINode` is `csi_node`.
pub(crate) fn words(name: &str, between: char) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| letters.get(before));
        let starts = before.is_some_and(|before| !before.is_uppercase())
            || before.is_some() && letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && starts && !out.ends_with(between) {
            out.push(between);
        }
        out.extend(letter.to_lowercase().map(|c| if c.is_ascii_alphanumeric() { c } else { between }));
    }
    out
}

fn mapping(names: &Names<'_>, kind: &KindRef, schema: &Type) -> String {
    let Names { service_type, collection, object, template } = names;
    let KindRef { api_version, kind } = kind;
    let fields = status_fields(schema, object);
    format!(
        r#"# {service_type}: one {kind} for each instance.
format         = "mapwright/v1"
service_type   = "{service_type}"
collection     = "{collection}"
schema         = "{service_type}.json"
schema_version = "v1alpha1"
operations     = ["CREATE", "READ", "DELETE"]

[let]
labels = "spec.metadata.labels | merge(dcm.labels)"

[[check]]
for_each = "key in spec.metadata.labels | list"
when     = "key in dcm.labels"
pointer  = "/spec/metadata/labels/{{{{ key | pointer }}}}"
detail   = "the label `{{{{ key }}}}` is set by the service and cannot be sent"

[[object]]
name     = "{object}"
template = "{template}"
root     = true

[[watch]]
name        = "{object}"
api_version = "{api_version}"
kind        = "{kind}"

[status]
values  = ["PENDING", "RUNNING", "FAILED", "DELETED"]
initial = "PENDING"
gone    = "DELETED"

# The first row that matches says the status. Write rows of your own between these.{fields}
[[status.rule]]
name    = "gone"
when    = "not {object}"
status  = "DELETED"
message = "the {kind} is gone"

[[status.rule]]
name = "being deleted"
when = "{object}.metadata.deletionTimestamp"
keep = true

[[status.rule]]
name    = "there"
status  = "RUNNING"
message = "the {kind} exists"
"#
    )
}

/// A comment that says what rules may read.
fn status_fields(schema: &Type, object: &str) -> String {
    let Member::Found(status) = schema.member("status") else {
        return String::new();
    };
    let mut fields = Vec::new();
    for alternative in status.alternatives().unwrap_or_default() {
        if let Type::Map(members) = alternative {
            fields.extend(members.named.iter().map(|(name, kind)| {
                let words = kind.texts();
                match words.list() {
                    [] => name.clone(),
                    words => format!("{name} ({})", words.join(", ")),
                }
            }));
        }
    }
    if fields.is_empty() {
        return String::new();
    }
    let mut text = format!("\n# Below `{object}.status` there are:");
    let mut width = 0;
    for (index, field) in fields.iter().enumerate() {
        let end = if index + 1 == fields.len() { "." } else { "," };
        if index == 0 || width + field.len() > 96 {
            text.push_str("\n#  ");
            width = 0;
        }
        text.push_str(&format!(" {field}{end}"));
        width += field.len() + 2;
    }
    text
}

fn readme(names: &Names<'_>, kind: &KindRef) -> String {
    let Names { service_type, .. } = names;
    format!(
        "# {service_type}\n\nOne {} for each instance. The spec is described in `schemas/{service_type}.json`; the status \
         table, with\nits messages, stands in `mapping.toml`.\n",
        kind.kind
    )
}

/// A case for the manifest, one for the check, and one for each row of the status table.
fn cases(names: &Names<'_>, kind: &KindRef, schema: &Json) -> Files {
    let Names { service_type, object, .. } = names;
    let KindRef { api_version, kind } = kind;
    let mut files = Files::new();
    let mut add = |case: &str, file: &str, text: String| {
        files.insert(format!("testdata/cases/{service_type}/{case}/{file}"), text);
    };
    let there = format!("apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: example-x\n");
    let status = "operation: status\n".to_owned();

    let assert = format!("assert:\n  - path: /manifests/{object}/kind\n    value: {kind}\n");
    add("a-spec-makes-its-object", "case.yaml", format!("operation: create\n{assert}"));
    let spec = samples(schema).into_iter().next().unwrap_or_default();
    add("a-spec-makes-its-object", "spec.json", pretty(&spec));

    let assert = "assert:\n  - path: /problem/status\n    value: 400\n  - path: /problem/detail\n    contains: is set by the service\n";
    add("a-label-of-the-service-is-refused", "case.yaml", format!("operation: create\n{assert}"));
    let mut spec = spec;
    spec["metadata"]["labels"] = json!({ MANAGED_BY: "me" });
    add("a-label-of-the-service-is-refused", "spec.json", pretty(&spec));

    add("an-object-that-is-there-is-running", "case.yaml", status.clone());
    add("an-object-that-is-there-is-running", "objects.yaml", there.clone());
    let golden = format!("status: RUNNING\nmessage: the {kind} exists\nrule: there\n");
    add("an-object-that-is-there-is-running", "status.yaml", golden);

    add("an-object-that-is-gone-is-deleted", "case.yaml", status);
    let golden = format!("status: DELETED\nmessage: the {kind} is gone\nrule: gone\n");
    add("an-object-that-is-gone-is-deleted", "status.yaml", golden);

    let previous = format!("previous:\n  status: RUNNING\n  message: the {kind} exists\n");
    let case = "an-object-that-is-being-deleted-keeps-its-status";
    add(case, "case.yaml", format!("operation: status\n{previous}"));
    add(case, "objects.yaml", format!("{there}  deletionTimestamp: \"2026-01-01T00:00:00Z\"\n"));
    add(case, "status.yaml", format!("status: RUNNING\nmessage: the {kind} exists\nrule: being deleted\n"));
    files
}

fn spec_schema(service_type: &str, inputs: Map<String, Json>) -> Json {
    let mut required = vec!["service_type".to_owned(), "metadata".to_owned()];
    required.extend(inputs.keys().cloned());
    let mut properties = Map::new();
    properties.insert("service_type".to_owned(), json!({ "const": service_type }));
    properties.insert("metadata".to_owned(), metadata());
    properties.extend(inputs);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("The spec of a {service_type}"),
        "type": "object",
        "required": required,
        "properties": properties,
    })
}

fn pretty(document: &Json) -> String {
    serde_json::to_string_pretty(document).map(|text| text + "\n").unwrap_or_default()
}

fn metadata() -> Json {
    json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {
                "description": "An RFC 1123 label.",
                "type": "string",
                "maxLength": 63,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            },
            "labels": {
                "description": "Kubernetes labels.",
                "type": "object",
                "propertyNames": {
                    "allOf": [{ "pattern": "^([^/]{1,253}/)?[^/]{1,63}$" }],
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
                },
                "additionalProperties": {
                    "type": "string",
                    "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_becomes_words() {
        for (kind, expected) in
            [("ReplicaSet", "replica_set"), ("CSINode", "csi_node"), ("Pod", "pod"), ("podIP", "pod_ip")]
        {
            assert_eq!(words(kind, '_'), expected);
        }
    }
}
