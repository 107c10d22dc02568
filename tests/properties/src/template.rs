//! Files and expressions of a mapping that anybody may have written: diagnostics, or rules that come to an end.

use mapwright_engine::format::Moment;
use mapwright_engine::service::Service;
use serde_json::{Value, json};

use crate::mapping::{loaded, told};
use crate::shipped::{KINDS, SMALL};
use crate::trial::{self, Outcome};

/// The first line says where the rest stands; without such a line all of it is the template of an object.
pub fn holds(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (slot, rest) = text.split_once('\n').unwrap_or(("", text));
    let quoted = Value::from(rest).to_string();
    let mut files = SMALL.clone();
    let mut change = |file: &str, from: &str, to: &str| {
        let text = files.get_mut(file).expect("the small mapping has this file");
        assert!(text.contains(from), "{file} holds no {from}");
        *text = text.replacen(from, to, 1);
    };
    let (table, template) = ("mappings/web/mapping.toml", "mappings/web/deployment.yaml");
    match slot {
        "value" => {
            change(template, "\"{{ spec.image }}\"", &Value::from(format!("{{{{ {rest} }}}}")).to_string())
        }
        "text" => change(template, "\"{{ spec.image }}\"", &quoted),
        "let" => change(table, "[[object]]", &format!("[let]\nx = {quoted}\ny = \"x ~ x\"\n\n[[object]]")),
        "check" => {
            change(table, "[status]", &format!("[[check]]\nwhen = {quoted}\ndetail = \"no\"\n\n[status]"))
        }
        "each" => {
            let check =
                format!("[[check]]\nfor_each = {quoted}\nwhen = \"index\"\ndetail = \"no\"\n\n[status]");
            change(table, "[status]", &check);
        }
        "row" => change(table, "\"not deployment\"", &quoted),
        "message" => change(table, "\"the deployment of {{ spec.name }} is gone\"", &quoted),
        "schema" => drop(files.insert("schemas/web.json".to_owned(), rest.to_owned())),
        "view" => {
            change(table, "[status]", "[view]\ntemplate = \"view.yaml\"\n\n[status]");
            files.insert("mappings/web/view.yaml".to_owned(), rest.to_owned());
        }
        _ => drop(files.insert(template.to_owned(), text.to_owned())),
    }
    match Service::load(&files, "web", &KINDS) {
        Err(findings) => told(&findings, &files),
        Ok(service) => {
            loaded(&service);
            runs(&service);
        }
    }
}

/// Every rule ends, by a value or by an error that says where.
fn runs(service: &Service) {
    let spec = json!({
        "name": "a", "image": "registry.example/a:1", "replicas": 2, "labels": { "a": "b" },
        "ports": [{ "number": 80, "visibility": "public" }, { "number": 81 }],
    });
    let manifests = match trial::create(service, &spec) {
        Outcome::Made(manifests) => manifests,
        Outcome::Refused | Outcome::TooLarge => return,
        Outcome::Failed(error) => return assert!(!error.message.is_empty(), "an error without a word"),
    };
    for manifest in &manifests {
        assert!(manifest.body.is_object() && !manifest.name.is_empty(), "an object without a name");
        // Whether it is one that the API server takes is for `prove` to say; it must not panic.
        KINDS.faults(&manifest.kind, &manifest.body);
    }
    let mut inputs = trial::inputs(service, &spec);
    trial::explained(service, &inputs, &manifests);
    inputs.observed = trial::observed(service, &manifests);
    if let Err(error) = trial::seen(service, &inputs) {
        assert!(!error.message.is_empty(), "an error without a word");
    }
    let again = service.render(&trial::identity(), &trial::inputs(service, &spec), 0);
    assert_eq!(again.ok().as_ref(), Some(&manifests), "the same input makes other objects");
    let request = service.read_update(spec);
    let _ = trial::judge(service, Moment::Update, &request, &inputs);
}
