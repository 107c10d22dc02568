//! A Kubernetes API in memory, over HTTP: for a first look without a cluster, and for tests without one.
//!
//! Invariants of the room:
//!
//! - It knows no mapping, no service type and no sibling room but [`crate::clock`] and [`crate::http`], for its
//!   accept loop and its escapes.
//! - Kinds, defaults, columns and what the pretended machines do are data; what is code is what the API server
//!   and its controllers do by code.
//! - Every write happens whole under one lock and has one version; nobody ever sees half of one.
//! - Whatever a client sends is bounded: bodies, objects, watches, what is remembered of the past.
//!
//! In reading order: `server` answers requests, `routes` and `reply` are their two ends; `api` holds the verbs,
//! `kinds` and `schema` what objects look like, `admit`, `names`, `rules`, `quota`, `addresses` and `quantity`
//! what the server makes of them; `store` keeps them, and `persist` beyond the process; `list`, `watching`, `selector` and `table` read them;
//! `controllers` do what follows, and `stages` say what pretended machines do; `inside` is the way without a socket.

mod addresses;
mod admit;
mod api;
mod controllers;
mod discovery;
mod inside;
mod kinds;
mod list;
mod names;
mod object;
mod packed;
mod patch;
mod persist;
mod quantity;
mod quota;
mod refusal;
mod reply;
mod routes;
mod rules;
mod schema;
mod selector;
mod server;
mod stages;
mod store;
mod subresource;
mod table;
mod watching;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::engine::diagnostic::Findings;
use crate::engine::read::read;
use crate::engine::source::Source;
use crate::http::{self, Limits};

use api::{Api, Target, WriteOptions};
use kinds::Kinds;
use server::Server;
use table::Tables;

pub use persist::Kept;
pub use stages::Stages;

/// A cluster that is not there.
pub struct Sandbox {
    server: Server,
    kept: Option<Kept>,
    /// None where nothing follows from what is written.
    stages: Option<watch::Sender<Arc<Stages>>>,
    /// The controllers; they end with the sandbox.
    _controllers: JoinSet<()>,
}

const DEFAULTS: &str = include_str!("../../sandbox/defaults.yaml");

/// A watch is no idle connection, and the accept loop cannot tell: it would cut one after its usual minute.
const IDLE: Duration = Duration::from_secs(3600);

impl Sandbox {
    /// A cluster with its first namespaces and nothing else, in which these stages happen; without stages it
    /// has no controllers either. Belongs to the runtime that it is made in.
    ///
    /// # Errors
    /// When the data in the binary is damaged.
    pub fn start(stages: Option<Arc<Stages>>) -> Result<Self, String> {
        let sandbox = Self::empty(stages)?;
        sandbox.found()?;
        Ok(sandbox)
    }

    /// The cluster that a directory keeps; where it keeps none yet, a new one with machines.
    ///
    /// # Errors
    /// When the data in the binary is damaged.
    pub fn resume(stages: Option<Arc<Stages>>, mut kept: Kept) -> Result<Self, String> {
        let mut sandbox = Self::empty(stages)?;
        if !kept.restore(&sandbox.server.api) {
            sandbox.found()?;
            sandbox.furnish()?;
        }
        sandbox.kept = Some(kept);
        Ok(sandbox)
    }

    fn empty(stages: Option<Arc<Stages>>) -> Result<Self, String> {
        let source = Source::new("sandbox/defaults.yaml", DEFAULTS);
        let mut findings = Findings::default();
        let defaults = read(&source, &mut findings).map(|tree| tree.to_json());
        let Some(Value::Object(defaults)) = defaults.filter(|_| findings.is_empty()) else {
            return Err(findings.to_string());
        };
        let api = Arc::new(Api::new(Kinds::new()?, defaults));
        let tables = Tables::shared().map_err(|findings| findings.to_string())?;
        let mut running = JoinSet::new();
        let stages = stages.map(watch::Sender::new);
        if let Some(stages) = &stages {
            let news = api.store().tell();
            running.spawn(controllers::run(api.clone(), stages.subscribe(), news));
        }
        Ok(Self { server: Server { api, tables }, kept: None, stages, _controllers: running })
    }

    /// What every cluster has from its first moment.
    fn found(&self) -> Result<(), String> {
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            self.make_namespace(namespace)?;
        }
        Ok(())
    }

    /// Puts in what a cluster with machines has: a node, and a class of storage whose volumes may grow.
    ///
    /// # Errors
    /// When either is refused.
    pub fn furnish(&self) -> Result<(), String> {
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": object::now(), "lastTransitionTime": object::now()});
        let node = json!({"metadata": {"name": "sandbox-node", "labels": {"kubernetes.io/os": "linux"}}});
        let status =
            json!({"conditions": [ready], "nodeInfo": {"kubeletVersion": self.server.api.kinds.version}});
        let node = self.create("v1", "Node", "", node)?;
        let kind = self.server.api.kinds.by_kind("v1", "Node").ok_or("there is no Node")?;
        let target = Target::new(kind, "", object::name(&node)).below("status");
        let change = |old: &Value| {
            let mut new = old.clone();
            new["status"] = status.clone();
            Ok(new)
        };
        let written = self.server.api.update(&target, &WriteOptions::default(), &change);
        written.map_err(|refusal| refusal.message)?;
        let class = json!({
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "sandbox.mapwright/disk",
            "allowVolumeExpansion": true,
        });
        self.create("storage.k8s.io/v1", "StorageClass", "", class).map(|_| ())
    }

    /// Serves until `shutdown` is done, and keeps what there is then.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let server = self.server.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let drain = Duration::from_millis(200);
        // The answer to a watch lasts as long as the watch.
        let limits = Limits { idle: Some(IDLE), header_read: IDLE, write: None, drain, ..Limits::default() };
        let serving = http::run(listener, None, service, limits, shutdown);
        match &self.kept {
            None => serving.await,
            Some(kept) => persist::keep(kept, &self.server.api, serving).await,
        }
    }
}

/// A kubeconfig for a sandbox at this address.
#[must_use]
pub fn kubeconfig(address: std::net::SocketAddr) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "sandbox", "user": {}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    });
    format!("{config:#}\n")
}
