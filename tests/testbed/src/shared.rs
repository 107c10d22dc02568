//! One control plane and one NATS for all tests of a run; each test has its own namespace.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use kube::Client;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::control_plane::{ControlPlane, Setup};
use crate::failure::Result;
use crate::nats::{Nats, NatsKind};
use crate::objects::{Kind, Objects};

/// The stream that captures every status subject.
pub const STREAM: &str = "dcm-status";

/// Started by the first test that asks; ended by the watchers of its processes when the run ends.
#[derive(Debug)]
pub struct Shared {
    pub control_plane: ControlPlane,
    /// With JetStream, and the stream [`STREAM`] on `dcm.*`.
    pub nats: Nats,
}

impl Shared {
    /// Each test has a runtime of its own, so nothing that belongs to a runtime may be kept in here.
    pub async fn get() -> Result<&'static Self> {
        static SHARED: OnceCell<Shared> = OnceCell::const_new();
        SHARED
            .get_or_try_init(async || {
                let control_plane = ControlPlane::start().await?;
                let nats = Nats::start(NatsKind::JetStream).await?;
                nats.stream(STREAM, &["dcm.*"]).await?;
                Ok(Self { control_plane, nats })
            })
            .await
    }

    /// A second control plane, also for the whole run, in which nothing happens by itself: a test writes
    /// every status, makes every pod, and nobody protects a claim that is deleted.
    pub async fn quiet_plane() -> Result<&'static ControlPlane> {
        static QUIET: OnceCell<ControlPlane> = OnceCell::const_new();
        let setup = Setup {
            controller_manager: false,
            api_server_flags: vec![
                "--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount".to_owned(),
            ],
            ..Setup::default()
        };
        QUIET.get_or_try_init(async || ControlPlane::start_with(setup).await).await
    }

    pub fn kubeconfig(&self) -> &Path {
        self.control_plane.kubeconfig()
    }

    /// A client for the calling test only.
    pub async fn client(&self) -> Result<Client> {
        self.control_plane.client().await
    }

    /// Makes a namespace whose name begins with `prefix` and is used by nobody else.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        namespace(&self.client().await?, prefix).await
    }

    /// A new namespace, and its objects as the calling test sees them.
    pub async fn objects(&self, prefix: &str) -> Result<Objects> {
        let client = self.client().await?;
        let namespace = namespace(&client, prefix).await?;
        Ok(Objects::new(client, namespace))
    }
}

/// Makes a namespace in any control plane; see [`Shared::namespace`].
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{prefix}-{}-{number}", std::process::id());
    let object = json!({"metadata": {"name": name}});
    Objects::cluster(client.clone()).create(&Kind::NAMESPACE, object).await?;
    Ok(name)
}
