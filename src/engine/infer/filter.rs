//! What each filter takes and gives.

use minijinja::machinery::ast::{self, CallArg, Expr, Spanned};

use super::{Inference, argument, range, written};
use crate::source::Span;
use crate::types::{Form, Type, nouns};

impl Inference<'_> {
    pub(super) fn filter(&mut self, filter: &Spanned<ast::Filter<'_>>) -> Type {
        let base = filter.expr.as_ref().map(|operand| self.visit(operand)).unwrap_or_default();
        let name = filter.expr.as_ref().map(written).unwrap_or_default();
        let span = filter.expr.as_ref().map_or(range(filter.span()), |operand| range(operand.span()));
        match filter.name {
            "selectattr" | "rejectattr" => self.by_attribute(&base, &name, &filter.args, span),
            "select" | "reject" => {
                let item = self.walked(&base, &name, span.clone());
                if let Some(test) = filter.args.first().and_then(|arg| constant(argument(arg))) {
                    self.test(&item, &name, &test, filter.args.get(1), span);
                }
                Type::list(item)
            }
            "map" => self.mapped(&base, &name, &filter.args, span),
            "merge" | "default" => {
                let mut all = vec![base];
                all.extend(self.arguments(&filter.args));
                Type::either(all)
            }
            other => {
                let args = self.arguments(&filter.args);
                if let Some((attribute, at)) = keyword(&filter.args, "attribute") {
                    let item = base.items().unwrap_or_default();
                    self.attribute(&item, &name, &attribute, at);
                }
                self.plain(other, &base, &args, &name, span)
            }
        }
    }

    /// Filters that take a value and give another, whatever their arguments.
    fn plain(&mut self, filter: &str, base: &Type, args: &[Type], name: &str, span: Span) -> Type {
        match filter {
            "list" | "sort" | "reverse" | "unique" => Type::list(self.walked(base, name, span)),
            "first" | "last" | "min" | "max" => self.walked(base, name, span),
            "sum" => {
                self.walked(base, name, span);
                Type::Number
            }
            "join" => {
                self.walked(base, name, span);
                Type::text()
            }
            "dictsort" | "items" => {
                self.expect(Form::Map, base, name, filter, span);
                Type::list(Type::Pair(vec![Type::text(), base.values()]))
            }
            "indexed" | "duplicates" => {
                let item = self.walked(base, name, span);
                Type::list(Type::map([("index", Type::Number), ("value", item)]))
            }
            "split" => {
                self.expect(Form::Text, base, name, filter, span);
                Type::list(Type::text())
            }
            "lower" | "upper" | "trim" | "replace" | "dns_label" | "pointer" | "binary_unit" => {
                self.expect(Form::Text, base, name, filter, span);
                Type::text()
            }
            "string" => Type::text(),
            "length" | "count" | "int" => Type::Number,
            "bool" => Type::Bool,
            "quantity" | "plus" | "minus" => {
                for kind in [base].into_iter().chain(args) {
                    self.measured(kind, name, span.clone());
                }
                Type::Quantity
            }
            _ => Type::Any,
        }
    }

    /// The items of what is walked. Texts can be, letter by letter, which nobody means.
    fn walked(&mut self, base: &Type, name: &str, span: Span) -> Type {
        base.items().unwrap_or_else(|| {
            let forms = base.forms().unwrap_or_default();
            self.add(span, "not-a-list", format!("`{name}` is {}, not a list", nouns(&forms)), None);
            Type::Any
        })
    }

    fn expect(&mut self, form: Form, base: &Type, name: &str, filter: &str, span: Span) {
        if let Some(forms) = base.forms()
            && !forms.is_empty()
            && !forms.contains(&form)
        {
            let message = format!("`{name}` is {}, and `{filter}` takes {}", nouns(&forms), form.noun());
            self.add(span, "forms-differ", message, None);
        }
    }

    fn measured(&mut self, base: &Type, name: &str, span: Span) {
        if let Some(forms) = base.forms()
            && !forms.is_empty()
            && forms.iter().all(|form| matches!(form, Form::List | Form::Map | Form::Bool))
        {
            self.add(span, "forms-differ", format!("`{name}` is {}, not a quantity", nouns(&forms)), None);
        }
    }

    fn by_attribute(&mut self, base: &Type, name: &str, args: &[CallArg<'_>], span: Span) -> Type {
        let item = self.walked(base, name, span);
        let Some((first, rest)) = args.split_first() else {
            return Type::list(item);
        };
        if let Some(path) = constant(argument(first)) {
            let at = range(argument(first).span());
            let tested = self.attribute(&item, name, &path, at.clone());
            if let Some(test) = rest.first().and_then(|arg| constant(argument(arg))) {
                self.test(&tested, &format!("{name}[].{path}"), &test, rest.get(1), at);
            }
        }
        Type::list(item)
    }

    fn mapped(&mut self, base: &Type, name: &str, args: &[CallArg<'_>], span: Span) -> Type {
        let item = self.walked(base, name, span.clone());
        if let Some((attribute, at)) = keyword(args, "attribute") {
            let kind = self.attribute(&item, name, &attribute, at);
            let default = args.iter().find_map(|arg| match arg {
                CallArg::Kwarg("default", value) => Some(self.visit(value)),
                _ => None,
            });
            return Type::list(Type::either([Some(kind), default].into_iter().flatten()));
        }
        let rest: Vec<Type> = self.arguments(args).into_iter().skip(1).collect();
        match args.first().and_then(|arg| constant(argument(arg))) {
            Some(filter) => Type::list(self.plain(&filter, &item, &rest, &format!("{name}[]"), span)),
            None => Type::list(Type::Any),
        }
    }

    /// The type at a dotted path of each item.
    fn attribute(&mut self, item: &Type, list: &str, path: &str, span: Span) -> Type {
        let mut here = item.clone();
        let mut of = format!("{list}[]");
        // The place of one step of the path, where what is marked is the path in its quotes.
        let exact = span.len() == path.len() + 2;
        let mut at = span.start + 1;
        for key in path.split('.') {
            let span = if exact { at..at + key.len() } else { span.clone() };
            at += key.len() + 1;
            let name = format!("{of}.{key}");
            here = match key.parse::<usize>() {
                Ok(_) => here.items().unwrap_or_default(),
                Err(_) => self.named_member(&here, &of, key, &name, span),
            };
            of = name;
        }
        here
    }
}

fn constant(expression: &Expr<'_>) -> Option<String> {
    expression.as_const()?.as_str().map(str::to_owned)
}

/// The text of a named argument, and its place.
fn keyword(args: &[CallArg<'_>], name: &str) -> Option<(String, Span)> {
    args.iter().find_map(|arg| match arg {
        CallArg::Kwarg(key, value) if *key == name => Some((constant(value)?, range(value.span()))),
        _ => None,
    })
}
