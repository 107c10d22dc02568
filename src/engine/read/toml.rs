//! TOML, with the place of every key and value, and its syntax errors in plain words.

use ::toml::de::{DeTable, DeValue, Error};

use crate::diagnostic::{Findings, Help};
use crate::source::{Entry, Kind, Source, Span, Tree};

pub(super) fn read(source: &Source, findings: &mut Findings) -> Option<Tree> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in &errors {
        report(source, findings, error, &error.span().unwrap_or(0..0));
        // A word without quotes, or a second key, ends where it stands; what follows anything else that is
        // wrong may follow from it.
        if !["string values", "duplicate key"].iter().any(|local| error.message().starts_with(local)) {
            break;
        }
    }
    if errors.is_empty() && table.get_ref().is_empty() {
        findings.add(source, &(0..0), "empty-file", "the file holds no document");
        return None;
    }
    let mut reader = Reader { source, findings };
    errors.is_empty().then(|| reader.table(table.span(), table.get_ref()))
}

fn report(source: &Source, findings: &mut Findings, error: &Error, span: &Span) {
    let message = error.message();
    let marked = source.text.get(span.clone()).unwrap_or("");
    if message.starts_with("duplicate key") {
        let message = format!("the key `{}` stands twice in this table", marked.trim_matches('"'));
        let help = "keep one of the two; an array of tables is written [[name]]";
        return findings.add_with_help(source, span, "duplicate-key", message, Some(help));
    }
    let line = source.line_at(span.start).trim_start();
    let (text, help) = match message {
        _ if marked.is_empty() && message.starts_with("string values") => ("the key has no value", None),
        _ if message.starts_with("missing comma between array") && line.starts_with('[') => {
            ("a list before this line has no closing `]`", None)
        }
        _ if message.starts_with("string values must be quoted") => {
            // The place is that of the first word; a value ends with its line.
            let rest = source.text.get(span.start..).and_then(|rest| rest.lines().next()).unwrap_or("");
            let value = rest.split(" #").next().unwrap_or("").trim_end();
            let place = span.start..span.start + value.len();
            let help = Help::edit("put the text in quotes", place, format!("\"{value}\""));
            ("a text needs quotes", Some(help))
        }
        _ if message.contains("expected `=`") || message.starts_with("key with no value") => {
            return colon(source, findings, span);
        }
        _ if message.starts_with("invalid basic string") => ("the text has no closing quote", None),
        _ => (message, None),
    };
    findings.add_with_help(source, span, "malformed-toml", text, help);
}

/// A key without `=`: often it is followed by a colon, as in YAML.
fn colon(source: &Source, findings: &mut Findings, span: &Span) {
    let message = "a key is followed by `=` and its value";
    let line = source.line_at(span.start);
    let start = span.start - source.column_offset(span.start);
    let help = line.find(':').filter(|at| !line[..*at].contains(['"', '\'', ' '])).map(|at| {
        let rest = &line[at + 1..];
        let gap = rest.len() - rest.trim_start().len();
        Help::edit("write `=`, not a colon", start + at..start + at + 1 + gap, " = ")
    });
    findings.add_with_help(source, span, "malformed-toml", message, help);
}

struct Reader<'a> {
    source: &'a Source,
    findings: &'a mut Findings,
}

impl Reader<'_> {
    fn table(&mut self, span: Span, table: &DeTable<'_>) -> Tree {
        let entries = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                key_span: key.span(),
                value: self.value(value.span(), value.get_ref()),
            })
            .collect();
        Tree { span, kind: Kind::Map(entries) }
    }

    fn value(&mut self, span: Span, value: &DeValue<'_>) -> Tree {
        let kind = match value {
            DeValue::String(text) => Kind::String(text.to_string()),
            DeValue::Boolean(value) => Kind::Bool(*value),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Kind::Integer(number.into()),
                Err(_) => self.out_of_range(&span),
            },
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Kind::Float(number),
                _ => self.out_of_range(&span),
            },
            DeValue::Datetime(moment) => self.date(&span, moment.to_string()),
            DeValue::Array(items) => {
                Kind::List(items.iter().map(|item| self.value(item.span(), item.get_ref())).collect())
            }
            DeValue::Table(table) => return self.table(span, table),
        };
        Tree { span, kind }
    }

    fn out_of_range(&mut self, span: &Span) -> Kind {
        let message = "the number does not fit 64 bits";
        self.findings.add(self.source, span, "number-out-of-range", message);
        Kind::Null
    }

    fn date(&mut self, span: &Span, text: String) -> Kind {
        let message = "a date is not a value of this format";
        let help = Help::replace("put it in quotes to make it a text", format!("\"{text}\""));
        self.findings.add_with_help(self.source, span, "unquoted-date", message, Some(help));
        Kind::String(text)
    }
}
