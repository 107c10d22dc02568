//! The Role that `rbac` prints is enough for a provider, and nothing in it is too much.

use mapwright_testbed::ground::is_sandbox;
use mapwright_testbed::{Kind, Launch, Objects, Provider, Shared, eventually, secs};
use serde_json::{Value, json};

use super::offline::{container, mapwright, text};

/// Binds what `rbac` printed to the user without rights of his own.
pub(crate) async fn allow(shared: &Shared, namespace: &str, roles: &str) {
    let file = std::env::temp_dir().join(format!("mapwright-roles-{namespace}.yaml"));
    std::fs::write(&file, roles).unwrap();
    let applied = shared.control_plane.kubectl(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    std::fs::remove_file(&file).unwrap();
    for (kind, role, name) in
        [("rolebinding", "--role", "mapwright"), ("clusterrolebinding", "--clusterrole", namespace)]
    {
        let name = if kind == "rolebinding" { name.to_owned() } else { format!("mapwright-{name}") };
        let role = format!("{role}={name}");
        let mut arguments = vec!["create", kind, &name, &role, "--user=limited"];
        if kind == "rolebinding" {
            arguments.extend(["-n", namespace]);
        }
        let bound = shared.control_plane.kubectl(&arguments).await.unwrap();
        assert!(bound.status.success(), "{}", text(&bound.stderr));
    }
}

async fn limited(shared: &Shared, namespace: &str, types: &[&str]) -> Provider {
    let plane = &shared.control_plane;
    let kubeconfig = plane.kubeconfig_for("limited", &plane.url()).unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, namespace).unwrap();
    launch.cluster(&kubeconfig, namespace).types(types).start().await.unwrap()
}

#[tokio::test]
async fn a_provider_with_exactly_that_role_creates_lists_patches_and_deletes() {
    // On the sandbox everybody may do everything.
    if is_sandbox() {
        return;
    }
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects("rights").await.unwrap();
    let namespace = objects.namespace().to_owned();
    let printed = mapwright(&["rbac", "container", "storage", "--namespace", &namespace]);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    allow(shared, &namespace, &text(&printed.stdout)).await;
    let class = format!("grows-{namespace}");
    let cluster = Objects::cluster(objects.client().clone());
    let storage_class = json!({ "metadata": { "name": class }, "provisioner": "example.org/none", "allowVolumeExpansion": true });
    cluster.create(&Kind::STORAGE_CLASS, storage_class).await.unwrap();
    let provider = limited(shared, &namespace, &["container", "storage"]).await;
    let http = provider.http();
    let api = |path: &str| format!("/api/v1alpha1/{path}");

    let created = http.post(&api("containers?id=web"), &container()).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let volume = json!({ "service_type": "storage", "capacity": "1Gi", "metadata": { "name": "data" },
        "provider_hints": { "kubernetes": { "storage_class": class } } });
    let created = http.post(&api("volumes?id=data"), &volume).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let listed = http.get(&api("containers")).await.unwrap();
    assert_eq!(listed.json()["containers"].as_array().unwrap().len(), 1);

    let claim = objects.get(&Kind::CLAIM, "data").await.unwrap().unwrap();
    bind(&objects, &cluster, &claim, &class).await;
    let larger = json!({ "capacity": "2Gi" });
    let patched = eventually("the volume grows", secs(20), async || {
        let answer = http.patch(&api("volumes/data"), &larger).await.unwrap();
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(patched.await.unwrap().json()["spec"]["capacity"], "2Gi");
    for path in ["containers/web", "volumes/data"] {
        let deleted = http.delete(&api(path)).await.unwrap();
        assert_eq!(deleted.status, 204, "{}", deleted.text());
    }
    assert!(!provider.log().contains("cannot"), "{}", provider.log());
    cluster.delete(&Kind::STORAGE_CLASS, &class).await.unwrap();
}

/// A volume of the class, bound to the claim: only a bound one grows.
async fn bind(objects: &Objects, cluster: &Objects, claim: &Value, class: &str) {
    let name = format!("volume-{}", objects.namespace());
    let reference =
        json!({ "namespace": objects.namespace(), "name": "data", "uid": claim["metadata"]["uid"] });
    let volume = json!({ "metadata": { "name": name }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "hostPath": { "path": "/nowhere" }, "claimRef": reference,
    } });
    cluster.create(&Kind::VOLUME, volume).await.unwrap();
}

#[test]
fn each_verb_names_the_line_that_needs_it_and_an_unknown_type_is_an_error() {
    let printed = text(&mapwright(&["rbac", "storage", "--namespace", "dcm", "--name", "volumes"]).stdout);
    assert!(printed.starts_with(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: \"volumes\"\n  namespace: \"dcm\"\n"
    ));
    let claims = "  - apiGroups: [\"\"]\n    resources: [\"persistentvolumeclaims\"]\n    verbs:\n      - create # mappings/storage/mapping.toml:";
    assert!(printed.contains(claims), "{printed}");
    assert!(
        printed
            .contains("      - patch # mappings/storage/claim-resize.yaml:1: patches the object `claim`\n")
    );
    let (_, cluster) = printed.split_once("---\n").unwrap();
    assert!(cluster.contains("kind: ClusterRole\nmetadata:\n  name: \"volumes-dcm\"\nrules:\n"));
    assert!(cluster.contains(
        "resources: [\"storageclasses\"]\n    verbs:\n      - get # mappings/storage/mapping.toml:"
    ));
    assert!(cluster.contains("resources: [\"namespaces\"]\n    resourceNames: [\"dcm\"]\n"));
    assert!(!cluster.contains("create") && !cluster.contains("delete"), "{cluster}");
    assert_eq!(mapwright(&["rbac", "voluem"]).status.code(), Some(2));
}
