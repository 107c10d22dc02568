//! Reads TOML, YAML and JSON text into trees that keep the place of every key and value.

use granit_parser::{Event, Parser, ScalarStyle, Span as YamlSpan};
use toml::de::{DeTable, DeValue};

use crate::diagnostic::Findings;
use crate::source::{Entry, Kind, Source, Span, Tree};

/// Reads a file by the ending of its name: `.toml`, else YAML, of which JSON is a part.
pub fn read(source: &Source, findings: &mut Findings) -> Option<Tree> {
    if source.name.ends_with(".toml") { read_toml(source, findings) } else { read_yaml(source, findings) }
}

fn read_toml(source: &Source, findings: &mut Findings) -> Option<Tree> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        findings.add(source, &span, "malformed-toml", error.message().to_owned());
    }
    errors.is_empty().then(|| toml_table(table.span(), table.get_ref()))
}

fn toml_table(span: Span, table: &DeTable<'_>) -> Tree {
    let entries = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            value: toml_value(value.span(), value.get_ref()),
        })
        .collect();
    Tree { span, kind: Kind::Map(entries) }
}

fn toml_value(span: Span, value: &DeValue<'_>) -> Tree {
    let kind = match value {
        DeValue::String(text) => Kind::String(text.to_string()),
        DeValue::Boolean(value) => Kind::Bool(*value),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Kind::String(number.as_str().to_owned()), Kind::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Kind::String(number.as_str().to_owned()), Kind::Float)
        }
        DeValue::Datetime(moment) => Kind::String(moment.to_string()),
        DeValue::Array(items) => {
            Kind::List(items.iter().map(|item| toml_value(item.span(), item.get_ref())).collect())
        }
        DeValue::Table(table) => return toml_table(span, table),
    };
    Tree { span, kind }
}

/// Reads a YAML file that may hold several documents; none at all is no mistake.
pub fn read_documents(source: &Source, findings: &mut Findings) -> Option<Vec<Tree>> {
    let before = findings.len();
    let mut reader = YamlReader::new(source, findings);
    let mut documents = Vec::new();
    while let Some((event, _)) = reader.next() {
        if matches!(event, Event::DocumentStart(..)) {
            let (event, span) = reader.next()?;
            documents.push(reader.node(event, &span)?);
        }
    }
    (findings.len() == before).then_some(documents)
}

fn read_yaml(source: &Source, findings: &mut Findings) -> Option<Tree> {
    let mut reader = YamlReader::new(source, findings);
    let tree = reader.document()?;
    match reader.next() {
        Some((Event::DocumentStart(..), span)) => {
            let span = bytes(&span);
            findings.add(
                source,
                &span,
                "second-document",
                "a file holds one document, and a second begins here",
            );
            None
        }
        _ => Some(tree),
    }
}

struct YamlReader<'a> {
    source: &'a Source,
    findings: &'a mut Findings,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
}

impl<'a> YamlReader<'a> {
    fn new(source: &'a Source, findings: &'a mut Findings) -> Self {
        Self { source, findings, parser: Parser::new_from_str(&source.text) }
    }

    /// The next event that carries data. A syntax error is reported and ends the stream.
    fn next(&mut self) -> Option<(Event<'a>, YamlSpan)> {
        loop {
            match self.parser.next_event()? {
                Ok((Event::Comment(..) | Event::StreamStart | Event::DocumentEnd, _)) => {}
                Ok((Event::StreamEnd, _)) => return None,
                Ok(event) => return Some(event),
                Err(error) => {
                    let at = error.marker().byte_offset().unwrap_or(0);
                    self.findings.add(self.source, &(at..at), "malformed-yaml", error.kind().to_string());
                    return None;
                }
            }
        }
    }

    fn document(&mut self) -> Option<Tree> {
        match self.next() {
            Some((Event::DocumentStart(..), _)) => {
                let (event, span) = self.next()?;
                self.node(event, &span)
            }
            _ => {
                if self.findings.is_empty() {
                    self.findings.add(self.source, &(0..0), "empty-file", "the file holds no document");
                }
                None
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: &YamlSpan) -> Option<Tree> {
        let place = bytes(span);
        let kind = match event {
            Event::Scalar(text, style, _, tag) => {
                if tag.is_some() {
                    self.findings.add(
                        self.source,
                        &place,
                        "yaml-tag",
                        "tags are not read; quote the value instead",
                    );
                }
                if style == ScalarStyle::Plain {
                    self.plain(&text, &place)
                } else {
                    Kind::String(text.into_owned())
                }
            }
            Event::SequenceStart(..) => Kind::List(self.items()?),
            Event::MappingStart(..) => Kind::Map(self.entries()?),
            _ => {
                let what = "anchors and aliases are not read; write the value out, or name it in [let]";
                self.findings.add(self.source, &place, "yaml-alias", what);
                Kind::Null
            }
        };
        Some(Tree { span: place, kind })
    }

    fn items(&mut self) -> Option<Vec<Tree>> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Some(items),
                (event, span) => items.push(self.node(event, &span)?),
            }
        }
    }

    fn entries(&mut self) -> Option<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let key_span = bytes(&span);
            let key = match event {
                Event::MappingEnd => return Some(entries),
                Event::Scalar(text, ..) => text.into_owned(),
                other => {
                    self.findings.add(self.source, &key_span, "key-not-a-string", "a key is a string");
                    self.node(other, &span)?;
                    String::new()
                }
            };
            if entries.iter().any(|entry| entry.key == key) {
                let message = format!("the key `{key}` stands twice in this map");
                self.findings.add(self.source, &key_span, "duplicate-key", message);
            }
            let (event, span) = self.next()?;
            let value = self.node(event, &span)?;
            entries.push(Entry { key, key_span, value });
        }
    }

    /// A scalar without quotes. What YAML 1.1 readers (Kubernetes' is one) and YAML 1.2 readers take for
    /// different values is refused: nobody should have to know which of them reads this file.
    fn plain(&mut self, text: &str, place: &Span) -> Kind {
        match text {
            "" | "~" | "null" => return Kind::Null,
            "true" => return Kind::Bool(true),
            "false" => return Kind::Bool(false),
            _ => {}
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let simple =
            digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
        if simple && let Ok(number) = text.parse() {
            return Kind::Integer(number);
        }
        if digits.contains('.')
            && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && let Ok(number) = text.parse()
        {
            return Kind::Float(number);
        }
        // A JSON file has one reading only.
        if self.source.name.ends_with(".json")
            && let Ok(number) = text.parse()
        {
            return Kind::Float(number);
        }
        if reads_differently(text) {
            let message = format!("`{text}` without quotes is read differently by YAML 1.1 and 1.2");
            let help =
                format!("write \"{text}\" for the string, or the plain number or true/false that is meant");
            self.findings.add_with_help(self.source, place, "ambiguous-scalar", message, Some(help));
        }
        Kind::String(text.to_owned())
    }
}

fn reads_differently(text: &str) -> bool {
    const WORDS: [&str; 13] =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", "-.inf", "+.inf", ".nan"];
    let lower = text.to_ascii_lowercase();
    let numeric = text.trim_start_matches(['-', '+']);
    WORDS.contains(&lower.as_str())
        || (numeric.matches('.').count() < 2
            && numeric.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && numeric.bytes().all(|b| b.is_ascii_hexdigit() || b"._xXoObBeE+-:".contains(&b))
            && numeric.bytes().any(|b| b.is_ascii_digit()))
}

fn bytes(span: &YamlSpan) -> Span {
    span.byte_range().unwrap_or(0..0)
}
