//! Kubernetes quantities and other numbers, exactly: decimals, never floating point.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use minijinja::value::{DynObject, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, Value};
use rust_decimal::Decimal;

/// An amount that remembers how it was written, and compares as a number.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Decimal,
    text: String,
}

const SUFFIXES: [(&str, u128, u32); 14] = [
    // suffix, factor, decimal places to the right
    ("Ki", 1 << 10, 0),
    ("Mi", 1 << 20, 0),
    ("Gi", 1 << 30, 0),
    ("Ti", 1 << 40, 0),
    ("Pi", 1 << 50, 0),
    ("Ei", 1 << 60, 0),
    ("n", 1, 9),
    ("u", 1, 6),
    ("m", 1, 3),
    ("k", 1_000, 0),
    ("M", 1_000_000, 0),
    ("G", 1_000_000_000, 0),
    ("T", 1_000_000_000_000, 0),
    ("P", 1_000_000_000_000_000, 0),
];

impl Quantity {
    /// Parses a quantity by Kubernetes' own grammar. `10K` is none: the suffix is a small `k`.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
        if !unsigned.contains(|c: char| c.is_ascii_digit()) || unsigned.contains(['+', '-']) {
            return None;
        }
        let number = Decimal::from_str(number.strip_prefix('+').unwrap_or(number)).ok()?;
        let (factor, scale) = factor_of(suffix)?;
        let amount = number.checked_mul(Decimal::try_from_i128_with_scale(factor, 0).ok()?)?;
        let amount = match scale {
            0 => amount,
            places => amount.checked_mul(Decimal::try_from_i128_with_scale(1, places).ok()?)?,
        };
        Some(Self {
            amount,
            text: text.to_owned(),
        })
    }

    /// A value of a spec: a string with a suffix, or a plain number.
    pub fn of(value: &Value) -> Result<Self, Error> {
        if let Some(quantity) = value.downcast_object_ref::<Self>() {
            return Ok(quantity.clone());
        }
        let text = value.to_string();
        Self::parse(&text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("`{text}` is not a Kubernetes quantity"),
            )
        })
    }

    pub fn is_valid(value: &Value) -> bool {
        !value.is_undefined() && !value.is_none() && Self::of(value).is_ok()
    }

    pub fn plus(&self, other: &Self) -> Result<Self, Error> {
        Self::computed(self.amount.checked_add(other.amount))
    }

    pub fn minus(&self, other: &Self) -> Result<Self, Error> {
        Self::computed(self.amount.checked_sub(other.amount))
    }

    fn computed(amount: Option<Decimal>) -> Result<Self, Error> {
        let error = || Error::new(ErrorKind::InvalidOperation, "the quantity is out of range");
        amount
            .map(|amount| Self {
                amount,
                text: amount.normalize().to_string(),
            })
            .ok_or_else(error)
    }

    pub fn amount(&self) -> Decimal {
        self.amount
    }
}

fn factor_of(suffix: &str) -> Option<(i128, u32)> {
    if suffix.is_empty() {
        return Some((1, 0));
    }
    if let Some((_, factor, scale)) = SUFFIXES.iter().find(|(name, ..)| *name == suffix) {
        return Some((i128::try_from(*factor).ok()?, *scale));
    }
    if suffix == "E" {
        return Some((10_i128.pow(18), 0));
    }
    // A decimal exponent: e3, E-2.
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    match exponent {
        0..=18 => Some((10_i128.pow(exponent.unsigned_abs()), 0)),
        -9..=-1 => Some((1, exponent.unsigned_abs())),
        _ => None,
    }
}

impl Object for Quantity {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        other
            .downcast_ref::<Self>()
            .map(|other| self.amount.cmp(&other.amount))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_amount_in_two_spellings_is_equal() {
        for (a, b) in [
            ("2048Gi", "2Ti"),
            ("1", "1000m"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("0.57", "570m"),
        ] {
            assert_eq!(
                Quantity::parse(a).unwrap().amount(),
                Quantity::parse(b).unwrap().amount(),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_no_quantity() {
        for text in [
            "", "ten", "10K", "1Gib", "--1", "1.2.3", "Gi", "1 ", " 1", "1e99", ".",
        ] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }
}
