//! Comparisons that can never hold: values of different forms, and words that are never said.

use std::collections::BTreeSet;

use minijinja::machinery::ast::{CallArg, CompareOpKind, Expr};

use super::{Inference, argument, range, written};
use crate::diagnostic::{Help, nearest, suggestion};
use crate::source::Span;
use crate::types::{Form, Type, Words, nouns};

impl Inference<'_> {
    /// Both sides of a comparison.
    pub(super) fn compared(&mut self, op: CompareOpKind, sides: &[(&Type, &Expr<'_>); 2]) {
        let [(left, left_expr), (right, right_expr)] = *sides;
        match op {
            CompareOpKind::In | CompareOpKind::NotIn => {
                self.contained(left, &written(left_expr), right, right_expr);
            }
            CompareOpKind::Eq | CompareOpKind::Ne => {
                // The literal is marked, on whichever side it stands.
                let literal_first = matches!(left_expr, Expr::Const(_));
                let (a, written_a, b, at) = if literal_first {
                    (right, written(right_expr), left, left_expr)
                } else {
                    (left, written(left_expr), right, right_expr)
                };
                self.equal(a, &written_a, b, &written(at), range(at.span()));
            }
            _ => {
                self.same_form(sides, "compared with");
            }
        }
    }

    /// The test of an `is`, a `select` or a `selectattr`.
    pub(super) fn test(
        &mut self,
        operand: &Type,
        name: &str,
        test: &str,
        argument_of: Option<&CallArg<'_>>,
        span: Span,
    ) {
        let Some(other) = argument_of.map(argument) else {
            return;
        };
        let kind = self.visit(other);
        match test {
            "eq" | "ne" => self.equal(operand, name, &kind, &written(other), range(other.span())),
            "in" => self.contained(operand, name, &kind, other),
            "lt" | "le" | "gt" | "ge" => {
                if let Some((a, b)) = differing(operand, &kind) {
                    let message = format!("`{name}` is {}, and is compared with {}", nouns(&a), nouns(&b));
                    self.add(span, "forms-differ", message, None);
                }
            }
            _ => {}
        }
    }

    fn contained(&mut self, item: &Type, name: &str, list: &Type, at: &Expr<'_>) {
        // Each literal of a list is a comparison of its own.
        if let Expr::List(literals) = at {
            for literal in &literals.items {
                let kind = self.visit(literal);
                self.equal(item, name, &kind, &written(literal), range(literal.span()));
            }
            return;
        }
        match list.forms() {
            Some(forms) if forms.is_empty() => {}
            Some(forms)
                if forms.contains(&Form::Text) && item.forms().is_none_or(|f| f.contains(&Form::Text)) => {}
            Some(forms) if forms.is_disjoint(&BTreeSet::from([Form::List, Form::Map])) => {
                let message =
                    format!("`{}` is {}, in which nothing is contained", written(at), nouns(&forms));
                self.add(range(at.span()), "not-a-list", message, None);
            }
            Some(_) => {
                if let Some(items) = list.items() {
                    self.equal(item, name, &items, &written(at), range(at.span()));
                }
            }
            None => {}
        }
    }

    /// `a` is a value that is known by its type, `b` mostly a literal, which stands at `span`.
    pub(super) fn equal(&mut self, a: &Type, name: &str, b: &Type, other: &str, span: Span) {
        if let Some((left, right)) = differing(a, b) {
            let message = format!("`{name}` is {}, and never equal to {}", nouns(&left), nouns(&right));
            return self.add(span, "forms-differ", message, None);
        }
        let (Some(a_forms), Some(b_forms)) = (a.forms(), b.forms()) else {
            return;
        };
        let shared: Vec<&Form> = a_forms.intersection(&b_forms).collect();
        if shared != [&Form::Text] {
            return;
        }
        let (Words::Only(said), known) = (b.texts(), a.texts()) else {
            return;
        };
        if said.iter().any(|word| known.list().contains(word)) {
            return;
        }
        let right: Vec<&str> = known.list().iter().map(String::as_str).collect();
        match (&known, said.as_slice()) {
            (Words::Only(_), [word]) => {
                let message = format!("`{name}` is never '{word}'");
                self.add(span, "impossible-value", message, suggestion(word, &right));
            }
            (Words::Only(_), _) => {
                let message = format!("`{name}` and `{other}` never have a value in common");
                self.add(
                    span,
                    "impossible-value",
                    message,
                    Some(format!("`{name}` is one of: {}", right.join(", ")).into()),
                );
            }
            (Words::Known(_), [word]) => {
                if let Some(meant) = near_miss(word, &right) {
                    let message = format!("`{name}` is not known to be '{word}'");
                    self.add(
                        span,
                        "impossible-value",
                        message,
                        Some(Help::name(format!("did you mean `{meant}`?"), word, meant)),
                    );
                }
            }
            _ => {}
        }
    }

    /// Both sides must have a form in common, or what is done with them fails or means nothing.
    pub(super) fn same_form(&mut self, sides: &[(&Type, &Expr<'_>); 2], done: &str) {
        let [(left, left_expr), (right, right_expr)] = *sides;
        if let Some((a, b)) = differing(left, right) {
            let (name, other) = (written(left_expr), written(right_expr));
            let message =
                format!("`{name}` is {}, and is {done} `{other}`, which is {}", nouns(&a), nouns(&b));
            self.add(range(right_expr.span()), "forms-differ", message, None);
        }
    }
}

/// The forms of two values that have none in common.
fn differing(a: &Type, b: &Type) -> Option<(BTreeSet<Form>, BTreeSet<Form>)> {
    let (a, b) = (a.forms()?, b.forms()?);
    (!a.is_empty() && !b.is_empty() && a.is_disjoint(&b)).then_some((a, b))
}

/// A word that nearly is a known one. Controllers have words of their own, so a far one is let through, and
/// so is a short one, which is near to too much.
fn near_miss<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let meant = nearest(word, known.iter().copied())?;
    let distance = strsim::damerau_levenshtein(word, meant);
    let same = word.eq_ignore_ascii_case(meant);
    (same || (word.len() > 4 && distance <= 2)).then_some(meant)
}
