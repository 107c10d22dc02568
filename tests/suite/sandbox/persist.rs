//! `dev --persist`: the cluster, and what was said of it, outlive the process.

use std::fs;

use mapwright_testbed::process::Scratch;
use mapwright_testbed::{Http, eventually, secs};
use serde_json::Value;

use super::{CONTAINERS, container};
use crate::cases::root::run;
use crate::reload::screen::Screen;

/// `mapwright dev` as a process of its own, and where it is reached.
struct Play {
    screen: Screen,
    rest: Http,
    cluster: Http,
}

impl Play {
    fn start(scratch: &Scratch) -> Self {
        let (kept, kubeconfig) = (scratch.join("kept"), scratch.join("kubeconfig"));
        let [kept, kubeconfig] = [kept, kubeconfig].map(|path| path.to_string_lossy().into_owned());
        let root = env!("CARGO_MANIFEST_DIR");
        let screen = Screen::start(&["--root", root, "--persist", &kept, "--kubeconfig-out", &kubeconfig]);
        let line = screen.line(CONTAINERS);
        let rest = Http::new(line.trim().trim_end_matches(CONTAINERS));
        screen.line("Status events");
        let config: Value = serde_json::from_str(&fs::read_to_string(kubeconfig).unwrap()).unwrap();
        let server = config.pointer("/clusters/0/cluster/server").unwrap().as_str().unwrap();
        Self { screen, rest, cluster: Http::new(server) }
    }

    async fn create(&self, id: &str) {
        let made = self.rest.post(&format!("{CONTAINERS}?id={id}"), &container("x:1")).await.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
    }

    /// GET of an instance, once the provider has read its cluster.
    async fn read(&self, id: &str) -> Value {
        let there = async || {
            let answer = self.rest.get(&format!("{CONTAINERS}/{id}")).await.unwrap();
            (answer.status == 200).then(|| answer.json())
        };
        eventually(&format!("{id} is there"), secs(60), there).await.unwrap()
    }

    async fn version(&self) -> u64 {
        let pods = self.cluster.get("/api/v1/pods").await.unwrap().json();
        pods["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }
}

fn event(id: &str, status: &str) -> String {
    format!("\"id\":\"{id}\",\"status\":\"{status}\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dev_holds_is_there_after_an_end_and_after_a_kill() {
    let scratch = Scratch::new("persist").unwrap();
    let first = Play::start(&scratch);
    first.create("one").await;
    first.screen.line(&event("one", "RUNNING"));
    let (one, version) = (first.read("one").await, first.version().await);
    first.screen.end("-TERM");

    let second = Play::start(&scratch);
    assert_eq!(second.read("one").await, one);
    let later = second.version().await;
    assert!(later > version, "{later} after {version}");
    let old = second.cluster.get(&format!("/api/v1/pods?watch=1&resourceVersion={version}")).await.unwrap();
    assert!(old.text().contains("too old resource version"), "{}", old.text());
    second.create("two").await;
    let said = second.screen.lines(&event("two", "RUNNING"));
    assert!(!said.iter().any(|line| line.contains("\"one\"")), "it was said before: {said:?}");
    // A file is written soon after a change; then nothing depends on how the process ends.
    let kept = scratch.join("kept/cluster.jsonl");
    let written = async || {
        let text = fs::read_to_string(&kept).unwrap();
        let pods = text.lines().filter(|line| line.contains("\"storage\":\"pods\""));
        (pods.filter(|line| line.contains("\"phase\":\"Running\"")).count() == 2).then_some(())
    };
    eventually("both pods are kept as running", secs(60), written).await.unwrap();
    second.screen.end("-KILL");

    let third = Play::start(&scratch);
    assert_eq!(third.read("one").await, one);
    assert_eq!(third.read("two").await["status"], "RUNNING");
    assert_eq!(third.rest.delete(&format!("{CONTAINERS}/one")).await.unwrap().status, 204);
    third.screen.line(&event("one", "DELETED"));
    let kept = scratch.join("kept").to_string_lossy().into_owned();
    let other = run(&["dev", "--root", env!("CARGO_MANIFEST_DIR"), "--persist", &kept]);
    assert_eq!(other.code, 1, "{other}");
    assert!(other.err.contains("another process keeps its cluster in"), "{other}");
}

#[test]
fn a_kept_file_that_is_damaged_is_named_and_left_alone() {
    let scratch = Scratch::new("damaged").unwrap();
    let file =
        scratch.write("cluster.jsonl", "{\"format\":\"mapwright-sandbox/v1\",\"version\":7}\n{\n").unwrap();
    let folder = file.parent().unwrap().to_string_lossy().into_owned();
    let told = run(&["dev", "--root", env!("CARGO_MANIFEST_DIR"), "--persist", &folder]);
    assert_eq!(told.code, 1, "{told}");
    assert!(told.err.contains("cluster.jsonl:2: ") && told.err.contains("another --persist"), "{told}");
    assert!(fs::read_to_string(file).unwrap().ends_with("{\n"));
}
