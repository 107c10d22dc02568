//! Texts that match a regular expression.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Beyond this a longer text proves nothing more.
const LONGEST: usize = 1024;

/// The shortest text that matches, longer ones, and the longest that `most` characters allow. Of a pattern that
/// is not read, none.
pub(super) fn matching(pattern: &str, most: Option<usize>) -> Vec<String> {
    let Ok(hir) = regex_syntax::parse(pattern) else {
        return Vec::new();
    };
    let mut found: Vec<String> = Vec::new();
    for pick in 0..3 {
        for extra in [0, 1, 3] {
            found.push(text(&hir, extra, pick));
        }
    }
    // The longest one that still fits, by trying: patterns do not tell how long their texts are.
    let limit = most.unwrap_or(64);
    let longest =
        (4..=limit).rev().map(|extra| text(&hir, extra, 0)).find(|text| text.chars().count() <= limit);
    found.extend(longest);
    let mut seen = std::collections::HashSet::new();
    found.retain(|text| seen.insert(text.clone()));
    found
}

/// A text in which everything that may be repeated is, `extra` times more than it must be.
fn text(hir: &Hir, extra: usize, pick: usize) -> String {
    let mut out = String::new();
    write(hir, extra, pick, &mut out);
    out
}

fn write(hir: &Hir, extra: usize, pick: usize, out: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => out.extend(character(class, pick)),
        HirKind::Repetition(repetition) => {
            let least = repetition.min as usize;
            let most = repetition.max.map_or(usize::MAX, |most| most as usize);
            for _ in 0..least.saturating_add(extra).min(most) {
                if out.len() < LONGEST {
                    write(&repetition.sub, extra, pick, out);
                }
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, extra, pick, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, extra, pick, out)),
        HirKind::Alternation(parts) => {
            if let Some(part) = parts.get(pick % parts.len().max(1)) {
                write(part, extra, pick, out);
            }
        }
    }
}

/// A plain letter or digit at first, then what stands at the end of the class, then what is unusual.
fn character(class: &Class, pick: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.ranges().iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let has = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
    let preferred = match pick {
        0 => ['a', '1', 'A', '0'],
        1 => ['9', 'z', 'Z', '1'],
        _ => ['\u{e9}', '\'', '-', '_'],
    };
    preferred.into_iter().find(|c| has(*c)).or_else(|| ranges.first().map(|(from, _)| *from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_and_reach_the_length_that_is_allowed() {
        for pattern in
            ["^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "^[1-9][0-9]*m?$", "^[0-9]+(MB|GB|TB)$", "^[^\\s]+$"]
        {
            let found = matching(pattern, Some(63));
            let options = serde_json::json!({"type": "string", "pattern": pattern, "maxLength": 63});
            let validator = jsonschema::validator_for(&options).unwrap();
            for text in &found {
                assert!(validator.is_valid(&text.as_str().into()), "{pattern} gave {text}");
            }
            assert!(found.iter().any(|text| text.chars().count() > 50), "{pattern}: {found:?}");
        }
    }
}
