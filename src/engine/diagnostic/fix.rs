//! A change of a file that mends a mistake, as whole lines: so it is printed, and so it can be applied.

use crate::source::{Source, Span};

/// Lines that go, and lines that come in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub file: String,
    /// The line before which the change begins, counted from one.
    pub line: usize,
    pub removed: Vec<String>,
    pub added: Vec<String>,
}

impl Fix {
    /// Another text for a stretch of a file, as the lines that it changes.
    pub(super) fn new(source: &Source, span: &Span, replacement: &str) -> Self {
        let text = &source.text;
        let start = text.get(..span.start).and_then(|part| part.rfind('\n')).map_or(0, |at| at + 1);
        let rest = text.get(span.end..).unwrap_or("");
        let end = span.end + rest.find('\n').unwrap_or(rest.len());
        let before = text.get(start..span.start).unwrap_or("");
        let after = text.get(span.end..end).unwrap_or("");
        let old = text.get(start..end).unwrap_or("");
        let new = format!("{before}{replacement}{after}");
        let mut removed: Vec<String> = old.split('\n').map(str::to_owned).collect();
        // A replacement by nothing takes the whole line with it where nothing else stands on it.
        let mut added: Vec<String> = match new.trim().is_empty() && replacement.is_empty() {
            true => Vec::new(),
            false => new.split('\n').map(str::to_owned).collect(),
        };
        while removed.last().is_some() && removed.last() == added.last() {
            removed.pop();
            added.pop();
        }
        let same = removed.iter().zip(&added).take_while(|(old, new)| old == new).count();
        removed.drain(..same);
        added.drain(..same);
        Self { file: source.name.clone(), line: source.position(start).line + same, removed, added }
    }

    /// The text with the change made; `None` where the lines that go are not there any more.
    #[must_use]
    pub fn apply(&self, text: &str) -> Option<String> {
        let mut lines: Vec<&str> = text.split('\n').collect();
        let range = self.line.checked_sub(1)?..self.line - 1 + self.removed.len();
        if lines.get(range.clone())? != self.removed {
            return None;
        }
        lines.splice(range, self.added.iter().map(String::as_str));
        Some(lines.join("\n"))
    }
}
