//! How deep an expression nests, found by its tokens: all that is done with one recurses over its tree, and so
//! the depth is bounded before there is a tree.

use minijinja::machinery::{Token, tokenize};

/// Far beyond any honest expression, and far from the end of the stack.
pub(crate) const MAX_DEPTH: usize = 100;

/// What stands between two brackets.
#[derive(Default)]
struct Level {
    /// Operators between operands: a tree of them is no deeper than there are operators.
    operators: usize,
    /// What goes around the operand at hand: `not`, members, filters, tests, calls.
    around: usize,
    /// The most of them around an operand.
    most: usize,
    /// The deepest of the items before the last comma.
    items: usize,
}

impl Level {
    fn operator(&mut self) {
        self.operators += 1;
        self.most = self.most.max(std::mem::take(&mut self.around));
    }

    fn item(&mut self) {
        self.items = self.depth();
        (self.operators, self.around, self.most) = (0, 0, 0);
    }

    fn depth(&self) -> usize {
        self.items.max(self.operators + self.most.max(self.around))
    }
}

/// Whether an expression nests deeper than [`MAX_DEPTH`]. Counted from above: never less than the tree's depth.
pub(crate) fn too_deep(text: &str) -> bool {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for (token, _) in tokenize(text, true, Default::default()).map_while(Result::ok) {
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                outer.push(std::mem::take(&mut level));
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                let inner = level.depth() + 1;
                level = outer.pop().unwrap_or_default();
                level.around += inner;
            }
            Token::Comma | Token::Colon => level.item(),
            Token::Dot | Token::Pipe | Token::Ident("not" | "is") => level.around += 1,
            Token::Ident("and" | "or" | "if" | "else" | "in") => level.operator(),
            Token::Ident(_) | Token::Str(_) | Token::String(_) => {}
            Token::Int(_) | Token::Int128(_) | Token::Float(_) | Token::Assign => {}
            _ => level.operator(),
        }
        if outer.len() > MAX_DEPTH || level.depth() > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nests_is_counted_and_what_stands_side_by_side_is_not() {
        let side_by_side = format!("[{}]", "spec.a.b == 'x', ".repeat(10_000));
        let conditions = vec!["spec.resources.cpu.min == 1"; 30].join(" and ");
        for sound in [side_by_side.as_str(), &conditions, "a", "", "('", ")))"] {
            assert!(!too_deep(sound), "{sound:.60}");
        }
        for (before, after) in [
            ("", ".b"),
            ("", "[0]"),
            ("", " | first"),
            ("", " is defined"),
            ("", " + a"),
            ("", " or a"),
            ("", " if a else a"),
            ("not ", ""),
            ("-", ""),
            ("(", ")"),
            ("[", "]"),
            ("{'a': ", "}"),
            ("a[", "]"),
            ("a(", ")"),
            ("a or (", ")"),
            ("[1, ", ", 2]"),
        ] {
            let deep = format!("{}a{}", before.repeat(10_000), after.repeat(10_000));
            assert!(too_deep(&deep), "{before}a{after}");
        }
    }

    #[test]
    fn an_expression_of_the_greatest_depth_does_not_exhaust_the_stack_of_a_thread() {
        for (before, after) in [("", ".b"), ("not ", ""), ("", " | first"), ("", " or a")] {
            let deep = format!("{}a{}", before.repeat(MAX_DEPTH), after.repeat(MAX_DEPTH));
            assert!(!too_deep(&deep));
            let mut env = minijinja::Environment::empty();
            env.set_undefined_behavior(minijinja::UndefinedBehavior::Chainable);
            env.add_filter("first", |value: minijinja::Value| value);
            env.compile_expression(&deep).unwrap().eval(()).unwrap();
        }
    }
}
