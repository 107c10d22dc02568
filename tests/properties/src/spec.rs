//! Bodies of requests: objects that the API server takes or a refusal, and no text changes their shape.

use std::sync::LazyLock;

use mapwright_engine::diagnostic::Findings;
use mapwright_engine::emit::emit;
use mapwright_engine::format::Moment;
use mapwright_engine::inputs::Inputs;
use mapwright_engine::json::read_body;
use mapwright_engine::manifest::Manifest;
use mapwright_engine::problem::ProblemStyle;
use mapwright_engine::read::read;
use mapwright_engine::samples::samples;
use mapwright_engine::service::Service;
use mapwright_engine::source::Source;
use serde_json::Value;

use crate::shape::{shape, texts};
use crate::shipped::{KINDS, SERVICES};
use crate::trial::{self, Outcome};

/// So many texts of one spec are tried with another text in their place.
const PLACES: usize = 24;

/// Texts that change no meaning, wherever they are valid.
const PLAIN: [&str; 2] = ["placeholder", "7"];

/// Of each shipped mapping, an instance of the smallest spec.
static MADE: LazyLock<Vec<Inputs>> = LazyLock::new(|| {
    let smallest = SERVICES.iter().map(|service| {
        let specs = samples(&service.schema.document).into_iter();
        let mut made = specs.filter_map(|spec| match trial::create(service, &spec) {
            Outcome::Made(manifests) => Some((spec, manifests)),
            _ => None,
        });
        let (spec, manifests) = made.next().expect("a shipped mapping makes something");
        let observed = trial::observed(service, &manifests);
        Inputs { observed, ..trial::inputs(service, &spec) }
    });
    smallest.collect()
});

/// The body of a request, as it comes from the wire.
pub fn holds(bytes: &[u8]) {
    let body = match read_body(bytes) {
        Ok(body) => body,
        Err(problem) => {
            let document = problem.to_json(&ProblemStyle::BareCode, "/");
            assert!(document["detail"].is_string(), "a refusal without a word");
            return;
        }
    };
    let again = read_body(body.to_string().as_bytes());
    assert_eq!(again.ok().as_ref(), Some(&body), "a body that we wrote is not read as it was");
    for (service, made) in SERVICES.iter().zip(MADE.iter()) {
        created(service, &body);
        updated(service, made, &body);
    }
}

fn created(service: &Service, body: &Value) {
    let manifests = match trial::create(service, body) {
        Outcome::Made(manifests) => manifests,
        Outcome::Refused | Outcome::TooLarge => return,
        Outcome::Failed(error) => panic!("a valid spec breaks a rule: {error}"),
    };
    manifests.iter().for_each(typed);
    let request = service.read_create(body.clone());
    let mut inputs = trial::inputs(service, &request.spec);
    trial::explained(service, &inputs, &manifests);
    inputs.observed = trial::observed(service, &manifests);
    trial::seen(service, &inputs).unwrap_or_else(|error| panic!("a valid spec breaks the view: {error}"));
    let shapes: Vec<Value> = manifests.iter().map(|manifest| shape(&manifest.body)).collect();
    let mut places = Vec::new();
    texts(&request.spec, String::new(), &mut places);
    for place in places.iter().take(PLACES) {
        for text in PLAIN {
            let mut plain = request.spec.clone();
            plain.pointer_mut(place).expect("it was found there").clone_from(&text.into());
            if let Outcome::Made(made) = trial::create(service, &plain) {
                let other: Vec<Value> = made.iter().map(|manifest| shape(&manifest.body)).collect();
                assert_eq!(other, shapes, "the text at {place} changes the shape");
            }
        }
    }
}

/// The same body as a change of an instance that was made.
fn updated(service: &Service, made: &Inputs, body: &Value) {
    let request = service.read_update(body.clone());
    let mut inputs = made.clone();
    inputs.patch = Some(request.spec.clone());
    match trial::judge(service, Moment::Update, &request, &inputs) {
        Some(Outcome::Failed(error)) => panic!("a patch breaks a check: {error}"),
        Some(_) => {}
        None => {
            let patched = service.patches(&trial::identity(), &inputs);
            let spec = service.updated_spec(&trial::identity(), &inputs);
            if let Some(error) = patched.err().or(spec.err()).filter(|error| !error.too_large) {
                panic!("a valid patch breaks a rule: {error}");
            }
        }
    }
}

/// The API server takes the object, and its YAML says the same.
fn typed(manifest: &Manifest) {
    let faults = KINDS.faults(&manifest.kind, &manifest.body);
    assert!(faults.is_empty(), "the API server refuses `{}`: {faults:?}", manifest.object);
    let mut findings = Findings::default();
    let tree = read(&Source::new("object.yaml", emit(&manifest.body)), &mut findings);
    assert!(findings.is_empty(), "the YAML of an object is not read: {findings}");
    assert_eq!(tree.map(|tree| tree.to_json()).as_ref(), Some(&manifest.body), "YAML says something else");
}
