//! Kubernetes objects as plain JSON: what the API server sent, with no type in between that could drop a field.

use hyper::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

/// A kind as the API server's paths name it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl Kind {
    pub const NAMESPACE: Self = Self::new("v1", "Namespace", "namespaces");
    pub const NODE: Self = Self::new("v1", "Node", "nodes");
    pub const POD: Self = Self::new("v1", "Pod", "pods");
    pub const SERVICE: Self = Self::new("v1", "Service", "services");
    pub const CONFIG_MAP: Self = Self::new("v1", "ConfigMap", "configmaps");
    pub const EVENT: Self = Self::new("v1", "Event", "events");
    pub const QUOTA: Self = Self::new("v1", "ResourceQuota", "resourcequotas");
    pub const CLAIM: Self = Self::new("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    pub const VOLUME: Self = Self::new("v1", "PersistentVolume", "persistentvolumes");
    pub const STORAGE_CLASS: Self = Self::new("storage.k8s.io/v1", "StorageClass", "storageclasses");
    pub const DEPLOYMENT: Self = Self::new("apps/v1", "Deployment", "deployments");
    pub const REPLICA_SET: Self = Self::new("apps/v1", "ReplicaSet", "replicasets");
    pub const JOB: Self = Self::new("batch/v1", "Job", "jobs");
    pub const ROLE: Self = Self::new("rbac.authorization.k8s.io/v1", "Role", "roles");
    pub const ROLE_BINDING: Self = Self::new("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings");

    pub const fn new(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { api_version, kind, plural }
    }
}

/// The objects of one namespace, or those of the cluster.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    namespace: Option<String>,
}

impl Objects {
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: Some(namespace.into()) }
    }

    /// Objects that live in no namespace.
    pub fn cluster(client: Client) -> Self {
        Self { client, namespace: None }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace; empty for the objects of the cluster.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    pub async fn get(&self, kind: &Kind, name: &str) -> kube::Result<Option<Value>> {
        match self.call(Method::GET, &self.path(kind, name), None).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// The objects that match a label selector; all of them for `""`.
    pub async fn list(&self, kind: &Kind, selector: &str) -> kube::Result<Vec<Value>> {
        let path = format!("{}?labelSelector={}", self.path(kind, ""), encode(selector));
        let list = self.call(Method::GET, &path, None).await?;
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        for item in &mut items {
            // The server leaves both out of the items of a list.
            item["apiVersion"] = kind.api_version.into();
            item["kind"] = kind.kind.into();
        }
        Ok(items)
    }

    /// Creates it; `apiVersion` and `kind` are filled in.
    pub async fn create(&self, kind: &Kind, mut object: Value) -> kube::Result<Value> {
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.kind.into();
        self.call(Method::POST, &self.path(kind, ""), Some(object)).await
    }

    /// A merge patch of the object itself.
    pub async fn patch(&self, kind: &Kind, name: &str, change: Value) -> kube::Result<Value> {
        self.call(Method::PATCH, &self.path(kind, name), Some(change)).await
    }

    /// A merge patch of the status; `status` is what stands under that key.
    pub async fn patch_status(&self, kind: &Kind, name: &str, status: Value) -> kube::Result<Value> {
        let path = format!("{}/status", self.path(kind, name));
        self.call(Method::PATCH, &path, Some(json!({"status": status}))).await
    }

    /// Deletes it with what it owns; `false` if it was not there.
    pub async fn delete(&self, kind: &Kind, name: &str) -> kube::Result<bool> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        self.delete_with(kind, name, options).await
    }

    /// Removes a pod at once; otherwise it waits for a kubelet, which is not there.
    pub async fn delete_now(&self, kind: &Kind, name: &str) -> kube::Result<bool> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.delete_with(kind, name, options).await
    }

    async fn delete_with(&self, kind: &Kind, name: &str, options: Value) -> kube::Result<bool> {
        match self.call(Method::DELETE, &self.path(kind, name), Some(options)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// Makes a pod that nobody runs, with a status. `owner` is the object that controls it.
    pub async fn make_pod(
        &self,
        name: &str,
        labels: Value,
        owner: Option<&Value>,
        status: Value,
    ) -> kube::Result<Value> {
        let mut pod = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
        });
        if let Some(owner) = owner {
            pod["metadata"]["ownerReferences"] = json!([owner_reference(owner)]);
        }
        self.create(&Kind::POD, pod).await?;
        self.patch_status(&Kind::POD, name, status).await
    }

    fn path(&self, kind: &Kind, name: &str) -> String {
        let root = if kind.api_version.contains('/') { "apis" } else { "api" };
        let mut path = format!("/{root}/{}", kind.api_version);
        if let Some(namespace) = &self.namespace {
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", kind.plural);
        if name.is_empty() { path } else { format!("{path}/{name}") }
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> kube::Result<Value> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", media).body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }
}

/// The ownerReference of an object that controls another.
pub fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Selectors hold `=`, `,`, `!`, `/` and blanks, which a query must not.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
