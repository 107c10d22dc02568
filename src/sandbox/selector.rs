//! Label and field selectors: read as the API server reads them, and matched.

use serde_json::Value;

use super::kinds::Kind;
use super::refusal::Refusal;
use super::store::Stored;

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Field>,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

/// Longer selectors than any honest one are refused.
const LONGEST: usize = 16 << 10;

impl Selector {
    /// Reads both selectors of a query.
    pub(super) fn read(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        if labels.len() + fields.len() > LONGEST {
            return Err(Refusal::bad_request("the selector is too long"));
        }
        let labels = read_labels(labels).map_err(Refusal::bad_request)?;
        let fields = read_fields(fields)?;
        for field in &fields {
            if !is_known_field(kind, &field.path) {
                return Err(unknown_field(kind, &field.path));
            }
        }
        Ok(Self { labels, fields })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, stored: &Stored) -> bool {
        let label = |key: &str| stored.labels.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        if !self.labels.iter().all(|requirement| requirement.holds(label(&requirement.key))) {
            return false;
        }
        let (by_name, others): (Vec<&Field>, Vec<&Field>) =
            self.fields.iter().partition(|field| field.path.starts_with("metadata."));
        let named = by_name.iter().all(|field| {
            let value = if field.path == "metadata.name" { &stored.key.1 } else { &stored.key.0 };
            (*value == field.value) == field.equal
        });
        if !named || others.is_empty() {
            return named;
        }
        let object = stored.object();
        others.iter().all(|field| (value_of(&object, &field.path) == field.value) == field.equal)
    }
}

/// Whether labels match the selector of an object (`matchLabels`, `matchExpressions`).
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let equal = pairs.into_iter().all(|(key, value)| label(key) == value.as_str());
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal
        && expressions.into_iter().all(|expression| {
            let key = expression["key"].as_str().unwrap_or_default();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let test = match expression["operator"].as_str() {
                Some("In") => Test::In(values),
                Some("NotIn") => Test::NotIn(values),
                Some("Exists") => Test::Exists,
                Some("DoesNotExist") => Test::Missing,
                _ => return false,
            };
            Requirement { key: key.to_owned(), test }.holds(label(key))
        })
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|known| known == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|known| known != value)),
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// `a=b,c!=d,e in (f,g),h,!i,j>1`
fn read_labels(text: &str) -> Result<Vec<Requirement>, String> {
    let mut requirements = Vec::new();
    for part in split(text) {
        let part = part.trim();
        if part.is_empty() {
            // An empty selector selects everything; an empty part of one is a mistake.
            if text.trim().is_empty() {
                continue;
            }
            return Err(unreadable(&format!("found ',', expected: identifier in {text:?}")));
        }
        // The first word is judged before any requirement.
        if let Some(rest) = part.strip_prefix('=') {
            let word = if rest.starts_with('=') { "==" } else { "=" };
            return Err(format!("found '{word}', expected: !, identifier, or 'end of string'"));
        }
        requirements.push(read_requirement(part).map_err(|error| unreadable(&error))?);
    }
    Ok(requirements)
}

fn unreadable(error: &str) -> String {
    format!("unable to parse requirement: {error}")
}

fn read_requirement(part: &str) -> Result<Requirement, String> {
    let (key, test) = if let Some(key) = part.strip_prefix('!') {
        (key.trim(), Test::Missing)
    } else if let Some((key, value)) = part.split_once("!=") {
        (key.trim(), Test::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key.trim(), Test::In(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = part.split_once(['>', '<']) {
        let bound = value.trim().parse().map_err(|_| format!("{value:?} is no integer"))?;
        (key.trim(), if part.contains('>') { Test::Above(bound) } else { Test::Below(bound) })
    } else {
        read_set(part)?
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    if key.is_empty() || !key.chars().all(plain) {
        return Err(format!("found {key:?}, expected: identifier"));
    }
    let values = match &test {
        Test::In(values) | Test::NotIn(values) => values.as_slice(),
        _ => &[],
    };
    let good = |value: &String| value.len() <= 63 && value.chars().all(|c| plain(c) && c != '/');
    match values.iter().find(|value| !good(value)) {
        Some(value) => Err(format!(
            "values[0][{key}]: Invalid value: {value:?}: a valid label must be an empty \
            string or consist of alphanumeric characters, '-', '_' or '.'"
        )),
        None => Ok(Requirement { key: key.to_owned(), test }),
    }
}

/// `key in (a,b)`, `key notin (a)`, or a key alone.
fn read_set(part: &str) -> Result<(&str, Test), String> {
    let Some((head, values)) = part.split_once('(') else {
        return if part.contains(char::is_whitespace) {
            Err(format!("found {part:?}, expected: in, notin, =, ==, !=, gt, lt"))
        } else {
            Ok((part, Test::Exists))
        };
    };
    let values = values.strip_suffix(')').ok_or("found '', expected: ',' or ')'")?;
    let values = values.split(',').map(|value| value.trim().to_owned()).collect();
    let (key, word) = head.trim().split_once(char::is_whitespace).unwrap_or((head, ""));
    match word.trim() {
        "in" => Ok((key, Test::In(values))),
        "notin" => Ok((key, Test::NotIn(values))),
        other => Err(format!("found {other:?}, expected: in, notin, =, ==, !=, gt, lt")),
    }
}

/// At the commas that stand in no parenthesis.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn read_fields(text: &str) -> Result<Vec<Field>, Refusal> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let fields = parts.map(|part| {
        let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (path, value, true)
        } else {
            let text = format!("invalid field selector: {part:?}; can't understand {part:?}");
            return Err(Refusal::bad_request(text));
        };
        Ok(Field { path: path.trim().to_owned(), value: value.trim().to_owned(), equal })
    });
    fields.collect()
}

fn unknown_field(kind: &Kind, path: &str) -> Refusal {
    if is_known_field(kind, "status.phase")
        || ["Event", "Service", "Node", "Secret"].contains(&kind.kind.as_str())
    {
        return Refusal::bad_request(format!("field label not supported: {path}"));
    }
    let known =
        if kind.namespaced { "\"metadata.name\", \"metadata.namespace\"" } else { "\"metadata.name\"" };
    Refusal::bad_request(format!("{path:?} is not a known field selector: only {known}"))
}

/// The fields that a kind may be selected by.
fn is_known_field(kind: &Kind, path: &str) -> bool {
    let more: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "Namespace") => &["status.phase"],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        _ => &[],
    };
    path == "metadata.name" || (path == "metadata.namespace" && kind.namespaced) || more.contains(&path)
}

fn value_of(object: &Value, path: &str) -> String {
    // The one field whose name is not its path.
    let path = if path == "source" { "source.component" } else { path };
    let pointer = format!("/{}", path.replace('.', "/"));
    match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}
