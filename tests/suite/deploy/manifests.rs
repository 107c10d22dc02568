//! Kustomize and Helm render the same objects, and a cluster that enforces "restricted" takes them.

use std::collections::BTreeMap;
use std::process::Command;

use mapwright_testbed::ground::{has_servers, is_sandbox};
use mapwright_testbed::{Binaries, ControlPlane, Kind, Objects, Setup, eventually, secs};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::super::offline::{Folder, mapping_files, mapwright, text};
use super::super::source::root;

/// The documents of a YAML stream by kind and name.
fn documents(stream: &str) -> BTreeMap<(String, String), Value> {
    let documents =
        serde_yaml::Deserializer::from_str(stream).map(|document| Value::deserialize(document).unwrap());
    documents
        .filter(|document| !document.is_null())
        .map(|document| {
            let name = document["metadata"]["name"].as_str().unwrap().to_owned();
            ((document["kind"].as_str().unwrap().to_owned(), name), document)
        })
        .collect()
}

fn kustomized() -> String {
    let kubectl = Binaries::find().unwrap().kubectl;
    let rendered =
        Command::new(kubectl).arg("kustomize").arg(root().join("deploy/kustomize")).output().unwrap();
    assert!(rendered.status.success(), "{}", text(&rendered.stderr));
    text(&rendered.stdout)
}

fn helmed(arguments: &[&str]) -> Option<String> {
    let mut helm = Command::new(super::helm()?);
    helm.args(["template", "mapwright"])
        .arg(root().join("deploy/helm/mapwright"))
        .args(["--namespace", "dcm"]);
    let rendered = helm.args(arguments).output().unwrap();
    assert!(rendered.status.success(), "{}", text(&rendered.stderr));
    Some(text(&rendered.stdout))
}

/// Takes out what only one of the two knows: labels of the tool, hashes, and the namespace that Helm leaves to
/// whoever applies.
fn plain(mut document: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for gone in
                    ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "checksum/settings"]
                {
                    members.shift_remove(gone);
                }
                members.values_mut().for_each(strip);
                let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
                members.retain(|key, value| key != "annotations" || !is_empty(value));
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::String(text) if text.starts_with("mapwright-settings") => {
                *text = "mapwright-settings".to_owned()
            }
            _ => {}
        }
    }
    strip(&mut document);
    document["metadata"].as_object_mut().unwrap().retain(|key, _| key == "name");
    document
}

fn all(stream: &str) -> BTreeMap<(String, String), Value> {
    let documents = documents(stream).into_values().map(plain);
    documents
        .map(|document| {
            let name = document["metadata"]["name"].as_str().unwrap().to_owned();
            ((document["kind"].as_str().unwrap().to_owned(), name), document)
        })
        .collect()
}

#[test]
fn kustomize_helm_and_rbac_agree() {
    if !has_servers() {
        return;
    }
    let kustomized = all(&kustomized());
    let printed = all(&text(&mapwright(&["rbac", "--namespace", "dcm"]).stdout));
    for (name, role) in &printed {
        assert_eq!(kustomized.get(name), Some(role), "{name:?}");
        for rule in role["rules"].as_array().unwrap() {
            let rule = rule.to_string();
            assert!(!rule.contains('*') && !rule.contains("secrets"), "{rule}");
        }
    }
    // A file of a mapping that no item names would not be there.
    let deployment = &kustomized[&("Deployment".to_owned(), "mapwright".to_owned())];
    let items =
        deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"].as_array().unwrap();
    let mut placed: Vec<&str> = items.iter().map(|item| item["path"].as_str().unwrap()).collect();
    placed.sort_unstable();
    let mut shipped: Vec<String> = mapping_files().into_iter().map(|file| file.name).collect();
    shipped.sort();
    assert_eq!(placed, shipped);
    let Some(helmed) = helmed(&[]) else { return };
    let helmed = all(&helmed);
    assert_eq!(helmed.keys().collect::<Vec<_>>(), kustomized.keys().collect::<Vec<_>>());
    for (name, document) in &kustomized {
        assert_eq!(helmed.get(name), Some(document), "{name:?}");
    }
}

/// A control plane of its own: what is applied has names of its own choosing, some for the whole cluster.
async fn restricted() -> (ControlPlane, Objects) {
    let plane = ControlPlane::start_with(Setup::default()).await.unwrap();
    let cluster = Objects::cluster(plane.client().await.unwrap());
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let namespace = json!({ "metadata": { "name": "dcm", "labels": labels } });
    cluster.create(&Kind::NAMESPACE, namespace).await.unwrap();
    let objects = Objects::new(plane.client().await.unwrap(), "dcm".to_owned());
    (plane, objects)
}

#[tokio::test]
async fn a_cluster_that_enforces_restricted_takes_every_object_and_makes_both_pods() {
    if is_sandbox() {
        return;
    }
    let (plane, objects) = restricted().await;
    let folder = Folder::new("deploy");
    let streams = [("helm", helmed(&["--set", "replicas=3"])), ("kustomize", Some(kustomized()))];
    for (tool, stream) in streams {
        let Some(stream) = stream else { continue };
        let file = folder.write(&format!("{tool}.yaml"), &stream);
        let file = file.to_str().unwrap();
        let applied = plane
            .kubectl(&["apply", "--server-side", "--dry-run=server", "-n", "dcm", "-f", file])
            .await
            .unwrap();
        assert!(applied.status.success(), "{tool}: {}", text(&applied.stderr));
        let warned = text(&applied.stderr);
        assert!(!warned.contains("Warning"), "{tool}: {warned}");
    }
    let file = folder.0.join("kustomize.yaml");
    let applied = plane.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let pods = async || {
        let pods = objects.list(&Kind::POD, "").await.ok()?;
        (pods.len() == 2).then_some(pods)
    };
    let pods = eventually("the controller makes two pods", secs(60), pods).await.unwrap();
    assert_eq!(pods[0]["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);

    // The namespace does refuse what is not restricted.
    let mut loose = pods[0].clone();
    loose["metadata"] = json!({ "name": "loose" });
    loose["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
    let refused = objects.create(&Kind::POD, loose).await.unwrap_err().to_string();
    assert!(refused.contains("allowPrivilegeEscalation"), "{refused}");
    let budget = plane
        .kubectl(&["get", "pdb,networkpolicy,service,configmap", "-n", "dcm", "-o", "name"])
        .await
        .unwrap();
    for name in [
        "poddisruptionbudget.policy/mapwright",
        "networkpolicy.networking.k8s.io/mapwright",
        "service/mapwright",
        "configmap/mapwright-mappings",
    ] {
        assert!(text(&budget.stdout).contains(name), "{}", text(&budget.stdout));
    }
}

#[test]
fn every_setting_of_a_deployment_is_one_that_the_program_reads() {
    let values: Value =
        serde_yaml::from_str(&super::super::source::text("deploy/helm/mapwright/values.yaml")).unwrap();
    let declared = super::super::docs::declared_by_mappings();
    let mut environment: BTreeMap<String, String> = values["settings"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    for name in environment.keys() {
        let known = mapwright::settings::SETTINGS.iter().any(|setting| setting.env == name)
            || declared.iter().any(|setting| setting.env == *name);
        assert!(known, "{name}");
    }
    environment.insert("SP_K8S_NAMESPACE".to_owned(), "dcm".to_owned());
    let sources = mapwright::settings::Sources {
        environment: &|name| environment.get(name).cloned(),
        file: None,
        service_types: &["container".to_owned(), "storage".to_owned()],
        declared: &declared,
        complete: true,
    };
    let read = mapwright::settings::Settings::read(&sources);
    assert!(read.is_ok(), "{}", read.unwrap_err());
    assert!(super::super::docs::declared_by_mappings().len() > 1);
}
