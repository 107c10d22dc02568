//! The same requests to the real API server and to the sandbox: the same codes, reasons and objects, after names,
//! uids, times, versions and addresses are masked.

use http_body_util::BodyExt as _;
use hyper::{Method, Request};
use kube::client::Body;

use super::*;

/// One request: method, path, media type (empty for JSON) and body.
type Asked<'a> = (&'a str, &'a str, &'a str, Value);

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// What stands for the namespace of each server.
const PLACE: &str = "NAMESPACE";

#[tokio::test]
async fn the_sandbox_answers_as_the_real_server_does() {
    if is_sandbox() {
        return;
    }
    let shared = Shared::get().await.unwrap();
    let real = shared.client().await.unwrap();
    let place = shared.namespace("difference").await.unwrap();
    let fixture = Fixture::start(false).await;
    let pretended = mapwright_testbed::control_plane::client(&fixture.kubeconfig).await.unwrap();
    let namespace = json!({ "metadata": { "name": place } });
    fixture.http().post("/api/v1/namespaces", &namespace).await.unwrap();
    let mut differences = Vec::new();
    for asked in sequence() {
        let (expected, _) = ask(&real, &asked, &place).await;
        let (found, _) = ask(&pretended, &asked, &place).await;
        if expected != found {
            differences.push(format!(
                "{} {} {}\n  real    {expected}\n  sandbox {found}",
                asked.0, asked.1, asked.3
            ));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// The request that is meant, in the namespace of one server.
pub(super) fn request(asked: &Asked<'_>, place: &str) -> Request<Body> {
    let (method, path, media, body) = asked;
    let media = if media.is_empty() { "application/json" } else { media };
    let body = if body.is_null() { Vec::new() } else { body.to_string().replace(PLACE, place).into_bytes() };
    Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path.replace(PLACE, place))
        .header("content-type", media)
        .body(Body::from(body))
        .unwrap()
}

/// The answer without what differs by its nature, and the version that it bears.
pub(super) async fn ask(client: &kube::Client, asked: &Asked<'_>, place: &str) -> (Value, Option<String>) {
    let answer = client.send(request(asked, place)).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let mut document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let version = document.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
    mask(&mut document, "");
    (json!({ "code": code, "body": document }), version)
}

/// Members that differ by their nature, or that stand in the list of what differs on purpose.
pub(super) fn mask(value: &mut Value, key: &str) {
    match value {
        Value::Object(members) => {
            for gone in [
                "continue",
                "managedFields",
                "resourceVersion",
                "selfLink",
                "uid",
                "clusterIP",
                "clusterIPs",
                "nodePort",
            ] {
                members.shift_remove(gone);
            }
            // Several rooms of the real server judge the same; how often one fault is named is chance.
            if let Some(Value::Array(causes)) = members.get_mut("causes") {
                let mut named = Vec::new();
                causes.retain(|cause| {
                    !named.contains(cause) && {
                        named.push(cause.clone());
                        true
                    }
                });
            }
            members.iter_mut().for_each(|(key, value)| mask(value, key));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, key)),
        Value::String(text) if key.ends_with("Timestamp") || key.ends_with("Time") => "TIME".clone_into(text),
        Value::String(text) if key == "name" && text.starts_with("gen-") => "gen-X".clone_into(text),
        // What Go prints of its structs, and ids and versions in a message, are nobody's contract.
        Value::String(text) if key == "message" => {
            let end = text.find("\n@@").unwrap_or(text.len());
            text.truncate(end);
            // A document within a message holds the bookkeeping of its server.
            if let (Some(from), Some(to)) = (text.find("\"{"), text.rfind("}\"")) {
                text.replace_range(from..to + 2, "DOCUMENT");
            }
            *text = without_ids(text);
        }
        _ => {}
    }
}

fn without_ids(text: &str) -> String {
    let word = |word: &str| {
        let id = word.trim_matches(|c: char| "()\".,".contains(c));
        let hex = id.len() == 36 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let number = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
        if hex || number { "ID".to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "mark": "yes" } }, "data": { "k": "1" } })
}

fn deployment(change: Value) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{
                "name": "m", "image": "x:1", "ports": [{ "containerPort": 80 }],
                "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
            }] } },
        },
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        deployment["spec"][key] = value.clone();
    }
    deployment
}

fn sequence() -> Vec<Asked<'static>> {
    [plain_objects(), deletions(), workloads(), services_and_claims()].concat()
}

const MAPS: &str = "/api/v1/namespaces/NAMESPACE/configmaps?fieldManager=m&fieldValidation=Strict";
const MAP: &str = "/api/v1/namespaces/NAMESPACE/configmaps/a";

fn plain_objects() -> Vec<Asked<'static>> {
    let mut misspelt = config_map("b");
    misspelt["dta"] = json!({});
    let mut wrong = config_map("b");
    wrong["data"]["k"] = json!(1);
    let named = |metadata: Value| json!({ "metadata": metadata });
    vec![
        ("POST", MAPS, "", config_map("a")),
        ("POST", MAPS, "", config_map("a")),
        ("GET", MAP, "", Value::Null),
        ("GET", "/api/v1/namespaces/NAMESPACE/configmaps/zz", "", Value::Null),
        ("GET", "/api/v1/namespaces/NAMESPACE/configmaps?labelSelector=mark%3Dyes", "", Value::Null),
        ("GET", "/api/v1/namespaces/NAMESPACE/configmaps?fieldSelector=metadata.name%3Da", "", Value::Null),
        ("GET", "/api/v1/namespaces/NAMESPACE/configmaps?fieldSelector=spec.x%3Dy", "", Value::Null),
        ("PATCH", MAP, MERGE, json!({ "data": { "k": "2", "l": null } })),
        ("PATCH", MAP, MERGE, json!({ "metadata": { "resourceVersion": "1" }, "data": { "k": "3" } })),
        ("PATCH", MAP, JSON_PATCH, json!([{ "op": "test", "path": "/data/k", "value": "9" }])),
        ("PATCH", MAP, JSON_PATCH, json!([{ "op": "add", "path": "/data/z", "value": "9" }])),
        ("PUT", MAP, "", named(json!({ "name": "a", "resourceVersion": "1" }))),
        ("PUT", MAP, "", config_map("b")),
        ("PUT", MAP, "", config_map("a")),
        ("PUT", "/api/v1/namespaces/NAMESPACE/configmaps/nope", "", config_map("nope")),
        ("POST", MAPS, "", misspelt),
        ("POST", MAPS, "", wrong),
        ("POST", MAPS, "", config_map("B_")),
        ("POST", MAPS, "", named(json!({ "name": "b", "labels": { "-x": "y z" } }))),
        ("POST", MAPS, "", named(json!({}))),
        ("POST", MAPS, "", named(json!({ "generateName": "gen-" }))),
        ("POST", MAPS, "", named(json!({ "name": "b", "namespace": "other" }))),
        ("POST", "/api/v1/namespaces/NAMESPACE/configmaps?dryRun=All", "", config_map("dry")),
        ("POST", "/api/v1/namespaces/NAMESPACE/configmaps?dryRun=Some", "", config_map("dry")),
        ("POST", "/api/v1/namespaces/nope/configmaps", "", config_map("a")),
        ("GET", "/api/v1/namespaces/NAMESPACE/nopes", "", Value::Null),
        ("GET", "/api/v1/namespaces/NAMESPACE/configmaps/a/status", "", Value::Null),
        ("POST", MAP, "", config_map("a")),
    ]
}

fn deletions() -> Vec<Asked<'static>> {
    let hold = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers } });
    let other = json!({ "preconditions": { "uid": "00000000-0000-0000-0000-000000000000" } });
    vec![
        ("DELETE", MAP, "", other),
        ("DELETE", MAP, "", json!({ "preconditions": { "resourceVersion": "1" } })),
        ("DELETE", MAP, "", json!({ "propagationPolicy": "Wrong" })),
        ("PATCH", MAP, MERGE, hold(json!(["x.y/z"]))),
        ("DELETE", MAP, "", json!({ "propagationPolicy": "Background" })),
        ("POST", MAPS, "", config_map("a")),
        ("PATCH", MAP, MERGE, hold(json!([]))),
        ("DELETE", MAP, "", Value::Null),
        ("POST", MAPS, "", config_map("a")),
        ("DELETE", MAP, "", Value::Null),
    ]
}

fn workloads() -> Vec<Asked<'static>> {
    const ALL: &str = "/apis/apps/v1/namespaces/NAMESPACE/deployments?fieldValidation=Strict";
    const ONE: &str = "/apis/apps/v1/namespaces/NAMESPACE/deployments/web";
    const POD: &str = "/api/v1/namespaces/NAMESPACE/pods/pod";
    let image =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "m", "image": "y:2" }] } } } });
    let pod =
        json!({ "metadata": { "name": "pod" }, "spec": { "containers": [{ "name": "m", "image": "x" }] } });
    let bad = json!({ "metadata": { "name": "bad" }, "spec": { "replicas": -1, "selector": {},
        "template": { "spec": { "containers": [] } } } });
    vec![
        ("POST", "/apis/apps/v1/namespaces/NAMESPACE/deployments?dryRun=All", "", deployment(json!({}))),
        ("POST", ALL, "", bad),
        ("POST", ALL, "", deployment(json!({ "selector": { "matchLabels": { "a": "c" } } }))),
        ("POST", ALL, "", deployment(json!({ "replicas": "x" }))),
        ("PATCH", ONE, STRATEGIC, image),
        ("POST", "/api/v1/namespaces/NAMESPACE/pods", "", pod.clone()),
        (
            "PATCH",
            "/api/v1/namespaces/NAMESPACE/pods/pod/status",
            MERGE,
            json!({ "status": { "phase": "Running" } }),
        ),
        ("PATCH", POD, STRATEGIC, json!({ "spec": { "containers": [{ "name": "m", "image": "y" }] } })),
        ("PATCH", POD, MERGE, json!({ "spec": { "hostNetwork": true } })),
        ("DELETE", POD, "", Value::Null),
    ]
}

fn services_and_claims() -> Vec<Asked<'static>> {
    const SERVICES: &str = "/api/v1/namespaces/NAMESPACE/services";
    const CLAIMS: &str = "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims";
    let service = |name: &str, kind: &str, ports: Value| {
        json!({ "metadata": { "name": name },
            "spec": { "type": kind, "selector": { "a": "b" }, "ports": ports } })
    };
    let claim = |name: &str, size: &str| {
        json!({ "metadata": { "name": name }, "spec": { "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none", "resources": { "requests": { "storage": size } } } })
    };
    vec![
        ("POST", SERVICES, "", service("s", "LoadBalancer", json!([{ "port": 80, "targetPort": "q" }]))),
        ("POST", SERVICES, "", service("s2", "ClusterIP", json!([]))),
        ("POST", SERVICES, "", service("s3", "ClusterIP", json!([{ "port": 0 }]))),
        (
            "PATCH",
            "/api/v1/namespaces/NAMESPACE/services/s",
            MERGE,
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ),
        ("DELETE", "/api/v1/namespaces/NAMESPACE/services/s", "", Value::Null),
        ("POST", "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims?dryRun=All", "", claim("p", "2048Mi")),
        ("POST", CLAIMS, "", claim("p", "0")),
        ("POST", CLAIMS, "", claim("p", "ten")),
        (
            "POST",
            "/api/v1/namespaces/NAMESPACE/secrets",
            "",
            json!({ "metadata": { "name": "s" }, "stringData": { "a": "b" } }),
        ),
        ("GET", "/api/v1/namespaces/NAMESPACE/secrets/s", "", Value::Null),
    ]
}
