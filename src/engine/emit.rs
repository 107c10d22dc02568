//! Writes YAML that every reader takes for the same values: those of YAML 1.1 (Kubernetes') and of 1.2.
//!
//! A string stands without quotes only where no reader could take it for something else; the rule is a short
//! allow-list, because lists of what is dangerous (`yes`, `1_000`, `0x1f`, `=`) are never complete.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// A key longer than this is no simple key of YAML and is written with `?`.
const SIMPLE_KEY: usize = 1000;

/// Words that some reader takes for a boolean or for nothing.
const RESERVED: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];

/// One document, with a newline at its end.
pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => map(&mut out, members, 0),
        Value::Array(items) if !items.is_empty() => list(&mut out, items, 0),
        scalar => {
            leaf(&mut out, scalar);
            out.push('\n');
        }
    }
    out
}

/// A stream of documents, `---` between them.
pub fn emit_documents(values: &[Value]) -> String {
    let documents: Vec<String> = values.iter().map(emit).collect();
    documents.join("---\n")
}

/// The members of a map at a column; the first one stands where the line has come to already.
fn map(out: &mut String, members: &Map<String, Value>, column: usize) {
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            indent(out, column);
        }
        if key.len() > SIMPLE_KEY {
            out.push_str("? ");
            quoted(out, key);
            out.push('\n');
            indent(out, column);
        } else {
            string(out, key);
        }
        out.push(':');
        below(out, value, column);
    }
}

/// The value of a key: beside it, or below it and deeper.
fn below(out: &mut String, value: &Value, column: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            indent(out, column + 2);
            map(out, members, column + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            indent(out, column + 2);
            list(out, items, column + 2);
        }
        Value::String(text) if is_block(text) => {
            out.push(' ');
            block(out, text, column + 2);
        }
        scalar => {
            out.push(' ');
            leaf(out, scalar);
            out.push('\n');
        }
    }
}

fn list(out: &mut String, items: &[Value], column: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            indent(out, column);
        }
        out.push_str("- ");
        match item {
            Value::Object(members) if !members.is_empty() => map(out, members, column + 2),
            Value::Array(items) if !items.is_empty() => list(out, items, column + 2),
            Value::String(text) if is_block(text) => block(out, text, column + 2),
            scalar => {
                leaf(out, scalar);
                out.push('\n');
            }
        }
    }
}

/// A value on one line.
fn leaf(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(value) => number(out, value),
        Value::String(text) => string(out, text),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// A fraction is written without an exponent: readers disagree on what `1e5` is.
fn number(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(fraction) if number.is_f64() => {
            let digits = fraction.to_string();
            out.push_str(&digits);
            if !digits.contains('.') {
                out.push_str(".0");
            }
        }
        _ => out.push_str(&number.to_string()),
    }
}

fn string(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        quoted(out, text);
    }
}

/// Whether text needs no quotes: it begins with a letter or a slash, and goes on with letters, digits and
/// marks that mean nothing to YAML.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = bytes.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'/');
    let inner = |at: usize| match bytes[at] {
        // Both mean something before a space or at an end, and nothing inside a word.
        b':' | b' ' => bytes.get(at + 1).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'/'),
        byte => byte.is_ascii_alphanumeric() || b"_-./@+()".contains(&byte),
    };
    begins
        && text.len() <= SIMPLE_KEY
        && (0..bytes.len()).all(inner)
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            letter if is_printable(letter) => out.push(letter),
            letter if u32::from(letter) <= 0xff => escape(out, 'x', 2, letter),
            letter if u32::from(letter) <= 0xffff => escape(out, 'u', 4, letter),
            letter => escape(out, 'U', 8, letter),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, kind: char, width: usize, letter: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\{kind}{:0width$X}", u32::from(letter));
}

/// Whether a letter may stand in a YAML file as it is, and is no line break of any version.
fn is_printable(letter: char) -> bool {
    match u32::from(letter) {
        0x20..=0x7e => true,
        // Line and paragraph separators, byte order marks and what Unicode promises never to use.
        0x2028 | 0x2029 | 0xfeff | 0xfffe | 0xffff => false,
        code => code >= 0xa0,
    }
}

/// Whether text of several lines can be read as it stands: no first line that a reader could take for more
/// indentation, no white space at an end that nobody sees, nothing that needs an escape.
fn is_block(text: &str) -> bool {
    let visible = |line: &str| line.is_empty() || !line.ends_with([' ', '\t']);
    text.trim_end_matches('\n').contains('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\t', '\n'])
        && text.split('\n').all(visible)
        && text.chars().all(|letter| matches!(letter, '\n' | '\t') || is_printable(letter))
}

fn block(out: &mut String, text: &str, column: usize) {
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if !line.is_empty() {
            indent(out, column);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn indent(out: &mut String, column: usize) {
    for _ in 0..column {
        out.push(' ');
    }
}

#[cfg(test)]
#[path = "tests_emit.rs"]
mod tests;
