//! Tree templates: YAML whose scalars hold expressions, evaluated leaf by leaf.
//!
//! A template is never rendered as text and parsed again, so nothing that a caller sends can change the
//! shape of a manifest or the type of a field.

use serde_json::{Map, Value as Json};

use crate::diagnostic::{Findings, Help, nearest, suggestion};
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

    /// The expression that is the whole value at a path of literal keys.
    pub fn expression_at(&self, path: &[&str]) -> Option<&Expression> {
        let mut node = &self.root;
        for key in path {
            let Node::Map(members) = node else { return None };
            node = members.iter().find(|(name, _)| name == key).map(|(_, node)| node)?;
        }
        match node {
            Node::Leaf(Leaf::Lone(expression)) => Some(expression),
            _ => None,
        }
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
            let help = "write `name in list`, or `key, value in map | items`";
            compiler.findings.add_with_help(source, span, "malformed-loop", "a loop needs `in`", Some(help));
            return None;
        };
        let variables: Vec<String> = variables.split(',').map(|name| name.trim().to_owned()).collect();
        if let Some(wrong) = variables.iter().find(|name| !is_identifier(name)) {
            let message = format!("`{wrong}` cannot name a variable: it takes letters, digits and `_`");
            compiler.findings.add(source, span, "malformed-loop", message);
            return None;
        }
        let list = compiler.expression(source, span, list.trim(), names);
        let mut inner = names.clone();
        inner.opaque("index");
        match (variables.as_slice(), &list) {
            ([name], Some(list)) => inner.item(name, &Reads::again(list)),
            (several, _) => several.iter().for_each(|name| inner.opaque(name)),
        }
        Some((Self { names: variables, list: list? }, inner))
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

    fn lets(&mut self, entry: &Entry, names: &mut Names<'_>) -> Option<Vec<(String, Expression)>> {
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
                    lets.push((member.key.clone(), expression));
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
