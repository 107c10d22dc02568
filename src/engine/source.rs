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
    /// What JSON keeps to the last digit: from the least i64 to the largest u64.
    Integer(i128),
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

    /// How many bytes of its line stand before an offset.
    pub fn column_offset(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        before.len() - before.rfind('\n').map_or(0, |at| at + 1)
    }

    /// The line at an offset, without its end.
    pub fn line_at(&self, offset: usize) -> &str {
        let offset = offset.min(self.text.len());
        let start = self.text.get(..offset).and_then(|part| part.rfind('\n')).map_or(0, |at| at + 1);
        self.text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or("")
    }

    /// Where each byte of a part of a scalar stands in the file, and where the part ends; nothing where it
    /// cannot be found. Escapes, doubled quotes and folded lines are followed.
    pub fn offsets(&self, scalar: &Span, part: &str) -> Vec<usize> {
        let raw = self.text.get(scalar.clone()).unwrap_or("");
        let found = raw.char_indices().find_map(|(at, _)| Some((at, align(&raw[at..], part)?)));
        found.map_or_else(Vec::new, |(at, offsets)| {
            offsets.into_iter().map(|offset| scalar.start + at + offset).collect()
        })
    }

    /// A span without the quotes around what it holds.
    pub fn unquoted(&self, span: &Span) -> Span {
        let text = self.text.get(span.clone()).unwrap_or("");
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| text.len() >= 2 * quote.len() && text.starts_with(quote) && text.ends_with(quote));
        let width = quote.map_or(0, str::len);
        span.start + width..span.end - width
    }
}

/// Reads `part` at the beginning of the text of a scalar, and says where each byte of it stands.
fn align(raw: &str, part: &str) -> Option<Vec<usize>> {
    let mut offsets = Vec::with_capacity(part.len() + 1);
    let mut at = 0;
    for c in part.chars() {
        let rest = &raw[at..];
        let width = if rest.starts_with(c) && c != '\\' {
            c.len_utf8()
        } else if rest.starts_with('\\') {
            escape(rest, c)?
        } else if c == ' ' && rest.starts_with('\n') {
            rest.len() - rest.trim_start().len()
        } else {
            return None;
        };
        offsets.extend(std::iter::repeat_n(at, c.len_utf8()));
        at += width;
        // Indentation of a block, and the second of two quotes, stand for nothing.
        if c == '\n' {
            let rest = &raw[at..];
            let indent = rest.len() - rest.trim_start_matches(' ').len();
            at +=
                if part.get(offsets.len()..).is_some_and(|next| next.starts_with(' ')) { 0 } else { indent };
        } else if c == '\'' && raw[at..].starts_with('\'') && !part[offsets.len()..].starts_with('\'') {
            at += 1;
        }
    }
    offsets.push(at);
    Some(offsets)
}

/// The width of the escape sequence that stands for a character.
fn escape(raw: &str, c: char) -> Option<usize> {
    let next = raw.chars().nth(1)?;
    let digits = match next {
        // In a literal string a backslash is itself.
        _ if c == '\\' => return Some(if next == '\\' { 2 } else { 1 }),
        'n' => return (c == '\n').then_some(2),
        't' => return (c == '\t').then_some(2),
        'r' => return (c == '\r').then_some(2),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return (c == next).then_some(2),
    };
    let number = u32::from_str_radix(raw.get(2..2 + digits)?, 16).ok()?;
    (char::from_u32(number)? == c).then_some(2 + digits)
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

    /// The members of a map; nothing of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
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
            Kind::Integer(value) => match i64::try_from(*value) {
                Ok(value) => value.into(),
                Err(_) => u64::try_from(*value).ok().into(),
            },
            Kind::Float(value) => (*value).into(),
            Kind::String(value) => value.as_str().into(),
            Kind::List(items) => items.iter().map(Tree::to_json).collect(),
            Kind::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of the word `w` in a scalar, whose text holds it at some offset.
    fn found(file: &str, text: &str) -> Option<usize> {
        let offsets = Source::new("a", file).offsets(&(0..file.len()), text);
        let at = text.find('w').unwrap();
        offsets.get(at).copied()
    }

    #[test]
    fn a_part_of_a_scalar_is_found_behind_escapes_quotes_and_folds() {
        for (file, text) in [
            ("\"a w\"", "a w"),
            (r#""\u00e9\t\"w""#, "\u{e9}\t\"w"),
            (r"'it''s w'", "it's w"),
            (r"'\d w'", r"\d w"),
            ("\"a\n    w\"", "a w"),
            ("\"\"\"\n  a\n  w\"\"\"", "  a\n  w"),
            ("|\n    a\n    w\n", "a\nw\n"),
        ] {
            assert_eq!(found(file, text), file.rfind('w'), "{file}");
        }
        assert_eq!(found("\"a\"", "w"), None);
    }
}
