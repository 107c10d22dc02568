//! Starts every part of the test bed once and looks whether it does what tests rely on.

use std::time::Instant;

use bytes::Bytes;
use mapwright_testbed::registry::Scripted;
use mapwright_testbed::shared::STREAM;
use mapwright_testbed::{Context, Events, Failure, Http, Kind, Nats, NatsKind, Objects, Registry, Result};
use mapwright_testbed::{ControlPlane, Launch, Setup, Shared, eventually, secs};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) async fn run() -> Result<()> {
    let start = Instant::now();
    let step = |text: &str| println!("{:6.1} s  {text}", start.elapsed().as_secs_f32());
    let shared = Shared::get().await?;
    step("control plane and NATS are up");
    let objects = shared.objects("selfcheck").await?;
    a_deployment_gets_its_pod(&objects).await?;
    step("a Deployment got its pod, and was collected with all it owned");
    a_claim_gets_its_volume(&objects).await?;
    step("a claim got its volume");
    rights_are_checked(shared, &objects).await?;
    step("the user `limited` may do nothing");
    let version = shared.control_plane.kubectl(&["version", "-o", "json"]).await?;
    expect(version.status.success(), "kubectl answers", &version.stderr)?;
    step("kubectl answers");
    events_arrive(&shared.nats).await?;
    step("events arrive, and the stream keeps them");
    outages_end().await?;
    step("API server and NATS came back on their ports, with what they had stored");
    registry_follows_its_script().await?;
    step("the registry follows its script");
    a_provider_is_led(shared).await?;
    step("a provider is started, stopped and listened to");
    if std::env::var_os("TESTBED_HOLD").is_some() {
        println!("pid {}; kill it in whatever way, and see that no server stays", std::process::id());
        tokio::signal::ctrl_c().await?;
    }
    Ok(())
}

async fn a_deployment_gets_its_pod(objects: &Objects) -> Result<()> {
    let labels = json!({"app": "check"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
    });
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    objects.create(&Kind::DEPLOYMENT, json!({"metadata": {"name": "check"}, "spec": spec})).await?;
    let pods = async || objects.list(&Kind::POD, "app=check").await.ok()?.pop();
    let pod = eventually("the Deployment has a pod", secs(30), pods).await?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let status = json!({"phase": "Running", "podIP": "10.1.2.3"});
    let running = objects.patch_status(&Kind::POD, name, status).await?;
    expect(running["status"]["phase"] == "Running", "a status can be written", &running)?;
    let owner = &running["metadata"]["ownerReferences"][0]["kind"];
    expect(owner == "ReplicaSet", "the pod has an owner", owner)?;
    let made = objects.make_pod("by-hand", labels, Some(&pod), json!({"phase": "Failed"})).await?;
    expect(made["status"]["phase"] == "Failed", "a pod can be made by hand", &made)?;
    objects.delete(&Kind::DEPLOYMENT, "check").await?;
    let gone = async || objects.list(&Kind::REPLICA_SET, "app=check").await.ok()?.is_empty().then_some(());
    eventually("the ReplicaSet is collected", secs(30), gone).await
}

async fn a_claim_gets_its_volume(objects: &Objects) -> Result<()> {
    let volume = static_volume("selfcheck", "check");
    Objects::cluster(objects.client().clone()).create(&Kind::VOLUME, volume).await?;
    let claim = json!({"metadata": {"name": "check"}, "spec": {
        "storageClassName": "check", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    objects.create(&Kind::CLAIM, claim).await?;
    let bound = async || {
        objects.get(&Kind::CLAIM, "check").await.ok()?.filter(|claim| claim["status"]["phase"] == "Bound")
    };
    eventually("the claim is bound", secs(30), bound).await?;
    Ok(())
}

/// A volume that binds without a provisioner.
pub(crate) fn static_volume(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "storageClassName": class, "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/nowhere/{name}")},
    }})
}

async fn rights_are_checked(shared: &Shared, objects: &Objects) -> Result<()> {
    let file = shared.control_plane.kubeconfig_for("limited", &shared.control_plane.url())?;
    let client = mapwright_testbed::control_plane::client(&file).await?;
    let answer = Objects::new(client, objects.namespace()).list(&Kind::POD, "").await;
    let refused = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403);
    expect(refused, "the API server says 403", answer)
}

async fn events_arrive(nats: &Nats) -> Result<()> {
    let events = Events::subscribe(&nats.url(), "dcm.*").await?;
    let client = async_nats::connect(nats.url()).await?;
    let event = json!({"data": {"id": "a", "status": "RUNNING"}}).to_string();
    let stream = async_nats::jetstream::new(client);
    let acknowledged = stream.publish("dcm.check", Bytes::from(event)).await?.await?;
    expect(acknowledged.stream == STREAM, "the stream acknowledges", &acknowledged)?;
    events.wait_for("a", "RUNNING", secs(5)).await?;
    events.quiet("a", secs(1)).await
}

async fn outages_end() -> Result<()> {
    let setup = Setup { controller_manager: false, ..Setup::default() };
    let mut plane = ControlPlane::start_with(setup).await?;
    let objects = Objects::new(plane.client().await?, "default");
    objects.create(&Kind::CONFIG_MAP, json!({"metadata": {"name": "kept"}})).await?;
    plane.stop_apiserver();
    let answer = objects.get(&Kind::CONFIG_MAP, "kept").await;
    expect(answer.is_err(), "a stopped API server does not answer", answer)?;
    plane.restart_apiserver().await?;
    let answer = objects.get(&Kind::CONFIG_MAP, "kept").await?;
    expect(answer.is_some(), "what was stored is kept", answer)?;
    plane.stop();

    let mut nats = Nats::start(NatsKind::Plain).await?;
    let events = Events::subscribe(&nats.url(), "dcm.>").await?;
    nats.restart().await?;
    let again = async || {
        let client = async_nats::connect(nats.url()).await.ok()?;
        client.publish("dcm.check", json!({"data": {"id": "b"}}).to_string().into()).await.ok()?;
        client.flush().await.ok()?;
        (!events.of("b").is_empty()).then_some(())
    };
    eventually("the subscriber is back", secs(10), again).await
}

async fn registry_follows_its_script() -> Result<()> {
    let registry = Registry::start().await?;
    registry.script([Scripted::status(503).header("retry-after", "1")]);
    let http = Http::new(registry.url());
    let first = http.post("/providers", &json!({"name": "x"})).await?;
    expect(first.status == 503 && first.header("retry-after") == "1", "the script comes first", &first)?;
    let second = http.post("/providers", &json!({"name": "x"})).await?;
    expect(second.status == 201 && second.json()["id"].is_string(), "then it is 201", &second)?;
    let requests = registry.wait_for(2, secs(1)).await?;
    expect(requests[1].path == "/api/v1alpha1/providers", "requests are recorded", &requests)?;
    Ok(())
}

/// With ourselves in the product's place.
async fn a_provider_is_led(shared: &Shared) -> Result<()> {
    let ours = std::env::current_exe()?;
    let mut provider = Launch::shared(&ours, shared, "default")?.start().await?;
    let answer = provider.http().get("/health").await?;
    expect(answer.json()["name"] == "sp-default", "it has its settings", &answer)?;
    provider.kill();
    provider.restart_with("SP_NAME", "other").await?;
    let status = provider.terminate(secs(5)).await?;
    expect(status.code() == Some(0), "SIGTERM ends it well", status)?;
    expect(provider.log().contains("other ends"), "its log is kept", provider.log())?;
    let (status, log) = Launch::new(ours)?.without("SP_SERVER_ADDRESS").run(secs(5)).await?;
    expect(status.code() == Some(1) && log.contains("SP_SERVER_ADDRESS"), "it may refuse", log)
}

/// Answers 200 where the product would listen, until SIGTERM.
pub(crate) async fn stand_in() -> Result<()> {
    let set = |name: &str| std::env::var(name).context(name);
    let (address, name) = (set("SP_SERVER_ADDRESS")?, set("SP_NAME")?);
    let port = address.rsplit(':').next().unwrap_or_default().parse()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Registry::start_at(port).await?;
    server.otherwise(Scripted::status(200).body(json!({"name": name})));
    terminate.recv().await;
    println!("{name} ends");
    Ok(())
}

fn expect(holds: bool, what: &str, seen: impl std::fmt::Debug) -> Result<()> {
    if holds { Ok(()) } else { Err(Failure::new(format!("expected that {what}; saw {seen:?}"))) }
}
