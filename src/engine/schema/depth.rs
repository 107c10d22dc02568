//! How deep a schema nests when its references are followed: all that is done with one recurses over it.

use std::collections::HashMap;

use crate::diagnostic::Findings;
use crate::source::{Entry, Kind, Source, Span, Tree};

/// Levels of JSON, references followed: far beyond any honest schema, and far from the end of the stack.
const MAX_DEPTH: usize = 256;

/// The reference with which a schema becomes too deep. A reference back to what is around it adds nothing.
fn too_deep(root: &Tree) -> Option<Span> {
    let mut walk = Walk { root, known: HashMap::new(), passed: None };
    walk.levels(root, 0);
    walk.passed
}

struct Walk<'t> {
    root: &'t Tree,
    /// The levels below each reference; none while it is followed.
    known: HashMap<&'t str, usize>,
    passed: Option<Span>,
}

impl<'t> Walk<'t> {
    fn levels(&mut self, tree: &'t Tree, above: usize) -> usize {
        if above > MAX_DEPTH || self.passed.is_some() {
            return MAX_DEPTH + 1;
        }
        let inner = match &tree.kind {
            Kind::List(items) => items.iter().map(|item| self.levels(item, above + 1)).max(),
            Kind::Map(entries) => {
                let member = |entry: &'t Entry| match (&*entry.key, entry.value.as_str()) {
                    ("$ref", Some(target)) => self.reference(target, &entry.value.span, above + 1),
                    _ => self.levels(&entry.value, above + 1),
                };
                entries.iter().map(member).max()
            }
            _ => None,
        };
        inner.unwrap_or(0) + 1
    }

    fn reference(&mut self, target: &'t str, span: &Span, above: usize) -> usize {
        if let Some(levels) = self.known.get(target) {
            return *levels;
        }
        self.known.insert(target, 0);
        let Some(pointer) = target.strip_prefix('#') else { return 0 };
        let levels = self.levels(self.root.nearest(pointer), above);
        self.known.insert(target, levels);
        if levels > MAX_DEPTH && self.passed.is_none() {
            self.passed = Some(span.clone());
        }
        levels
    }
}

/// Reports a schema that is too deep to be compiled.
pub(super) fn lint(source: &Source, root: &Tree, findings: &mut Findings) -> bool {
    let Some(span) = too_deep(root) else { return true };
    let message = format!("with what this refers to, the schema nests deeper than {MAX_DEPTH} levels");
    let help = "write a flatter schema; a reference may lead back to a schema around it";
    findings.add_with_help(source, &span, "too-deep", message, Some(help));
    false
}
