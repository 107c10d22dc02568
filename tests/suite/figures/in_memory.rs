//! Figures of the cluster in memory: how much it takes, how fast it is, and how long a start of `dev` takes.
//!
//!     cargo test --release --test suite -- --ignored --nocapture figures::in_memory
#![expect(clippy::print_stderr, reason = "figures are for people")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use mapwright_testbed::process::{Process, memory};
use mapwright_testbed::{Http, Kind, Objects, Shared, eventually, secs};
use serde_json::{Value, json};

const CONTAINERS: usize = 10_000;
const CREATES: usize = 500;
const AT_A_TIME: usize = 16;

/// A run of the program with ports of its own, and its lines.
struct Running {
    process: Process,
    lines: Receiver<(Instant, String)>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mapwright"));
        command.args(arguments).env("SP_MONITOR_DEBOUNCE_MS", "0").current_dir(env!("CARGO_MANIFEST_DIR"));
        let mut process = Process::spawn(&command, Stdio::piped(), Stdio::inherit()).unwrap();
        let lines: Lines<BufReader<ChildStdout>> = BufReader::new(process.outputs().0.unwrap()).lines();
        let (send, received) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = send.send((Instant::now(), line));
            }
        });
        Self { process, lines: received }
    }

    /// The first line that holds a text, and when it came.
    fn line(&self, text: &str) -> (Instant, String) {
        loop {
            let (at, line) = self.lines.recv_timeout(secs(60)).unwrap();
            if line.contains(text) {
                return (at, line);
            }
        }
    }

    fn resident(&self) -> i64 {
        memory(self.process.pid(), "VmRSS").unwrap() / 1024
    }
}

fn container(name: &str) -> Value {
    json!({
        "service_type": "container", "metadata": { "name": name },
        "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": 1, "max": 2 }, "memory": { "min": "1GB", "max": "2GB" } },
    })
}

fn deployment(name: &str) -> Value {
    let labels = json!({ "app": name });
    let containers = json!([{ "name": "main", "image": "registry.example/main:1" }]);
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": labels }, "template": template });
    json!({ "metadata": { "name": name, "labels": { "race": "yes" } }, "spec": spec })
}

/// The address of a line such as `http://127.0.0.1:1234/...`, without a path.
fn base(line: &str) -> String {
    let at = line.find("http://").unwrap();
    let end = line[at + 7..].find('/').map_or(line.len(), |end| at + 7 + end);
    line[at..end].trim().to_owned()
}

async fn each(count: usize, at_a_time: usize, call: impl AsyncFn(usize)) {
    let call = &call;
    let calls = (0..count).map(|number| async move { call(number).await });
    futures::stream::iter(calls).buffer_unordered(at_a_time).collect::<Vec<()>>().await;
}

#[tokio::test]
#[ignore = "prints figures"]
async fn ten_thousand_containers_in_the_sandbox() {
    let sandbox = Running::start(&["sandbox", "--port", "0"]);
    let http = Http::new(base(&sandbox.line("http://").1));
    let empty = sandbox.resident();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let begun = Instant::now();
    each(CONTAINERS, AT_A_TIME, async |number| {
        let answer = http.post(path, &deployment(&format!("d-{number}"))).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
    })
    .await;
    let running = "/api/v1/namespaces/default/pods?fieldSelector=status.phase%3DRunning";
    eventually("all run", secs(300), async || {
        let list = http.get(running).await.ok()?.json();
        (list["items"].as_array()?.len() == CONTAINERS).then_some(())
    })
    .await
    .unwrap();
    let (took, full) = (begun.elapsed(), sandbox.resident());
    eprintln!(
        "{CONTAINERS} Deployments with their pods: {full} MB (empty {empty} MB), all running in {took:?}"
    );
}

/// The built-in stages, without their delays.
const AT_ONCE: &str = r#"
for: v1/Pod
stages:
  - name: scheduled and running
    when: object.status.phase == 'Pending'
    status:
      phase: Running
      podIP: "10.244.{{ address }}"
      conditions: [{ type: Ready, status: "True", lastTransitionTime: "{{ now }}" }]
      containerStatuses:
        - $for: container in object.spec.containers
          name: "{{ container.name }}"
          image: "{{ container.image }}"
          imageID: ""
          ready: true
          started: true
          restartCount: 0
          state: { running: { startedAt: "{{ now }}" } }
"#;

#[tokio::test]
#[ignore = "prints figures"]
async fn from_a_create_to_its_event_and_from_a_start_to_ready() {
    let folder = mapwright_testbed::process::Scratch::new("figures").unwrap();
    let scenario = folder.write("scenario.yaml", AT_ONCE).unwrap();
    let mut starts = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let dev = Running::start(&["dev", "--port", "0"]);
        starts.push(dev.line("ready in").0 - begun);
    }
    starts.sort();
    eprintln!("start of dev until it is ready: {:?} (median of {})", starts[starts.len() / 2], starts.len());

    let dev = Running::start(&["dev", "--port", "0", "--scenario", &scenario.to_string_lossy()]);
    let base = base(&dev.line("/containers").1);
    dev.line("Status events");
    let http = Http::new(base.clone());
    let mut times = Vec::new();
    for number in 0..CREATES {
        let id = format!("c-{number}");
        let begun = Instant::now();
        let answer = http.post(&format!("/api/v1alpha1/containers?id={id}"), &container(&id)).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        loop {
            let (at, line) = dev.lines.recv_timeout(secs(20)).unwrap();
            if line.contains(&format!("\"id\":\"{id}\",\"status\":\"RUNNING\"")) {
                times.push(at - begun);
                break;
            }
        }
    }
    times.sort();
    let at = |part: usize| times[times.len() * part / 100];
    eprintln!(
        "create to RUNNING event: p50 {:?}, p99 {:?}, most {:?}",
        at(50),
        at(99),
        at(100 - 1).max(times[times.len() - 1])
    );
}

/// From the first create to the last pod.
async fn race(http: &Objects) -> Duration {
    let begun = Instant::now();
    each(CREATES, AT_A_TIME, async |number| {
        http.create(&Kind::DEPLOYMENT, deployment(&format!("d-{number}"))).await.unwrap();
    })
    .await;
    eventually("there is a pod of each", secs(300), async || {
        (http.list(&Kind::POD, "").await.ok()?.len() >= CREATES).then_some(())
    })
    .await
    .unwrap();
    begun.elapsed()
}

#[tokio::test]
#[ignore = "prints figures"]
async fn deployments_beside_the_real_control_plane() {
    let sandbox = Running::start(&["sandbox", "--bare", "--port", "0"]);
    let address = base(&sandbox.line("http://").1);
    let folder = mapwright_testbed::process::Scratch::new("figures").unwrap();
    let port = address.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let config = mapwright::sandbox::kubeconfig(([127, 0, 0, 1], port).into());
    let client =
        mapwright_testbed::control_plane::client(&folder.write("kubeconfig", &config).unwrap()).await;
    let client = client.unwrap();
    let namespace = mapwright_testbed::shared::namespace(&client, "race").await.unwrap();
    let ours = race(&Objects::new(client, namespace)).await;
    let theirs = race(&Shared::get().await.unwrap().objects("race").await.unwrap()).await;
    let mut rates = HashMap::new();
    for (name, time) in [("sandbox", ours), ("control plane", theirs)] {
        rates.insert(name, CREATES as f64 / time.as_secs_f64());
    }
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    eprintln!("{CREATES} Deployments until each has its pod: {rates:.0?} a second: {ratio:.1} times as fast");
}
