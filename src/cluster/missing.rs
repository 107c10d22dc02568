//! Which rights the cluster has refused us: told once in the log, and on health until the same call succeeds.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::{Method, Request};

/// A verb on a resource, as a rule of a Role names them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needed {
    verb: &'static str,
    group: String,
    resource: String,
}

/// The rights that are missing, as far as calls have shown.
#[derive(Debug, Default)]
pub(crate) struct Missing(Mutex<BTreeSet<Needed>>);

impl Needed {
    /// What a request needs; None for what is no resource, such as discovery.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        let mut parts = request.uri().path().trim_start_matches('/').split('/');
        let group = match parts.next()? {
            "api" => String::new(),
            "apis" => parts.next()?.to_owned(),
            _ => return None,
        };
        let _version = parts.next()?;
        let parts: Vec<&str> = parts.collect();
        let below = match parts.as_slice() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        let (name, resource) = match below {
            [] => return None,
            [plural] => (false, (*plural).to_owned()),
            [plural, _] => (true, (*plural).to_owned()),
            [plural, _, part, ..] => (true, format!("{plural}/{part}")),
        };
        let watches =
            request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        let verb = match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if watches => "watch",
            _ if name => "get",
            _ => "list",
        };
        Some(Self { verb, group, resource })
    }
}

impl Missing {
    pub(crate) fn note(&self, needed: Needed) {
        let Needed { verb, group, resource } = &needed;
        if !self.set().contains(&needed) {
            let help = "bind what `mapwright rbac` prints";
            tracing::error!(verb, group, resource, help, "the cluster does not allow this");
        }
        self.set().insert(needed);
    }

    pub(crate) fn is_granted(&self, needed: &Needed) {
        self.set().remove(needed);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.set().iter().map(ToString::to_string).collect()
    }

    fn set(&self) -> MutexGuard<'_, BTreeSet<Needed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource } = self;
        match group.as_str() {
            "" => write!(f, "{verb} {resource}"),
            group => write!(f, "{verb} {resource}.{group}"),
        }
    }
}
