//! Just enough of Rust's grammar to tell code from comments, and the product from its unit tests.

/// One token of code, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word(String),
    /// A string literal, without its quotes; escapes stay as they are written.
    Text(String),
    Mark(char),
}

/// The tokens of a file; items behind `#[cfg(test)]` are left out, for they are no product.
pub(crate) fn product(source: &str) -> Vec<Token> {
    let mut tokens = tokens(source);
    while let Some(begin) = find_test_item(&tokens) {
        let end = end_of_item(&tokens, begin);
        tokens.drain(begin..end);
    }
    tokens
}

/// Every path of the tokens, `use` groups taken apart: `std::{fs, io}` is `std::fs` and `std::io`.
pub(crate) fn paths(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = match tokens[at].kind {
            Kind::Word(_) => path(tokens, at, "", &mut found),
            _ => at + 1,
        };
    }
    found
}

/// Whether a path is this one, or begins with it.
pub(crate) fn begins_with(path: &str, start: &str) -> bool {
    path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn path(tokens: &[Token], mut at: usize, before: &str, found: &mut Vec<(usize, String)>) -> usize {
    let mut name = before.to_owned();
    let line = tokens[at].line;
    while let Some(Token { kind: Kind::Word(word), .. }) = tokens.get(at) {
        name.push_str(word);
        at += 1;
        if !(is(tokens, at, ':') && is(tokens, at + 1, ':')) {
            break;
        }
        at += 2;
        name.push_str("::");
    }
    if !is(tokens, at, '{') || !name.ends_with("::") {
        // Alone, as in `pub(crate)`, it is a word about visibility.
        if name != "crate" && name != "super" {
            found.push((line, name.trim_end_matches(':').to_owned()));
        }
        return at.max(1);
    }
    at += 1;
    while at < tokens.len() && !is(tokens, at, '}') {
        at = match tokens[at].kind {
            Kind::Word(_) => path(tokens, at, &name, found),
            _ => at + 1,
        };
    }
    at + 1
}

fn is(tokens: &[Token], at: usize, mark: char) -> bool {
    tokens.get(at).is_some_and(|token| token.kind == Kind::Mark(mark))
}

fn find_test_item(tokens: &[Token]) -> Option<usize> {
    let wanted = ["#", "[", "cfg", "(", "test", ")", "]"];
    tokens.windows(wanted.len()).position(|window| {
        window.iter().zip(wanted).all(|(token, wanted)| match &token.kind {
            Kind::Word(word) => word == wanted,
            Kind::Mark(mark) => wanted.len() == 1 && wanted.starts_with(*mark),
            Kind::Text(_) => false,
        })
    })
}

/// An item ends with its body, or with a semicolon where it has none.
fn end_of_item(tokens: &[Token], begin: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        match token.kind {
            Kind::Mark('{') => depth += 1,
            Kind::Mark('}') => depth -= 1,
            Kind::Mark(';') if depth == 0 => return at + 1,
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, kind) = next(rest, first);
        tokens.extend(kind.map(|kind| Token { line, kind }));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// The length of what comes next, and the token that it is, if it is one.
fn next(rest: &str, first: char) -> (usize, Option<Kind>) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), None);
    }
    if rest.starts_with("/*") {
        return (rest.find("*/").map_or(rest.len(), |end| end + 2), None);
    }
    if let Some(found) = string(rest) {
        return found;
    }
    if first == '\'' {
        return (character(rest), None);
    }
    if first.is_alphanumeric() || first == '_' {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        return (end, Some(Kind::Word(rest[..end].to_owned())));
    }
    (first.len_utf8(), (!first.is_whitespace()).then_some(Kind::Mark(first)))
}

fn string(rest: &str) -> Option<(usize, Option<Kind>)> {
    let prefix = ["br", "b", "r", ""].into_iter().find(|prefix| {
        let behind = rest.strip_prefix(prefix).unwrap_or("x");
        behind.trim_start_matches('#').starts_with('"') && (prefix.ends_with('r') || behind.starts_with('"'))
    })?;
    let hashes = rest[prefix.len()..].chars().take_while(|c| *c == '#').count();
    let begin = prefix.len() + hashes + 1;
    let length = if prefix.ends_with('r') {
        rest[begin..].find(&format!("\"{}", "#".repeat(hashes)))
    } else {
        let mut escaped = false;
        rest[begin..].find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })
    };
    let end = length.map_or(rest.len(), |length| begin + length);
    Some(((end + 1 + hashes).min(rest.len()), Some(Kind::Text(rest[begin..end].to_owned()))))
}

/// The length of a character literal, or of the quote of a lifetime.
fn character(rest: &str) -> usize {
    let inner: Vec<(usize, char)> = rest.char_indices().skip(1).take(12).collect();
    match inner.as_slice() {
        [(_, '\\'), (_, _), more @ ..] => more.iter().find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1),
        [_, (at, '\''), ..] => at + 1,
        _ => 1,
    }
}

#[test]
fn comments_strings_and_unit_tests_are_told_from_code() {
    let source = "// kube\n/* std::fs */ fn a<'x>(c: char) { c == '\"' || c == '\\''; b(\"kube \\\" x\") }\n\
                  #[cfg(test)]\nmod tests { use std::env; }\nconst X: &str = r#\"a \"b\" c\"#;";
    let tokens = product(source);
    let words: Vec<&str> = tokens
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Word(word) => Some(word.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(words, ["fn", "a", "x", "c", "char", "c", "c", "b", "const", "X", "str"]);
    let texts: Vec<&Kind> =
        tokens.iter().map(|token| &token.kind).filter(|kind| matches!(kind, Kind::Text(_))).collect();
    assert_eq!(texts, [&Kind::Text("kube \\\" x".into()), &Kind::Text("a \"b\" c".into())]);
    assert_eq!(tokens.last().map(|token| token.line), Some(5));
}

#[test]
fn groups_of_a_use_are_taken_apart() {
    let found = paths(&product("use std::{fs::{self, File}, io};\nlet x = crate::app::serve();"));
    let found: Vec<String> = found.into_iter().map(|(line, path)| format!("{line} {path}")).collect();
    assert!(found.contains(&"1 std::fs::File".to_owned()), "{found:?}");
    assert!(found.contains(&"1 std::io".to_owned()), "{found:?}");
    assert!(found.contains(&"2 crate::app::serve".to_owned()), "{found:?}");
    assert!(begins_with("std::fs::File", "std::fs") && !begins_with("std::fsx", "std::fs"));
}
