//! Tree templates: YAML whose scalars hold expressions, evaluated leaf by leaf.
//!
//! A template is never rendered as text and parsed again, so nothing that a caller sends can change the
//! shape of a manifest or the type of a field.

use serde_json::{Map, Value as Json};

use crate::diagnostic::{Findings, suggestion};
use crate::expression::{Compiler, EvalError, Expression, Leaf};
use crate::read::read;
use crate::reads::{Names, Reads};
use crate::scope::Scope;
use crate::source::{Entry, Kind, Source, Span, Tree};
use crate::value::to_json;

/// A compiled template.
#[derive(Clone, Debug)]
pub struct Template {
    root: Node,
    /// The tree as it was read, for the literals that the engine checks.
    pub tree: Tree,
}

#[derive(Clone, Debug)]
enum Node {
    Literal(Json),
    Leaf(Leaf),
    Map(Vec<(String, Node)>),
    List(Vec<Node>),
    Directed(Box<Directed>),
}

/// A map with directives: `$let`, `$for`, `$if`, and what they govern.
#[derive(Clone, Debug)]
struct Directed {
    lets: Vec<(String, Expression)>,
    each: Option<Each>,
    when: Option<Expression>,
    body: Node,
}

/// `name in list`, or `key, value in pairs`.
#[derive(Clone, Debug)]
pub struct Each {
    pub names: Vec<String>,
    pub list: Expression,
}

const DIRECTIVES: [&str; 4] = ["$for", "$if", "$let", "$value"];

impl Template {
    pub fn load(source: &Source, compiler: &mut Compiler<'_>, names: &Names<'_>) -> Option<Self> {
        let tree = read(source, compiler.findings)?;
        Self::of(tree, source, compiler, names)
    }

    /// A template that is a part of a file.
    pub fn of(
        tree: Tree,
        source: &Source,
        compiler: &mut Compiler<'_>,
        names: &Names<'_>,
    ) -> Option<Self> {
        let root = Parser { source, compiler }.node(&tree, names)?;
        Some(Self { root, tree })
    }

    /// The tree that the template gives. Nothing at all is `null`.
    pub fn render(&self, scope: &Scope) -> Result<Json, EvalError> {
        Ok(self.root.render(scope)?.unwrap_or(Json::Null))
    }

    /// Every path that the template may write, as JSON pointers without list positions.
    pub fn written_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.root.paths("", &mut paths);
        paths
    }

    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        self.root.expressions(&mut found);
        found
    }
}

impl Node {
    /// What stands here; `None` is absent, and takes its key or list item with it.
    fn render(&self, scope: &Scope) -> Result<Option<Json>, EvalError> {
        match self {
            Self::Literal(value) => Ok(Some(value.clone())),
            Self::Leaf(Leaf::Literal(text)) => Ok(Some(Json::String(text.clone()))),
            Self::Leaf(Leaf::Mixture(mixture)) => {
                scope.program().text(mixture, scope).map(|text| Some(text.into()))
            }
            Self::Leaf(Leaf::Lone(expression)) => {
                let value = scope.program().eval(expression, scope)?;
                to_json(&value).map_err(|message| EvalError { message, place: expression.place.clone() })
            }
            Self::Map(members) => {
                let mut map = Map::new();
                for (key, node) in members {
                    if let Some(value) = node.render(scope)? {
                        map.insert(key.clone(), value);
                    }
                }
                // A map of which every member is absent is absent; one that is written `{}` stays.
                Ok((members.is_empty() || !map.is_empty()).then_some(Json::Object(map)))
            }
            Self::List(nodes) => {
                let mut items = Vec::new();
                for node in nodes {
                    node.render_into(scope, &mut items)?;
                }
                Ok((nodes.is_empty() || !items.is_empty()).then_some(Json::Array(items)))
            }
            Self::Directed(directed) => {
                let mut items = Vec::new();
                directed.render_into(scope, &mut items)?;
                if directed.each.is_some() {
                    return Ok((!items.is_empty()).then_some(Json::Array(items)));
                }
                Ok(items.pop())
            }
        }
    }

    fn render_into(&self, scope: &Scope, items: &mut Vec<Json>) -> Result<(), EvalError> {
        match self {
            Self::Directed(directed) => directed.render_into(scope, items),
            _ => {
                items.extend(self.render(scope)?);
                Ok(())
            }
        }
    }

    fn paths(&self, at: &str, paths: &mut Vec<String>) {
        match self {
            Self::Map(members) if !members.is_empty() => {
                for (key, node) in members {
                    node.paths(&format!("{at}/{key}"), paths);
                }
            }
            // A directive decides whether the whole is there, so the whole is what the template writes.
            _ => paths.push(at.to_owned()),
        }
    }

    fn expressions<'n>(&'n self, found: &mut Vec<&'n Expression>) {
        match self {
            Self::Literal(_) | Self::Leaf(Leaf::Literal(_)) => {}
            Self::Leaf(Leaf::Lone(expression)) => found.push(expression),
            Self::Leaf(Leaf::Mixture(mixture)) => found.extend(mixture.expressions()),
            Self::Map(members) => members.iter().for_each(|(_, node)| node.expressions(found)),
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

impl Directed {
    fn render_into(&self, scope: &Scope, items: &mut Vec<Json>) -> Result<(), EvalError> {
        match &self.each {
            None => self.render_one(scope.clone(), items),
            Some(each) => {
                for inner in each.scopes(scope)? {
                    self.render_one(inner, items)?;
                }
                Ok(())
            }
        }
    }

    fn render_one(&self, mut scope: Scope, items: &mut Vec<Json>) -> Result<(), EvalError> {
        for (name, expression) in &self.lets {
            let value = scope.program().eval(expression, &scope)?;
            scope = scope.with(vec![(name.clone(), value)]);
        }
        if let Some(when) = &self.when
            && !scope.program().holds(when, &scope)?
        {
            return Ok(());
        }
        self.body.render_into(&scope, items)
    }
}

impl Each {
    /// One scope for each item. Nothing to walk is no item.
    pub fn scopes(&self, scope: &Scope) -> Result<Vec<Scope>, EvalError> {
        let error = |error: minijinja::Error| EvalError {
            message: error.to_string(),
            place: self.list.place.clone(),
        };
        let list = scope.program().eval(&self.list, scope)?;
        if list.is_undefined() || list.is_none() {
            return Ok(Vec::new());
        }
        let mut scopes = Vec::new();
        for (index, item) in list.try_iter().map_err(error)?.enumerate() {
            let mut values = vec![("index".to_owned(), minijinja::Value::from(index))];
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
    pub fn parse<'n>(
        source: &Source,
        span: &Span,
        text: &str,
        compiler: &mut Compiler<'_>,
        names: &Names<'n>,
    ) -> Option<(Self, Names<'n>)> {
        let Some((variables, list)) = text.split_once(" in ") else {
            let help = "write `name in list`, or `key, value in map | items`".to_owned();
            compiler.findings.add_with_help(source, span, "malformed-loop", "a loop needs `in`", Some(help));
            return None;
        };
        let variables: Vec<String> = variables.split(',').map(|name| name.trim().to_owned()).collect();
        let list = compiler.expression(source, span, list.trim(), names)?;
        let mut inner = names.clone();
        inner.opaque("index");
        let reads = Reads::again(&list);
        match variables.as_slice() {
            [name] => inner.item(name, &reads),
            several => several.iter().for_each(|name| inner.opaque(name)),
        }
        Some((Self { names: variables, list }, inner))
    }
}

struct Parser<'p, 'c> {
    source: &'p Source,
    compiler: &'p mut Compiler<'c>,
}

impl Parser<'_, '_> {
    fn node(&mut self, tree: &Tree, names: &Names<'_>) -> Option<Node> {
        match &tree.kind {
            Kind::String(text) => match self.compiler.leaf(self.source, &tree.span, text, names)? {
                Leaf::Literal(text) => Some(Node::Literal(text.into())),
                leaf => Some(Node::Leaf(leaf)),
            },
            Kind::List(items) => {
                let nodes: Vec<Option<Node>> = items.iter().map(|item| self.node(item, names)).collect();
                nodes.into_iter().collect::<Option<Vec<_>>>().map(Node::List)
            }
            Kind::Map(entries) if entries.iter().any(|entry| entry.key.starts_with('$')) => {
                self.directed(entries, names)
            }
            Kind::Map(entries) => self.map(entries.iter(), names),
            _ => Some(Node::Literal(tree.to_json())),
        }
    }

    fn map<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>, names: &Names<'_>) -> Option<Node> {
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
        whole.then_some(Node::Map(members))
    }

    fn directed(&mut self, entries: &[Entry], names: &Names<'_>) -> Option<Node> {
        self.unknown_directives(entries);
        let find = |key: &str| entries.iter().find(|entry| entry.key == key);
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
        let mut lets = Vec::new();
        if let Some(Entry { value: Tree { kind: Kind::Map(members), .. }, .. }) = find("$let") {
            for member in members {
                let text = self.text(member)?;
                let expression = self.compiler.expression(self.source, &member.value.span, &text, &inner)?;
                inner.alias(&member.key, &Reads::again(&expression));
                lets.push((member.key.clone(), expression));
            }
        }
        let when = match find("$if") {
            None => None,
            Some(entry) => {
                let text = self.text(entry)?;
                Some(self.compiler.expression(self.source, &entry.value.span, &text, &inner)?)
            }
        };
        let body = match find("$value") {
            Some(entry) => self.node(&entry.value, &inner)?,
            None => self.map(entries.iter().filter(|entry| !entry.key.starts_with('$')), &inner)?,
        };
        Some(Node::Directed(Box::new(Directed { lets, each, when, body })))
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
    let value = template.tree.get(key);
    match value.and_then(Tree::as_str) {
        Some(text) if !text.contains("{{") => Some(text),
        _ => {
            let span = value.map_or(&template.tree.span, |value| &value.span);
            let message = format!("`{key}` of a manifest is a literal, never computed");
            findings.add(source, span, "not-literal", message);
            None
        }
    }
}
