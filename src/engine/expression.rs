//! Expressions and texts: compiled once when a mapping loads, evaluated against a scope.

mod depth;

use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::machinery::{Token, parse_expr, tokenize};
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::diagnostic::{Findings, Help, suggestion};
use crate::filters;
use crate::infer::{Mistake, infer};
use crate::quick::Quick;
use crate::reads::{Names, Origin, Read, Reads};
use crate::scope::Scope;
use crate::source::{Position, Source, Span};
use crate::types::Type;

use depth::MAX_DEPTH;
pub(crate) use depth::too_deep;

/// Steps of the virtual machine that one evaluation may take: far beyond any honest expression.
const FUEL: u64 = 200_000;

/// Every compiled expression of one mapping. Shared by all that evaluate.
#[derive(Debug)]
pub struct Program {
    env: Environment<'static>,
}

/// A handle to one compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    key: Arc<str>,
    pub place: Arc<Place>,
    /// What it reads, for checks, caches and provenance.
    pub reads: Arc<[Read]>,
    /// Where its value may come from.
    pub origins: Arc<[Origin]>,
    /// What is known of its value.
    pub gives: Type,
    quick: Option<Arc<Quick>>,
}

/// Literal text mixed with expressions: always a string.
#[derive(Clone, Debug)]
pub struct Mixture {
    parts: Arc<[Part]>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(String),
    Value(Expression),
}

/// A scalar of a template: its type is the expression's where it is exactly one expression.
#[derive(Clone, Debug)]
pub enum Leaf {
    Literal(String),
    Lone(Expression),
    Mixture(Mixture),
}

/// Where an expression stands, and its text.
#[derive(Debug)]
pub struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub text: String,
}

impl Place {
    pub(crate) fn of(source: &Source, span: &Span, text: &str) -> Self {
        let Position { line, column } = source.position(span.start);
        Self { file: source.name.clone(), line, column, text: text.to_owned() }
    }

    /// `file:line`.
    pub fn spot(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// An expression that could not be evaluated.
#[derive(Clone, Debug)]
pub struct EvalError {
    pub message: String,
    pub place: Arc<Place>,
    /// What a caller sent makes more than there is room for: his to mend, not the mapping's.
    pub too_large: bool,
}

impl EvalError {
    pub fn new(message: impl Into<String>, place: &Arc<Place>) -> Self {
        Self { message: message.into(), place: place.clone(), too_large: false }
    }

    pub fn too_large(message: impl Into<String>, place: &Arc<Place>) -> Self {
        Self { too_large: true, ..Self::new(message, place) }
    }
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Place { file, line, column, text } = &*self.place;
        write!(f, "{} in `{text}` at {file}:{line}:{column}", self.message)
    }
}

impl std::error::Error for EvalError {}

impl Program {
    pub fn eval(&self, expression: &Expression, scope: &Scope) -> Result<Value, EvalError> {
        let run = || -> Result<Value, Error> {
            if let Some(quick) = &expression.quick {
                return quick.eval(&self.env, scope);
            }
            let template = self.env.get_template(&expression.key)?;
            let captured = template.render_captured(scope.value())?;
            let value = captured.state().lookup(RESULT).unwrap_or_default();
            match value.kind() {
                ValueKind::Invalid => Err(Error::new(ErrorKind::InvalidOperation, value.to_string())),
                _ => Ok(value),
            }
        };
        run().map_err(|error| expression.error(&error))
    }

    pub fn holds(&self, expression: &Expression, scope: &Scope) -> Result<bool, EvalError> {
        Ok(self.eval(expression, scope)?.is_true())
    }

    /// Text in which a value is missing is a mistake, not an empty place.
    pub fn text(&self, mixture: &Mixture, scope: &Scope) -> Result<String, EvalError> {
        self.text_or(mixture, scope, |place| Err(EvalError::new("undefined inside a text", place)))
    }

    /// The name that a text gives; none where it is empty, or a value in it is absent.
    pub fn name(&self, mixture: &Mixture, scope: &Scope) -> Result<Option<String>, EvalError> {
        let mut whole = true;
        let name = self.text_or(mixture, scope, |_| {
            whole = false;
            Ok(())
        })?;
        Ok(Some(name).filter(|name| whole && !name.is_empty()))
    }

    fn text_or(
        &self,
        mixture: &Mixture,
        scope: &Scope,
        mut absent: impl FnMut(&Arc<Place>) -> Result<(), EvalError>,
    ) -> Result<String, EvalError> {
        let mut out = String::new();
        for part in &*mixture.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Value(expression) => {
                    let value = self.eval(expression, scope)?;
                    if value.is_undefined() || value.is_none() {
                        absent(&expression.place)?;
                        continue;
                    }
                    match value.as_str() {
                        Some(text) => out.push_str(text),
                        None => out.push_str(&value.to_string()),
                    }
                }
            }
        }
        Ok(out)
    }
}

impl Expression {
    fn error(&self, error: &Error) -> EvalError {
        let mut message = error.kind().to_string();
        if let Some(detail) = error.detail() {
            message = detail.to_owned();
        }
        EvalError::new(message, &self.place)
    }

    /// The same expression, evaluated by the virtual machine.
    #[cfg(test)]
    pub(crate) fn the_long_way(&self) -> Self {
        Self { quick: None, ..self.clone() }
    }

    /// The names of the outermost scope that it reads.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().map(|read| read.root.as_str())
    }
}

impl Mixture {
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(expression) => Some(expression),
            Part::Literal(_) => None,
        })
    }
}

const PREFIX: &str = "{% set result = (";
const SUFFIX: &str = ") %}";
const RESULT: &str = "result";

/// Compiles the expressions of one mapping and reports every mistake at its place.
pub struct Compiler<'a> {
    env: Environment<'static>,
    count: usize,
    pub findings: &'a mut Findings,
}

/// The text of an expression and where it stands: the scalar around it, and the place of each byte.
struct Spot<'s> {
    source: &'s Source,
    scalar: &'s Span,
    text: &'s str,
    offsets: &'s [usize],
}

impl Spot<'_> {
    /// A stretch of the expression in the file; the whole scalar where its bytes could not be placed.
    fn place(&self, span: &Span) -> Span {
        match (self.offsets.get(span.start), self.offsets.get(span.end.max(span.start))) {
            (Some(start), Some(end)) => *start..*end,
            _ => self.scalar.clone(),
        }
    }

    fn whole(&self) -> Span {
        self.place(&(0..self.text.len()))
    }
}

impl<'a> Compiler<'a> {
    pub fn new(findings: &'a mut Findings) -> Self {
        let mut env = Environment::empty();
        env.set_undefined_behavior(UndefinedBehavior::Chainable);
        env.set_fuel(Some(FUEL));
        env.set_recursion_limit(64);
        filters::install(&mut env);
        Self { env, count: 0, findings }
    }

    pub fn finish(self) -> Program {
        Program { env: self.env }
    }

    /// A bare expression: `when`, `let`, `order`.
    pub fn expression(
        &mut self,
        source: &Source,
        span: &Span,
        text: &str,
        names: &Names,
    ) -> Option<Expression> {
        let offsets = source.offsets(span, text);
        let spot = Spot { source, scalar: span, text, offsets: &offsets };
        let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        if let Some(inner) = inner {
            let help = Help::edit("write the expression alone", spot.whole(), inner.trim());
            let message = "this is an expression already, and takes no braces";
            self.findings.add_with_help(source, &spot.whole(), "braces-in-expression", message, Some(help));
            return None;
        }
        self.compile(&spot, names)
    }

    /// Text with expressions: messages, pointers, names.
    pub fn mixture(&mut self, source: &Source, span: &Span, text: &str, names: &Names) -> Option<Mixture> {
        let offsets = source.offsets(span, text);
        let whole = Spot { source, scalar: span, text, offsets: &offsets };
        let mut parts = Vec::new();
        let mut start = 0;
        let mut broken = false;
        for token in tokenize(text, false, Default::default()) {
            let (token, at) = match token {
                Ok(token) => token,
                Err(error) => {
                    self.syntax_error(&whole, &error, 0);
                    return None;
                }
            };
            match token {
                Token::TemplateData(data) => parts.push(Part::Literal(data.to_owned())),
                Token::VariableStart => start = at.end_offset as usize,
                Token::VariableEnd => {
                    let inner = text.get(start..at.start_offset as usize)?;
                    let begin = start + (inner.len() - inner.trim_start().len());
                    let end = begin + inner.trim().len();
                    let offsets = offsets.get(begin..=end).unwrap_or(&[]);
                    let spot = Spot { source, scalar: span, text: inner.trim(), offsets };
                    let compiled = self.compile(&spot, names);
                    broken |= compiled.is_none();
                    parts.extend(compiled.map(Part::Value));
                    start = 0;
                }
                Token::BlockStart => {
                    let place = whole.place(&(at.start_offset as usize..at.end_offset as usize));
                    self.statement(source, &place);
                    return None;
                }
                _ => {}
            }
        }
        if start > 0 {
            let place = whole.place(&(start - 2..start));
            let message = "`{{` opens an expression that no `}}` closes";
            self.findings.add(source, &place, "unclosed-expression", message);
            return None;
        }
        (!broken).then(|| Mixture { parts: parts.into() })
    }

    fn statement(&mut self, source: &Source, place: &Span) {
        let message = "a text holds `{{ ... }}` only; statements are not read here";
        let help = "write `{{ a if condition else b }}`, or use $if and $for in a template";
        self.findings.add_with_help(source, place, "statement-in-text", message, Some(help));
    }

    /// A scalar of a template.
    pub fn leaf(&mut self, source: &Source, span: &Span, text: &str, names: &Names) -> Option<Leaf> {
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            return Some(Leaf::Literal(text.to_owned()));
        }
        let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        match inner {
            // The parser refuses `a }}-{{ b`, which tells one expression from a mixture.
            Some(inner) if text.trim() == text && is_lone(inner.trim()) => {
                let text = inner.trim();
                let offsets = source.offsets(span, text);
                self.compile(&Spot { source, scalar: span, text, offsets: &offsets }, names).map(Leaf::Lone)
            }
            _ => self.mixture(source, span, text, names).map(Leaf::Mixture),
        }
    }

    fn compile(&mut self, spot: &Spot<'_>, names: &Names) -> Option<Expression> {
        if too_deep(spot.text) {
            let message = format!("this expression nests deeper than {MAX_DEPTH} levels");
            let help = "name parts of it in [let]";
            self.findings.add_with_help(spot.source, &spot.whole(), "too-deep", message, Some(help));
            return None;
        }
        let tree = match parse_expr(spot.text) {
            Ok(tree) => tree,
            Err(error) => {
                self.syntax_error(spot, &error, 0);
                return None;
            }
        };
        let reads = Reads::of(&tree, names);
        let (gives, misfits) = infer(&tree, names);
        for Mistake { span, code, message, help } in
            self.unknown_names(&reads, names).into_iter().chain(misfits)
        {
            self.findings.add_with_help(spot.source, &spot.place(&span), code, message, help);
        }
        self.count += 1;
        let key: Arc<str> = format!("e{}", self.count).into();
        let body = format!("{PREFIX}{}{SUFFIX}", spot.text);
        if let Err(error) = self.env.add_template_owned(key.to_string(), body) {
            self.syntax_error(spot, &error, PREFIX.len());
            return None;
        }
        let position = spot.source.position(spot.whole().start);
        let place = Place {
            file: spot.source.name.clone(),
            line: position.line,
            column: position.column,
            text: spot.text.to_owned(),
        };
        let (reads, origins) = reads.into_parts();
        Some(Expression {
            key,
            place: Arc::new(place),
            reads: reads.into(),
            origins: origins.into(),
            gives,
            quick: Quick::of(&tree).map(Arc::new),
        })
    }

    fn unknown_names(&self, reads: &Reads, names: &Names) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut add = |span: &Span, code, message, help| {
            mistakes.push(Mistake { span: span.clone(), code, message, help });
        };
        for (name, span) in &reads.unknown {
            let known: Vec<&str> = names.all().collect();
            let message = format!("`{name}` is not a variable here");
            add(span, "unknown-variable", message, suggestion(name, &known));
        }
        for (kind, name, span) in &reads.calls {
            let known: BTreeSet<&str> = filters::names(*kind).collect();
            if !known.contains(name.as_str()) {
                let message = format!("`{name}` is not a {kind}");
                let known: Vec<&str> = known.into_iter().collect();
                let help = match known.is_empty() {
                    true => {
                        Some("there are no functions; a value goes through filters: `value | filter`".into())
                    }
                    false => suggestion(name, &known),
                };
                add(span, kind.unknown_code(), message, help);
            }
        }
        mistakes
    }

    fn syntax_error(&mut self, spot: &Spot<'_>, error: &Error, shift: usize) {
        if let Some((span, message, right)) = other_language(spot.text) {
            let help = Help::replace(format!("write `{}`", right.trim()), right);
            let place = spot.place(&span);
            return self.findings.add_with_help(
                spot.source,
                &place,
                "malformed-expression",
                message,
                Some(help),
            );
        }
        let detail = error.detail().unwrap_or_default();
        let at = match error.range() {
            _ if detail.starts_with("unexpected end of input") => {
                spot.place(&(spot.text.len()..spot.text.len()))
            }
            Some(range) if range.start >= shift => {
                let end = (range.end - shift).min(spot.text.len());
                spot.place(&((range.start - shift).min(end)..end))
            }
            _ => spot.whole(),
        };
        let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        self.findings.add(spot.source, &at, "malformed-expression", message);
    }
}

/// Whether a text is one expression. One that nests too deep is not parsed; the mixture that it is then says so.
fn is_lone(text: &str) -> bool {
    !too_deep(text) && parse_expr(text).is_ok()
}

/// An operator of another language, outside of texts in quotes: its place, and the word that is meant.
fn other_language(text: &str) -> Option<(Span, &'static str, &'static str)> {
    const OPERATORS: [(&str, &str, &str); 6] = [
        ("===", "`===` is not an operator", "=="),
        ("!==", "`!==` is not an operator", "!="),
        ("&&", "`&&` is not an operator", "and"),
        ("||", "`||` is not an operator", "or"),
        ("=", "`=` does not compare", "=="),
        ("!", "`!` is not an operator", "not "),
    ];
    let mut quote = None;
    let mut skip = 0;
    // Between parentheses `=` names an argument.
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        match (quote, c) {
            _ if at < skip => {}
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, '=') if depth > 0 && !rest.starts_with("==") => {}
            (None, _) => {
                if let Some((wrong, message, right)) = OPERATORS.iter().find(|row| rest.starts_with(row.0)) {
                    let spelt = ["==", "!="].iter().any(|right| rest.starts_with(right));
                    if !spelt || wrong.len() == 3 {
                        return Some((at..at + wrong.len(), message, right));
                    }
                }
                if ["==", "!=", "<=", ">="].iter().any(|operator| rest.starts_with(operator)) {
                    skip = at + 2;
                }
            }
        }
    }
    None
}
