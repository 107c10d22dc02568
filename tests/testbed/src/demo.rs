//! The product at work in one terminal: a control plane, NATS, a registry, the provider for two service
//! types, and every status event as it arrives.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use futures::StreamExt;
use mapwright_testbed::process::free_port;
use mapwright_testbed::{
    Binaries, Context, ControlPlane, Failure, Kind, Launch, Nats, NatsKind, Objects, Provider, Result,
};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::selfcheck::static_volume;

const NAMESPACE: &str = "default";
const PORT: u16 = 8080;

pub(crate) async fn run() -> Result<()> {
    let mut end = std::pin::pin!(asked_to_end()?);
    tokio::select! {
        // Whatever is half-started ends with its values.
        () = &mut end => return Ok(()),
        stage = set_the_stage() => {
            let mut stage = stage?;
            print_guide(&stage.provider, &stage.control_plane, &stage.nats)?;
            tokio::select! {
                () = end => {}
                ended = show_events(&mut stage) => return ended,
            }
            println!("\nending...");
            let status = stage.provider.terminate(std::time::Duration::from_secs(20)).await?;
            println!("the provider ended ({status})");
        }
    }
    Ok(())
}

/// Runs a program against the provider; it fails if the program does.
pub(crate) async fn against(program: &str, arguments: &[&str]) -> Result<()> {
    let end = asked_to_end()?;
    let run = async {
        let stage = set_the_stage().await?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).env("PROVIDER", stage.provider.base_url()).kill_on_drop(true);
        let status = command.status().await.context(format!("cannot run {program}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("{program} ended ({status})"))),
        }
    };
    tokio::select! {
        () = end => Err(Failure::new("interrupted")),
        ended = run => ended,
    }
}

/// All parts, in the order in which they are to end.
struct Stage {
    provider: Provider,
    subscription: async_nats::Subscriber,
    _nats_client: async_nats::Client,
    nats: Nats,
    control_plane: ControlPlane,
}

async fn set_the_stage() -> Result<Stage> {
    let binary = product().await?;
    tokio::task::spawn_blocking(Binaries::find).await??;
    println!("starting a Kubernetes control plane and NATS...");
    let control_plane = ControlPlane::start().await?;
    let nats = Nats::start(NatsKind::JetStream).await?;
    nats.stream("dcm-status", &["dcm.*"]).await?;
    let client = async_nats::connect(nats.url()).await?;
    let subscription = client.subscribe("dcm.*").await?;
    make_storage(&Objects::cluster(control_plane.client().await?)).await?;

    println!("starting the provider for container and storage...");
    let free = std::net::TcpListener::bind(("127.0.0.1", PORT)).is_ok();
    let launch = Launch::new(binary)?
        .at(if free { PORT } else { free_port()? })
        .types(&["container", "storage"])
        .cluster(control_plane.kubeconfig(), NAMESPACE)
        .env("SP_NATS_URL", &nats.url())
        // Two types in one process share the short form's one name.
        .env("SP_NAME", "k8s-demo")
        .folder(workspace());
    let provider = launch.start().await?;
    Ok(Stage { provider, subscription, _nats_client: client, nats, control_plane })
}

/// A class whose volumes may grow, and one volume that is there already, for want of a provisioner.
async fn make_storage(cluster: &Objects) -> Result<()> {
    let class = json!({
        "metadata": {"name": "fast"}, "provisioner": "example.com/none", "allowVolumeExpansion": true,
    });
    cluster.create(&Kind::STORAGE_CLASS, class).await?;
    cluster.create(&Kind::VOLUME, static_volume("demo-volume", "fast")).await?;
    Ok(())
}

/// Ends only when the provider or NATS does.
async fn show_events(stage: &mut Stage) -> Result<()> {
    let mut look = tokio::time::interval(std::time::Duration::from_millis(300));
    loop {
        tokio::select! {
            message = stage.subscription.next() => {
                let message = message.ok_or_else(|| Failure::new("NATS ended"))?;
                let event: Value = serde_json::from_slice(&message.payload).unwrap_or(Value::Null);
                println!("{}  {event}", message.subject);
            }
            _ = look.tick() => {
                if let Some(status) = stage.provider.ended() {
                    let log = stage.provider.log();
                    return Err(Failure::new(format!("the provider ended ({status}); its log:\n{log}")));
                }
            }
        }
    }
}

fn asked_to_end() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The product's binary: it lies beside our own. Under cargo it is built first, so that it is never stale.
async fn product() -> Result<PathBuf> {
    let ours = env::current_exe()?;
    let folder = ours.parent().ok_or_else(|| Failure::new("this program lies in no folder"))?;
    let binary = folder.join("mapwright");
    let cargo = env::var_os("CARGO");
    if cargo.is_none() && binary.is_file() {
        return Ok(binary);
    }
    let mut build = tokio::process::Command::new(cargo.unwrap_or_else(|| "cargo".into()));
    build.current_dir(workspace()).args(["build", "--bin", "mapwright"]);
    if folder.file_name().is_some_and(|name| name == "release") {
        build.arg("--release");
    }
    println!("building the provider...");
    let status = build.stdin(Stdio::null()).kill_on_drop(true).status().await.context("cannot run cargo")?;
    if status.success() { Ok(binary) } else { Err(Failure::new("the provider cannot be built")) }
}

fn print_guide(provider: &Provider, control_plane: &ControlPlane, nats: &Nats) -> Result<()> {
    let base = format!("{}/api/v1alpha1", provider.base_url());
    let container = json!({"spec": {
        "service_type": "container", "metadata": {"name": "web"},
        "image": {"reference": "registry.example/web:1"},
        "resources": {"cpu": {"min": 1, "max": 2}, "memory": {"min": "1GB", "max": "2GB"}},
        "network": {"ports": [{"container_port": 8080, "visibility": "external"}]},
    }});
    let volume = json!({"spec": {
        "service_type": "storage", "capacity": "10Gi", "metadata": {"name": "data"},
        "provider_hints": {"kubernetes": {"storage_class": "fast"}},
    }});
    let kubectl = &control_plane.binaries()?.kubectl;
    let kubectl_folder = kubectl.parent().unwrap_or(kubectl).display();
    println!(
        r#"
The provider serves {base}
Events go to     {nats}
The cluster's    KUBECONFIG={kubeconfig}

In a second terminal:

  # make a container and a volume, list, read
  curl -sw '\n' '{base}/containers?id=web-1' -H 'content-type: application/json' -d '{container}'
  curl -sw '\n' '{base}/volumes?id=data-1' -H 'content-type: application/json' -d '{volume}'
  curl -sw '\n' {base}/containers
  curl -sw '\n' {base}/volumes/data-1

  # look at the objects; no node runs the pod here, so say by hand what a kubelet would
  export KUBECONFIG={kubeconfig} PATH="{kubectl_folder}:$PATH"
  kubectl get deployments,services,pods,persistentvolumeclaims,configmaps
  kubectl patch $(kubectl get pods -o name -l dcm.project/dcm-instance-id=web-1) --subresource=status -p '{{"status":{{"phase":"Running"}}}}'
  curl -sw '\n' {base}/containers/web-1

  # delete both
  curl -si -X DELETE {base}/containers/web-1
  curl -si -X DELETE {base}/volumes/data-1

Status events, as they arrive (Ctrl-C ends everything):
"#,
        nats = nats.url(),
        kubeconfig = control_plane.kubeconfig().display(),
    );
    Ok(())
}
