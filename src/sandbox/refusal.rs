//! What the API server says when it says no: code, reason and text, in its own words.

use serde_json::{Value, json};

use super::kinds::Kind;

/// A refusal; it leaves as a Status.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) details: Value,
}

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) field: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// A path that is not served at all.
    pub(super) fn no_such_path() -> Self {
        let mut refusal = Self::new(404, "NotFound", "the server could not find the requested resource");
        refusal.details = json!({});
        refusal
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.resource_name());
        Self::about(404, "NotFound", kind, name, message)
    }

    pub(super) fn namespace_not_found(name: &str) -> Self {
        let mut refusal = Self::new(404, "NotFound", format!("namespaces \"{name}\" not found"));
        refusal.details = json!({"name": name, "kind": "namespaces"});
        refusal
    }

    pub(super) fn already_exists(kind: &Kind, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.resource_name());
        Self::about(409, "AlreadyExists", kind, name, message)
    }

    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource_name());
        Self::about(409, "Conflict", kind, name, message)
    }

    /// The version that a write was based on is no longer the present one.
    pub(super) fn stale(kind: &Kind, name: &str) -> Self {
        const WHY: &str =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, WHY)
    }

    /// Another object than was meant; the real server names the kind here.
    pub(super) fn precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let qualified = kind.kind_name();
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        let mut refusal = Self::about(409, "Conflict", kind, name, message);
        refusal.details["kind"] = kind.kind.clone().into();
        refusal
    }

    pub(super) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.resource_name());
        Self::about(403, "Forbidden", kind, name, message)
    }

    pub(super) fn terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut refusal = Self::forbidden(kind, name, &why);
        refusal.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        refusal
    }

    pub(super) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let texts = match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {texts}", kind.kind_name());
        let mut refusal = Self::new(422, "Invalid", message);
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        refusal.details = json!({"name": name, "group": kind.group, "kind": kind.kind, "causes": causes});
        refusal.trim();
        refusal
    }

    /// The version or the page that was asked for is older than what is remembered.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(super) fn method_not_allowed() -> Self {
        let mut refusal = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        refusal.details = json!({});
        refusal
    }

    pub(super) fn unsupported_media_type(known: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            known.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(super) fn too_many(message: impl Into<String>) -> Self {
        let mut refusal = Self::new(429, "TooManyRequests", message);
        refusal.details = json!({"retryAfterSeconds": 1});
        refusal
    }

    fn about(code: u16, reason: &'static str, kind: &Kind, name: &str, message: String) -> Self {
        let details = json!({"name": name, "group": kind.group, "kind": kind.plural});
        let mut refusal = Self { code, reason, message, details };
        refusal.trim();
        refusal
    }

    /// Members that are empty are left out, as Go leaves them out.
    fn trim(&mut self) {
        if let Value::Object(details) = &mut self.details {
            details.retain(|_, value| value.as_str() != Some(""));
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status["code"] = self.code.into();
        status
    }
}

impl Cause {
    pub(super) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = match detail {
            "" => "Required value".to_owned(),
            detail => format!("Required value: {detail}"),
        };
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    pub(super) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    pub(super) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self { field: field.into(), reason: "FieldValueNotSupported", message }
    }

    pub(super) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        let message = format!("Forbidden: {detail}");
        Self { field: field.into(), reason: "FieldValueForbidden", message }
    }

    pub(super) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self { field: field.into(), reason: "FieldValueDuplicate", message }
    }
}
