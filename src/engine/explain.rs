//! Why a status is what it is: each row of the table, whether it matched, and what it read.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::Value as Json;

use crate::expression::{EvalError, Expression, Place};
use crate::inputs::{Identity, Inputs};
use crate::provenance::{Input, static_inputs};
use crate::scope::Scope;
use crate::service::Service;
use crate::status::Observation;
use crate::value::to_json;

/// An observation, and the way through the table that led to it.
#[derive(Clone, Debug)]
pub struct StatusTrace {
    pub observation: Observation,
    pub rules: Vec<RuleTrace>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct RuleTrace {
    pub name: String,
    /// The condition; none for the row that always matches.
    pub place: Option<Arc<Place>>,
    /// None where an earlier row matched.
    pub matched: Option<bool>,
    pub reads: Vec<Seen>,
}

/// A place that a condition reads, and what stands there, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub input: Input,
    pub value: String,
}

/// So much of a value is shown.
const SHOWN: usize = 120;

impl Service {
    /// Observes as [`Service::observe`] does, and tells why.
    pub fn explain_status(&self, identity: &Identity, inputs: &Inputs) -> Result<StatusTrace, EvalError> {
        let observation = self.observe(identity, inputs)?;
        let scope = self.scope(identity, inputs)?;
        let matched = self.status.rules.iter().position(|rule| rule.name == observation.rule);
        let rules = self.status.rules.iter().enumerate().map(|(index, rule)| {
            let reached = matched.is_none_or(|matched| index <= matched);
            let reads = rule.when.as_ref().filter(|_| reached);
            RuleTrace {
                name: rule.name.clone(),
                place: rule.when.as_ref().map(|when| when.place.clone()),
                matched: reached.then_some(Some(index) == matched),
                reads: reads.map(|when| self.seen(when, &scope)).unwrap_or_default(),
            }
        });
        Ok(StatusTrace { rules: rules.collect(), observation })
    }

    fn seen(&self, when: &Expression, scope: &Scope) -> Vec<Seen> {
        let seen = static_inputs(when).into_iter().map(|input| {
            let value = match self.is_secret(&input) {
                true => "<secret>".to_owned(),
                false => words(&input, scope),
            };
            Seen { input, value }
        });
        seen.collect()
    }

    /// Whether an input is a setting that is kept secret.
    pub fn is_secret(&self, input: &Input) -> bool {
        let mut secrets = self.settings.iter().filter(|rule| rule.secret);
        input.root == "settings" && secrets.any(|rule| input.touches("settings", &format!("/{}", rule.name)))
    }
}

fn words(input: &Input, scope: &Scope) -> String {
    let Some(root) = scope.get(&input.root) else { return "absent".to_owned() };
    let tokens: Vec<&str> = input.pointer.split('/').skip(1).collect();
    let mut found = Vec::new();
    collect(&root, &tokens, &mut found);
    match (input.pointer.contains('*'), found.as_slice()) {
        (_, []) => "absent".to_owned(),
        (false, [only]) => only.clone(),
        _ => clip(&found.join(", ")),
    }
}

/// The values at a path, of which a `*` takes every item.
fn collect(value: &Value, tokens: &[&str], found: &mut Vec<String>) {
    let Some((token, rest)) = tokens.split_first() else {
        return found.extend(word(value));
    };
    if *token == "*" {
        let items = value.try_iter().ok().filter(|_| value.kind() != ValueKind::Map);
        items.into_iter().flatten().for_each(|item| collect(&item, rest, found));
        return;
    }
    if let Some(inner) = crate::provenance::at(value, &format!("/{token}")) {
        collect(&inner, rest, found);
    }
}

/// A value in few characters; nothing where there is none.
fn word(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::Undefined => None,
        ValueKind::Map => {
            Some(match value.get_attr("metadata").and_then(|metadata| metadata.get_attr("name")) {
                Ok(name) if !name.is_undefined() => format!("the object {}", clip(&name.to_string())),
                _ => format!("a map of {}", value.len().unwrap_or_default()),
            })
        }
        ValueKind::Seq | ValueKind::Iterable => {
            Some(format!("a list of {}", value.len().unwrap_or_default()))
        }
        _ => Some(clip(&to_json(value).ok().flatten().unwrap_or(Json::Null).to_string())),
    }
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

impl fmt::Display for StatusTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Observation { status, message, rule, kept } = &self.observation;
        let kept = if *kept { ", which keeps what was said before" } else { "" };
        write!(f, "{status}: {message}\nby the row `{rule}`{kept}")?;
        for RuleTrace { name, place, matched, reads } in &self.rules {
            let answer = match matched {
                Some(true) => "yes",
                Some(false) => "no ",
                None => "-  ",
            };
            write!(f, "\n{answer} {name}")?;
            if let (Some(place), true) = (place, matched.is_some()) {
                write!(f, "  ({}:{}:{}: {})", place.file, place.line, place.column, one_line(&place.text))?;
            }
            for Seen { input, value } in reads {
                write!(f, "\n      {input} = {value}")?;
            }
        }
        Ok(())
    }
}

/// An expression of several lines on one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
