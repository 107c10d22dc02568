//! Generated sequences of requests, sent to the real API server and to the sandbox: the same answers, and the
//! same events on a watch that sees all of it. A sequence is made from its number alone, so a failure repeats.

use std::collections::HashMap;

use http_body_util::BodyExt as _;
use kube::Client;
use mapwright_testbed::{ControlPlane, Setup, control_plane};

use super::difference::{ask, mask, request};
use super::*;

const SEQUENCES: u64 = 30;
const REQUESTS: usize = 60;

/// A kind: its group, its plural, and a body of a name.
type Served = (&'static str, &'static str, fn(&str) -> Value);

/// The kinds that are asked for.
const KINDS: [Served; 4] = [
    ("/api/v1", "configmaps", |name| json!({ "metadata": { "name": name }, "data": { "k": "1" } })),
    (
        "/api/v1",
        "services",
        |name| json!({ "metadata": { "name": name }, "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80 }] } }),
    ),
    ("/api/v1", "persistentvolumeclaims", |name| {
        json!({ "metadata": { "name": name }, "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } } })
    }),
    ("/apis/apps/v1", "deployments", |name| {
        let labels = json!({ "a": "b" });
        let containers = json!([{ "name": "m", "image": "x:1" }]);
        json!({ "metadata": { "name": name }, "spec": { "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } } } })
    }),
];

/// What may be changed, for better or worse.
fn changes() -> Vec<Value> {
    vec![
        json!({ "metadata": { "labels": { "tier": "front" } } }),
        json!({ "metadata": { "labels": { "tier": null, "x": "y" } } }),
        json!({ "metadata": { "labels": { "-bad-": "v" } } }),
        json!({ "metadata": { "labels": { "good": "bad value" } } }),
        json!({ "metadata": { "annotations": { "note": "a b\nc" } } }),
        json!({ "metadata": { "name": "other" } }),
        json!({ "metadata": { "finalizers": ["x.y/z"] } }),
        json!({ "metadata": { "finalizers": null } }),
        json!({ "metadata": { "resourceVersion": "VERSION" } }),
        json!({ "data": { "k": "2", "l": "3" } }),
        json!({ "data": { "k": 7 } }),
        json!({ "spec": { "replicas": 3 } }),
        json!({ "spec": { "replicas": -1 } }),
        json!({ "spec": { "ports": [{ "port": 81, "protocol": "UDP" }] } }),
        json!({ "spec": { "ports": [{ "port": 70000 }] } }),
        json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } }),
        json!({ "unknown": { "member": true } }),
        json!({}),
    ]
}

const QUERIES: [&str; 8] = [
    "",
    "?labelSelector=tier%3Dfront",
    "?labelSelector=tier",
    "?labelSelector=%21tier",
    "?labelSelector=tier+in+(front,back)",
    "?labelSelector=%3D%3D",
    "?fieldSelector=metadata.name%3Da",
    "?limit=1",
];

/// Chance that repeats itself: a xorshift of the sequence's number.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn of<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

#[derive(Clone, Debug)]
struct Step {
    method: &'static str,
    path: String,
    media: &'static str,
    body: Value,
    /// The object that it is about, for the version that a server knows of it.
    about: String,
}

fn sequence(number: u64) -> Vec<Step> {
    let mut dice = Dice(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    (0..REQUESTS).map(|_| step(&mut dice)).collect()
}

fn step(dice: &mut Dice) -> Step {
    let (group, plural, body) = *dice.of(&KINDS);
    let name = *dice.of(&["a", "b", "c"]);
    let all = format!("{group}/namespaces/NAMESPACE/{plural}");
    let one = format!("{all}/{name}");
    let about = format!("{plural}/{name}");
    let plain = |method, path, media, body| Step { method, path, media, body, about: about.clone() };
    match dice.below(10) {
        0..=2 => plain("POST", all, "", merged(body(name), dice.of(&changes()))),
        3 => {
            let mut whole = merged(body(name), dice.of(&changes()));
            if dice.below(2) == 0 {
                whole["metadata"]["resourceVersion"] = "VERSION".into();
            }
            plain("PUT", one, "", whole)
        }
        4 | 5 => plain("PATCH", one, "application/merge-patch+json", dice.of(&changes()).clone()),
        6 => {
            // What cannot be decoded after a patch is told by the real server with all of its bookkeeping.
            let (path, value) = dice
                .of(&[
                    ("/metadata/labels", json!({ "tier": "front" })),
                    ("/metadata/labels/tier", json!("back")),
                    ("/data/k", json!("v")),
                    ("/spec/replicas", json!(2)),
                    ("/nope/x", json!("v")),
                ])
                .clone();
            let op = *dice.of(&["add", "remove", "replace", "test"]);
            let patch = json!([{ "op": op, "path": path, "value": value }]);
            plain("PATCH", one, "application/json-patch+json", patch)
        }
        7 => {
            let options = [
                Value::Null,
                json!({ "propagationPolicy": "Background" }),
                json!({ "preconditions": { "resourceVersion": "VERSION" } }),
                json!({ "preconditions": { "uid": "00000000-0000-0000-0000-000000000000" } }),
            ];
            plain("DELETE", one, "", dice.of(&options).clone())
        }
        8 => plain("GET", one, "", Value::Null),
        _ => plain("GET", format!("{all}{}", dice.of(&QUERIES)), "", Value::Null),
    }
}

fn merged(mut whole: Value, change: &Value) -> Value {
    for (key, value) in change.as_object().into_iter().flatten() {
        match (&mut whole[key], value) {
            (Value::Object(members), Value::Object(more)) => {
                members.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            (slot, value) => *slot = value.clone(),
        }
    }
    whole
}

/// One server, and what it said of each object last.
struct Side {
    client: Client,
    place: String,
    versions: HashMap<String, String>,
}

impl Side {
    async fn take(&mut self, step: &Step) -> Value {
        let version = self.versions.get(&step.about).map_or("1", String::as_str);
        let body: Value = serde_json::from_str(&step.body.to_string().replace("VERSION", version)).unwrap();
        let asked = (step.method, step.path.as_str(), step.media, body);
        let (answer, version) = ask(&self.client, &asked, &self.place).await;
        if step.method == "DELETE" {
            self.versions.remove(&step.about);
        } else if let Some(version) = version {
            self.versions.insert(step.about.clone(), version);
        }
        answer
    }

    /// What a watch tells from the beginning until a mark that is made now.
    async fn told(&self, group: &str, plural: &str, begin: &str, body: fn(&str) -> Value) -> Vec<Value> {
        let all = format!("{group}/namespaces/NAMESPACE/{plural}");
        ask(&self.client, &("POST", &all, "", body("the-end")), &self.place).await;
        let path = format!("{all}?watch=true&timeoutSeconds=5&resourceVersion={begin}");
        let request = request(&("GET", &path, "", Value::Null), &self.place);
        let mut stream = self.client.send(request).await.unwrap().into_body();
        let (mut events, mut text) = (Vec::new(), String::new());
        while let Some(frame) = stream.frame().await {
            text.push_str(&String::from_utf8_lossy(&frame.unwrap().into_data().unwrap_or_default()));
            while let Some((line, rest)) = text.split_once('\n') {
                let mut event: Value = serde_json::from_str(line).unwrap();
                text = rest.to_owned();
                if event["object"]["metadata"]["name"] == "the-end" {
                    return events;
                }
                mask(&mut event, "");
                // The real server also tells of changes of its bookkeeping alone.
                let name = &event["object"]["metadata"]["name"];
                let last =
                    events.iter().rev().find(|known: &&Value| known["object"]["metadata"]["name"] == *name);
                if event["type"] != "MODIFIED" || last.is_none_or(|last| last["object"] != event["object"]) {
                    events.push(event);
                }
            }
        }
        panic!("the watch of {plural} ended before its last event: {events:#?}");
    }

    async fn version(&self, group: &str, plural: &str) -> String {
        let all = format!("{group}/namespaces/NAMESPACE/{plural}");
        let answer = self.client.send(request(&("GET", &all, "", Value::Null), &self.place)).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&bytes).unwrap();
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn generated_requests_are_answered_and_told_as_the_real_server_does() {
    if is_sandbox() {
        return;
    }
    // Without controllers: what they do between two requests would be chance.
    let setup = Setup { controller_manager: false, ..Setup::default() };
    let plane = ControlPlane::start_with(setup).await.unwrap();
    let real = plane.client().await.unwrap();
    let fixture = Fixture::start(false).await;
    let pretended = control_plane::client(&fixture.kubeconfig).await.unwrap();
    let mut differences = Vec::new();
    for number in 1..=SEQUENCES {
        let place = mapwright_testbed::shared::namespace(&real, "generated").await.unwrap();
        let namespace = json!({ "metadata": { "name": place } });
        fixture.http().post("/api/v1/namespaces", &namespace).await.unwrap();
        let side =
            |client: &Client| Side { client: client.clone(), place: place.clone(), versions: HashMap::new() };
        let (mut theirs, mut ours) = (side(&real), side(&pretended));
        let mut begins = Vec::new();
        for (group, plural, _) in KINDS {
            begins.push((theirs.version(group, plural).await, ours.version(group, plural).await));
        }
        for (at, step) in sequence(number).iter().enumerate() {
            let (expected, found) = (theirs.take(step).await, ours.take(step).await);
            if expected != found {
                let (method, path, body) = (step.method, &step.path, &step.body);
                differences.push(format!(
                    "{number}.{at} {method} {path} {body}\n  real    {expected}\n  sandbox {found}"
                ));
            }
        }
        for ((group, plural, body), (begin, our_begin)) in KINDS.into_iter().zip(begins) {
            let expected = theirs.told(group, plural, &begin, body).await;
            let found = ours.told(group, plural, &our_begin, body).await;
            if expected != found {
                let at = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
                let (expected, found) = (json!(expected.get(at)), json!(found.get(at)));
                differences
                    .push(format!("{number} watch of {plural}\n  real    {expected}\n  sandbox {found}"));
            }
        }
    }
    let shown = differences[..differences.len().min(12)].join("\n");
    assert!(differences.is_empty(), "{} differ:\n{shown}", differences.len());
}
