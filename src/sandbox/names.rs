//! Names, labels and annotations: their forms, and what the API server says of other forms.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::object::{is_deleting, list, random_suffix};
use super::refusal::Cause;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
     must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
     is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
     end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
     is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
     or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
     regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// All annotations of an object together.
const LARGEST_ANNOTATIONS: usize = 256 << 10;

/// A name that begins as asked and is nobody else's.
pub(super) fn generate(prefix: &str) -> String {
    let prefix: String = prefix.chars().take(58).collect();
    format!("{prefix}{}", random_suffix(&prefix))
}

/// Judges everything in metadata that a caller chooses.
pub(super) fn judge(kind: &Kind, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let metadata = &object["metadata"];
    match metadata["name"].as_str().filter(|name| !name.is_empty()) {
        None => causes.push(Cause::required("metadata.name", "name or generateName is required")),
        Some(name) => {
            for fault in name_faults(kind, name) {
                causes.push(Cause::invalid("metadata.name", &name.into(), &fault));
            }
        }
    }
    labels(&metadata["labels"], "metadata.labels", causes);
    let annotations = metadata["annotations"].as_object();
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        for fault in key_faults(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &fault));
        }
    }
    let size = annotations
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len());
    if size.sum::<usize>() > LARGEST_ANNOTATIONS {
        let message = format!("Too long: may not be more than {LARGEST_ANNOTATIONS} bytes");
        let field = "metadata.annotations".to_owned();
        causes.push(Cause { field, reason: "FieldValueTooLong", message });
    }
    if let Some(old) = old.filter(|old| is_deleting(old)) {
        let known = list(old, "/metadata/finalizers");
        let new = list(object, "/metadata/finalizers").iter().filter(|one| !known.contains(one));
        let new: Vec<String> = new.map(Value::to_string).collect();
        if !new.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
    }
    for finalizer in list(object, "/metadata/finalizers").iter().filter_map(Value::as_str) {
        for fault in key_faults(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(finalizer), &fault));
        }
    }
}

/// Judges a map of labels.
pub(super) fn labels(labels: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for fault in key_faults(key) {
            causes.push(Cause::invalid(path, &key.as_str().into(), &fault));
        }
        let text = value.as_str().unwrap_or_default();
        if text.len() > 63 {
            causes.push(Cause::invalid(path, value, &too_long(63)));
        }
        if !text.is_empty() && !is_word(text) {
            causes.push(Cause::invalid(path, value, LABEL_VALUE));
        }
    }
}

fn name_faults(kind: &Kind, name: &str) -> Vec<String> {
    let (longest, fits, text): (usize, fn(&str) -> bool, &str) =
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("rbac.authorization.k8s.io", _) => {
                let bad = name == "." || name == ".." || name.contains(['/', '%']);
                return if bad { vec![format!("may not be {name:?}")] } else { Vec::new() };
            }
            ("", "Namespace") => (63, is_label, LABEL),
            ("", "Service") => (63, is_label, LABEL),
            _ => (253, is_subdomain, SUBDOMAIN),
        };
    let mut faults = Vec::new();
    if name.len() > longest {
        faults.push(too_long(longest));
    }
    if !fits(name) {
        faults.push(text.to_owned());
    }
    faults
}

fn key_faults(key: &str) -> Vec<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if !is_subdomain(prefix) => faults.push(format!("prefix part {SUBDOMAIN}")),
        _ => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push(format!("name part {}", too_long(63)));
    }
    if !is_word(name) {
        faults.push(QUALIFIED.to_owned());
    }
    faults
}

fn too_long(longest: usize) -> String {
    format!("must be no more than {longest} bytes")
}

/// A name of a container, a port or a volume.
pub(super) fn label_fault(name: &str) -> Option<&'static str> {
    (!is_label(name)).then_some(LABEL)
}

pub(super) fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    edge(text.chars().next()) && edge(text.chars().last()) && text.chars().all(inner)
}
