//! Bad input, generated: every field of every schema with values that it may and may not have.
//!
//! Each answer is 201, or a 4xx that points to the field; the cluster then holds exactly the objects of
//! the 201s, with every string as it was sent.

mod values;

use std::collections::BTreeSet;

use futures::StreamExt as _;
use mapwright_testbed::objects::{Kind, Objects};
use mapwright_testbed::{Answer, ControlPlane, Http, Launch, Setup, Shared, shared};
use serde_json::{Value, json};
use values::{Case, cases};

/// Requests under way at a time: the servers share the machine with the other tests.
const AT_ONCE: usize = 16;

/// A control plane of its own without controllers: what the provider makes is all there is.
async fn cluster() -> (ControlPlane, Objects) {
    let setup = Setup { controller_manager: false, ..Setup::default() };
    let plane = ControlPlane::start_with(setup).await.unwrap();
    let client = plane.client().await.unwrap();
    let namespace = shared::namespace(&client, "bad-input").await.unwrap();
    let objects = Objects::new(client, namespace);
    (plane, objects)
}

/// A case, the id that it was sent with, and what came back.
struct Told {
    id: String,
    case: Case,
    answer: Answer,
}

async fn tell(http: &Http, collection: &str, cases: Vec<Case>) -> Vec<Told> {
    let asked = cases.into_iter().enumerate().map(|(number, case)| async move {
        let id = format!("case-{number}");
        let path = format!("/api/v1alpha1/{collection}?id={id}");
        let headers = [("content-type", "application/json")];
        let answer = http.request("POST", &path, &headers, case.body(&id)).await.unwrap();
        Told { id, case, answer }
    });
    futures::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

/// Everything that is wrong with an answer.
fn complaint(told: &Told) -> Option<String> {
    let Told { case, answer, .. } = told;
    let wrong = match answer.status {
        201 if answer.json()["spec"].pointer(&case.field) != case.value.as_ref() => "the spec is not echoed",
        201 => return None,
        400..=499 if case.is_malformed() || points_at(answer, case) => return None,
        400..=499 => "no pointer to the field",
        _ => "neither 201 nor a 4xx",
    };
    Some(format!("{case}: {} {wrong}: {}", answer.status, &clip(&answer.text())))
}

/// Whether a fault is at the field or below it, or at its parent where the field is missing.
fn points_at(answer: &Answer, case: &Case) -> bool {
    let document = answer.json();
    let pointers =
        document["errors"].as_array().into_iter().flatten().filter_map(|fault| fault["pointer"].as_str());
    let at_field = |pointer: String| {
        let twin = case.field.replace("/max", "/min");
        let parent = case.field.rsplit_once('/').map_or("", |(parent, _)| parent);
        pointer.starts_with(&case.field)
            // A bound is judged with the other one, and the lower one is named.
            || pointer == twin
            || (case.value.is_none() || case.names_the_member()) && pointer.starts_with(parent)
    };
    pointers.map(decoded).any(at_field)
}

/// A pointer as it is without the escapes of a URI.
fn decoded(fragment: &str) -> String {
    let bytes = fragment.trim_start_matches('#').as_bytes();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| std::str::from_utf8(&bytes[at + 1..at + 3]).unwrap());
        plain.push(escape.map_or(bytes[at], |digits| u8::from_str_radix(digits, 16).unwrap()));
        at += if escape.is_some() { 3 } else { 1 };
    }
    let pointer = String::from_utf8(plain).unwrap();
    pointer.strip_prefix("/spec").map(str::to_owned).unwrap_or(pointer)
}

fn clip(text: &str) -> String {
    text.chars().take(400).collect()
}

/// The instance ids of the objects of a kind; there is one object an id.
async fn ids(objects: &Objects, kind: &Kind) -> BTreeSet<String> {
    let found = objects.list(kind, "").await.unwrap();
    let ids: Vec<String> = found
        .iter()
        .filter_map(|object| object["metadata"]["labels"]["dcm.project/dcm-instance-id"].as_str())
        .map(str::to_owned)
        .collect();
    let unique: BTreeSet<String> = ids.iter().cloned().collect();
    assert_eq!(unique.len(), ids.len(), "an instance has two objects of the kind {}", kind.kind);
    unique
}

/// Runs the cases of one type; answers the specs of the 201s by id.
async fn run(http: &Http, collection: &str, schema: &str, base: &Value) -> Vec<(String, Value)> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let told = tell(http, collection, cases(&schema, base)).await;
    let complaints: Vec<String> = told.iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{} of {}:\n{}", complaints.len(), told.len(), complaints.join("\n"));
    let made = told.iter().filter(|told| told.answer.status == 201);
    let made: Vec<(String, Value)> =
        made.map(|told| (told.id.clone(), told.answer.json()["spec"].take())).collect();
    assert!(made.len() > 50 && told.len() - made.len() > 50, "{} of {} are made", made.len(), told.len());
    made
}

fn container() -> Value {
    json!({
        "service_type": "container",
        "metadata": { "name": "web", "labels": { "team": "blue" } },
        "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": "1m", "max": 64 }, "memory": { "min": "1MB", "max": "64TB" } },
        "process": { "command": ["run"], "args": ["now"], "env": [{ "name": "A", "value": "b" }] },
        "network": { "ports": [{ "container_port": 80, "visibility": "internal" }] },
        "provider_hints": {},
    })
}

fn volume() -> Value {
    json!({
        "service_type": "storage",
        "capacity": "10Gi",
        "metadata": { "name": "$id", "labels": { "team": "blue" } },
        "provider_hints": { "kubernetes": { "volume_mode": "Block", "access_mode": "ReadWriteOnce" } },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_takes_what_it_may_and_refuses_the_rest_at_its_place() {
    let (plane, objects) = cluster().await;
    let nats = &Shared::get().await.unwrap().nats;
    let launch = Launch::new(env!("CARGO_BIN_EXE_mapwright")).unwrap();
    let launch = launch.types(&["container", "storage"]).cluster(plane.kubeconfig(), objects.namespace());
    let launch = launch.env("SP_NATS_URL", &nats.url()).env("SP_NAME", objects.namespace());
    let provider = launch.start().await.unwrap();

    let containers = include_str!("../../schemas/container.json");
    let made = run(&provider.http(), "containers", containers, &container()).await;
    let all: BTreeSet<String> = made.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids(&objects, &Kind::DEPLOYMENT).await, all);
    let exposes = |spec: &Value| {
        let ports = spec["network"]["ports"].as_array();
        ports.is_some_and(|ports| ports.iter().any(|port| port["visibility"] != "none"))
    };
    let exposed = made.iter().filter(|(_, spec)| exposes(spec)).map(|(id, _)| id.clone()).collect();
    assert_eq!(ids(&objects, &Kind::SERVICE).await, exposed);
    strings_arrive(&objects, &made).await;

    let volumes = include_str!("../../schemas/storage.json");
    let made = run(&provider.http(), "volumes", volumes, &volume()).await;
    assert_eq!(ids(&objects, &Kind::CLAIM).await, made.into_iter().map(|(id, _)| id).collect());
}

/// What a caller sent as text is the same text in the cluster.
async fn strings_arrive(objects: &Objects, made: &[(String, Value)]) {
    let deployments = objects.list(&Kind::DEPLOYMENT, "").await.unwrap();
    for (id, spec) in made {
        let has_id =
            |object: &&Value| object["metadata"]["labels"]["dcm.project/dcm-instance-id"] == id.as_str();
        let deployment = deployments.iter().find(has_id).unwrap();
        let pod = &deployment["spec"]["template"];
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["image"], spec["image"]["reference"]);
        let process = &spec["process"];
        for list in ["command", "args"] {
            // Kubernetes leaves out an empty list.
            let sent = &process[list];
            let same = container[list] == *sent || sent == &json!([]) && container[list].is_null();
            assert!(same, "{list}: {} is not {sent}", container[list]);
        }
        for (sent, have) in process["env"].as_array().into_iter().flatten().zip(0..) {
            let there = &container["env"][have];
            assert_eq!(there["name"], sent["name"]);
            // An empty value is Kubernetes' default, which it leaves out.
            assert_eq!(there["value"].as_str().unwrap_or_default(), sent["value"]);
        }
        for (key, value) in spec["metadata"]["labels"].as_object().into_iter().flatten() {
            assert_eq!(&pod["metadata"]["labels"][key], value);
            assert_eq!(&deployment["metadata"]["labels"][key], value);
        }
    }
}
