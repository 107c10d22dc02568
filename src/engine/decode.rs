//! From a tree to the types of the mapping format: one description gives the struct, its reader, and the
//! names that a wrong name is compared with. Every mistake is reported, not the first alone.

use serde_json::{Value as Json, json};

use crate::describe::Definitions;
use crate::diagnostic::{Findings, Help, nearest, suggestion};
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

    /// Whether its key must be there.
    const REQUIRED: bool = true;

    /// The one word that it can be, where there is only one.
    const ONLY: Option<&'static str> = None;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self>;

    /// What stands for a value that is not there, or is wrong: a mistake that was reported must not hide
    /// the ones after it.
    fn stand_in() -> Option<Self> {
        None
    }

    /// The JSON Schema of what `decode` takes.
    fn schema(_: &mut Definitions) -> Json {
        json!({})
    }
}

/// A string with its place: expressions and names are checked after reading, and point back here.
///
/// One with an empty span stands in for a string that is not there; that was reported.
#[derive(Clone, Debug)]
pub struct Text {
    pub value: String,
    pub span: Span,
}

/// An integer with its place.
#[derive(Clone, Debug)]
pub struct Number {
    pub value: i64,
    pub span: Span,
}

/// Members of a map whose keys are the author's own names, in the order of the file.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(Text, T)>);

impl Text {
    pub fn is_missing(&self) -> bool {
        self.span.is_empty()
    }
}

impl Decoder<'_> {
    pub fn mismatch(&mut self, tree: &Tree, expected: &str) {
        if self.findings.said_at(self.source, &tree.span) {
            return;
        }
        let message = format!("expected {expected}, found {}", tree.noun());
        self.findings.add(self.source, &tree.span, "wrong-type", message);
    }

    fn mismatch_with(&mut self, tree: &Tree, expected: &str, help: Help) {
        let message = format!("expected {expected}, found {}", tree.noun());
        self.findings.add_with_help(self.source, &tree.span, "wrong-type", message, Some(help));
    }

    fn text_of(&self, tree: &Tree) -> &str {
        self.source.text.get(tree.span.clone()).unwrap_or("")
    }

    /// A number or a boolean where a text belongs: most often the quotes were left out.
    fn not_text(&mut self, tree: &Tree) {
        match tree.kind {
            Kind::Bool(_) | Kind::Integer(_) | Kind::Float(_) => {
                let quoted = format!("\"{}\"", self.text_of(tree));
                self.mismatch_with(tree, Text::EXPECTED, Help::replace("put it in quotes", quoted));
            }
            _ => self.mismatch(tree, Text::EXPECTED),
        }
    }

    fn not_bool(&mut self, tree: &Tree) {
        match tree.as_str() {
            Some(word @ ("true" | "false")) => {
                let help = Help::edit("write it without quotes", tree.span.clone(), word);
                self.mismatch_with(tree, bool::EXPECTED, help);
            }
            _ => self.mismatch(tree, bool::EXPECTED),
        }
    }

    fn not_integer(&mut self, tree: &Tree) {
        match tree.as_str() {
            Some(digits) if digits.parse::<i64>().is_ok() => {
                let help = Help::edit("write it without quotes", tree.span.clone(), digits);
                self.mismatch_with(tree, i64::EXPECTED, help);
            }
            _ if matches!(tree.kind, Kind::Integer(_)) => self.mismatch(tree, "an integer of 64 bits"),
            _ => self.mismatch(tree, i64::EXPECTED),
        }
    }

    /// One text where a list of them belongs, or one table where a list of tables does.
    fn not_list(&mut self, tree: &Tree) {
        let text = self.text_of(tree);
        let header = text.starts_with('[') && text.ends_with(']');
        let help = match tree.kind {
            Kind::String(_) => Help::edit("put it in brackets", tree.span.clone(), format!("[{text}]")),
            Kind::Map(_) if header => {
                Help::edit("double the brackets: each is one item", tree.span.clone(), format!("[{text}]"))
            }
            _ => return self.mismatch(tree, "a list"),
        };
        self.mismatch_with(tree, "a list", help);
    }
}

impl Decode for Text {
    const EXPECTED: &'static str = "a string";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        match tree.as_str() {
            Some(value) => Some(Self { value: value.to_owned(), span: tree.span.clone() }),
            None => {
                decoder.not_text(tree);
                None
            }
        }
    }

    fn stand_in() -> Option<Self> {
        Some(Self { value: String::new(), span: 0..0 })
    }

    fn schema(_: &mut Definitions) -> Json {
        json!({ "type": "string" })
    }
}

impl Decode for bool {
    const EXPECTED: &'static str = "true or false";
    const REQUIRED: bool = false;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        match tree.kind {
            Kind::Bool(value) => Some(value),
            _ => {
                decoder.not_bool(tree);
                None
            }
        }
    }

    fn stand_in() -> Option<Self> {
        Some(false)
    }

    fn schema(_: &mut Definitions) -> Json {
        json!({ "type": "boolean" })
    }
}

impl Decode for Number {
    const EXPECTED: &'static str = "an integer";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        i64::decode(tree, decoder).map(|value| Self { value, span: tree.span.clone() })
    }

    fn schema(definitions: &mut Definitions) -> Json {
        i64::schema(definitions)
    }
}

impl Decode for i64 {
    const EXPECTED: &'static str = "an integer";

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        let value = match tree.kind {
            Kind::Integer(value) => i64::try_from(value).ok(),
            _ => None,
        };
        if value.is_none() {
            decoder.not_integer(tree);
        }
        value
    }

    fn schema(_: &mut Definitions) -> Json {
        json!({ "type": "integer" })
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
    const REQUIRED: bool = false;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        // A wrong value is not an absent one: what it decides must not be taken for decided.
        T::decode(tree, decoder).or_else(T::stand_in).map(Some)
    }

    fn stand_in() -> Option<Self> {
        Some(None)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        T::schema(definitions)
    }
}

impl<T: Decode> Decode for Vec<T> {
    const EXPECTED: &'static str = "a list";
    const REQUIRED: bool = false;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Kind::List(items) = &tree.kind else {
            decoder.not_list(tree);
            return None;
        };
        Some(items.iter().filter_map(|item| T::decode(item, decoder)).collect())
    }

    fn stand_in() -> Option<Self> {
        Some(Vec::new())
    }

    fn schema(definitions: &mut Definitions) -> Json {
        json!({ "type": "array", "items": T::schema(definitions) })
    }
}

impl<T: Decode> Decode for Named<T> {
    const EXPECTED: &'static str = "a table";
    const REQUIRED: bool = false;

    fn decode(tree: &Tree, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Kind::Map(entries) = &tree.kind else {
            decoder.mismatch(tree, Self::EXPECTED);
            return None;
        };
        let mut members = Vec::new();
        for entry in entries {
            let name = Text { value: entry.key.clone(), span: entry.key_span.clone() };
            let value = T::decode(&entry.value, decoder).or_else(T::stand_in);
            members.extend(value.map(|value| (name, value)));
        }
        Some(Named(members))
    }

    fn stand_in() -> Option<Self> {
        Some(Named(Vec::new()))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        json!({ "type": "object", "additionalProperties": T::schema(definitions) })
    }
}

/// The members of one table while they are taken out one by one.
pub struct Fields<'t> {
    span: Span,
    entries: &'t [Entry],
    /// Members under a misspelt key, with the key that was meant: reported once, and read all the same.
    meant: Vec<(&'t Entry, String)>,
}

impl<'t> Fields<'t> {
    pub fn of(tree: &'t Tree, known: &[&str], decoder: &mut Decoder<'_>) -> Option<Self> {
        let Kind::Map(entries) = &tree.kind else {
            decoder.mismatch(tree, "a table");
            return None;
        };
        let mut meant = Vec::new();
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let free = known.iter().copied().filter(|key| entries.iter().all(|entry| entry.key != *key));
            meant.extend(nearest(&entry.key, free).map(|key| (entry, key.to_owned())));
            let message = format!("`{}` is not a key of this table", entry.key);
            let help = suggestion(&entry.key, known);
            decoder.findings.add_with_help(decoder.source, &entry.key_span, "unknown-key", message, help);
        }
        Some(Self { span: tree.span.clone(), entries, meant })
    }

    pub fn take<T: Decode>(&self, key: &str, decoder: &mut Decoder<'_>) -> Option<T> {
        let meant = || self.meant.iter().find(|(_, meant)| meant == key).map(|(entry, _)| *entry);
        match self.entries.iter().find(|entry| entry.key == key).or_else(meant) {
            Some(entry) => T::decode(&entry.value, decoder).or_else(T::stand_in),
            None => {
                if T::REQUIRED {
                    self.missing::<T>(key, decoder);
                }
                T::stand_in()
            }
        }
    }

    fn missing<T: Decode>(&self, key: &str, decoder: &mut Decoder<'_>) {
        let message = format!("the key `{key}` is missing; it takes {}", T::EXPECTED);
        let first = self.entries.first().map(|entry| entry.key_span.start);
        let help = T::ONLY.zip(first).map(|(word, first)| {
            let start = first - decoder.source.column_offset(first);
            let line = match decoder.source.name.ends_with(".toml") {
                true => format!("{key} = \"{word}\"\n"),
                false => format!("{key}: {word}\n"),
            };
            Help::edit("add it", start..start, line)
        });
        let help = help.or_else(|| Some(format!("add it to this table: {key} = ...").into()));
        decoder.findings.add_with_help(decoder.source, &self.span, "missing-key", message, help);
    }
}

/// A table of the format: the struct, its reader and its JSON Schema. The name of a field is the key in
/// the file; its comment is the description in the schema.
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

            fn stand_in() -> Option<Self> {
                Some(Self { span: 0..0, $($field: <$kind as $crate::decode::Decode>::stand_in()?,)* })
            }

            fn schema(definitions: &mut $crate::describe::Definitions) -> serde_json::Value {
                definitions.table(stringify!($name), &[$($doc),*], |definitions| vec![$(
                    $crate::describe::Member {
                        key: $crate::decode::plain_name(stringify!($field)),
                        required: <$kind as $crate::decode::Decode>::REQUIRED,
                        lines: &[$($field_doc),*],
                        schema: <$kind as $crate::decode::Decode>::schema(definitions),
                    },
                )*])
            }
        }
    )*};
}

/// A closed set of words: the enum, its reader, its spelling and its JSON Schema.
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
            const ONLY: Option<&'static str> = match Self::WORDS { [word] => Some(word), _ => None };

            fn decode(tree: &$crate::source::Tree, decoder: &mut $crate::decode::Decoder<'_>) -> Option<Self> {
                match tree.as_str() {
                    $(Some($word) => Some(Self::$variant),)*
                    _ => {
                        decoder.wrong_word(tree, Self::WORDS);
                        None
                    }
                }
            }

            fn stand_in() -> Option<Self> {
                [$(Self::$variant),*].into_iter().next()
            }

            fn schema(_: &mut $crate::describe::Definitions) -> serde_json::Value {
                $crate::describe::words(&[$($doc),*], &[$(($word, &[$($word_doc),*])),*])
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
