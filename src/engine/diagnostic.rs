//! Mistakes in the files that people write: what, where, and what to do.

mod fix;
mod show;
mod spelling;

pub use fix::Fix;
pub use show::Painted;
pub use spelling::{nearest, suggestion};

use crate::source::{Position, Source, Span};

/// One mistake. Its first line suffices alone; the second says where; the last what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The name of the mistake, in kebab-case, unique in the source; its page is docs/errors/<code>.md.
    pub code: &'static str,
    pub message: String,
    pub file: String,
    pub position: Position,
    /// The line itself, and how many characters of it are meant.
    pub line: String,
    pub width: usize,
    pub help: Option<String>,
    /// The change that mends the file, where there is exactly one that is right.
    pub fix: Option<Fix>,
}

/// What to do about a mistake: a sentence, and the edit that does it where one can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    pub text: String,
    edit: Option<Edit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Edit {
    /// Another text for what is marked; quotes around it stay.
    Marked(String),
    /// Another name for the wrong one, where that and nothing else is marked.
    Name { wrong: String, right: String },
    /// Another text for a stretch of the same file; an empty one is an insertion.
    At(Span, String),
}

impl Help {
    /// Another text for what is marked.
    pub fn replace(text: impl Into<String>, replacement: impl Into<String>) -> Self {
        Self { text: text.into(), edit: Some(Edit::Marked(replacement.into())) }
    }

    /// The right name for a wrong one. Where more than the name is marked, the text alone must do.
    pub fn name(text: impl Into<String>, wrong: &str, right: &str) -> Self {
        Self {
            text: text.into(),
            edit: Some(Edit::Name { wrong: wrong.to_owned(), right: right.to_owned() }),
        }
    }

    /// Another text for any stretch of the file.
    pub fn edit(text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Self {
        Self { text: text.into(), edit: Some(Edit::At(span, replacement.into())) }
    }
}

impl From<String> for Help {
    fn from(text: String) -> Self {
        Self { text, edit: None }
    }
}

impl From<&str> for Help {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), edit: None }
    }
}

/// All mistakes of a folder, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    items: Vec<Diagnostic>,
}

impl Findings {
    pub fn add(&mut self, source: &Source, span: &Span, code: &'static str, message: impl Into<String>) {
        self.add_with_help(source, span, code, message, None::<Help>);
    }

    pub fn add_with_help(
        &mut self,
        source: &Source,
        span: &Span,
        code: &'static str,
        message: impl Into<String>,
        help: Option<impl Into<Help>>,
    ) {
        let help: Option<Help> = help.map(Into::into);
        let (text, edit) = help.map_or((None, None), |help| (Some(help.text), help.edit));
        let inner = source.unquoted(span);
        let edit = match edit {
            Some(Edit::Name { wrong, right }) => {
                (source.text.get(inner.clone()) == Some(&wrong)).then_some(Edit::Marked(right))
            }
            other => other,
        };
        let (span, fix) = match edit {
            Some(Edit::Marked(replacement)) => {
                let fix = Fix::new(source, &inner, &replacement);
                (inner, Some(fix))
            }
            Some(Edit::At(place, replacement)) => {
                (span.clone(), Some(Fix::new(source, &place, &replacement)))
            }
            Some(Edit::Name { .. }) | None => (span.clone(), None),
        };
        let line = source.line_at(span.start);
        let position = source.position(span.start);
        let marked = source.text.get(span).and_then(|text| text.lines().next()).unwrap_or("");
        let room = line.chars().count().saturating_sub(position.column - 1);
        let item = Diagnostic {
            code,
            message: message.into(),
            file: source.name.clone(),
            position,
            line: line.to_owned(),
            width: marked.chars().count().min(room).max(1),
            help: text,
            fix,
        };
        // One spot may be reached on two ways (a template used twice); it is said once.
        if !self.items.contains(&item) {
            self.items.push(item);
        }
    }

    /// Whether something was said of this very place.
    pub fn said_at(&self, source: &Source, span: &Span) -> bool {
        let position = source.position(span.start);
        self.items.iter().any(|item| item.file == source.name && item.position == position)
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

    /// Names files as they are seen from another folder.
    pub fn place_below(&mut self, prefix: &str) {
        for item in &mut self.items {
            item.file.insert_str(0, prefix);
            if let Some(fix) = &mut item.fix {
                fix.file.insert_str(0, prefix);
            }
        }
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
