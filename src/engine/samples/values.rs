//! Texts and numbers that are worth trying: bounds, one inside, and those that break template engines.

use serde_json::{Map, Value as Json};

use super::hostile::HOSTILE;
use super::{pattern, size};

/// As long as a text of a caller may well be.
const LONG: usize = 100 * 1024;

/// Texts for a schema: those of its pattern, or any.
pub(super) fn texts(node: &Map<String, Json>) -> Vec<String> {
    let (least, most) = (size(node, "minLength").unwrap_or(0), size(node, "maxLength"));
    let mut found: Vec<String> = match node.get("pattern").and_then(Json::as_str) {
        Some(pattern) => pattern::matching(pattern, most),
        None => {
            let bounds = [least.max(1), least, most.unwrap_or(least + 1)];
            bounds.into_iter().map(|length| "a".repeat(length.min(LONG))).collect()
        }
    };
    let fits = |text: &str| {
        let length = text.chars().count();
        length >= least && most.is_none_or(|most| length <= most)
    };
    found.retain(|text| fits(text));
    found.extend(HOSTILE.iter().filter(|text| fits(text)).map(|text| (*text).to_owned()));
    if most.is_none() {
        found.push("long ".repeat(LONG / 5));
    }
    found
}

/// The bounds of a number, one inside, and where widths and signs change.
pub(super) fn numbers(node: &Map<String, Json>, whole: bool) -> Vec<Json> {
    let bound = |key: &str| node.get(key).and_then(Json::as_i64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|bound| bound.saturating_add(1)));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|bound| bound.saturating_sub(1)));
    let (from, to) = (least.unwrap_or(1), most.unwrap_or(i64::MAX));
    let inside = from.saturating_add(to.saturating_sub(from) / 2);
    let edges = [from, to, inside, 0, 1, -1, i64::from(i32::MAX) + 1, (1 << 53) + 1, i64::MIN];
    let fits =
        |number: &i64| least.is_none_or(|least| *number >= least) && most.is_none_or(|most| *number <= most);
    let step = bound("multipleOf").unwrap_or(1).max(1);
    let mut found: Vec<Json> =
        edges.into_iter().map(|number| number / step * step).filter(fits).map(Json::from).collect();
    if !whole {
        found.extend([0.5, 1e21, -2.25].map(Json::from));
    }
    found
}
