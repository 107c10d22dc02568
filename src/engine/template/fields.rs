//! A template against the schema of the kind that it makes: every key exists, every value may stand there.

use crate::diagnostic::{Findings, Help, suggestion};
use crate::expression::Leaf;
use crate::source::{Entry, Kind, Source, Span, Tree};
use crate::types::{Form, Member, Type, Words, nouns};

use super::{Directed, Node, Template};

/// As deep as the value of an expression is compared with a schema.
const DEEPEST: usize = 6;

impl Template {
    /// Compares the template with what may stand there. A `whole` object has its required members; a patch need
    /// not.
    pub fn check(&self, source: &Source, expected: &Type, whole: bool, findings: &mut Findings) {
        Fields { source, findings, whole }.node(&self.root, &self.tree, expected, "", false);
    }
}

struct Fields<'f> {
    source: &'f Source,
    findings: &'f mut Findings,
    whole: bool,
}

impl Fields<'_> {
    /// Of a place that could not be read as it was meant, that is said already.
    fn add(&mut self, span: &Span, code: &'static str, message: String, help: Option<Help>) {
        if !self.findings.said_at(self.source, span) {
            self.findings.add_with_help(self.source, span, code, message, help);
        }
    }

    fn list(&mut self, nodes: &[Node], items: &[Tree], tree: &Tree, expected: &Type, path: &str) {
        if !self.is(Form::List, expected, path, &tree.span) {
            return;
        }
        let item = expected.items().unwrap_or_default();
        for (node, tree) in nodes.iter().zip(items) {
            self.node(node, tree, &item, &format!("{path}[]"), true);
        }
    }

    fn node(&mut self, node: &Node, tree: &Tree, expected: &Type, path: &str, in_list: bool) {
        match (node, &tree.kind) {
            (Node::Map(members, _), Kind::Map(entries)) => {
                let entries: Vec<&Entry> = entries.iter().collect();
                self.map(members, &entries, tree, expected, path);
            }
            (Node::List(nodes), Kind::List(items)) => self.list(nodes, items, tree, expected, path),
            (Node::Directed(directed), Kind::Map(entries)) => {
                self.directed(directed, entries, tree, expected, path, in_list);
            }
            (Node::Leaf(Leaf::Lone(expression), _), _) => {
                self.value(&expression.gives, expected, path, &tree.span, DEEPEST);
            }
            (Node::Leaf(Leaf::Mixture(_), _), _) => {
                self.is(Form::Text, expected, path, &tree.span);
            }
            (Node::Literal(value, _), _) => {
                if let Some(given) = literal(value) {
                    self.value(&given, expected, path, &tree.span, DEEPEST);
                }
            }
            _ => {}
        }
    }

    fn map(
        &mut self,
        members: &[(String, Node)],
        entries: &[&Entry],
        tree: &Tree,
        expected: &Type,
        path: &str,
    ) {
        if !self.is(Form::Map, expected, path, &tree.span) {
            return;
        }
        let mut misspelt = false;
        for ((key, node), entry) in members.iter().zip(entries) {
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match expected.member(key) {
                Member::Found(kind) => self.node(node, &entry.value, &kind, &inner, false),
                Member::Missing(known) => {
                    misspelt = true;
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    let message = format!("`{inner}` is not a field of this kind");
                    let help = suggestion(key, &known);
                    self.add(&entry.key_span, "unknown-field", message, help);
                }
                Member::NoMap(_) => {}
            }
        }
        // A required field is probably there, under the wrong name that was just reported.
        if self.whole && !misspelt {
            self.required(entries, tree, expected, path);
        }
    }

    fn required(&mut self, entries: &[&Entry], tree: &Tree, expected: &Type, path: &str) {
        // Several alternatives require different things; one of them may be met.
        let alternatives = expected.alternatives();
        let Some([Type::Map(one)]) = alternatives.as_deref() else {
            return;
        };
        for name in one.required.iter().filter(|name| !entries.iter().any(|entry| entry.key == **name)) {
            let span = entries.first().map_or(&tree.span, |entry| &entry.key_span);
            let owner = if path.is_empty() { "the object".to_owned() } else { format!("`{path}`") };
            let message = format!("{owner} needs the field `{name}`");
            self.add(span, "missing-field", message, None);
        }
    }

    fn directed(
        &mut self,
        directed: &Directed,
        entries: &[Entry],
        tree: &Tree,
        expected: &Type,
        path: &str,
        in_list: bool,
    ) {
        let mut item = expected.clone();
        if directed.each.is_some() && !in_list {
            if !self.is(Form::List, expected, path, &tree.span) {
                return;
            }
            item = expected.items().unwrap_or_default();
        }
        match (entries.iter().find(|entry| entry.key == "$value"), &directed.body) {
            (Some(entry), body) => self.node(body, &entry.value, &item, path, in_list),
            (None, Node::Map(members, _)) => {
                let plain: Vec<&Entry> = entries.iter().filter(|entry| !entry.key.starts_with('$')).collect();
                self.map(members, &plain, tree, &item, path);
            }
            (None, _) => {}
        }
    }

    /// The value of an expression, as far as its type is known.
    fn value(&mut self, given: &Type, expected: &Type, path: &str, span: &Span, depth: usize) {
        let (Some(forms), Some(allowed)) = (given.forms(), expected.forms()) else {
            return;
        };
        if forms.is_empty() || allowed.is_empty() || depth == 0 {
            return;
        }
        // A quantity is written as text.
        let written = |form: Form| if form == Form::Quantity { Form::Text } else { form };
        if !forms.iter().any(|form| allowed.contains(&written(*form))) {
            let message = format!("`{path}` takes {}, and this is {}", nouns(&allowed), nouns(&forms));
            self.add(span, "wrong-field-type", message, None);
            return;
        }
        self.words(given, expected, path, span);
        if forms.contains(&Form::List) && allowed.contains(&Form::List) {
            let (given, expected) = (given.items().unwrap_or_default(), expected.items().unwrap_or_default());
            self.value(&given, &expected, &format!("{path}[]"), span, depth - 1);
        }
        for alternative in given.alternatives().unwrap_or_default() {
            if let Type::Map(members) = alternative {
                for (name, kind) in members.named {
                    self.given_member(&name, &kind, expected, path, span, depth);
                }
            }
        }
    }

    fn given_member(
        &mut self,
        name: &str,
        kind: &Type,
        expected: &Type,
        path: &str,
        span: &Span,
        depth: usize,
    ) {
        match expected.member(name) {
            Member::Found(inner) => self.value(kind, &inner, &format!("{path}.{name}"), span, depth - 1),
            Member::Missing(known) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let message = format!(
                    "the value has a member `{name}`, and `{path}.{name}` is not a field of this kind"
                );
                let help = suggestion(name, &known);
                self.add(span, "unknown-field", message, help);
            }
            Member::NoMap(_) => {}
        }
    }

    /// Words of which none may stand here.
    fn words(&mut self, given: &Type, expected: &Type, path: &str, span: &Span) {
        if expected.forms().is_none_or(|forms| forms.len() > 1) {
            return;
        }
        let (Words::Only(said), Words::Only(allowed)) = (given.texts(), expected.texts()) else {
            return;
        };
        if said.iter().any(|word| allowed.contains(word)) {
            return;
        }
        let right: Vec<&str> = allowed.iter().map(String::as_str).collect();
        let first = said.first().map_or("", String::as_str);
        let message = format!("`{path}` never takes '{first}'");
        self.add(span, "impossible-value", message, suggestion(first, &right));
    }

    fn is(&mut self, form: Form, expected: &Type, path: &str, span: &Span) -> bool {
        match expected.forms() {
            Some(allowed) if !allowed.is_empty() && !allowed.contains(&form) => {
                let message = format!("`{path}` takes {}, and this is {}", nouns(&allowed), form.noun());
                self.add(span, "wrong-field-type", message, None);
                false
            }
            _ => true,
        }
    }
}

fn literal(value: &serde_json::Value) -> Option<Type> {
    match value {
        serde_json::Value::String(text) => Some(Type::words([text.as_str()])),
        serde_json::Value::Number(_) => Some(Type::Number),
        serde_json::Value::Bool(_) => Some(Type::Bool),
        _ => None,
    }
}
