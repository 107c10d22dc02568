//! One run of the script under a plan, in a namespace of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use super::board::{Board, Happening};
use super::gate::Gate;
use super::plan::Plan;
use super::stage::{Alive, CLASS, Stage, item};
use super::wire::Wire;
use super::{invariants, script};
use crate::control_plane::{ControlPlane, Setup};
use crate::events::Events;
use crate::failure::{Failure, Result};
use crate::http::Http;
use crate::nats::{Nats, NatsKind};
use crate::objects::{Kind, Objects};
use crate::provider::{Launch, Provider};
use crate::registry::Registry;
use crate::shared::{STREAM, namespace};

/// The servers that many runs share.
pub struct Ground {
    plane: ControlPlane,
    nats: Nats,
    registry: Registry,
    binary: PathBuf,
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The promise that was broken, and how.
    pub broken: Option<String>,
    pub trace: Vec<Happening>,
    /// How many faults of the plan came to pass.
    pub fired: usize,
    pub took: Duration,
    /// What the provider wrote.
    pub log: String,
}

/// The variable that names a fault of the product's own; see `src/seeded.rs`.
const SEEDED: &str = "MAPWRIGHT_SEEDED";
/// Health answers within this; a busy machine is given a second and a third chance.
const HEALTH: Duration = Duration::from_secs(2);

impl Ground {
    /// A control plane in which nothing happens by itself: the product's sandbox, or the real one.
    pub async fn start(binary: impl Into<PathBuf>, sandbox: bool) -> Result<Self> {
        let setup = Setup {
            controller_manager: false,
            sandbox,
            api_server_flags: vec![
                "--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount".to_owned(),
            ],
            ..Setup::default()
        };
        let plane = ControlPlane::start_with(setup).await?;
        let nats = Nats::start(NatsKind::JetStream).await?;
        nats.stream(STREAM, &["dcm.*"]).await?;
        let cluster = Objects::cluster(plane.client().await?);
        let class = json!({ "metadata": { "name": CLASS }, "provisioner": "example.com/none", "allowVolumeExpansion": true });
        cluster.create(&Kind::STORAGE_CLASS, class).await?;
        Ok(Self { plane, nats, registry: Registry::start().await?, binary: binary.into() })
    }
}

/// Plays the script under a plan. `seeded` names a fault of the product's own, or is empty; `limit` is how
/// long anything may take before it counts as never. An error is the harness's own.
pub async fn run(ground: &Ground, plan: &Plan, seeded: &str, limit: Duration) -> Result<Outcome> {
    let began = Instant::now();
    let (board, kills) = Board::new(plan);
    let board = Arc::new(board);
    let client = ground.plane.client().await?;
    let objects = Objects::new(client.clone(), namespace(&client, "fault").await?);
    let gate = Gate::start(&ground.plane, board.clone()).await?;
    let wire = Wire::start(&ground.nats.url(), board.clone()).await?;
    let events = Events::subscribe(&ground.nats.url(), "dcm.*").await?;
    let name = format!("sp-{}", objects.namespace());
    let events = events.of_source(format!("dcm/providers/{name}"));
    let launch = Launch::new(&ground.binary)?
        .types(&["container", "storage"])
        .cluster(gate.kubeconfig(), objects.namespace())
        .env("SP_NAME", &name)
        .env("SP_NATS_URL", wire.url())
        .env("DCM_REGISTRATION_URL", &ground.registry.url())
        .env("SP_MONITOR_DEBOUNCE_MS", "50")
        .env("SP_SERVER_REQUEST_TIMEOUT", "3s")
        // Stale lists are among the faults, and only a page can be stale.
        .env("SP_K8S_STREAMING_LISTS", "false")
        .env(SEEDED, seeded);
    bystander(&objects, &board).await?;
    let provider = launch.start().await?;
    let http = Http::new(provider.base_url());
    let provider = Arc::new(Mutex::new(provider));
    let up = Arc::new(AtomicBool::new(true));
    let _keeper = Ending(tokio::spawn(keep(provider.clone(), kills, up.clone(), board.clone())));
    let _doctor = Ending(tokio::spawn(watch_health(http.clone(), up, board.clone())));
    let alive = Alive::default();
    let _census = Ending(tokio::spawn(count(http.clone(), alive.clone(), board.clone())));
    let stage = Stage { http, objects, events, board: board.clone(), limit, alive };
    let played = match script::play(&stage).await {
        Ok(()) => invariants::hold(&stage).await,
        Err(failure) => Err(failure),
    };
    let log = provider.lock().await.log();
    // What was seen on the way is nearer to the cause than what did not come to pass in the end.
    let seen = board.complaints().into_iter().next();
    let broken = seen.or_else(|| played.err().map(|failure| failure.to_string()));
    Ok(Outcome { broken, trace: board.trace(), fired: board.fired(), took: began.elapsed(), log })
}

/// Ends its task with the run.
struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Kills the provider when the plan says so, and starts it again.
async fn keep(
    provider: Arc<Mutex<Provider>>,
    mut kills: mpsc::UnboundedReceiver<()>,
    up: Arc<AtomicBool>,
    board: Arc<Board>,
) {
    while kills.recv().await.is_some() {
        up.store(false, Ordering::SeqCst);
        let mut provider = provider.lock().await;
        provider.kill();
        if let Err(failure) = provider.restart().await {
            board.complain(format!("a killed provider starts again: {failure}"));
        }
        up.store(true, Ordering::SeqCst);
    }
}

async fn watch_health(http: Http, up: Arc<AtomicBool>, board: Arc<Board>) {
    let mut late = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let answer = tokio::time::timeout(HEALTH, http.get("/health")).await;
        let well = answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status == 200));
        late = if well || !up.load(Ordering::SeqCst) { 0 } else { late + 1 };
        if late == 3 {
            board.complain("health answers within 2 s: it did not, three times in a row");
        }
    }
}

/// Asks all the time for every instance that must be there.
async fn count(http: Http, alive: Alive, board: Arc<Board>) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for id in alive.ids() {
            let answer = http.get(&item(&id)).await;
            if answer.is_ok_and(|answer| answer.status == 404) && alive.contains(&id) {
                board.complain(format!("an acknowledged create exists: GET of {id} is 404"));
                return;
            }
        }
    }
}

/// An object with all our labels that another provider has made.
async fn bystander(objects: &Objects, board: &Board) -> Result<()> {
    let labels = json!({
        "dcm.project/managed-by": "dcm",
        "dcm.project/dcm-instance-id": "foreign",
        "dcm.project/dcm-service-type": "container",
    });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "x" }] } });
    let deployment = json!({
        "metadata": {
            "name": "foreign",
            "labels": labels,
            "annotations": { "mapwright.dcm.project/provider": "another" },
        },
        "spec": { "selector": { "matchLabels": labels }, "template": template },
    });
    let made = objects.create(&Kind::DEPLOYMENT, deployment).await?;
    let uid = made["metadata"]["uid"].as_str().ok_or_else(|| Failure::new("an object has a uid"))?;
    board.is_foreign(Kind::DEPLOYMENT.plural, "foreign", uid);
    Ok(())
}
