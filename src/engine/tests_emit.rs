//! What is emitted reads back identically: by this project's reader, and by a libyaml of version 1.1.

use serde_json::json;

use super::*;
use crate::diagnostic::Findings;
use crate::read::read;
use crate::source::Source;

/// Strings that template engines and YAML writers are known to lose.
const HOSTILE: [&str; 74] = [
    "",
    " ",
    "  leading",
    "trailing  ",
    "\t",
    "\ttab",
    "tab\t",
    "a\tb",
    "~",
    "-",
    "--",
    "- a",
    "---",
    "...",
    ".",
    ".5",
    "5.0",
    "0",
    "-0",
    "+1",
    "1234",
    "0999991",
    "0o17",
    "0b1",
    "1e3",
    "1E3",
    "1.",
    "0x1f",
    "1_000",
    "_",
    "=",
    "<<",
    "!",
    "!!str a",
    "&a",
    "*a",
    "?",
    "? a",
    ":",
    ": ",
    "a: b",
    "a:",
    "a :b",
    " #",
    "a #b",
    "#",
    "#a",
    "@a",
    "`a`",
    "%a",
    "{}",
    "[]",
    "{a",
    "a, b",
    "'",
    "\"",
    "it's",
    "\\",
    "\\n",
    "|",
    ">",
    "12:30:45",
    "190:20",
    "2026-01-21",
    "2026-01-21T10:00:00Z",
    "\u{1F680}",
    "{{ 7*7 }}",
    "{% raw %}",
    "a\u{85}b",
    "a\u{2028}b",
    "\u{feff}a",
    "\u{7}",
    "line\r\nline",
    "nb\u{a0}sp",
];

const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "null", "NaN"];

const TEXTS: [&str; 12] = [
    "a\nb",
    "a\nb\n",
    "a\n",
    "a\n\n",
    "\na",
    "\n",
    "#!/bin/sh\nset -e\n\tindented\n\n  deeper\nexit 0\n",
    "x\nspec: {replicas: 9}",
    "a \nb",
    "  a\nb",
    "a\n---\nb\n...\n",
    "a\n\nb\n\n\n",
];

fn ours(text: &str) -> Value {
    let mut findings = Findings::default();
    let tree = read(&Source::new("emitted.yaml", text), &mut findings);
    assert!(findings.is_empty(), "{findings}\n{text}");
    tree.unwrap().to_json()
}

fn reads_back(value: &Value) {
    let text = emit(value);
    assert_eq!(&ours(&text), value, "ours:\n{text}");
    let theirs: Value = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(&theirs, value, "theirs:\n{text}");
}

#[test]
fn hostile_strings_read_back_at_every_place() {
    let spellings = WORDS.iter().flat_map(|word| [word.to_string(), word.to_uppercase(), capital(word)]);
    let long = ["x".repeat(100 * 1024), "é\n".repeat(5000)];
    let all = HOSTILE.iter().chain(&TEXTS).map(|text| text.to_string()).chain(spellings).chain(long);
    for text in all {
        reads_back(&json!(text));
        reads_back(&json!([text, [text], {"a": text, "b": [text, text]}]));
        let mut members = Map::new();
        members.insert(text.clone(), json!({"inner": text, "next": 1}));
        members.insert("last".to_owned(), text.into());
        reads_back(&Value::Object(members));
    }
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

#[test]
fn words_that_a_reader_could_take_for_something_else_are_quoted() {
    let words = WORDS.iter().flat_map(|word| [word.to_string(), word.to_uppercase(), capital(word)]);
    for text in HOSTILE.iter().map(|text| text.to_string()).chain(words) {
        assert!(emit(&text.clone().into()).starts_with('"'), "{text}");
    }
}

#[test]
fn numbers_keep_their_digits_and_their_kind() {
    for number in [json!(0), json!(-7), json!(356136738), json!(i64::MAX), json!(i64::MIN), json!(u64::MAX)] {
        reads_back(&number);
        assert_eq!(emit(&number), format!("{number}\n"));
    }
    for number in [json!(0.5), json!(-1.0), json!(1e21), json!(1e-7), json!(0.1)] {
        reads_back(&number);
        assert!(!emit(&number).contains('e'), "{number}");
    }
    reads_back(&json!(true));
    reads_back(&json!(null));
}

#[test]
fn a_manifest_looks_as_people_write_it() {
    let manifest = json!({
        "apiVersion": "apps/v1",
        "metadata": {"name": "web", "labels": {"dcm.project/managed-by": "dcm", "on": "yes"}},
        "spec": {
            "replicas": 1, "empty": {}, "none": [],
            "containers": [{"image": "registry.example/web:1", "args": ["-c", "a\nb\n"], "cpu": "500m"}],
        },
    });
    let expected = r#"apiVersion: apps/v1
metadata:
  name: web
  labels:
    dcm.project/managed-by: dcm
    "on": "yes"
spec:
  replicas: 1
  empty: {}
  none: []
  containers:
    - image: registry.example/web:1
      args:
        - "-c"
        - |
          a
          b
      cpu: "500m"
"#;
    assert_eq!(emit(&manifest), expected);
}

#[test]
fn documents_are_a_stream() {
    let documents = [json!({"a": 1}), json!({"b": "---"})];
    let text = emit_documents(&documents);
    assert_eq!(text, "a: 1\n---\nb: \"---\"\n");
    let read: Vec<Value> = serde_yaml::Deserializer::from_str(&text)
        .map(|one| serde::Deserialize::deserialize(one).unwrap())
        .collect();
    assert_eq!(read, documents);
    assert_eq!(emit_documents(&[]), "");
}
