//! A refusal as the product knows it, and the RFC 9457 document that says it to a caller.

use std::fmt;

use serde_json::{Map, Value, json};

/// Why a request was not done: a kind that decides the status, and everything a caller needs to mend it.
///
/// No detail may hold a stack, a path, an address, an account or an upstream's raw error: details are
/// sent to whoever asked. What an operator needs goes to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// A sentence without a final dot: what is wrong, where, and what to do.
    pub detail: String,
    /// The faults of the request's body, in the order of the body as it was sent.
    pub faults: Vec<Fault>,
    /// Seconds after which a repeat is worth while; becomes the `Retry-After` header.
    pub retry_after: Option<u64>,
    /// The methods that the resource does have; becomes the `Allow` header.
    pub allow: Vec<&'static str>,
}

/// One fault of a request, at the place of the body that must change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON pointer from the root of the body as it was sent; none for a fault outside the body.
    pub pointer: Option<String>,
    pub detail: String,
}

/// What sort of refusal a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// A fault of body, query or path.
    InvalidArgument,
    /// Nobody knows who asks.
    Unauthenticated,
    /// It is known who asks, and that is not enough.
    PermissionDenied,
    /// No such instance, action or route.
    NotFound,
    /// The id, or the name where names are unique, is taken.
    AlreadyExists,
    /// Something that the request relies on is missing or does not allow it.
    FailedPrecondition,
    /// The present state forbids it for now: a quota, a namespace that ends, an object being deleted.
    FailedPreconditionConflict,
    /// A dependency does not answer; a repeat may well succeed.
    Unavailable,
    /// The resource exists, but not with this method.
    MethodNotAllowed,
    /// The resource cannot be answered in a media type that the caller accepts.
    NotAcceptable,
    /// The body is larger than the limit.
    PayloadTooLarge,
    /// The body is in a media type or encoding that is not read.
    UnsupportedMediaType,
    /// Our fault.
    Internal,
}

/// How a service type spells the `type` of its problems; data of its mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemStyle {
    /// A URI: this prefix and the kind's suffix.
    Prefixed(String),
    /// The bare code, `NOT_FOUND`.
    BareCode,
}

impl Problem {
    /// A problem of `kind` without faults.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), faults: Vec::new(), retry_after: None, allow: Vec::new() }
    }

    /// All faults of a body at once, so that a caller mends them in one round.
    pub fn invalid(faults: Vec<Fault>) -> Self {
        let detail = match faults.as_slice() {
            [] => "the request is not valid".to_owned(),
            [only] => only.detail.clone(),
            [first, ..] => format!("{} faults, listed in errors; the first: {}", faults.len(), first.detail),
        };
        Self { faults, ..Self::new(ProblemKind::InvalidArgument, detail) }
    }

    /// A fault outside the body: of the query, the path or a header.
    pub fn invalid_argument(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::InvalidArgument, detail)
    }

    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Unauthenticated, detail)
    }

    pub fn permission_denied(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::PermissionDenied, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotFound, detail)
    }

    pub fn already_exists(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::AlreadyExists, detail)
    }

    pub fn failed_precondition(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::FailedPrecondition, detail)
    }

    /// The precondition that another state of the same instance or cluster would meet: 409, not 422.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::FailedPreconditionConflict, detail)
    }

    pub fn unavailable(detail: impl Into<String>, retry_after: u64) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(ProblemKind::Unavailable, detail) }
    }

    pub fn method_not_allowed(detail: impl Into<String>, allow: Vec<&'static str>) -> Self {
        Self { allow, ..Self::new(ProblemKind::MethodNotAllowed, detail) }
    }

    pub fn not_acceptable(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::NotAcceptable, detail)
    }

    pub fn payload_too_large(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::PayloadTooLarge, detail)
    }

    pub fn unsupported_media_type(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::UnsupportedMediaType, detail)
    }

    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Internal, detail)
    }

    /// The HTTP status of the answer.
    pub fn status(&self) -> u16 {
        self.kind.status()
    }

    /// The RFC 9457 document; `instance` is the request's path and query as they were sent.
    pub fn to_json(&self, style: &ProblemStyle, instance: &str) -> Value {
        let row = self.kind.row();
        let mut document = Map::new();
        document.insert("type".to_owned(), row.type_in(style).into());
        document.insert("title".to_owned(), row.title.into());
        document.insert("status".to_owned(), row.status.into());
        document.insert("detail".to_owned(), self.detail.as_str().into());
        document.insert("instance".to_owned(), instance.into());
        if let [Fault { pointer: Some(pointer), .. }] = self.faults.as_slice() {
            document.insert("pointer".to_owned(), fragment(pointer).into());
        }
        if !self.faults.is_empty() {
            document.insert("errors".to_owned(), self.faults.iter().map(Fault::to_json).collect());
        }
        Value::Object(document)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.row().title, self.detail)
    }
}

impl std::error::Error for Problem {}

impl Fault {
    /// A fault at `pointer`, a JSON pointer from the root of the body.
    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), detail: detail.into() }
    }

    fn to_json(&self) -> Value {
        match &self.pointer {
            Some(pointer) => json!({ "detail": self.detail, "pointer": fragment(pointer) }),
            None => json!({ "detail": self.detail }),
        }
    }
}

impl Default for ProblemStyle {
    /// The style of every path that belongs to no service type.
    fn default() -> Self {
        Self::Prefixed("https://dcm-project.github.io/problems/".to_owned())
    }
}

/// One row of the contract's table of errors.
struct Row {
    status: u16,
    suffix: &'static str,
    code: &'static str,
    title: &'static str,
}

impl Row {
    fn type_in(&self, style: &ProblemStyle) -> String {
        match style {
            ProblemStyle::Prefixed(prefix) => format!("{prefix}{}", self.suffix),
            ProblemStyle::BareCode => self.code.to_owned(),
        }
    }
}

impl ProblemKind {
    /// Every kind, in the order of their statuses.
    pub const ALL: [Self; 13] = [
        Self::InvalidArgument,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::NotAcceptable,
        Self::AlreadyExists,
        Self::FailedPreconditionConflict,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::FailedPrecondition,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The HTTP status of its answers.
    pub fn status(self) -> u16 {
        self.row().status
    }

    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// The `type` of its documents.
    pub fn type_in(self, style: &ProblemStyle) -> String {
        self.row().type_in(style)
    }

    fn row(self) -> Row {
        let (status, suffix, code, title) = match self {
            Self::InvalidArgument => (400, "invalid-argument", "INVALID_ARGUMENT", "Invalid argument"),
            Self::Unauthenticated => (401, "unauthenticated", "UNAUTHENTICATED", "Unauthenticated"),
            Self::PermissionDenied => (403, "permission-denied", "PERMISSION_DENIED", "Permission denied"),
            Self::NotFound => (404, "not-found", "NOT_FOUND", "Not found"),
            Self::AlreadyExists => (409, "already-exists", "ALREADY_EXISTS", "Already exists"),
            Self::FailedPrecondition => {
                (422, "failed-precondition", "FAILED_PRECONDITION", "Failed precondition")
            }
            Self::FailedPreconditionConflict => {
                (409, "failed-precondition", "FAILED_PRECONDITION", "Failed precondition")
            }
            Self::Unavailable => (503, "unavailable", "UNAVAILABLE", "Unavailable"),
            Self::MethodNotAllowed => (405, "method-not-allowed", "METHOD_NOT_ALLOWED", "Method not allowed"),
            Self::NotAcceptable => (406, "not-acceptable", "NOT_ACCEPTABLE", "Not acceptable"),
            Self::PayloadTooLarge => (413, "payload-too-large", "PAYLOAD_TOO_LARGE", "Payload too large"),
            Self::UnsupportedMediaType => {
                (415, "unsupported-media-type", "UNSUPPORTED_MEDIA_TYPE", "Unsupported media type")
            }
            Self::Internal => (500, "internal", "INTERNAL", "Internal error"),
        };
        Row { status, suffix, code, title }
    }
}

/// A JSON pointer as a URI fragment (RFC 6901, section 6): what a fragment may not hold is percent-encoded.
fn fragment(pointer: &str) -> String {
    let mut fragment = String::with_capacity(pointer.len() + 1);
    fragment.push('#');
    for byte in pointer.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte) {
            fragment.push(char::from(byte));
        } else {
            fragment.push_str(&format!("%{byte:02X}"));
        }
    }
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fault_is_a_pointer_at_the_top_as_well() {
        let problem =
            Problem::invalid(vec![Fault::at("/spec/resources/cpu/min", "cpu.min is above cpu.max")]);
        assert_eq!(
            problem.to_json(&ProblemStyle::default(), "/api/v1alpha1/things?id=a"),
            json!({
                "type": "https://dcm-project.github.io/problems/invalid-argument",
                "title": "Invalid argument",
                "status": 400,
                "detail": "cpu.min is above cpu.max",
                "instance": "/api/v1alpha1/things?id=a",
                "pointer": "#/spec/resources/cpu/min",
                "errors": [{ "detail": "cpu.min is above cpu.max", "pointer": "#/spec/resources/cpu/min" }],
            })
        );
    }

    #[test]
    fn the_list_of_kinds_is_complete_and_in_the_order_of_statuses() {
        let statuses: Vec<u16> = ProblemKind::ALL.iter().map(|kind| kind.status()).collect();
        assert!(statuses.is_sorted(), "{statuses:?}");
        let kinds = std::collections::HashSet::from(ProblemKind::ALL);
        assert_eq!(kinds.len(), ProblemKind::Internal as usize + 1, "Internal is the last of the kinds");
    }

    #[test]
    fn many_faults_are_errors_in_their_order_and_no_pointer() {
        let problem = Problem::invalid(vec![
            Fault::at("/b", "b is missing"),
            Fault { pointer: None, detail: "a is odd".into() },
        ]);
        let document = problem.to_json(&ProblemStyle::BareCode, "/");
        assert_eq!(document["type"], "INVALID_ARGUMENT");
        assert_eq!(document["detail"], "2 faults, listed in errors; the first: b is missing");
        assert_eq!(
            document["errors"],
            json!([{ "detail": "b is missing", "pointer": "#/b" }, { "detail": "a is odd" }])
        );
        assert_eq!(document.get("pointer"), None);
    }

    #[test]
    fn a_pointer_keeps_its_escapes_and_encodes_what_a_fragment_cannot_hold() {
        assert_eq!(fragment("/labels/bad~0key!"), "#/labels/bad~0key!");
        assert_eq!(fragment("/a~1b/c d/é"), "#/a~1b/c%20d/%C3%A9");
        assert_eq!(fragment(""), "#");
    }

    #[test]
    fn a_conflict_shares_its_type_with_the_precondition_but_not_the_status() {
        let (soft, hard) = (Problem::conflict("is being deleted"), Problem::failed_precondition("no class"));
        let style = ProblemStyle::default();
        assert_eq!((soft.status(), hard.status()), (409, 422));
        assert_eq!(soft.to_json(&style, "/")["type"], hard.to_json(&style, "/")["type"]);
    }
}
