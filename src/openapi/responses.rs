//! Answers: documents, empty ones, and the problem of each status with its headers.

use serde_json::{Map, Value, json};

use super::{Parts, reference};
use crate::engine::problem::{ProblemKind, ProblemStyle};

/// The problems of one service type, or of the provider: they differ in how their `type` is spelt.
pub(super) struct Problems<'p> {
    pub(super) owner: &'p str,
    pub(super) style: &'p ProblemStyle,
}

impl Problems<'_> {
    /// The answers of an operation that may end in these statuses.
    pub(super) fn refer(&self, statuses: &[u16]) -> Map<String, Value> {
        let answer = |status: &u16| (status.to_string(), reference("responses", &self.name(*status)));
        statuses.iter().map(answer).collect()
    }

    /// Adds the schema of the problems, and one response for each status.
    pub(super) fn describe(&self, parts: &mut Parts) {
        let schema = format!("{}-problem", self.owner);
        for kind in ProblemKind::ALL {
            let status = kind.status();
            let titles: Vec<&str> = ProblemKind::ALL
                .iter()
                .filter(|kind| kind.status() == status)
                .map(|kind| kind.title())
                .collect();
            let content = json!({ "application/problem+json": { "schema": reference("schemas", &schema) } });
            let mut response = empty(&titles.join(", or: "), headers_of(status));
            response["content"] = content;
            parts.responses.insert(self.name(status), response);
        }
        parts.schemas.insert(schema, self.schema());
    }

    fn name(&self, status: u16) -> String {
        format!("{}-{status}", self.owner)
    }

    fn schema(&self) -> Value {
        let mut types: Vec<String> = ProblemKind::ALL.iter().map(|kind| kind.type_in(self.style)).collect();
        types.dedup();
        let mut statuses: Vec<u16> = ProblemKind::ALL.iter().map(|kind| kind.status()).collect();
        statuses.dedup();
        let pointer = json!({
            "type": "string", "pattern": "^#",
            "description": "A JSON pointer from the root of the body as it was sent, written as a URI fragment.",
        });
        json!({
            "type": "object",
            "description": "A problem document, RFC 9457.",
            "required": ["type", "title", "status", "detail", "instance"],
            "properties": {
                "type": { "type": "string", "enum": unique(types) },
                "title": { "type": "string" },
                "status": { "type": "integer", "enum": statuses },
                "detail": { "type": "string", "description": "What is wrong, where, and what to do." },
                "instance": { "type": "string", "description": "Path and query of the request as they were sent." },
                "pointer": pointer,
                "errors": {
                    "type": "array",
                    "description": "Every fault of the request, in the order of the body as it was sent.",
                    "items": {
                        "type": "object",
                        "required": ["detail"],
                        "properties": { "detail": { "type": "string" }, "pointer": pointer },
                    },
                },
            },
        })
    }
}

/// An answer with a JSON document.
pub(super) fn json(description: &str, schema: &Value) -> Value {
    let mut response = empty(description, &[]);
    response["content"] = json!({ "application/json": { "schema": schema } });
    response
}

/// An answer without a body.
pub(super) fn empty(description: &str, more: &[&str]) -> Value {
    let named = ["X-Request-Id"].iter().chain(more);
    let headers: Map<String, Value> =
        named.map(|name| ((*name).to_owned(), reference("headers", name))).collect();
    json!({ "description": description, "headers": headers })
}

/// The headers that a status has beside the common ones.
pub(super) fn headers_of(status: u16) -> &'static [&'static str] {
    match status {
        401 => &["WWW-Authenticate"],
        405 => &["Allow"],
        503 => &["Retry-After"],
        _ => &[],
    }
}

pub(super) fn headers() -> Value {
    json!({
        "X-Request-Id": {
            "description": "The request's id: the caller's own, else a new one.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128 },
        },
        "WWW-Authenticate": {
            "description": "How a caller may say who it is.",
            "schema": { "type": "string" },
        },
        "Allow": {
            "description": "The methods that the resource has.",
            "schema": { "type": "string" },
        },
        "Retry-After": {
            "description": "Seconds after which a repeat is worth while.",
            "schema": { "type": "integer", "minimum": 0 },
        },
    })
}

fn unique(words: Vec<String>) -> Vec<String> {
    let mut unique = Vec::new();
    for word in words {
        if !unique.contains(&word) {
            unique.push(word);
        }
    }
    unique
}
