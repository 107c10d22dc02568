//! The one canonical form in which the API server writes a quantity: `1000m` is `1`, `1024Mi` is `1Gi`.

use crate::engine::quantity::Quantity;

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The canonical form; None for what is no quantity.
pub(super) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let quantity = Quantity::parse(text)?;
    // The engine knows amounts as decimals; the smallest unit of Kubernetes is a billionth.
    let nanos = nanos(&quantity.amount().to_string())?;
    if nanos == 0 {
        return Some("0".to_owned());
    }
    let binary = BINARY.iter().any(|suffix| text.ends_with(suffix));
    let whole = nanos % 1_000_000_000 == 0;
    if binary && whole && (nanos / 1_000_000_000).abs() >= 1024 {
        return Some(in_binary(nanos / 1_000_000_000));
    }
    Some(in_decimal(nanos, exponent_of(text)))
}

/// The whole amount in a resource's own unit, for adding up: cores become thousandths.
pub(super) fn amount(text: &str, scale: u32) -> i128 {
    let nanos = Quantity::parse(text).and_then(|quantity| nanos(&quantity.amount().to_string()));
    let unit = 10_i128.pow(9 - scale.min(9));
    let nanos = nanos.unwrap_or_default();
    nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0)
}

/// An amount in thousandths, written as a quantity in the form of the first text that had one.
pub(super) fn of_thousandths(amount: i128, binary: bool) -> String {
    match (binary && amount % 1000 == 0 && amount.abs() >= 1_024_000, amount) {
        (_, 0) => "0".to_owned(),
        (true, amount) => in_binary(amount / 1000),
        (false, amount) => in_decimal(amount * 1_000_000, false),
    }
}

fn nanos(decimal: &str) -> Option<i128> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let negative = whole.starts_with('-');
    let whole: i128 = whole.trim_start_matches('-').parse().ok()?;
    let mut digits: String = fraction.chars().take(9).collect();
    while digits.len() < 9 {
        digits.push('0');
    }
    // What is smaller than a billionth is rounded up.
    let more = fraction.chars().skip(9).any(|digit| digit != '0');
    let nanos = whole.checked_mul(1_000_000_000)? + digits.parse::<i128>().ok()? + i128::from(more);
    Some(if negative { -nanos } else { nanos })
}

fn in_binary(mut amount: i128) -> String {
    let mut steps = 0;
    while amount % 1024 == 0 && steps < BINARY.len() {
        amount /= 1024;
        steps += 1;
    }
    match steps.checked_sub(1) {
        Some(step) => format!("{amount}{}", BINARY[step]),
        None => amount.to_string(),
    }
}

fn in_decimal(mut nanos: i128, exponent: bool) -> String {
    let mut step = 0;
    while nanos % 1000 == 0 && step + 1 < DECIMAL.len() {
        nanos /= 1000;
        step += 1;
    }
    if exponent {
        let power = 3 * i32::try_from(step).unwrap_or_default() - 9;
        return if power == 0 { nanos.to_string() } else { format!("{nanos}e{power}") };
    }
    format!("{nanos}{}", DECIMAL[step])
}

/// Whether it was written with an exponent (`1e3`), which it keeps.
fn exponent_of(text: &str) -> bool {
    text.find(['e', 'E']).is_some_and(|at| at + 1 < text.len())
}
