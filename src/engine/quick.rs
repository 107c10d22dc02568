//! The short way for the expressions that most templates are made of: paths, choices and a few filters.
//!
//! The meaning is the virtual machine's, which a test compares; what is not in here goes its long way.

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::filters::{self, Own};
use crate::scope::Scope;

/// An expression that needs no virtual machine.
#[derive(Debug)]
pub(crate) enum Quick {
    Const(Value),
    Variable(String),
    Attribute(Box<Quick>, String),
    Item(Box<Quick>, Value),
    Not(Box<Quick>),
    And(Box<[Quick; 2]>),
    Or(Box<[Quick; 2]>),
    Equal(Box<[Quick; 2]>, bool),
    /// Condition, value, other value.
    If(Box<[Quick; 3]>),
    Filter(String, Vec<Quick>),
    /// A filter of ours that takes values alone.
    Own(Own, Vec<Quick>),
}

/// Filters whose result is never larger than what they are given, so that no fuel need be counted.
const FILTERS: [&str; 10] = [
    "binary_unit",
    "default",
    "first",
    "last",
    "list",
    "merge",
    "quantity",
    "rejectattr",
    "select",
    "selectattr",
];

impl Quick {
    /// None where the expression holds anything else.
    pub(crate) fn of(expression: &Expr<'_>) -> Option<Self> {
        let boxed = |expression| Some(Box::new(Self::of(expression)?));
        let pair = |left, right| Some(Box::new([Self::of(left)?, Self::of(right)?]));
        Some(match expression {
            Expr::Const(constant) => Self::Const(constant.value.clone()),
            Expr::Var(variable) => Self::Variable(variable.id.to_owned()),
            Expr::GetAttr(get) => Self::Attribute(boxed(&get.expr)?, get.name.to_owned()),
            Expr::GetItem(get) => Self::Item(boxed(&get.expr)?, get.subscript_expr.as_const()?),
            Expr::UnaryOp(not) if matches!(not.op, UnaryOpKind::Not) => Self::Not(boxed(&not.expr)?),
            Expr::BinOp(op) => match op.op {
                BinOpKind::ScAnd => Self::And(pair(&op.left, &op.right)?),
                BinOpKind::ScOr => Self::Or(pair(&op.left, &op.right)?),
                BinOpKind::Eq => Self::Equal(pair(&op.left, &op.right)?, true),
                BinOpKind::Ne => Self::Equal(pair(&op.left, &op.right)?, false),
                _ => return None,
            },
            Expr::Compare(compare) => match compare.ops.as_slice() {
                [only] => match only.op {
                    CompareOpKind::Eq => Self::Equal(pair(&compare.expr, &only.expr)?, true),
                    CompareOpKind::Ne => Self::Equal(pair(&compare.expr, &only.expr)?, false),
                    _ => return None,
                },
                _ => return None,
            },
            Expr::IfExpr(choice) => {
                let other = match &choice.false_expr {
                    Some(other) => Self::of(other)?,
                    None => Self::Const(Value::UNDEFINED),
                };
                Self::If(Box::new([Self::of(&choice.test_expr)?, Self::of(&choice.true_expr)?, other]))
            }
            Expr::Filter(filter) if FILTERS.contains(&filter.name) => {
                let mut args = vec![Self::of(filter.expr.as_ref()?)?];
                for arg in &filter.args {
                    let CallArg::Pos(value) = arg else { return None };
                    args.push(Self::of(value)?);
                }
                match (filters::own(filter.name), args.len()) {
                    (Some((arity, own)), length) if arity == length => Self::Own(own, args),
                    _ => Self::Filter(filter.name.to_owned(), args),
                }
            }
            _ => return None,
        })
    }

    pub(crate) fn eval(&self, env: &Environment<'_>, scope: &Scope) -> Result<Value, Error> {
        let value = match self {
            Self::Const(value) => value.clone(),
            Self::Variable(name) => scope.get(name).unwrap_or_default(),
            Self::Attribute(base, name) => base.eval(env, scope)?.get_attr(name).unwrap_or_default(),
            Self::Item(base, key) => base.eval(env, scope)?.get_item(key).unwrap_or_default(),
            Self::Not(inner) => Value::from(!inner.eval(env, scope)?.is_true()),
            Self::And(pair) => match pair[0].eval(env, scope)? {
                left if left.is_true() => pair[1].eval(env, scope)?,
                left => left,
            },
            Self::Or(pair) => match pair[0].eval(env, scope)? {
                left if left.is_true() => left,
                _ => pair[1].eval(env, scope)?,
            },
            Self::Equal(pair, wanted) => {
                Value::from((pair[0].eval(env, scope)? == pair[1].eval(env, scope)?) == *wanted)
            }
            Self::If(choice) => {
                let [condition, value, other] = &**choice;
                let way = if condition.eval(env, scope)?.is_true() { value } else { other };
                way.eval(env, scope)?
            }
            Self::Filter(name, args) => {
                let args: Result<Vec<Value>, Error> = args.iter().map(|arg| arg.eval(env, scope)).collect();
                env.empty_state().apply_filter(name, &args?)?
            }
            Self::Own(own, args) => {
                let args: Result<Vec<Value>, Error> = args.iter().map(|arg| arg.eval(env, scope)).collect();
                own(&args?)?
            }
        };
        // An error that travels as a value is raised where it is read.
        match value.kind() {
            ValueKind::Invalid => Err(Error::new(ErrorKind::InvalidOperation, value.to_string())),
            _ => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::diagnostic::Findings;
    use crate::expression::Compiler;
    use crate::reads::Names;
    use crate::scope::Scope;
    use crate::source::Source;
    use crate::value::{from_json, to_json};

    /// Whatever may stand at a place.
    const VALUES: [&str; 12] = [
        "s.none",
        "s.text",
        "s.number",
        "s.list",
        "s.map",
        "s.empty",
        "s.yes",
        "s.list[0]",
        "s.map['a']",
        "s.gone.deep",
        "'1GB'",
        "7",
    ];

    const FORMS: [&str; 14] = [
        "<a>",
        "not <a>",
        "<a> and <b>",
        "<a> or <b>",
        "<a> == <b>",
        "<a> != <b>",
        "<a> if <b>",
        "<a> if <b> else s.text",
        "<a> | default(<b>)",
        "<a> | merge(<b>)",
        "<a> | list",
        "<a> | first",
        "<a> | binary_unit",
        "<a> | rejectattr('a', 'eq', <b>) | list",
    ];

    #[test]
    fn the_short_way_leads_where_the_long_one_does() {
        let document = json!({ "none": null, "text": "1GB", "number": 3, "list": [{ "a": 1 }, { "a": "x" }],
            "map": { "a": 1, "b": 2 }, "empty": [], "yes": true });
        let mut names = Names::default();
        names.root("s");
        let mut compared = 0;
        for form in FORMS {
            for (a, b) in VALUES.iter().flat_map(|a| VALUES.iter().map(move |b| (a, b))) {
                let text = form.replace("<a>", a).replace("<b>", b);
                let source = Source::new("x", text.clone());
                let mut findings = Findings::default();
                let mut compiler = Compiler::new(&mut findings);
                let expression = compiler.expression(&source, &(0..text.len()), &text, &names);
                let Some(expression) = expression else { panic!("{text}") };
                let program = Arc::new(compiler.finish());
                let scope =
                    Scope::root(program, Arc::new([]), vec![("s".into(), from_json(&document))], None);
                let said = |value: Result<minijinja::Value, crate::expression::EvalError>| {
                    value
                        .map(|value| (value.kind().to_string(), to_json(&value)))
                        .map_err(|error| error.message)
                };
                let short = said(scope.program().eval(&expression, &scope));
                let long = said(scope.program().eval(&expression.the_long_way(), &scope));
                // How an error is worded is not a promise.
                assert_eq!(short.is_ok(), long.is_ok(), "{text}: {short:?} {long:?}");
                if short.is_ok() {
                    assert_eq!(short, long, "{text}");
                }
                compared += 1;
            }
        }
        assert!(compared > 1000);
    }
}
