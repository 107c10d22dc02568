//! From a tree to the types of the mapping format: one description gives the struct, its reader, and the
//! names that a wrong name is compared with. Every mistake is reported, not the first alone.

use crate::diagnostic::{Findings, suggestion};
use crate::source::{Entry, Kind, Source, Span, Tree};

/// What the readers share: where the text is, and where mistakes go.
pub struct Decoder<'a> {
    pub source: &'a Source,
    pub findings: &'a mut Findings,
}

/// A type that can be read from a tree. `None` means that a mistake was reported.
pub trait Decode: Sized {
    /// The value as a message names it: "a string".
    const EXPECTED: &'static str;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self>;

    /// What stands for a key that is not there; the default is a mistake.
    fn absent(key: &str, parent: &Span, decoder: &mut Decoder<'_>) -> Option<Self> {
        let message = format!("the key `{key}` is missing; it takes {}", Self::EXPECTED);
        decoder.findings.add(decoder.source, parent, "missing-key", message);
        None
    }
}

/// A string with its place: expressions and names are checked after reading, and point back here.
#[derive(Clone, Debug)]
pub struct Text {
    pub value: String,
    pub span: Span,
}

/// Members of a map whose keys are the author's own names, in the order of the file.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(Text, T)>);

impl Decoder<'_> {
    pub fn mismatch(&mut self, tree: &Tree, expected: &str) {
        let message = format!("expected {expected}, found {}", tree.noun());
        self.findings.add(self.source, &tree.span, "wrong-type", message);
    }
}

impl Decode for Text {
    const EXPECTED: &'static str = "a string";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        match tree.as_str() {
            Some(value) => Some(Self { value: value.to_owned(), span: tree.span.clone() }),
            None => {
                decoder.mismatch(tree, Self::EXPECTED);
                None
            }
        }
    }
}

impl Decode for bool {
    const EXPECTED: &'static str = "true or false";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        match tree.kind {
            Kind::Bool(value) => Some(value),
            _ => {
                decoder.mismatch(tree, Self::EXPECTED);
                None
            }
        }
    }

    fn absent(_: &str, _: &Span, _: &mut Decoder<'_>) -> Option<Self> {
        Some(false)
    }
}

impl Decode for i64 {
    const EXPECTED: &'static str = "an integer";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        match tree.kind {
            Kind::Integer(value) => Some(value),
            _ => {
                decoder.mismatch(tree, Self::EXPECTED);
                None
            }
        }
    }
}

/// Any value, kept as it stands.
impl Decode for Tree {
    const EXPECTED: &'static str = "a value";

    fn decode(tree: &Tree, _: &mut Decoder<'_>) -> Option<Self> {
        Some(tree.clone())
    }
}

impl<T: Decode> Decode for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        T::decode(tree, decoder).map(Some)
    }

    fn absent(_: &str, _: &Span, _: &mut Decoder<'_>) -> Option<Self> {
        Some(None)
    }
}

impl<T: Decode> Decode for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Kind::List(items) = &tree.kind else {
            decoder.mismatch(tree, Self::EXPECTED);
            return None;
        };
        let read: Vec<Option<T>> = items.iter().map(|item| T::decode(item, decoder)).collect();
        read.into_iter().collect()
    }

    fn absent(_: &str, _: &Span, _: &mut Decoder<'_>) -> Option<Self> {
        Some(Vec::new())
    }
}

impl<T: Decode> Decode for Named<T> {
    const EXPECTED: &'static str = "a table";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Kind::Map(entries) = &tree.kind else {
            decoder.mismatch(tree, Self::EXPECTED);
            return None;
        };
        let read: Vec<Option<(Text, T)>> = entries
            .iter()
            .map(|entry| {
                let name = Text { value: entry.key.clone(), span: entry.key_span.clone() };
                T::decode(&entry.value, decoder).map(|value| (name, value))
            })
            .collect();
        read.into_iter().collect::<Option<Vec<_>>>().map(Named)
    }

    fn absent(_: &str, _: &Span, _: &mut Decoder<'_>) -> Option<Self> {
        Some(Named(Vec::new()))
    }
}

/// The members of one table while they are taken out one by one.
pub struct Fields<'t> {
    span: Span,
    entries: &'t [Entry],
}

impl<'t> Fields<'t> {
    pub fn of(tree: &'t Tree, known: &[&str], decoder: &mut Decoder<'_>) -> Option<Self> {
        let Kind::Map(entries) = &tree.kind else {
            decoder.mismatch(tree, "a table");
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("`{}` is not a key of this table", entry.key);
            let help = suggestion(&entry.key, known);
            decoder.findings.add_with_help(decoder.source, &entry.key_span, "unknown-key", message, help);
        }
        Some(Self { span: tree.span.clone(), entries })
    }

    pub fn take<T: Decode>(&self, key: &str, decoder: &mut Decoder<'_>) -> Option<T> {
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => T::decode(&entry.value, decoder),
            None => T::absent(key, &self.span, decoder),
        }
    }
}

/// A table of the format: the struct, and its reader. The name of a field is the key in the file.
macro_rules! document {
    ($($(#[doc = $doc:literal])* pub struct $name:ident { $($(#[doc = $field_doc:literal])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            pub span: $crate::source::Span,
            $($(#[doc = $field_doc])* pub $field: $kind,)*
        }

        impl $crate::decode::Decode for $name {
            const EXPECTED: &'static str = "a table";

            fn decode(tree: &$crate::source::Tree, decoder: &mut $crate::decode::Decoder<'_>) -> Option<Self> {
                const KEYS: &[&str] = &[$($crate::decode::plain_name(stringify!($field))),*];
                let fields = $crate::decode::Fields::of(tree, KEYS, decoder)?;
                $(let $field = fields.take($crate::decode::plain_name(stringify!($field)), decoder);)*
                Some(Self { span: tree.span.clone(), $($field: $field?,)* })
            }
        }
    )*};
}

/// A closed set of words: the enum, its reader and its spelling.
macro_rules! words {
    ($($(#[doc = $doc:literal])* pub enum $name:ident { $($(#[doc = $word_doc:literal])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $word_doc])* $variant,)* }

        impl $name {
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl $crate::decode::Decode for $name {
            const EXPECTED: &'static str = concat!("one of:", $(" ", $word),*);

            fn decode(tree: &$crate::source::Tree, decoder: &mut $crate::decode::Decoder<'_>) -> Option<Self> {
                match tree.as_str() {
                    $(Some($word) => Some(Self::$variant),)*
                    _ => {
                        decoder.wrong_word(tree, Self::WORDS);
                        None
                    }
                }
            }
        }
    )*};
}

pub(crate) use document;
pub(crate) use words;

impl Decoder<'_> {
    pub(crate) fn wrong_word(&mut self, tree: &Tree, words: &[&str]) {
        let Some(found) = tree.as_str() else {
            return self.mismatch(tree, &format!("one of: {}", words.join(", ")));
        };
        let message = format!("`{found}` is not a word of this key");
        let help = suggestion(found, words);
        self.findings.add_with_help(self.source, &tree.span, "unknown-word", message, help);
    }
}

/// `let` and `for` are keys of the format and words of Rust.
pub(crate) const fn plain_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', rest @ ..] => match std::str::from_utf8(rest) {
            Ok(name) => name,
            Err(_) => field,
        },
        _ => field,
    }
}
