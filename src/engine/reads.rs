//! The one analysis of expressions: which names and paths one reads.
//!
//! Checks of paths, the pruning of caches, look-ups, provenance and rights all come from this walk.

use std::collections::BTreeMap;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Spanned};
use minijinja::machinery::{Span as SyntaxSpan, ast};

use crate::diagnostic::{Help, suggestion};
use crate::expression::Expression;
use crate::filters::Callable;
use crate::shape::{self, Step};
use crate::source::Span;

/// One path that an expression reads, from a variable of the outermost scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub root: String,
    pub path: Vec<Step>,
    /// Where in the expression.
    pub span: Span,
    /// Where each step of the path stands; nothing where it came with another name of the value.
    spots: Vec<Option<Span>>,
}

/// The variables that an expression may name, and what is known of them.
#[derive(Clone, Debug, Default)]
pub struct Names<'a> {
    known: BTreeMap<String, Known>,
    schemas: BTreeMap<String, &'a serde_json::Value>,
}

#[derive(Clone, Debug)]
enum Known {
    /// A variable of the outermost scope.
    Root,
    /// Another name for values that stand elsewhere: a loop's variable, a `let`.
    Alias { origins: Vec<Origin>, reads: Vec<Read> },
}

/// Where a value may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    root: String,
    path: Vec<Step>,
    spots: Vec<Option<Span>>,
}

impl<'a> Names<'a> {
    pub fn root(&mut self, name: &str) {
        self.known.insert(name.to_owned(), Known::Root);
    }

    /// A root whose shape is known from a JSON Schema.
    pub fn shaped(&mut self, name: &str, schema: &'a serde_json::Value) {
        self.root(name);
        self.schemas.insert(name.to_owned(), schema);
    }

    /// A name for the value of an expression, as `[let]` and `$let` give one.
    pub fn alias(&mut self, name: &str, reads: &Reads) {
        let known = Known::Alias { origins: reads.origins.clone(), reads: reads.reads.clone() };
        self.known.insert(name.to_owned(), known);
    }

    /// A name for each item of the list that an expression gives.
    pub fn item(&mut self, name: &str, reads: &Reads) {
        let origins = reads.origins.iter().map(|origin| origin.then(Step::Any, None)).collect();
        self.known.insert(name.to_owned(), Known::Alias { origins, reads: Vec::new() });
    }

    /// A name of which nothing is known.
    pub fn opaque(&mut self, name: &str) {
        self.known.insert(name.to_owned(), Known::Alias { origins: Vec::new(), reads: Vec::new() });
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }
}

impl Origin {
    fn then(&self, step: Step, spot: Option<Span>) -> Self {
        let mut longer = self.clone();
        longer.path.push(step);
        longer.spots.push(spot);
        longer
    }

    /// The same place, met under another name: its steps stand elsewhere.
    fn elsewhere(&self) -> Self {
        Self { spots: vec![None; self.path.len()], ..self.clone() }
    }

    /// The place as an expression writes it.
    pub fn dotted(&self) -> String {
        shape::dotted(&self.root, &self.path)
    }
}

/// What the walk of one expression found.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    reads: Vec<Read>,
    origins: Vec<Origin>,
    pub unknown: Vec<(String, Span)>,
    pub calls: Vec<(Callable, String, Span)>,
}

impl Reads {
    pub fn of(expression: &Expr<'_>, names: &Names<'_>) -> Self {
        let mut walk = Walk { names, found: Reads::default() };
        let origins = walk.visit(expression);
        walk.consume(&origins, expression.span());
        walk.found.origins = origins;
        walk.found
    }

    /// What a compiled expression reads, for another name of its value.
    pub fn again(expression: &Expression) -> Self {
        Self { reads: expression.reads.to_vec(), origins: expression.origins.to_vec(), ..Self::default() }
    }

    /// The reads of a bare variable, for another name of it.
    pub fn root(name: &str) -> Self {
        let origin = Origin { root: name.to_owned(), path: Vec::new(), spots: Vec::new() };
        Self { origins: vec![origin], ..Self::default() }
    }

    pub fn into_parts(self) -> (Vec<Read>, Vec<Origin>) {
        (self.reads, self.origins)
    }

    /// Paths that the schema of their root does not name, with the nearest right one.
    pub fn wrong_paths(&self, names: &Names<'_>) -> Vec<(String, Span, Option<Help>)> {
        let mut wrong = Vec::new();
        for read in &self.reads {
            let Some(schema) = names.schemas.get(&read.root) else {
                continue;
            };
            // A step that stands elsewhere, behind a `let` or a loop, is reported there.
            if let Err(miss) = shape::follow(schema, &read.path)
                && let Some(spot) = read.spots.get(miss.at).cloned().flatten()
            {
                let path = shape::dotted(&read.root, &read.path[..=miss.at]);
                let known: Vec<&str> = miss.known.iter().map(String::as_str).collect();
                let item = (path, spot, suggestion(&miss.name, &known));
                if !wrong.contains(&item) {
                    wrong.push(item);
                }
            }
        }
        wrong
    }
}

struct Walk<'n, 'a> {
    names: &'n Names<'a>,
    found: Reads,
}

impl Walk<'_, '_> {
    /// Visits an expression and says where its value may come from.
    fn visit(&mut self, expression: &Expr<'_>) -> Vec<Origin> {
        match expression {
            Expr::Var(var) => self.variable(var),
            Expr::Const(_) => Vec::new(),
            Expr::GetAttr(get) => {
                let end = range(get.span()).end;
                let spot = end.saturating_sub(get.name.len())..end;
                extend(self.visit(&get.expr), &Step::Key(get.name.to_owned()), Some(spot))
            }
            Expr::GetItem(get) => {
                let base = self.visit(&get.expr);
                self.whole(&get.subscript_expr);
                let key = get.subscript_expr.as_const();
                let key = key.as_ref().and_then(|key| key.as_str());
                let step = key.map_or(Step::Any, |key| Step::Key(key.to_owned()));
                extend(base, &step, Some(inside(get.subscript_expr.span())))
            }
            Expr::Slice(slice) => {
                for bound in [&slice.start, &slice.stop, &slice.step].into_iter().flatten() {
                    self.whole(bound);
                }
                self.visit(&slice.expr)
            }
            Expr::UnaryOp(op) => self.all([&op.expr]),
            Expr::BinOp(op) => match op.op {
                BinOpKind::ScAnd | BinOpKind::ScOr => self.either(&op.left, &op.right),
                _ => self.all([&op.left, &op.right]),
            },
            Expr::Compare(compare) => {
                self.whole(&compare.expr);
                self.all(compare.ops.iter().map(|op| &op.expr))
            }
            Expr::IfExpr(choice) => {
                self.whole(&choice.test_expr);
                let mut origins = self.visit(&choice.true_expr);
                if let Some(other) = &choice.false_expr {
                    origins.extend(self.visit(other));
                }
                origins
            }
            Expr::Filter(filter) => self.filter(filter),
            Expr::Test(test) => {
                self.call(Callable::Test, test.name, named(test.span(), test.name));
                self.arguments(&test.args);
                self.all([&test.expr])
            }
            Expr::Call(call) => self.function(call),
            Expr::List(list) => self.all(&list.items),
            Expr::Tuple(tuple) => self.all(&tuple.items),
            Expr::Map(map) => self.all(map.keys.iter().chain(&map.values)),
        }
    }

    fn variable(&mut self, var: &Spanned<ast::Var<'_>>) -> Vec<Origin> {
        match self.names.known.get(var.id) {
            Some(Known::Root) => {
                vec![Origin { root: var.id.to_owned(), path: Vec::new(), spots: Vec::new() }]
            }
            Some(Known::Alias { origins, reads }) => {
                let span = range(var.span());
                self.found.reads.extend(reads.iter().map(|read| Read {
                    span: span.clone(),
                    spots: vec![None; read.path.len()],
                    ..read.clone()
                }));
                origins.iter().map(Origin::elsewhere).collect()
            }
            None => {
                self.found.unknown.push((var.id.to_owned(), range(var.span())));
                Vec::new()
            }
        }
    }

    fn filter(&mut self, filter: &Spanned<ast::Filter<'_>>) -> Vec<Origin> {
        self.call(Callable::Filter, filter.name, named(filter.span(), filter.name));
        let base = filter.expr.as_ref().map(|operand| self.visit(operand)).unwrap_or_default();
        let first = filter.args.first().and_then(constant);
        let attribute = filter.args.iter().find_map(|arg| match arg {
            CallArg::Kwarg("attribute", value) => text(value),
            _ => None,
        });
        match filter.name {
            "list" | "sort" | "reverse" | "unique" | "select" | "reject" | "without" => {
                self.arguments(&filter.args);
                base
            }
            "selectattr" | "rejectattr" => {
                self.arguments(&filter.args);
                let tested = first.map(|path| attribute_of(&base, &path)).unwrap_or_default();
                self.consume(&tested, filter.span());
                base
            }
            "first" | "last" | "min" | "max" => extend(base, &Step::Any, None),
            "map" if let Some(path) = &attribute => attribute_of(&base, path),
            "default" | "merge" => {
                let mut origins = base;
                for arg in &filter.args {
                    let (CallArg::Pos(value)
                    | CallArg::Kwarg(_, value)
                    | CallArg::PosSplat(value)
                    | CallArg::KwargSplat(value)) = arg;
                    origins.extend(self.visit(value));
                }
                origins
            }
            _ => {
                self.arguments(&filter.args);
                self.consume(&base, filter.span());
                Vec::new()
            }
        }
    }

    fn function(&mut self, call: &Spanned<ast::Call<'_>>) -> Vec<Origin> {
        match &call.expr {
            Expr::Var(name) => self.call(Callable::Function, name.id, range(name.span())),
            Expr::GetAttr(method) => self.call(Callable::Function, method.name, range(call.span())),
            _ => self.call(Callable::Function, "call", range(call.span())),
        }
        self.arguments(&call.args);
        Vec::new()
    }

    fn call(&mut self, kind: Callable, name: &str, span: Span) {
        self.found.calls.push((kind, name.to_owned(), span));
    }

    fn arguments(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            let (CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value)) = arg;
            self.whole(value);
        }
    }

    fn either(&mut self, left: &Expr<'_>, right: &Expr<'_>) -> Vec<Origin> {
        let mut origins = self.visit(left);
        // Its truth is read even where its value is not.
        self.consume(&origins.clone(), left.span());
        origins.extend(self.visit(right));
        origins
    }

    fn all<'e, 's: 'e>(&mut self, parts: impl IntoIterator<Item = &'e Expr<'s>>) -> Vec<Origin> {
        for part in parts {
            self.whole(part);
        }
        Vec::new()
    }

    fn whole(&mut self, expression: &Expr<'_>) {
        let origins = self.visit(expression);
        self.consume(&origins, expression.span());
    }

    fn consume(&mut self, origins: &[Origin], span: SyntaxSpan) {
        for Origin { root, path, spots } in origins {
            let (root, path, spots) = (root.clone(), path.clone(), spots.clone());
            self.found.reads.push(Read { root, path, spots, span: range(span) });
        }
    }
}

/// A path that is written as a text, and where the text begins.
type Written = (String, usize);

fn constant(arg: &CallArg<'_>) -> Option<Written> {
    match arg {
        CallArg::Pos(value) => text(value),
        _ => None,
    }
}

fn text(value: &Expr<'_>) -> Option<Written> {
    Some((value.as_const()?.as_str()?.to_owned(), inside(value.span()).start))
}

fn extend(origins: Vec<Origin>, step: &Step, spot: Option<Span>) -> Vec<Origin> {
    origins.into_iter().map(|origin| origin.then(step.clone(), spot.clone())).collect()
}

fn attribute_of(list: &[Origin], (path, start): &Written) -> Vec<Origin> {
    let mut origins = extend(list.to_vec(), &Step::Any, None);
    let mut at = *start;
    for key in path.split('.') {
        origins = extend(origins, &Step::Key(key.to_owned()), Some(at..at + key.len()));
        at += key.len() + 1;
    }
    origins
}

/// The place of a text without its quotes.
fn inside(span: SyntaxSpan) -> Span {
    let Span { start, end } = range(span);
    start + 1..end.saturating_sub(1).max(start + 1)
}

/// The place of the name at the beginning of a call.
fn named(span: SyntaxSpan, name: &str) -> Span {
    let start = range(span).start;
    start..start + name.len()
}

fn range(span: SyntaxSpan) -> Span {
    span.start_offset as usize..span.end_offset as usize
}
