//! A Lease: of many who want it, one holds it, and the others notice when it has stopped being renewed.
//!
//! Clocks of other machines are never compared with ours: a lease has run out when nobody has changed it for
//! its whole duration as we ourselves count it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connection::Cluster;
use super::refusal::{Refusal, RefusalKind};
use super::resource::{Resource, ResourceRef};
use super::store::metadata;

/// One lease, and one who wants it.
pub struct Lease {
    cluster: Cluster,
    namespace: String,
    name: String,
    /// Who we are. A process that is started again in the place of a dead one has the same identity, and
    /// goes on at once.
    identity: String,
    duration: Duration,
    seen: Option<Seen>,
}

/// What was last seen of the lease, and since when it has not changed.
struct Seen {
    version: String,
    holder: String,
    duration: Duration,
    since: Instant,
}

impl Lease {
    #[must_use]
    pub fn new(
        cluster: Cluster,
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
        duration: Duration,
    ) -> Self {
        let (namespace, name, identity) = (namespace.into(), name.into(), identity.into());
        Self { cluster, namespace, name, identity, duration, seen: None }
    }

    /// Takes, keeps or looks at the lease, once: true means that it is ours now.
    ///
    /// # Errors
    /// When the server does not say. The lease may be ours or not.
    pub async fn attempt(&mut self) -> Result<bool, Refusal> {
        let resource = self.resource().await?;
        let Some(lease) = self.cluster.get(&resource, &self.namespace, &self.name).await? else {
            return self.create(&resource).await;
        };
        self.look(&lease);
        let free = self.seen.as_ref().is_some_and(|seen| {
            seen.holder.is_empty() || seen.holder == self.identity || seen.since.elapsed() >= seen.duration
        });
        if !free {
            return Ok(false);
        }
        let taken = self.spec(&lease, &self.identity, self.duration);
        self.replace(&resource, &lease, taken).await
    }

    /// Gives the lease up, so that the next one need not wait for it to run out.
    ///
    /// # Errors
    /// When the server does not take it; the lease then runs out by itself.
    pub async fn release(&mut self) -> Result<(), Refusal> {
        let resource = self.resource().await?;
        let lease = self.cluster.get(&resource, &self.namespace, &self.name).await?;
        let Some(lease) = lease.filter(|lease| holder(lease) == self.identity) else { return Ok(()) };
        let given_up = self.spec(&lease, "", Duration::from_secs(1));
        self.replace(&resource, &lease, given_up).await.map(|_| ())
    }

    /// Who holds it, as far as is known.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| &seen.holder)
    }

    fn look(&mut self, lease: &Value) {
        let version = metadata(lease, "resourceVersion").to_owned();
        if self.seen.as_ref().is_some_and(|seen| seen.version == version) {
            return;
        }
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        let duration = seconds.map_or(self.duration, Duration::from_secs);
        self.seen = Some(Seen { version, holder: holder(lease).to_owned(), duration, since: Instant::now() });
    }

    async fn create(&mut self, resource: &Resource) -> Result<bool, Refusal> {
        let object = json!({
            "apiVersion": resource.reference.api_version,
            "kind": resource.reference.kind,
            "metadata": { "name": self.name },
            "spec": self.spec(&Value::Null, &self.identity, self.duration),
        });
        let created = self.cluster.create(resource, &self.namespace, &object).await;
        self.outcome(created)
    }

    async fn replace(&mut self, resource: &Resource, lease: &Value, spec: Value) -> Result<bool, Refusal> {
        let version = metadata(lease, "resourceVersion");
        let mut object = lease.clone();
        object["spec"] = spec;
        let replaced = self.cluster.replace(resource, &self.namespace, &self.name, version, &object).await;
        self.outcome(replaced)
    }

    /// Somebody who was faster is no error: the lease is theirs.
    fn outcome(&mut self, answer: Result<Value, Refusal>) -> Result<bool, Refusal> {
        match answer {
            Ok(lease) => {
                self.look(&lease);
                Ok(self.holder() == self.identity)
            }
            Err(refusal) if matches!(refusal.kind, RefusalKind::Conflict | RefusalKind::AlreadyExists) => {
                Ok(false)
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn spec(&self, former: &Value, holder: &str, duration: Duration) -> Value {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let same = former.pointer("/spec/holderIdentity").and_then(Value::as_str) == Some(holder);
        let since = former.pointer("/spec/acquireTime").filter(|_| same).cloned();
        let terms = former.pointer("/spec/leaseTransitions").and_then(Value::as_u64).unwrap_or(0);
        json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": duration.as_secs().max(1),
            "acquireTime": since.unwrap_or_else(|| json!(now)),
            "renewTime": now,
            "leaseTransitions": terms + u64::from(!same && !former.is_null()),
        })
    }

    async fn resource(&self) -> Result<Arc<Resource>, Refusal> {
        self.cluster.resource(&ResourceRef::new("coordination.k8s.io/v1", "Lease")).await
    }
}

fn holder(lease: &Value) -> &str {
    lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default()
}
