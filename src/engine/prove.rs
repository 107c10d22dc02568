//! A mapping against specs that its own schema allows: what it renders of each must be an object that the API
//! server takes, or a refusal by a check.

mod adopted;
mod shrink;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use crate::diagnostic::Findings;
use crate::expression::EvalError;
use crate::format::Moment;
use crate::inputs::{Identity, Inputs};
use crate::kinds::Kinds;
use crate::manifest::Manifest;
use crate::problem::Problem;
use crate::request::Judged;
use crate::samples::samples;
use crate::service::{Files, LookupRule, Service, SettingRule};
use crate::source::{Kind, Source, Span, Tree};
use crate::view::Header;

/// What the proof of one mapping came to.
#[derive(Debug, Default)]
pub struct Proof {
    pub findings: Findings,
    /// Specs of which objects were made.
    pub rendered: usize,
    /// Specs that a check refused.
    pub refused: usize,
}

/// Something that a valid spec breaks.
#[derive(Clone, Debug)]
struct Break {
    code: &'static str,
    file: String,
    span: Span,
    message: String,
}

impl Break {
    /// Two specs break the same thing when this is equal.
    fn key(&self) -> (&'static str, &str, usize) {
        (self.code, &self.file, self.span.start)
    }
}

/// Renders every sample of the spec's schema, and reports the smallest spec of each kind that breaks something.
pub fn prove(service: &Service, files: &Files, kinds: &Kinds) -> Proof {
    let trial = Trial { service, files, kinds };
    let mut proof = Proof::default();
    let mut broken: BTreeMap<String, (Break, Json)> = BTreeMap::new();
    // The first two are the smallest and the largest spec, and most others differ from these in one place.
    let mut refusals = Vec::new();
    for (index, (spec, settings)) in trial.cases().into_iter().enumerate() {
        match trial.run(&spec, &settings) {
            Outcome::Rendered(_) => proof.rendered += 1,
            Outcome::Refused(problem) => {
                proof.refused += 1;
                refusals.extend(problem.filter(|_| index < 2));
            }
            Outcome::Broken(breaks) => {
                for found in breaks {
                    let key = format!("{:?}", found.key());
                    broken.entry(key).or_insert_with(|| trial.smallest(found, &spec, &settings));
                }
            }
        }
    }
    if refusals.len() == 2 || (proof.rendered == 0 && broken.is_empty()) {
        trial.nothing_proven(&refusals, &mut proof.findings);
    }
    for (found, spec) in broken.into_values() {
        let help = format!("the smallest such spec is {}", shortened(&spec));
        let source = trial.source(&found.file);
        proof.findings.add_with_help(&source, &found.span, found.code, found.message, Some(help));
    }
    proof.findings = proof.findings.sorted();
    proof
}

/// Every spec that the proof renders, with the objects it becomes.
pub fn rendered(service: &Service, files: &Files, kinds: &Kinds) -> Vec<(Json, Vec<Manifest>)> {
    let trial = Trial { service, files, kinds };
    let cases = trial.cases().into_iter().filter_map(|(spec, settings)| match trial.run(&spec, &settings) {
        Outcome::Rendered(manifests) => Some((spec, manifests)),
        _ => None,
    });
    cases.collect()
}

struct Trial<'t> {
    service: &'t Service,
    files: &'t Files,
    kinds: &'t Kinds,
}

enum Outcome {
    Rendered(Vec<Manifest>),
    Refused(Option<Problem>),
    Broken(Vec<Break>),
}

impl Trial<'_> {
    /// Every sample with usual settings; the smallest and the largest with all others.
    fn cases(&self) -> Vec<(Json, Map<String, Json>)> {
        let valid = samples(&self.service.schema.document).into_iter();
        let valid: Vec<Json> = valid.filter(|spec| self.service.schema.accepts(spec)).collect();
        let usual = usual_settings(&self.service.settings);
        let mut cases: Vec<(Json, Map<String, Json>)> =
            valid.iter().map(|spec| (spec.clone(), usual.clone())).collect();
        for rule in &self.service.settings {
            for value in setting_values(rule) {
                let mut settings = usual.clone();
                match value {
                    Some(value) => settings.insert(rule.name.clone(), value),
                    None => settings.shift_remove(&rule.name),
                };
                cases.extend(valid.iter().take(2).map(|spec| (spec.clone(), settings.clone())));
            }
        }
        cases
    }

    fn run(&self, spec: &Json, settings: &Map<String, Json>) -> Outcome {
        let identity = Identity {
            id: "sample".to_owned(),
            provider: "provider".to_owned(),
            namespace: "default".to_owned(),
            life: 1,
        };
        let lookups = self.service.lookups.iter().map(|rule| Some(looked_up(rule))).collect();
        let inputs = Inputs { spec: spec.clone(), settings: settings.clone(), lookups, ..Inputs::default() };
        if let Err(error) = self.names_of_lookups(&identity, &inputs) {
            return Outcome::Broken(vec![self.failing(&error)]);
        }
        let request = self.service.read_create(json!({ "spec": spec }));
        match self.service.judge(Moment::Create, &request, &identity, &inputs) {
            Ok(Judged::Passed) => {}
            Ok(Judged::Refused(problem)) => return Outcome::Refused(Some(problem)),
            Ok(Judged::Needs(_)) => return Outcome::Refused(None),
            Err(error) => return Outcome::Broken(vec![self.failing(&error)]),
        }
        match self.service.render(&identity, &inputs, 0) {
            Err(error) => Outcome::Broken(vec![self.failing(&error)]),
            Ok(manifests) => {
                let mut breaks: Vec<Break> =
                    manifests.iter().flat_map(|manifest| self.misfits(manifest)).collect();
                breaks.extend(self.first_sight(&identity, inputs, &manifests));
                if breaks.is_empty() { Outcome::Rendered(manifests) } else { Outcome::Broken(breaks) }
            }
        }
    }

    /// The names that are looked up in a create.
    fn names_of_lookups(&self, identity: &Identity, inputs: &Inputs) -> Result<(), EvalError> {
        let scope = self.service.scope(identity, inputs)?;
        let judged = self.service.checks.iter().filter(|check| check.on.contains(&Moment::Create));
        let read = judged.flat_map(|check| &check.lookups).filter_map(|at| self.service.lookups.get(*at));
        read.filter_map(|rule| rule.get.as_ref()).try_for_each(|get| {
            self.service.program.name(get, &scope)?;
            Ok(())
        })
    }

    /// Status, view and adoption of an instance that was just made: its objects are there, and nothing reacted
    /// to them.
    fn first_sight(&self, identity: &Identity, mut inputs: Inputs, manifests: &[Manifest]) -> Option<Break> {
        let watches = self.service.watches.iter().map(|watch| {
            let made = manifests.iter().filter(|manifest| manifest.kind == watch.kind);
            made.map(|manifest| Arc::new(manifest.body.clone())).collect()
        });
        inputs.observed = watches.collect();
        let seen = self.service.observe(identity, &inputs).and_then(|observation| {
            let header = Header {
                status: observation.status,
                status_message: observation.message,
                create_time: "2026-01-01T00:00:00Z".to_owned(),
            };
            self.service.view(identity, &inputs, &header)
        });
        match seen.and_then(|_| self.adoption(identity, &inputs, manifests)) {
            Ok(lost) => lost,
            Err(error) => Some(self.failing(&error)),
        }
    }

    fn nothing_proven(&self, refusals: &[Problem], findings: &mut Findings) {
        let source = &self.service.schema.source;
        let message = "no spec could be made of this schema that the checks accept, so nothing is proven";
        let fault = refusals.iter().flat_map(|problem| &problem.faults).next();
        let help = fault.map(|fault| {
            let place = fault.pointer.as_deref().unwrap_or("/spec");
            format!(
                "`examples` at {place} in the schema name values that pass; a check said: {}",
                fault.detail
            )
        });
        findings.add_with_help(source, &(0..0), "nothing-proven", message, help);
    }

    fn failing(&self, error: &EvalError) -> Break {
        let source = self.source(&error.place.file);
        let start = offset(&source, error.place.line, error.place.column);
        let span = start..start + error.place.text.lines().next().map_or(1, str::len);
        let message = format!("a valid spec breaks this expression: {}", error.message);
        Break { code: "failing-expression", file: source.name, span, message }
    }

    /// What the API server would refuse of an object, each at its place in the template.
    fn misfits(&self, manifest: &Manifest) -> Vec<Break> {
        let Some(template) = self.service.object(&manifest.object).map(|object| &object.template) else {
            return Vec::new();
        };
        let at = |pointer: &str| place_of(&template.tree, pointer);
        let mut found = Vec::new();
        for fault in self.kinds.faults(&manifest.kind, &manifest.body) {
            let message = format!(
                "a valid spec makes a {} that the API server refuses: {}",
                manifest.kind.kind,
                sentence(&fault.place, fault.detail())
            );
            let file = template.source.name.clone();
            found.push(Break { code: "refused-object", file, span: at(&fault.place), message });
        }
        let mut missed = Vec::new();
        missed_labels(&manifest.body, "", &mut missed);
        for (pointer, label) in missed {
            let message =
                format!("a valid spec makes a selector that does not match its template: `{label}` differs");
            let file = template.source.name.clone();
            found.push(Break { code: "selector-misses-labels", file, span: at(&pointer), message });
        }
        found
    }

    fn smallest(&self, found: Break, spec: &Json, settings: &Map<String, Json>) -> (Break, Json) {
        let same = |spec: &Json| {
            if !self.service.schema.accepts(spec) {
                return None;
            }
            match self.run(spec, settings) {
                Outcome::Broken(breaks) => breaks.into_iter().find(|other| other.key() == found.key()),
                _ => None,
            }
        };
        let smallest = shrink::smallest(spec, |spec| same(spec).is_some());
        (same(&smallest).unwrap_or_else(|| found.clone()), smallest)
    }

    fn source(&self, file: &str) -> Source {
        Source::new(file, self.files.get(file).cloned().unwrap_or_default())
    }
}

/// A value for each setting, so that a mapping has what it asks for.
fn usual_settings(rules: &[SettingRule]) -> Map<String, Json> {
    let usual = rules.iter().filter_map(|rule| {
        let value = rule.default.clone().or_else(|| setting_values(rule).into_iter().flatten().next())?;
        (rule.default.is_some() || rule.required).then(|| (rule.name.clone(), value))
    });
    usual.collect()
}

/// Every value of a setting that is worth trying, absence among them where it is allowed.
fn setting_values(rule: &SettingRule) -> Vec<Option<Json>> {
    use crate::format::SettingKind;
    let values: Vec<Json> = match rule.kind {
        SettingKind::String if !rule.allowed.is_empty() => {
            rule.allowed.iter().map(|word| word.as_str().into()).collect()
        }
        SettingKind::String => vec!["value".into()],
        SettingKind::Integer | SettingKind::Number => vec![1.into(), 0.into()],
        SettingKind::Boolean => vec![true.into(), false.into()],
    };
    let absent = (!rule.required && rule.default.is_none()).then_some(None);
    values.into_iter().map(Some).chain(absent).collect()
}

/// Something is there, so that no check refuses for want of it.
fn looked_up(rule: &LookupRule) -> Json {
    let object = json!({
        "apiVersion": rule.kind.api_version,
        "kind": rule.kind.kind,
        "metadata": { "name": "sample" },
    });
    if rule.list { json!([object]) } else { object }
}

/// Where the template writes what stands at a pointer of its object, or the nearest place around it.
fn place_of(tree: &Tree, pointer: &str) -> Span {
    let mut here = tree;
    let mut span = tree.span.start..tree.span.start;
    for token in pointer.split('/').skip(1) {
        let key = token.replace("~1", "/").replace("~0", "~");
        // `$value` is the whole value; a loop's single item stands for all of them.
        let inside = here.get("$value").unwrap_or(here);
        let next = match &inside.kind {
            Kind::List(items) => {
                let index = key.parse::<usize>().unwrap_or(0);
                let looped = items.iter().find(|item| item.get("$for").is_some());
                items.get(index).filter(|_| looped.is_none()).or(looped).or(items.last())
            }
            Kind::Map(entries) => match entries.iter().find(|entry| entry.key == key) {
                Some(entry) => Some(&entry.value),
                // A loop that is a list's whole value has no list around it.
                None if here.get("$for").is_some() && key.parse::<usize>().is_ok() => Some(inside),
                None => None,
            },
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => break,
        }
        span = here.span.clone();
    }
    span
}

/// Selectors beside a template whose labels they do not match.
fn missed_labels(value: &Json, pointer: &str, found: &mut Vec<(String, String)>) {
    let empty = Map::new();
    if let Some(wanted) = value.pointer("/selector/matchLabels").and_then(Json::as_object)
        && value.get("template").is_some_and(Json::is_object)
    {
        let labels = value.pointer("/template/metadata/labels").and_then(Json::as_object).unwrap_or(&empty);
        if let Some((label, _)) = wanted.iter().find(|(key, value)| labels.get(*key) != Some(value)) {
            found.push((format!("{pointer}/selector/matchLabels"), label.clone()));
        }
    }
    if let Json::Object(members) = value {
        for (key, inner) in members {
            missed_labels(inner, &crate::json::child(pointer, key), found);
        }
    }
}

fn sentence(pointer: &str, detail: &str) -> String {
    let path = pointer.trim_start_matches('/').replace('/', ".");
    format!("{path}: {detail}")
}

fn offset(source: &Source, line: usize, column: usize) -> usize {
    let start: usize = source.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = source.text.get(start..).unwrap_or("");
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}

fn shortened(spec: &Json) -> String {
    let text = spec.to_string();
    match text.char_indices().nth(600) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
