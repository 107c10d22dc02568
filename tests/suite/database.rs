//! A type that no document asks for, on a kind that Kubernetes does not have: `testdata/database` is a mapping root
//! as the tutorial makes one.

use std::path::{Path, PathBuf};

use mapwright::app::Simulator;
use mapwright::cases::{Mappings, Suite};
use mapwright::engine::case::Outcome;
use mapwright::engine::diagnostic::Findings;
use mapwright::files::MappingRoot;
use mapwright::kinds;
use mapwright_testbed::{Kind, Objects, Shared, eventually};
use serde_json::{Value, json};

use super::cases::root::run;
use super::dcm::{Dcm, SOON, created, name_of};
use super::sandbox::Stage;

const DATABASES: &str = "/api/v1alpha1/databases";
const CLAIM: Kind = Kind::new("databases.example/v1", "DatabaseClaim", "databaseclaims");
const DEFINITION: Kind =
    Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/database")
}

fn sales() -> Value {
    json!({ "service_type": "database", "metadata": { "name": "sales" }, "engine": "postgres", "size": "10Gi", "replicas": 1 })
}

#[test]
fn its_mapping_has_no_mistakes_and_its_cases_reach_every_way() {
    let told = run(&["check", &folder().to_string_lossy()]);
    assert_eq!(told.code, 0, "{told}");
    let suite = Suite::open(&mut Mappings::read(&folder()).unwrap(), "", true).unwrap();
    let simulator = Simulator::default();
    let ran = suite.run(2, &|service, story| simulator.play(service, story));
    let wrong: Vec<_> = ran.results.iter().filter(|result| result.outcome != Outcome::Passed).collect();
    assert!(suite.findings.is_empty() && wrong.is_empty(), "{}{wrong:#?}", suite.findings);
    let unreached: Vec<_> = suite.unreached().into_iter().flat_map(|(_, _, ways)| ways).collect();
    assert!(ran.results.len() > 10 && unreached.is_empty(), "{unreached:#?}");
}

/// The cluster in memory begins with the kinds of its root; stages play the operator.
#[tokio::test]
async fn dev_has_the_kinds_of_its_root() {
    let operator = "for: databases.example/v1/DatabaseClaim
stages:
  - name: make it
    when: not object.status.phase
    status: { phase: Ready, readyReplicas: 1, endpoint: sales.example, port: 5432 }
";
    let stage = Stage::of(folder(), operator).await;
    created(&stage.http.post(&format!("{DATABASES}?id=sales"), &sales()).await.unwrap());
    stage.statuses("sales", "RUNNING").await;
    let shown = stage.http.get(&format!("{DATABASES}/sales")).await.unwrap().json();
    assert_eq!(shown["connection"]["host"], "sales.example");
    assert_eq!(stage.http.delete(&format!("{DATABASES}/sales")).await.unwrap().status, 204);
    stage.statuses("sales", "DELETED").await;
}

/// The kind comes after the provider: until then a create is refused and leaves nothing, and nobody restarts.
#[tokio::test]
async fn a_database_lives_on_a_kind_that_is_installed_while_the_provider_serves() {
    let plane = Shared::quiet_plane().await.unwrap();
    let client = plane.client().await.unwrap();
    let namespace = mapwright_testbed::shared::namespace(&client, "database").await.unwrap();
    let objects = Objects::new(client.clone(), namespace.clone());
    let dcm = Dcm::listen_of(&["database"], objects, |launch| {
        launch.cluster(plane.kubeconfig(), &namespace).arg("--root").arg(folder().to_string_lossy())
    })
    .await;

    let refused = dcm.post(&format!("{DATABASES}?id=early"), &sales()).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("install what defines it"), "{}", refused.text());
    assert!(!refused.header("retry-after").is_empty());
    let kept = dcm.objects.list(&Kind::CONFIG_MAP, "dcm.project/managed-by=dcm").await.unwrap();
    assert!(kept.iter().all(|object| !object.to_string().contains("early")), "{kept:#?}");

    let files = MappingRoot::at(&folder()).read().unwrap();
    let definitions = kinds::of(&files, &mut Findings::default()).documents();
    Objects::cluster(client).create(&DEFINITION, definitions[0].clone()).await.unwrap();
    let made = async || {
        let answer = dcm.post(&format!("{DATABASES}?id=sales"), &sales()).await;
        (answer.status != 503).then_some(answer)
    };
    let answer = eventually("the kind is served", SOON, made).await.unwrap();
    assert_eq!(created(&answer)["status"], "PENDING");

    let claim = dcm.only(&CLAIM, "sales").await;
    let spec =
        json!({ "engine": "postgres", "version": 17, "size": "10Gi", "replicas": 1, "keepOnDelete": false });
    assert_eq!(claim["spec"], spec);
    dcm.says(DATABASES, "sales", "PENDING", &["operator"]).await;
    dcm.becomes(&CLAIM, &claim, json!({ "phase": "Failed", "message": "no room" })).await;
    dcm.says(DATABASES, "sales", "FAILED", &["no room"]).await;
    let ready = json!({ "phase": "Ready", "message": null, "readyReplicas": 1, "endpoint": "sales.example", "port": 5432 });
    dcm.becomes(&CLAIM, &claim, ready).await;
    let shown = dcm.says(DATABASES, "sales", "RUNNING", &["postgres 17"]).await;
    assert_eq!(shown["connection"], json!({ "host": "sales.example", "port": 5432 }));
    assert_eq!(dcm.delete(DATABASES, "sales").await.status, 204);
    dcm.is_gone(DATABASES, "sales").await;
    dcm.events.wait_for("sales", "DELETED", SOON).await.unwrap();
    assert!(dcm.objects.get(&CLAIM, name_of(&claim)).await.unwrap().is_none());
}
