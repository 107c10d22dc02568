//! The Role that `rbac` prints is enough for a provider, and nothing in it is too much.

use futures::{StreamExt as _, stream};
use mapwright_testbed::ground::is_sandbox;
use mapwright_testbed::{
    ControlPlane, Http, Kind, Launch, Objects, Provider, Setup, Shared, eventually, secs,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::offline::{container, mapwright, text};

/// Binds what `rbac` printed to a user without rights of his own.
pub(crate) async fn allow(plane: &ControlPlane, user: &str, namespace: &str, roles: &str) {
    let file = std::env::temp_dir().join(format!("mapwright-roles-{namespace}.yaml"));
    std::fs::write(&file, roles).unwrap();
    let applied = plane.kubectl(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    std::fs::remove_file(&file).unwrap();
    for (kind, role, name) in
        [("rolebinding", "--role", "mapwright"), ("clusterrolebinding", "--clusterrole", namespace)]
    {
        let name = if kind == "rolebinding" { name.to_owned() } else { format!("mapwright-{name}") };
        let (role, user) = (format!("{role}={name}"), format!("--user={user}"));
        let mut arguments = vec!["create", kind, &name, &role, &user];
        if kind == "rolebinding" {
            arguments.extend(["-n", namespace]);
        }
        let bound = plane.kubectl(&arguments).await.unwrap();
        assert!(bound.status.success(), "{}", text(&bound.stderr));
    }
}

async fn limited(shared: &Shared, plane: &ControlPlane, user: &str, namespace: &str) -> Provider {
    let kubeconfig = plane.kubeconfig_for(user, &plane.url()).unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, namespace).unwrap();
    launch
        .cluster(&kubeconfig, namespace)
        .types(&["container", "storage"])
        // Where lists are streamed, none is asked for; a server that cannot do so needs the verb.
        .env("SP_K8S_STREAMING_LISTS", "false")
        .start()
        .await
        .unwrap()
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
    allow(&shared.control_plane, "limited", &namespace, &text(&printed.stdout)).await;
    let class = format!("grows-{namespace}");
    let cluster = Objects::cluster(objects.client().clone());
    let storage_class = json!({ "metadata": { "name": class }, "provisioner": "example.org/none", "allowVolumeExpansion": true });
    cluster.create(&Kind::STORAGE_CLASS, storage_class).await.unwrap();
    let provider = limited(shared, &shared.control_plane, "limited", &namespace).await;
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

/// A verb on a resource, as health writes it, and the roles without it.
fn each_left_out(roles: &[Value]) -> Vec<(String, Vec<Value>)> {
    let mut left_out = Vec::new();
    for (at, role) in roles.iter().enumerate() {
        for (rule_at, rule) in role["rules"].as_array().unwrap().iter().enumerate() {
            for (verb_at, verb) in rule["verbs"].as_array().unwrap().iter().enumerate() {
                let mut others = roles.to_vec();
                let rules = others[at]["rules"].as_array_mut().unwrap();
                rules[rule_at]["verbs"].as_array_mut().unwrap().remove(verb_at);
                // A rule without a verb is none.
                rules.retain(|rule| rule["verbs"] != json!([]));
                let (group, resource) =
                    (rule["apiGroups"][0].as_str().unwrap(), rule["resources"][0].as_str().unwrap());
                let dot = if group.is_empty() { "" } else { "." };
                left_out.push((format!("{} {resource}{dot}{group}", verb.as_str().unwrap()), others));
            }
        }
    }
    left_out
}

/// Everything that a provider does with its rights, whatever comes of it.
async fn do_everything(provider: &Provider, objects: &Objects, class: &str) {
    let http = Http::new(provider.base_url());
    let api = |path: &str| format!("/api/v1alpha1/{path}");
    let ready = async || (http.get("/readyz").await.ok()?.status == 200).then_some(());
    // Without a right to watch, it never is; what needs no watch happens all the same.
    let _ = eventually("it is ready", secs(3), ready).await;
    let volume = |name: &str| {
        json!({ "service_type": "storage", "capacity": "1Gi", "metadata": { "name": name },
            "provider_hints": { "kubernetes": { "storage_class": class } } })
    };
    // A name that is taken in the cluster: what was begun is taken back.
    let taken = json!({ "metadata": { "name": "taken" }, "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } });
    let _ = objects.create(&Kind::CLAIM, taken).await;
    let _ = http.get(&api("volumes/nobody")).await;
    let _ = http.post(&api("volumes?id=taken"), &volume("taken")).await;
    let _ = http.post(&api("containers?id=web"), &container()).await;
    let _ = http.post(&api("volumes?id=data"), &volume("data")).await;
    if let Ok(Some(claim)) = objects.get(&Kind::CLAIM, "data").await {
        bind(objects, &Objects::cluster(objects.client().clone()), &claim, class).await;
        let larger = json!({ "capacity": "2Gi" });
        let grows = async || {
            let status = http.patch(&api("volumes/data"), &larger).await.ok()?.status;
            // The claim is bound when the controller says so.
            (status != 409 && status != 422).then_some(())
        };
        let _ = eventually("the volume is asked to grow", secs(6), grows).await;
    }
    for path in ["containers/web", "volumes/data"] {
        let _ = http.delete(&api(path)).await;
    }
}

/// What health and the log say of the right that is missing.
async fn names_what_is_missing(
    shared: &Shared,
    plane: &ControlPlane,
    number: usize,
    right: &str,
    roles: &[Value],
    class: &str,
) -> Result<(), String> {
    let client = plane.client().await.unwrap();
    let namespace =
        mapwright_testbed::shared::namespace(&client, &format!("without-{number}")).await.unwrap();
    let objects = Objects::new(client, namespace.clone());
    let roles: Vec<String> =
        roles.iter().map(|role| role.to_string().replace("NAMESPACE", &namespace)).collect();
    let user = format!("limited-{number}");
    allow(plane, &user, &namespace, &roles.join("\n---\n")).await;
    let provider = limited(shared, plane, &user, &namespace).await;
    do_everything(&provider, &objects, class).await;
    let wanted = format!("the cluster does not allow `{right}`; bind what `mapwright rbac` prints");
    let health = async || {
        let health = Http::new(provider.base_url()).get("/api/v1alpha1/containers/health").await.ok()?.json();
        health["details"].as_array()?.iter().any(|fault| *fault == *wanted).then_some(())
    };
    if eventually("health names the right", secs(30), health).await.is_err() {
        let health = Http::new(provider.base_url()).get("/health").await.unwrap().text();
        return Err(format!("without `{right}` health says {health}; the log:\n{}", provider.log()));
    }
    let (verb, resource) = right.split_once(' ').unwrap();
    let resource = resource.split('.').next().unwrap();
    let told = provider.log().lines().any(|line| {
        line.contains("the cluster does not allow this")
            && line.contains(&format!("\"verb\":\"{verb}\""))
            && line.contains(&format!("\"resource\":\"{resource}\""))
    });
    if told { Ok(()) } else { Err(format!("without `{right}` the log says nothing:\n{}", provider.log())) }
}

#[tokio::test]
async fn without_any_one_verb_health_and_log_name_the_verb_and_the_resource() {
    if is_sandbox() {
        return;
    }
    let shared = Shared::get().await.unwrap();
    let printed = text(&mapwright(&["rbac", "--namespace", "NAMESPACE"]).stdout);
    let roles: Vec<Value> =
        serde_yaml::Deserializer::from_str(&printed).map(|role| Value::deserialize(role).unwrap()).collect();
    // A user each: what is bound for the whole cluster would help the others.
    let users = (0..60).map(|number| format!("limited-{number}")).collect();
    let plane = &ControlPlane::start_with(Setup { users, ..Setup::default() }).await.unwrap();
    let cluster = Objects::cluster(plane.client().await.unwrap());
    let class = format!("grows-without-{}", std::process::id());
    let storage_class = json!({ "metadata": { "name": class }, "provisioner": "example.org/none", "allowVolumeExpansion": true });
    cluster.create(&Kind::STORAGE_CLASS, storage_class).await.unwrap();
    let left_out = each_left_out(&roles);
    assert!(left_out.len() > 25, "{left_out:?}");
    let class = &class;
    let tried = stream::iter(left_out.iter().enumerate())
        .map(async |(number, (right, roles))| {
            names_what_is_missing(shared, plane, number, right, roles, class).await
        })
        .buffer_unordered(4);
    let complaints: Vec<String> = tried.filter_map(async |tried| tried.err()).collect().await;
    cluster.delete(&Kind::STORAGE_CLASS, class).await.unwrap();
    crate::source::no_complaints(complaints);
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
