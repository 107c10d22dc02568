//! Kubernetes' types as data: the real server's own, and what is checked and begun with them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use mapwright::cluster::{Cluster, ConnectOptions, RefusalKind, Resource, ResourceRef};
use mapwright::engine::diagnostic::Findings;
use mapwright::engine::kinds::Kinds;
use mapwright::engine::prove::{prove, rendered};
use mapwright::engine::service::{Files, KindRef, Service};
use mapwright::engine::starter::starter;
use mapwright::files::MappingRoot;
use mapwright::kinds;
use mapwright_testbed::openapi::Types;
use mapwright_testbed::shared::Shared;

const PACK: &str = "schemas/kubernetes/types.pack";

#[tokio::test]
async fn the_embedded_types_are_those_of_the_real_server() {
    let shared = Shared::get().await.unwrap();
    let served = Types::of(&shared.client().await.unwrap()).await.unwrap();
    let embedded = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(PACK)).unwrap();
    assert_eq!(kinds::embedded().version(), Some(served.version.as_str()));
    assert!(
        served.pack() == embedded,
        "{PACK} differs from what the server says; write it anew: cargo run --bin testbed -- openapi {PACK}"
    );
}

#[test]
fn every_embedded_kind_has_a_schema_that_finds_faults() {
    let kinds = kinds::embedded();
    let mut seen = 0;
    for (kind, row) in kinds.iter() {
        assert!(!row.plural.is_empty(), "{kind}");
        let object =
            serde_json::json!({ "apiVersion": kind.api_version, "kind": kind.kind, "noSuchField": 1 });
        let faults = kinds.faults(kind, &object);
        assert!(faults.iter().any(|fault| fault.place == "/noSuchField"), "{kind}: {faults:?}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn the_shipped_mappings_are_proven_on_many_specs() {
    let files = shipped();
    for name in shipped_types() {
        let service = load(&files, &name, kinds::embedded());
        let proof = prove(&service, &files, kinds::embedded());
        assert!(proof.findings.is_empty(), "{}", proof.findings);
        assert!(proof.rendered >= 100, "{name}: only {} specs were rendered", proof.rendered);
    }
}

/// The proof would be worth little if the API server refused what it lets through.
#[tokio::test]
async fn what_the_proof_renders_the_real_server_takes() {
    let (cluster, namespace) = fixture("proven").await;
    let files = shipped();
    let mut refused = Vec::new();
    for name in shipped_types() {
        let service = load(&files, &name, kinds::embedded());
        for (spec, manifests) in rendered(&service, &files, kinds::embedded()) {
            for manifest in manifests {
                let mut body = manifest.body;
                body["metadata"]["namespace"] = namespace.as_str().into();
                let resource = resource(&cluster, &manifest.kind).await;
                match cluster.dry_run_create(&resource, &namespace, &body).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.kind == RefusalKind::AlreadyExists => {}
                    Err(refusal) => {
                        refused.push(format!("{name}: {refusal:?}\n    {}", clip(&spec.to_string())))
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "{} objects are refused:\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn a_new_mapping_of_any_kind_passes_check() {
    let kinds = kinds::embedded();
    let mut seen = 0;
    for (kind, row) in kinds.iter().filter(|(_, row)| row.namespaced) {
        let able = |verb: &str| row.verbs.iter().any(|known| known == verb);
        let name = format!("{}/{}", kind.api_version, kind.kind);
        let begun = starter("thing", &name, kinds);
        if !able("create") || !able("watch") {
            assert!(begun.unwrap_err().contains("cannot be made and watched"), "{name}");
            continue;
        }
        let files = begun.unwrap();
        let service = load(&files, "thing", kinds);
        // Compiling a schema takes long without optimisation; these groups hold the most different kinds.
        if ["v1", "batch/v1", "networking.k8s.io/v1"].contains(&kind.api_version.as_str()) {
            let proof = prove(&service, &files, kinds);
            assert!(proof.findings.is_empty() && proof.rendered > 0, "{name}\n{}", proof.findings);
        }
        seen += 1;
    }
    assert!(seen > 25, "{seen}");
}

#[tokio::test]
async fn the_real_server_takes_what_new_mappings_of_common_kinds_render() {
    let (cluster, namespace) = fixture("begun").await;
    let common = [
        "apps/v1/Deployment",
        "apps/v1/StatefulSet",
        "apps/v1/DaemonSet",
        "batch/v1/Job",
        "v1/Pod",
        "v1/Service",
        "v1/ConfigMap",
        "v1/Secret",
        "v1/PersistentVolumeClaim",
    ];
    for name in common {
        let files = starter("thing", name, kinds::embedded()).unwrap();
        let service = load(&files, "thing", kinds::embedded());
        let (spec, manifests) = rendered(&service, &files, kinds::embedded()).swap_remove(0);
        let mut body = manifests[0].body.clone();
        body["metadata"]["namespace"] = namespace.as_str().into();
        let resource = resource(&cluster, &manifests[0].kind).await;
        let answer = cluster.dry_run_create(&resource, &namespace, &body).await;
        assert!(answer.is_ok(), "{name}: {:?}\n{spec}\n{body}", answer.err());
    }
}

#[test]
fn init_writes_a_mapping_that_check_accepts_and_overwrites_nothing() {
    let folder = scratch("init");
    let init = |kind: &str| mapwright(&["init", "report", "--kind", kind, "--dir"], &folder);
    let first = init("batch/v1/CronJob");
    assert_eq!(first.status.code(), Some(0), "{}", errors(&first));
    let written = String::from_utf8_lossy(&first.stdout).lines().count();
    assert!(written >= 8, "{written}");
    let check = mapwright(&["check"], &folder);
    assert_eq!(check.status.code(), Some(0), "{}", errors(&check));
    let test = mapwright(&["test", "--coverage"], &folder);
    let said = String::from_utf8_lossy(&test.stdout);
    assert_eq!(test.status.code(), Some(0), "{said}{}", errors(&test));
    assert!(said.contains("report: 7 of 7 ways"), "{said}");

    let template = folder.join("mappings/report/cron-job.yaml");
    std::fs::write(&template, "mine").unwrap();
    let again = init("batch/v1/CronJob");
    assert_eq!(again.status.code(), Some(2));
    assert!(errors(&again).contains("is there already"), "{}", errors(&again));
    assert_eq!(std::fs::read_to_string(&template).unwrap(), "mine");

    for (kind, said) in [
        ("batch/v1/CronJbo", "did you mean `batch/v1/CronJob`?"),
        ("v1/Deployment", "did you mean `apps/v1/Deployment`?"),
        ("v1/Node", "live in no namespace"),
        ("Deployment", "apps/v1/Deployment"),
    ] {
        let refused = mapwright(&["init", "other", "--kind", kind, "--dir"], &folder);
        assert_eq!(refused.status.code(), Some(2), "{kind}");
        assert!(errors(&refused).contains(said), "{kind}: {}", errors(&refused));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn init_reads_the_kinds_of_a_root_without_mappings_and_keeps_the_bounds_of_their_fields() {
    let folder = scratch("init-bounds");
    std::fs::create_dir_all(folder.join("schemas/crds")).unwrap();
    std::fs::write(folder.join("schemas/crds/pool.yaml"), POOL).unwrap();
    let begun = mapwright(&["init", "pool", "--kind", "example.com/v1/Pool", "--dir"], &folder);
    assert_eq!(begun.status.code(), Some(0), "{}", errors(&begun));
    let check = mapwright(&["check"], &folder);
    assert_eq!(check.status.code(), Some(0), "{}", errors(&check));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A kind whose required fields have bounds.
const POOL: &str = r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pools.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Pool, plural: pools, singular: pool}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [size, most, weight, code]
              properties:
                size: {type: integer, minimum: 3}
                most: {type: integer, minimum: 3, exclusiveMinimum: true, maximum: 9}
                weight: {type: integer, multipleOf: 5}
                code: {type: string, minLength: 4, maxLength: 6}
"#;

#[test]
fn a_custom_kind_of_the_mapping_root_is_a_kind_like_any_other() {
    let mut files = Files::new();
    files.insert("schemas/crds/widget.yaml".into(), WIDGET.into());
    let mut findings = Findings::default();
    let kinds = kinds::of(&files, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    let begun = starter("widget", "example.com/v1/Widget", &kinds).unwrap();
    assert!(begun["mappings/widget/widget.yaml"].contains("size: \"{{ spec.size }}\""), "{begun:?}");
    files.extend(begun);
    load(&files, "widget", &kinds);
    let template = files.get_mut("mappings/widget/widget.yaml").unwrap();
    *template = template.replace("size:", "sise:");
    let found = Service::load(&files, "widget", &kinds).unwrap_err().to_string();
    assert!(found.contains("unknown-field") && found.contains("did you mean `size`?"), "{found}");
}

const WIDGET: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [size]
              properties: {size: {type: integer, maximum: 9}}
            status:
              type: object
              properties: {phase: {type: string, enum: [Ready, Broken]}}
";

fn load(files: &Files, name: &str, kinds: &Kinds) -> Service {
    Service::load(files, name, kinds).unwrap_or_else(|findings| panic!("{findings}"))
}

fn root() -> MappingRoot {
    MappingRoot::at(Path::new(env!("CARGO_MANIFEST_DIR")))
}

fn shipped() -> Files {
    root().read().unwrap()
}

fn shipped_types() -> Vec<String> {
    root().types().unwrap()
}

async fn fixture(prefix: &str) -> (Cluster, String) {
    let shared = Shared::get().await.unwrap();
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Some(shared.kubeconfig().to_path_buf());
    let options =
        ConnectOptions { kubeconfig, request_timeout: Duration::from_secs(10), streaming_lists: true };
    (Cluster::connect(options).await.unwrap(), shared.namespace(prefix).await.unwrap())
}

async fn resource(cluster: &Cluster, kind: &KindRef) -> Arc<Resource> {
    cluster.resource(&ResourceRef::new(&kind.api_version, &kind.kind)).await.unwrap()
}

fn mapwright(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mapwright")).args(arguments).arg(folder).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn clip(text: &str) -> String {
    text.chars().take(500).collect()
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mapwright-types-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
