//! YAML, and so JSON, with the place of every key and value.

use granit_parser::{Event, Parser, ScalarStyle, Span as YamlSpan};

use crate::diagnostic::{Findings, Help};
use crate::source::{Entry, Kind, Source, Span, Tree};

/// Far beyond any honest document, and far from the end of the stack.
const MAX_DEPTH: usize = 64;

/// Reads a YAML file that may hold several documents; none at all is no mistake.
pub fn read_documents(source: &Source, findings: &mut Findings) -> Option<Vec<Tree>> {
    let before = findings.len();
    let mut reader = Reader::new(source, findings);
    let mut documents = Vec::new();
    while let Some((event, _)) = reader.next() {
        if matches!(event, Event::DocumentStart(..)) {
            let (event, span) = reader.next()?;
            documents.push(reader.node(event, &span)?);
        }
    }
    (findings.len() == before).then_some(documents)
}

pub(super) fn read(source: &Source, findings: &mut Findings) -> Option<Tree> {
    let mut reader = Reader::new(source, findings);
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

struct Reader<'a> {
    source: &'a Source,
    findings: &'a mut Findings,
    /// How many mistakes there were before this file.
    before: usize,
    depth: usize,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source, findings: &'a mut Findings) -> Self {
        let before = findings.len();
        Self { source, findings, before, depth: 0, parser: Parser::new_from_str(&source.text) }
    }

    /// The next event that carries data. A syntax error is reported and ends the stream.
    fn next(&mut self) -> Option<(Event<'a>, YamlSpan)> {
        loop {
            match self.parser.next_event()? {
                Ok((Event::Comment(..) | Event::StreamStart | Event::DocumentEnd, _)) => {}
                Ok((Event::StreamEnd, _)) => return None,
                Ok(event) => return Some(event),
                Err(error) => {
                    if !self.tabs() {
                        let at = error.marker().byte_offset().unwrap_or(0);
                        let message = error.kind().to_string();
                        let json = self.source.name.ends_with(".json");
                        let code = if json { "malformed-json" } else { "malformed-yaml" };
                        self.findings.add(self.source, &(at..at), code, message);
                    }
                    return None;
                }
            }
        }
    }

    /// Reports each tab that indents a line; they are what a reader trips over first.
    fn tabs(&mut self) -> bool {
        let mut start = 0;
        let mut found = false;
        let mut above = 0;
        for line in self.source.text.split_inclusive('\n') {
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            if line[..indent].contains('\t') {
                let place = start..start + indent;
                let help = Help::replace("indent with spaces", " ".repeat(above));
                let message = "a tab indents this line, which YAML does not allow";
                self.findings.add_with_help(self.source, &place, "tab-in-yaml", message, Some(help));
                found = true;
            }
            above = below(line).unwrap_or(above);
            start += line.len();
        }
        found
    }

    fn document(&mut self) -> Option<Tree> {
        match self.next() {
            Some((Event::DocumentStart(..), _)) => {
                let (event, span) = self.next()?;
                self.node(event, &span)
            }
            _ => {
                if self.findings.len() == self.before {
                    self.findings.add(self.source, &(0..0), "empty-file", "the file holds no document");
                }
                None
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: &YamlSpan) -> Option<Tree> {
        let place = bytes(span);
        if self.depth == MAX_DEPTH {
            let message = format!("this value is nested deeper than {MAX_DEPTH} levels");
            self.findings.add(self.source, &place, "too-deep", message);
            return None;
        }
        self.depth += 1;
        let kind = self.kind(event, &place);
        self.depth -= 1;
        Some(Tree { span: place, kind: kind? })
    }

    fn kind(&mut self, event: Event<'a>, place: &Span) -> Option<Kind> {
        Some(match event {
            Event::Scalar(text, style, _, tag) => {
                if tag.is_some() {
                    let message = "tags are not read";
                    let help =
                        Help::edit("quote the value instead", self.tagged(place), format!("\"{text}\""));
                    self.findings.add_with_help(self.source, place, "yaml-tag", message, Some(help));
                }
                if style == ScalarStyle::Plain {
                    self.plain(&text, place)
                } else {
                    Kind::String(text.into_owned())
                }
            }
            Event::SequenceStart(..) => Kind::List(self.items()?),
            Event::MappingStart(..) => Kind::Map(self.entries()?),
            _ => {
                let what = "anchors and aliases are not read; write the value out, or name it in [let]";
                self.findings.add(self.source, place, "yaml-alias", what);
                Kind::Null
            }
        })
    }

    /// A key that is a list or a map. Most often it is an expression that lost its quotes.
    fn odd_key(&mut self, span: &Span) {
        let text = &self.source.text;
        let start = span.start.saturating_sub(1);
        let end = text.get(span.start..).and_then(|rest| rest.find("}}")).map(|at| span.start + at + 2);
        let braces = text.get(start..).is_some_and(|rest| rest.starts_with("{{"));
        match end.filter(|_| braces) {
            Some(end) => {
                let message = "`{{` begins a map of YAML here: the expression needs quotes";
                let whole = text.get(start..end).unwrap_or("").replace('"', "'");
                let help = Help::edit("put it in quotes", start..end, format!("\"{whole}\""));
                self.findings.add_with_help(
                    self.source,
                    &(start..end),
                    "unquoted-braces",
                    message,
                    Some(help),
                );
            }
            None => self.findings.add(self.source, span, "key-not-a-string", "a key is a string"),
        }
    }

    /// The place of a scalar with the tag before it.
    fn tagged(&self, scalar: &Span) -> Span {
        let line = scalar.start - self.source.column_offset(scalar.start);
        let before = self.source.text.get(line..scalar.start).unwrap_or("");
        before.rfind('!').map_or(scalar.start, |at| line + before[..at].trim_end_matches('!').len())
            ..scalar.end
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
                    self.odd_key(&key_span);
                    self.node(other, &span)?;
                    String::new()
                }
            };
            if entries.iter().any(|entry| entry.key == key) {
                let message = format!("the key `{key}` stands twice in this map");
                let help = "keep one of the two";
                self.findings.add_with_help(self.source, &key_span, "duplicate-key", message, Some(help));
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
        if simple
            && let Ok(number) = text.parse::<i128>()
            && (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number)
        {
            return Kind::Integer(number);
        }
        if digits.contains('.')
            && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && let Ok(number) = text.parse()
        {
            return Kind::Float(number);
        }
        if reads_differently(text) {
            let message = format!("`{text}` without quotes is read differently by YAML 1.1 and 1.2");
            let help = Help::replace(
                "quote it where the text is meant, else write the plain number, true or false",
                format!("\"{text}\""),
            );
            self.findings.add_with_help(self.source, place, "ambiguous-scalar", message, Some(help));
        }
        Kind::String(text.to_owned())
    }
}

/// How far a line is indented that goes on below another one: by two where that one opens a map.
fn below(line: &str) -> Option<usize> {
    let text = line.trim();
    let item = line.trim_start().trim_start_matches("- ");
    let indent = line.trim_end().chars().count() - item.trim_end().chars().count();
    (!text.is_empty() && !text.starts_with('#')).then_some(if text.ends_with(':') {
        indent + 2
    } else {
        indent
    })
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
