//! Tables that anybody may have written: each mistake has its place, and what loads has its rights and a proof.

use mapwright_engine::diagnostic::Findings;
use mapwright_engine::service::{Files, Service};

use crate::shipped::{KINDS, SHIPPED, SMALL, folders};
use crate::trial::{self, Outcome};

/// Edits of a shipped mapping where the first byte names one by its position, from `0`; else a whole table
/// beside the files of the small mapping.
pub fn holds(bytes: &[u8]) {
    let names = folders(&SHIPPED);
    let name = bytes.first().and_then(|first| names.get(usize::from(first.checked_sub(b'0')?)));
    match (name, std::str::from_utf8(bytes)) {
        (Some(name), _) => {
            let mut files = SHIPPED.clone();
            edit(&mut files, name, &bytes[1..]);
            tried(&files, name);
        }
        (None, Ok(text)) => {
            let mut files = SMALL.clone();
            files.insert("mappings/web/mapping.toml".to_owned(), text.to_owned());
            tried(&files, "web");
        }
        (None, Err(_)) => {}
    }
}

fn tried(files: &Files, folder: &str) {
    match Service::load(files, folder, &KINDS) {
        Err(findings) => told(&findings, files),
        Ok(service) => {
            loaded(&service);
            let samples = mapwright_engine::samples::samples(&service.schema.document);
            for spec in samples.iter().filter(|spec| service.schema.accepts(spec)).take(2) {
                if let Outcome::Made(manifests) = trial::create(&service, spec) {
                    let mut inputs = trial::inputs(&service, spec);
                    inputs.observed = trial::observed(&service, &manifests);
                    // An error is one too; it must not be a panic.
                    let _ = trial::seen(&service, &inputs);
                }
            }
        }
    }
}

/// Each mistake stands in a line that is there, and what mends it can be applied.
pub(crate) fn told(findings: &Findings, files: &Files) {
    assert!(!findings.is_empty(), "refused without a word");
    assert!(!findings.to_string().is_empty(), "mistakes that print nothing");
    for finding in findings.iter() {
        let text = files.get(&finding.file).map_or("", String::as_str);
        let line = text.split('\n').nth(finding.position.line - 1).unwrap_or_default();
        assert!(
            line.contains(finding.line.trim_end_matches('\r')),
            "{finding:?} is not in its line {line:?}"
        );
        if let Some(fix) = &finding.fix {
            assert!(fix.apply(text).is_some(), "the help for {finding:?} does not fit its file");
        }
    }
}

/// What follows from a mapping that loads, without any request.
pub(crate) fn loaded(service: &Service) {
    assert!(!service.objects.is_empty() && !service.status.values.is_empty(), "an empty mapping loads");
    assert!(!service.rights().is_empty(), "a mapping that needs no right");
    let _ = service.unread_inputs();
    let _ = service.kinds();
}

/// Edits files of a mapping. Each edit is an operation, a file, and two places; some take a text besides.
fn edit(files: &mut Files, folder: &str, mut edits: &[u8]) {
    let own = format!("mappings/{folder}/");
    let table = format!("{own}mapping.toml");
    let schema = format!("schemas/{folder}.json");
    let paths: Vec<String> =
        files.keys().filter(|path| path.starts_with(&own) || **path == schema).cloned().collect();
    while let [operation, file, rest @ ..] = edits {
        let [a, b, c, d, rest @ ..] = rest else { break };
        edits = rest;
        let (from, to) =
            (usize::from(u16::from_be_bytes([*a, *b])), usize::from(u16::from_be_bytes([*c, *d])));
        // The table is where most is to be found.
        let path = paths.get(usize::from(*file)).unwrap_or(&table);
        let Some(text) = files.get_mut(path) else { break };
        *text = match operation % 8 {
            0 => lines(text, |lines, count| _ = lines.remove(from % count)),
            1 => lines(text, |lines, count| lines.insert(to % count, lines[from % count])),
            2 => lines(text, |lines, count| lines.swap(from % count, to % count)),
            3 => lines(text, |lines, count| lines.truncate(from % count)),
            4 => tokens(text, |tokens, count| tokens[to % count] = tokens[from % count]),
            5 => tokens(text, |tokens, count| _ = tokens.remove(from % count)),
            6 => tokens(text, |tokens, count| tokens.swap(from % count, to % count)),
            _ => {
                let length = (to % 32).min(edits.len());
                let (given, rest) = edits.split_at(length);
                edits = rest;
                let given = String::from_utf8_lossy(given);
                tokens(text, |tokens, count| tokens.insert(from % count, &given))
            }
        };
    }
}

/// The text after a change of its lines.
fn lines<'t>(text: &'t str, change: impl FnOnce(&mut Vec<&'t str>, usize)) -> String {
    let mut parts: Vec<&str> = text.split('\n').collect();
    let count = parts.len();
    change(&mut parts, count);
    parts.join("\n")
}

/// The text after a change of its words, marks and blanks.
fn tokens<'t>(text: &'t str, change: impl FnOnce(&mut Vec<&'t str>, usize)) -> String {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = match word(first) {
            true => rest.find(|letter: char| !word(letter)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (part, others) = rest.split_at(end);
        parts.push(part);
        rest = others;
    }
    let count = parts.len();
    if count > 0 {
        change(&mut parts, count);
    }
    parts.concat()
}
