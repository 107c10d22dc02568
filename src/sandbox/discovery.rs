//! What is served, as clients ask for it: groups, their versions, their kinds, and the OpenAPI of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::kinds::{Kind, Kinds};

/// What `kubectl get all` shows.
const ALL: [&str; 10] = [
    "pods",
    "replicationcontrollers",
    "services",
    "daemonsets",
    "deployments",
    "replicasets",
    "statefulsets",
    "horizontalpodautoscalers",
    "cronjobs",
    "jobs",
];

/// Version and build, as `/version` tells.
pub(super) fn version(kinds: &Kinds) -> Value {
    let version = kinds.version.trim_start_matches('v');
    let mut parts = version.split('.');
    json!({
        "major": parts.next().unwrap_or_default(),
        "minor": parts.next().unwrap_or_default(),
        "gitVersion": kinds.version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "mapwright/sandbox",
    })
}

pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

pub(super) fn groups(kinds: &Kinds) -> Value {
    let groups: Vec<Value> =
        versions(kinds).iter().filter(|(group, _)| !group.is_empty()).map(group_of).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(super) fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    let versions = versions(kinds);
    let mut group = group_of(versions.get_key_value(name).filter(|(name, _)| !name.is_empty())?);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// The kinds of one group version.
pub(super) fn group_version(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let found = of_version(kinds, group, version);
    let api_version = found.first()?.api_version();
    let mut resources = Vec::new();
    for kind in found {
        let mut resource = json!({
            "name": kind.plural,
            "singularName": kind.kind.to_lowercase(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": kind.verbs,
        });
        if !kind.short.is_empty() {
            resource["shortNames"] = json!(kind.short);
        }
        if ALL.contains(&kind.plural.as_str()) {
            resource["categories"] = json!(["all"]);
        }
        resources.push(resource);
        for subresource in &kind.subresources {
            let (group, version, name) = answered(&kind, subresource);
            let mut resource = json!({
                "name": format!("{}/{subresource}", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": name,
                "verbs": verbs_of(subresource),
            });
            if name != kind.kind {
                resource["group"] = group.into();
                resource["version"] = version.into();
            }
            resources.push(resource);
        }
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources,
    }))
}

/// All groups at once: those of `/api` or those of `/apis`.
pub(super) fn aggregated(kinds: &Kinds, core: bool) -> Value {
    let items: Vec<Value> = versions(kinds)
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        of_version(kinds, group, version).iter().map(|kind| aggregated_kind(kind)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_kind(kind: &Kind) -> Value {
    let answer = |(group, version, kind): (String, String, String)| json!({"group": group, "version": version, "kind": kind});
    let below: Vec<Value> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let responds = answer(answered(kind, subresource));
            json!({"subresource": subresource, "responseKind": responds, "verbs": verbs_of(subresource)})
        })
        .collect();
    let mut row = json!({
        "resource": kind.plural,
        "responseKind": answer((kind.group.clone(), kind.version.clone(), kind.kind.clone())),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.kind.to_lowercase(),
        "verbs": kind.verbs,
        "shortNames": kind.short,
        "subresources": below,
    });
    if ALL.contains(&kind.plural.as_str()) {
        row["categories"] = json!(["all"]);
    }
    row
}

/// The kind of a subresource's answers.
fn answered(kind: &Kind, subresource: &str) -> (String, String, String) {
    let of = |group: &str, version: &str, kind: &str| (group.to_owned(), version.to_owned(), kind.to_owned());
    match subresource {
        "scale" => of("autoscaling", "v1", "Scale"),
        "eviction" => of("policy", "v1", "Eviction"),
        "token" => of("authentication.k8s.io", "v1", "TokenRequest"),
        "binding" => of("", "v1", "Binding"),
        _ => of(&kind.group, &kind.version, &kind.kind),
    }
}

fn verbs_of(subresource: &str) -> &'static [&'static str] {
    match subresource {
        "eviction" | "binding" | "token" => &["create"],
        "log" => &["get"],
        "finalize" => &["update"],
        "attach" | "exec" | "portforward" | "proxy" => &["create", "get"],
        _ => &["get", "patch", "update"],
    }
}

fn group_of((name, versions): (&String, &Vec<String>)) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let preferred = versions.first().map(version);
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

fn versions(kinds: &Kinds) -> BTreeMap<String, Vec<String>> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in kinds.all() {
        let known = versions.entry(kind.group.clone()).or_default();
        if !known.contains(&kind.version) {
            known.push(kind.version.clone());
        }
    }
    versions
}

fn of_version(kinds: &Kinds, group: &str, version: &str) -> Vec<Arc<Kind>> {
    kinds.all().into_iter().filter(|kind| kind.group == group && kind.version == version).collect()
}

/// Where the OpenAPI of each group version is.
pub(super) fn openapi(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for (group, versions) in versions(kinds) {
        for version in versions {
            let root =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let place = json!({"serverRelativeURL": format!("/openapi/v3/{root}?hash={}", kinds.version)});
            paths.insert(root, place);
        }
    }
    json!({"paths": paths})
}

/// The OpenAPI of one group version: its kinds' definitions, and enough of its paths that kubectl finds what
/// the server takes.
pub(super) fn openapi_of(kinds: &Kinds, root: &str) -> Option<Value> {
    let (group, version) = match root.split('/').collect::<Vec<_>>()[..] {
        ["api", version] => ("", version),
        ["apis", group, version] => (group, version),
        _ => return None,
    };
    let found = of_version(kinds, group, version);
    if found.is_empty() {
        return None;
    }
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for kind in &found {
        take(kinds, kind.definition(), &mut schemas);
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        if let Some(schema) = schemas.get_mut(&component(kind.definition())) {
            schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        }
        let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let patch = json!({
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": gvk,
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        });
        paths.insert(format!("/{root}{scope}/{}/{{name}}", kind.plural), json!({"patch": patch}));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kinds.version},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn component(definition: &str) -> String {
    definition.replace('/', ".")
}

fn take(kinds: &Kinds, name: &str, schemas: &mut Map<String, Value>) {
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        if schemas.contains_key(&component(&name)) {
            continue;
        }
        let definition = kinds.definition(&name).map(|definition| (*definition).clone());
        let mut definition = definition.unwrap_or_else(|| json!({"type": "object"}));
        relocate(&mut definition, &mut open);
        schemas.insert(component(&name), definition);
    }
}

fn relocate(schema: &mut Value, open: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                let target =
                    value.as_str().and_then(|target| target.strip_prefix("#/$defs/")).map(str::to_owned);
                match target.filter(|_| key == "$ref") {
                    Some(name) => {
                        *value = format!("#/components/schemas/{}", component(&name)).into();
                        open.push(name);
                    }
                    None => relocate(value, open),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| relocate(item, open)),
        _ => {}
    }
}
