//! Tree templates: YAML whose scalars hold expressions, evaluated leaf by leaf.
//!
//! A template is never rendered as text and parsed again, so nothing that a caller sends can change the
//! shape of a manifest or the type of a field.

mod fields;
mod render;
mod schema;
mod trace;

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value as Json};

use crate::diagnostic::{Findings, Help, nearest, suggestion};
use crate::expression::{Compiler, EvalError, Expression, Leaf, Place};
use crate::provenance::Field;
use crate::read::read;
use crate::reads::{Names, Reads};
use crate::scope::Scope;
use crate::source::{Entry, Kind, Source, Span, Tree};
use crate::types::{Type, nouns};

/// A compiled template.
#[derive(Clone, Debug)]
pub struct Template {
    root: Node,
    /// The tree as it was read, for the literals that the engine checks.
    pub tree: Tree,
    /// The file, for mistakes that show only when the template is rendered.
    pub source: Arc<Source>,
}

#[derive(Clone, Debug)]
enum Node {
    Literal(Json, Arc<Place>),
    Leaf(Leaf, Arc<Place>),
    /// Its members, and a map of their keys without their values: a copy of it needs no hash of a key.
    Map(Vec<(String, Node)>, Map<String, Json>),
    List(Vec<Node>),
    Directed(Box<Directed>),
}

/// A map with directives: `$let`, `$for`, `$if`, and what they govern.
#[derive(Clone, Debug)]
struct Directed {
    lets: Vec<(Arc<str>, Expression)>,
    each: Option<Each>,
    when: Option<Expression>,
    body: Node,
}

/// `name in list`, or `key, value in pairs`.
#[derive(Clone, Debug)]
pub struct Each {
    pub names: Vec<Arc<str>>,
    pub list: Expression,
}

/// The position in a loop, counted from zero.
static INDEX: LazyLock<Arc<str>> = LazyLock::new(|| "index".into());

/// A directive by its expression.
#[derive(Clone, Copy, Debug)]
pub enum Directive<'t> {
    If(&'t Expression),
    For(&'t Expression),
}

/// The longest list that a template makes.
pub const MAX_ITEMS: usize = 10_000;

/// The largest tree that a template makes, in bytes of text and 16 for each value.
pub const MAX_BYTES: usize = 1 << 20;

const DIRECTIVES: [&str; 4] = ["$for", "$if", "$let", "$value"];

impl Template {
    pub fn load(source: &Source, compiler: &mut Compiler<'_>, names: &Names) -> Option<Self> {
        let tree = read(source, compiler.findings)?;
        Self::of(tree, source, compiler, names)
    }

    /// A template that is a part of a file.
    pub fn of(tree: Tree, source: &Source, compiler: &mut Compiler<'_>, names: &Names) -> Option<Self> {
        let root = Parser { source, compiler }.node(&tree, names)?;
        Some(Self { root, tree, source: Arc::new(source.clone()) })
    }

    /// Room for members that are added to the map at a key after each rendering: a copy that had to grow would
    /// hash every key anew.
    pub fn make_room(&mut self, key: &str, more: usize) {
        let Node::Map(members, _) = &mut self.root else { return };
        if let Some((_, Node::Map(_, keys))) = members.iter_mut().find(|(name, _)| name == key) {
            let mut roomy = Map::with_capacity(keys.len() + more);
            roomy.append(keys);
            *keys = roomy;
        }
    }

    /// `file:line` of its beginning.
    pub fn spot(&self) -> String {
        Place::of(&self.source, &self.tree.span, "").spot()
    }

    /// The tree that the template gives. Nothing at all is `null`.
    pub fn render(&self, scope: &Scope) -> Result<Json, EvalError> {
        render::render(&self.root, scope, &mut ())
    }

    /// The same tree, and where each of its leaves comes from.
    pub fn trace(&self, scope: &Scope) -> Result<(Json, Vec<Field>), EvalError> {
        let mut tracer = trace::Tracer::default();
        let tree = render::render(&self.root, scope, &mut tracer)?;
        Ok((tree, tracer.fields))
    }

    /// Every path that the template may write, as JSON pointers without list positions.
    pub fn written_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.root.paths("", &mut paths);
        paths
    }

    /// The expression that is the whole value at a path of literal keys.
    pub fn expression_at(&self, path: &[&str]) -> Option<&Expression> {
        let mut node = &self.root;
        for key in path {
            let Node::Map(members, _) = node else { return None };
            node = members.iter().find(|(name, _)| name == key).map(|(_, node)| node)?;
        }
        match node {
            Node::Leaf(Leaf::Lone(expression), _) => Some(expression),
            _ => None,
        }
    }

    /// The places where the template goes one of two ways.
    pub fn directives(&self) -> Vec<Directive<'_>> {
        let mut found = Vec::new();
        self.root.directives(&mut found);
        found
    }

    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        self.root.expressions(&mut found);
        found
    }
}

impl Node {
    fn paths(&self, at: &str, paths: &mut Vec<String>) {
        match self {
            Self::Map(members, _) if !members.is_empty() => {
                for (key, node) in members {
                    node.paths(&format!("{at}/{key}"), paths);
                }
            }
            // A directive decides whether the whole is there, so the whole is what the template writes.
            _ => paths.push(at.to_owned()),
        }
    }

    fn directives<'n>(&'n self, found: &mut Vec<Directive<'n>>) {
        match self {
            Self::Literal(..) | Self::Leaf(..) => {}
            Self::Map(members, _) => members.iter().for_each(|(_, node)| node.directives(found)),
            Self::List(nodes) => nodes.iter().for_each(|node| node.directives(found)),
            Self::Directed(directed) => {
                found.extend(directed.each.iter().map(|each| Directive::For(&each.list)));
                found.extend(directed.when.iter().map(Directive::If));
                directed.body.directives(found);
            }
        }
    }

    fn expressions<'n>(&'n self, found: &mut Vec<&'n Expression>) {
        match self {
            Self::Literal(..) | Self::Leaf(Leaf::Literal(_), _) => {}
            Self::Leaf(Leaf::Lone(expression), _) => found.push(expression),
            Self::Leaf(Leaf::Mixture(mixture), _) => found.extend(mixture.expressions()),
            Self::Map(members, _) => members.iter().for_each(|(_, node)| node.expressions(found)),
            Self::List(nodes) => nodes.iter().for_each(|node| node.expressions(found)),
            Self::Directed(directed) => {
                found.extend(directed.lets.iter().map(|(_, expression)| expression));
                found.extend(directed.each.iter().map(|each| &each.list));
                found.extend(&directed.when);
                directed.body.expressions(found);
            }
        }
    }
}

impl Each {
    /// One scope for each item. Nothing to walk is no item.
    pub fn scopes(&self, scope: &Scope) -> Result<Vec<Scope>, EvalError> {
        let error = |error: minijinja::Error| EvalError::new(error.to_string(), &self.list.place);
        let list = scope.program().eval(&self.list, scope)?;
        if list.is_undefined() || list.is_none() {
            return Ok(Vec::new());
        }
        let mut scopes = Vec::new();
        for (index, item) in list.try_iter().map_err(error)?.enumerate() {
            if index == MAX_ITEMS {
                let message = format!("a list of more than {MAX_ITEMS} items");
                return Err(EvalError::too_large(message, &self.list.place));
            }
            let mut values = vec![(INDEX.clone(), minijinja::Value::from(index))];
            match self.names.as_slice() {
                [name] => values.push((name.clone(), item)),
                names => {
                    for (position, name) in names.iter().enumerate() {
                        values.push((name.clone(), item.get_item_by_index(position).map_err(error)?));
                    }
                }
            }
            scopes.push(scope.with(values));
        }
        Ok(scopes)
    }

    /// Reads `name in list`; the names are known to what the loop governs.
    pub fn parse(
        source: &Source,
        span: &Span,
        text: &str,
        compiler: &mut Compiler<'_>,
        names: &Names,
    ) -> Option<(Self, Names)> {
        let Some((variables, list)) = text.split_once(" in ") else {
            let help = "write `name in list`, or `key, value in map | items`";
            compiler.findings.add_with_help(source, span, "malformed-loop", "a loop needs `in`", Some(help));
            return None;
        };
        let variables: Vec<Arc<str>> = variables.split(',').map(|name| name.trim().into()).collect();
        if let Some(wrong) = variables.iter().find(|name| !is_identifier(name)) {
            let message = format!("`{wrong}` cannot name a variable: it takes letters, digits and `_`");
            compiler.findings.add(source, span, "malformed-loop", message);
            return None;
        }
        let list = compiler.expression(source, span, list.trim(), names)?;
        let mut inner = names.clone();
        inner.opaque("index");
        inner.set_type("index", Type::Number);
        let reads = Reads::again(&list);
        let Some(item) = reads.gives.items() else {
            let forms = reads.gives.forms().unwrap_or_default();
            let message =
                format!("a loop goes through a list or the keys of a map, not through {}", nouns(&forms));
            compiler.findings.add(source, span, "not-a-list", message);
            return None;
        };
        match variables.as_slice() {
            [name] => inner.item(name, &reads),
            several => {
                for (position, name) in several.iter().enumerate() {
                    inner.opaque(name);
                    inner.set_type(name, item.at(position));
                }
            }
        }
        Some((Self { names: variables, list }, inner))
    }
}

/// Whether a name can stand in an expression.
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

struct Parser<'p, 'c> {
    source: &'p Source,
    compiler: &'p mut Compiler<'c>,
}

impl Parser<'_, '_> {
    fn node(&mut self, tree: &Tree, names: &Names) -> Option<Node> {
        match &tree.kind {
            Kind::String(text) => match self.compiler.leaf(self.source, &tree.span, text, names)? {
                Leaf::Literal(literal) => Some(Node::Literal(literal.into(), self.place(tree, text))),
                leaf => Some(Node::Leaf(leaf, self.place(tree, text))),
            },
            Kind::List(items) => {
                let nodes: Vec<Option<Node>> = items.iter().map(|item| self.node(item, names)).collect();
                nodes.into_iter().collect::<Option<Vec<_>>>().map(Node::List)
            }
            Kind::Map(entries) if entries.iter().any(|entry| entry.key.starts_with('$')) => {
                self.directed(entries, names)
            }
            Kind::Map(entries) => self.map(entries.iter(), names),
            _ => {
                let value = tree.to_json();
                let place = self.place(tree, &value.to_string());
                Some(Node::Literal(value, place))
            }
        }
    }

    fn place(&self, tree: &Tree, text: &str) -> Arc<Place> {
        Arc::new(Place::of(self.source, &tree.span, text))
    }

    fn map<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>, names: &Names) -> Option<Node> {
        let mut members = Vec::new();
        let mut whole = true;
        for entry in entries {
            if entry.key.contains("{{") {
                let message = "a key is literal; a map with computed keys is one expression that gives a map";
                self.compiler.findings.add(self.source, &entry.key_span, "expression-in-key", message);
            }
            match self.node(&entry.value, names) {
                Some(node) => members.push((entry.key.clone(), node)),
                None => whole = false,
            }
        }
        let keys = members.iter().map(|(key, _)| (key.clone(), Json::Null)).collect();
        whole.then_some(Node::Map(members, keys))
    }

    fn directed(&mut self, entries: &[Entry], names: &Names) -> Option<Node> {
        self.unknown_directives(entries);
        // A misspelt directive is reported once, and read as the one that is meant.
        let find = |key: &str| {
            let meant =
                |entry: &&Entry| entry.key.starts_with('$') && nearest(&entry.key, DIRECTIVES) == Some(key);
            entries.iter().find(|entry| entry.key == key).or_else(|| entries.iter().find(meant))
        };
        let mut inner = names.clone();
        let each = match find("$for") {
            None => None,
            Some(entry) => {
                let text = self.text(entry)?;
                let (each, names) =
                    Each::parse(self.source, &entry.value.span, &text, self.compiler, &inner)?;
                inner = names;
                Some(each)
            }
        };
        let lets = find("$let").map_or(Some(Vec::new()), |entry| self.lets(entry, &mut inner));
        let when = match find("$if") {
            None => Some(None),
            Some(entry) => self.text(entry).and_then(|text| {
                self.compiler.expression(self.source, &entry.value.span, &text, &inner).map(Some)
            }),
        };
        let body = match find("$value") {
            Some(entry) => self.node(&entry.value, &inner),
            None => self.map(entries.iter().filter(|entry| !entry.key.starts_with('$')), &inner),
        };
        Some(Node::Directed(Box::new(Directed { lets: lets?, each, when: when?, body: body? })))
    }

    fn lets(&mut self, entry: &Entry, names: &mut Names) -> Option<Vec<(Arc<str>, Expression)>> {
        let Kind::Map(members) = &entry.value.kind else {
            let message =
                format!("`$let` takes a map of names and expressions, found {}", entry.value.noun());
            self.compiler.findings.add(self.source, &entry.value.span, "wrong-type", message);
            return None;
        };
        let mut lets = Vec::new();
        let mut whole = true;
        for member in members {
            let expression = self
                .text(member)
                .and_then(|text| self.compiler.expression(self.source, &member.value.span, &text, names));
            match expression {
                Some(expression) => {
                    names.alias(&member.key, &Reads::again(&expression));
                    lets.push((member.key.as_str().into(), expression));
                }
                None => {
                    names.opaque(&member.key);
                    whole = false;
                }
            }
        }
        whole.then_some(lets)
    }

    fn unknown_directives(&mut self, entries: &[Entry]) {
        let alone = entries.iter().any(|entry| entry.key == "$value");
        for entry in entries {
            if entry.key.starts_with('$') && !DIRECTIVES.contains(&entry.key.as_str()) {
                let message = format!("`{}` is not a directive", entry.key);
                let help = suggestion(&entry.key, &DIRECTIVES);
                self.compiler.findings.add_with_help(
                    self.source,
                    &entry.key_span,
                    "unknown-directive",
                    message,
                    help,
                );
            } else if alone && !entry.key.starts_with('$') {
                let message = "beside `$value` there are directives only: it is the whole value";
                self.compiler.findings.add(self.source, &entry.key_span, "value-beside-keys", message);
            }
        }
    }

    /// The expression of a directive: bare, without braces.
    fn text(&mut self, entry: &Entry) -> Option<String> {
        match entry.value.as_str() {
            Some(text) => Some(text.to_owned()),
            None => {
                let message = format!("`{}` takes an expression, found {}", entry.key, entry.value.noun());
                self.compiler.findings.add(self.source, &entry.value.span, "wrong-type", message);
                None
            }
        }
    }
}

/// Reads the literal string at a key of a template's top level, as the engine needs for a manifest.
pub fn literal<'t>(
    template: &'t Template,
    key: &str,
    source: &Source,
    findings: &mut Findings,
) -> Option<&'t str> {
    let Some(value) = template.tree.get(key) else {
        return missing(template, key, source, findings);
    };
    match value.as_str() {
        Some(text) if !text.contains("{{") => Some(text),
        _ => {
            let message = format!("`{key}` of a manifest is a literal text, never computed");
            findings.add(source, &value.span, "not-literal", message);
            None
        }
    }
}

/// Every manifest has these keys; a near one that Kubernetes does not know is the one that is meant.
fn missing<'t>(
    template: &'t Template,
    key: &str,
    source: &Source,
    findings: &mut Findings,
) -> Option<&'t str> {
    const KNOWN: [&str; 6] = ["apiVersion", "kind", "metadata", "spec", "data", "status"];
    let mut strangers = template.tree.entries().iter().filter(|entry| !KNOWN.contains(&entry.key.as_str()));
    let meant = strangers.find(|entry| nearest(&entry.key, KNOWN) == Some(key));
    match meant {
        Some(entry) => {
            let message = format!("`{}` is not a key of a manifest", entry.key);
            let help = Help::replace(format!("did you mean `{key}`?"), key);
            findings.add_with_help(source, &entry.key_span, "unknown-key", message, Some(help));
        }
        None => {
            let message = format!("the key `{key}` is missing; every manifest has it");
            findings.add(source, &template.tree.span, "missing-key", message);
        }
    }
    None
}
