//! What it means when the API server says no, or nothing at all.

use std::error::Error as _;
use std::fmt;

use kube::client::AuthError;
use kube::core::Status;

/// Why a call had no success: a small kind to match on, and the server's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// The server's text where it answered, ours where it did not.
    pub message: String,
    /// The server's machine-readable word (`AlreadyExists`, `Invalid`); empty where it gave none.
    pub reason: String,
    /// The fields at fault, in the server's order.
    pub causes: Vec<Cause>,
    /// Seconds after which the server asks to be tried again.
    pub retry_after: Option<u64>,
}

/// One field at fault, named as the server names it (`spec.ports[0].port`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub field: String,
    pub message: String,
    pub reason: String,
}

/// The kinds of refusal that some caller treats differently from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// An object of this name is there, and it is not going away.
    AlreadyExists,
    /// The object changed since it was read, or a precondition does not hold.
    Conflict,
    /// No such object, or no such namespace.
    NotFound,
    /// The server does not serve this kind at all. It proves nothing about objects.
    NotServed,
    /// The object as sent is wrong.
    Invalid,
    /// The object, or the request, is larger than the server takes.
    TooLarge,
    /// A quota of the namespace has no room.
    QuotaExceeded,
    /// The namespace is being deleted and takes nothing new.
    NamespaceTerminating,
    /// The object, or one of its name, is being deleted.
    BeingDeleted,
    /// The cluster's RBAC does not allow us this verb.
    Forbidden,
    /// An admission rule of the cluster (a policy, a webhook, a limit) said no to this object.
    Denied,
    /// Our credentials are missing, wrong or have expired.
    Unauthorized,
    /// The server has too much to do and did not begin.
    Throttled,
    /// The version or page token that was asked for is older than what the server remembers.
    Expired,
    /// The server cannot be reached, did not answer in time, or failed itself.
    Unavailable,
    /// Anything else.
    Other,
}

impl RefusalKind {
    /// Whether a write that ended this way may have happened all the same, so that only a look can tell.
    #[must_use]
    pub fn leaves_doubt(self) -> bool {
        matches!(self, Self::Unavailable | Self::Other)
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Throttled | Self::Unauthorized | Self::Expired
        )
    }
}

impl Refusal {
    /// A refusal in our own words.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            reason: String::new(),
            causes: Vec::new(),
            retry_after: None,
        }
    }

    /// The same refusal, with what was tried in front of the server's words.
    #[must_use]
    pub fn during(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// What an error of the client means.
///
/// A credential plugin's output is never part of the message: it may hold what the plugin was asked for.
#[must_use]
pub fn classify(error: &kube::Error) -> Refusal {
    match error {
        kube::Error::Api(status) => classify_status(status),
        kube::Error::Auth(auth) => unauthorized(auth),
        kube::Error::Service(source) => match source.downcast_ref::<AuthError>() {
            Some(auth) => unauthorized(auth),
            None => unreachable_server(error),
        },
        kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => unreachable_server(error),
        kube::Error::FromUtf8(_) | kube::Error::SerdeError(_) => Refusal::new(
            RefusalKind::Other,
            format!("the cluster's answer cannot be read: {error}"),
        ),
        other => Refusal::new(RefusalKind::Other, chain(other)),
    }
}

/// What a Status of the API server means: by its reason first, then its code, then its text where several
/// meanings share both.
#[must_use]
pub fn classify_status(status: &Status) -> Refusal {
    let details = status.details.as_ref();
    let causes = details.map_or(&[][..], |details| &details.causes);
    Refusal {
        kind: kind_of(status),
        message: status.message.clone(),
        reason: status.reason.clone(),
        causes: causes
            .iter()
            .map(|cause| Cause {
                field: cause.field.clone(),
                message: cause.message.clone(),
                reason: cause.reason.clone(),
            })
            .collect(),
        retry_after: details
            .map(|d| u64::from(d.retry_after_seconds))
            .filter(|seconds| *seconds > 0),
    }
}

fn kind_of(status: &Status) -> RefusalKind {
    match status.reason.as_str() {
        "AlreadyExists" | "Conflict" => conflict(status),
        "NotFound" => RefusalKind::NotFound,
        "Invalid" | "BadRequest" => RefusalKind::Invalid,
        "Forbidden" => forbidden(status),
        "Unauthorized" => RefusalKind::Unauthorized,
        "TooManyRequests" => RefusalKind::Throttled,
        "Expired" | "Gone" => RefusalKind::Expired,
        "RequestEntityTooLarge" => RefusalKind::TooLarge,
        "ServerTimeout" | "Timeout" | "ServiceUnavailable" => RefusalKind::Unavailable,
        "MethodNotAllowed" | "NotAcceptable" | "UnsupportedMediaType" => RefusalKind::NotServed,
        _ => by_code(status),
    }
}

/// For answers without a known reason: those of proxies, of etcd, and of paths that are not served.
fn by_code(status: &Status) -> RefusalKind {
    match status.code {
        400 | 422 => RefusalKind::Invalid,
        401 => RefusalKind::Unauthorized,
        403 => forbidden(status),
        404 | 405 => RefusalKind::NotServed,
        409 => conflict(status),
        410 => RefusalKind::Expired,
        413 => RefusalKind::TooLarge,
        429 => RefusalKind::Throttled,
        // etcd's own limit comes as an internal error, and only its text tells.
        500 if status.message.contains("request is too large") => RefusalKind::TooLarge,
        408 | 500..=599 => RefusalKind::Unavailable,
        _ => RefusalKind::Other,
    }
}

/// Three different things share 409 and, partly, the reason.
fn conflict(status: &Status) -> RefusalKind {
    let kind = status
        .details
        .as_ref()
        .map_or("", |details| details.kind.as_str());
    if status.message.contains("object is being deleted") {
        RefusalKind::BeingDeleted
    } else if status.reason == "AlreadyExists" {
        RefusalKind::AlreadyExists
    } else if kind == "resourcequotas" {
        // Two creates raced for the counters of one quota: nothing of the caller's object conflicts.
        RefusalKind::Throttled
    } else {
        RefusalKind::Conflict
    }
}

/// RBAC, quota, a dying namespace and admission rules all say 403.
fn forbidden(status: &Status) -> RefusalKind {
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    let message = status.message.as_str();
    let terminating = causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
    if terminating || message.contains("because it is being terminated") {
        RefusalKind::NamespaceTerminating
    } else if message.contains("exceeded quota") {
        RefusalKind::QuotaExceeded
    } else if message.contains("\" cannot ") || message.is_empty() || message.starts_with("forbidden:") {
        // `User "x" cannot create resource "y"` is the authorizer's sentence and nobody else's.
        RefusalKind::Forbidden
    } else {
        RefusalKind::Denied
    }
}

fn unauthorized(error: &AuthError) -> Refusal {
    let what = match error {
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin ended with {}", out.status),
        AuthError::AuthExecStart(source) => format!("the credential plugin cannot be started: {source}"),
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            "the credential plugin's answer is no ExecCredential with a status".to_owned()
        }
        AuthError::ReadTokenFile(source, path) => {
            format!("the token file {} cannot be read: {source}", path.display())
        }
        _ => "the kubeconfig's credentials cannot be used".to_owned(),
    };
    Refusal::new(RefusalKind::Unauthorized, what)
}

fn unreachable_server(error: &kube::Error) -> Refusal {
    Refusal::new(
        RefusalKind::Unavailable,
        format!("the cluster cannot be reached: {}", chain(error)),
    )
}

/// The error and its sources, each said once: the outer ones alone say only "client error (Connect)".
fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}
