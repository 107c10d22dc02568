//! Strict JSON: reads a body so that nothing is lost or guessed, and finds places in it by pointer.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use crate::problem::{Fault, Problem};

/// How deep arrays and objects may nest; recursion is bounded by it.
const MAX_DEPTH: usize = 128;

/// How deep a document of our own may: an update puts values of one body into what another one left.
const KEPT_DEPTH: usize = 2 * MAX_DEPTH;

/// After so many faults the rest of the body is not looked at: the answer stays small.
const MAX_FAULTS: usize = 64;

/// After a fault with a pointer this long neither, for the same reason.
const MAX_POINTER: usize = 4096;

/// Reads one JSON document of UTF-8 bytes, members in their order.
///
/// Refused as an invalid argument: an empty body, a byte order mark, invalid UTF-8, bytes after the
/// document and nesting that is too deep, each alone; duplicate keys and numbers that would change when
/// they are written again, all at once and with their pointers. serde_json keeps the last of two equal
/// keys and rounds numbers silently, so the structure is read here and only its leaves by serde_json.
pub fn read_body(bytes: &[u8]) -> Result<Value, Problem> {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(refuse("the body begins with a byte order mark; send plain UTF-8 without one"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(format!("the body is not UTF-8 from byte {} on; send JSON in UTF-8", error.valid_up_to()))
    })?;
    read_text(text, MAX_DEPTH)
}

/// Reads a document that was made from bodies, as it was kept. Whatever [`read_body`] takes comes back.
pub fn read_kept(text: &str) -> Result<Value, Problem> {
    read_text(text, KEPT_DEPTH)
}

fn read_text(text: &str, max_depth: usize) -> Result<Value, Problem> {
    let mut reader = Reader { text, at: 0, pointer: String::new(), depth: 0, max_depth, faults: Vec::new() };
    reader.skip_blanks();
    if reader.peek().is_none() {
        return Err(refuse("the body is empty; send one JSON document"));
    }
    match reader.document() {
        Ok(value) if reader.faults.is_empty() => Ok(value),
        Ok(_) | Err(Stop::EnoughFaults) => Err(Problem::invalid(reader.faults)),
        Err(Stop::Refused(problem)) => Err(problem),
    }
}

/// Puts faults into the order of the body as it was sent; faults of one place keep their order.
pub fn sort_by_document(body: &Value, faults: &mut [Fault]) {
    let mut places = Places::default();
    faults.sort_by_cached_key(|fault| places.order(body, fault.pointer.as_deref().unwrap_or_default()));
}

/// Where the members of large objects stand: a fault for each of many members would else be quadratic.
#[derive(Default)]
struct Places<'a>(HashMap<*const Map<String, Value>, HashMap<&'a str, usize>>);

/// Objects of fewer members are looked through.
const LARGE: usize = 32;

impl<'a> Places<'a> {
    /// A key that sorts pointers as their places follow one another in the document.
    ///
    /// A missing member sorts at its parent, for that is where a reader would look for it.
    fn order(&mut self, body: &'a Value, pointer: &str) -> Vec<usize> {
        let mut place = Vec::new();
        let mut current = body;
        for token in pointer.split('/').skip(1) {
            let Some((index, value)) = self.step(current, &unescape(token)) else {
                break;
            };
            place.push(index);
            current = value;
        }
        place
    }

    /// The position and value of one member or item.
    fn step(&mut self, parent: &'a Value, token: &str) -> Option<(usize, &'a Value)> {
        match parent {
            Value::Object(members) => {
                let value = members.get(token)?;
                let index = match members.len() > LARGE {
                    false => members.keys().position(|key| key == token)?,
                    true => {
                        let positions = || members.keys().enumerate().map(|(at, key)| (key.as_str(), at));
                        let known = self.0.entry(std::ptr::from_ref(members));
                        *known.or_insert_with(|| positions().collect()).get(token)?
                    }
                };
                Some((index, value))
            }
            Value::Array(items) => {
                let index = token.parse().ok()?;
                Some((index, items.get(index)?))
            }
            _ => None,
        }
    }
}

/// The text of a document with the members of every object sorted: equal documents have equal texts.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            let members: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// How many arrays and objects stand inside one another at the deepest place.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The pointer of a member or item of what `parent` points at.
pub fn child(parent: &str, token: &str) -> String {
    format!("{parent}/{}", escape(token))
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// The key that a part of a pointer names.
pub fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn refuse(detail: impl Into<String>) -> Problem {
    Problem::invalid(vec![Fault { pointer: None, detail: detail.into() }])
}

/// A recursive descent over the text; `pointer` names the place that is being read.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    pointer: String,
    depth: usize,
    max_depth: usize,
    faults: Vec<Fault>,
}

/// Why reading ended before the document did.
enum Stop {
    Refused(Problem),
    EnoughFaults,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, Stop> {
        let value = self.value()?;
        self.skip_blanks();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.expected("the end of the body after the document")),
        }
    }

    fn value(&mut self) -> Result<Value, Stop> {
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.nested(Self::members),
            Some(b'[') => self.nested(Self::items),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    /// Reads what an opening bracket begins.
    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Stop>) -> Result<Value, Stop> {
        if self.depth == self.max_depth {
            let most = self.max_depth;
            let detail = format!("the body nests deeper than {most} levels; send a flatter document");
            return Err(Stop::Refused(Problem::invalid(vec![Fault::at(self.pointer.clone(), detail)])));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn members(&mut self) -> Result<Value, Stop> {
        let mut members = Map::new();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a member name in double quotes"));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return Err(self.expected("':' after a member name"));
            }
            let parent = self.enter(&key);
            let value = self.value()?;
            if members.contains_key(&key) {
                self.fault("the key is given more than once; keep one of them")?;
            } else {
                members.insert(key, value);
            }
            self.pointer.truncate(parent);
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return Err(self.expected("',' or '}' after a member"));
            }
        }
    }

    fn items(&mut self) -> Result<Value, Stop> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            let parent = self.enter(&items.len().to_string());
            items.push(self.value()?);
            self.pointer.truncate(parent);
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.expected("',' or ']' after an item"));
            }
        }
    }

    /// Finds the closing quote and leaves escapes, surrogates and control characters to serde_json.
    fn string(&mut self) -> Result<String, Stop> {
        let rest = &self.text.as_bytes()[self.at..];
        let mut length = 1;
        while let Some(&byte) = rest.get(length) {
            match byte {
                b'"' => break,
                b'\\' => length += 2,
                _ => length += 1,
            }
        }
        let Some(literal) = rest.get(..=length) else {
            return Err(self.expected("a closing double quote for the string"));
        };
        match serde_json::from_slice(literal) {
            Ok(string) => {
                self.at += literal.len();
                Ok(string)
            }
            Err(_) => Err(self.expected("a string with valid escapes and no bare control character")),
        }
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let text = self.text;
        let rest = &text[self.at..];
        let length = rest.bytes().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        let token = &rest[..length];
        if !is_number(token) {
            return Err(self.expected("a number as JSON writes it"));
        }
        self.at += length;
        if let Some(number) = exact_number(token) {
            return Ok(Value::Number(number));
        }
        let shown: String = token.chars().take(40).collect();
        self.fault(&format!(
            "the number {shown} cannot be kept exactly: integers must fit 64 bits and fractions the digits \
             of a double; use fewer digits, or a string where the field allows one"
        ))?;
        Ok(Value::Null)
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Stop> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    /// Goes down to a member or item; the length returned leads back to its parent.
    fn enter(&mut self, token: &str) -> usize {
        let parent = self.pointer.len();
        // In place: a copy of a long pointer for each of many items would be quadratic.
        self.pointer.push('/');
        self.pointer.push_str(&escape(token));
        parent
    }

    fn fault(&mut self, detail: &str) -> Result<(), Stop> {
        self.faults.push(Fault::at(self.pointer.clone(), detail));
        let enough = self.faults.len() >= MAX_FAULTS || self.pointer.len() > MAX_POINTER;
        if enough { Err(Stop::EnoughFaults) } else { Ok(()) }
    }

    /// The syntax error at the present byte. It quotes nothing of the body, which may be secret.
    fn expected(&self, what: &str) -> Stop {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&letter| letter != '\n').count() + 1;
        Stop::Refused(refuse(format!(
            "the body is not JSON: line {line}, column {column} should have {what}"
        )))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }
}

/// Whether a token is a number by JSON's grammar.
fn is_number(token: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = token.strip_prefix('-').unwrap_or(token);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// The number that is written again with the same value, if 64 bits can hold one.
///
/// The standard library reads the float, because serde_json's quicker way may miss by the last bit.
fn exact_number(token: &str) -> Option<Number> {
    if !token.contains(['.', 'e', 'E']) {
        let signed = token.parse::<i64>().map(Number::from);
        return signed.or_else(|_| token.parse::<u64>().map(Number::from)).ok();
    }
    let number = Number::from_f64(token.parse().ok()?)?;
    (decimal(token)? == decimal(&number.to_string())?).then_some(number)
}

/// The value of a number's text: sign, significant digits, power of ten.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let shift = i64::try_from(digits.len() - significant.len()).ok()? - i64::try_from(fraction.len()).ok()?;
    let significant = significant.trim_start_matches('0').to_owned();
    if significant.is_empty() {
        return Some((false, significant, 0));
    }
    Some((text.starts_with('-'), significant, exponent.parse::<i64>().ok()?.checked_add(shift)?))
}

#[cfg(test)]
#[path = "tests_json.rs"]
mod tests;
