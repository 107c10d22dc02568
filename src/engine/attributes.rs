//! Filters that follow a dotted path into each item. A path that ends early is undefined, as it is in an
//! expression: minijinja's own filters fail there, and objects of a cluster lack members at every level.

use minijinja::value::{Kwargs, Rest, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value, filters as builtin};

pub fn selectattr(state: &mut State<'_, '_>, items: Value, path: String, test: Rest<Value>) -> Filtered {
    filtered(state, &items, &path, &test, true)
}

pub fn rejectattr(state: &mut State<'_, '_>, items: Value, path: String, test: Rest<Value>) -> Filtered {
    filtered(state, &items, &path, &test, false)
}

/// One attribute of each item; a filter's name in place of `attribute` is minijinja's own affair.
pub fn map(state: &mut State<'_, '_>, items: Value, arguments: Rest<ValueOrKwargs>) -> Filtered {
    let values = arguments.0.iter().map(|value| (**value).clone()).collect::<Vec<Value>>();
    let (positional, named): (&[Value], Kwargs) = from_args(&values)?;
    let attribute: Option<String> = named.get("attribute")?;
    let Some(path) = attribute.filter(|_| positional.is_empty()) else {
        return builtin::map(state, items, arguments);
    };
    let default: Option<Value> = named.get("default")?;
    named.assert_all_used()?;
    let mut found = Vec::new();
    for item in walked(state, &items)? {
        let value = at_path(&item, &path);
        found.push(if value.is_undefined() { default.clone().unwrap_or(value) } else { value });
    }
    Ok(found)
}

/// What stands at a dotted path; undefined where the way ends early.
pub fn at_path(item: &Value, path: &str) -> Value {
    let mut here = item.clone();
    for part in path.split('.') {
        let next = match part.parse::<usize>() {
            Ok(index) => here.get_item_by_index(index),
            Err(_) => here.get_attr(part),
        };
        match next {
            Ok(next) => here = next,
            Err(_) => return Value::UNDEFINED,
        }
    }
    here
}

type Filtered = Result<Vec<Value>, Error>;

fn filtered(state: &mut State<'_, '_>, items: &Value, path: &str, test: &[Value], wanted: bool) -> Filtered {
    let mut found = Vec::new();
    for item in walked(state, items)? {
        let value = at_path(&item, path);
        let passed = match test.split_first() {
            None => value.is_true(),
            Some((name, more)) => {
                let name = name.as_str().ok_or_else(|| {
                    Error::new(ErrorKind::InvalidOperation, "the name of a test is a string")
                })?;
                let arguments: Vec<Value> = std::iter::once(value).chain(more.iter().cloned()).collect();
                state.perform_test(name, &arguments)?
            }
        };
        if passed == wanted {
            found.push(item);
        }
    }
    Ok(found)
}

/// The items of a list, each paid for; nothing where there is no list.
fn walked(state: &State<'_, '_>, items: &Value) -> Filtered {
    if items.is_undefined() || items.is_none() {
        return Ok(Vec::new());
    }
    let mut walked = Vec::new();
    for item in items.try_iter()? {
        state.consume_fuel(1)?;
        walked.push(item);
    }
    Ok(walked)
}

#[cfg(test)]
mod tests {
    use minijinja::{Environment, Value, context};
    use serde_json::json;

    /// What an expression gives for two containers, of which one waits.
    fn of(expression: &str) -> String {
        let mut env = Environment::empty();
        crate::filters::install(&mut env);
        let items = json!([
            { "name": "a", "state": { "waiting": { "reason": "Pulling" } } },
            { "name": "b", "state": { "running": {} } },
        ]);
        let items = Value::from(minijinja::value::Serde(items));
        env.compile_expression(expression).unwrap().eval(context! { items }).unwrap().to_string()
    }

    #[test]
    fn a_way_that_ends_early_is_undefined() {
        assert_eq!(of("items | selectattr('state.waiting.reason') | map(attribute='name') | join"), "a");
        assert_eq!(of("items | rejectattr('state.waiting.reason') | map(attribute='name') | join"), "b");
        let equal = "items | selectattr('state.waiting.reason', 'eq', 'Pulling') | length";
        assert_eq!(of(equal), "1");
        assert_eq!(of("items | map(attribute='state.waiting.reason', default='-') | join(',')"), "Pulling,-");
        assert_eq!(of("items | map('length') | join(',')"), "2,2");
        assert_eq!(of("missing | selectattr('a.b') | length"), "0");
    }
}
