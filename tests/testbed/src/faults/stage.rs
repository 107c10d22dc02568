//! What the script acts with: DCM's hands on REST, the controllers' hands in the cluster, and eyes on both.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::board::Board;
use crate::events::Events;
use crate::failure::{Failure, Result};
use crate::http::{Answer, Http};
use crate::objects::{Kind, Objects, owner_reference};
use crate::wait::eventually;

pub(super) const CONTAINERS: &str = "/api/v1alpha1/containers";
pub(super) const VOLUMES: &str = "/api/v1alpha1/volumes";
/// The class of storage that the volume of the script has.
pub(super) const CLASS: &str = "faults";

const INSTANCE: &str = "dcm.project/dcm-instance-id";
/// How long DCM waits for the outcome of a deletion whose answer was lost before it asks again.
const PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Stage {
    pub(super) http: Http,
    pub(super) objects: Objects,
    pub(super) events: Events,
    pub(super) board: Arc<Board>,
    /// How long anything may take before it counts as never.
    pub(super) limit: Duration,
    pub(super) alive: Alive,
}

/// The instances of which a GET may never say that they are not there.
#[derive(Clone, Default)]
pub(super) struct Alive(Arc<Mutex<BTreeSet<String>>>);

impl Alive {
    pub(super) fn ids(&self) -> Vec<String> {
        self.set().iter().cloned().collect()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.set().contains(id)
    }

    pub(super) fn add(&self, id: &str) {
        self.set().insert(id.to_owned());
    }

    pub(super) fn remove(&self, id: &str) {
        self.set().remove(id);
    }

    fn set(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kinds of which instances are made.
pub(super) const MADE: [Kind; 3] = [Kind::DEPLOYMENT, Kind::SERVICE, Kind::CLAIM];

impl Stage {
    /// The status code of an answer, and the answer; none while nobody answers.
    pub(super) async fn get(&self, id: &str) -> Option<Answer> {
        self.http.get(&item(id)).await.ok()
    }

    pub(super) async fn send(&self, method: &str, path: &str, key: &str, body: &Value) -> Option<Answer> {
        let mut headers = vec![("content-type", "application/json")];
        if !key.is_empty() {
            headers.push(("idempotency-key", key));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.http.request(method, path, &headers, body).await.ok()
    }

    /// Repeats a request with a key until it has this answer, as a caller does who must know.
    pub(super) async fn insist(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: &Value,
        want: u16,
    ) -> Result<Answer> {
        let mut last = String::new();
        let asked = async || {
            let answer = self.send(method, path, key, body).await?;
            last = format!("{} {}", answer.status, answer.text());
            (answer.status == want).then_some(answer)
        };
        let made = eventually(&format!("{method} {path} answers {want}"), self.limit, asked).await;
        made.map_err(|error| Failure::new(format!("an unfinished request: {error}; last: {last}")))
    }

    /// Creates an instance; from its 201 on it exists, also to the very next request.
    pub(super) async fn create(&self, id: &str, key: &str, spec: &Value) -> Result<()> {
        let collection = if id.starts_with('v') { VOLUMES } else { CONTAINERS };
        let path = format!("{collection}?id={id}");
        self.insist("POST", &path, key, &json!({ "spec": spec }), 201).await?;
        self.exists(id).await
    }

    /// A GET may go unanswered for a while, but never says that the instance is not there.
    pub(super) async fn exists(&self, id: &str) -> Result<()> {
        let answered = async || self.get(id).await.filter(|answer| matches!(answer.status, 200 | 404));
        let answer = eventually(&format!("GET of {id} is answered"), self.limit, answered).await?;
        if answer.status == 404 {
            return Err(Failure::new(format!("an acknowledged create exists: GET of {id} is 404")));
        }
        self.alive.add(id);
        Ok(())
    }

    /// Deletes an instance, and asks again only where nothing says that the deletion is under way.
    pub(super) async fn delete(&self, id: &str) -> Result<()> {
        self.alive.remove(id);
        let end = Instant::now() + self.limit;
        let mut again = Instant::now();
        while Instant::now() < end {
            let shown = self.get(id).await;
            let (status, text) = shown.map(|answer| (answer.status, answer.text())).unwrap_or_default();
            if status == 404 {
                return Ok(());
            }
            let under_way = text.contains("is being deleted");
            if status == 200 && !under_way && Instant::now() >= again {
                let answer = self.send("DELETE", &item(id), "", &Value::Null).await;
                if answer.is_some_and(|answer| matches!(answer.status, 204 | 404)) {
                    return Ok(());
                }
                again = Instant::now() + PATIENCE;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Failure::new(format!("an unfinished request: {id} is not deleted")))
    }

    /// The objects of an instance, as the cluster has them.
    pub(super) async fn of(&self, kind: &Kind, id: &str) -> Option<Vec<Value>> {
        self.objects.list(kind, &format!("{INSTANCE}={id}")).await.ok()
    }

    /// The one object that the provider is to make.
    pub(super) async fn made(&self, kind: &Kind, id: &str) -> Result<Value> {
        let found = async || self.of(kind, id).await?.pop();
        eventually(&format!("{id} has one of {}", kind.plural), self.limit, found).await
    }

    /// What the controllers make of a Deployment: a ReplicaSet and its pod.
    pub(super) async fn rolls_out(&self, id: &str) -> Result<String> {
        let deployment = self.made(&Kind::DEPLOYMENT, id).await?;
        let name = name_of(&deployment);
        let labels = deployment["spec"]["selector"]["matchLabels"].clone();
        let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "x" }] } });
        let set = json!({
            "metadata": { "name": name, "labels": labels, "ownerReferences": [owner_reference(&deployment)] },
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": template },
        });
        let set = self.objects.create(&Kind::REPLICA_SET, set).await?;
        self.objects.make_pod(name, labels, Some(&set), json!({ "phase": "Pending" })).await?;
        Ok(name.to_owned())
    }

    pub(super) async fn phase(&self, pod: &str, phase: &str, message: &str) -> Result<()> {
        let status = json!({ "phase": phase, "message": message });
        self.objects.patch_status(&Kind::POD, pod, status).await?;
        Ok(())
    }

    /// The claim of a volume is bound, with all that it asks for.
    pub(super) async fn binds(&self, id: &str) -> Result<()> {
        let claim = self.made(&Kind::CLAIM, id).await?;
        let name = name_of(&claim);
        if claim["spec"]["volumeName"].is_null() {
            let bound = json!({ "spec": { "volumeName": format!("pv-{name}") } });
            self.objects.patch(&Kind::CLAIM, name, bound).await?;
        }
        let capacity = &claim["spec"]["resources"]["requests"]["storage"];
        let status = json!({ "phase": "Bound", "capacity": { "storage": capacity } });
        self.objects.patch_status(&Kind::CLAIM, name, status).await?;
        Ok(())
    }

    /// Nobody uses the claim of a volume that is deleted, so its protection is lifted.
    pub(super) async fn releases(&self, id: &str) -> Result<()> {
        let lifted = async || {
            let Some(claim) = self.of(&Kind::CLAIM, id).await?.pop() else { return Some(()) };
            if !claim["metadata"]["deletionTimestamp"].is_null() {
                let free = json!({ "metadata": { "finalizers": null } });
                // It may be gone by now.
                let _ = self.objects.patch(&Kind::CLAIM, name_of(&claim), free).await;
            }
            None
        };
        eventually(&format!("the claim of {id} goes"), self.limit, lifted).await
    }

    /// Once the Deployment is gone, the collector takes what it owned.
    pub(super) async fn collects(&self, id: &str) -> Result<()> {
        let gone = async || self.of(&Kind::DEPLOYMENT, id).await?.is_empty().then_some(());
        eventually(&format!("the Deployment of {id} goes"), self.limit, gone).await?;
        for kind in [Kind::POD, Kind::REPLICA_SET] {
            for object in self.objects.list(&kind, &format!("{INSTANCE}={id}")).await? {
                self.objects.delete_now(&kind, name_of(&object)).await?;
            }
        }
        Ok(())
    }

    /// GET and the newest event say the same, and this status.
    pub(super) async fn agrees(&self, id: &str, status: &str) -> Result<()> {
        let mut seen = String::new();
        let agreed = async || {
            let shown = self.get(id).await?;
            let told = self.events.of(id).pop().unwrap_or_default()["data"].clone();
            seen = format!("GET says {} {}; the newest event says {told}", shown.status, shown.text());
            if status == "DELETED" {
                return (shown.status == 404 && told["status"] == "DELETED").then_some(());
            }
            let shown = shown.json();
            let same = shown["status"] == told["status"] && shown["status_message"] == told["message"];
            (same && shown["status"] == status).then_some(())
        };
        let what = format!("{id} is {status} to GET and to its newest event");
        let agreed = eventually(&what, self.limit, agreed).await;
        agreed.map_err(|error| Failure::new(format!("the last event is the last status: {error}; {seen}")))
    }
}

pub(super) fn item(id: &str) -> String {
    format!("{}/{id}", if id.starts_with('v') { VOLUMES } else { CONTAINERS })
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
