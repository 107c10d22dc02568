//! A mapping, compiled: everything that a person wrote for one service type, checked and ready to run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::diagnostic::Findings;
use crate::expression::{Expression, Mixture, Place, Program};
use crate::format::{Match, Moment, Operation, Propagation, SettingKind};
use crate::kinds::Kinds;
use crate::load::Loader;
use crate::problem::ProblemStyle;
use crate::schema::Schema;
use crate::scope::Lets;
use crate::shape::Step;
use crate::template::{Each, Template};

/// The files of a mapping root in memory: path to text, with `/` between segments.
pub type Files = BTreeMap<String, String>;

/// One service type, ready to run.
#[derive(Debug)]
pub struct Service {
    pub service_type: String,
    pub collection: String,
    pub list_key: String,
    pub schema_version: String,
    pub operations: Vec<Operation>,
    pub problem_style: ProblemStyle,
    /// A digest of every file that this mapping was read from.
    pub revision: String,
    pub settings: Vec<SettingRule>,
    /// The custom kinds of its mapping root, as documents: a cluster in memory begins with them.
    pub definitions: Arc<Vec<Json>>,
    pub schema: Schema,
    /// Pointers of the spec that are stored and shown only.
    pub echoed: Vec<String>,
    pub checks: Vec<CheckRule>,
    pub objects: Vec<ObjectRule>,
    pub watches: Vec<WatchRule>,
    pub lookups: Vec<LookupRule>,
    pub status: StatusTable,
    pub view: Option<ViewRule>,
    pub update: Option<UpdateRule>,
    pub adopt: Option<Template>,
    pub program: Arc<Program>,
    pub lets: Lets,
}

#[derive(Debug)]
pub struct SettingRule {
    pub name: String,
    pub env: String,
    pub kind: SettingKind,
    pub allowed: Vec<String>,
    pub default: Option<Json>,
    pub required: bool,
    /// Kept out of explanations and logs.
    pub secret: bool,
}

#[derive(Debug)]
pub struct CheckRule {
    /// Where it is judged: its own operations, as far as its look-ups are fetched in them.
    pub on: Vec<Moment>,
    pub stage: i64,
    pub each: Option<Each>,
    /// The condition, and the truth of it that is a fault.
    pub condition: Expression,
    pub fails_when: bool,
    pub status: u16,
    pub pointer: Option<Mixture>,
    pub detail: Mixture,
    /// Look-ups that must have been fetched before it can be judged, by position.
    pub lookups: Vec<usize>,
}

/// A kind of the cluster, as the mapping names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindRef {
    pub api_version: String,
    pub kind: String,
}

#[derive(Debug)]
pub struct ObjectRule {
    pub name: String,
    /// Where the mapping names it.
    pub place: Arc<Place>,
    pub kind: KindRef,
    pub template: Template,
    pub when: Option<Expression>,
    pub root: bool,
    pub owned_by: Option<String>,
    pub propagation: Propagation,
    /// Pointers below which a change restarts pods.
    pub restarts: Vec<String>,
}

#[derive(Debug)]
pub struct WatchRule {
    pub name: String,
    /// Where the mapping names it.
    pub place: Arc<Place>,
    pub all: Option<String>,
    pub kind: KindRef,
    pub filter: Option<Expression>,
    pub order: Vec<Expression>,
    pub matching: Match,
    /// The paths that any rule, view or check reads: caches keep these and drop the rest.
    pub reads: Vec<Vec<Step>>,
}

#[derive(Debug)]
pub struct LookupRule {
    pub name: String,
    /// Where the mapping names it.
    pub place: Arc<Place>,
    pub kind: KindRef,
    pub get: Option<Mixture>,
    pub list: bool,
}

#[derive(Debug)]
pub struct StatusTable {
    /// Every word that the table may say, in the mapping's order.
    pub values: Vec<String>,
    pub initial: String,
    pub gone: String,
    pub deleting: Option<String>,
    pub settle_into: Vec<String>,
    pub settle_from: Vec<String>,
    pub rules: Vec<StatusRule>,
    pub notes: Vec<(Expression, Mixture)>,
}

#[derive(Debug)]
pub struct StatusRule {
    pub name: String,
    pub when: Option<Expression>,
    pub says: Says,
    pub message: Option<Mixture>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    Status(String),
    /// The previous status stands.
    Keep,
}

#[derive(Debug)]
pub struct ViewRule {
    pub template: Template,
    pub omit: Vec<String>,
    /// JSON pointers that the view writes: read-only in requests.
    pub written: Vec<String>,
}

#[derive(Debug)]
pub struct UpdateRule {
    pub schema: Schema,
    /// Pointers of the spec and the expressions of their new values.
    pub set: Vec<(String, Expression)>,
    /// The positions of objects, and what patches them.
    pub patches: Vec<(usize, Template)>,
}

impl Service {
    /// Compiles the mapping of one folder, or says everything that is wrong with it.
    pub fn load(files: &Files, folder: &str, kinds: &Kinds) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        match Loader::new(files, folder, kinds, &mut findings).load() {
            Some(service) if findings.is_empty() => Ok(service),
            _ => Err(findings.sorted()),
        }
    }

    pub fn watch(&self, name: &str) -> Option<(usize, &WatchRule)> {
        self.watches.iter().enumerate().find(|(_, watch)| watch.name == name)
    }

    pub fn object(&self, name: &str) -> Option<&ObjectRule> {
        self.objects.iter().find(|object| object.name == name)
    }

    /// Every kind that this type writes, watches or looks up.
    pub fn kinds(&self) -> Vec<&KindRef> {
        let mut kinds: Vec<&KindRef> = Vec::new();
        let all = self.objects.iter().map(|object| &object.kind);
        let all = all.chain(self.watches.iter().map(|watch| &watch.kind));
        for kind in all.chain(self.lookups.iter().map(|lookup| &lookup.kind)) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}
