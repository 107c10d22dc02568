//! The in-memory Kubernetes API: the real kubectl and the product at work on it, and the same requests sent to
//! it and to the real API server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use mapwright::app::{Dev, DevOptions, Shown};
use mapwright::sandbox::{Sandbox, Stages, kubeconfig};
use mapwright_testbed::ground::is_sandbox;
use mapwright_testbed::process::Scratch;
use mapwright_testbed::{Binaries, Http, Shared, eventually, secs};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

mod difference;
mod generated;
mod kubectl;
mod persist;

/// A sandbox in this process, and a kubeconfig for it.
struct Fixture {
    address: SocketAddr,
    kubeconfig: PathBuf,
    task: JoinHandle<()>,
    _scratch: Scratch,
}

impl Fixture {
    /// With machines, or without anything that happens by itself.
    async fn start(machines: bool) -> Self {
        let stages = machines.then(|| Stages::load(Vec::new(), true, true).unwrap().into());
        let sandbox = Sandbox::start(stages).unwrap();
        if machines {
            sandbox.furnish().unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scratch = Scratch::new("sandbox").unwrap();
        let kubeconfig = scratch.write("kubeconfig", &kubeconfig(address)).unwrap();
        let task = tokio::spawn(async move { sandbox.serve(listener, std::future::pending()).await });
        Self { address, kubeconfig, task, _scratch: scratch }
    }

    fn http(&self) -> Http {
        Http::new(format!("http://{}", self.address))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// `mapwright dev` in this process, and the events that it would show.
pub(crate) struct Stage {
    pub(crate) http: Http,
    cluster: Http,
    events: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
    _scratch: Scratch,
}

impl Stage {
    async fn start(scenario: &str) -> Self {
        Self::of(PathBuf::from(env!("CARGO_MANIFEST_DIR")), scenario).await
    }

    /// With the mappings of another root.
    pub(crate) async fn of(root: PathBuf, scenario: &str) -> Self {
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let scratch = Scratch::new("dev").unwrap();
        let scenario = scratch.write("scenario.yaml", scenario).unwrap();
        let options = DevOptions {
            root,
            nats: None,
            port: 0,
            api_port: 0,
            kubeconfig_out: Some(scratch.join("kubeconfig")),
            scenario: Some(scenario),
            persist: None,
        };
        let dev = Dev::start(options, |_| None).await.unwrap();
        let http = Http::new(format!("http://{}", dev.rest));
        let cluster = Http::new(format!("http://{}", dev.cluster));
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&events);
        let task = tokio::spawn(async move {
            let show = move |shown: Shown<'_>| {
                let Shown::Said(message) = shown else { return };
                let event: Value = serde_json::from_slice(&message.payload).unwrap();
                seen.lock().unwrap().push(event["data"].clone());
            };
            dev.run(show).await.unwrap();
        });
        Self { http, cluster, events, task, _scratch: scratch }
    }

    /// The statuses that were said of an id, once this one is among them.
    pub(crate) async fn statuses(&self, id: &str, last: &str) -> Vec<String> {
        let said = async || {
            let events = self.events.lock().unwrap();
            let of_id = events.iter().filter(|event| event["id"] == id);
            let statuses: Vec<String> =
                of_id.map(|event| event["status"].as_str().unwrap().to_owned()).collect();
            (statuses.last().map(String::as_str) == Some(last)).then_some(statuses)
        };
        let found = eventually(&format!("{id} is {last}"), secs(20), said).await;
        found.unwrap_or_else(|failure| panic!("{failure}; said: {:?}", self.events.lock().unwrap()))
    }

    fn message(&self, id: &str, status: &str) -> String {
        let events = self.events.lock().unwrap();
        let found = events.iter().rev().find(|event| event["id"] == id && event["status"] == status);
        found.and_then(|event| event["message"].as_str()).unwrap_or_default().to_owned()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const NOTHING_ELSE: &str = "[]\n";
const CONTAINERS: &str = "/api/v1alpha1/containers";
const VOLUMES: &str = "/api/v1alpha1/volumes";

fn container(image: &str) -> Value {
    json!({ "spec": {
        "service_type": "container", "metadata": { "name": "web" }, "image": { "reference": image },
        "resources": { "cpu": { "min": 1, "max": 1 }, "memory": { "min": "1GB", "max": "1GB" } },
        "network": { "ports": [{ "container_port": 80, "visibility": "external" }] },
    } })
}

fn volume(name: &str, capacity: &str) -> Value {
    json!({ "spec": { "service_type": "storage", "capacity": capacity, "metadata": { "name": name } } })
}

#[tokio::test]
async fn a_container_runs_has_an_address_and_goes() {
    let stage = Stage::start(NOTHING_ELSE).await;
    let created = stage.http.post(&format!("{CONTAINERS}?id=web-1"), &container("x:1")).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let path = stage.statuses("web-1", "RUNNING").await;
    // A pod may run before anybody has looked for the first time.
    assert!(path == ["PENDING", "RUNNING"] || path == ["RUNNING"], "{path:?}");
    let shown = async || {
        let shown = stage.http.get(&format!("{CONTAINERS}/web-1")).await.ok()?.json();
        shown["service"]["external_ip"].is_string().then_some(shown)
    };
    let shown = eventually("the external address", secs(10), shown).await.unwrap();
    assert_eq!((&shown["status"], shown["spec"]["network"]["ip"].is_string()), (&json!("RUNNING"), true));
    assert_eq!(stage.http.delete(&format!("{CONTAINERS}/web-1")).await.unwrap().status, 204);
    stage.statuses("web-1", "DELETED").await;
    let empty = async || {
        let mut left = 0;
        for path in ["apis/apps/v1/deployments", "apis/apps/v1/replicasets", "api/v1/pods", "api/v1/services"]
        {
            left += stage.cluster.get(&format!("/{path}")).await.ok()?.json()["items"].as_array()?.len();
        }
        (left == 0).then_some(())
    };
    eventually("nothing is left", secs(10), empty).await.unwrap();
}

#[tokio::test]
async fn what_the_readme_says_to_paste_makes_a_container_that_runs() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let between = |begin: &str, end: &str, number: usize| {
        let part = readme.split(begin).nth(number).and_then(|rest| rest.split(end).next()).unwrap();
        serde_json::from_str::<Value>(part).unwrap()
    };
    let stage = Stage::start(NOTHING_ELSE).await;
    let body = between("-d '", "'\n", 1);
    let created = stage.http.post(&format!("{CONTAINERS}?id=web-1"), &body).await.unwrap();
    assert_eq!((created.status, &created.json()["status"]), (201, &json!("PENDING")));
    stage.statuses("web-1", "RUNNING").await;
    let shown = stage.http.get(&format!("{CONTAINERS}/web-1")).await.unwrap().json();
    for (member, value) in between("```json\n", "```", 1).as_object().unwrap() {
        assert_eq!(&shown[member], value, "{member}");
    }
    let last = stage.events.lock().unwrap().last().cloned().unwrap();
    assert_eq!(between("```json\n", "```", 2), last);
}

#[tokio::test]
async fn a_volume_is_bound_grows_and_goes_with_its_disk() {
    let stage = Stage::start(NOTHING_ELSE).await;
    let created = stage.http.post(&format!("{VOLUMES}?id=v-1"), &volume("data", "1Gi")).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    stage.statuses("v-1", "RUNNING").await;
    let larger = json!({ "spec": { "capacity": "2Gi" } });
    let patched = stage.http.patch(&format!("{VOLUMES}/v-1"), &larger).await.unwrap();
    assert_eq!(patched.status, 200, "{}", patched.text());
    let claim = async || {
        let claim = stage.cluster.get("/api/v1/namespaces/default/persistentvolumeclaims/data").await.ok()?;
        (claim.json()["status"]["capacity"]["storage"] == "2Gi").then_some(())
    };
    eventually("the claim has grown", secs(10), claim).await.unwrap();
    assert_eq!(stage.http.delete(&format!("{VOLUMES}/v-1")).await.unwrap().status, 204);
    stage.statuses("v-1", "DELETED").await;
    let disk = async || {
        let disks = stage.cluster.get("/api/v1/persistentvolumes").await.ok()?.json();
        disks["items"].as_array()?.is_empty().then_some(())
    };
    eventually("the disk is gone", secs(10), disk).await.unwrap();
}

/// What goes wrong is data: these stages come before those that are built in.
/// A file of the page on scenarios.
fn example(file: &str) -> String {
    let page = std::fs::read_to_string(crate::broken::root().join("docs/scenarios.md")).unwrap();
    let (_, rest) = page.split_once(&format!("```yaml file={file}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn failures_are_played_from_a_file() {
    let stage = Stage::start(&example("failures.yaml")).await;
    for image in ["missing", "crash", "evict"] {
        let path = format!("{CONTAINERS}?id={image}");
        let body = container(&format!("registry.example/{image}:1"));
        assert_eq!(stage.http.post(&path, &body).await.unwrap().status, 201);
    }
    let path = format!("{VOLUMES}?id=broken");
    assert_eq!(stage.http.post(&path, &volume("broken", "1Gi")).await.unwrap().status, 201);
    stage.statuses("broken", "FAILED").await;
    assert_eq!(stage.message("broken", "FAILED"), "ProvisioningFailed: no disk is left");
    let shows = async |id: &str, words: &str| {
        let told = async || {
            let shown = stage.http.get(&format!("{CONTAINERS}/{id}")).await.ok()?.json();
            shown["status_message"].as_str()?.contains(words).then_some(())
        };
        eventually(&format!("{id} says {words}"), secs(20), told).await.unwrap();
    };
    shows("missing", "ImagePullBackOff: no such image").await;
    shows("crash", "CrashLoopBackOff").await;
}

#[test]
fn every_key_of_a_stage_is_on_the_page() {
    let page = std::fs::read_to_string(crate::broken::root().join("docs/scenarios.md")).unwrap();
    for key in Stages::KEYS {
        assert!(page.contains(&format!("| `{key}` |")), "docs/scenarios.md has no row of `{key}`");
    }
}

#[tokio::test]
async fn a_mistake_in_a_scenario_is_shown_at_its_place() {
    let file = "for: v1/Pod\nstages:\n  - name: a\n    when: objct.status\n    dely: 1s\n";
    let source = mapwright::engine::source::Source::new("scenario.yaml", file);
    let findings = Stages::load(vec![source], true, true).err().unwrap().to_string();
    assert!(findings.contains("scenario.yaml:4:11") && findings.contains("objct"), "{findings}");
    assert!(findings.contains("scenario.yaml:5:5") && findings.contains("dely"), "{findings}");
}

#[tokio::test]
async fn a_quota_refuses_what_goes_beyond_it_and_has_room_again() {
    let stage = Stage::start(NOTHING_ELSE).await;
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "requests.storage": "3Gi" } } });
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    assert_eq!(stage.cluster.post(quotas, &quota).await.unwrap().status, 201);
    let counted = async |used: &str| {
        let counted = async || {
            let quota = stage.cluster.get(&format!("{quotas}/q")).await.ok()?.json();
            (quota["status"]["used"]["requests.storage"] == used).then_some(())
        };
        eventually(&format!("{used} are used"), secs(10), counted).await.unwrap();
    };
    counted("0").await;
    assert_eq!(stage.http.post(&format!("{VOLUMES}?id=a"), &volume("a", "2Gi")).await.unwrap().status, 201);
    counted("2Gi").await;
    let refused = stage.http.post(&format!("{VOLUMES}?id=b"), &volume("b", "2Gi")).await.unwrap();
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("exceeded quota: q"), "{}", refused.text());
    assert_eq!(stage.http.delete(&format!("{VOLUMES}/a")).await.unwrap().status, 204);
    counted("0").await;
    assert_eq!(stage.http.post(&format!("{VOLUMES}?id=b"), &volume("b", "2Gi")).await.unwrap().status, 201);
}

#[tokio::test]
async fn whatever_a_client_sends_the_server_goes_on() {
    let fixture = Fixture::start(false).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let large = json!({ "metadata": { "name": "large" }, "data": { "k": "x".repeat(2 << 20) } });
    let bodies = [
        deep.clone(),
        format!("{{\"metadata\": {deep}}}"),
        large.to_string(),
        "x".repeat(4 << 20),
        "null".to_owned(),
        json!({ "metadata": "name" }).to_string(),
        json!({ "metadata": { "name": { "a": 1 } } }).to_string(),
        json!({ "metadata": { "name": "a", "labels": ["b"], "ownerReferences": "c" } }).to_string(),
    ];
    let client = fixture.http();
    for body in bodies {
        let answer = raw(fixture.address, "POST", maps, &body).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{}", &answer[..answer.len().min(300)]);
    }
    for query in [
        "labelSelector=a+in+(",
        "labelSelector=((((",
        "fieldSelector=a",
        "limit=-1",
        "continue=%00",
        "limit=%zz",
    ] {
        assert_eq!(client.get(&format!("{maps}?{query}")).await.unwrap().status, 400, "{query}");
    }
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [1, null, "x"], "volumes": {} } });
    assert_eq!(client.post("/api/v1/namespaces/default/pods", &pod).await.unwrap().status, 400);
    assert_eq!(client.get("/readyz").await.unwrap().status, 200);
    let listed = client.get(maps).await.unwrap().json();
    assert_eq!(listed["items"], json!([]), "nothing of it was stored");
}

/// A request as bytes, whatever is in them; answers as much as the server sends before it closes.
async fn raw(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that has read enough may close while we still write.
    let _ = stream.write_all(body.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_stateful_set_mounts_the_claims_of_its_pods_and_is_what_a_scenario_says() {
    let stage = Stage::start(&example("sets.yaml")).await;
    let set = |mounted: &str| {
        json!({ "metadata": { "name": mounted }, "spec": {
            "serviceName": "s", "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{
                "name": "m", "image": "x:1", "volumeMounts": [{ "name": mounted, "mountPath": "/m" }],
            }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }],
        } })
    };
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let made = stage.cluster.post(path, &set("data")).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let ready = async || {
        let set = stage.cluster.get(&format!("{path}/data")).await.ok()?.json();
        (set["status"]["readyReplicas"] == 1).then_some(())
    };
    eventually("the pods are ready", secs(60), ready).await.unwrap();
    let refused = stage.cluster.post(path, &set("other")).await.unwrap();
    assert_eq!(refused.status, 422, "{}", refused.text());
}

/// Objects lie packed against others of their kind.
#[tokio::test]
async fn whatever_is_stored_comes_back_one_by_one_in_a_list_and_in_a_watch() {
    let fixture = Fixture::start(false).await;
    let http = fixture.http();
    let path = "/api/v1/namespaces/default/configmaps";
    let texts: Vec<String> = [0, 1, 5, 100, 5_000, 9_000, 100_000, 3, 300, 20_000]
        .map(|length| "a\u{1f980}\"\\".repeat(length))
        .into();
    for (number, text) in texts.iter().enumerate() {
        let map = json!({ "metadata": { "name": format!("m-{number}") }, "data": { "text": text } });
        let answer = http.post(path, &map).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let list = http.get(path).await.unwrap().json();
    let listed: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|map| &map["data"]["text"]).collect();
    assert_eq!(listed, texts.iter().collect::<Vec<_>>());
    for (number, text) in texts.iter().enumerate() {
        let one = http.get(&format!("{path}/m-{number}")).await.unwrap().json();
        assert_eq!(one["data"]["text"], text.as_str(), "m-{number}");
    }
    let watched = http.get(&format!("{path}?watch=true&timeoutSeconds=1")).await.unwrap().text();
    let seen: Vec<Value> = watched.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<&Value> = seen.iter().map(|event| &event["object"]["data"]["text"]).collect();
    assert_eq!(seen, texts.iter().collect::<Vec<_>>());
}
