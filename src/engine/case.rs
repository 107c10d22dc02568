//! Tests as data: a case is a folder that says what is given, what is asked, and what must come of it.
//!
//! The modules in reading order: [`form`], what a person writes; [`load`], from files to a [`Case`];
//! [`run`], what comes of it; [`compare`], what differs from what was expected. A case of several steps is
//! played elsewhere: [`steps`] are what is done, [`played`] what was seen.

pub mod compare;
pub mod form;
pub mod load;
pub mod played;
pub mod run;
pub mod steps;

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::diagnostic::Findings;
use crate::inputs::{Identity, Previous};
use crate::problem::Problem;
use crate::source::{Position, Source};

pub use compare::{Judgement, Rewrite};
pub use form::{Defaults, Document, Doing};
pub use load::CaseFolder;
pub use played::{Played, Seen, Story};
pub use run::Keep;

/// One case, ready to run. Its cluster is exactly what its `objects.yaml` holds, unless it has steps.
#[derive(Clone, Debug)]
pub struct Case {
    /// `<type>/<what happens>`.
    pub name: String,
    pub operation: Doing,
    source: Source,
    identity: Identity,
    settings: Map<String, Json>,
    previous: Option<Previous>,
    spec: Option<Body>,
    patch: Option<Body>,
    objects: Vec<Json>,
    steps: Option<steps::Steps>,
    expect: Option<Vec<Document>>,
    assertions: Vec<form::Assertion>,
    goldens: BTreeMap<Document, Source>,
}

/// The body of a request. What a caller sends may well be no JSON at all, and is refused then.
type Body = Result<Json, Problem>;

/// What came of a case: everything that a report in any form needs.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// `<type>/<what happens>`.
    pub name: String,
    /// The case's own file.
    pub file: String,
    pub outcome: Outcome,
    /// Where it failed: what was expected, and what came.
    pub failures: Vec<Failure>,
    /// Where it is malformed: mistakes of its files, which kept it from running.
    pub mistakes: Findings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// The case could not be read, so that it says nothing of the mapping.
    Malformed,
}

/// One leaf that differs, or one expectation that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name of the failure, in kebab-case.
    pub code: &'static str,
    pub message: String,
    /// The file whose expectation it is.
    pub file: String,
    /// The place of the expectation in that file.
    pub position: Option<Position>,
    /// The leaf: `/status/message`, `/manifests/service/spec/type`. The same path serves in `assert`.
    pub path: Option<String>,
    /// The values as JSON; none is nothing at all.
    pub expected: Option<String>,
    pub found: Option<String>,
}

impl CaseResult {
    /// A case that was not run because of mistakes in its files.
    pub fn malformed(name: &str, file: &str, mistakes: Findings) -> Self {
        Self {
            name: name.to_owned(),
            file: file.to_owned(),
            outcome: Outcome::Malformed,
            failures: Vec::new(),
            mistakes,
        }
    }
}
