//! `mapwright diff`: what a change of mappings does to instances, field by field.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::offline::{Offline, Stop, compile, items, open, read_document};
use super::{End, result};
use crate::engine::change::{Change, changes};
use crate::engine::manifest::Manifest;
use crate::engine::samples::samples;
use crate::engine::service::Service;
use crate::record::InstanceRecord;

/// Show what a change of mappings does to instances.
///
/// Specs are files, or records as kubectl get configmap -o yaml prints them; without any, the specs of the
/// cases of NEW are rendered, and for a type without cases those that cover its schema.
///
/// Exit codes: 0 for the same objects, 1 for others, 2 for an error.
///
/// Example: mapwright diff deployed/ . spec.yaml
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder that holds the `mappings` and `schemas` of before.
    old: PathBuf,
    /// The folder that holds those of after.
    new: PathBuf,
    specs: Vec<PathBuf>,
    #[command(flatten)]
    offline: Offline,
}

pub(super) fn run(arguments: &Arguments) -> End {
    match differences(arguments) {
        Ok(text) if text.is_empty() => End::Success,
        Ok(text) => {
            result(&text);
            End::Findings
        }
        // A mapping that does not load is an error here, not a difference.
        Err(stop) => Stop::usage(stop.text).tell(),
    }
}

/// A spec that is rendered under both mappings.
struct Subject {
    name: String,
    body: Value,
    record: Option<InstanceRecord>,
}

/// What a mapping makes of a spec.
enum Made {
    Objects(Vec<Manifest>),
    Refused(String),
}

fn differences(arguments: &Arguments) -> Result<String, Stop> {
    let (old, new) = (open(&arguments.old)?, open(&arguments.new)?);
    let mut given = Vec::new();
    for path in &arguments.specs {
        given.extend(subjects(path)?);
    }
    let mut text = String::new();
    let (mut count, mut different) = (0, 0);
    for name in old.1.iter().filter(|name| !new.1.contains(name)) {
        let _ = writeln!(text, "{name}: the mapping is gone");
    }
    for name in &new.1 {
        let after = compile(&new.0, name)?;
        if !old.1.contains(name) {
            let _ = writeln!(text, "{name}: the mapping is new");
            continue;
        }
        let before = compile(&old.0, name)?;
        let subjects = of_type(&after, &given, arguments, name);
        count += subjects.len();
        for subject in subjects {
            let told = subject.compare(&before, &after, &arguments.offline)?;
            different += usize::from(!told.is_empty());
            if !told.is_empty() {
                let _ = write!(text, "{name}: {}\n{told}", subject.name);
            }
        }
    }
    if count == 0 && text.is_empty() {
        return Err(Stop::usage("no spec is of a type that both folders have, so nothing is compared"));
    }
    eprintln!("{count} specs rendered, {different} differ");
    Ok(text)
}

/// The specs of one type: those that were given, else those of its cases, else samples of its schema.
fn of_type(service: &Service, given: &[Subject], arguments: &Arguments, name: &str) -> Vec<Subject> {
    let body =
        |subject: &Subject| subject.body.get("spec").unwrap_or(&subject.body).get("service_type").cloned();
    let of_type = |subject: &&Subject| match &subject.record {
        Some(record) => record.service_type == service.service_type,
        None => body(subject).is_some_and(|word| word == service.service_type.as_str()),
    };
    if !arguments.specs.is_empty() {
        return given.iter().filter(of_type).map(Subject::again).collect();
    }
    let cases = arguments.new.join("testdata/cases").join(name);
    let mut subjects = Vec::new();
    for folder in std::fs::read_dir(&cases).into_iter().flatten().flatten() {
        let spec = folder.path().join("spec.yaml");
        // What a case holds may be malformed on purpose.
        if let Ok(body) = read_document(&spec) {
            subjects.push(Subject { name: spec.display().to_string(), body, record: None });
        }
    }
    subjects.sort_by(|a, b| a.name.cmp(&b.name));
    if subjects.is_empty() {
        let made = samples(&service.schema.document).into_iter().enumerate();
        subjects = made
            .map(|(index, body)| Subject { name: format!("sample {}", index + 1), body, record: None })
            .collect();
    }
    subjects
}

/// The specs of a file: one, or those of records.
fn subjects(path: &Path) -> Result<Vec<Subject>, Stop> {
    let document = read_document(path)?;
    let name = path.display().to_string();
    if document.get("kind").is_none() && !document.is_array() {
        return Ok(vec![Subject { name, body: document, record: None }]);
    }
    let mut found = Vec::new();
    for object in items(document) {
        let text = object.pointer("/data/record.json").and_then(Value::as_str);
        let record = text.map(serde_json::from_str::<Value>).and_then(Result::ok);
        if let Some(record) = record.and_then(|value| InstanceRecord::from_json(&value).ok()) {
            let body = record.spec.clone();
            found.push(Subject { name: format!("{name}: {}", record.id), body, record: Some(record) });
        }
    }
    if found.is_empty() {
        return Err(Stop::usage(format!("{name} holds neither a spec nor records")));
    }
    Ok(found)
}

impl Subject {
    fn again(&self) -> Self {
        Self { name: self.name.clone(), body: self.body.clone(), record: self.record.clone() }
    }

    fn made(&self, service: &Service, offline: &Offline) -> Result<Made, Stop> {
        let mut prepared = match offline.prepare(service, self.body.clone()) {
            Ok(prepared) => prepared,
            Err(Stop { text, end: End::Findings }) => return Ok(Made::Refused(text)),
            Err(stop) => return Err(stop),
        };
        if let Some(record) = &self.record {
            prepared.identity.id.clone_from(&record.id);
            prepared.identity.provider.clone_from(&record.provider);
            prepared.identity.life = record.life;
        }
        match service.render(&prepared.identity, &prepared.inputs, 0) {
            Ok(manifests) => Ok(Made::Objects(manifests)),
            Err(error) => Ok(Made::Refused(format!("the spec cannot be rendered: {error}"))),
        }
    }

    /// What differs, in lines; nothing where nothing does.
    fn compare(&self, before: &Service, after: &Service, offline: &Offline) -> Result<String, Stop> {
        let mut text = String::new();
        match (self.made(before, offline)?, self.made(after, offline)?) {
            (Made::Objects(old), Made::Objects(new)) => objects(&old, &new, after, &mut text),
            (Made::Refused(old), Made::Refused(new)) if old == new => {}
            (old, new) => {
                let _ = writeln!(text, "  before: {}\n  after:  {}", old.words(), new.words());
            }
        }
        Ok(text)
    }
}

impl Made {
    fn words(&self) -> String {
        match self {
            Self::Objects(manifests) => format!("{} objects", manifests.len()),
            Self::Refused(why) => why.replace('\n', "\n          "),
        }
    }
}

fn objects(old: &[Manifest], new: &[Manifest], after: &Service, text: &mut String) {
    for manifest in old.iter().filter(|old| new.iter().all(|new| new.object != old.object)) {
        let _ = writeln!(text, "  - {} ({} {})", manifest.object, manifest.kind.kind, manifest.name);
    }
    for manifest in new {
        let (object, kind, name) = (&manifest.object, &manifest.kind.kind, &manifest.name);
        let Some(before) = old.iter().find(|old| old.object == *object) else {
            let _ = writeln!(text, "  + {object} ({kind} {name})");
            continue;
        };
        let found = changes(&before.body, &manifest.body);
        if !found.is_empty() {
            let _ = writeln!(text, "  ~ {object} ({kind} {name})");
        }
        let places = after.object(object).map(|rule| rule.restarts.as_slice()).unwrap_or_default();
        for change in found {
            tell(&change, change.is_within(places), text);
        }
    }
}

fn tell(change: &Change, restarts: bool, text: &mut String) {
    let note = if restarts { "  (restarts pods)" } else { "" };
    let pointer = &change.pointer;
    let _ = match (&change.before, &change.after) {
        (Some(before), Some(after)) => writeln!(text, "      ~ {pointer}: {before} -> {after}{note}"),
        (Some(before), None) => writeln!(text, "      - {pointer}: {before}{note}"),
        (None, Some(after)) => writeln!(text, "      + {pointer}: {after}{note}"),
        (None, None) => Ok(()),
    };
}
