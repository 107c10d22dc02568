//! What SECURITY.md promises and no other test holds: links of mappings, secrets, what no manifest may ask for.

use std::os::unix::fs::symlink;

use mapwright_testbed::process::free_port;
use mapwright_testbed::registry::Scripted;
use mapwright_testbed::{Registry, eventually};
use serde_json::{Value, json};

use super::dcm::{CONTAINERS, Dcm, SOON, VOLUMES, web, with};
use super::offline::{Folder, mapping_files, mapwright, text};
use super::source::{files, no_complaints};

/// What `check` says of a root, and how it ends.
fn check(folder: &Folder) -> (Option<i32>, String) {
    let checked = mapwright(&["check", folder.0.to_str().unwrap()]);
    (checked.status.code(), text(&checked.stderr))
}

#[test]
fn a_link_of_a_mapping_leads_nowhere_out_of_its_root_and_not_in_a_circle() {
    let folder = Folder::new("links").with_mappings();
    let secret = Folder::new("links-secret");
    let target = secret.write("secret.yaml", "password: hunter2\n");
    let link = folder.0.join("mappings/container/secret.yaml");
    symlink(&target, &link).unwrap();
    let (code, told) = check(&folder);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("mappings/container/secret.yaml: it leads out of "), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    std::fs::remove_file(&link).unwrap();

    let folder_link = folder.0.join("mappings/container/elsewhere");
    symlink(&secret.0, &folder_link).unwrap();
    assert!(check(&folder).1.contains("it leads out of "));
    std::fs::remove_file(&folder_link).unwrap();

    symlink("..", &folder_link).unwrap();
    assert!(check(&folder).1.contains("it leads back to a folder that holds it"));
    std::fs::remove_file(&folder_link).unwrap();

    // A ConfigMap's files are links too, and lead to its own folder.
    std::fs::create_dir(folder.0.join("..data")).unwrap();
    std::fs::rename(folder.0.join("mappings"), folder.0.join("..data/mappings")).unwrap();
    symlink("..data/mappings", folder.0.join("mappings")).unwrap();
    let (code, told) = check(&folder);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_mapping_names_no_file_outside_its_folder() {
    let folder = Folder::new("paths").with_mappings();
    for path in ["../../../../etc/hostname", "/etc/hostname", "../../secret.yaml"] {
        let file = "mappings/container/mapping.toml";
        folder.change(file, "\"view.yaml\"", &format!("{path:?}"));
        let (code, told) = check(&folder);
        assert_eq!(code, Some(1), "{path}: {told}");
        assert!(told.contains("error["), "{path}: {told}");
        folder.change(file, &format!("{path:?}"), "\"view.yaml\"");
    }
}

const PASSWORD: &str = "hunter2-of-nats";
const VALUE: &str = "hunter2-of-a-process";

#[tokio::test]
async fn no_secret_stands_in_a_log_an_event_health_or_a_figure() {
    let dcm = Dcm::start_with("secrets", |launch| {
        launch
            .env("RUST_LOG", "trace,h2=off,mio=off")
            .env("SP_NATS_USER", "provider")
            .env("SP_NATS_PASSWORD", PASSWORD)
    })
    .await;
    let process = json!({ "env": [{ "name": "PASSWORD", "value": VALUE }] });
    dcm.container("one", with(web(), "/process", process.clone())).await;
    dcm.says(CONTAINERS, "one", "PENDING", &[]).await;
    // Refused, with a value beside the fault.
    let wrong = with(with(web(), "/process", process), "/image", json!({ "reference": 1 }));
    let refused = dcm.post(&format!("{CONTAINERS}?id=two"), &json!({ "spec": wrong })).await;
    assert_eq!(refused.status, 400);
    assert!(!refused.text().contains(VALUE), "{}", refused.text());
    let mut shown = vec![("log", dcm.provider.log())];
    for path in ["/health", "/metrics", "/readyz"] {
        shown.push((path, dcm.get(path).await.text()));
    }
    shown.push(("events", json!(dcm.events.of("one")).to_string()));
    for (place, text) in shown {
        assert!(text.len() > 10, "{place} is empty");
        for secret in [PASSWORD, VALUE] {
            let line = text.lines().find(|line| line.contains(secret));
            assert!(line.is_none(), "{place} holds {secret}: {}", line.unwrap());
        }
    }
}

#[test]
fn no_file_of_the_repository_holds_a_key() {
    let mark = ["-----BEGIN", "PRIVATE KEY-----"];
    let mut complaints = Vec::new();
    let mut count = 0;
    for folder in ["docs", "deploy", "mappings", "schemas", "testdata", "sandbox", "src", "tests"] {
        for file in [".json", ".yaml", ".toml", ".md", ".txt", ".pem", ".rs"]
            .iter()
            .flat_map(|end| files(folder, end))
        {
            count += 1;
            let found = file
                .text
                .lines()
                .any(|line| line.trim_start().starts_with(mark[0]) && line.contains(mark[1]));
            complaints.extend(found.then(|| format!("{} holds a private key", file.name)));
        }
    }
    no_complaints(complaints);
    assert!(count > 200, "only {count} files were looked at");
}

/// What gives a pod a part of its node. Whoever wants one lists what may be asked for, and the test of that.
const OF_THE_NODE: [&str; 8] =
    ["hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "privileged", "procMount", "hostUsers"];
const ALLOWED: [(&str, &str); 0] = [];

#[test]
fn no_template_gives_a_pod_a_part_of_its_node() {
    let mut complaints = Vec::new();
    for file in mapping_files().iter().filter(|file| file.name.starts_with("mappings/")) {
        for word in OF_THE_NODE {
            let asks = file
                .text
                .lines()
                .any(|line| line.trim_start().trim_start_matches("- ").starts_with(&format!("{word}:")));
            if asks && !ALLOWED.contains(&(file.name.as_str(), word)) {
                complaints.push(format!("{} writes {word}", file.name));
            }
        }
    }
    no_complaints(complaints);
}

#[tokio::test]
async fn an_id_of_one_type_means_nothing_to_another() {
    let dcm = Dcm::start("types-apart").await;
    dcm.container("one", web()).await;
    assert_eq!(dcm.get(&format!("{VOLUMES}/one")).await.status, 404);
    assert_eq!(dcm.delete(VOLUMES, "one").await.status, 404);
    assert_eq!(dcm.get(&format!("{CONTAINERS}/one")).await.status, 200);
}

#[tokio::test]
async fn a_collector_that_redirects_is_not_followed() {
    let (collector, elsewhere) = (Registry::start().await.unwrap(), Registry::start().await.unwrap());
    collector.otherwise(Scripted::status(307).header("location", &elsewhere.url()));
    let base = collector.url().trim_end_matches("/api/v1alpha1").to_owned();
    let dcm = Dcm::start_with("traces-redirect", |launch| launch.env("SP_TRACES_URL", &base)).await;
    dcm.get(CONTAINERS).await;
    let told = async || dcm.provider.log().contains("the collector answered 307").then_some(());
    eventually("the log says so", SOON, told).await.unwrap();
    assert_eq!(elsewhere.requests().len(), 0);
}

/// Addresses of a request's body are texts in manifests; nothing of them is ever called.
#[tokio::test]
async fn an_address_in_a_spec_is_never_called() {
    let listener = Registry::start_at(free_port().unwrap()).await.unwrap();
    let dcm = Dcm::start("addresses").await;
    let address = listener.url();
    let spec = with(web(), "/image/reference", Value::from(address.trim_start_matches("http://")));
    let spec = with(spec, "/process", json!({ "env": [{ "name": "URL", "value": address }] }));
    dcm.container("one", spec).await;
    dcm.says(CONTAINERS, "one", "PENDING", &[]).await;
    assert_eq!(listener.requests().len(), 0);
}
