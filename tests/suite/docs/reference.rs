//! The reference of the mapping format is equal to the code: keys, words, filters and tests.

use mapwright::engine::filters::{CALLABLES, Callable};
use mapwright::engine::format::{Format, Match, Moment, Operation, Propagation, SettingKind};
use serde_json::Value;

use super::super::source::{no_complaints, text};
use super::markdown::{Page, code};
use super::page;
use super::sample::Sample;

/// A table of the format, read from the source of its types.
struct Table {
    /// As a file writes it: `[[check]]`.
    heading: String,
    keys: Vec<Key>,
}

struct Key {
    name: String,
    shape: String,
    required: bool,
    /// A table of its own, with a heading of its own.
    is_table: bool,
}

/// The structs of `src/engine/format.rs`, each with its fields and their types.
fn structs() -> Vec<(String, Vec<(String, String)>)> {
    let mut structs: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let source = text("src/engine/format.rs");
    let document = source.split("words! {").next().unwrap();
    for line in document.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {")) {
            structs.push((name.to_owned(), Vec::new()));
        } else if let (Some((_, fields)), Some((field, kind))) = (structs.last_mut(), line.split_once(": "))
            && !line.starts_with("//")
        {
            fields.push((field.trim_start_matches("r#").to_owned(), kind.trim_end_matches(',').to_owned()));
        }
    }
    structs
}

/// The tables in the order in which the top level reaches them.
fn tables() -> Vec<Table> {
    let structs = structs();
    let mut tables = Vec::new();
    reach(&structs, "Mapping", "The top level", "", &mut tables);
    assert_eq!(tables.len(), structs.len(), "every struct of the format is reached once");
    tables
}

fn reach(
    structs: &[(String, Vec<(String, String)>)],
    name: &str,
    heading: &str,
    prefix: &str,
    tables: &mut Vec<Table>,
) {
    let (_, fields) = structs.iter().find(|(own, _)| own == name).unwrap();
    let is_struct = |kind: &str| structs.iter().any(|(own, _)| own == inner(kind));
    let keys = fields.iter().map(|(field, kind)| Key {
        name: field.clone(),
        shape: shape(kind, is_struct(kind)),
        required: !["Option<", "Vec<", "Named<", "bool"].iter().any(|start| kind.starts_with(start)),
        is_table: is_struct(kind),
    });
    tables.push(Table { heading: heading.to_owned(), keys: keys.collect() });
    for (field, kind) in fields.iter().filter(|(_, kind)| is_struct(kind)) {
        let path = format!("{prefix}{field}");
        let heading = match kind {
            kind if kind.starts_with("Vec<") => format!("`[[{path}]]`"),
            kind if kind.starts_with("Named<") => format!("`[{path}.NAME]`"),
            _ => format!("`[{path}]`"),
        };
        reach(structs, inner(kind), &heading, &format!("{path}."), tables);
    }
}

/// `Option<Vec<Check>>` is about `Check`.
fn inner(kind: &str) -> &str {
    kind.rsplit('<').next().unwrap().trim_end_matches('>')
}

/// The shape of a key as the reference writes it.
fn shape(kind: &str, is_struct: bool) -> String {
    let one = match inner(kind) {
        "Text" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        "i64" | "Number" => "whole number".to_owned(),
        "Tree" => "any value".to_owned(),
        _ if is_struct => "table".to_owned(),
        word => {
            let words = words(word).unwrap_or_else(|| panic!("the test does not know the type {word}"));
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
    };
    match kind {
        kind if kind.starts_with("Vec<") => format!("list: {one}"),
        kind if kind.starts_with("Named<") => format!("table of names: {one}"),
        _ => one,
    }
}

/// The closed sets of words, by the name of their type.
fn words(name: &str) -> Option<&'static [&'static str]> {
    let all: [(&str, &'static [&'static str]); 6] = [
        ("Format", Format::WORDS),
        ("Operation", Operation::WORDS),
        ("Moment", Moment::WORDS),
        ("SettingKind", SettingKind::WORDS),
        ("Propagation", Propagation::WORDS),
        ("Match", Match::WORDS),
    ];
    all.into_iter().find(|(own, _)| *own == name).map(|(_, words)| words)
}

/// What a page says wrongly about a table of the format.
fn complaints(page: &Page, table: &Table) -> Vec<String> {
    let heading = &table.heading;
    if !page.headings.iter().any(|own| own.title == *heading) {
        return vec![format!("there is no heading {heading}")];
    }
    let rows = page.rows(heading);
    let listed: Vec<&str> = rows.iter().map(|row| code(&row[0])).collect();
    let keys: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
    if listed != keys {
        return vec![format!("{heading} lists {listed:?}, the code has {keys:?}")];
    }
    let mut complaints = Vec::new();
    for (row, key) in rows.iter().zip(&table.keys) {
        let [_, shape, default, meaning] = row.as_slice() else {
            complaints.push(format!("{heading} {}: a row has four cells", key.name));
            continue;
        };
        if *shape != key.shape {
            complaints.push(format!("{heading} {}: the shape is {}", key.name, key.shape));
        }
        if (default == "required") != key.required || default.is_empty() || meaning.is_empty() {
            complaints.push(format!("{heading} {}: a default, or `required`, and a meaning", key.name));
        }
        let examples =
            page.fences.iter().filter(|fence| fence.language == "toml" && fence.section == *heading);
        if !key.is_table && !examples.into_iter().any(|fence| sets(&fence.text, &key.name)) {
            complaints.push(format!("{heading} {}: no example in the section sets it", key.name));
        }
    }
    complaints
}

/// Whether a TOML text sets a key, in a line or in an inline table, or has a table of that name.
fn sets(text: &str, key: &str) -> bool {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(key) {
        let begins = before.is_empty() || before.ends_with(['\n', ' ', '{', ',', '[']);
        let is_set = after.trim_start().starts_with('=') || (before.ends_with('[') && after.starts_with(']'));
        if begins && is_set {
            return true;
        }
        rest = after;
    }
    false
}

#[test]
fn every_table_and_key_of_the_format_is_in_the_reference_as_the_code_has_it() {
    let page = page("docs/mapping-reference.md");
    no_complaints(tables().iter().flat_map(|table| complaints(&page, table)).collect());
}

#[test]
fn a_reference_that_lags_behind_is_caught() {
    let table = |required| Table {
        heading: "`[[x]]`".to_owned(),
        keys: vec![Key { name: "a".to_owned(), shape: "text".to_owned(), required, is_table: false }],
    };
    let with = |row: &str, example: &str| {
        let text =
            format!("## `[[x]]`\n\n| k | s | d | m |\n| - | - | - | - |\n{row}\n\n```toml\n{example}\n```\n");
        Page::parse("x.md", &text)
    };
    let good = with("| `a` | text | required | A. |", "a = 1");
    assert_eq!(complaints(&good, &table(true)).len(), 0);
    assert_eq!(complaints(&good, &table(false)).len(), 1);
    assert_eq!(complaints(&with("| `b` | text | required | A. |", "a = 1"), &table(true)).len(), 1);
    assert_eq!(complaints(&with("| `a` | table | required | A. |", "a = 1"), &table(true)).len(), 1);
    assert_eq!(complaints(&with("| `a` | text | required | A. |", "ba = 1"), &table(true)).len(), 1);
    assert_eq!(complaints(&Page::parse("x.md", "# y\n"), &table(true)).len(), 1);
}

#[test]
fn filters_tests_and_functions_are_those_of_the_code_and_their_examples_hold() {
    let page = page("docs/mapping-reference.md");
    let sample = Sample::of(&page);
    let mut complaints = Vec::new();
    for (heading, kind) in
        [("Filters", Callable::Filter), ("Tests", Callable::Test), ("Functions", Callable::Function)]
    {
        let rows = page.rows(heading);
        let listed: Vec<(&str, &str)> = rows.iter().map(|row| (code(&row[0]), row[1].as_str())).collect();
        let known = CALLABLES.iter().filter(|row| row.0 == kind);
        let known: Vec<(&str, &str)> = known.map(|row| (row.1, row.2)).collect();
        for row in known.iter().filter(|row| !listed.contains(row)) {
            complaints.push(format!("{heading} lacks | `{}` | {} |", row.0, row.1));
        }
        for row in listed.iter().filter(|row| !known.contains(row)) {
            complaints.push(format!("{heading} has `{}`, which the code has not, or says otherwise", row.0));
        }
        for row in &rows {
            complaints.extend(example_fault(&sample, code(&row[0]), row));
        }
    }
    no_complaints(complaints);
}

/// The example of a row uses its name, and gives what the row says.
fn example_fault(sample: &Sample, name: &str, row: &[String]) -> Option<String> {
    let [_, _, example, gives] = row else { return Some(format!("{name}: a row has four cells")) };
    let example = code(example);
    if !example.contains(name) {
        return Some(format!("{name}: the example does not use it"));
    }
    let expected: Value = serde_json::from_str(code(gives)).unwrap_or_else(|error| panic!("{name}: {error}"));
    match sample.eval(example) {
        Ok(found) if found == expected => None,
        Ok(found) => Some(format!("{name}: `{example}` gives {found}")),
        Err(error) => Some(format!("{name}: {error}")),
    }
}

#[test]
fn an_example_of_a_filter_that_does_not_hold_is_caught() {
    let sample = Sample::of(&page("docs/mapping-reference.md"));
    let fault = |example: &str, gives: &str| {
        let row = ["`upper`", "", example, gives].map(str::to_owned);
        example_fault(&sample, "upper", &row).is_some()
    };
    assert!(!fault("`'a' | upper`", "`\"A\"`"));
    assert!(fault("`'a' | upper`", "`\"a\"`"));
    assert!(fault("`'a' | lower`", "`\"a\"`"));
    assert!(fault("`'a' | upperr`", "`\"A\"`"));
}
