//! A ReplicaSet keeps as many pods as it is asked for.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, Next};
use crate::sandbox::object::{
    condition, controlled_by, controller, is_deleting, name, namespace, now, number, text, uid,
};
use crate::sandbox::refusal::Refusal;
use crate::sandbox::store::Key;

const COMPONENT: &str = "replicaset-controller";

/// After a pod was refused, for a quota may have room again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn reconcile(cluster: &Cluster, key: &Key) -> Next {
    let Some(set) = cluster.get("replicasets.apps", key) else { return Next::Done };
    let pods = active_pods(cluster, &set);
    let wanted = usize::try_from(number(&set, "/spec/replicas").unwrap_or(1)).unwrap_or_default();
    let mut failure = None;
    if !is_deleting(&set) {
        for _ in pods.len()..wanted {
            match make_pod(cluster, &set) {
                Ok(pod) => {
                    let message = format!("Created pod: {}", name(&pod));
                    cluster.event(&set, COMPONENT, "Normal", "SuccessfulCreate", &message);
                }
                Err(refusal) => {
                    let message = format!("Error creating: {}", refusal.message);
                    cluster.event(&set, COMPONENT, "Warning", "FailedCreate", &message);
                    failure = Some(refusal);
                    break;
                }
            }
        }
        if pods.len() > wanted {
            delete_some(cluster, &set, &pods, pods.len() - wanted);
        }
    }
    tell(cluster, &set, failure.as_ref());
    if failure.is_some() { Next::Again(TRY_AGAIN) } else { Next::Done }
}

/// The pods that count: those that neither end nor have ended.
pub(super) fn active_pods(cluster: &Cluster, owner: &Value) -> Vec<Value> {
    let mut pods = cluster.controlled(owner, "pods");
    pods.retain(|pod| {
        let ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
        let ours = controller(pod).is_some_and(|reference| text(reference, "/uid") == uid(owner));
        ours && !ended && !is_deleting(pod)
    });
    pods
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// A pod from the template of an object.
pub(super) fn make_pod(cluster: &Cluster, owner: &Value) -> Result<Value, Refusal> {
    let template = &owner["spec"]["template"];
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", name(owner)),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "finalizers": template["metadata"]["finalizers"],
            "ownerReferences": controlled_by(owner),
        },
        "spec": template["spec"],
    });
    cluster.create(namespace(owner), pod)
}

/// Those that are of least use go first.
fn delete_some(cluster: &Cluster, set: &Value, pods: &[Value], count: usize) {
    let mut pods: Vec<&Value> = pods.iter().collect();
    pods.sort_by_key(|pod| {
        let placed = !text(pod, "/spec/nodeName").is_empty();
        let created = text(pod, "/metadata/creationTimestamp").to_owned();
        (is_ready(pod), text(pod, "/status/phase") == "Running", placed, std::cmp::Reverse(created))
    });
    for pod in pods.into_iter().take(count) {
        cluster.delete(pod, "Background");
        let message = format!("Deleted pod: {}", name(pod));
        cluster.event(set, COMPONENT, "Normal", "SuccessfulDelete", &message);
    }
}

fn tell(cluster: &Cluster, set: &Value, failure: Option<&Refusal>) {
    let pods = active_pods(cluster, set);
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let old = condition(set, "ReplicaFailure").cloned();
    let _ = cluster.change_status(set, |set| {
        let mut status = json!({
            "replicas": pods.len(),
            "fullyLabeledReplicas": pods.len(),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": set["metadata"]["generation"],
        });
        if let Value::Object(members) = &mut status {
            members.retain(|key, value| key == "replicas" || *value != 0);
        }
        if let Some(refusal) = failure {
            let since = old.as_ref().map_or_else(|| now().into(), |old| old["lastTransitionTime"].clone());
            status["conditions"] = json!([{
                "type": "ReplicaFailure", "status": "True", "lastTransitionTime": since,
                "reason": "FailedCreate", "message": refusal.message,
            }]);
        }
        set["status"] = status;
    });
}
