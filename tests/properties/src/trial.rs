//! One request, taken all the way that a server takes it, with nothing around it.

use std::sync::Arc;

use mapwright_engine::expression::EvalError;
use mapwright_engine::format::Moment;
use mapwright_engine::inputs::{Identity, Inputs};
use mapwright_engine::manifest::Manifest;
use mapwright_engine::request::{Judged, Request};
use mapwright_engine::service::Service;
use mapwright_engine::view::Header;
use serde_json::{Value, json};

/// What became of a request.
pub(crate) enum Outcome {
    Made(Vec<Manifest>),
    Refused,
    /// What a caller sent makes more than there is room for.
    TooLarge,
    Failed(EvalError),
}

pub(crate) fn identity() -> Identity {
    Identity { id: "a".into(), provider: "p".into(), namespace: "ns".into(), life: 1 }
}

/// The inputs of a request: usual settings, and look-ups that find something.
pub(crate) fn inputs(service: &Service, spec: &Value) -> Inputs {
    let mut inputs = Inputs { spec: spec.clone(), ..Inputs::default() };
    for rule in &service.settings {
        let value = rule.default.clone().or_else(|| rule.allowed.first().map(|word| word.as_str().into()));
        inputs.settings.extend(value.map(|value| (rule.name.clone(), value)));
    }
    let found = service.lookups.iter().map(|rule| {
        let object = json!({ "metadata": { "name": "x" }, "allowVolumeExpansion": true });
        Some(if rule.list { json!([object]) } else { object })
    });
    inputs.lookups = found.collect();
    inputs
}

/// The objects of a create, or why there are none.
pub(crate) fn create(service: &Service, body: &Value) -> Outcome {
    let request = service.read_create(body.clone());
    let inputs = inputs(service, &request.spec);
    match judge(service, Moment::Create, &request, &inputs) {
        Some(refused) => refused,
        None => match service.render(&identity(), &inputs, 0) {
            Ok(manifests) => Outcome::Made(manifests),
            Err(error) => failed(error),
        },
    }
}

/// The outcome of the checks, where they do not all pass.
pub(crate) fn judge(
    service: &Service,
    moment: Moment,
    request: &Request,
    inputs: &Inputs,
) -> Option<Outcome> {
    match service.judge(moment, request, &identity(), inputs) {
        Ok(Judged::Passed) => None,
        Ok(Judged::Refused(problem)) => {
            assert!(!problem.detail.is_empty(), "a refusal without a word");
            Some(Outcome::Refused)
        }
        Ok(Judged::Needs(positions)) => {
            panic!("look-ups are asked for that were given: {positions:?}")
        }
        Err(error) => Some(failed(error)),
    }
}

/// The objects as if they were just made: nothing has reacted to them.
pub(crate) fn observed(service: &Service, manifests: &[Manifest]) -> Vec<Vec<Arc<Value>>> {
    let of_kind = |watch: &mapwright_engine::service::WatchRule| {
        let made = manifests.iter().filter(|manifest| manifest.kind == watch.kind);
        made.map(|manifest| Arc::new(manifest.body.clone())).collect()
    };
    service.watches.iter().map(of_kind).collect()
}

/// What `explain` says of these objects: the same objects, and of each field the value that it has.
pub(crate) fn explained(service: &Service, inputs: &Inputs, manifests: &[Manifest]) {
    let traced = service.trace(&identity(), inputs, 0).expect("what renders can be explained");
    let again: Vec<&Manifest> = traced.iter().filter_map(|object| object.manifest.as_ref()).collect();
    assert_eq!(again, manifests.iter().collect::<Vec<_>>(), "other objects are explained than made");
    for object in &traced {
        for field in object.fields.iter().filter(|field| field.value.is_some()) {
            let there = object.manifest.as_ref().and_then(|manifest| manifest.body.pointer(&field.pointer));
            assert_eq!(
                there,
                field.value.as_ref(),
                "{} of `{}` is something else",
                field.pointer,
                object.object
            );
        }
    }
}

/// Status and view of what was observed.
pub(crate) fn seen(service: &Service, inputs: &Inputs) -> Result<Value, EvalError> {
    let observation = service.observe(&identity(), inputs)?;
    service.explain_status(&identity(), inputs)?;
    let header = Header {
        status: observation.status,
        status_message: observation.message,
        create_time: "2026-01-01T00:00:00Z".to_owned(),
    };
    service.view(&identity(), inputs, &header)
}

fn failed(error: EvalError) -> Outcome {
    if error.too_large { Outcome::TooLarge } else { Outcome::Failed(error) }
}
