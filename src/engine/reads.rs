//! The one analysis of expressions: which names and paths one reads.
//!
//! The pruning of caches, look-ups, provenance and rights all come from this walk; types are found by another
//! one of the same tree, in [`crate::infer`].

use std::collections::{BTreeMap, BTreeSet};

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Spanned};
use minijinja::machinery::{Span as SyntaxSpan, ast};

use crate::expression::Expression;
use crate::filters::Callable;
use crate::shape::Step;
use crate::source::Span;
use crate::types::Type;

/// One path that an expression reads, from a variable of the outermost scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub root: String,
    pub path: Vec<Step>,
    /// Where in the expression.
    pub span: Span,
}

/// The variables that an expression may name, and what is known of them.
#[derive(Clone, Debug, Default)]
pub struct Names {
    known: BTreeMap<String, Known>,
    types: BTreeMap<String, Type>,
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
}

impl Names {
    pub fn root(&mut self, name: &str) {
        self.known.insert(name.to_owned(), Known::Root);
    }

    /// A root whose type is known.
    pub fn typed_root(&mut self, name: &str, kind: Type) {
        self.root(name);
        self.types.insert(name.to_owned(), kind);
    }

    /// Says of what type a variable is.
    pub fn set_type(&mut self, name: &str, kind: Type) {
        self.types.insert(name.to_owned(), kind);
    }

    /// The type of a variable. Of one that is not known, nothing is.
    pub fn type_of(&self, name: &str) -> Type {
        self.types.get(name).cloned().unwrap_or_default()
    }

    /// A name for the value of an expression, as `[let]` and `$let` give one.
    pub fn alias(&mut self, name: &str, reads: &Reads) {
        let known = Known::Alias { origins: reads.origins.clone(), reads: reads.reads.clone() };
        self.known.insert(name.to_owned(), known);
        self.types.insert(name.to_owned(), reads.gives.clone());
    }

    /// A name for each item of the list that an expression gives.
    pub fn item(&mut self, name: &str, reads: &Reads) {
        let origins = reads.origins.iter().map(|origin| origin.then(Step::Any)).collect();
        self.known.insert(name.to_owned(), Known::Alias { origins, reads: Vec::new() });
        self.types.insert(name.to_owned(), reads.gives.items().unwrap_or_default());
    }

    /// A name of which nothing is known.
    pub fn opaque(&mut self, name: &str) {
        self.known.insert(name.to_owned(), Known::Alias { origins: Vec::new(), reads: Vec::new() });
        self.types.remove(name);
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.root)?;
        self.path.iter().try_for_each(|step| match step {
            Step::Key(key) => write!(f, ".{key}"),
            Step::Any => f.write_str("[]"),
        })
    }
}

impl Origin {
    pub fn root(&self) -> &str {
        &self.root
    }

    pub fn path(&self) -> &[Step] {
        &self.path
    }

    fn then(&self, step: Step) -> Self {
        let mut path = self.path.clone();
        path.push(step);
        Self { root: self.root.clone(), path }
    }
}

/// What the walk of one expression found.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    reads: Vec<Read>,
    origins: Vec<Origin>,
    /// The type of the value.
    pub gives: Type,
    pub unknown: Vec<(String, Span)>,
    pub calls: Vec<(Callable, String, Span)>,
}

impl Reads {
    pub fn of(expression: &Expr<'_>, names: &Names) -> Self {
        let mut walk = Walk { names, found: Reads::default() };
        let origins = walk.visit(expression);
        walk.consume(&origins, expression.span());
        walk.found.origins = origins;
        walk.found
    }

    /// What a compiled expression reads, for another name of its value. Each thing once: a name that is used
    /// twice in the next, and that twice in the one after, would double without end.
    pub fn again(expression: &Expression) -> Self {
        let (mut read, mut origins) = (BTreeSet::new(), Vec::new());
        let reads = expression.reads.iter().filter(|one| read.insert((&one.root, &one.path)));
        let reads = reads.cloned().collect();
        for origin in expression.origins.iter() {
            if !origins.contains(origin) {
                origins.push(origin.clone());
            }
        }
        let gives = if expression.gives.is_huge() { Type::Any } else { expression.gives.clone() };
        Self { reads, origins, gives, ..Self::default() }
    }

    /// The reads of a bare variable, for another name of it.
    pub fn root(name: &str) -> Self {
        let origin = Origin { root: name.to_owned(), path: Vec::new() };
        Self { origins: vec![origin], ..Self::default() }
    }

    pub fn into_parts(self) -> (Vec<Read>, Vec<Origin>) {
        (self.reads, self.origins)
    }
}

struct Walk<'n> {
    names: &'n Names,
    found: Reads,
}

impl Walk<'_> {
    /// Visits an expression and says where its value may come from.
    fn visit(&mut self, expression: &Expr<'_>) -> Vec<Origin> {
        match expression {
            Expr::Var(var) => self.variable(var),
            Expr::Const(_) => Vec::new(),
            Expr::GetAttr(get) => extend(self.visit(&get.expr), Step::Key(get.name.to_owned())),
            Expr::GetItem(get) => {
                let base = self.visit(&get.expr);
                self.whole(&get.subscript_expr);
                let key = get.subscript_expr.as_const();
                extend(
                    base,
                    key.as_ref()
                        .and_then(|key| key.as_str())
                        .map_or(Step::Any, |key| Step::Key(key.to_owned())),
                )
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
            Some(Known::Root) => vec![Origin { root: var.id.to_owned(), path: Vec::new() }],
            Some(Known::Alias { origins, reads }) => {
                let span = range(var.span());
                self.found.reads.extend(reads.iter().map(|read| Read { span: span.clone(), ..read.clone() }));
                origins.clone()
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
        self.named_test(filter);
        let attribute = filter.args.iter().find_map(|arg| match arg {
            CallArg::Kwarg("attribute", value) => value.as_const()?.as_str().map(str::to_owned),
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
            "first" | "last" | "min" | "max" => extend(base, Step::Any),
            "map" if attribute.is_some() => attribute_of(&base, &attribute.unwrap_or_default()),
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

    /// The test that a filter applies to each item, where it is named by a literal.
    fn named_test(&mut self, filter: &ast::Filter<'_>) {
        let position = match filter.name {
            "select" | "reject" => 0,
            "selectattr" | "rejectattr" => 1,
            _ => return,
        };
        let Some(arg @ CallArg::Pos(value)) = filter.args.get(position) else { return };
        if let Some(name) = constant(arg) {
            self.call(Callable::Test, &name, range(value.span()));
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
        for Origin { root, path } in origins {
            self.found.reads.push(Read { root: root.clone(), path: path.clone(), span: range(span) });
        }
    }
}

fn constant(arg: &CallArg<'_>) -> Option<String> {
    match arg {
        CallArg::Pos(value) => value.as_const()?.as_str().map(str::to_owned),
        _ => None,
    }
}

fn extend(origins: Vec<Origin>, step: Step) -> Vec<Origin> {
    origins.into_iter().map(|origin| origin.then(step.clone())).collect()
}

fn attribute_of(list: &[Origin], path: &str) -> Vec<Origin> {
    let mut origins = extend(list.to_vec(), Step::Any);
    for key in path.split('.') {
        origins = extend(origins, Step::Key(key.to_owned()));
    }
    origins
}

/// The place of the name at the beginning of a call.
fn named(span: SyntaxSpan, name: &str) -> Span {
    let start = range(span).start;
    start..start + name.len()
}

fn range(span: SyntaxSpan) -> Span {
    span.start_offset as usize..span.end_offset as usize
}
