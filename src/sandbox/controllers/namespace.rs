//! Namespaces: what each has from its beginning, what happens to its content at its end, and its quotas.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, Next};
use crate::sandbox::object::{is_deleting, name};
use crate::sandbox::store::Key;

/// A namespace that does not empty is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) fn reconcile(cluster: &Cluster, key: &Key) -> Next {
    let Some(namespace) = cluster.get("namespaces", key) else { return Next::Done };
    if !is_deleting(&namespace) {
        let account = ("serviceaccounts", (key.1.clone(), "default".to_owned()));
        if cluster.get(account.0, &account.1).is_none() {
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let _ = cluster.create(&key.1, account);
        }
        return Next::Done;
    }
    let mut left = false;
    for storage in cluster.storages() {
        for object in cluster.all(&storage, &key.1) {
            left = true;
            // Nobody waits for a grace period in a namespace that ends.
            if !is_deleting(&object) || &*storage == "pods" {
                cluster.delete_now(&object);
            }
        }
    }
    if left {
        return Next::Again(LOOK_AGAIN);
    }
    let _ = cluster.change(&namespace, |namespace| namespace["spec"] = json!({"finalizers": []}));
    Next::Done
}

/// Counts what the quotas of a namespace limit.
pub(super) fn count_quotas(cluster: &Cluster, namespace: &str) -> Next {
    for quota in cluster.all("resourcequotas", namespace) {
        let counted = cluster.count_quota(&quota);
        if quota["status"] != counted
            && let Err(refusal) =
                cluster.change_status(&quota, |quota: &mut Value| quota["status"] = counted.clone())
        {
            tracing::debug!(quota = name(&quota), reason = refusal.message, "a quota was not counted");
        }
    }
    Next::Done
}
