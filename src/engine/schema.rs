//! JSON Schemas of specs and patches: every fault of a document, each at its pointer.

mod depth;
mod lint;

use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::diagnostic::Findings;
use crate::json::child;
use crate::problem::Fault;
use crate::read::read;
use crate::source::{Source, Span, Tree};

/// A fault of a document, and the exact place of it: that of the member itself where one is missing, while
/// the fault points to the parent, which does exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    pub place: String,
    pointer: String,
    detail: String,
}

impl SchemaFault {
    /// The fault as a caller sees it, in a body in which the document stands at `root`.
    pub fn rooted(&self, root: &str) -> Fault {
        Fault { pointer: Some(format!("{root}{}", self.pointer)), detail: self.detail.clone() }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }
}

/// A schema, compiled once.
#[derive(Debug)]
pub struct Schema {
    pub document: Value,
    /// The file that it was read from.
    pub source: Source,
    validator: Validator,
}

impl Schema {
    /// Reads and compiles the text of a schema file.
    pub fn load(source: &Source, findings: &mut Findings) -> Option<Self> {
        let tree = read(source, findings)?;
        let before = findings.len();
        lint::lint(source, &tree, findings);
        if !depth::lint(source, &tree, findings) {
            return None;
        }
        let document = tree.to_json();
        misshapen(source, &tree, &document, findings);
        // Patterns run in linear time whatever a caller sends, so look-around is refused here.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
        match options.build(&document) {
            Ok(validator) => Some(Self { document, source: source.clone(), validator }),
            Err(error) => {
                if findings.len() == before {
                    let place = tree.nearest(error.instance_path().as_str());
                    findings.add(source, &place.span, "malformed-schema", error.to_string());
                }
                None
            }
        }
    }

    pub fn accepts(&self, document: &Value) -> bool {
        self.validator.is_valid(document)
    }

    /// Every fault, with pointers from the root of the document.
    pub fn faults(&self, document: &Value) -> Vec<SchemaFault> {
        faults_of(&self.validator, document)
    }
}

/// Every fault that a compiled schema finds, each once.
pub(crate) fn faults_of(validator: &Validator, document: &Value) -> Vec<SchemaFault> {
    let mut found = Found::default();
    for error in validator.iter_errors(document) {
        add_faults(&error, &mut found);
    }
    found.faults
}

/// Faults, and where that of a place stands among them: a body may have tens of thousands.
#[derive(Default)]
struct Found {
    faults: Vec<SchemaFault>,
    by_place: HashMap<String, usize>,
}

impl Found {
    /// One fault a place: of a value of the wrong type, nothing else is worth saying.
    fn push(&mut self, fault: SchemaFault, is_type: bool) {
        match self.by_place.get(&fault.place) {
            Some(&index) if is_type => self.faults[index] = fault,
            Some(_) => {}
            None => {
                self.by_place.insert(fault.place.clone(), self.faults.len());
                self.faults.push(fault);
            }
        }
    }
}

fn add_faults(error: &ValidationError<'_>, found: &mut Found) {
    let at = error.instance_path().as_str();
    let is_type = matches!(error.kind(), ValidationErrorKind::Type { .. });
    let mut push = |fault: SchemaFault| found.push(fault, is_type);
    let at_itself = |pointer: String, detail: String| SchemaFault { place: pointer.clone(), pointer, detail };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            push(SchemaFault {
                place: child(at, name),
                pointer: at.to_owned(),
                detail: format!("the required member `{name}` is missing"),
            });
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            for name in unexpected {
                push(at_itself(
                    child(at, name),
                    format!("`{}` is not a member of this object", shorten(name)),
                ));
            }
        }
        ValidationErrorKind::PropertyNames { error } => {
            let name = error.instance().as_str().unwrap_or_default().to_owned();
            push(at_itself(child(at, &name), format!("the name `{}` {}", shorten(&name), sentence(error))));
        }
        _ => push(at_itself(at.to_owned(), format!("the value {}", sentence(error)))),
    }
}

/// What a value is not, in words that do not repeat it: values may be long, or secret.
fn sentence(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Pattern { pattern } => format!("does not match the pattern {pattern}"),
        ValidationErrorKind::Enum { options } => format!("is not one of {options}"),
        ValidationErrorKind::Constant { expected_value } => format!("must be {expected_value}"),
        ValidationErrorKind::Minimum { limit } => format!("is less than {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("is more than {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("is shorter than {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("is longer than {limit} characters"),
        ValidationErrorKind::MinItems { limit } => format!("has fewer than {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("has more than {limit} items"),
        ValidationErrorKind::Type { .. } => {
            let text = error.masked().to_string();
            text.strip_prefix("value ").map_or_else(|| text.clone(), str::to_owned)
        }
        ValidationErrorKind::FalseSchema => "is not allowed here".to_owned(),
        _ => {
            let text = error.masked().to_string();
            text.strip_prefix("value ").map_or_else(|| text.clone(), str::to_owned)
        }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Reports keywords whose value has the wrong form, unless something was said of that place already.
fn misshapen(source: &Source, tree: &Tree, document: &Value, findings: &mut Findings) {
    let Ok(meta) = jsonschema::meta::validator_for(document) else {
        let span = tree.get("$schema").map_or(tree.span.clone(), |draft| draft.span.clone());
        return findings.add(
            source,
            &span,
            "malformed-schema",
            "the draft that `$schema` names is not known",
        );
    };
    let mut found: Vec<(Span, String)> = Vec::new();
    for error in meta.iter_errors(document) {
        let span = tree.nearest(error.instance_path().as_str()).span.clone();
        let position = source.position(span.start);
        let said =
            findings.iter().any(|item| item.file == source.name && item.position.line == position.line);
        if !said && found.iter().all(|(place, _)| *place != span) {
            found.push((span, format!("the value {}", sentence(&error))));
        }
    }
    for (span, message) in found {
        findings.add(source, &span, "malformed-schema", message);
    }
}
