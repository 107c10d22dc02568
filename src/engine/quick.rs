//! The short way for the expressions that most templates are made of: paths, choices and a few filters.
//!
//! The meaning is the virtual machine's, which a test compares; what is not in here goes its long way.

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::attributes::at_path;
use crate::filters::{self, Own};
use crate::scope::Scope;
use crate::value::member;

/// An expression that needs no virtual machine.
#[derive(Debug)]
pub(crate) enum Quick {
    Const(Value),
    /// A variable, and the members that are gone through from there.
    Path(String, Vec<String>),
    Attribute(Box<Quick>, String),
    Item(Box<Quick>, Value),
    Not(Box<Quick>),
    And(Box<[Quick; 2]>),
    Or(Box<[Quick; 2]>),
    Equal(Box<[Quick; 2]>, bool),
    /// Condition, value, other value.
    If(Box<[Quick; 3]>),
    Filter(String, Vec<Quick>),
    List(Box<Quick>),
    /// The items of which the value at a path equals another, or those of which it does not.
    Where(Box<[Quick; 2]>, String, bool),
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
            Expr::Var(variable) => Self::Path(variable.id.to_owned(), Vec::new()),
            Expr::GetAttr(get) => match Self::of(&get.expr)? {
                Self::Path(root, mut members) => {
                    members.push(get.name.to_owned());
                    Self::Path(root, members)
                }
                base => Self::Attribute(Box::new(base), get.name.to_owned()),
            },
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
                Self::filter(filter.name, args)
            }
            _ => return None,
        })
    }

    fn filter(name: &str, mut args: Vec<Self>) -> Self {
        match (name, args.as_slice(), filters::own(name)) {
            (_, args_given, Some((arity, own))) if arity == args_given.len() => Self::Own(own, args),
            ("list", [_], _) => Self::List(Box::new(args.remove(0))),
            ("selectattr" | "rejectattr", [_, Self::Const(path), Self::Const(test), _], _)
                if matches!(test.as_str(), Some("eq" | "ne")) && path.as_str().is_some() =>
            {
                let path = path.as_str().unwrap_or_default().to_owned();
                let wanted = (name == "selectattr") == (test.as_str() == Some("eq"));
                let value = args.remove(3);
                Self::Where(Box::new([args.remove(0), value]), path, wanted)
            }
            _ => Self::Filter(name.to_owned(), args),
        }
    }

    pub(crate) fn eval(&self, env: &Environment<'_>, scope: &Scope) -> Result<Value, Error> {
        let value = match self {
            Self::Const(value) => value.clone(),
            Self::Path(root, members) => match scope.get(root) {
                Some(value) if members.is_empty() => value,
                Some(value) => follow(&value, members),
                None => Value::UNDEFINED,
            },
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
            Self::List(inner) => match inner.eval(env, scope)? {
                list if list.kind() == ValueKind::Seq => list,
                other => env.empty_state().apply_filter("list", &[other])?,
            },
            Self::Where(pair, path, wanted) => {
                let (items, other) = (pair[0].eval(env, scope)?, pair[1].eval(env, scope)?);
                Value::from(having(&items, path, &other, *wanted)?)
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

/// The items of which what stands at a path equals a value, or does not.
fn having(items: &Value, path: &str, other: &Value, wanted: bool) -> Result<Vec<Value>, Error> {
    if items.is_undefined() || items.is_none() {
        return Ok(Vec::new());
    }
    Ok(items.try_iter()?.filter(|item| (at_path(item, path) == *other) == wanted).collect())
}

/// What stands at the end of a path; undefined where it leads nowhere.
fn follow(value: &Value, members: &[String]) -> Value {
    let mut here = value;
    for (at, name) in members.iter().enumerate() {
        match member(here, name) {
            Some(next) => here = next,
            // A large map, or an object of another making.
            None => {
                let rest = members[at..].iter();
                return rest.fold(here.clone(), |here, name| here.get_attr(name).unwrap_or_default());
            }
        }
    }
    here.clone()
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

    const FORMS: [&str; 16] = [
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
        "<a> | selectattr('a.b', 'ne', <b>)",
        "(<a>).a.b",
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
