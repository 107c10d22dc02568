//! What every manifest must agree with: the engine, which names and labels it, and itself.

use crate::diagnostic::{Findings, Help};
use crate::source::{Kind, Source, Tree};
use crate::template::Template;

/// Reports what a manifest says that the engine says anyhow, and a selector that misses its own pods.
pub(super) fn lint(template: &Template, source: &Source, findings: &mut Findings) {
    if let Some(metadata) = template.tree.get("metadata") {
        for entry in metadata.entries().iter().filter(|entry| entry.key == "namespace") {
            let message = "the namespace is set by the engine, and cannot be chosen here";
            let start = entry.key_span.start - source.column_offset(entry.key_span.start);
            let help = Help::edit("take the line out", start..entry.value.span.end, "");
            findings.add_with_help(source, &entry.key_span, "namespace-in-manifest", message, Some(help));
        }
        let names = metadata.entries().iter().filter(|entry| ["name", "generateName"].contains(&&*entry.key));
        if let Some(second) = names.clone().nth(1) {
            let message = "a manifest has either `name` or `generateName`";
            findings.add(source, &second.key_span, "two-names", message);
        }
    }
    Selector { template, source, findings }.lint();
}

const SELECTOR: [&str; 3] = ["spec", "selector", "matchLabels"];
const LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

/// A manifest that selects its own pods by labels, and the labels that it gives them.
struct Selector<'s> {
    template: &'s Template,
    source: &'s Source,
    findings: &'s mut Findings,
}

impl Selector<'_> {
    fn lint(&mut self) {
        let tree = &self.template.tree;
        if at(tree, &["spec", "template"]).is_none() {
            return;
        }
        match (at(tree, &SELECTOR), at(tree, &LABELS)) {
            (Some(selector), None) => {
                self.miss(selector, "selects labels, and the template gives none", None);
            }
            (Some(selector), Some(labels)) => match (&selector.kind, &labels.kind) {
                (Kind::Map(_), Kind::Map(_)) => self.literal(selector, labels),
                (Kind::String(_), Kind::Map(_)) => {
                    self.miss(selector, "selects labels that the template does not give", None);
                }
                (Kind::String(_), Kind::String(_)) => self.computed(selector, labels),
                _ => {}
            },
            _ => {}
        }
    }

    fn literal(&mut self, selector: &Tree, labels: &Tree) {
        for entry in selector.entries() {
            let given = labels.get(&entry.key);
            if entry.key.starts_with('$')
                || given.is_some_and(|given| given.to_json() == entry.value.to_json())
            {
                continue;
            }
            let written = self.source.text.get(entry.value.span.clone()).unwrap_or("").to_owned();
            let help = match (given, labels.entries().first()) {
                (Some(given), _) => {
                    Help::edit("the template gives another value", given.span.clone(), written.as_str())
                }
                (None, Some(first)) => {
                    let column = self.source.column_offset(first.key_span.start);
                    let line = format!("{}: {written}\n{}", entry.key, " ".repeat(column));
                    Help::edit("give it to the template", first.key_span.start..first.key_span.start, line)
                }
                (None, None) => Help::from("give it to the template"),
            };
            let message = format!(
                "the selector asks for `{}: {written}`, and the template does not give it",
                entry.key
            );
            let span = &entry.key_span;
            self.findings.add_with_help(self.source, span, "selector-misses-labels", message, Some(help));
        }
    }

    /// Labels that are computed hold what the selector asks for where they come, in part, from the same value.
    fn computed(&mut self, selector: &Tree, labels: &Tree) {
        let (Some(asked), Some(given)) =
            (self.template.expression_at(&SELECTOR), self.template.expression_at(&LABELS))
        else {
            return;
        };
        if asked.place.text == given.place.text || asked.origins.is_empty() || given.origins.is_empty() {
            return;
        }
        let gives = |dotted: &str| given.origins.iter().any(|origin| origin.to_string() == dotted);
        if !asked.origins.iter().all(|origin| gives(&origin.to_string())) {
            let whole = format!("\"{{{{ {} | merge({}) }}}}\"", given.place.text, asked.place.text);
            let help = Help::edit("lay the selected labels over the others", labels.span.clone(), whole);
            self.miss(selector, "selects labels that the template does not give", Some(help));
        }
    }

    fn miss(&mut self, selector: &Tree, what: &str, help: Option<Help>) {
        let message = format!("the selector {what}: it would find no pod of its own");
        self.findings.add_with_help(self.source, &selector.span, "selector-misses-labels", message, help);
    }
}

fn at<'t>(tree: &'t Tree, path: &[&str]) -> Option<&'t Tree> {
    path.iter().try_fold(tree, |here, key| here.get(key))
}
