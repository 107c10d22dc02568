//! What a caller is told when the cluster says no: the meaning, never the inside.

use crate::cluster::{Refusal, RefusalKind};
use crate::engine::expression::EvalError;
use crate::engine::json::sort_by_document;
use crate::engine::problem::Problem;
use crate::engine::provenance::{Field, Refused, faults};
use crate::engine::request::Request;

/// Seconds after which a caller may try again, where the cluster named none.
const RETRY_AFTER: u64 = 5;

/// The problem of a refusal. The server's own words go to the log, not to the caller, unless they are
/// about the caller's own object.
pub fn problem_of(refusal: &Refusal, doing: &str) -> Problem {
    tracing::warn!(kind = ?refusal.kind, reason = refusal.reason, message = refusal.message, doing, "the cluster refused");
    match refusal.kind {
        RefusalKind::Invalid => Problem::invalid_argument(invalid(refusal)),
        RefusalKind::AlreadyExists => Problem::already_exists(
            "an object of this name exists in the cluster already; choose another name",
        ),
        RefusalKind::QuotaExceeded => {
            Problem::conflict(format!("exceeded quota: {}", quota(&refusal.message)))
        }
        RefusalKind::NamespaceTerminating => Problem::conflict("the namespace is being terminated"),
        RefusalKind::BeingDeleted => {
            Problem::conflict("an object of this name is being deleted; try again when it is gone")
        }
        RefusalKind::Denied => Problem::failed_precondition(
            "a policy of the cluster refuses the object; ask its operator which one",
        ),
        RefusalKind::TooLarge => {
            Problem::payload_too_large("the request is larger than the cluster stores; make it smaller")
        }
        RefusalKind::Conflict => {
            Problem::conflict("the instance was changed by somebody else at the same time; try again")
        }
        RefusalKind::NotServed => Problem::unavailable(
            "the cluster does not know a kind of object that this service type is made of; its operator has to \
             install what defines it",
            RETRY_AFTER,
        ),
        kind if kind.is_transient() => Problem::unavailable(
            "the cluster cannot serve the request now; try again later",
            refusal.retry_after.unwrap_or(RETRY_AFTER),
        ),
        _ => internal(),
    }
}

/// The problem of a refused object: where the cluster names fields, each fault points to what the caller
/// sent for it. `variable` is what the caller sent, as expressions name it. Where fields come from is asked
/// only when it is needed.
pub(super) fn problem_of_object(
    refusal: &Refusal,
    doing: &str,
    request: &Request,
    variable: &str,
    fields: impl FnOnce() -> Result<Vec<Field>, EvalError>,
) -> Problem {
    let problem = problem_of(refusal, doing);
    if refusal.kind != RefusalKind::Invalid || refusal.causes.is_empty() {
        return problem;
    }
    let causes: Vec<Refused<'_>> =
        refusal.causes.iter().map(|cause| Refused { field: &cause.field, message: &cause.message }).collect();
    match fields() {
        Ok(fields) => {
            let mut faults = faults(&causes, &fields, variable, request.root);
            sort_by_document(&request.body, &mut faults);
            Problem::invalid(faults)
        }
        Err(error) => {
            tracing::error!(%error, "the fields of a refused object cannot be traced");
            problem
        }
    }
}

/// A rule of the mapping that could not be evaluated is our fault, and the operator's to mend; only what is
/// too large for it is the caller's.
pub(super) fn broken_rule(error: &EvalError) -> Problem {
    if error.too_large {
        let detail = format!("the request makes {}; make it smaller", error.message);
        return Problem::payload_too_large(detail);
    }
    tracing::error!(%error, "a rule of the mapping failed");
    internal()
}

pub(super) fn internal() -> Problem {
    Problem::internal("an internal error occurred; the provider's log says more")
}

/// The fields at fault, in the server's words: they speak of what the caller sent.
fn invalid(refusal: &Refusal) -> String {
    let causes: Vec<String> =
        refusal.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match causes.is_empty() {
        true => "the cluster refuses the object as invalid".to_owned(),
        false => format!("the cluster refuses the object: {}", causes.join("; ")),
    }
}

/// The part of a quota's text that names it and the amounts, without the object's path.
fn quota(message: &str) -> &str {
    message.split_once("exceeded quota: ").map_or("a quota of the namespace has no room", |(_, rest)| rest)
}
