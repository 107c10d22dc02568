//! Records: one JSON document each, kept where all replicas see it and the API server arbitrates.
//!
//! A record is a ConfigMap, which every cluster has and which nothing but us looks at. Its name is a claim:
//! of many who create it at once, exactly one succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::connection::Cluster;
use super::objects::{Deleted, ListOptions, Preconditions, Propagation};
use super::prune::Prune;
use super::refusal::{Refusal, RefusalKind};
use super::resource::{Resource, ResourceRef};
use super::store::{Indexer, metadata};
use super::watch::{WatchKey, WatchSpec};

/// Where the records of a namespace are.
#[derive(Clone)]
pub struct RecordStore {
    cluster: Cluster,
    namespace: String,
    marker: (String, String),
}

/// A record as the cluster has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub name: String,
    pub value: Value,
    pub resource_version: String,
    pub uid: String,
    pub create_time: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// The largest document. The API server takes a ConfigMap of 1 MiB; the rest is room for its metadata and
/// for what a later step adds.
pub const LARGEST_RECORD: usize = 900 * 1024;

const DOCUMENT: &str = "record.json";

impl RecordStore {
    /// Records of a namespace. All of them bear the marker, a label, by which they are listed and watched.
    #[must_use]
    pub fn new(cluster: Cluster, namespace: impl Into<String>, marker: (&str, &str)) -> Self {
        let marker = (marker.0.to_owned(), marker.1.to_owned());
        Self { cluster, namespace: namespace.into(), marker }
    }

    /// Creates a record; the name is claimed by whoever succeeds.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is claimed, `TooLarge` before any call is made.
    pub async fn create(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        value: &Value,
    ) -> Result<Stored, Refusal> {
        let mut labels = labels.clone();
        labels.insert(self.marker.0.clone(), self.marker.1.clone());
        let reference = reference();
        let object = json!({
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "metadata": { "name": name, "labels": labels, "annotations": annotations },
            "data": { DOCUMENT: document(name, value)? },
        });
        let answer = self.cluster.create(&*self.resource().await?, &self.namespace, &object).await?;
        stored(&answer)
    }

    /// The record of this name, as the API server has it now.
    ///
    /// # Errors
    /// When it cannot be read; absence is no error.
    pub async fn read(&self, name: &str) -> Result<Option<Stored>, Refusal> {
        let object = self.cluster.get(&*self.resource().await?, &self.namespace, name).await?;
        object.as_ref().map(stored).transpose()
    }

    /// All records of the namespace, as the API server has them now.
    ///
    /// # Errors
    /// When they cannot be listed. A record that is malformed is left out, with a warning.
    pub async fn list(&self) -> Result<Vec<Stored>, Refusal> {
        let options = self.key().select;
        let objects = self.cluster.list(&*self.resource().await?, &self.namespace, &options).await?;
        let readable = objects.iter().filter_map(|object| {
            stored(object).inspect_err(|error| tracing::warn!(%error, "a record was left out")).ok()
        });
        Ok(readable.collect())
    }

    /// Puts a new document in, if the record still has this resource version.
    ///
    /// # Errors
    /// `Conflict` when it changed in between, `NotFound` when it is gone, `TooLarge` before any call.
    pub async fn update(&self, name: &str, resource_version: &str, value: &Value) -> Result<Stored, Refusal> {
        let patch = json!({ "data": { DOCUMENT: document(name, value)? } });
        let resource = self.resource().await?;
        let version = Some(resource_version);
        let answer = self.cluster.merge_patch(&resource, &self.namespace, name, version, &patch).await?;
        stored(&answer)
    }

    /// Deletes a record, if the preconditions hold. No other object goes with it.
    ///
    /// # Errors
    /// When the API server refuses, or its answer did not arrive.
    pub async fn delete(&self, name: &str, preconditions: Preconditions<'_>) -> Result<Deleted, Refusal> {
        let resource = self.resource().await?;
        // Records own nothing, so there is nothing to propagate to; and the other ways are finalizers, by
        // which a record would outlive the answer.
        let background = Propagation::Background;
        self.cluster.delete(&resource, &self.namespace, name, preconditions, background).await
    }

    /// The wish to watch these records, each under its own name and the keys that the caller finds in it.
    /// A record that cannot be read is skipped, so the last good one stands.
    #[must_use]
    pub fn watch(
        &self,
        keys: impl Fn(&Stored) -> Vec<String> + Send + Sync + 'static,
        resync: Duration,
    ) -> WatchSpec {
        let indexer: Indexer = Arc::new(move |object| {
            let record = stored(object).map_err(|refusal| refusal.message)?;
            Ok(keys(&record))
        });
        WatchSpec { key: self.key(), prune: Prune::nothing(), indexer, resync }
    }

    /// The key of that watch's store.
    #[must_use]
    pub fn key(&self) -> WatchKey {
        let labels = format!("{}={}", self.marker.0, self.marker.1);
        let select = ListOptions { labels: Some(labels), fields: None };
        WatchKey { resource: reference(), namespace: self.namespace.clone(), select }
    }

    /// The object that holds a record, for putting the answer of a write into the watch's store.
    #[must_use]
    pub fn object(&self, stored: &Stored) -> Value {
        let reference = reference();
        json!({
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "metadata": {
                "name": stored.name,
                "namespace": self.namespace,
                "uid": stored.uid,
                "resourceVersion": stored.resource_version,
                "creationTimestamp": stored.create_time,
                "labels": stored.labels,
                "annotations": stored.annotations,
            },
            "data": { DOCUMENT: stored.value.to_string() },
        })
    }

    async fn resource(&self) -> Result<Arc<Resource>, Refusal> {
        self.cluster.resource(&reference()).await
    }
}

/// A record from the object that holds it, such as one of a store.
///
/// # Errors
/// When there is no document, or it is no JSON.
pub fn stored(object: &Value) -> Result<Stored, Refusal> {
    let name = metadata(object, "name");
    let malformed = |what: String| Refusal::new(RefusalKind::Other, format!("the record {name} {what}"));
    let text = object.get("data").and_then(|data| data.get(DOCUMENT)?.as_str());
    let text = text.ok_or_else(|| malformed(format!("has no text {DOCUMENT}")))?;
    let value = serde_json::from_str(text).map_err(|error| malformed(format!("is no JSON: {error}")))?;
    Ok(Stored {
        name: name.to_owned(),
        value,
        resource_version: metadata(object, "resourceVersion").to_owned(),
        uid: metadata(object, "uid").to_owned(),
        create_time: metadata(object, "creationTimestamp").to_owned(),
        labels: texts(object, "labels"),
        annotations: texts(object, "annotations"),
    })
}

fn reference() -> ResourceRef {
    ResourceRef::new("v1", "ConfigMap")
}

fn document(name: &str, value: &Value) -> Result<String, Refusal> {
    let text = value.to_string();
    if text.len() > LARGEST_RECORD {
        let what = format!(
            "the record {name} would have {} bytes, and {LARGEST_RECORD} is the most; make the request smaller",
            text.len()
        );
        return Err(Refusal::new(RefusalKind::TooLarge, what));
    }
    Ok(text)
}

fn texts(object: &Value, member: &str) -> BTreeMap<String, String> {
    let members = object.pointer(&format!("/metadata/{member}")).and_then(Value::as_object);
    let pairs = members.into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
