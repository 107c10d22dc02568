//! `mapwright explain`: where each field comes from, what a field of the spec reaches, why a status is said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::offline::{Offline, Prepared, Root, Stop, items, load, read_document};
use super::{End, result};
use crate::engine::diagnostic::nearest;
use crate::engine::explain::one_line;
use crate::engine::inputs::Previous;
use crate::engine::provenance::{Field, Input, TracedObject, pointer_of};
use crate::engine::service::Service;

/// Tell where each field comes from, or why a status is said.
///
/// Places of the spec are JSON pointers (/image/reference); everything else that a mapping reads is written
/// as its expressions write it (settings.name, pod.status.phase).
///
/// Example: mapwright explain container spec.yaml spec.template.spec.containers[0].image
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The service type.
    r#type: String,
    /// A file with the spec, in YAML or JSON; `-` is standard input.
    #[arg(required_unless_present = "status")]
    spec: Option<PathBuf>,
    /// One field, and what is below it: a JSON pointer, or as kubectl writes it.
    path: Option<String>,
    /// What this field of the spec reaches: a JSON pointer.
    #[arg(long, value_name = "POINTER", conflicts_with = "status")]
    from: Option<String>,
    /// A file with observed objects, as kubectl get -o yaml prints them: tells each row of the status table.
    #[arg(long, value_name = "OBJECTS")]
    status: Option<PathBuf>,
    /// The status that was said before, for rows that keep it.
    #[arg(long, requires = "status")]
    previous: Option<String>,
    #[command(flatten)]
    root: Root,
    #[command(flatten)]
    offline: Offline,
}

pub(super) fn run(arguments: &Arguments) -> End {
    match explained(arguments) {
        Ok(text) => {
            result(&text);
            End::Success
        }
        Err(stop) => stop.tell(),
    }
}

fn explained(arguments: &Arguments) -> Result<String, Stop> {
    let service = load(&arguments.root.root, &arguments.r#type)?;
    let prepared = match &arguments.spec {
        Some(spec) => arguments.offline.prepare(&service, read_document(spec)?)?,
        None => arguments.offline.observed(&service)?,
    };
    match &arguments.status {
        Some(objects) => status(&service, prepared, objects, arguments.previous.as_deref()),
        None => fields(&service, &prepared, arguments),
    }
}

fn fields(service: &Service, prepared: &Prepared, arguments: &Arguments) -> Result<String, Stop> {
    let traced = service.trace(&prepared.identity, &prepared.inputs, 0);
    let traced = traced.map_err(|error| Stop::finding(error.to_string()))?;
    let from = arguments.from.as_deref();
    let path = arguments.path.as_deref().map(pointer_of).unwrap_or_default();
    let mut text = String::new();
    for object in &traced {
        let wanted = |field: &&Field| {
            let below = field.pointer.strip_prefix(&path);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                && from.is_none_or(|from| reaches(field, from))
        };
        let shown: Vec<&Field> = object.fields.iter().filter(wanted).collect();
        let condition = object.condition.as_ref().map(|(_, inputs)| inputs.as_slice()).unwrap_or_default();
        let decides = from.is_some_and(|from| touched(condition, from));
        let whole = from.is_none() && path.is_empty();
        if whole || decides || !shown.is_empty() {
            tell_object(object, &mut text);
            shown.iter().for_each(|field| tell_field(service, field, &mut text));
        }
    }
    if text.is_empty() {
        let nothing = match from {
            Some(from) => format!("no field of an object comes from {from}"),
            None => format!("no object has the field {path}"),
        };
        return Err(Stop::finding(nothing + &meant(&traced, from, &path)));
    }
    Ok(text)
}

/// What was probably asked for, where nothing has the pointer that was given.
fn meant(traced: &[TracedObject], from: Option<&str>, path: &str) -> String {
    let fields = || traced.iter().flat_map(|object| &object.fields);
    let near = match from {
        Some(from) => {
            let inputs = fields().flat_map(|field| field.inputs.iter().chain(&field.governed));
            let conditions =
                traced.iter().flat_map(|object| &object.condition).flat_map(|(_, inputs)| inputs);
            let of_spec = inputs.chain(conditions).filter(|input| input.root == "spec");
            nearest(from, of_spec.map(|input| input.pointer.as_str()))
        }
        None => nearest(path, fields().map(|field| field.pointer.as_str())),
    };
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

fn reaches(field: &Field, from: &str) -> bool {
    touched(&field.inputs, from) || touched(&field.governed, from)
}

fn touched(inputs: &[Input], pointer: &str) -> bool {
    inputs.iter().any(|input| input.touches("spec", pointer))
}

fn tell_object(object: &TracedObject, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = match &object.manifest {
        Some(manifest) => writeln!(text, "{}: {} {}", object.object, manifest.kind.kind, manifest.name),
        None => writeln!(text, "{}: left out", object.object),
    };
    if let Some((place, inputs)) = &object.condition {
        let (file, line, column) = (&place.file, place.line, place.column);
        let _ = writeln!(text, "  when {}  ({file}:{line}:{column})", one_line(&place.text));
        let _ = writeln!(text, "      decided by {}", list(inputs));
    }
}

fn tell_field(service: &Service, field: &Field, text: &mut String) {
    let secret = field.inputs.iter().any(|input| service.is_secret(input));
    let value = match &field.value {
        Some(_) if secret => "<secret>".to_owned(),
        Some(value) => value.to_string(),
        None => "absent".to_owned(),
    };
    let _ = writeln!(text, "  {} = {value}", field.pointer);
    match &field.place {
        Some(place) => {
            let (file, line, column) = (&place.file, place.line, place.column);
            let _ = writeln!(text, "      {file}:{line}:{column}: {}", one_line(&place.text));
        }
        None => text.push_str("      added by the engine\n"),
    }
    if !field.inputs.is_empty() {
        let _ = writeln!(text, "      from {}", list(&field.inputs));
    }
    if !field.governed.is_empty() {
        let _ = writeln!(text, "      decided by {}", list(&field.governed));
    }
}

fn list(inputs: &[Input]) -> String {
    inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn status(
    service: &Service,
    mut prepared: Prepared,
    objects: &Path,
    previous: Option<&str>,
) -> Result<String, Stop> {
    let values: Vec<&str> = service.status.values.iter().map(String::as_str).collect();
    if let Some(word) = previous.filter(|word| !values.contains(word)) {
        let help = nearest(word, values.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        let help = help.unwrap_or_else(|| format!("the words are: {}", values.join(", ")));
        return Err(Stop::usage(format!("--previous {word}: not a status of this mapping; {help}")));
    }
    prepared.inputs.observed = service.watches.iter().map(|_| Vec::new()).collect();
    for object in items(read_document(objects)?) {
        let mut places = service.watches.iter().zip(&mut prepared.inputs.observed);
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let object = Arc::new(object);
        let seen = places
            .by_ref()
            .filter(|(watch, _)| watch.kind.api_version == version && watch.kind.kind == kind)
            .map(|(_, place)| place.push(object.clone()))
            .count();
        if seen == 0 {
            eprintln!("no watch observes {version} {kind}");
        }
    }
    if prepared.inputs.observed.iter().all(Vec::is_empty) {
        eprintln!("{}: there is no object of a watched kind in it", objects.display());
    }
    prepared.inputs.previous =
        previous.map(|status| Previous { status: status.to_owned(), message: String::new() });
    let why = service.explain_status(&prepared.identity, &prepared.inputs);
    let why = why.map_err(|error| Stop::finding(error.to_string()))?;
    Ok(format!("{why}\n"))
}
