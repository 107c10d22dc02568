//! Quotas: what an object counts for, what a namespace has used, and what goes beyond.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::api::Api;
use super::kinds::Kind;
use super::object::{list, name, namespace, text};
use super::quantity;
use super::refusal::Refusal;
use super::store::Store;

/// Amounts in thousandths, by the names that quotas use.
type Usage = BTreeMap<String, i128>;

/// A resource of which there would be too much: its name, what was asked for, what is used, and the limit.
type Beyond<'q> = (&'q String, i128, i128, &'q str);

/// Counts an object against every quota of its namespace, or refuses it.
pub(super) fn charge(
    store: &mut Store,
    kind: &Kind,
    old: Option<&Value>,
    object: &Value,
    dry_run: bool,
) -> Result<(), Refusal> {
    let quotas: Vec<Value> =
        store.all("resourcequotas", namespace(object)).map(|stored| stored.object()).collect();
    if quotas.is_empty() || kind.kind == "ResourceQuota" || kind.kind == "Event" {
        return Ok(());
    }
    let mut delta = usage(kind, object);
    for (resource, amount) in old.map(|old| usage(kind, old)).unwrap_or_default() {
        *delta.entry(resource).or_default() -= amount;
    }
    delta.retain(|_, amount| *amount > 0);
    for quota in &quotas {
        check(kind, object, quota, &delta, old.is_none())?;
    }
    for mut quota in quotas.into_iter().filter(|_| !dry_run && !delta.is_empty()) {
        if quota["status"]["hard"].is_object() && add(&mut quota, &delta) {
            store.put(&"resourcequotas".into(), quota)?;
        }
    }
    Ok(())
}

fn check(kind: &Kind, object: &Value, quota: &Value, delta: &Usage, new: bool) -> Result<(), Refusal> {
    let hard = quota["status"]["hard"].as_object().cloned().unwrap_or_default();
    if kind.is("", "Pod") && new {
        check_said(kind, object, quota, &hard)?;
    }
    let mut beyond: Vec<Beyond<'_>> = Vec::new();
    for (resource, limit) in &hard {
        let Some(asked) = delta.get(resource) else { continue };
        let used = thousandths(&quota["status"]["used"][resource]);
        let limit = limit.as_str().unwrap_or_default();
        if used + asked > quantity::amount(limit, 3) {
            beyond.push((resource, *asked, used, limit));
        }
    }
    if beyond.is_empty() {
        return Ok(());
    }
    beyond.sort();
    let pairs = |value: fn(&Beyond<'_>) -> String| {
        let pairs: Vec<String> = beyond.iter().map(|row| format!("{}={}", row.0, value(row))).collect();
        pairs.join(",")
    };
    let why = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        name(quota),
        pairs(|row| quantity::of_thousandths(row.1, row.3.ends_with('i'))),
        pairs(|row| quantity::of_thousandths(row.2, row.3.ends_with('i'))),
        pairs(|row| row.3.to_owned()),
    );
    Err(Refusal::forbidden(kind, name(object), &why))
}

/// Where a quota limits a resource, each container has to say how much it takes.
fn check_said(kind: &Kind, pod: &Value, quota: &Value, hard: &Map<String, Value>) -> Result<(), Refusal> {
    let mut unsaid = Vec::new();
    for resource in hard.keys() {
        let (part, which) = match resource.as_str() {
            "cpu" | "memory" => ("requests", resource.as_str()),
            _ => match resource.split_once('.') {
                Some((part @ ("requests" | "limits"), which @ ("cpu" | "memory"))) => (part, which),
                _ => continue,
            },
        };
        let silent: Vec<&str> = list(pod, "/spec/containers")
            .iter()
            .filter(|container| container["resources"][part][which].is_null())
            .map(|container| text(container, "/name"))
            .collect();
        if !silent.is_empty() {
            unsaid.push(format!("{resource} for: {}", silent.join(",")));
        }
    }
    if unsaid.is_empty() {
        return Ok(());
    }
    let why = format!("failed quota: {}: must specify {}", name(quota), unsaid.join("; "));
    Err(Refusal::forbidden(kind, name(pod), &why))
}

fn add(quota: &mut Value, delta: &Usage) -> bool {
    let hard = quota["status"]["hard"].as_object().cloned().unwrap_or_default();
    let mut changed = false;
    for (resource, limit) in hard {
        if let Some(amount) = delta.get(&resource) {
            let used = thousandths(&quota["status"]["used"][&resource]) + amount;
            let binary = limit.as_str().is_some_and(|limit| limit.ends_with('i'));
            quota["status"]["used"][&resource] = quantity::of_thousandths(used, binary).into();
            changed = true;
        }
    }
    changed
}

/// The status of a quota, counted anew from everything in its namespace.
pub(super) fn counted(api: &Api, store: &Store, quota: &Value) -> Value {
    let hard = quota["spec"]["hard"].as_object().cloned().unwrap_or_default();
    let mut total = Usage::new();
    for kind in api.kinds.all().iter().filter(|kind| kind.namespaced && kind.kind != "Event") {
        if !hard.keys().any(|resource| concerns(kind, resource)) {
            continue;
        }
        for stored in store.all(&kind.resource_name(), namespace(quota)) {
            for (resource, amount) in usage(kind, &stored.object()) {
                *total.entry(resource).or_default() += amount;
            }
        }
    }
    let used: Map<String, Value> = hard
        .iter()
        .map(|(resource, limit)| {
            let binary = limit.as_str().is_some_and(|limit| limit.ends_with('i'));
            let amount = total.get(resource).copied().unwrap_or_default();
            (resource.clone(), quantity::of_thousandths(amount, binary).into())
        })
        .collect();
    json!({"hard": hard, "used": used})
}

fn concerns(kind: &Kind, resource: &str) -> bool {
    if let Some(counted) = resource.strip_prefix("count/") {
        return counted == kind.resource_name();
    }
    match kind.kind.as_str() {
        "Pod" => resource == "pods" || resource.ends_with("cpu") || resource.ends_with("memory"),
        "PersistentVolumeClaim" => resource.contains("storage") || resource == "persistentvolumeclaims",
        "Service" => resource.starts_with("services"),
        _ => resource == kind.plural,
    }
}

/// What one object counts for.
fn usage(kind: &Kind, object: &Value) -> Usage {
    let mut usage = Usage::from([(format!("count/{}", kind.resource_name()), 1000)]);
    match (kind.group.as_str(), kind.kind.as_str()) {
        // What has ended takes nothing.
        ("", "Pod") if ["Succeeded", "Failed"].contains(&text(object, "/status/phase")) => {}
        ("", "Pod") => {
            usage.insert("pods".to_owned(), 1000);
            pod_resources(object, &mut usage);
        }
        ("", "Service") => {
            usage.insert("services".to_owned(), 1000);
            let kind = text(object, "/spec/type");
            let ports = i128::try_from(list(object, "/spec/ports").len()).unwrap_or_default() * 1000;
            if kind == "LoadBalancer" {
                usage.insert("services.loadbalancers".to_owned(), 1000);
            }
            if kind == "LoadBalancer" || kind == "NodePort" {
                usage.insert("services.nodeports".to_owned(), ports);
            }
        }
        ("", "PersistentVolumeClaim") => {
            let size = thousandths(&object["spec"]["resources"]["requests"]["storage"]);
            usage.insert("persistentvolumeclaims".to_owned(), 1000);
            usage.insert("requests.storage".to_owned(), size);
            let class = text(object, "/spec/storageClassName");
            if !class.is_empty() {
                usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), size);
                usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), 1000);
            }
        }
        ("", "ConfigMap" | "Secret" | "ReplicationController") => {
            usage.insert(kind.plural.clone(), 1000);
        }
        _ => {}
    }
    usage
}

fn pod_resources(pod: &Value, usage: &mut Usage) {
    for container in list(pod, "/spec/containers") {
        for part in ["requests", "limits"] {
            for (resource, value) in container["resources"][part].as_object().into_iter().flatten() {
                let amount = thousandths(value);
                *usage.entry(format!("{part}.{resource}")).or_default() += amount;
                if part == "requests" {
                    *usage.entry(resource.clone()).or_default() += amount;
                }
            }
        }
    }
}

fn thousandths(value: &Value) -> i128 {
    quantity::amount(value.as_str().unwrap_or("0"), 3)
}
