//! What controllers and kubelets would do, where a test plays them: ReplicaSets, pods and conditions.

use mapwright_testbed::Kind;
use mapwright_testbed::objects::owner_reference;
use serde_json::{Value, json};

use crate::dcm::{Dcm, labels, name_of, with};

impl Dcm {
    /// A ReplicaSet of a container's Deployment.
    pub(crate) async fn replica_set(&self, id: &str, revision: u32) -> Value {
        let deployment = self.only(&Kind::DEPLOYMENT, id).await;
        let hash = format!("h{revision}");
        let labels = with(labels("container", id), "/pod-template-hash", json!(hash));
        let set = json!({
            "metadata": {
                "name": format!("{}-{hash}", name_of(&deployment)),
                "labels": labels,
                "annotations": { "deployment.kubernetes.io/revision": revision.to_string() },
                "ownerReferences": [owner_reference(&deployment)],
            },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "x" }] } },
            },
        });
        self.objects.create(&Kind::REPLICA_SET, set).await.unwrap()
    }

    /// A pod of a ReplicaSet, with a status.
    pub(crate) async fn pod_of(&self, set: &Value, name: &str, status: Value) -> Value {
        let labels = set["spec"]["selector"]["matchLabels"].clone();
        self.objects.make_pod(name, labels, Some(set), status).await.unwrap()
    }

    /// Removes a pod as a kubelet would have ended it.
    pub(crate) async fn pod_ends(&self, pod: &Value) {
        assert!(self.objects.delete_now(&Kind::POD, name_of(pod)).await.unwrap());
    }
}

/// A container's status inside a pod: `state` as Kubernetes writes it, and what else is known.
pub(crate) fn container(name: &str, state: Value, more: Value) -> Value {
    let mut status = json!({
        "name": name, "image": "registry.example/web:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": state,
    });
    for (key, value) in more.as_object().unwrap() {
        status[key] = value.clone();
    }
    status
}

pub(crate) fn waiting(reason: &str, message: &str) -> Value {
    json!({ "waiting": { "reason": reason, "message": message } })
}

/// A container that crashed so often that it is held back.
pub(crate) fn crashing(name: &str, exit_code: i32) -> Value {
    let last = json!({ "restartCount": 5, "lastState": { "terminated": { "exitCode": exit_code, "reason": "Error" } } });
    container(name, waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container"), last)
}

pub(crate) fn healthy(name: &str) -> Value {
    let state = json!({ "running": { "startedAt": "2026-01-02T03:04:05Z" } });
    container(name, state, json!({ "ready": true, "started": true }))
}
