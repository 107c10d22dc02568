//! What nothing reads is found, and nothing else is.

use std::collections::BTreeMap;

use crate::kinds::Kinds;
use crate::service::{Files, Service};
use crate::tests_service::load;

const MAPPING: &str = r#"
format         = "mapwright/v1"
service_type   = "thing"
collection     = "things"
schema         = "thing.json"
schema_version = "v1"
operations     = ["CREATE"]
echoed         = ["/notes"]

[let]
unused = "spec.unused"
shown  = "spec.items | selectattr('visible') | list"

[[object]]
name     = "map"
template = "map.yaml"
when     = "shown"

[[watch]]
name = "map"
api_version = "v1"
kind = "ConfigMap"

[status]
values = ["READY"]
initial = "READY"
gone = "READY"

[[status.rule]]
name = "all"
status = "READY"
"#;

const SCHEMA: &str = r##"{
  "type": "object",
  "properties": {
    "kind": { "const": "thing" },
    "notes": { "type": "string" },
    "unused": { "type": "string" },
    "flag": { "type": "boolean" },
    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
    "items": { "type": "array", "items": { "$ref": "#/$defs/item" } },
    "branch": { "type": "object", "properties": { "a": {}, "b": {} } }
  },
  "$defs": { "item": { "properties": { "name": {}, "visible": {}, "colour": {} } } }
}"##;

const TEMPLATE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  labels: "{{ spec.labels }}"
data:
  flag:
    $if: spec.flag
    $value: "on"
  names:
    - $for: item in shown
      $value: "{{ item.name }}"
"#;

fn files() -> Files {
    let files = [
        ("mappings/thing/mapping.toml", MAPPING),
        ("mappings/thing/map.yaml", TEMPLATE),
        ("schemas/thing.json", SCHEMA),
    ];
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).into_iter().collect::<BTreeMap<_, _>>()
}

#[test]
fn what_nothing_reads_is_found_at_its_line_and_a_let_that_nobody_uses_reads_nothing() {
    let service =
        Service::load(&files(), "thing", &Kinds::default()).unwrap_or_else(|findings| panic!("{findings}"));
    let findings = service.unread_inputs();
    let found: Vec<(usize, String)> =
        findings.iter().map(|item| (item.position.line, item.message.clone())).collect();
    let pointers: Vec<(usize, &str)> =
        found.iter().map(|(line, message)| (*line, message.split('`').nth(1).unwrap())).collect();
    assert_eq!(pointers, [(6, "/unused"), (12, "/items/*/colour"), (10, "/branch")]);
    assert!(findings.iter().all(|item| item.code == "unread-input" && item.file == "schemas/thing.json"));
}

#[test]
fn an_echoed_pointer_must_exist() {
    let mut files = files();
    let mapping = MAPPING.replace("\"/notes\"", "\"/notse\"");
    files.insert("mappings/thing/mapping.toml".to_owned(), mapping);
    let findings = Service::load(&files, "thing", &Kinds::default()).unwrap_err();
    let item = findings.iter().next().unwrap();
    assert_eq!((item.code, item.position.line), ("unknown-path", 8));
}

#[test]
fn the_shipped_mappings_read_everything_that_they_do_not_echo() {
    for name in ["container", "storage"] {
        let findings = load(name).unread_inputs();
        assert!(findings.is_empty(), "{findings}");
    }
}
