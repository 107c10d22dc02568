//! What `render` writes, kubectl reads back as it was sent: every string that breaks template engines.

use std::process::Stdio;

use mapwright::engine::samples::HOSTILE;
use mapwright_testbed::Shared;
use mapwright_testbed::ground::has_servers;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::offline::{Folder, container, mapwright, path, text};

fn hard_strings() -> Vec<String> {
    let long = "a long line, a # sign and a: colon \u{e9}\n".repeat(2_500);
    HOSTILE.iter().map(|text| (*text).to_owned()).chain([long]).collect()
}

#[tokio::test]
async fn every_string_arrives_in_the_cluster_as_it_was_sent() {
    if !has_servers() {
        return;
    }
    let shared = Shared::get().await.unwrap();
    let namespace = shared.namespace("render").await.unwrap();
    let strings = hard_strings();
    let mut spec = container();
    let env =
        strings.iter().enumerate().map(|(at, value)| json!({ "name": format!("V{at}"), "value": value }));
    spec["process"] = json!({ "args": strings, "command": ["yes"], "env": env.collect::<Vec<Value>>() });
    spec["metadata"]["labels"] = json!({ "on": "yes", "n": "1e3", "a.b/true": "0x1f", "z": "" });
    let folder = Folder::new("render");
    let file = folder.write("spec.json", &spec.to_string());
    let rendered = mapwright(&["render", "container", path(&file), "--namespace", &namespace]);
    assert_eq!(rendered.status.code(), Some(0), "{}", text(&rendered.stderr));

    let made = create(shared, &rendered.stdout).await;
    let deployment = made.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], spec["process"]["args"]);
    assert_eq!(container["command"], spec["process"]["command"]);
    for (sent, found) in
        spec["process"]["env"].as_array().unwrap().iter().zip(container["env"].as_array().unwrap())
    {
        // An empty value is the same as none to Kubernetes.
        let value = found.get("value").cloned().unwrap_or_else(|| "".into());
        assert_eq!((&sent["name"], &sent["value"]), (&found["name"], &value));
    }
    for (key, value) in spec["metadata"]["labels"].as_object().unwrap() {
        assert_eq!(&deployment["metadata"]["labels"][key], value);
    }
    assert_eq!(made.len(), 2);
}

/// What the API server would store, as kubectl prints it.
async fn create(shared: &Shared, documents: &[u8]) -> Vec<Value> {
    let mut kubectl = tokio::process::Command::new(&shared.control_plane.binaries().unwrap().kubectl);
    kubectl
        .env("KUBECONFIG", shared.kubeconfig())
        .args(["create", "--dry-run=server", "-f", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = kubectl.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(documents).await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let objects: Vec<Value> = objects.map(Result::unwrap).collect();
    objects
        .into_iter()
        .flat_map(|object| match object["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![object],
        })
        .collect()
}
