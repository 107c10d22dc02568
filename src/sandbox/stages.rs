//! What pretended machines do, as data: for a kind, when an expression holds, after a delay, what is written.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::object::{now, text, uid};
use super::table::entries;
use crate::engine::case::steps::span_of_time;
use crate::engine::diagnostic::Findings;
use crate::engine::expression::{Compiler, EvalError, Expression, Leaf, Program};
use crate::engine::names::fingerprint;
use crate::engine::read::read;
use crate::engine::reads::Names;
use crate::engine::scope::Scope;
use crate::engine::source::{Kind as Shape, Source, Tree};
use crate::engine::template::Template;
use crate::engine::value::from_json;

/// The stages of every kind, in the order in which they are tried.
pub struct Stages {
    program: Arc<Program>,
    /// By `v1/Pod`.
    by_kind: HashMap<String, Vec<Stage>>,
    delays: bool,
}

/// One thing that happens.
pub(super) struct Stage {
    when: Expression,
    delay: Duration,
    lookups: Vec<Lookup>,
    patch: Option<Template>,
    status: Option<Template>,
    create: Option<Template>,
    event: Option<Template>,
    pub(super) delete: bool,
}

/// An object that a stage reads beside its own.
pub(super) struct Lookup {
    name: String,
    pub(super) kind: String,
    pub(super) named: Leaf,
}

/// What a stage writes.
#[derive(Debug, Default)]
pub(super) struct Effect {
    pub(super) patch: Option<Value>,
    pub(super) status: Option<Value>,
    pub(super) create: Option<Value>,
    pub(super) event: Option<Value>,
    pub(super) delete: bool,
}

const BUILT_IN: [(&str, &str); 3] = [
    ("sandbox/stages/pod.yaml", include_str!("../../sandbox/stages/pod.yaml")),
    ("sandbox/stages/claim.yaml", include_str!("../../sandbox/stages/claim.yaml")),
    ("sandbox/stages/service.yaml", include_str!("../../sandbox/stages/service.yaml")),
];

impl Stages {
    /// What a stage may hold.
    pub const KEYS: [&str; 9] =
        ["name", "when", "delay", "with", "patch", "status", "create", "event", "delete"];

    /// Stages of these files come first, then those that are built in. Without delays everything that happens
    /// happens at once.
    ///
    /// # Errors
    /// Every mistake in the files, at its place.
    pub fn load(files: Vec<Source>, built_in: bool, delays: bool) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let read = files.into_iter().filter_map(|file| read(&file, &mut findings).map(|tree| (file, tree)));
        let parts: Vec<(Source, Tree)> = read.collect();
        match Self::of_parts(&parts, built_in, delays) {
            Ok(stages) if findings.is_empty() => Ok(stages),
            Ok(_) => Err(findings),
            Err(more) => {
                findings.append(more);
                Err(findings)
            }
        }
    }

    /// The same of parts of files that have been read already.
    ///
    /// # Errors
    /// Every mistake in the parts, at its place.
    pub fn of_parts(parts: &[(Source, Tree)], built_in: bool, delays: bool) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let own = BUILT_IN.iter().filter(|_| built_in).map(|(name, text)| Source::new(*name, *text));
        let own: Vec<(Source, Tree)> =
            own.filter_map(|file| read(&file, &mut findings).map(|tree| (file, tree))).collect();
        let mut by_kind: HashMap<String, Vec<Stage>> = HashMap::new();
        let mut compiler = Compiler::new(&mut findings);
        for (source, tree) in parts.iter().chain(&own) {
            let parts = match &tree.kind {
                Shape::List(parts) => parts.as_slice(),
                _ => std::slice::from_ref(tree),
            };
            for part in parts {
                let mut reader = Reader { source, compiler: &mut compiler };
                if let Some((kind, stages)) = reader.part(part) {
                    by_kind.entry(kind).or_default().extend(stages);
                }
            }
        }
        let program = Arc::new(compiler.finish());
        if findings.is_empty() { Ok(Self { program, by_kind, delays }) } else { Err(findings) }
    }

    /// The stages of an object's kind.
    pub(super) fn of(&self, object: &Value) -> &[Stage] {
        let kind = format!("{}/{}", text(object, "/apiVersion"), text(object, "/kind"));
        self.by_kind.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// What the expressions of all stages read of an object.
    pub(super) fn scope(&self, object: &Value) -> Scope {
        let digest = fingerprint(&[uid(object)]);
        let bytes: Vec<u32> = digest.bytes().take(8).map(u32::from).collect();
        let part = |part: &[u32]| part.iter().fold(7, |sum, byte| sum * 31 + byte) % 254 + 1;
        let (high, low) = bytes.split_at(bytes.len() / 2);
        let values = vec![
            ("object".into(), from_json(object)),
            ("now".into(), now().into()),
            ("address".into(), format!("{}.{}", part(high), part(low)).into()),
        ];
        Scope::root(self.program.clone(), Arc::new([]), values, None)
    }

    pub(super) fn delay(&self, stage: &Stage) -> Duration {
        if self.delays { stage.delay } else { Duration::ZERO }
    }
}

impl Stage {
    pub(super) fn lookups(&self) -> &[Lookup] {
        &self.lookups
    }

    /// The object's scope with the stage's look-ups, in their order.
    pub(super) fn with(&self, scope: &Scope, found: &[Option<Value>]) -> Scope {
        let named = self.lookups.iter().zip(found);
        let values = named
            .filter_map(|(lookup, found)| Some((lookup.name.as_str().into(), from_json(found.as_ref()?))));
        scope.with(values.collect())
    }

    pub(super) fn holds(&self, scope: &Scope) -> Result<bool, EvalError> {
        scope.program().holds(&self.when, scope)
    }

    pub(super) fn effect(&self, scope: &Scope) -> Result<Effect, EvalError> {
        let render = |template: &Option<Template>| template.as_ref().map(|t| t.render(scope)).transpose();
        Ok(Effect {
            patch: render(&self.patch)?,
            status: render(&self.status)?,
            create: render(&self.create)?,
            event: render(&self.event)?,
            delete: self.delete,
        })
    }
}

struct Reader<'r, 'c> {
    source: &'r Source,
    compiler: &'r mut Compiler<'c>,
}

impl Reader<'_, '_> {
    /// The kind, and its stages.
    fn part(&mut self, tree: &Tree) -> Option<(String, Vec<Stage>)> {
        let kind = tree.get("for").and_then(Tree::as_str);
        let stages = tree.get("stages").map(|stages| &stages.kind);
        let (Some(kind), Some(Shape::List(stages))) = (kind, stages) else {
            let message =
                "a file of stages is a map of `for` (such as v1/Pod) and `stages`, or a list of such maps";
            self.compiler.findings.add(self.source, &tree.span, "malformed-stages", message);
            return None;
        };
        let stages = stages.iter().filter_map(|stage| self.stage(stage)).collect();
        Some((kind.to_owned(), stages))
    }

    fn stage(&mut self, tree: &Tree) -> Option<Stage> {
        for entry in entries(tree).iter().filter(|entry| !Stages::KEYS.contains(&entry.key.as_str())) {
            let message =
                format!("`{}` is not a key of a stage; there are: {}", entry.key, Stages::KEYS.join(", "));
            self.compiler.findings.add(self.source, &entry.key_span, "unknown-key", message);
        }
        let mut names = Names::default();
        for name in ["object", "now", "address"] {
            names.opaque(name);
        }
        let lookups = self.lookups(tree, &mut names)?;
        let Some(when) = tree.get("when").filter(|when| when.as_str().is_some()) else {
            let message = "a stage needs `when`: the expression that makes it the one";
            self.compiler.findings.add(self.source, &tree.span, "missing-key", message);
            return None;
        };
        let text = when.as_str().unwrap_or_default();
        let when = self.compiler.expression(self.source, &when.span, text, &names)?;
        Some(Stage {
            when,
            delay: self.delay(tree)?,
            lookups,
            patch: self.template(tree, "patch", &names)?,
            status: self.template(tree, "status", &names)?,
            create: self.template(tree, "create", &names)?,
            event: self.template(tree, "event", &names)?,
            delete: tree.get("delete").is_some_and(|tree| matches!(tree.kind, Shape::Bool(true))),
        })
    }

    fn lookups(&mut self, tree: &Tree, names: &mut Names) -> Option<Vec<Lookup>> {
        let mut lookups = Vec::new();
        for entry in tree.get("with").map(entries).unwrap_or_default() {
            let kind = entry.value.get("kind").and_then(Tree::as_str);
            let named = entry.value.get("name").filter(|named| named.as_str().is_some());
            let (Some(kind), Some(named)) = (kind, named) else {
                let message = "a look-up is a map of `kind` (such as v1/Node) and `name`";
                self.compiler.findings.add(self.source, &entry.value.span, "malformed-lookup", message);
                return None;
            };
            let text = named.as_str().unwrap_or_default();
            let named = self.compiler.leaf(self.source, &named.span, text, names)?;
            lookups.push(Lookup { name: entry.key.clone(), kind: kind.to_owned(), named });
        }
        for lookup in &lookups {
            names.opaque(&lookup.name);
        }
        Some(lookups)
    }

    /// None for a mistake; a key that is not there is no template.
    #[expect(clippy::option_option, reason = "a mistake is not an absence")]
    fn template(&mut self, tree: &Tree, key: &str, names: &Names) -> Option<Option<Template>> {
        match tree.get(key) {
            None => Some(None),
            Some(tree) => Template::of(tree.clone(), self.source, self.compiler, names).map(Some),
        }
    }

    fn delay(&mut self, tree: &Tree) -> Option<Duration> {
        let Some(delay) = tree.get("delay") else { return Some(Duration::ZERO) };
        let read = delay.as_str().and_then(span_of_time);
        if read.is_none() {
            let message = "a delay is a whole number with ms, s, m or h, such as 300ms, 2s or 5m";
            self.compiler.findings.add(self.source, &delay.span, "malformed-delay", message);
        }
        read
    }
}
