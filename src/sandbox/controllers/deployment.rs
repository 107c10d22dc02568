//! A Deployment makes a ReplicaSet for each of its templates and moves its pods to the newest.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, Next};
use crate::engine::names::fingerprint;
use crate::sandbox::object::{
    condition, controlled_by, is_deleting, map_at, metadata, name, namespace, now, number, text,
};
use crate::sandbox::store::Key;

const COMPONENT: &str = "deployment-controller";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// What a Deployment has, and how many pods it may have meanwhile.
struct Rollout {
    deployment: Value,
    /// Those of former templates.
    old: Vec<Value>,
    new: Option<Value>,
    wanted: i64,
    surge: i64,
    unavailable: i64,
}

pub(super) fn reconcile(cluster: &Cluster, key: &Key) -> Next {
    let Some(deployment) = cluster.get("deployments.apps", key) else { return Next::Done };
    let mut rollout = Rollout::of(cluster, deployment);
    if !is_deleting(&rollout.deployment) {
        let recreate = rollout.deployment["spec"]["strategy"]["type"] == "Recreate";
        let paused = rollout.deployment["spec"]["paused"] == true;
        if !recreate || rollout.old.iter().all(|set| replicas_of(set) == 0 && counted(set, "replicas") == 0) {
            rollout.ensure_new(cluster, paused);
        }
        if !paused {
            rollout.scale_new(cluster);
            rollout.scale_old(cluster, recreate);
            rollout.forget_oldest(cluster);
        }
    }
    rollout.tell(cluster)
}

impl Rollout {
    fn of(cluster: &Cluster, deployment: Value) -> Self {
        let mut sets = cluster.controlled(&deployment, "replicasets.apps");
        sets.retain(|set| !is_deleting(set));
        let place = sets.iter().position(|set| same_template(set, &deployment));
        let new = place.map(|place| sets.remove(place));
        let wanted = number(&deployment, "/spec/replicas").unwrap_or(1);
        let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
        let surge = share(&rolling["maxSurge"], wanted, true);
        let unavailable = share(&rolling["maxUnavailable"], wanted, false);
        // Neither more nor less would never end.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { deployment, old: sets, new, wanted, surge, unavailable }
    }

    fn total(&self) -> i64 {
        self.old.iter().chain(&self.new).map(replicas_of).sum()
    }

    /// The ReplicaSet of the present template, with the newest revision.
    fn ensure_new(&mut self, cluster: &Cluster, paused: bool) {
        let highest = self.old.iter().map(revision_of).max().unwrap_or(0);
        if let Some(new) = &self.new {
            if revision_of(new) <= highest {
                self.new = annotated(cluster, new, highest + 1);
            }
        } else if !paused {
            self.new = self.make(cluster, highest + 1);
        }
        let revision = self.new.as_ref().map_or(0, revision_of).to_string();
        if revision != "0"
            && text(&self.deployment, "/metadata/annotations/deployment.kubernetes.io~1revision") != revision
        {
            let changed = cluster.change(&self.deployment, |deployment| {
                map_at(&mut deployment["metadata"], "annotations")
                    .insert(REVISION.to_owned(), revision.as_str().into());
            });
            if let Ok(changed) = changed {
                self.deployment = changed;
            }
        }
    }

    fn make(&self, cluster: &Cluster, revision: i64) -> Option<Value> {
        let deployment = &self.deployment;
        let hash = hash_of(&deployment["spec"]["template"], number(deployment, "/status/collisionCount"));
        let mut template = deployment["spec"]["template"].clone();
        map_at(metadata_value(&mut template), "labels").insert(HASH.to_owned(), hash.as_str().into());
        let mut selector = deployment["spec"]["selector"].clone();
        map_at(&mut selector, "matchLabels").insert(HASH.to_owned(), hash.as_str().into());
        let most = self.wanted + self.surge;
        let first = self.wanted.min((most - self.total()).max(0));
        let mut annotations = deployment["metadata"]["annotations"].clone();
        if let Value::Object(annotations) = &mut annotations {
            annotations.shift_remove("kubectl.kubernetes.io/last-applied-configuration");
        } else {
            annotations = json!({});
        }
        annotations["deployment.kubernetes.io/desired-replicas"] = self.wanted.to_string().into();
        annotations["deployment.kubernetes.io/max-replicas"] = most.to_string().into();
        annotations[REVISION] = revision.to_string().into();
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{}-{hash}", name(deployment)),
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": controlled_by(deployment),
            },
            "spec": {
                "replicas": first, "selector": selector, "template": template,
                "minReadySeconds": deployment["spec"]["minReadySeconds"],
            },
        });
        match cluster.create(namespace(deployment), set) {
            Ok(set) => {
                let message = format!("Scaled up replica set {} from 0 to {first}", name(&set));
                cluster.event(deployment, COMPONENT, "Normal", "ScalingReplicaSet", &message);
                Some(set)
            }
            Err(refusal) => {
                let message = format!("Failed to create new replica set: {}", refusal.message);
                cluster.event(deployment, COMPONENT, "Warning", "ReplicaSetCreateError", &message);
                None
            }
        }
    }

    fn scale_new(&mut self, cluster: &Cluster) {
        let Some(new) = &self.new else { return };
        let now = replicas_of(new);
        let room = self.wanted + self.surge - self.total();
        let to = if now > self.wanted { self.wanted } else { now + (self.wanted - now).min(room.max(0)) };
        if to != now
            && let Some(scaled) = self.scale(cluster, new, to)
        {
            self.new = Some(scaled);
        }
    }

    /// As many of the old as the new ones make unnecessary; what does not run anyway goes first.
    fn scale_old(&mut self, cluster: &Cluster, recreate: bool) {
        let (new, ready) = match &self.new {
            Some(new) => (replicas_of(new), counted(new, "availableReplicas")),
            None => (0, 0),
        };
        let least = if recreate { 0 } else { self.wanted - self.unavailable };
        let mut may_go = if recreate { i64::MAX } else { self.total() - least - (new - ready).max(0) };
        let mut old = std::mem::take(&mut self.old);
        old.sort_by_key(|set| (counted(set, "availableReplicas") > 0, revision_of(set)));
        for set in &mut old {
            let now = replicas_of(set);
            let go = now.min(may_go.max(0));
            if go > 0 {
                may_go = may_go.saturating_sub(go);
                if let Some(scaled) = self.scale(cluster, set, now - go) {
                    *set = scaled;
                }
            }
        }
        self.old = old;
    }

    fn scale(&self, cluster: &Cluster, set: &Value, to: i64) -> Option<Value> {
        let from = replicas_of(set);
        let scaled = cluster.change(set, |set| {
            map_at(set, "spec").insert("replicas".to_owned(), to.into());
            let annotations = map_at(&mut set["metadata"], "annotations");
            let most = (self.wanted + self.surge).to_string();
            annotations.insert(
                "deployment.kubernetes.io/desired-replicas".to_owned(),
                self.wanted.to_string().into(),
            );
            annotations.insert("deployment.kubernetes.io/max-replicas".to_owned(), most.into());
        });
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {from} to {to}", name(set));
        cluster.event(&self.deployment, COMPONENT, "Normal", "ScalingReplicaSet", &message);
        scaled.ok()
    }

    fn forget_oldest(&mut self, cluster: &Cluster) {
        let keep = number(&self.deployment, "/spec/revisionHistoryLimit").unwrap_or(10);
        let keep = usize::try_from(keep).unwrap_or_default();
        let mut idle: Vec<&Value> =
            self.old.iter().filter(|set| replicas_of(set) == 0 && counted(set, "replicas") == 0).collect();
        idle.sort_by_key(|set| revision_of(set));
        for set in idle.iter().take(idle.len().saturating_sub(keep)) {
            cluster.delete(set, "Background");
        }
    }

    fn tell(&self, cluster: &Cluster) -> Next {
        let sum =
            |member: &str| self.old.iter().chain(&self.new).map(|set| counted(set, member)).sum::<i64>();
        let updated = self.new.as_ref().map_or(0, |new| counted(new, "replicas"));
        let (all, available) = (sum("replicas"), sum("availableReplicas"));
        let (conditions, next) = self.conditions(updated, all, available);
        let total = self.total();
        let _ = cluster.change_status(&self.deployment, |deployment| {
            let mut status = json!({
                "observedGeneration": deployment["metadata"]["generation"],
                "replicas": all,
                "updatedReplicas": updated,
                "readyReplicas": sum("readyReplicas"),
                "availableReplicas": available,
                "unavailableReplicas": (total - available).max(0),
            });
            if let Value::Object(members) = &mut status {
                members.retain(|_, value| *value != 0);
            }
            status["conditions"] = conditions.clone().into();
            deployment["status"] = status;
        });
        next
    }

    fn conditions(&self, updated: i64, all: i64, available: i64) -> (Vec<Value>, Next) {
        let deployment = &self.deployment;
        let set = self.new.as_ref().map(name).unwrap_or_default();
        let enough = available >= self.wanted - self.unavailable;
        let mut conditions = vec![if enough {
            made(
                deployment,
                "Available",
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            )
        } else {
            let message = "Deployment does not have minimum availability.";
            made(deployment, "Available", "False", "MinimumReplicasUnavailable", message)
        }];
        let failed = self.new.iter().chain(&self.old).find_map(|set| condition(set, "ReplicaFailure"));
        if let Some(failed) = failed {
            let (reason, message) = (text(failed, "/reason"), text(failed, "/message"));
            conditions.push(made(deployment, "ReplicaFailure", "True", reason, message));
        }
        let complete = updated == self.wanted && all == self.wanted && available == self.wanted;
        let mut next = Next::Done;
        let progressing = if complete && self.new.is_some() {
            let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
            made(deployment, "Progressing", "True", "NewReplicaSetAvailable", &message)
        } else {
            match self.overdue() {
                Ok(true) => {
                    let message = format!("ReplicaSet \"{set}\" has timed out progressing.");
                    made(deployment, "Progressing", "False", "ProgressDeadlineExceeded", &message)
                }
                left => {
                    if let Err(left) = left {
                        next = Next::Again(left);
                    }
                    let message = format!("ReplicaSet \"{set}\" is progressing.");
                    made(deployment, "Progressing", "True", "ReplicaSetUpdated", &message)
                }
            }
        };
        conditions.push(progressing);
        (conditions, next)
    }

    /// Whether nothing has progressed for too long; else how long it still may.
    fn overdue(&self) -> Result<bool, Duration> {
        let limit = number(&self.deployment, "/spec/progressDeadlineSeconds").unwrap_or(600);
        let Some(known) = condition(&self.deployment, "Progressing") else {
            return Err(Duration::from_secs(limit.unsigned_abs()));
        };
        if known["reason"] == "ProgressDeadlineExceeded" {
            return Ok(self.new.as_ref().is_some_and(|new| counted(new, "availableReplicas") < self.wanted));
        }
        if known["reason"] == "NewReplicaSetAvailable" {
            return Ok(false);
        }
        let since = text(known, "/lastUpdateTime").parse::<jiff::Timestamp>().ok();
        let passed = since.map_or(0, |since| crate::clock::now().duration_since(since).as_secs());
        if passed >= limit { Ok(true) } else { Err(Duration::from_secs((limit - passed).unsigned_abs())) }
    }
}

/// A condition, with the times of the one that says the same already.
fn made(object: &Value, kind: &str, status: &str, reason: &str, message: &str) -> Value {
    let old = condition(object, kind);
    let same = old.filter(|old| old["status"] == status);
    let alike = same.filter(|old| old["reason"] == reason && old["message"] == message);
    let time =
        |old: Option<&Value>, member: &str| old.map_or_else(|| now().into(), |old| old[member].clone());
    json!({
        "type": kind,
        "status": status,
        "lastUpdateTime": time(alike, "lastUpdateTime"),
        "lastTransitionTime": time(same, "lastTransitionTime"),
        "reason": reason,
        "message": message,
    })
}

fn annotated(cluster: &Cluster, set: &Value, revision: i64) -> Option<Value> {
    let changed = cluster.change(set, |set| {
        map_at(&mut set["metadata"], "annotations").insert(REVISION.to_owned(), revision.to_string().into());
    });
    changed.ok().or_else(|| Some(set.clone()))
}

fn same_template(set: &Value, deployment: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    map_at(metadata_value(&mut template), "labels").shift_remove(HASH);
    let mut wanted = deployment["spec"]["template"].clone();
    map_at(metadata_value(&mut wanted), "labels");
    template == wanted
}

fn metadata_value(template: &mut Value) -> &mut Value {
    metadata(template);
    &mut template["metadata"]
}

/// Not the real server's digest, which depends on how Go prints a struct; of the same form.
fn hash_of(template: &Value, collisions: Option<i64>) -> String {
    let text = format!("{template}{}", collisions.unwrap_or(0));
    let digest = fingerprint(&[&text]);
    let bits =
        digest.bytes().fold(0_u128, |bits, byte| bits.wrapping_mul(257).wrapping_add(u128::from(byte)));
    crate::sandbox::object::encode_safely(bits, 10)
}

fn replicas_of(set: &Value) -> i64 {
    number(set, "/spec/replicas").unwrap_or(0)
}

fn counted(set: &Value, member: &str) -> i64 {
    set["status"][member].as_i64().unwrap_or(0)
}

fn revision_of(set: &Value) -> i64 {
    text(set, "/metadata/annotations/deployment.kubernetes.io~1revision").parse().unwrap_or(0)
}

/// A number of pods, or a share of them.
fn share(value: &Value, of: i64, up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match (value.as_i64(), percent) {
        (Some(number), _) => number,
        (None, Some(percent)) if up => (of.saturating_mul(percent) + 99) / 100,
        (None, Some(percent)) => of.saturating_mul(percent) / 100,
        (None, None) => 0,
    }
}
