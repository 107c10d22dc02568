//! Whatever a valid spec holds: objects or a refusal, never a panic, and never another shape.

use mapwright::engine::format::Moment;
use mapwright::engine::inputs::{Identity, Inputs};
use mapwright::engine::request::Judged;
use mapwright::engine::samples::samples;
use mapwright::engine::service::Service;
use mapwright::kinds;
use mapwright_properties::shape::{shape, texts};
use serde_json::{Value, json};

use super::offline::mapping_files;

pub(crate) const STRINGS: [&str; 12] = [
    "placeholder",
    "yes",
    "0999",
    "1e3",
    "{{ 7 * 7 }}",
    "{% set x = 1 %}",
    "x\nspec: {replicas: 9}",
    "'\"\\",
    "- a",
    "\u{1f980}\u{0}\u{7f}",
    "",
    " ",
];

pub(crate) fn service(name: &str) -> Service {
    let files = mapping_files().into_iter().map(|file| (file.name, file.text)).collect();
    Service::load(&files, name, kinds::embedded()).unwrap_or_else(|findings| panic!("{findings}"))
}

/// The objects of a spec; none where it is refused.
fn objects(service: &Service, spec: &Value) -> Option<Vec<Value>> {
    let identity = Identity { id: "a".into(), provider: "p".into(), namespace: "ns".into(), life: 1 };
    let request = service.read_create(spec.clone());
    let mut inputs = Inputs { spec: request.spec.clone(), ..Inputs::default() };
    for rule in &service.settings {
        let value = rule.default.clone().or_else(|| rule.allowed.first().map(|word| word.as_str().into()));
        inputs.settings.extend(value.map(|value| (rule.name.clone(), value)));
    }
    let there = |get: bool| if get { json!({ "metadata": { "name": "x" } }) } else { json!([]) };
    inputs.lookups = service.lookups.iter().map(|rule| Some(there(rule.get.is_some()))).collect();
    match service.judge(Moment::Create, &request, &identity, &inputs).unwrap() {
        Judged::Passed => {
            let manifests = service.render(&identity, &inputs, 0);
            Some(manifests.unwrap().into_iter().map(|manifest| manifest.body).collect())
        }
        _ => None,
    }
}

/// The spec with one text at every place where it is valid there.
pub(crate) fn filled(service: &Service, spec: &Value, text: &str) -> Value {
    let mut places = Vec::new();
    texts(spec, String::new(), &mut places);
    let mut filled = spec.clone();
    for place in places {
        let before = filled.clone();
        *filled.pointer_mut(&place).unwrap() = text.into();
        if !service.schema.faults(&filled).is_empty() {
            filled = before;
        }
    }
    filled
}

#[test]
fn no_string_changes_the_shape_of_a_manifest_or_the_type_of_a_field() {
    for name in ["container", "storage"] {
        let service = service(name);
        let mut compared = 0;
        for spec in samples(&service.schema.document).into_iter().step_by(3) {
            let Some(base) = objects(&service, &spec) else { continue };
            let base: Vec<Value> = base.iter().map(shape).collect();
            for text in STRINGS {
                // Equal names may be refused as duplicates; what passes has the same shape.
                if let Some(made) = objects(&service, &filled(&service, &spec, text)) {
                    assert_eq!(
                        made.iter().map(shape).collect::<Vec<_>>(),
                        base,
                        "{name} with {text:?}: {spec}"
                    );
                    compared += 1;
                }
            }
        }
        assert!(compared > 50, "only {compared} specs of {name} were compared");
    }
}

/// A small generator of numbers: the same ones in each run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

/// Changes a document at one place: drops, repeats or replaces what stands there.
pub(crate) fn disturb(value: &mut Value, numbers: &mut Numbers) {
    let odd =
        [json!(null), json!([]), json!({}), json!(""), json!(-1), json!(1.5), json!(u64::MAX), json!(true)];
    match value {
        Value::Object(members) if !members.is_empty() && numbers.below(4) > 0 => {
            let key = members.keys().nth(numbers.below(members.len())).cloned().unwrap();
            match numbers.below(6) {
                0 => drop(members.shift_remove(&key)),
                _ => disturb(&mut members[&key], numbers),
            }
        }
        Value::Array(items) if !items.is_empty() && numbers.below(4) > 0 => {
            let at = numbers.below(items.len());
            match numbers.below(4) {
                0 => items.push(items[at].clone()),
                1 => drop(items.remove(at)),
                _ => disturb(&mut items[at], numbers),
            }
        }
        other => *other = odd[numbers.below(odd.len())].clone(),
    }
}

#[test]
fn any_document_gives_objects_or_a_refusal_and_never_a_failing_rule() {
    let mut numbers = Numbers(20_240_229);
    for name in ["container", "storage"] {
        let service = service(name);
        let (mut made, mut refused) = (0, 0);
        for spec in samples(&service.schema.document) {
            for _ in 0..3 {
                let mut spec = spec.clone();
                for _ in 0..=numbers.below(2) {
                    disturb(&mut spec, &mut numbers);
                }
                match objects(&service, &spec) {
                    Some(objects) => {
                        assert!(objects.iter().all(Value::is_object));
                        made += 1;
                    }
                    None => refused += 1,
                }
            }
        }
        assert!(made > 5 && refused > 50, "{name}: {made} made, {refused} refused");
    }
}

#[test]
fn a_spec_that_makes_too_much_is_told_so_at_its_place() {
    let service = service("container");
    let mut spec = super::offline::container();
    let argument = "x".repeat(700_000);
    spec["process"]["args"] = json!([argument, argument]);
    let error = render(&service, spec.clone());
    assert!(error.too_large && error.place.file.ends_with("deployment.yaml"), "{}", error.message);
    assert_eq!(error.place.text, "{{ spec.process.args }}");
    spec["process"]["args"] = (0..20_000).map(|_| Value::from("")).collect();
    let error = render(&service, spec);
    assert!(error.too_large && error.message.contains("10000"), "{}", error.message);
}

fn render(service: &Service, spec: Value) -> mapwright::engine::expression::EvalError {
    let identity = Identity { id: "a".into(), provider: "p".into(), namespace: "ns".into(), life: 1 };
    let inputs = Inputs { spec, ..Inputs::default() };
    service.render(&identity, &inputs, 0).unwrap_err()
}
