//! What the API server does to an object on its way in, kind by kind, before and after it is judged.

use std::sync::PoisonError;

use serde_json::{Value, json};

use super::api::Api;
use super::kinds::Kind;
use super::object::{list, map_at, metadata, name, now, text, uid};
use super::refusal::{Cause, Refusal};
use super::store::Store;
use super::{names, quota, rules};

/// What is put in before the definition is walked: what depends on the cluster and on the object's own past.
pub(super) fn prepare(
    api: &Api,
    store: &Store,
    kind: &Kind,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Refusal> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => namespace_marks(object, old),
        ("", "Pod") if old.is_none() => new_pod(object),
        ("", "Service") => service(api, kind, object, old)?,
        ("", "PersistentVolumeClaim") if old.is_none() => new_claim(store, object),
        ("", "PersistentVolumeClaim") => check_growth(store, kind, object, old)?,
        ("", "PersistentVolume") if old.is_none() => {
            metadata(object).entry("finalizers").or_insert(json!(["kubernetes.io/pv-protection"]));
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now()});
        }
        ("", "Secret") => plain_secret(object),
        ("", "ResourceQuota") if old.is_none() => object["status"] = json!({}),
        ("batch", "Job") if old.is_none() => new_job(object),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") if old.is_none() => {
            object["status"] = if kind.kind == "ReplicaSet" { json!({"replicas": 0}) } else { json!({}) };
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") if old.is_none() => defined(object),
        _ => {}
    }
    Ok(())
}

/// What depends on other members, put in once the defaults stand.
pub(super) fn complete(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            pod_spec(object.get_mut("spec"));
            requests_of_limits(object);
            if object["status"]["qosClass"].is_null() {
                object["status"]["qosClass"] = quality(&object["spec"]).into();
            }
        }
        ("batch", "CronJob") => pod_spec(object.pointer_mut("/spec/jobTemplate/spec/template/spec")),
        ("apps" | "batch", _) => pod_spec(object.pointer_mut("/spec/template/spec")),
        _ => {}
    }
    if kind.is("apps", "Deployment")
        && let Some(strategy) = object.pointer_mut("/spec/strategy").filter(|s| s["type"] == "RollingUpdate")
    {
        let rolling = map_at(strategy, "rollingUpdate");
        for key in ["maxUnavailable", "maxSurge"] {
            rolling.entry(key).or_insert("25%".into());
        }
    }
}

/// Everything that the definition alone does not say of a valid object.
pub(super) fn judge(kind: &Kind, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    names::judge(kind, object, old, causes);
    rules::judge(kind, object, old, causes);
}

/// Counts an object against the quotas of its namespace.
pub(super) fn charge(
    store: &mut Store,
    kind: &Kind,
    old: Option<&Value>,
    object: &Value,
    dry_run: bool,
) -> Result<(), Refusal> {
    if kind.namespaced { quota::charge(store, kind, old, object, dry_run) } else { Ok(()) }
}

/// What follows from a write at once.
pub(super) fn after_write(api: &Api, kind: &Kind, old: Option<&Value>, object: &Value) {
    if kind.is("", "Service") {
        let mut addresses = api.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = old {
            addresses.release(old);
        }
        addresses.keep(object);
    } else if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        api.kinds.define(object);
    }
}

pub(super) fn after_removal(api: &Api, kind: &Kind, object: &Value) {
    if kind.is("", "Service") {
        api.addresses.lock().unwrap_or_else(PoisonError::into_inner).release(object);
    } else if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        api.kinds.forget(text(object, "/spec/group"), text(object, "/spec/names/plural"));
    }
}

fn namespace_marks(object: &mut Value, old: Option<&Value>) {
    let own = name(object).to_owned();
    map_at(&mut object["metadata"], "labels").insert("kubernetes.io/metadata.name".to_owned(), own.into());
    match old {
        None => {
            map_at(object, "spec");
            object["status"] = json!({"phase": "Active"});
        }
        // Its own finalizers change below /finalize only, which nobody but the controllers here uses.
        Some(old) if object["spec"].is_null() => object["spec"] = old["spec"].clone(),
        Some(_) => {}
    }
}

fn new_pod(object: &mut Value) {
    object["status"] = json!({"phase": "Pending"});
    let spec = map_at(object, "spec");
    spec.entry("enableServiceLinks").or_insert(true.into());
    spec.entry("priority").or_insert(0.into());
    spec.entry("preemptionPolicy").or_insert("PreemptLowerPriority".into());
    let tolerated = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let tolerations = spec.entry("tolerations").or_insert(json!([]));
    if let Some(tolerations) = tolerations.as_array_mut() {
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            if !tolerations.iter().any(|known| known["key"] == key) {
                tolerations.push(tolerated(key));
            }
        }
    }
}

/// The members of a pod's spec that depend on others.
fn pod_spec(spec: Option<&mut Value>) {
    let Some(spec) = spec.filter(|spec| spec.is_object()) else { return };
    for list in ["initContainers", "containers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter(|container| container.is_object()) {
            let image = container["image"].as_str().unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let newest = !name.contains(':') && !name.contains('@') || name.ends_with(":latest");
            if container["imagePullPolicy"].is_null() {
                container["imagePullPolicy"] = if newest { "Always" } else { "IfNotPresent" }.into();
            }
        }
    }
    let account = spec.get("serviceAccountName").cloned().unwrap_or_default();
    if account.is_string() {
        spec["serviceAccount"] = account;
    }
}

/// A pod asks for what it may take at most, where it does not say what it asks for.
fn requests_of_limits(pod: &mut Value) {
    for list in ["/spec/initContainers", "/spec/containers"] {
        let containers = pod.pointer_mut(list).and_then(Value::as_array_mut);
        for resources in
            containers.into_iter().flatten().filter_map(|container| container.get_mut("resources"))
        {
            let limits = resources["limits"].as_object().cloned().unwrap_or_default();
            for (resource, limit) in limits {
                map_at(resources, "requests").entry(resource).or_insert(limit);
            }
        }
    }
}

fn quality(spec: &Value) -> &'static str {
    let containers = list(spec, "/containers");
    let part = |container: &Value, part: &str, resource: &str| container["resources"][part][resource].clone();
    let none = |container: &Value| {
        ["limits", "requests"]
            .iter()
            .all(|which| ["cpu", "memory"].iter().all(|resource| part(container, which, resource).is_null()))
    };
    let full = |container: &Value| {
        ["cpu", "memory"].iter().all(|resource| {
            let limit = part(container, "limits", resource);
            !limit.is_null() && limit == part(container, "requests", resource)
        })
    };
    if containers.iter().all(none) {
        "BestEffort"
    } else if containers.iter().all(full) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn service(api: &Api, kind: &Kind, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
    let spec = map_at(object, "spec");
    spec.entry("type").or_insert("ClusterIP".into());
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if port.is_object() && port["protocol"].is_null() {
            port["protocol"] = "TCP".into();
        }
        if !port.is_object() {
            // Refused by the definition.
            return Ok(());
        }
    }
    let mut causes = Vec::new();
    api.addresses.lock().unwrap_or_else(PoisonError::into_inner).assign(object, old, &mut causes);
    if old.is_none() {
        object["status"] = json!({"loadBalancer": {}});
    }
    if causes.is_empty() { Ok(()) } else { Err(Refusal::invalid(kind, name(object), &causes)) }
}

/// A claim without a class gets the default one; an empty class is a choice.
fn new_claim(store: &Store, object: &mut Value) {
    const DEFAULT: &str = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
    object["status"] = json!({"phase": "Pending"});
    let protection = Value::from("kubernetes.io/pvc-protection");
    match metadata(object).entry("finalizers").or_insert(Value::Null) {
        Value::Array(finalizers) if finalizers.contains(&protection) => {}
        Value::Array(finalizers) => finalizers.push(protection),
        absent => *absent = json!([protection]),
    }
    if object.pointer("/spec/storageClassName").is_none() {
        let classes = store.all("storageclasses.storage.k8s.io", "").map(|stored| stored.object());
        let default =
            classes.filter(|class| text(class, DEFAULT) == "true").map(|class| name(&class).to_owned());
        if let Some(default) = default.max() {
            map_at(object, "spec").insert("storageClassName".to_owned(), default.into());
        }
    }
}

/// Only a class can allow a claim to grow.
fn check_growth(store: &Store, kind: &Kind, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    const SIZE: &str = "/spec/resources/requests/storage";
    let Some(old) = old else { return Ok(()) };
    let amount = |object: &Value| super::quantity::amount(text(object, SIZE), 0);
    if amount(object) <= amount(old) || text(old, "/status/phase") != "Bound" {
        return Ok(());
    }
    let class = text(old, "/spec/storageClassName").to_owned();
    let class = store.get("storageclasses.storage.k8s.io", &(String::new(), class));
    let allowed = class.is_some_and(|class| class.object()["allowVolumeExpansion"] == true);
    if allowed {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(Refusal::forbidden(kind, name(object), why))
}

/// Texts of a Secret are kept as bytes.
fn plain_secret(object: &mut Value) {
    let Value::Object(members) = &mut *object else { return };
    let Some(Value::Object(texts)) = members.shift_remove("stringData") else { return };
    let data = map_at(object, "data");
    for (key, text) in texts {
        let bytes = k8s_openapi::ByteString(text.as_str().unwrap_or_default().as_bytes().to_vec());
        data.insert(key, serde_json::to_value(bytes).unwrap_or_default());
    }
}

/// A Job finds its pods by its own uid.
fn new_job(object: &mut Value) {
    let (own, id) = (name(object).to_owned(), uid(object).to_owned());
    object["status"] = json!({});
    let spec = map_at(object, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    spec.entry("parallelism").or_insert(1.into());
    if spec.get("manualSelector") == Some(&Value::Bool(true)) || !spec.contains_key("template") {
        return;
    }
    let labels = [
        ("batch.kubernetes.io/controller-uid", &id),
        ("batch.kubernetes.io/job-name", &own),
        ("controller-uid", &id),
        ("job-name", &own),
    ];
    let marks = map_at(map_at_value(&mut object["spec"]["template"], "metadata"), "labels");
    for (key, value) in labels {
        marks.entry(key).or_insert(value.as_str().into());
    }
    object["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": id}});
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    metadata(object).entry("labels").or_insert(labels);
    // A Job has to say which of the two it wants.
    if object
        .pointer("/spec/template/spec")
        .is_some_and(|spec| spec.is_object() && spec.get("restartPolicy").is_none())
    {
        object["spec"]["template"]["spec"]["restartPolicy"] = "".into();
    }
}

/// A map within a value, as a value.
fn map_at_value<'o>(object: &'o mut Value, member: &str) -> &'o mut Value {
    map_at(object, member);
    &mut object[member]
}

/// A CustomResourceDefinition is served as soon as it is stored.
fn defined(object: &mut Value) {
    let names = object["spec"]["names"].clone();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now(), "reason": reason, "message": message});
    let versions = list(object, "/spec/versions").iter().filter(|version| version["storage"] == true);
    let stored: Vec<Value> = versions.map(|version| version["name"].clone()).collect();
    object["status"] = json!({
        "acceptedNames": names,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": stored,
    });
}
