//! What the API server says of an object's field, the caller hears of the field that he sent.

use mapwright_testbed::{Kind, Launch, Provider, Shared};
use serde_json::{Value, json};

use super::offline::{Folder, container, path};

/// A provider of the shipped mappings, with a schema that lets through what the cluster refuses.
async fn lenient(folder: &Folder) -> (Provider, mapwright_testbed::Objects) {
    folder.change(
        "schemas/container.json",
        "\"minLength\": 1,\n          \"pattern\": \"^[^\\\\s]+$\"",
        "\"minLength\": 0",
    );
    let shared = Shared::get().await.unwrap();
    let objects = shared.objects("refused").await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, objects.namespace()).unwrap();
    let launch = launch.types(&["container"]).arg("--root").arg(path(&folder.0));
    (launch.start().await.unwrap(), objects)
}

#[tokio::test]
async fn an_image_that_the_cluster_refuses_is_a_fault_at_the_callers_field_wrapped_or_bare() {
    let folder = Folder::new("refused").with_mappings();
    let (provider, objects) = lenient(&folder).await;
    let mut spec = container();
    spec["image"]["reference"] = "".into();
    for (body, pointer) in
        [(json!({ "spec": spec }), "#/spec/image/reference"), (spec.clone(), "#/image/reference")]
    {
        let answer = provider.http().post("/api/v1alpha1/containers", &body).await.unwrap();
        let problem = answer.json();
        assert_eq!((answer.status, &problem["pointer"]), (400, &Value::from(pointer)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("Required value"), "{problem}");
    }
    assert!(objects.list(&Kind::DEPLOYMENT, "").await.unwrap().is_empty());
    assert!(objects.list(&Kind::SERVICE, "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_label_of_two_templates_is_one_fault_at_the_label() {
    let folder = Folder::new("refused-label").with_mappings();
    let (provider, _objects) = lenient(&folder).await;
    let mut spec = container();
    let label = format!("{}/name", "a".repeat(260));
    spec["metadata"]["labels"] = json!({ label: "x" });
    let body = json!({ "spec": spec });
    let answer = provider.http().post("/api/v1alpha1/containers", &body).await.unwrap();
    let problem = answer.json();
    assert_eq!(answer.status, 400, "{problem}");
    let errors = problem["errors"].as_array();
    let errors = errors.unwrap_or_else(|| panic!("{problem}\n{}", provider.log()));
    assert!(!errors.is_empty(), "{problem}");
    for error in errors {
        assert!(error["pointer"].as_str().unwrap().starts_with("#/spec/metadata/labels"), "{problem}");
    }
}
