//! What came of a case beside what was expected of it: each leaf that differs, and the golden file as it
//! would be right.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::form::{Assertion, Document, Doing};
use super::run::{Keep, Produced, Stopped};
use super::steps::Steps;
use super::{Case, CaseResult, Failure, Outcome};
use crate::coverage::Trace;
use crate::diagnostic::Findings;
use crate::emit::{emit, emit_documents};
use crate::json::{child, read_body};
use crate::read::{read, read_documents};
use crate::service::Service;
use crate::source::{Source, Tree};

/// The result of a case, and what `--update` would do about it.
#[derive(Clone, Debug)]
pub struct Judgement {
    pub result: CaseResult,
    pub rewrites: Vec<Rewrite>,
}

/// A golden file as it would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    pub file: String,
    /// None removes the file.
    pub text: Option<String>,
    /// Each leaf that changes.
    pub changes: Vec<Failure>,
}

impl Case {
    /// The golden files that the case is to have. A refusal may take the place of what the operation makes
    /// unless the case names its golden files.
    pub fn expected(&self) -> Vec<Document> {
        match (&self.expect, self.operation) {
            (Some(documents), _) => documents.clone(),
            (None, _) if !self.assertions.is_empty() => Vec::new(),
            (None, Doing::Create | Doing::Update) => vec![Document::Manifests],
            (None, Doing::Status) => vec![Document::Status],
            (None, Doing::Steps) => vec![Document::Events],
        }
    }

    /// Runs the case and compares.
    pub fn judge(&self, service: &Service, keep: Keep<'_>, trace: Option<&Arc<Trace>>) -> Judgement {
        let mut bench = Bench::of(self);
        let rewrites = match self.run(service, keep, trace) {
            Ok(produced) => bench.compare(&produced),
            Err(stopped) => {
                bench.stopped(&stopped);
                Vec::new()
            }
        };
        bench.judgement(rewrites)
    }
}

/// One case while it is compared.
pub(super) struct Bench<'c> {
    case: &'c Case,
    pub(super) failures: Vec<Failure>,
    mistakes: Findings,
}

/// A golden file as it stands: the whole document, and the trees that know the lines.
struct Golden<'g> {
    source: &'g Source,
    value: Json,
    trees: Vec<(String, Tree)>,
}

impl<'c> Bench<'c> {
    pub(super) fn of(case: &'c Case) -> Self {
        Self { case, failures: Vec::new(), mistakes: Findings::default() }
    }

    pub(super) fn judgement(self, rewrites: Vec<Rewrite>) -> Judgement {
        let Self { case, failures, mistakes } = self;
        let outcome = match (failures.is_empty(), mistakes.is_empty()) {
            (_, false) => Outcome::Malformed,
            (false, true) => Outcome::Failed,
            (true, true) => Outcome::Passed,
        };
        let (name, file) = (case.name.clone(), case.source.name.clone());
        Judgement { result: CaseResult { name, file, outcome, failures, mistakes }, rewrites }
    }

    fn fail(&mut self, code: &'static str, message: impl Into<String>) {
        self.failures.push(Failure::of(code, message, &self.case.source.name));
    }

    fn stopped(&mut self, stopped: &Stopped) {
        match stopped {
            Stopped::Broken(error) => {
                self.fail("broken-rule", format!("a rule of the mapping failed: {error}"))
            }
            Stopped::UnlikelySpec(problem) => {
                let message = format!("the spec of this case would have been refused: {}", problem.detail);
                self.fail("unlikely-spec", message);
            }
        }
    }

    pub(super) fn compare(&mut self, produced: &Produced) -> Vec<Rewrite> {
        let case = self.case;
        let mut expected = case.expected();
        let by_default = case.expect.is_none() && !expected.is_empty();
        if by_default && produced.problem.is_some() {
            expected = vec![Document::Problem];
        }
        let steps_expect = case.steps.as_ref().is_some_and(Steps::expects);
        if expected.is_empty() && case.assertions.is_empty() && !steps_expect {
            self.fail("nothing-expected", "the case expects nothing, so nothing can fail it; name a golden file under `expect`, or a value under `assert`");
        }
        let mut rewrites = Vec::new();
        for document in Document::ALL {
            rewrites.extend(self.document(document, expected.contains(&document), produced));
        }
        let whole = produced.whole();
        for assertion in &case.assertions {
            self.assertion(assertion, &whole, produced);
        }
        rewrites
    }

    fn document(&mut self, document: Document, expected: bool, produced: &Produced) -> Option<Rewrite> {
        let golden = self.case.goldens.get(&document);
        match (expected, golden, found(document, produced)) {
            (false, None, _) => None,
            (false, Some(golden), _) => {
                let name = golden.name.rsplit('/').next().unwrap_or_default();
                let message = format!("nothing expects {name}; remove it");
                self.failures.push(Failure::of("unused-golden", message, &golden.name));
                Some(Rewrite { file: golden.name.clone(), text: None, changes: Vec::new() })
            }
            (true, _, None) => {
                let why = match &produced.problem {
                    Some(problem) => format!("the request is refused: {}", problem["detail"]),
                    None => "the request passes".to_owned(),
                };
                self.fail("not-produced", format!("`{}` is expected, but {why}", document.word()));
                None
            }
            (true, None, Some(found)) => Some(self.missing(document, &found, produced)),
            (true, Some(golden), Some(found)) => self.golden(document, golden, &found, produced),
        }
    }

    fn missing(&mut self, document: Document, found: &Json, produced: &Produced) -> Rewrite {
        let folder = self.case.source.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let source = Source::new(format!("{folder}/{}", document.files()[0]), "");
        let message = "the golden file is missing; `mapwright test --update` writes it";
        self.failures.push(Failure::of("missing-golden", message, &source.name));
        let empty = Golden { source: &source, value: Json::Null, trees: Vec::new() };
        let mut changes = Vec::new();
        differences(None, Some(found), document_path(document), &empty, &mut changes);
        Rewrite { text: Some(text(document, &source.name, produced)), file: source.name.clone(), changes }
    }

    fn golden(
        &mut self,
        document: Document,
        source: &Source,
        found: &Json,
        produced: &Produced,
    ) -> Option<Rewrite> {
        let mut changes = Vec::new();
        match Golden::read(document, source, produced) {
            Ok(golden) => {
                differences(Some(&golden.value), Some(found), document_path(document), &golden, &mut changes);
                if changes.is_empty() {
                    return None;
                }
            }
            Err(mistakes) => self.mistakes.append(mistakes),
        }
        self.failures.extend(changes.iter().cloned());
        let text = Some(text(document, &source.name, produced));
        Some(Rewrite { file: source.name.clone(), text, changes })
    }

    fn assertion(&mut self, assertion: &Assertion, whole: &Json, produced: &Produced) {
        let found = whole.pointer(&assertion.path.value);
        let expected = match (&assertion.value, &assertion.contains) {
            (Some(value), _) => {
                let value = value.to_json();
                (found != Some(&value)).then(|| Some(value.to_string()))
            }
            (None, Some(part)) => {
                let holds = found.and_then(Json::as_str).is_some_and(|text| text.contains(&part.value));
                (!holds).then(|| Some(format!("... {} ...", Json::from(part.value.as_str()))))
            }
            (None, None) => found.is_some().then_some(None),
        };
        let Some(expected) = expected else { return };
        let refused = produced.problem.as_ref().filter(|_| found.is_none());
        let message = match refused {
            Some(problem) => format!("the request is refused: {}", problem["detail"]),
            None => "the assertion does not hold".to_owned(),
        };
        let source = &self.case.source;
        self.failures.push(Failure {
            position: Some(source.position(assertion.path.span.start)),
            path: Some(assertion.path.value.clone()),
            expected,
            found: found.map(Json::to_string),
            ..Failure::of("assertion-failed", message, &source.name)
        });
    }
}

impl Failure {
    pub(super) fn of(code: &'static str, message: impl Into<String>, file: &str) -> Self {
        Self {
            code,
            message: message.into(),
            file: file.to_owned(),
            position: None,
            path: None,
            expected: None,
            found: None,
        }
    }
}

impl<'g> Golden<'g> {
    fn read(document: Document, source: &'g Source, produced: &Produced) -> Result<Self, Findings> {
        let mut mistakes = Findings::default();
        if document == Document::Manifests {
            let documents = read_documents(source, &mut mistakes).ok_or(mistakes)?;
            let made = produced.manifests.as_deref().unwrap_or_default();
            let trees = named(documents, made);
            let value = trees.iter().map(|(name, tree)| (name.clone(), tree.to_json())).collect();
            return Ok(Self { source, value: Json::Object(value), trees });
        }
        let tree = read(source, &mut mistakes);
        // JSON has more numbers and letters than YAML can read; the tree is there for the lines only.
        let value = match source.name.ends_with(".json") {
            true => read_body(source.text.as_bytes()).ok(),
            false => tree.as_ref().filter(|_| mistakes.is_empty()).map(Tree::to_json),
        };
        let Some(value) = value else {
            if mistakes.is_empty() {
                mistakes.add(source, &(0..0), "malformed-json", "the file is not JSON");
            }
            return Err(mistakes);
        };
        let trees = tree.map(|tree| (String::new(), tree)).into_iter().collect();
        Ok(Self { source, value, trees })
    }

    /// The place of a leaf, or of the nearest thing around it that the file has.
    fn position(&self, path: &str) -> Option<crate::source::Position> {
        let inner =
            path.strip_prefix('/').and_then(|rest| rest.find('/').map(|at| &rest[at..])).unwrap_or("");
        let (tree, inner) = match self.trees.as_slice() {
            [(name, tree)] if name.is_empty() => (tree, inner),
            named => named.iter().find_map(|(name, tree)| {
                let rest = inner.strip_prefix(&child("", name))?;
                (rest.is_empty() || rest.starts_with('/')).then_some((tree, rest))
            })?,
        };
        Some(self.source.position(tree.nearest(inner).span.start))
    }
}

/// Golden manifests by the names of the objects that they expect: documents of one kind in their order.
fn named(documents: Vec<Tree>, made: &[(String, Json)]) -> Vec<(String, Tree)> {
    let kind = |value: &Json| (value.get("apiVersion").cloned(), value.get("kind").cloned());
    let mut left: Vec<&(String, Json)> = made.iter().collect();
    let mut trees = Vec::new();
    for tree in documents {
        let value = tree.to_json();
        let twin = left.iter().position(|(_, body)| kind(body) == kind(&value));
        let name = match twin {
            Some(index) => left.remove(index).0.clone(),
            None => {
                let word = value.get("kind").and_then(Json::as_str).unwrap_or("document");
                format!("{word} {}", trees.len() + 1)
            }
        };
        trees.push((name, tree));
    }
    trees
}

fn document_path(document: Document) -> String {
    format!("/{}", document.word())
}

/// A produced document; manifests by the names of their objects.
fn found(document: Document, produced: &Produced) -> Option<Json> {
    match document {
        Document::Manifests => {
            let made = produced.manifests.as_ref()?;
            Some(Json::Object(made.iter().cloned().collect::<Map<_, _>>()))
        }
        Document::View => produced.view.clone(),
        Document::Status => produced.status.clone(),
        Document::Problem => produced.problem.clone(),
        Document::Events => produced.events.clone(),
    }
}

/// The text of a golden file.
fn text(document: Document, file: &str, produced: &Produced) -> String {
    if document == Document::Manifests {
        let made = produced.manifests.iter().flatten();
        let bodies: Vec<Json> = made.map(|(_, body)| body.clone()).collect();
        return emit_documents(&bodies);
    }
    let value = found(document, produced).unwrap_or(Json::Null);
    match file.ends_with(".json") {
        true => format!("{value:#}\n"),
        false => emit(&value),
    }
}

/// Each leaf that differs. What one side lacks is said leaf by leaf as well.
fn differences(
    expected: Option<&Json>,
    found: Option<&Json>,
    path: String,
    golden: &Golden<'_>,
    failures: &mut Vec<Failure>,
) {
    if expected == found {
        return;
    }
    let members = |value: Option<&Json>| match value {
        Some(Json::Object(members)) if !members.is_empty() => members.keys().cloned().collect(),
        Some(Json::Array(items)) => (0..items.len()).map(|index| index.to_string()).collect(),
        _ => Vec::new(),
    };
    let same_shape = match (expected, found) {
        (Some(Json::Object(_)), Some(Json::Object(_))) | (Some(Json::Array(_)), Some(Json::Array(_))) => true,
        (None, value) | (value, None) => !members(value).is_empty(),
        _ => false,
    };
    if !same_shape {
        return failures.push(Failure {
            position: golden.position(&path),
            path: Some(path),
            expected: expected.map(Json::to_string),
            found: found.map(Json::to_string),
            ..Failure::of("value-differs", "the value differs", &golden.source.name)
        });
    }
    let mut keys: Vec<String> = members(expected);
    keys.extend(members(found).into_iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>());
    for key in keys {
        let (expected, found) = (inner(expected, &key), inner(found, &key));
        differences(expected, found, child(&path, &key), golden, failures);
    }
}

fn inner<'j>(value: Option<&'j Json>, key: &str) -> Option<&'j Json> {
    match value? {
        Json::Object(members) => members.get(key),
        Json::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    }
}
