//! How the provider starts: what it needs, what it tells DCM, and what it does while others are away.

use mapwright_testbed::ground::is_sandbox;
use mapwright_testbed::process::Scratch;
use mapwright_testbed::registry::Scripted;
use mapwright_testbed::{
    ControlPlane, Http, Kind, Launch, Objects, Registry, Setup, Shared, eventually, secs,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::dcm::{CONTAINERS, Dcm, SOON, VOLUMES, name_of, problem, web};

#[tokio::test]
async fn each_type_is_registered_with_everything_that_dcm_needs() {
    let dcm = Dcm::start_with("r01", |launch| {
        launch
            .env("SP_NAME", "k8s-container-sp")
            .env("SP_DISPLAY_NAME", "Kubernetes Container Service Provider")
            .env("SP_ENDPOINT", "https://k8s-container-sp.example.com")
            .env("SP_ZONE", "us-east-1b")
            .env("SP_REGION", "us-east-1")
            .env("SP_RESOURCES_TOTAL_CPU", "200")
            .env("SP_RESOURCES_TOTAL_MEMORY", "2TB")
    })
    .await;
    let registry = dcm.provider.registry().unwrap();
    let mut requests = registry.wait_for(2, SOON).await.unwrap();
    requests.sort_by_key(|request| request.body["service_type"].to_string());
    let common = |service_type: &str, collection: &str, operations: Value| {
        json!({
            "name": "k8s-container-sp",
            "service_type": service_type,
            "schema_version": "v1alpha1",
            "display_name": "Kubernetes Container Service Provider",
            "endpoint": format!("https://k8s-container-sp.example.com/api/v1alpha1/{collection}"),
            "operations": operations,
            "metadata": {
                "zone": "us-east-1b", "region_code": "us-east-1",
                "resources": { "total_cpu": "200", "total_memory": "2TB" },
            },
        })
    };
    assert_eq!(requests[0].body, common("container", "containers", json!(["CREATE", "DELETE", "READ"])));
    assert_eq!(requests[1].body, common("storage", "volumes", json!(["CREATE", "READ", "UPDATE", "DELETE"])));
    assert!(
        requests.iter().all(|request| request.method == "POST" && request.path == "/api/v1alpha1/providers")
    );
}

#[tokio::test]
async fn http_serves_before_the_registry_hears_of_it() {
    let registry = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/v1alpha1", registry.local_addr().unwrap());
    let port = mapwright_testbed::process::free_port().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = registry.accept().await.unwrap();
        let health = Http::new(format!("http://127.0.0.1:{port}")).get("/health").await;
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 500 Later\r\ncontent-length: 0\r\n\r\n").await;
        health.map(|answer| answer.status)
    });
    let _dcm = Dcm::start_with("r01-order", |launch| launch.at(port).env("DCM_REGISTRATION_URL", &url)).await;
    assert_eq!(asked.await.unwrap().unwrap(), 200);
}

#[tokio::test]
async fn a_registry_that_stumbles_or_refuses_does_not_stop_the_provider() {
    let registry = Registry::start().await.unwrap();
    registry.script([Scripted::status(500), Scripted::status(500)]);
    let url = registry.url();
    let dcm = only_containers("r02", &url).await;
    let requests = registry.wait_for(3, SOON).await.unwrap();
    assert!(requests[1].at - requests[0].at >= secs(1) && requests[2].at - requests[1].at >= secs(2));
    dcm.container("meanwhile", web()).await;
    tokio::time::sleep(secs(2)).await;
    assert_eq!(registry.requests().len(), 3);

    registry.script([Scripted::status(400).body(json!({ "detail": "the type is unknown here" }))]);
    let refused = only_containers("r03", &url).await;
    let health = async || {
        let health = refused.get(&format!("{CONTAINERS}/health")).await;
        assert_eq!(health.status, 200);
        Some(health.json()).filter(|health| health["status"] == "unhealthy")
    };
    let health = eventually("health names the refusal", SOON, health).await.unwrap();
    assert!(health["details"].to_string().contains("the type is unknown here"), "{health}");
    assert!(refused.provider.log().contains("the type is unknown here"));
    refused.container("still", web()).await;
}

async fn only_containers(name: &str, registry: &str) -> Dcm {
    let objects = Shared::get().await.unwrap().objects(name).await.unwrap();
    Dcm::start_of(&["container"], objects, |launch| launch.env("DCM_REGISTRATION_URL", registry)).await
}

#[tokio::test]
async fn a_start_with_wrong_settings_names_them_all_and_listens_on_nothing() {
    let port = mapwright_testbed::process::free_port().unwrap();
    let shared = Shared::get().await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, "default").unwrap();
    let launch = launch
        .types(&["container", "storage"])
        .at(port)
        .without("SP_NAME")
        .without("SP_NATS_URL")
        .env("SP_K8S_EXTERNAL_SVC_TYPE", "ClusterIP")
        .env("SP_K8S_DEFAULT_ACCESS_MODE", "ReadSometimes")
        .env("DCM_REGISTRATION_URL", "dcm.example.com/api");
    let running = tokio::spawn(launch.run(secs(10)));
    let mut listened = false;
    while !running.is_finished() {
        listened |= TcpStream::connect(("127.0.0.1", port)).await.is_ok();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (status, log) = running.await.unwrap().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(!listened);
    for name in [
        "SP_NAME",
        "SP_NATS_URL",
        "SP_K8S_EXTERNAL_SVC_TYPE",
        "SP_K8S_DEFAULT_ACCESS_MODE",
        "DCM_REGISTRATION_URL",
    ] {
        assert!(log.contains(name), "{name} is not named in:\n{log}");
    }
}

#[tokio::test]
async fn a_plugin_for_credentials_that_is_not_there_is_named_and_never_a_hang() {
    let scratch = Scratch::new("plugin").unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/token-helper", "interactiveMode": "Never",
        } } }],
    });
    let kubeconfig = scratch.write("kubeconfig", &config.to_string()).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_mapwright")).unwrap().types(&["container"]);
    let launch = launch.cluster(&kubeconfig, "default").env("SP_NATS_URL", "nats://127.0.0.1:1");
    let launch = launch.env("DCM_REGISTRATION_URL", "http://127.0.0.1:1/api/v1alpha1");
    match launch.clone().run(secs(10)).await {
        Ok((status, log)) => {
            assert_eq!(status.code(), Some(1), "{log}");
            assert!(log.contains("/nowhere/token-helper"), "{log}");
        }
        // It serves, and says so.
        Err(_) => {
            let provider = launch.start().await.unwrap();
            let health = provider.http().get("/health").await.unwrap().json();
            assert_eq!(health["status"], "unhealthy", "{health}");
        }
    }
}

#[tokio::test]
async fn a_cluster_that_is_away_is_an_honest_503_and_comes_back() {
    let setup = Setup { controller_manager: false, ..Setup::default() };
    let mut plane = ControlPlane::start_with(setup).await.unwrap();
    let objects = Objects::new(plane.client().await.unwrap(), "default");
    let kubeconfig = plane.kubeconfig().to_owned();
    let dcm = Dcm::start_in(objects, |launch| {
        let launch = launch.cluster(&kubeconfig, "default").env("SP_SERVER_REQUEST_TIMEOUT", "4s");
        launch.env("SP_NAME", "sp-default")
    })
    .await;
    for id in ["kept", "lost"] {
        dcm.container(id, web()).await;
        dcm.events.wait_for(id, "PENDING", SOON).await.unwrap();
    }
    plane.stop_apiserver();
    for collection in [CONTAINERS, VOLUMES] {
        let spec = if collection == CONTAINERS { web() } else { crate::dcm::disk("a", "1Gi") };
        let answer = dcm.post(collection, &json!({ "spec": spec })).await;
        problem(&answer, 503, "unavailable");
        assert!(answer.header("retry-after").parse::<u64>().is_ok(), "{:?}", answer.headers);
    }
    assert_eq!(dcm.read(CONTAINERS, "kept").await["status"], "PENDING");
    assert_eq!(dcm.get(CONTAINERS).await.json()["containers"].as_array().unwrap().len(), 2);
    let asked = std::time::Instant::now();
    let health = dcm.get("/health").await;
    assert!(asked.elapsed() < secs(2), "{:?}", asked.elapsed());
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("unhealthy")));

    // The sandbox keeps what is stored in itself: started again, it is another cluster.
    if is_sandbox() {
        return;
    }
    plane.restart_apiserver().await.unwrap();
    let objects = Objects::new(plane.client().await.unwrap(), "default");
    let deployments = objects.list(&Kind::DEPLOYMENT, "dcm.project/dcm-instance-id=lost").await.unwrap();
    objects.delete(&Kind::DEPLOYMENT, name_of(&deployments[0])).await.unwrap();
    let event = dcm.events.wait_for("lost", "DELETED", secs(40)).await.unwrap();
    assert_eq!(event["data"]["id"], "lost");
    dcm.is_gone(CONTAINERS, "lost").await;
    let again = async || (dcm.get("/health").await.json()["status"] == "healthy").then_some(());
    eventually("health is well again", secs(40), again).await.unwrap();
    dcm.container("after", web()).await;
    assert_eq!(dcm.events.statuses("kept"), ["PENDING"]);
}
