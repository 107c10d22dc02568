//! The shipped mappings load, render and observe.
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::format::Moment;
use crate::inputs::{Identity, Inputs};
use crate::kinds::Kinds;
use crate::request::Judged;
use crate::service::{Files, Service};

fn files() -> Files {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = BTreeMap::new();
    for folder in ["schemas", "mappings/container", "mappings/storage"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                continue;
            }
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            files.insert(name, std::fs::read_to_string(entry.path()).unwrap());
        }
    }
    files
}

pub(crate) fn load(name: &str) -> Service {
    Service::load(&files(), name, &Kinds::default()).unwrap_or_else(|findings| panic!("{findings}"))
}

fn identity() -> Identity {
    Identity { id: "a".into(), provider: "p".into(), namespace: "ns".into(), life: 1 }
}

#[test]
fn container() {
    let service = load("container");
    let body = json!({"spec": {"service_type": "container", "metadata": {"name": "web"}, "image": {"reference": "x"},
        "resources": {"cpu": {"min": 4, "max": "2"}, "memory": {"min": "1GB", "max": "2GB"}},
        "network": {"ports": [{"container_port": 80, "visibility": "external"}, {"container_port": 81, "visibility": "internal"}]}}});
    let request = service.read_create(body);
    let mut inputs = Inputs { spec: request.spec.clone(), ..Inputs::default() };
    inputs.settings.insert("external_service_type".into(), "LoadBalancer".into());
    match service.judge(Moment::Create, &request, &identity(), &inputs).unwrap() {
        Judged::Refused(problem) => {
            assert_eq!(problem.faults[0].pointer.as_deref(), Some("/spec/resources/cpu/min"))
        }
        other => panic!("{other:?}"),
    }
    let manifests = service.render(&identity(), &inputs, 0).unwrap();
    assert_eq!(manifests.len(), 2);
    let pod = json!({"metadata": {"name": "p"},
        "status": {"phase": "Failed", "reason": "Evicted", "message": "short"}});
    let watches = service.watches.iter().map(|watch| {
        let made = manifests.iter().filter(|manifest| manifest.kind == watch.kind);
        let seen = made.map(|manifest| &manifest.body).chain((watch.kind.kind == "Pod").then_some(&pod));
        seen.map(|object| Arc::new(object.clone())).collect()
    });
    inputs.observed = watches.collect();
    let seen = service.observe(&identity(), &inputs).unwrap();
    assert_eq!(seen.status, "FAILED");
    assert_eq!(seen.message, "Evicted: short; internal ports reachable from outside: 81");
}

#[test]
fn an_update_adds_members_that_the_spec_does_not_have() {
    let mut files = files();
    let text = files.get_mut("mappings/storage/mapping.toml").unwrap();
    *text = text.replacen("set    = {", "set    = { \"/metadata/labels\" = \"{'tier': patch.capacity}\",", 1);
    let service = Service::load(&files, "storage", &Kinds::default()).unwrap();
    let spec = json!({ "service_type": "storage", "metadata": { "name": "a" }, "capacity": "1Gi" });
    let inputs = Inputs { spec, patch: Some(json!({ "capacity": "2Gi" })), ..Inputs::default() };
    let updated = service.updated_spec(&identity(), &inputs).unwrap();
    assert_eq!(updated["capacity"], "2Gi");
    assert_eq!(updated["metadata"], json!({ "name": "a", "labels": { "tier": "2Gi" } }));
}

#[test]
fn a_name_of_a_look_up_that_is_absent_is_none() {
    let service = load("storage");
    let class = &service.lookups[0];
    let get = class.get.as_ref().unwrap();
    let name = |spec| {
        let scope = service.scope(&identity(), &Inputs { spec, ..Inputs::default() }).unwrap();
        service.program.name(get, &scope).unwrap()
    };
    let with = |class| json!({ "provider_hints": { "kubernetes": { "storage_class": class } } });
    assert_eq!(name(with("fast")).as_deref(), Some("fast"));
    assert_eq!((name(with("")), name(json!({}))), (None, None));
}

#[test]
fn storage() {
    let service = load("storage");
    assert_eq!(service.revision.len(), 12);
}

/// The storage mapping with another `on` of its look-up of quotas and of the checks that read it.
fn with_quotas(looked_up: &str, checked: &str) -> Result<Service, String> {
    let mut files = files();
    let text = files.get_mut("mappings/storage/mapping.toml").unwrap();
    let (before, after) = text.split_once("kind        = \"ResourceQuota\"").unwrap();
    let after = after.replacen("on          = [\"update\"]", looked_up, 1);
    let after = after.replace("on       = [\"update\"]\nstage    = 4", &format!("{checked}\nstage    = 4"));
    *text = format!("{before}kind        = \"ResourceQuota\"{after}");
    Service::load(&files, "storage", &Kinds::default()).map_err(|findings| findings.to_string())
}

/// The operations in which the checks that read the look-up of quotas are judged.
fn judged(service: &Service) -> Vec<Vec<Moment>> {
    let quotas = service.lookups.iter().position(|lookup| lookup.name == "quotas").unwrap();
    let checks = service.checks.iter().filter(|check| check.lookups.contains(&quotas));
    checks.map(|check| check.on.clone()).collect()
}

#[test]
fn a_check_is_judged_where_its_look_ups_are_fetched() {
    let both = r#"on = ["create", "update"]"#;
    let service = with_quotas(r#"on = ["update"]"#, both).unwrap();
    assert_eq!(judged(&service), [[Moment::Update], [Moment::Update]]);
    let service = with_quotas("", both).unwrap();
    assert_eq!(judged(&service)[0], [Moment::Create, Moment::Update]);
    let refused = with_quotas(r#"on = ["create"]"#, r#"on = ["update"]"#).unwrap_err();
    assert!(refused.contains("never-judged") && refused.contains("on update, `quotas`"), "{refused}");
}

#[test]
fn a_look_up_of_another_operation_is_not_asked_for() {
    let body = json!({"service_type": "storage", "capacity": "1Gi", "metadata": {"name": "a"}});
    let asked = |service: &Service| {
        let request = service.read_create(body.clone());
        let found = Some(json!({"metadata": {"name": "fast"}}));
        let inputs = Inputs { spec: request.spec.clone(), lookups: vec![found, None], ..Inputs::default() };
        service.judge(Moment::Create, &request, &identity(), &inputs).unwrap()
    };
    let both = r#"on = ["create", "update"]"#;
    assert!(matches!(asked(&with_quotas(r#"on = ["update"]"#, both).unwrap()), Judged::Passed));
    assert!(matches!(asked(&with_quotas("", both).unwrap()), Judged::Needs(needs) if needs == [1]));
}

#[test]
fn names_that_double_the_one_before_have_an_end() {
    let mut files = files();
    let text = files.get_mut("mappings/storage/mapping.toml").unwrap();
    let doubling = |letter: char, first: &str, sign: char| {
        let rest = (1..48).map(|n| format!("{letter}{n} = \"{letter}{0} {sign} {letter}{0}\"\n", n - 1));
        format!("{letter}0 = \"{first}\"\n{}", rest.collect::<String>())
    };
    let names = doubling('a', "spec.metadata.name", '~') + &doubling('b', "[spec.metadata.name]", '+');
    *text = format!("{text}\n[[status.note]]\nwhen = \"a47 or b47\"\ntext = \"large\"\n");
    *text = match text.contains("[let]\n") {
        true => text.replacen("[let]\n", &format!("[let]\n{names}"), 1),
        false => text.replacen("[[status.rule]]", &format!("[let]\n{names}\n[[status.rule]]"), 1),
    };
    let service = Service::load(&files, "storage", &Kinds::default()).unwrap();
    let spec = json!({ "service_type": "storage", "metadata": { "name": "a" }, "capacity": "1Gi" });
    let inputs = Inputs { spec, ..Inputs::default() };
    let scope = service.scope(&identity(), &inputs).unwrap();
    for (small, large) in [("a20", "a21"), ("b13", "b14")] {
        assert_ne!(scope.get(small).unwrap().kind(), minijinja::value::ValueKind::Invalid, "{small}");
        let refused = scope.get(large).unwrap().to_string();
        assert!(refused.contains("more than 1048576 bytes or 10000 members"), "{refused}");
    }
}
