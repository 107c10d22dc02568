//! What a caller accepts: media types and codings, with their weights.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};

/// Whether one of these media types may be sent. Without an Accept header everything may.
pub(super) fn accepts(headers: &HeaderMap, media_types: &[&str]) -> bool {
    let ranges = weighted(headers, ACCEPT);
    ranges.is_empty() || media_types.iter().any(|media_type| weight_of(&ranges, media_type) > 0)
}

/// Whether the answer is to be compressed: only where the caller asks for it.
pub(super) fn wants_gzip(headers: &HeaderMap) -> bool {
    let codings = weighted(headers, ACCEPT_ENCODING);
    let named = |name: &str| codings.iter().find(|(coding, _)| coding == name).map(|(_, weight)| *weight);
    named("gzip").or_else(|| named("x-gzip")).or_else(|| named("*")).is_some_and(|weight| weight > 0)
}

/// The weight of the most specific range that covers a media type; none covers it: zero.
fn weight_of(ranges: &[(String, u16)], media_type: &str) -> u16 {
    let group = media_type.split_once('/').map_or(String::new(), |(group, _)| format!("{group}/*"));
    let named = |range: &str| ranges.iter().find(|(name, _)| name == range).map(|(_, weight)| *weight);
    named(media_type).or_else(|| named(&group)).or_else(|| named("*/*")).unwrap_or(0)
}

/// The items of a list header in small letters, with their weights in thousandths. An item whose weight
/// cannot be read counts in full: the caller did name it.
fn weighted(headers: &HeaderMap, name: HeaderName) -> Vec<(String, u16)> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let items = values.flat_map(|value| value.split(',')).map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            (name, weight.map_or(1000, thousandths))
        })
        .collect()
}

fn thousandths(weight: &str) -> u16 {
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    match (whole, digits.parse::<u16>()) {
        ("0", Ok(thousandths)) => thousandths,
        _ => 1000,
    }
}
