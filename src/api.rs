//! The REST surface of all served types: names a collection's provisioner, and tells health.

mod figures;

use std::sync::Arc;
use std::time::Instant;

use hyper::Method;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::cluster::{Cluster, WatchHealth};
use crate::engine::format::Operation;
use crate::engine::problem::Problem;
use crate::engine::service::Service;
use crate::files::reread::Standing;
use crate::http::{Act, Collection, Create, ListQuery, Outcome, Resources, Update};
use crate::leader::Leadership;
use crate::metrics::{Exposition, Kind::Gauge};
use crate::monitor::MonitorState;
use crate::provider::{InUse, Provider};
use crate::provision::{CreateRequest, PageTokens, Provisioner};
use crate::registry::{Outcome as Registered, RegistryState};
use crate::revision::Revisions;

/// Everything that REST answers from.
pub struct Api {
    services: Vec<Served>,
    cluster: Cluster,
    revisions: watch::Receiver<Revisions>,
    /// Raised when the process has been asked to end.
    stopping: watch::Receiver<bool>,
    standings: Standings,
    started: Instant,
}

/// How the files stand by which callers are known, asked anew each time.
pub type Standings = Box<dyn Fn() -> Vec<(&'static str, Standing)> + Send + Sync>;

/// One service type, with the states that its health shows.
pub struct Served {
    pub in_use: InUse,
    pub tokens: PageTokens,
    pub monitor: watch::Receiver<MonitorState>,
    pub registry: watch::Receiver<RegistryState>,
    pub leadership: watch::Receiver<Leadership>,
}

impl Api {
    pub fn new(
        services: Vec<Served>,
        cluster: Cluster,
        revisions: watch::Receiver<Revisions>,
        standings: Standings,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self { services, cluster, revisions, standings, stopping, started: Instant::now() }
    }

    fn served(&self, collection: &str) -> Result<&Served, Problem> {
        let found =
            self.services.iter().find(|served| served.in_use.borrow().service.collection == collection);
        found.ok_or_else(|| Problem::not_found(format!("there is no collection `{collection}`")))
    }

    /// What serves one request to its end, whatever revision comes meanwhile.
    fn provisioner(&self, collection: &str) -> Result<Provisioner, Problem> {
        let served = self.served(collection)?;
        Ok(Provisioner { provider: served.provider(), tokens: served.tokens.clone() })
    }

    /// The health of one type: of the cluster, of its watches, its events and its registration.
    fn health_of(&self, served: &Served, cluster: Result<&Value, &str>) -> Map<String, Value> {
        let mut faults: Vec<String> = Vec::new();
        faults.extend(cluster.err().map(str::to_owned));
        let missing = self.cluster.missing_rights().into_iter();
        faults.extend(
            missing.map(|right| {
                format!("the cluster does not allow `{right}`; bind what `mapwright rbac` prints")
            }),
        );
        let provider = served.provider();
        let watches = provider.watch_health();
        for watch in &watches {
            let failure = watch.failure.as_ref();
            faults.extend(failure.map(|why| format!("the watch of {} does not run: {why}", watch.key)));
        }
        if let Registered::Refused { why } = &served.registry.borrow().outcome {
            faults.push(format!("the registry refused the registration: {why}"));
        }
        let monitor = served.monitor.borrow().clone();
        if monitor.rule_errors > 0 {
            faults.push(format!(
                "{} evaluations of status rules failed; the log names them",
                monitor.rule_errors
            ));
        }
        let service_type = &provider.service.service_type;
        let mut health =
            self.document(&format!("k8s-{service_type}-service-provider.dcm.io/health"), &faults);
        let registry = served.registry.borrow().clone();
        health.insert("mapping_revision".to_owned(), provider.service.revision.clone().into());
        health.insert("watches".to_owned(), watches.iter().map(watch_health).collect());
        health.insert("events".to_owned(), json!({ "owed": monitor.owing, "ledger": monitor.ledger }));
        let Leadership { leads, holder } = served.leadership.borrow().clone();
        health.insert("leadership".to_owned(), json!({ "leads": leads, "holder": holder }));
        health.insert("registration".to_owned(), registration(&registry));
        health
    }

    fn document(&self, kind: &str, faults: &[String]) -> Map<String, Value> {
        let mut health = Map::new();
        health.insert("type".to_owned(), kind.into());
        health.insert("status".to_owned(), if faults.is_empty() { "healthy" } else { "unhealthy" }.into());
        health.insert("path".to_owned(), "health".into());
        health.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        health.insert("mappings".to_owned(), self.revisions.borrow().health());
        health.insert("uptime".to_owned(), self.started.elapsed().as_secs().into());
        if !faults.is_empty() {
            health.insert("details".to_owned(), json!(faults));
        }
        health
    }
}

impl Served {
    fn provider(&self) -> Arc<Provider> {
        self.in_use.borrow().clone()
    }
}

fn collection(service: &Service) -> Collection {
    let mut operations: Vec<Method> = service.operations.iter().map(method).collect();
    operations.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Collection {
        name: service.collection.clone(),
        operations,
        actions: Vec::new(),
        problem_style: service.problem_style.clone(),
    }
}

fn method(operation: &Operation) -> Method {
    match operation {
        Operation::Create => Method::POST,
        Operation::Read => Method::GET,
        Operation::Update => Method::PATCH,
        Operation::Delete => Method::DELETE,
    }
}

fn watch_health(watch: &WatchHealth) -> Value {
    json!({
        "watch": watch.key.to_string(),
        "synced": watch.synced,
        "age_seconds": watch.age.as_secs(),
        "objects": watch.objects,
        "skipped": watch.skipped,
    })
}

fn registration(state: &RegistryState) -> Value {
    let (status, detail) = match &state.outcome {
        Registered::NotTried => ("not tried yet", None),
        Registered::Registered { .. } => ("registered", None),
        Registered::Refused { why } => ("refused", Some(why)),
        Registered::Unavailable { why } => ("unavailable", Some(why)),
    };
    json!({ "status": status, "attempts": state.attempts, "detail": detail })
}

impl Resources for Api {
    fn collections(&self) -> Arc<[Collection]> {
        self.services.iter().map(|served| collection(&served.in_use.borrow().service)).collect()
    }

    fn openapi(&self) -> String {
        let providers: Vec<Arc<Provider>> = self.services.iter().map(Served::provider).collect();
        crate::openapi::text(providers.iter().map(|provider| &*provider.service))
    }

    fn metrics(&self) -> String {
        let mut page = Exposition::default();
        let build = [("version", env!("CARGO_PKG_VERSION")), ("commit", env!("MAPWRIGHT_COMMIT"))];
        page.family("mapwright_build_info", Gauge, "The program that runs.").figure(&build, 1);
        let ready = u8::from(self.unready().is_empty());
        page.family("mapwright_ready", Gauge, "1 where the process can serve.").figure(&[], ready);
        self.revisions.borrow().figures(&mut page);
        figures::of_types(&mut page, &self.services);
        figures::of_watches(&mut page, &self.services);
        figures::of_files(&mut page, &(self.standings)());
        page.finish()
    }

    fn unready(&self) -> Vec<String> {
        let mut why = Vec::new();
        if *self.stopping.borrow() {
            why.push("the process is ending".to_owned());
        }
        for provider in self.services.iter().map(Served::provider) {
            let missing = provider.watch_health().into_iter().filter(|watch| !watch.synced);
            let missing: Vec<String> = missing.map(|watch| watch.key.to_string()).collect();
            if !missing.is_empty() {
                let service_type = &provider.service.service_type;
                why.push(format!("{service_type} has not read all of {}", missing.join(", ")));
            }
        }
        why
    }

    async fn health(&self, collection: Option<&str>) -> Value {
        let version = self.cluster.version().await;
        let why = version.as_ref().err().map(|refusal| {
            tracing::warn!(error = refusal.message, "the cluster does not answer");
            "the cluster does not answer"
        });
        let cluster = version.as_ref().map_err(|_| why.unwrap_or_default());
        if let Some(Ok(served)) = collection.map(|collection| self.served(collection)) {
            return Value::Object(self.health_of(served, cluster));
        }
        let entries: Vec<Map<String, Value>> =
            self.services.iter().map(|served| self.health_of(served, cluster)).collect();
        let sick = entries.iter().filter(|entry| entry.get("status") != Some(&json!("healthy")));
        let faults: Vec<String> =
            sick.filter_map(|entry| Some(format!("see {}", entry.get("type")?))).collect();
        let files = (self.standings)().into_iter().filter_map(|(_, standing)| standing.complaint);
        let faults: Vec<String> = faults.into_iter().chain(files).collect();
        let mut health = self.document("k8s-service-provider.dcm.io/health", &faults);
        health.insert("services".to_owned(), entries.into_iter().map(Value::Object).collect());
        Value::Object(health)
    }

    async fn create(&self, collection: &str, create: Create) -> Result<Value, Problem> {
        let Create { id, idempotency_key, body } = create;
        let request = CreateRequest { id, idempotency_key, body };
        self.provisioner(collection)?.create(request).await
    }

    async fn get(&self, collection: &str, id: &str) -> Result<Value, Problem> {
        self.provisioner(collection)?.get(id).await
    }

    async fn list(&self, collection: &str, query: ListQuery) -> Result<Value, Problem> {
        let ListQuery { max_page_size, page_token } = query;
        let provisioner = self.provisioner(collection)?;
        provisioner.list(max_page_size.as_deref(), page_token.as_deref()).await
    }

    async fn update(&self, collection: &str, id: &str, update: Update) -> Result<Value, Problem> {
        let Update { idempotency_key, body } = update;
        self.provisioner(collection)?.update(id, idempotency_key.as_deref(), body).await
    }

    async fn delete(&self, collection: &str, id: &str, key: Option<String>) -> Result<(), Problem> {
        self.provisioner(collection)?.delete(id, key.as_deref()).await
    }

    async fn act(&self, collection: &str, _: &str, act: Act) -> Result<Outcome, Problem> {
        self.served(collection)?;
        Err(Problem::not_found(format!("there is no action `{}`", act.name)))
    }
}
