//! What makes an object of a kind invalid beyond its definition: ranges, references within it, and what may
//! not change.

use std::collections::HashSet;

use serde_json::Value;

use super::kinds::Kind;
use super::names;
use super::object::{list, number, text};
use super::quantity;
use super::refusal::Cause;
use super::selector::selects;

const IMMUTABLE: &str = "field is immutable";
const NEGATIVE: &str = "must be greater than or equal to 0";

/// Judges an object, and its change where there was one before.
pub(super) fn judge(kind: &Kind, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => workload(object, old, causes),
        ("batch", "Job") => job(object, old, causes),
        ("", "Pod") => {
            pod_spec(&object["spec"], &[], "spec", causes);
            pod_change(object, old, causes);
        }
        ("", "Service") => service(object, causes),
        ("", "PersistentVolumeClaim") => claim(object, old, causes),
        ("", "ConfigMap" | "Secret") => plain_data(object, old, causes),
        ("", "ResourceQuota") => hard_limits(object, causes),
        ("storage.k8s.io", "StorageClass") => class(object, old, causes),
        _ => {}
    }
}

fn workload(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    not_negative(object, "spec.replicas", causes);
    not_negative(object, "spec.minReadySeconds", causes);
    not_negative(object, "spec.revisionHistoryLimit", causes);
    let (selector, template) = (&object["spec"]["selector"], &object["spec"]["template"]);
    let empty = selector.as_object().is_some_and(serde_json::Map::is_empty);
    if empty {
        let detail = "empty selector is invalid for deployment";
        causes.push(Cause::invalid("spec.selector", selector, detail));
    } else if selector.is_null() || !selects(selector, &template["metadata"]["labels"]) {
        let labels = template["metadata"]["labels"].clone();
        let detail = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", &labels, detail));
    }
    names::labels(&template["metadata"]["labels"], "spec.template.metadata.labels", causes);
    // Each pod of a StatefulSet gets a volume of each of these names.
    let claims = list(object, "/spec/volumeClaimTemplates");
    pod_spec(&template["spec"], claims, "spec.template.spec", causes);
    let restart = &template["spec"]["restartPolicy"];
    if restart.is_string() && restart != "Always" {
        causes.push(Cause::unsupported("spec.template.spec.restartPolicy", restart, &["Always"]));
    }
    unchanged(object, old, &["spec.selector"], causes);
}

fn job(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    for field in ["spec.parallelism", "spec.completions", "spec.backoffLimit", "spec.activeDeadlineSeconds"] {
        not_negative(object, field, causes);
    }
    let spec = &object["spec"]["template"]["spec"];
    pod_spec(spec, &[], "spec.template.spec", causes);
    let restart = &spec["restartPolicy"];
    if restart == "" {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(Cause::required("spec.template.spec.restartPolicy", detail));
    } else if spec.is_object() && restart != "OnFailure" && restart != "Never" {
        let known = ["OnFailure", "Never"];
        causes.push(Cause::unsupported("spec.template.spec.restartPolicy", restart, &known));
    }
    unchanged(object, old, &["spec.selector", "spec.template", "spec.completionMode"], causes);
}

fn pod_spec(spec: &Value, claims: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    let volumes = list(spec, "/volumes").iter().map(|volume| text(volume, "/name"));
    let claimed = claims.iter().map(|claim| text(claim, "/metadata/name"));
    let volumes: HashSet<&str> = volumes.chain(claimed).collect();
    for part in ["initContainers", "containers"] {
        for (index, container) in list(spec, &format!("/{part}")).iter().enumerate() {
            let path = format!("{path}.{part}[{index}]");
            let name = text(container, "/name");
            if !name.is_empty() && !seen.insert(name.to_owned()) {
                causes.push(Cause::duplicate(format!("{path}.name"), &container["name"]));
            }
            if let Some(fault) = names::label_fault(name).filter(|_| !name.is_empty()) {
                causes.push(Cause::invalid(format!("{path}.name"), &container["name"], fault));
            }
            if text(container, "/image").is_empty() {
                causes.push(Cause::required(format!("{path}.image"), ""));
            }
            for (index, port) in list(container, "/ports").iter().enumerate() {
                let number = number(port, "/containerPort").unwrap_or_default();
                in_range(number, &format!("{path}.ports[{index}].containerPort"), causes);
            }
            for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
                let name = text(mount, "/name");
                if !name.is_empty() && !volumes.contains(name) {
                    let field = format!("{path}.volumeMounts[{index}].name");
                    let message = format!("Not found: {name:?}");
                    causes.push(Cause { field, reason: "FieldValueNotFound", message });
                }
            }
            resources(&container["resources"], &format!("{path}.resources"), causes);
        }
    }
}

fn resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    for part in ["limits", "requests"] {
        for (resource, value) in resources[part].as_object().into_iter().flatten() {
            let field = if part == "limits" {
                format!("{path}.limits[{resource}]")
            } else {
                format!("{path}.requests[{resource}]")
            };
            let text = value.as_str().unwrap_or_default();
            if text.starts_with('-') {
                causes.push(Cause::invalid(field, value, NEGATIVE));
                continue;
            }
            let limit = resources["limits"][resource].as_str();
            let above = |limit: &&str| quantity::amount(text, 9) > quantity::amount(limit, 9);
            if let Some(limit) = limit.filter(|limit| part == "requests" && above(limit)) {
                let detail = format!("must be less than or equal to {resource} limit of {limit}");
                causes.push(Cause::invalid(format!("{path}.requests"), value, &detail));
            }
        }
    }
}

fn pod_change(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        for part in ["initContainers", "containers"] {
            for container in spec[part].as_array_mut().into_iter().flatten() {
                container["image"] = Value::Null;
                container["imagePullPolicy"] = Value::Null;
            }
        }
        for free in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName"] {
            spec[free] = Value::Null;
        }
        spec
    };
    if fixed(object) != fixed(old) {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
            `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
            existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
            previously negative)";
        causes.push(Cause::forbidden("spec", detail));
    }
}

fn service(object: &Value, causes: &mut Vec<Cause>) {
    let ports = list(object, "/spec/ports");
    let headless = object["spec"]["clusterIP"] == "None" || object["spec"]["type"] == "ExternalName";
    if ports.is_empty() && !headless {
        causes.push(Cause::required("spec.ports", ""));
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        in_range(number(port, "/port").unwrap_or_default(), &format!("{path}.port"), causes);
        if let Some(target) = number(port, "/targetPort") {
            in_range(target, &format!("{path}.targetPort"), causes);
        }
        if ports.len() > 1 && text(port, "/name").is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        let both = (number(port, "/port"), text(port, "/protocol").to_owned());
        if !seen.insert(both) {
            causes.push(Cause::duplicate(path, port));
        }
    }
}

fn claim(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    const SIZE: &str = "/spec/resources/requests/storage";
    if list(object, "/spec/accessModes").is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    match object.pointer(SIZE) {
        None => causes.push(Cause::required("spec.resources[storage]", "")),
        Some(size) if quantity::amount(size.as_str().unwrap_or_default(), 3) <= 0 => {
            causes.push(Cause::invalid("spec.resources[storage]", size, "must be greater than zero"));
        }
        Some(_) => {}
    }
    let Some(old) = old else { return };
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        spec["resources"]["requests"]["storage"] = Value::Null;
        for free in ["volumeAttributesClassName", "volumeName"] {
            spec[free] = Value::Null;
        }
        spec
    };
    let moved = !text(old, "/spec/volumeName").is_empty()
        && old["spec"]["volumeName"] != object["spec"]["volumeName"];
    if fixed(object) != fixed(old) || moved {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", detail));
        return;
    }
    let amount = |object: &Value, path: &str| quantity::amount(text(object, path), 0);
    if object.pointer(SIZE) == old.pointer(SIZE) {
        return;
    }
    if text(old, "/status/phase") != "Bound" {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", detail));
    } else if amount(object, SIZE) < amount(old, SIZE)
        && amount(object, SIZE) <= amount(old, "/status/capacity/storage")
    {
        let detail = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", detail));
    }
}

fn plain_data(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    for part in ["data", "binaryData"] {
        for (key, _) in object[part].as_object().into_iter().flatten() {
            let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if key.is_empty() || key.len() > 253 || key == "." || key == ".." || !key.chars().all(good) {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                    (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                    '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{part}[{key}]"), &key.as_str().into(), detail));
            }
        }
    }
    let size = ["data", "binaryData"].iter().flat_map(|part| object[*part].as_object().into_iter().flatten());
    let size: usize = size.map(|(_, value)| value.as_str().unwrap_or_default().len()).sum();
    if size > 1 << 20 {
        let message = "Too long: may not be more than 1048576 bytes".to_owned();
        causes.push(Cause { field: String::new(), reason: "FieldValueTooLong", message });
    }
    if let Some(old) = old.filter(|old| old["immutable"] == true) {
        for part in ["data", "binaryData"] {
            if object[part] != old[part] {
                causes.push(Cause::forbidden(part, "field is immutable when `immutable` is set"));
            }
        }
        if object["immutable"] != true {
            causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
    }
}

fn hard_limits(object: &Value, causes: &mut Vec<Cause>) {
    for (resource, value) in object["spec"]["hard"].as_object().into_iter().flatten() {
        if value.as_str().unwrap_or_default().starts_with('-') {
            causes.push(Cause::invalid(format!("spec.hard[{resource}]"), value, NEGATIVE));
        }
    }
}

fn class(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
        if object[field] != old[field] {
            causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
        }
    }
}

fn unchanged(object: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    for field in fields {
        let pointer = format!("/{}", field.replace('.', "/"));
        let value = object.pointer(&pointer).unwrap_or(&Value::Null);
        if value != old.pointer(&pointer).unwrap_or(&Value::Null) {
            causes.push(Cause::invalid(*field, value, IMMUTABLE));
        }
    }
}

fn not_negative(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    let found = number(object, &format!("/{}", field.replace('.', "/")));
    if let Some(found) = found.filter(|found| *found < 0) {
        causes.push(Cause::invalid(field, &found.into(), NEGATIVE));
    }
}

fn in_range(port: i64, field: &str, causes: &mut Vec<Cause>) {
    if !(1..=65535).contains(&port) {
        causes.push(Cause::invalid(field, &port.into(), "must be between 1 and 65535, inclusive"));
    }
}
