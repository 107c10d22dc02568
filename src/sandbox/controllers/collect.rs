//! The collection of garbage: dependents follow their owners, behind them, before them, or not at all.

use serde_json::{Value, json};

use super::{Cluster, Next};
use crate::sandbox::object::{finalizers, is_deleting, list, metadata, text, uid};
use crate::sandbox::store::{Key, Storage};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// An owner is gone: what had no other goes too.
pub(super) fn orphans(cluster: &Cluster, uid: &str) -> Next {
    for (storage, key) in cluster.dependents(uid) {
        if let Some(dependent) = cluster.get(&storage, &key) {
            follow(cluster, &dependent);
        }
    }
    Next::Done
}

/// An object that is being deleted deals with its dependents; one whose owners are gone goes.
pub(super) fn owner(cluster: &Cluster, storage: &Storage, key: &Key) -> Next {
    let Some(object) = cluster.get(storage, key) else { return Next::Done };
    if !is_deleting(&object) {
        follow(cluster, &object);
        return Next::Done;
    }
    let held = finalizers(&object);
    if held.contains(&ORPHAN) {
        release_dependents(cluster, &object);
        without(cluster, &object, ORPHAN);
    } else if held.contains(&FOREGROUND) && !delete_dependents(cluster, &object) {
        without(cluster, &object, FOREGROUND);
    }
    Next::Done
}

/// Deletes an object all of whose owners are gone.
fn follow(cluster: &Cluster, object: &Value) {
    let owners = list(object, "/metadata/ownerReferences");
    let lives = |owner: &Value| cluster.holder(text(owner, "/uid")).is_some();
    if owners.is_empty() || is_deleting(object) || owners.iter().any(lives) {
        return;
    }
    cluster.delete(object, "Background");
}

/// Begins to delete what blocks the owner; true while any of it is left.
fn delete_dependents(cluster: &Cluster, owner: &Value) -> bool {
    let mut left = false;
    for (storage, key) in cluster.dependents(uid(owner)) {
        let Some(dependent) = cluster.get(&storage, &key) else { continue };
        let reference = list(&dependent, "/metadata/ownerReferences").iter();
        let blocks = reference
            .filter(|reference| text(reference, "/uid") == uid(owner))
            .any(|reference| reference["blockOwnerDeletion"] == true);
        if !is_deleting(&dependent) {
            cluster.delete(&dependent, "Foreground");
        }
        left |= blocks && cluster.get(&storage, &key).is_some();
    }
    left
}

fn release_dependents(cluster: &Cluster, owner: &Value) {
    for (storage, key) in cluster.dependents(uid(owner)) {
        let Some(dependent) = cluster.get(&storage, &key) else { continue };
        let _ = cluster.change(&dependent, |object| {
            let others: Vec<Value> = list(object, "/metadata/ownerReferences")
                .iter()
                .filter(|reference| text(reference, "/uid") != uid(owner))
                .cloned()
                .collect();
            metadata(object).insert("ownerReferences".to_owned(), others.into());
        });
    }
}

/// Takes a finalizer away.
pub(super) fn without(cluster: &Cluster, object: &Value, finalizer: &str) {
    let changed = cluster.change(object, |object| {
        let left: Vec<&str> = finalizers(object).into_iter().filter(|known| *known != finalizer).collect();
        let left = json!(left);
        metadata(object).insert("finalizers".to_owned(), left);
    });
    if let Err(refusal) = changed {
        tracing::debug!(reason = refusal.message, finalizer, "a finalizer was not taken away");
    }
}
