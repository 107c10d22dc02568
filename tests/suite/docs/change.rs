//! The worked change of CONTRIBUTING.md, carried out on a copy: the page is true, from edit to status.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use mapwright::engine::format::SettingKind;
use mapwright::engine::inputs::{Identity, Inputs};
use mapwright::engine::service::{Files, Service};
use mapwright::settings::{DeclaredSetting, Kind};
use serde_json::json;

use super::super::source::{files, text};
use super::page;

/// The shipped mappings and schemas, in memory.
fn shipped() -> Files {
    let mut shipped = BTreeMap::new();
    for (folder, ending) in [("mappings", ".toml"), ("mappings", ".yaml"), ("schemas", ".json")] {
        shipped.extend(files(folder, ending).into_iter().map(|file| (file.name, file.text)));
    }
    shipped
}

/// The names of the shipped mappings.
pub(super) fn mapping_names() -> Vec<String> {
    let names = files("mappings", "mapping.toml").into_iter();
    let names: Vec<String> = names.filter_map(|file| Some(file.name.split('/').nth(1)?.to_owned())).collect();
    assert!(names.len() >= 2, "the mappings were not found");
    names
}

pub(super) fn load_mapping(name: &str) -> Service {
    Service::load(&shipped(), name, mapwright::kinds::embedded())
        .unwrap_or_else(|findings| panic!("{findings}"))
}

/// What every shipped mapping wants to be told.
pub(crate) fn declared_by_mappings() -> Vec<DeclaredSetting> {
    let mut declared = Vec::new();
    for name in mapping_names() {
        for rule in load_mapping(&name).settings {
            declared.push(DeclaredSetting {
                service_type: name.clone(),
                name: rule.name,
                env: rule.env,
                kind: match rule.kind {
                    SettingKind::String => Kind::String,
                    SettingKind::Integer => Kind::Integer,
                    SettingKind::Number => Kind::Number,
                    SettingKind::Boolean => Kind::Boolean,
                },
                allowed: rule.allowed,
                default: rule.default,
                required: rule.required,
            });
        }
    }
    declared
}

/// The mapping of the worked change: the page's rule stands above the row that the page names.
fn changed() -> String {
    let page = page("CONTRIBUTING.md");
    let fences: Vec<_> = page.fences.iter().filter(|fence| fence.is("change")).collect();
    let [rule] = fences.as_slice() else { panic!("the page holds one change, not {}", fences.len()) };
    let row = rule.value("above").expect("the fence names the row below: `above=...`").replace('-', " ");
    let mapping = text("mappings/container/mapping.toml");
    let below = format!("[[status.rule]]\nname    = \"{row}\"");
    assert_eq!(mapping.matches(&below).count(), 1, "there is one row `{row}`");
    mapping.replace(&below, &format!("{}\n{below}", rule.text))
}

/// What is said of a pod that cannot pull its image.
fn said(service: &Service) -> (String, String) {
    let identity = Identity { id: "a".into(), provider: "p".into(), namespace: "n".into(), life: 1 };
    let deployment = Arc::new(json!({ "metadata": { "name": "web", "uid": "d" } }));
    let waiting = json!({ "reason": "ImagePullBackOff", "message": "no such image" });
    let pod = Arc::new(json!({ "metadata": { "name": "web-1" }, "status": {
        "phase": "Pending", "containerStatuses": [{ "name": "web", "state": { "waiting": waiting } }],
    }}));
    let observed = service.watches.iter().map(|watch| match watch.name.as_str() {
        "deployment" => vec![deployment.clone()],
        "pod" => vec![pod.clone()],
        _ => Vec::new(),
    });
    let spec = json!({ "metadata": { "name": "web" } });
    let inputs = Inputs { spec, observed: observed.collect(), ..Inputs::default() };
    let seen = service.observe(&identity, &inputs).unwrap();
    (seen.status, seen.message)
}

#[test]
fn the_worked_change_does_what_the_page_says() {
    let message = "web is waiting: ImagePullBackOff: no such image".to_owned();
    assert_eq!(said(&load_mapping("container")), ("PENDING".to_owned(), message.clone()));
    let mut files = shipped();
    files.insert("mappings/container/mapping.toml".to_owned(), changed());
    let service = Service::load(&files, "container", mapwright::kinds::embedded())
        .unwrap_or_else(|findings| panic!("{findings}"));
    assert_eq!(said(&service), ("FAILED".to_owned(), message));
}

#[test]
fn check_passes_after_the_worked_change_and_fails_after_a_slip_of_the_pen() {
    let folder = std::env::temp_dir().join(format!("mapwright-docs-{}", std::process::id()));
    for (name, text) in shipped() {
        let path = folder.join(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mapping = folder.join("mappings/container/mapping.toml");
    let check = |text: &str| {
        std::fs::write(&mapping, text).unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_mapwright")).arg("check").arg(&folder).output().unwrap();
        let printed = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
        (output.status.code(), printed)
    };
    let (code, printed) = check(&changed());
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.starts_with("container: revision ") && printed.contains(", no mistakes"), "{printed}");
    let (code, printed) = check(&changed().replace("\"{{ cause }}\"", "\"{{ caus }}\""));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("`caus` is not a variable here") && printed.contains("`cause`"), "{printed}");
}
