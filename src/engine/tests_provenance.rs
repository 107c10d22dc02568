//! Where fields come from, in the shipped mappings: forwards, backwards, and from the cluster's words.

use serde_json::{Value as Json, json};

use crate::inputs::{Identity, Inputs};
use crate::provenance::{Field, Refused, TracedObject, faults, pointer_of};
use crate::service::Service;
use crate::tests_service::load;

fn identity() -> Identity {
    Identity { id: "web".into(), provider: "p".into(), namespace: "ns".into(), life: 1 }
}

fn inputs(spec: Json) -> Inputs {
    let mut inputs = Inputs { spec, ..Inputs::default() };
    inputs.settings.insert("external_service_type".into(), "LoadBalancer".into());
    inputs
}

fn container() -> Json {
    json!({
        "service_type": "container",
        "metadata": { "name": "web", "labels": { "app": "shop" } },
        "image": { "reference": "x" },
        "resources": { "cpu": { "min": 1, "max": 2 }, "memory": { "min": "1GB", "max": "2GB" } },
        "process": { "command": ["a", "b"] },
        "network": { "ports": [
            { "container_port": 1, "visibility": "none" },
            { "container_port": 80, "visibility": "external" },
        ] },
    })
}

fn trace(service: &Service, spec: Json) -> Vec<TracedObject> {
    service.trace(&identity(), &inputs(spec), 0).unwrap()
}

fn field<'f>(fields: &'f [Field], pointer: &str) -> &'f Field {
    let found: Vec<&Field> = fields.iter().filter(|field| field.pointer == pointer).collect();
    assert_eq!(found.len(), 1, "{pointer}");
    found[0]
}

fn inputs_at(fields: &[Field], pointer: &str) -> Vec<String> {
    field(fields, pointer).inputs.iter().map(ToString::to_string).collect()
}

#[test]
fn a_trace_gives_the_manifests_of_a_rendering_and_each_of_their_leaves_once() {
    let service = load("container");
    let traced = trace(&service, container());
    let manifests = service.render(&identity(), &inputs(container()), 0).unwrap();
    let bodies: Vec<&Json> =
        traced.iter().filter_map(|object| Some(&object.manifest.as_ref()?.body)).collect();
    assert_eq!(bodies, manifests.iter().map(|manifest| &manifest.body).collect::<Vec<_>>());
    for object in &traced {
        let body = &object.manifest.as_ref().unwrap().body;
        for field in &object.fields {
            assert_eq!(body.pointer(&field.pointer), field.value.as_ref(), "{}", field.pointer);
        }
        let present = object.fields.iter().filter(|field| field.value.is_some()).count();
        assert_eq!(present, leaves(body), "{}", object.object);
    }
}

fn leaves(value: &Json) -> usize {
    match value {
        Json::Object(members) if !members.is_empty() => members.values().map(leaves).sum(),
        Json::Array(items) if !items.is_empty() => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

#[test]
fn a_field_inside_a_loop_over_a_filtered_let_names_the_item_as_it_was_sent() {
    let service = load("container");
    let traced = trace(&service, container());
    let fields = &traced[1].fields;
    assert_eq!(inputs_at(fields, "/spec/ports/0/port"), ["/network/ports/1/container_port"]);
    let place = field(fields, "/spec/ports/0/port").place.clone().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("mappings/container/service.yaml", 12));
    assert_eq!(place.text, "port.container_port");
    assert_eq!(inputs_at(fields, "/spec/ports/0/name"), ["/network/ports/1/container_port"]);
    let (condition, reads) = traced[1].condition.clone().unwrap();
    assert_eq!(condition.text, "exposed");
    assert!(reads.iter().any(|input| input.touches("spec", "/network/ports")));
}

#[test]
fn a_part_of_a_merged_map_or_a_list_names_its_own_place() {
    let service = load("container");
    let fields = &trace(&service, container())[0].fields;
    assert_eq!(inputs_at(fields, "/metadata/labels/app"), ["/metadata/labels/app"]);
    assert_eq!(inputs_at(fields, "/spec/template/spec/containers/0/command/1"), ["/process/command/1"]);
    let id = "/spec/selector/matchLabels/dcm.project~1dcm-instance-id";
    assert_eq!(inputs_at(fields, id), ["dcm.labels.dcm.project/dcm-instance-id"]);
    assert_eq!(inputs_at(fields, "/metadata/name"), ["/metadata/name"]);
    assert!(field(fields, "/metadata/namespace").place.is_none());
}

#[test]
fn the_clusters_words_about_a_field_become_the_callers_pointer() {
    let service = load("container");
    let fields = &trace(&service, container())[0].fields;
    let said = |field, root| {
        let faults = faults(&[Refused { field, message: "no" }], fields, "spec", root);
        faults[0].pointer.clone()
    };
    let image = "spec.template.spec.containers[0].image";
    assert_eq!(said(image, "/spec").as_deref(), Some("/spec/image/reference"));
    assert_eq!(said(image, "").as_deref(), Some("/image/reference"));
    assert_eq!(said("metadata.labels", "/spec").as_deref(), Some("/spec/metadata/labels/app"));
    assert_eq!(said("spec.template.labels", "/spec").as_deref(), Some("/spec/metadata/labels/app"));
    let requests = "spec.template.spec.containers[0].resources.requests";
    assert_eq!(said(requests, "/spec").as_deref(), Some("/spec/resources"));
    assert_eq!(said("metadata.name", "/spec").as_deref(), Some("/spec/metadata/name"));
    // An absent field is still the one that its expression would have filled.
    let argument = "spec.template.spec.containers[0].args";
    assert_eq!(said(argument, "/spec").as_deref(), Some("/spec/process/args"));
    assert_eq!(said("spec.replicas", "/spec"), None);
    assert_eq!(said("spec.unheard.of", "/spec"), None);
}

#[test]
fn a_field_in_the_clusters_words_is_a_pointer() {
    for (field, pointer) in [
        ("spec.ports[0].port", "/spec/ports/0/port"),
        ("metadata.labels[a.b/c]", "/metadata/labels/a.b~1c"),
        ("/spec/x", "/spec/x"),
        ("", ""),
    ] {
        assert_eq!(pointer_of(field), pointer);
    }
}
