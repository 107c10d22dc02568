//! The type of an expression, and every mistake that the types of its parts show.

mod compare;
mod filter;
#[cfg(test)]
mod tests;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Spanned, UnaryOpKind};
use minijinja::machinery::{Span as SyntaxSpan, ast};
use minijinja::value::ValueKind;

use crate::diagnostic::{Help, suggestion};
use crate::reads::Names;
use crate::source::Span;
use crate::types::{Form, Member, Type, nouns};

/// A mistake in an expression, at its place in the expression's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub span: Span,
    pub code: &'static str,
    pub message: String,
    pub help: Option<Help>,
}

/// What the walk of one expression found.
pub fn infer(expression: &Expr<'_>, names: &Names) -> (Type, Vec<Mistake>) {
    let mut walk = Inference { names, mistakes: Vec::new() };
    let kind = walk.visit(expression);
    (kind, walk.mistakes)
}

struct Inference<'n> {
    names: &'n Names,
    mistakes: Vec<Mistake>,
}

impl Inference<'_> {
    fn visit(&mut self, expression: &Expr<'_>) -> Type {
        match expression {
            // A name that is not known is reported by the walk of reads.
            Expr::Var(var) => self.names.type_of(var.id),
            Expr::Const(value) => of_constant(&value.value),
            Expr::GetAttr(get) => {
                let base = self.visit(&get.expr);
                // The syntax tree's span begins before the dot; the name is what is meant.
                let end = range(expression.span()).end;
                self.member(&base, &get.expr, get.name, end.saturating_sub(get.name.len())..end)
            }
            Expr::GetItem(get) => self.subscript(get),
            Expr::Slice(slice) => {
                for bound in [&slice.start, &slice.stop, &slice.step].into_iter().flatten() {
                    self.visit(bound);
                }
                self.visit(&slice.expr)
            }
            Expr::UnaryOp(op) => {
                let operand = self.visit(&op.expr);
                match op.op {
                    UnaryOpKind::Not => Type::Bool,
                    UnaryOpKind::Neg => self.number(&operand, &op.expr),
                }
            }
            Expr::BinOp(op) => self.binary(op),
            Expr::Compare(compare) => self.chain(compare),
            Expr::IfExpr(choice) => {
                self.visit(&choice.test_expr);
                let yes = self.visit(&choice.true_expr);
                let no = choice.false_expr.as_ref().map(|other| self.visit(other));
                Type::either([Some(yes), no].into_iter().flatten())
            }
            Expr::Filter(filter) => self.filter(filter),
            Expr::Test(test) => {
                let operand = self.visit(&test.expr);
                let written = written(&test.expr);
                self.test(&operand, &written, test.name, test.args.first(), range(test.expr.span()));
                Type::Bool
            }
            Expr::Call(call) => {
                self.arguments(&call.args);
                Type::Any
            }
            Expr::List(list) => self.list(&list.items),
            Expr::Tuple(tuple) => Type::Pair(tuple.items.iter().map(|item| self.visit(item)).collect()),
            Expr::Map(map) => self.map(map),
        }
    }

    fn list(&mut self, items: &[Expr<'_>]) -> Type {
        let items: Vec<Type> = items.iter().map(|item| self.visit(item)).collect();
        Type::list(Type::either(items))
    }

    fn map(&mut self, map: &Spanned<ast::Map<'_>>) -> Type {
        let mut members = Vec::new();
        for (key, value) in map.keys.iter().zip(&map.values) {
            self.visit(key);
            let kind = self.visit(value);
            match key.as_const().as_ref().and_then(|key| key.as_str().map(str::to_owned)) {
                Some(key) => members.push((key, kind)),
                None => return Type::Any,
            }
        }
        Type::map(members)
    }

    fn arguments(&mut self, args: &[CallArg<'_>]) -> Vec<Type> {
        args.iter().map(|arg| self.visit(argument(arg))).collect()
    }

    /// The type of `base.name`; `of` is how the base is written.
    fn member(&mut self, base: &Type, of: &Expr<'_>, name: &str, span: Span) -> Type {
        let path = format!("{}.{name}", written(of));
        self.named_member(base, &written(of), name, &path, span)
    }

    fn named_member(&mut self, base: &Type, of: &str, name: &str, path: &str, span: Span) -> Type {
        match base.member(name) {
            Member::Found(kind) => kind,
            Member::Missing(known) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let message = format!("`{path}` does not exist: the schema has no such property");
                self.add(span, "unknown-path", message, suggestion(name, &known));
                Type::Any
            }
            Member::NoMap(forms) => {
                let message = format!("`{of}` is {}, which has no member `{name}`", nouns(&forms));
                let help = forms.contains(&Form::List).then(|| {
                    format!("take an item first (`{of} | first`), or go through all of them (`{of} | map(attribute='{name}')`)")
                        .into()
                });
                self.add(span, "member-of-no-map", message, help);
                Type::Any
            }
        }
    }

    fn subscript(&mut self, get: &Spanned<ast::GetItem<'_>>) -> Type {
        let base = self.visit(&get.expr);
        let key = self.visit(&get.subscript_expr);
        let span = range(get.subscript_expr.span());
        let constant = get.subscript_expr.as_const();
        if let Some(name) = constant.as_ref().and_then(|value| value.as_str()) {
            let path = format!("{}['{name}']", written(&get.expr));
            return self.named_member(&base, &written(&get.expr), name, &path, span);
        }
        let Some(forms) = base.forms().filter(|forms| !forms.is_empty()) else {
            return Type::Any;
        };
        if !forms.contains(&Form::List) && !forms.contains(&Form::Map) {
            let message = format!("`{}` is {}, which has no items", written(&get.expr), nouns(&forms));
            self.add(range(get.expr.span()), "item-of-scalar", message, None);
            return Type::Any;
        }
        match key.forms().and_then(|forms| forms.into_iter().next()) {
            Some(Form::Number) if forms.contains(&Form::List) => base.items().unwrap_or_default(),
            Some(Form::Text) if forms.contains(&Form::Map) => base.values(),
            _ => Type::Any,
        }
    }

    fn number(&mut self, kind: &Type, expression: &Expr<'_>) -> Type {
        if let Some(forms) = kind.forms()
            && !forms.is_empty()
            && !forms.contains(&Form::Number)
        {
            let message = format!("`{}` is {}, not a number", written(expression), nouns(&forms));
            self.add(range(expression.span()), "not-a-number", message, None);
        }
        Type::Number
    }

    fn binary(&mut self, op: &Spanned<ast::BinOp<'_>>) -> Type {
        let left = self.visit(&op.left);
        let right = self.visit(&op.right);
        let sides = [(&left, &op.left), (&right, &op.right)];
        match op.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => Type::either([left, right]),
            BinOpKind::Concat => Type::text(),
            BinOpKind::Add => {
                // Lists and texts are joined by it, numbers are added.
                self.same_form(&sides, "added to");
                Type::either([left, right])
            }
            BinOpKind::Sub
            | BinOpKind::Mul
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => {
                self.number(&left, &op.left);
                self.number(&right, &op.right)
            }
            other => {
                self.compared(compare_kind(other), &sides);
                Type::Bool
            }
        }
    }

    fn chain(&mut self, compare: &Spanned<ast::Compare<'_>>) -> Type {
        let mut left = (self.visit(&compare.expr), &compare.expr);
        for op in &compare.ops {
            let right = (self.visit(&op.expr), &op.expr);
            self.compared(op.op, &[(&left.0, left.1), (&right.0, right.1)]);
            left = right;
        }
        Type::Bool
    }

    fn add(&mut self, span: Span, code: &'static str, message: String, help: Option<Help>) {
        self.mistakes.push(Mistake { span, code, message, help });
    }
}

fn compare_kind(op: BinOpKind) -> CompareOpKind {
    match op {
        BinOpKind::Ne => CompareOpKind::Ne,
        BinOpKind::Lt => CompareOpKind::Lt,
        BinOpKind::Lte => CompareOpKind::Lte,
        BinOpKind::Gt => CompareOpKind::Gt,
        BinOpKind::Gte => CompareOpKind::Gte,
        BinOpKind::In => CompareOpKind::In,
        _ => CompareOpKind::Eq,
    }
}

fn argument<'a, 's>(arg: &'a CallArg<'s>) -> &'a Expr<'s> {
    let (CallArg::Pos(value)
    | CallArg::Kwarg(_, value)
    | CallArg::PosSplat(value)
    | CallArg::KwargSplat(value)) = arg;
    value
}

fn of_constant(value: &minijinja::Value) -> Type {
    match value.kind() {
        ValueKind::String => Type::words([value.as_str().unwrap_or_default()]),
        ValueKind::Number => Type::Number,
        ValueKind::Bool => Type::Bool,
        ValueKind::Undefined | ValueKind::None => Type::Either(Vec::new()),
        ValueKind::Seq => {
            let items = value.try_iter().into_iter().flatten();
            Type::list(Type::either(items.map(|item| of_constant(&item))))
        }
        _ => Type::Any,
    }
}

const KEEPS_ITEMS: [&str; 8] =
    ["list", "sort", "reverse", "unique", "select", "reject", "selectattr", "rejectattr"];

/// An expression as a message names it.
fn written(expression: &Expr<'_>) -> String {
    match expression {
        Expr::Var(var) => var.id.to_owned(),
        Expr::GetAttr(get) => format!("{}.{}", written(&get.expr), get.name),
        Expr::GetItem(get) => match get.subscript_expr.as_const() {
            Some(key) => format!("{}[{key:?}]", written(&get.expr)),
            None => format!("{}[..]", written(&get.expr)),
        },
        Expr::Const(value) => format!("{:?}", value.value),
        Expr::Filter(filter) => match &filter.expr {
            // The items are the same, fewer or in another order.
            Some(operand) if KEEPS_ITEMS.contains(&filter.name) => written(operand),
            Some(operand) => format!("{} | {}", written(operand), filter.name),
            None => filter.name.to_owned(),
        },
        Expr::Slice(slice) => written(&slice.expr),
        other => format!("({})", other.description()),
    }
}

fn range(span: SyntaxSpan) -> Span {
    span.start_offset as usize..span.end_offset as usize
}
