//! Mistakes in the files that people write: what, where, and what to do.

use std::fmt::{self, Display};

use crate::source::{Position, Source, Span};

/// One mistake. Its first line suffices alone; the second says where; the last what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the mistake, in kebab-case, unique in the source.
    pub code: &'static str,
    pub message: String,
    pub file: String,
    pub position: Position,
    /// The line itself, and how many characters of it are meant.
    pub line: String,
    pub width: usize,
    pub help: Option<String>,
}

/// All mistakes of a folder, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    items: Vec<Diagnostic>,
}

impl Findings {
    pub fn add(&mut self, source: &Source, span: &Span, code: &'static str, message: impl Into<String>) {
        self.add_with_help(source, span, code, message, None);
    }

    pub fn add_with_help(
        &mut self,
        source: &Source,
        span: &Span,
        code: &'static str,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let line = source.line_at(span.start);
        let position = source.position(span.start);
        let marked = source.text.get(span.clone()).and_then(|text| text.lines().next()).unwrap_or("");
        let room = line.chars().count().saturating_sub(position.column - 1);
        let item = Diagnostic {
            code,
            message: message.into(),
            file: source.name.clone(),
            position,
            line: line.to_owned(),
            width: marked.chars().count().min(room).max(1),
            help,
        };
        // One spot may be reached on two ways (a template used twice); it is said once.
        if !self.items.contains(&item) {
            self.items.push(item);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    pub fn append(&mut self, mut other: Findings) {
        self.items.append(&mut other.items);
    }

    /// In the order of files and places, as a person reads them.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.items.sort_by(|a, b| {
            (&a.file, a.position.line, a.position.column).cmp(&(&b.file, b.position.line, b.position.column))
        });
        self
    }
}

impl Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.position.line.to_string();
        let gutter = " ".repeat(number.len());
        writeln!(f, "error[{}]: {}", self.code, self.message)?;
        writeln!(f, "{gutter}--> {}:{}:{}", self.file, self.position.line, self.position.column)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", self.line)?;
        let pad: String = self
            .line
            .chars()
            .take(self.position.column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        writeln!(f, "{gutter} | {pad}{}", "^".repeat(self.width))?;
        if let Some(help) = &self.help {
            writeln!(f, "{gutter} = help: {help}")?;
        }
        Ok(())
    }
}

/// The nearest of the right names, if one is near enough to be meant.
pub fn nearest<'a>(wrong: &str, right: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wrong.chars().count() / 3).max(1);
    right
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wrong.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by(|a, b| a.0.cmp(&b.0))
        .map(|(_, name)| name)
}

/// The help of a wrong name: the nearest right one, else all of them when they are few.
pub fn suggestion(wrong: &str, right: &[&str]) -> Option<String> {
    match nearest(wrong, right.iter().copied()) {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None if right.is_empty() || right.len() > 24 => None,
        None => Some(format!("expected one of: {}", right.join(", "))),
    }
}
