//! What the protocol of records, leases and the ledger needs to be allowed, whatever the mappings hold.

use super::resource::ResourceRef;

/// One verb on one kind, and what needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRight {
    pub resource: ResourceRef,
    pub verb: &'static str,
    pub because: &'static str,
    /// Only the object of the provider's namespace is meant.
    pub own_namespace: bool,
}

/// Every right that the product needs for itself.
#[must_use]
pub fn own_rights() -> Vec<OwnRight> {
    let of = |api_version: &str, kind: &str, verb, because| OwnRight {
        resource: ResourceRef::new(api_version, kind),
        verb,
        because,
        own_namespace: false,
    };
    let record = |verb, because| of("v1", "ConfigMap", verb, because);
    let lease = |verb, because| of("coordination.k8s.io/v1", "Lease", verb, because);
    let scope = of("v1", "Namespace", "get", "the ledger: the namespace's uid tells clusters apart");
    vec![
        record("create", "records: the claim on an id"),
        record("get", "records: an id that another replica may have claimed"),
        record("list", "records: the instances at a start"),
        record("watch", "records: changes by other replicas"),
        record("patch", "records: each step of an instance"),
        record("delete", "records: the end of an instance"),
        lease("create", "the lease: one of several replicas speaks"),
        lease("get", "the lease: who speaks now"),
        lease("update", "the lease: renewed, taken over, given up"),
        OwnRight { own_namespace: true, ..scope },
    ]
}

/// What it needs besides where callers are known by tokens of the cluster.
#[must_use]
pub fn review_rights() -> Vec<OwnRight> {
    let of = |api_version: &str, kind: &str, because| OwnRight {
        resource: ResourceRef::new(api_version, kind),
        verb: "create",
        because,
        own_namespace: false,
    };
    vec![
        of("authentication.k8s.io/v1", "TokenReview", "SP_SERVER_TOKEN_REVIEW: who holds a caller's token"),
        of(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            "SP_SERVER_TOKEN_REVIEW: what the holder may ask for",
        ),
    ]
}
