//! What stands below an object: its status, its scale, and what one may ask of a pod.

use hyper::Method;
use serde_json::{Value, json};

use super::api::{DeleteOptions, Target};
use super::object::{map_at, metadata, name, namespace, text, uid};
use super::patch;
use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::server::{Call, Server};

pub(super) fn answer(server: &Server, target: &Target, call: &Call) -> Result<Reply, Refusal> {
    if !target.kind.has(&target.subresource) {
        return Err(Refusal::no_such_path());
    }
    match (target.subresource.as_str(), &call.method) {
        ("status", &Method::GET) => Ok(server.shown(target, 200, server.api.get(target)?, call.form)),
        ("status", &Method::PUT) => server.replace(target, call),
        ("status", &Method::PATCH) => server.patch(target, call),
        ("scale", &Method::GET) => Ok(reply::json(200, &scale_of(&server.api.get(target)?))),
        ("scale", &Method::PUT | &Method::PATCH) => scale(server, target, call),
        ("eviction", &Method::POST) => evict(server, target, call),
        ("binding", &Method::POST) => bind(server, target, call),
        ("log", &Method::GET) => log(server, target),
        ("finalize", &Method::PUT) => finalize(server, target, call),
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn scale_of(object: &Value) -> Value {
    let selector = object["spec"]["selector"]["matchLabels"].as_object();
    let selector: Vec<String> = selector
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": name(object), "namespace": namespace(object), "uid": uid(object),
            "resourceVersion": object["metadata"]["resourceVersion"],
            "creationTimestamp": object["metadata"]["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"]},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector.join(",")},
    })
}

fn scale(server: &Server, target: &Target, call: &Call) -> Result<Reply, Refusal> {
    let sent = call.document()?;
    let whole = Target::new(target.kind.clone(), &target.namespace, &target.name);
    let change = |old: &Value| {
        let mut scale = scale_of(old);
        match (&call.method, call.media_type.as_str()) {
            (&Method::PUT, _) => scale = sent.clone(),
            (_, "application/json-patch+json") => patch::json_patch(&mut scale, &sent)?,
            _ => patch::merge(&mut scale, &sent),
        }
        let mut new = old.clone();
        let version = scale["metadata"]["resourceVersion"].clone();
        if version.is_string() {
            metadata(&mut new).insert("resourceVersion".to_owned(), version);
        }
        let replicas = scale["spec"]["replicas"].clone();
        map_at(&mut new, "spec")
            .insert("replicas".to_owned(), if replicas.is_null() { 0.into() } else { replicas });
        Ok(new)
    };
    let written = server.api.update(&whole, &call.write_options()?, &change)?;
    Ok(reply::json(200, &scale_of(&written.object)))
}

fn evict(server: &Server, target: &Target, call: &Call) -> Result<Reply, Refusal> {
    let dry_run = call.write_options()?.dry_run;
    server.api.delete(target, &DeleteOptions { dry_run, ..DeleteOptions::default() })?;
    Ok(reply::json(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

fn bind(server: &Server, target: &Target, call: &Call) -> Result<Reply, Refusal> {
    let node = text(&call.document()?, "/target/name").to_owned();
    let whole = Target::new(target.kind.clone(), &target.namespace, &target.name);
    let change = |old: &Value| {
        let mut new = old.clone();
        map_at(&mut new, "spec").insert("nodeName".to_owned(), node.clone().into());
        Ok(new)
    };
    server.api.update(&whole, &call.write_options()?, &change)?;
    Ok(reply::json(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// Nothing runs here, so there is one line that says so.
fn log(server: &Server, target: &Target) -> Result<Reply, Refusal> {
    let pod = server.api.get(target)?;
    let running = text(&pod, "/status/phase") != "Pending";
    let container = text(&pod, "/spec/containers/0/name").to_owned();
    if !running {
        let text = format!(
            "container {container:?} in pod {:?} is waiting to start: ContainerCreating",
            target.name
        );
        return Err(Refusal::bad_request(text));
    }
    let text = format!("{}: {container} is pretended by the sandbox; it writes nothing\n", target.name);
    Ok(reply::text(200, "text/plain", text))
}

/// Takes finalizers of a namespace's spec away.
fn finalize(server: &Server, target: &Target, call: &Call) -> Result<Reply, Refusal> {
    let sent = call.document()?;
    let whole = Target::new(target.kind.clone(), &target.namespace, &target.name);
    let change = |old: &Value| {
        let mut new = old.clone();
        new["spec"]["finalizers"] = sent["spec"]["finalizers"].clone();
        Ok(new)
    };
    let written = server.api.update(&whole, &call.write_options()?, &change)?;
    Ok(reply::json(200, &written.object))
}
