//! A file that a person wrote, and the tree that is read from it: every key and value keeps its place.

use std::ops::Range;

/// One file: its name as the person knows it, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: String,
    pub text: String,
}

/// A stretch of a file, in bytes.
pub type Span = Range<usize>;

/// A value of a TOML, YAML or JSON file, with its place.
#[derive(Clone, Debug)]
pub struct Tree {
    pub span: Span,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    List(Vec<Tree>),
    Map(Vec<Entry>),
}

/// One member of a map. Members keep the order of the file.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_span: Span,
    pub value: Tree,
}

/// Line and column, both counted from one; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    pub fn position(&self, offset: usize) -> Position {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |part| part.chars().count()) + 1,
        }
    }

    /// The line at an offset, without its end.
    pub fn line_at(&self, offset: usize) -> &str {
        let offset = offset.min(self.text.len());
        let start = self.text.get(..offset).and_then(|part| part.rfind('\n')).map_or(0, |at| at + 1);
        self.text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or("")
    }

    /// The place of a part of a scalar: quotes, indentation and escapes make it hard to compute, so it is
    /// searched for, and the whole scalar is the answer where it cannot be found.
    pub fn locate(&self, scalar: &Span, part: &str, skip: usize) -> Span {
        let slice = self.text.get(scalar.clone()).unwrap_or("");
        match slice.match_indices(part).nth(skip) {
            Some((at, _)) if !part.is_empty() => scalar.start + at..scalar.start + at + part.len(),
            _ => scalar.clone(),
        }
    }
}

impl Tree {
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Tree> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// What a JSON pointer names, as far down as the tree goes along it.
    pub fn nearest(&self, pointer: &str) -> &Tree {
        let mut here = self;
        for key in pointer.split('/').skip(1) {
            let key = key.replace("~1", "/").replace("~0", "~");
            let next = match &here.kind {
                Kind::List(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
                _ => here.get(&key),
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here
    }

    /// The word for what stands here, as a message says it.
    pub fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a boolean",
            Kind::Integer(_) => "an integer",
            Kind::Float(_) => "a number",
            Kind::String(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a table",
        }
    }

    pub fn to_json(&self) -> serde_json::Value {
        match &self.kind {
            Kind::Null => serde_json::Value::Null,
            Kind::Bool(value) => (*value).into(),
            Kind::Integer(value) => (*value).into(),
            Kind::Float(value) => (*value).into(),
            Kind::String(value) => value.as_str().into(),
            Kind::List(items) => items.iter().map(Tree::to_json).collect(),
            Kind::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }
}
