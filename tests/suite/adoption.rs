//! Objects that another program made, or whose record somebody deleted, are instances all the same.

use mapwright_testbed::objects::{Kind, Objects};
use mapwright_testbed::provider::{Launch, Provider};
use mapwright_testbed::{Shared, eventually, secs};
use serde_json::{Value, json};

const CONTAINERS: &str = "/api/v1alpha1/containers";
const VOLUMES: &str = "/api/v1alpha1/volumes";

async fn start(prefix: &str) -> (Objects, Provider) {
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects(prefix).await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
    (objects, launch.types(&["container", "storage"]).start().await.unwrap())
}

fn labels(id: &str, service_type: &str) -> Value {
    json!({
        "dcm.project/managed-by": "dcm",
        "dcm.project/dcm-instance-id": id,
        "dcm.project/dcm-service-type": service_type,
        "team": "blue",
    })
}

fn deployment(id: &str) -> Value {
    let selector = json!({ "dcm.project/dcm-instance-id": id });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": format!("{id}-x7k2m"), "labels": labels(id, "container") },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": selector },
            "template": {
                "metadata": { "labels": labels(id, "container") },
                "spec": { "containers": [{
                    "name": "web", "image": "registry.example/web:1",
                    "resources": { "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "2", "memory": "2Gi" } },
                    "ports": [{ "containerPort": 80 }, { "containerPort": 81 }],
                    "env": [{ "name": "A", "value": "b" }],
                }] },
            },
        },
    })
}

fn service(id: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": format!("{id}-p9k2z"), "labels": labels(id, "container") },
        "spec": {
            "type": "ClusterIP", "selector": { "dcm.project/dcm-instance-id": id },
            "ports": [{ "name": "port-80", "port": 80, "targetPort": 80 }],
        },
    })
}

#[tokio::test]
async fn a_deployment_that_another_program_made_is_shown_and_deleted_whole() {
    let (objects, provider) = start("adopt").await;
    objects.create(&Kind::DEPLOYMENT, deployment("old")).await.unwrap();
    objects.create(&Kind::SERVICE, service("old")).await.unwrap();
    let item = format!("{CONTAINERS}/old");
    let shown = eventually("the adopted container is shown", secs(5), async || {
        let answer = provider.http().get(&item).await.ok()?;
        (answer.status == 200 && answer.json().get("service").is_some()).then(|| answer.json())
    })
    .await
    .unwrap();
    let spec = json!({
        "service_type": "container",
        "metadata": { "name": "web", "labels": { "team": "blue" }, "namespace": objects.namespace() },
        "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": "1", "max": "2" }, "memory": { "min": "1GB", "max": "2GB" } },
        "process": { "env": [{ "name": "A", "value": "b" }] },
        "network": { "ports": [
            { "container_port": 80, "visibility": "internal" },
            { "container_port": 81, "visibility": "none" },
        ] },
    });
    assert_eq!(shown["spec"], spec);
    let list = provider.http().get(CONTAINERS).await.unwrap().json();
    assert_eq!(list["containers"].as_array().unwrap().len(), 1);
    let created = provider.http().post(&format!("{CONTAINERS}?id=old"), &spec).await.unwrap();
    assert_ne!(created.status, 201, "an adopted id is taken");
    assert_eq!(provider.http().delete(&item).await.unwrap().status, 204);
    assert_eq!(provider.http().get(&item).await.unwrap().status, 404);
    let left = objects.list(&Kind::DEPLOYMENT, "dcm.project/dcm-instance-id=old").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    let left = objects.list(&Kind::SERVICE, "dcm.project/dcm-instance-id=old").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_claim_that_another_program_made_is_shown_grows_and_goes() {
    let (objects, provider) = start("adopt").await;
    let class = format!("grow-{}", objects.namespace());
    let cluster = Objects::cluster(Shared::get().await.unwrap().client().await.unwrap());
    let storage_class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": class },
        "provisioner": "example.com/none", "allowVolumeExpansion": true,
    });
    cluster.create(&Kind::STORAGE_CLASS, storage_class).await.unwrap();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data", "labels": labels("v-old", "storage") },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": "10Gi" } },
        },
    });
    objects.create(&Kind::CLAIM, claim).await.unwrap();
    let status = json!({ "status": { "phase": "Bound", "capacity": { "storage": "10Gi" } } });
    objects.patch_status(&Kind::CLAIM, "data", status["status"].clone()).await.unwrap();
    let item = format!("{VOLUMES}/v-old");
    eventually("the adopted volume runs", secs(5), async || {
        let answer = provider.http().get(&item).await.ok()?;
        (answer.status == 200 && answer.json()["status"] == "RUNNING").then_some(())
    })
    .await
    .unwrap();
    let grown = provider.http().patch(&item, &json!({ "capacity": "20Gi" })).await.unwrap();
    assert_eq!((grown.status, &grown.json()["spec"]["capacity"]), (200, &json!("20Gi")), "{}", grown.text());
    let again = provider.http().patch(&item, &json!({ "capacity": "20Gi" })).await.unwrap();
    assert_eq!(again.status, 400, "{}", again.text());
    assert_eq!(provider.http().delete(&item).await.unwrap().status, 204);
    eventually("the claim is gone", secs(10), async || {
        objects.list(&Kind::CLAIM, "dcm.project/dcm-instance-id=v-old").await.ok()?.is_empty().then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_instance_whose_record_somebody_deleted_is_shown_from_its_objects() {
    let (objects, provider) = start("adopt").await;
    let body = json!({ "spec": {
        "service_type": "container", "metadata": { "name": "web" }, "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": 1, "max": 1 }, "memory": { "min": "1GB", "max": "1GB" } },
    } });
    let path = format!("{CONTAINERS}?id=lost");
    assert_eq!(provider.http().post(&path, &body).await.unwrap().status, 201);
    let records = objects.list(&Kind::CONFIG_MAP, "dcm.project/dcm-instance-id=lost").await.unwrap();
    let name = records[0]["metadata"]["name"].as_str().unwrap();
    objects.delete(&Kind::CONFIG_MAP, name).await.unwrap();
    let item = format!("{CONTAINERS}/lost");
    let shown = eventually("the container is shown without its record", secs(5), async || {
        let answer = provider.http().get(&item).await.ok()?;
        (answer.status == 200 && answer.json()["spec"]["resources"]["cpu"]["min"] == "1")
            .then(|| answer.json())
    })
    .await
    .unwrap();
    assert_eq!(shown["status"], "PENDING");
    assert_eq!(provider.http().post(&path, &body).await.unwrap().status, 409);
    assert_eq!(provider.http().delete(&item).await.unwrap().status, 204);
    assert_eq!(provider.http().get(&item).await.unwrap().status, 404);
}

#[tokio::test]
async fn objects_whose_id_nobody_can_ask_for_are_not_listed() {
    let (objects, provider) = start("reserved").await;
    objects.create(&Kind::DEPLOYMENT, deployment("health")).await.unwrap();
    objects.create(&Kind::DEPLOYMENT, deployment("healthy")).await.unwrap();
    let http = provider.http();
    let other = async || (http.get(&format!("{CONTAINERS}/healthy")).await.ok()?.status == 200).then_some(());
    eventually("the other one is adopted", secs(30), other).await.unwrap();
    let told = async || provider.log().contains("their id is reserved").then_some(());
    for _ in 0..3 {
        let list = http.get(CONTAINERS).await.unwrap().json();
        let ids: Vec<&str> =
            list["containers"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["healthy"]);
    }
    eventually("the log tells of it", secs(30), told).await.unwrap();
    assert_eq!(provider.log().matches("their id is reserved").count(), 1, "{}", provider.log());
}
