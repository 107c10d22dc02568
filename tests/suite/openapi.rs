//! The OpenAPI document: the same bytes wherever it is asked for, and whole.

use std::process::Command;

use mapwright::engine::service::Service;
use mapwright::kinds;
use mapwright_testbed::{Launch, Shared};
use serde_json::{Value, json};

fn printed(arguments: &[&str]) -> String {
    let program =
        Command::new(env!("CARGO_BIN_EXE_mapwright")).arg("openapi").args(arguments).output().unwrap();
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    String::from_utf8(program.stdout).unwrap()
}

fn document(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

#[tokio::test]
async fn what_is_served_is_what_is_printed_whatever_the_order_of_types() {
    let shared = Shared::get().await.unwrap();
    let namespace = shared.namespace("openapi").await.unwrap();
    let launch = Launch::shared(env!("CARGO_BIN_EXE_mapwright"), shared, &namespace).unwrap();
    let provider = launch.types(&["storage", "container"]).start().await.unwrap();
    let served = provider.http().get("/api/v1alpha1/openapi.json").await.unwrap();
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.text(), printed(&[]));
}

#[test]
fn one_type_alone_leaves_the_other_out() {
    let one = document(&["storage"]);
    let paths: Vec<&String> = one["paths"].as_object().unwrap().keys().collect();
    let ours = "/api/v1alpha1/volumes";
    let (item, health) = (format!("{ours}/{{id}}"), format!("{ours}/health"));
    assert_eq!(
        paths,
        ["/health", "/livez", "/readyz", "/metrics", "/api/v1alpha1/openapi.json", ours, &item, &health]
    );
    assert!(!one.to_string().contains("container"), "{one}");
    let unknown = Command::new(env!("CARGO_BIN_EXE_mapwright")).args(["openapi", "storag"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    let told = String::from_utf8(unknown.stderr).unwrap();
    assert!(told.contains("there is no mapping for `storag`; there are: container, storage"), "{told}");
}

#[test]
fn every_reference_is_resolved_and_every_operation_has_an_id_of_its_own() {
    let document = document(&[]);
    let mut references = Vec::new();
    collect("$ref", &document, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    let mut ids = Vec::new();
    collect("operationId", &document["paths"], &mut ids);
    let count = ids.len();
    let mut unique: Vec<String> = ids.iter().map(Value::to_string).collect();
    unique.sort();
    unique.dedup();
    // Links name operations a second time.
    assert_eq!(unique.len() + 5, count);
}

#[test]
fn the_resource_is_described_from_mapping_schema_and_view() {
    let schemas = &document(&[])["components"]["schemas"];
    let container = &schemas["container"];
    assert_eq!(
        container["properties"]["status"]["enum"],
        json!(["PENDING", "RUNNING", "FAILED", "UNKNOWN", "DELETED"])
    );
    assert_eq!(container["properties"]["service"]["properties"]["ports"]["type"], "array");
    assert_eq!(container["properties"]["service"]["readOnly"], true);
    let resource = json!({
        "type": "k8s-container-service-provider.dcm.io/container",
        "singular": "container", "plural": "containers", "patterns": ["containers/{container_id}"],
    });
    assert_eq!(container["x-aep-resource"], resource);
    let spec = &schemas["container-spec"];
    assert_eq!(
        spec["properties"]["metadata"]["properties"]["namespace"],
        json!({ "type": "string", "readOnly": true })
    );
    assert_eq!(spec["properties"]["network"]["properties"]["ip"]["readOnly"], true);
    let cpu = &spec["properties"]["resources"]["properties"]["cpu"]["properties"]["min"];
    assert_eq!(*cpu, json!({ "$ref": "#/components/schemas/container-cpu" }));
    assert_eq!(schemas["container-cpu"]["minimum"], 1);
    let types = &schemas["storage-problem"]["properties"]["type"]["enum"];
    assert!(types.as_array().unwrap().contains(&json!("FAILED_PRECONDITION")), "{types}");
}

fn collect(key: &str, value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get(key).cloned());
            members.values().for_each(|member| collect(key, member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(key, item, found)),
        _ => {}
    }
}

/// The small mapping of the broken ones, with a view that omits members.
fn omitting(omitted: &str) -> Value {
    let mut files = super::broken::base();
    let table = files.get_mut("mappings/web/mapping.toml").unwrap();
    table.push_str(&format!("\n[view]\ntemplate = \"view.yaml\"\nomit = [{omitted}]\n"));
    files.insert("mappings/web/view.yaml".into(), "spec:\n  labels:\n    made: \"{{ dcm.id }}\"\n".into());
    // A definition that two members share.
    let schema = files.get_mut("schemas/web.json").unwrap();
    let door = r#""$defs": {
        "door": {
            "type": "object", "required": ["key", "lock"],
            "properties": { "key": { "type": "string" }, "lock": { "type": "string" } }
        },"#;
    let doors = r##""front": { "$ref": "#/$defs/door" }, "back": { "$ref": "#/$defs/door" }, "ports":"##;
    *schema = schema.replacen("\"$defs\": {", door, 1).replacen("\"ports\":", doors, 1);
    let service =
        Service::load(&files, "web", kinds::embedded()).unwrap_or_else(|findings| panic!("{findings}"));
    mapwright::openapi::document([&service])["components"]["schemas"].clone()
}

#[test]
fn what_a_view_omits_is_sent_and_not_answered() {
    let plain = omitting("");
    assert_eq!(plain["web"]["properties"]["spec"]["$ref"], "#/components/schemas/web-spec");
    assert!(plain.get("web-answered-spec").is_none());
    let schemas = omitting("\"/spec/image\", \"/spec/front/key\"");
    assert_eq!(schemas["web"]["properties"]["spec"]["$ref"], "#/components/schemas/web-answered-spec");
    let (sent, answered) = (&schemas["web-spec"], &schemas["web-answered-spec"]);
    assert_eq!((&sent["required"], &answered["required"]), (&json!(["name", "image"]), &json!(["name"])));
    assert!(sent["properties"]["image"].is_object() && answered["properties"].get("image").is_none());
    // A definition that others share is as it was for them.
    let front = &answered["properties"]["front"];
    assert_eq!(
        *front,
        json!({ "type": "object", "required": ["lock"], "properties": { "lock": { "type": "string" } } })
    );
    assert_eq!(answered["properties"]["back"], json!({ "$ref": "#/components/schemas/web-door" }));
    assert_eq!(schemas["web-door"]["required"], json!(["key", "lock"]));
    // What the view writes is in both: it is answered, and refused where it is sent.
    for spec in [sent, answered] {
        assert_eq!(spec["properties"]["labels"]["properties"]["made"]["readOnly"], true);
    }
}

#[test]
fn an_answer_without_what_the_view_omits_fits_the_document() {
    let schemas = omitting("\"/spec/image\"");
    let document = json!({ "components": { "schemas": schemas }, "$ref": "#/components/schemas/web" });
    let validator = jsonschema::validator_for(&document).unwrap();
    let answer = json!({
        "id": "a", "path": "webs/a", "status": "RUNNING", "status_message": "", "create_time": "", "update_time": "",
        "spec": { "name": "a", "labels": { "made": "a" } },
    });
    assert!(
        validator.is_valid(&answer),
        "{:?}",
        validator.iter_errors(&answer).map(|e| e.to_string()).collect::<Vec<_>>()
    );
    let mut without_name = answer;
    without_name["spec"] = json!({ "image": "x" });
    assert!(!validator.is_valid(&without_name));
}
