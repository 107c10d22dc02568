//! The filters, tests and functions that expressions may use: an allow-list, none of which does I/O.

use std::collections::HashSet;
use std::fmt;

use minijinja::filters as builtin;
use minijinja::tests as builtin_tests;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::attributes;
use crate::json::canonical;
use crate::names::{DNS_LABEL, dns_label};
use crate::quantity::Quantity;
use crate::value::{for_each_member, from_pairs};

/// What a name in an expression can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callable {
    Filter,
    Test,
    Function,
}

impl Callable {
    pub fn unknown_code(self) -> &'static str {
        match self {
            Self::Filter => "unknown-filter",
            Self::Test => "unknown-test",
            Self::Function => "unknown-function",
        }
    }
}

impl fmt::Display for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter => "filter",
            Self::Test => "test",
            Self::Function => "function",
        })
    }
}

type Install = fn(&mut Environment<'static>, &'static str);

/// Every name, its kind, one sentence for the reference, and how it is installed.
pub const CALLABLES: &[(Callable, &str, &str, Install)] = &[
    (
        Callable::Filter,
        "binary_unit",
        "`1GB` as Kubernetes' `1Gi`; MB, GB and TB become Mi, Gi and Ti",
        |env, n| {
            env.add_filter(n, binary_unit);
        },
    ),
    (Callable::Filter, "bool", "true or false by truth", |env, n| env.add_filter(n, builtin::bool)),
    (Callable::Filter, "count", "the number of items or characters", |env, n| {
        env.add_filter(n, builtin::length)
    }),
    (Callable::Filter, "decimal_unit", "`1Gi` as `1GB`; the way back from binary_unit", |env, n| {
        env.add_filter(n, decimal_unit);
    }),
    (Callable::Filter, "default", "another value where this one is undefined", |env, n| {
        env.add_filter(n, builtin::default);
    }),
    (Callable::Filter, "dictsort", "the pairs of a map, sorted by key by code point", |env, n| {
        env.add_filter(n, dictsort);
    }),
    (
        Callable::Filter,
        "dns_label",
        "text as an RFC 1123 label of at most 63 characters, a digest where it is cut",
        |env, n| {
            env.add_filter(n, |text: String| dns_label(&text));
        },
    ),
    (
        Callable::Filter,
        "duplicates",
        "the positions of items that equal an earlier one, by an attribute if named",
        |env, n| {
            env.add_filter(n, duplicates);
        },
    ),
    (Callable::Filter, "first", "the first item", |env, n| env.add_filter(n, builtin::first)),
    (Callable::Filter, "indexed", "each item as a map of `index` and `value`", |env, n| {
        env.add_filter(n, indexed);
    }),
    (Callable::Filter, "int", "a whole number", |env, n| env.add_filter(n, builtin::int)),
    (Callable::Filter, "items", "the pairs of a map in its own order", |env, n| {
        env.add_filter(n, builtin::items)
    }),
    (Callable::Filter, "join", "the items as text, with text between them", |env, n| {
        env.add_filter(n, builtin::join)
    }),
    (Callable::Filter, "last", "the last item", |env, n| env.add_filter(n, builtin::last)),
    (Callable::Filter, "length", "the number of items or characters", |env, n| {
        env.add_filter(n, builtin::length)
    }),
    (Callable::Filter, "list", "anything that can be walked, as a list", |env, n| {
        env.add_filter(n, builtin::list)
    }),
    (Callable::Filter, "lower", "in small letters", |env, n| env.add_filter(n, builtin::lower)),
    (Callable::Filter, "map", "one attribute or filter of each item", |env, n| {
        env.add_filter(n, attributes::map)
    }),
    (Callable::Filter, "max", "the largest item", |env, n| env.add_filter(n, builtin::max)),
    (Callable::Filter, "merge", "a map with the members of another laid over it", |env, n| {
        env.add_filter(n, merge)
    }),
    (Callable::Filter, "min", "the smallest item", |env, n| env.add_filter(n, builtin::min)),
    (Callable::Filter, "minus", "a quantity less another", |env, n| {
        env.add_filter(n, |a: Value, b: Value| {
            Quantity::of(&a)?.minus(&Quantity::of(&b)?).map(Value::from_object)
        });
    }),
    (Callable::Filter, "plus", "a quantity and another", |env, n| {
        env.add_filter(n, |a: Value, b: Value| {
            Quantity::of(&a)?.plus(&Quantity::of(&b)?).map(Value::from_object)
        });
    }),
    (Callable::Filter, "pointer", "a key escaped for a JSON pointer", |env, n| env.add_filter(n, pointer)),
    (Callable::Filter, "quantity", "a Kubernetes quantity; compares exactly, as a number", |env, n| {
        env.add_filter(n, |value: Value| Quantity::of(&value).map(Value::from_object));
    }),
    (Callable::Filter, "reject", "the items that fail a test", |env, n| env.add_filter(n, builtin::reject)),
    (Callable::Filter, "rejectattr", "the items whose attribute fails a test", |env, n| {
        env.add_filter(n, attributes::rejectattr);
    }),
    (Callable::Filter, "replace", "with each occurrence of a text replaced", |env, n| {
        env.add_filter(n, builtin::replace);
    }),
    (Callable::Filter, "reverse", "from the end to the beginning", |env, n| {
        env.add_filter(n, builtin::reverse)
    }),
    (Callable::Filter, "select", "the items that pass a test", |env, n| env.add_filter(n, builtin::select)),
    (Callable::Filter, "selectattr", "the items whose attribute passes a test", |env, n| {
        env.add_filter(n, attributes::selectattr);
    }),
    (Callable::Filter, "sort", "sorted", |env, n| env.add_filter(n, builtin::sort)),
    (Callable::Filter, "split", "text cut at a separator", |env, n| env.add_filter(n, builtin::split)),
    (Callable::Filter, "string", "as text", |env, n| env.add_filter(n, builtin::string)),
    (Callable::Filter, "sum", "the sum of the items", |env, n| env.add_filter(n, builtin::sum)),
    (Callable::Filter, "trim", "without white space at both ends", |env, n| env.add_filter(n, builtin::trim)),
    (Callable::Filter, "unique", "each item once", |env, n| env.add_filter(n, builtin::unique)),
    (Callable::Filter, "upper", "in capital letters", |env, n| env.add_filter(n, builtin::upper)),
    (Callable::Filter, "without", "a map without some keys; undefined where none is left", |env, n| {
        env.add_filter(n, without);
    }),
    (
        Callable::Test,
        "controlled_by",
        "whether an object has no controller, or one of these objects is it",
        |env, n| {
            env.add_test(n, controlled_by);
        },
    ),
    (Callable::Test, "defined", "whether there is a value", |env, n| {
        env.add_test(n, builtin_tests::is_defined)
    }),
    (Callable::Test, "dns_label", "whether text is an RFC 1123 label", |env, n| {
        env.add_test(n, |text: String| DNS_LABEL.accepts(&text));
    }),
    (Callable::Test, "eq", "equal", |env, n| env.add_test(n, builtin_tests::is_eq)),
    (Callable::Test, "ge", "at least", |env, n| env.add_test(n, builtin_tests::is_ge)),
    (Callable::Test, "gt", "more than", |env, n| env.add_test(n, builtin_tests::is_gt)),
    (Callable::Test, "in", "contained in", |env, n| env.add_test(n, builtin_tests::is_in)),
    (Callable::Test, "le", "at most", |env, n| env.add_test(n, builtin_tests::is_le)),
    (Callable::Test, "lt", "less than", |env, n| env.add_test(n, builtin_tests::is_lt)),
    (Callable::Test, "mapping", "whether it is a map", |env, n| env.add_test(n, builtin_tests::is_mapping)),
    (Callable::Test, "ne", "not equal", |env, n| env.add_test(n, builtin_tests::is_ne)),
    (Callable::Test, "none", "whether it is null", |env, n| env.add_test(n, builtin_tests::is_none)),
    (Callable::Test, "number", "whether it is a number", |env, n| env.add_test(n, builtin_tests::is_number)),
    (Callable::Test, "quantity", "whether it is a Kubernetes quantity", |env, n| {
        env.add_test(n, |value: Value| Quantity::is_valid(&value));
    }),
    (Callable::Test, "string", "whether it is text", |env, n| env.add_test(n, builtin_tests::is_string)),
    (Callable::Test, "undefined", "whether there is no value", |env, n| {
        env.add_test(n, builtin_tests::is_undefined);
    }),
];

pub fn install(env: &mut Environment<'static>) {
    for (_, name, _, add) in CALLABLES {
        add(env, name);
    }
}

pub fn names(kind: Callable) -> impl Iterator<Item = &'static str> {
    CALLABLES.iter().filter(move |row| row.0 == kind).map(|row| row.1)
}

/// A filter as it is called without a state.
pub(crate) type Own = fn(&[Value]) -> Result<Value, Error>;

/// Filters that need nothing but their values, how many they take, and how they are called without a state.
pub(crate) fn own(name: &str) -> Option<(usize, Own)> {
    match name {
        "binary_unit" => Some((1, |args| {
            let text = args[0].as_str().map_or_else(|| args[0].to_string(), str::to_owned);
            binary_unit(text).map(Value::from)
        })),
        "merge" => Some((2, |args| merge(args[0].clone(), args[1].clone()))),
        "quantity" => Some((1, |args| Quantity::of(&args[0]).map(Value::from_object))),
        _ => None,
    }
}

fn binary_unit(text: String) -> Result<String, Error> {
    let units = [("MB", "Mi"), ("GB", "Gi"), ("TB", "Ti")];
    units
        .iter()
        .find_map(|(decimal, binary)| text.strip_suffix(decimal).map(|number| format!("{number}{binary}")))
        .ok_or_else(|| {
            Error::new(ErrorKind::InvalidOperation, format!("`{text}` does not end in MB, GB or TB"))
        })
}

/// Other spellings of an amount have no decimal twin, and stay as they are.
fn decimal_unit(amount: Value) -> Value {
    let Some(text) = amount.as_str() else { return amount };
    let units = [("Mi", "MB"), ("Gi", "GB"), ("Ti", "TB")];
    let twin =
        units.iter().find_map(|(binary, decimal)| Some(format!("{}{decimal}", text.strip_suffix(binary)?)));
    twin.map_or_else(|| amount.clone(), Value::from)
}

fn without(map: Value, keys: Value) -> Result<Value, Error> {
    if map.is_undefined() || map.is_none() {
        return Ok(map);
    }
    let gone: Vec<Value> = keys.try_iter()?.collect();
    let mut pairs = Vec::new();
    for key in map.try_iter()? {
        if !gone.contains(&key) {
            pairs.push((key.clone(), map.get_item(&key)?));
        }
    }
    Ok(if pairs.is_empty() { Value::UNDEFINED } else { Value::from_pairs(pairs) })
}

fn merge(base: Value, over: Value) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    for map in [base, over] {
        if map.is_undefined() || map.is_none() {
            continue;
        }
        if map.kind() != ValueKind::Map {
            let message = format!("merge takes maps, not {}", map.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        for_each_member(&map, |key, value| {
            pairs.push((key.clone(), value.clone()));
            Ok::<(), Error>(())
        })?;
    }
    Ok(from_pairs(pairs))
}

fn dictsort(map: Value) -> Result<Vec<Value>, Error> {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for key in map.try_iter()? {
        pairs.push((key.to_string(), Value::from(vec![key.clone(), map.get_item(&key)?])));
    }
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(pairs.into_iter().map(|(_, pair)| pair).collect())
}

fn indexed(items: Value) -> Result<Vec<Value>, Error> {
    if items.is_undefined() || items.is_none() {
        return Ok(Vec::new());
    }
    Ok(items
        .try_iter()?
        .enumerate()
        .map(|(index, value)| Value::from_pairs([("index", Value::from(index)), ("value", value)]))
        .collect())
}

fn duplicates(items: Value, options: Kwargs) -> Result<Vec<Value>, Error> {
    let attribute: Option<String> = options.get("attribute")?;
    options.assert_all_used()?;
    // Sets: looking through what was seen for each of many items would be quadratic. Maps that are equal need
    // not have one hash, but they have one text.
    let (mut scalars, mut texts) = (HashSet::new(), HashSet::new());
    let mut found = Vec::new();
    for item in indexed(items)? {
        let value = item.get_attr("value")?;
        let key = match &attribute {
            Some(path) => attributes::at_path(&value, path),
            None => value,
        };
        let first = match key.kind() {
            ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
                texts.insert(canonical(&serde_json::to_value(&key).unwrap_or_default()))
            }
            _ => scalars.insert(key),
        };
        if !first {
            found.push(item);
        }
    }
    Ok(found)
}

fn pointer(key: String) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The chain of controllers tells the objects of this life from those that a former one left behind.
fn controlled_by(object: Value, owners: Value) -> Result<bool, Error> {
    let references = object.get_attr("metadata")?.get_attr("ownerReferences")?;
    if references.is_undefined() || references.is_none() {
        return Ok(true);
    }
    let mut controller = None;
    for reference in references.try_iter()? {
        if reference.get_attr("controller")?.is_true() {
            controller = Some(reference.get_attr("uid")?);
        }
    }
    let Some(uid) = controller else { return Ok(true) };
    let owners = if owners.kind() == ValueKind::Map { Value::from(vec![owners]) } else { owners };
    for owner in owners.try_iter()? {
        if owner.get_attr("metadata")?.get_attr("uid")? == uid {
            return Ok(true);
        }
    }
    Ok(false)
}
