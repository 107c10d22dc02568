//! Properties of a spec that nothing reads: a caller sets them, and nothing happens.

use std::sync::Arc;

use crate::diagnostic::Findings;
use crate::expression::{Expression, Mixture};
use crate::json::child;
use crate::read::read;
use crate::reads::Read;
use crate::service::Service;
use crate::shape::Step;
use crate::source::{Kind, Source, Span, Tree};
use crate::template::{Directive, Template};

/// A property of the schema.
struct Property {
    path: Vec<Step>,
    place: Span,
    /// It has one value only, so there is nothing to read.
    constant: bool,
    inner: Vec<Property>,
}

/// A read, and whether it takes everything below.
struct Reached {
    path: Vec<Step>,
    whole: bool,
}

/// How deep schemas are followed: references may be circular.
const DEPTH: usize = 16;

impl Service {
    /// Every property of the spec's schema that nothing reads and that the mapping does not declare as echoed
    /// only; of a branch of which nothing is read, its top.
    pub fn unread_inputs(&self) -> Findings {
        let mut findings = Findings::default();
        let source = &self.schema.source;
        // The schema was read when the mapping was loaded, so this finds no mistake.
        let Some(tree) = read(source, &mut findings) else { return findings };
        let mut reached = self.reached();
        reached.extend(self.echoed.iter().map(|pointer| Reached { path: steps(pointer), whole: true }));
        // What the view writes is refused in a request, so that nobody can set it.
        let written = self.view.iter().flat_map(|view| &view.written);
        let written = written.filter_map(|path| path.strip_prefix("/spec"));
        reached.extend(written.map(|pointer| Reached { path: steps(pointer), whole: true }));
        for property in properties(&tree, &tree, &[]) {
            report(&property, &reached, source, &mut findings);
        }
        findings
    }

    fn reached(&self) -> Vec<Reached> {
        let mut all = Reads::default();
        for check in &self.checks {
            all.truth(&check.condition);
            check.each.iter().for_each(|each| all.truth(&each.list));
            check.pointer.iter().for_each(|text| all.text(text));
            all.text(&check.detail);
        }
        for object in &self.objects {
            object.when.iter().for_each(|when| all.truth(when));
            all.template(&object.template);
        }
        for watch in &self.watches {
            watch.filter.iter().chain(&watch.order).for_each(|expression| all.whole(expression));
        }
        self.lookups.iter().flat_map(|lookup| &lookup.get).for_each(|text| all.text(text));
        for rule in &self.status.rules {
            rule.when.iter().for_each(|when| all.truth(when));
            rule.message.iter().for_each(|text| all.text(text));
        }
        for (when, text) in &self.status.notes {
            all.truth(when);
            all.text(text);
        }
        self.view.iter().for_each(|view| all.template(&view.template));
        if let Some(update) = &self.update {
            update.set.iter().for_each(|(_, expression)| all.whole(expression));
            update.patches.iter().for_each(|(_, template)| all.template(template));
        }
        all.0
    }
}

#[derive(Default)]
struct Reads(Vec<Reached>);

impl Reads {
    fn add(&mut self, reads: &[Read], whole: impl Fn(&Read) -> bool) {
        let of_spec = reads.iter().filter(|read| read.root == "spec");
        self.0.extend(of_spec.map(|read| Reached { path: read.path.clone(), whole: whole(read) }));
    }

    fn whole(&mut self, expression: &Expression) {
        self.add(&expression.reads, |_| true);
    }

    fn text(&mut self, text: &Mixture) {
        text.expressions().for_each(|expression| self.whole(expression));
    }

    /// Of what is only walked through, or asked whether it is there, nothing below is read.
    fn truth(&mut self, expression: &Expression) {
        let walked = |read: &Read| {
            expression.origins.iter().any(|origin| origin.root() == read.root && origin.path() == read.path)
        };
        self.add(&expression.reads, |read| !walked(read));
    }

    fn template(&mut self, template: &Template) {
        let directives: Vec<&Expression> = template
            .directives()
            .into_iter()
            .map(|directive| match directive {
                Directive::If(expression) | Directive::For(expression) => expression,
            })
            .collect();
        for expression in template.expressions() {
            match directives.iter().any(|other| Arc::ptr_eq(&other.place, &expression.place)) {
                true => self.truth(expression),
                false => self.whole(expression),
            }
        }
    }
}

fn report(property: &Property, reached: &[Reached], source: &Source, findings: &mut Findings) {
    if is_whole(&property.path, reached) {
        return;
    }
    if property.inner.iter().any(|inner| is_read(inner, reached)) {
        property.inner.iter().for_each(|inner| report(inner, reached, source, findings));
    } else if !is_read(property, reached) {
        let pointer = pointer(&property.path);
        let message = format!("nothing reads `{pointer}`: a caller may set it, and nothing happens");
        let help = format!("read it in a template or check, or add \"{pointer}\" to `echoed` of the mapping");
        findings.add_with_help(source, &property.place, "unread-input", message, Some(help));
    }
}

fn is_whole(path: &[Step], reached: &[Reached]) -> bool {
    reached.iter().any(|read| read.whole && read.path.len() <= path.len() && same(&read.path, path))
}

/// Whether anything is read of a property or below it.
fn is_read(property: &Property, reached: &[Reached]) -> bool {
    if property.constant || is_whole(&property.path, reached) {
        return true;
    }
    if !property.inner.is_empty() {
        return property.inner.iter().any(|inner| is_read(inner, reached));
    }
    reached.iter().any(|read| read.path.len() >= property.path.len() && same(&read.path, &property.path))
}

/// Whether two paths agree as far as both go.
fn same(a: &[Step], b: &[Step]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b || *a == Step::Any || *b == Step::Any)
}

/// The properties that a schema names below a place.
fn properties(root: &Tree, place: &Tree, path: &[Step]) -> Vec<Property> {
    let mut found: Vec<Property> = Vec::new();
    if path.len() > DEPTH {
        return found;
    }
    for schema in alternatives(root, place, DEPTH) {
        if let Some(Kind::Map(entries)) = schema.get("properties").map(|tree| &tree.kind) {
            for entry in entries {
                let mut path = path.to_vec();
                path.push(Step::Key(entry.key.clone()));
                if found.iter().all(|known| known.path != path) {
                    let inner = properties(root, &entry.value, &path);
                    let constant = entry.value.get("const").is_some();
                    found.push(Property { path, place: entry.key_span.clone(), constant, inner });
                }
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(item) = schema.get(key) {
                let mut path = path.to_vec();
                path.push(Step::Any);
                found.extend(properties(root, item, &path));
            }
        }
    }
    found
}

/// Every schema that may hold at a place: references resolved, alternatives side by side.
fn alternatives<'t>(root: &'t Tree, place: &'t Tree, depth: usize) -> Vec<&'t Tree> {
    if depth == 0 {
        return Vec::new();
    }
    if let Some(target) = place.get("$ref").and_then(Tree::as_str) {
        let mut keys = target.trim_start_matches('#').split('/').skip(1);
        let found = keys.try_fold(root, |here, key| here.get(key));
        return found.map_or(Vec::new(), |found| alternatives(root, found, depth - 1));
    }
    let mut all = vec![place];
    for key in ["allOf", "oneOf", "anyOf"] {
        if let Some(Kind::List(branches)) = place.get(key).map(|tree| &tree.kind) {
            all.extend(branches.iter().flat_map(|branch| alternatives(root, branch, depth - 1)));
        }
    }
    all
}

fn pointer(path: &[Step]) -> String {
    path.iter().fold(String::new(), |above, step| match step {
        Step::Key(key) => child(&above, key),
        Step::Any => child(&above, "*"),
    })
}

fn steps(pointer: &str) -> Vec<Step> {
    let token = |token: &str| match token {
        "*" => Step::Any,
        key => Step::Key(crate::json::unescape(key)),
    };
    pointer.split('/').skip(1).map(token).collect()
}
