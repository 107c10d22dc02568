//! From a kind to the path of its objects, as the cluster's discovery tells.

use std::fmt;
use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::connection::{Cluster, get};
use super::refusal::{Refusal, RefusalKind};

/// A kind as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRef {
    /// `v1`, `apps/v1`
    pub api_version: String,
    pub kind: String,
}

/// A kind as this cluster serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub reference: ResourceRef,
    /// The name in paths and roles: `deployments`.
    pub plural: String,
    pub namespaced: bool,
    /// What the server lets anybody do with it: `create`, `watch`, ..
    pub verbs: Vec<String>,
}

impl ResourceRef {
    #[must_use]
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    /// The root of everything that the group version serves. The first group of all has a root of its own.
    fn root(&self) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.api_version)
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

impl Resource {
    /// The path of all objects in a namespace; of all namespaces, if it is empty. A kind without
    /// namespaces has one path only.
    ///
    /// # Errors
    /// When the namespace cannot be part of a path.
    pub fn collection(&self, namespace: &str) -> Result<String, Refusal> {
        let root = self.reference.root();
        if namespace.is_empty() || !self.namespaced {
            return Ok(format!("{root}/{}", self.plural));
        }
        Ok(format!(
            "{root}/namespaces/{}/{}",
            segment(namespace)?,
            self.plural
        ))
    }

    /// The path of one object.
    ///
    /// # Errors
    /// When the namespace or the name cannot be part of a path.
    pub fn path(&self, namespace: &str, name: &str) -> Result<String, Refusal> {
        if self.namespaced && namespace.is_empty() {
            let text = format!("{} {name}: a namespace is needed", self.reference.kind);
            return Err(Refusal::new(RefusalKind::Invalid, text));
        }
        Ok(format!("{}/{}", self.collection(namespace)?, segment(name)?))
    }
}

impl Cluster {
    /// How the cluster serves a kind. Asked once for each; a kind that is not served is asked again.
    ///
    /// # Errors
    /// `NotServed` when the cluster has no such kind, else why it could not be asked.
    pub async fn resource(&self, reference: &ResourceRef) -> Result<Arc<Resource>, Refusal> {
        let known = self
            .resources()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(reference)
            .cloned();
        if let Some(resource) = known {
            return Ok(resource);
        }
        let resource = Arc::new(self.discover(reference).await?);
        let mut known = self.resources().lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(reference.clone(), Arc::clone(&resource));
        Ok(resource)
    }

    async fn discover(&self, reference: &ResourceRef) -> Result<Resource, Refusal> {
        let list = self.call(get(&reference.root())?).await;
        let list = match list {
            Err(refusal) if matches!(refusal.kind, RefusalKind::NotFound | RefusalKind::NotServed) => {
                return Err(not_served(reference));
            }
            list => list.map_err(|refusal| refusal.during(&format!("discovery of {reference}")))?,
        };
        let items = list
            .get("resources")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        items
            .filter(|item| item.get("kind").and_then(Value::as_str) == Some(&reference.kind))
            .find_map(|item| served(reference, item))
            .ok_or_else(|| not_served(reference))
    }
}

/// One entry of a discovery document; None for a subresource, which borrows its kind from elsewhere.
fn served(reference: &ResourceRef, item: &Value) -> Option<Resource> {
    let plural = item.get("name")?.as_str().filter(|name| !name.contains('/'))?;
    let verbs = item.get("verbs").and_then(Value::as_array).into_iter().flatten();
    Some(Resource {
        reference: reference.clone(),
        plural: plural.to_owned(),
        namespaced: item.get("namespaced").and_then(Value::as_bool).unwrap_or(false),
        verbs: verbs.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn not_served(reference: &ResourceRef) -> Refusal {
    let text = format!(
        "the cluster serves no {} in {}; install what defines it, or name a version that the cluster serves",
        reference.kind, reference.api_version
    );
    Refusal::new(RefusalKind::NotServed, text)
}

/// A name as one segment of a path. Names with a slash, a dot-dot or a percent sign are no names of
/// objects, and would lead to another path.
fn segment(name: &str) -> Result<&str, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    if name.is_empty() || name == "." || name == ".." || !name.chars().all(plain) {
        return Err(Refusal::new(
            RefusalKind::Invalid,
            format!("{name:?} is no name of an object"),
        ));
    }
    Ok(name)
}
