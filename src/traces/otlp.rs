//! Spans as the document that OpenTelemetry's protocol takes. Pure.

use serde_json::{Map, Value, json};

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: &'static str,
    /// Nanoseconds since 1970.
    pub begun: i128,
    pub ended: i128,
    pub fields: Map<String, Value>,
}

/// What stands for each of our fields in OpenTelemetry's conventions; others go under our own name.
const CONVENTIONS: [(&str, &str); 6] = [
    ("method", "http.request.method"),
    ("path", "url.path"),
    ("route", "http.route"),
    ("status", "http.response.status_code"),
    ("id", "mapwright.request.id"),
    ("instance", "mapwright.instance.id"),
];

/// One export request. `resource` says who sends it.
#[must_use]
pub fn document(resource: &[(&str, &str)], spans: &[Span]) -> Value {
    let resource: Vec<Value> =
        resource.iter().map(|(key, value)| attribute(key, &Value::from(*value))).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "mapwright", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans.iter().map(Span::document).collect::<Vec<_>>(),
        }],
    }] })
}

impl Span {
    fn document(&self) -> Value {
        let shown = self.fields.iter().filter(|(key, _)| *key != "kind");
        let attributes: Vec<Value> = shown.map(|(key, value)| attribute(&convention(key), value)).collect();
        let status = self.fields.get("status").and_then(Value::as_u64);
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.id,
            "name": self.title(),
            "kind": self.kind(),
            "startTimeUnixNano": self.begun.to_string(),
            "endTimeUnixNano": self.ended.to_string(),
            "attributes": attributes,
            // An error is ours: a caller's mistake is none of the server's span.
            "status": { "code": if status.is_some_and(|status| status >= 500) { 2 } else { 0 } },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = parent.as_str().into();
        }
        span
    }

    /// A request is named by its method and route, of which there are few.
    fn title(&self) -> String {
        let text = |key: &str| self.fields.get(key).and_then(Value::as_str);
        match (text("method"), text("route")) {
            (Some(method), Some(route)) => format!("{method} {route}"),
            _ => self.name.to_owned(),
        }
    }

    /// The numbers of OTLP's `SpanKind`.
    fn kind(&self) -> u8 {
        match self.fields.get("kind").and_then(Value::as_str) {
            Some("server") => 2,
            Some("client") => 3,
            Some("producer") => 4,
            _ => 1,
        }
    }
}

fn convention(key: &str) -> String {
    let known = CONVENTIONS.iter().find(|(ours, _)| *ours == key);
    known.map_or_else(|| format!("mapwright.{key}"), |(_, theirs)| (*theirs).to_owned())
}

/// Protocol buffers in JSON write whole numbers of 64 bits as text.
fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": key, "value": value })
}
