//! Statuses as real API servers send them, and the kind that each must become.

use kube::core::Status;
use mapwright::cluster::RefusalKind::{self, *};
use mapwright::cluster::refusal::{classify, classify_status};
use serde_json::{Value, json};

/// Kind, code, reason, message.
#[rustfmt::skip]
const STATUSES: [(RefusalKind, u16, &str, &str); 22] = [
    (AlreadyExists, 409, "AlreadyExists", "deployments.apps \"web\" already exists"),
    (BeingDeleted, 409, "AlreadyExists", "object is being deleted: pods \"web\" already exists"),
    (Conflict, 409, "Conflict", "the object has been modified; please apply your changes"),
    (Conflict, 409, "", "conflict"),
    (NotFound, 404, "NotFound", "pods \"web\" not found"),
    (NotServed, 404, "", "404 page not found"),
    (Invalid, 422, "Invalid", "Deployment.apps \"web\" is invalid"),
    (Invalid, 400, "BadRequest", "strict decoding error: unknown field \"spec.x\""),
    (QuotaExceeded, 403, "Forbidden", "pods \"web\" is forbidden: exceeded quota: q, requested: pods=1"),
    (NamespaceTerminating, 403, "Forbidden", "unable to create new content because it is being terminated"),
    (Forbidden, 403, "Forbidden", "pods is forbidden: User \"u\" cannot list resource \"pods\""),
    (Denied, 403, "Forbidden", "pods \"web\" is forbidden: violates PodSecurity \"restricted\""),
    (Denied, 403, "Forbidden", "admission webhook \"w\" denied the request: no"),
    (Unauthorized, 401, "Unauthorized", "Unauthorized"),
    (Throttled, 429, "TooManyRequests", "too many requests"),
    (Expired, 410, "Expired", "too old resource version"),
    (Expired, 410, "", "gone"),
    (TooLarge, 413, "RequestEntityTooLarge", "limit is 3145728"),
    (TooLarge, 500, "", "etcdserver: request is too large"),
    (Unavailable, 504, "Timeout", "Timeout: request did not complete"),
    (Unavailable, 500, "InternalError", "an error on the server"),
    (Unavailable, 502, "", "bad gateway"),
];

#[test]
fn each_status_has_its_kind() {
    for (kind, code, reason, message) in STATUSES {
        assert_eq!(of(&status(code, reason, message)).kind, kind, "{code} {reason}: {message}");
    }
}

#[test]
fn racing_for_a_quota_is_throttling_and_no_conflict() {
    let mut document = status(409, "Conflict", "Operation cannot be fulfilled on resourcequotas \"q\"");
    document["details"] = json!({ "kind": "resourcequotas", "name": "q" });
    assert_eq!(of(&document).kind, Throttled);
}

#[test]
fn a_dying_namespace_is_known_by_its_cause() {
    let mut document = status(403, "Forbidden", "not now");
    document["details"] = json!({ "causes": [{ "reason": "NamespaceTerminating" }] });
    assert_eq!(of(&document).kind, NamespaceTerminating);
}

#[test]
fn causes_and_retry_after_come_along() {
    let mut document = status(422, "Invalid", "two faults");
    document["details"] = json!({
        "retryAfterSeconds": 7,
        "causes": [
            { "field": "spec.a", "message": "Required value", "reason": "FieldValueRequired" },
            { "field": "spec.b[0]", "message": "Invalid value", "reason": "FieldValueInvalid" },
        ],
    });
    let refusal = of(&document);
    let fields: Vec<&str> = refusal.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.a", "spec.b[0]"]);
    assert_eq!(refusal.retry_after, Some(7));
    assert_eq!(refusal.message, "two faults");
}

#[test]
fn an_error_of_the_client_says_its_causes_once() {
    let source = Box::<dyn std::error::Error + Send + Sync>::from("connection refused");
    let refusal = classify(&kube::Error::Service(source));
    assert_eq!(refusal.kind, Unavailable);
    assert_eq!(refusal.message.matches("connection refused").count(), 1, "{refusal}");
}

#[test]
fn only_a_lost_answer_leaves_doubt() {
    assert!(Unavailable.leaves_doubt());
    assert!([AlreadyExists, Conflict, Throttled, Forbidden, Invalid].iter().all(|kind| !kind.leaves_doubt()));
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message })
}

fn of(document: &Value) -> mapwright::cluster::Refusal {
    classify_status(&serde_json::from_value::<Status>(document.clone()).unwrap())
}
