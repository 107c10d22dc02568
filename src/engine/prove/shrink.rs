//! The smallest document that still shows something: members and items are taken away and values made plain,
//! one at a time, for as long as it does.

use serde_json::{Value as Json, json};

/// Enough for any spec that a person writes; a larger one stays as small as it got.
const TRIES: usize = 4_000;

pub(super) fn smallest(document: &Json, shows: impl Fn(&Json) -> bool) -> Json {
    let mut best = document.clone();
    let mut tries = 0;
    'again: loop {
        for candidate in smaller(&best) {
            tries += 1;
            if tries > TRIES {
                return best;
            }
            if shows(&candidate) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

/// Each document that is one step smaller, the largest steps first.
fn smaller(value: &Json) -> Vec<Json> {
    let mut found = Vec::new();
    match value {
        Json::Object(members) => {
            for key in members.keys() {
                let mut without = members.clone();
                without.shift_remove(key);
                found.push(without.into());
            }
            for (key, inner) in members {
                found.extend(smaller(inner).into_iter().map(|inner| {
                    let mut changed = members.clone();
                    changed.insert(key.clone(), inner);
                    changed.into()
                }));
            }
        }
        Json::Array(items) => {
            for index in 0..items.len() {
                let mut without = items.clone();
                without.remove(index);
                found.push(without.into());
            }
            for (index, inner) in items.iter().enumerate() {
                found.extend(smaller(inner).into_iter().map(|inner| {
                    let mut changed = items.clone();
                    changed[index] = inner;
                    changed.into()
                }));
            }
        }
        Json::String(text) => {
            let half: String = text.chars().take(text.chars().count() / 2).collect();
            let plain = ["", "a", half.as_str()].into_iter().filter(|plain| plain.len() < text.len());
            found.extend(plain.map(Json::from));
        }
        Json::Number(number) if number.as_i64().is_none_or(|number| number.unsigned_abs() > 1) => {
            found.extend([json!(0), json!(1)]);
        }
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_stays() {
        let document = json!({"a": [{"b": "long text"}, {"c": 77}], "d": {"e": true}});
        let found = smallest(&document, |document| document.pointer("/a/0/b").is_some());
        assert_eq!(found, json!({"a": [{"b": ""}]}));
    }
}
