//! Rows of a status table that can never match, because an earlier row always does.

use std::collections::BTreeSet;

use minijinja::machinery::{Token, parse_expr, tokenize};

use crate::expression::too_deep;
use crate::format::Rule;

use super::rules::Rules;

/// A condition as alternatives, each of them a set of conditions that must hold together. What is not joined
/// by `or` and `and` is one condition, compared by its text.
type Alternatives = Vec<BTreeSet<String>>;

impl Rules<'_, '_> {
    pub(super) fn unreachable_rules(&mut self, rules: &[Rule]) {
        let mut earlier: Vec<(&Rule, Alternatives)> = Vec::new();
        // What nests too deep is reported already.
        let shallow = |rule: &&Rule| rule.when.as_ref().is_none_or(|when| !too_deep(&when.value));
        for rule in rules.iter().filter(shallow) {
            let text = rule.when.as_ref().map_or("true", |when| &when.value);
            let own = alternatives(text);
            let why = match constant(text) {
                Some(false) => Some("its condition never holds".to_owned()),
                _ => shadowed(&own, &earlier)
                    .map(|other| format!("the row `{other}` before it always matches first")),
            };
            if let Some(why) = why {
                let message = format!("the row `{}` is never reached: {why}", rule.name.value);
                let span = rule.when.as_ref().map_or(&rule.name.span, |when| &when.span);
                self.compiler.findings.add(self.source, span, "unreachable-rule", message);
            }
            earlier.push((rule, own));
        }
    }
}

/// The last of the earlier rows that together take every alternative of this one.
fn shadowed<'r>(own: &Alternatives, earlier: &[(&'r Rule, Alternatives)]) -> Option<&'r str> {
    let mut last = None;
    for alternative in own {
        let taken =
            earlier.iter().find(|(_, others)| others.iter().any(|other| other.is_subset(alternative)))?;
        last = Some(taken.0.name.value.as_str());
    }
    last
}

fn constant(text: &str) -> Option<bool> {
    Some(parse_expr(text).ok()?.as_const()?.is_true())
}

fn alternatives(text: &str) -> Alternatives {
    if constant(text) == Some(true) {
        // Needs nothing, and so is a part of every other condition.
        return vec![BTreeSet::new()];
    }
    let tokens: Vec<String> = words(text);
    let tokens = bare(&tokens);
    if split(tokens, "if").len() > 1 {
        return vec![BTreeSet::from([tokens.join(" ")])];
    }
    split(tokens, "or")
        .into_iter()
        .map(|part| split(bare(part), "and").into_iter().map(|part| bare(part).join(" ")).collect())
        .collect()
}

/// The tokens of an expression, so that spaces and the kind of quotes make no difference.
fn words(text: &str) -> Vec<String> {
    let tokens = tokenize(text, true, Default::default()).map_while(Result::ok);
    tokens
        .map(|(token, span)| match token {
            Token::Str(text) => format!("{text:?}"),
            Token::String(text) => format!("{text:?}"),
            _ => text.get(span.start_offset as usize..span.end_offset as usize).unwrap_or("").to_owned(),
        })
        .collect()
}

/// Without the parentheses around the whole.
fn bare(tokens: &[String]) -> &[String] {
    match tokens {
        [first, inner @ .., last] if first == "(" && last == ")" && closes_last(inner) => bare(inner),
        _ => tokens,
    }
}

fn closes_last(inner: &[String]) -> bool {
    let mut depth = 0_i32;
    for token in inner {
        depth += step(token);
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

fn split<'t>(tokens: &'t [String], word: &str) -> Vec<&'t [String]> {
    let mut depth = 0;
    tokens
        .split(|token| {
            depth += step(token);
            depth == 0 && token == word
        })
        .collect()
}

fn step(token: &str) -> i32 {
    match token {
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn implied(earlier: &str, later: &str) -> bool {
        let others = alternatives(earlier);
        alternatives(later).iter().all(|own| others.iter().any(|other| other.is_subset(own)))
    }

    #[test]
    fn what_an_earlier_condition_takes_is_seen_through_and_or_and_parentheses() {
        for (earlier, later) in [
            ("a", "a and b"),
            ("a == 'x'", "b and a==\"x\""),
            ("a or b", "b"),
            ("(a)", "(a and (b or c))"),
            ("a or b", "(b and c) or (a and d)"),
            ("true", "anything"),
            ("1 == 1", "a"),
        ] {
            assert!(implied(earlier, later), "{earlier} takes {later}");
        }
        for (earlier, later) in [
            ("a and b", "a"),
            ("a", "a or b"),
            ("not a", "a"),
            ("a if b else c", "a"),
            ("f(a or b)", "b"),
            ("a == 'x'", "a == 'y'"),
            ("(a) or (b)", "c"),
        ] {
            assert!(!implied(earlier, later), "{earlier} leaves {later}");
        }
    }
}
