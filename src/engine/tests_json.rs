//! What strict JSON takes, and the place it names when it refuses.

use serde_json::{Value, json};

use super::*;

fn faults(body: &str) -> Vec<(Option<String>, String)> {
    let problem = read_body(body.as_bytes()).expect_err(body);
    assert_eq!(problem.status(), 400, "{body}");
    problem
        .faults
        .into_iter()
        .map(|fault| (fault.pointer, fault.detail))
        .collect()
}

fn pointers(body: &str) -> Vec<String> {
    faults(body)
        .into_iter()
        .map(|(pointer, _)| pointer.expect("a pointer"))
        .collect()
}

#[test]
fn agrees_with_serde_json_on_documents_that_lose_nothing() {
    let texts = [
        r#" {"b": [1, -2, 0.5, 1e3, 1.5E-7, true, false, null], "a": {"": "x"}, "z": []} "#,
        r#""\u00e9 \ud83d\ude00 \" \\ \/ \n""#,
        "[18446744073709551615, -9223372036854775808, 0.1, 123456.789, 0.0, 0]",
        "0",
        "{}",
    ];
    for text in texts {
        let read = read_body(text.as_bytes()).expect(text);
        let known: Value = serde_json::from_str(text).expect(text);
        assert_eq!(read.to_string(), known.to_string());
    }
}

#[test]
fn what_is_not_json_is_refused_at_its_line_and_column() {
    let texts = [
        "{bad",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "[1 2]",
        "tru",
        "nul",
        "\"open",
        "\"\\",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"a\tb\"",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "0x1f",
        "NaN",
        "{\"a\":1}}",
        "{} {}",
        "'a'",
        "[",
        "{\"a\":",
        "\u{a0}1",
        "\"é",
        "// c\n1",
    ];
    for text in texts {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{text}");
        assert!(
            found[0].1.contains("line ") && found[0].1.contains("column "),
            "{text}: {}",
            found[0].1
        );
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    }
    assert_eq!(
        faults("{\n  \"é\": x}")[0].1,
        "the body is not JSON: line 2, column 8 should have a value"
    );
}

#[test]
fn empty_bodies_marks_and_other_encodings_say_so() {
    for (bytes, word) in [
        (&b""[..], "empty"),
        (b" \r\n", "empty"),
        (b"\xEF\xBB\xBF{}", "byte order mark"),
        (b"{\"a\":\"\xff\"}", "from byte 6"),
        (b"\xff\xfe{\0}\0", "not UTF-8"),
        (b"\0{\0}", "line 1"),
    ] {
        let problem = read_body(bytes).expect_err(word);
        assert!(problem.detail.contains(word), "{}", problem.detail);
    }
}

#[test]
fn duplicate_keys_and_inexact_numbers_are_named_together() {
    let body =
        r#"{"a": 1, "b/c": {"d~": 18446744073709551616, "\u0061": 1, "a": 2}, "e": [0, 1e400], "a": 3}"#;
    assert_eq!(pointers(body), ["/b~1c/d~0", "/b~1c/a", "/e/1", "/a"]);
}

#[test]
fn floats_are_kept_only_when_every_digit_is() {
    for kept in [
        "0.1",
        "1.10",
        "1e3",
        "1E+3",
        "100e-2",
        "5e-324",
        "1.7976931348623157e308",
        "0.0",
        "0e9",
        "-2.5",
    ] {
        assert!(read_body(kept.as_bytes()).is_ok(), "{kept}");
    }
    for lost in [
        "0.1000000000000000055",
        "9007199254740993.0",
        "1e309",
        "1e-400",
        "12345678901234567890123e0",
    ] {
        assert_eq!(pointers(lost), [""], "{lost}");
    }
}

#[test]
fn nesting_ends_at_its_limit_and_not_before() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_body(nested(100).as_bytes()).is_ok());
    assert!(read_body(nested(128).as_bytes()).is_ok());
    assert!(faults(&nested(129))[0].1.contains("deeper than 128"));
    assert!(faults(&nested(20_000))[0].1.contains("deeper than 128"));
}

#[test]
fn many_faults_do_not_make_a_large_answer() {
    let body = format!("[{}1]", "1e999,".repeat(10_000));
    assert_eq!(pointers(&body).len(), MAX_FAULTS);
}

#[test]
fn faults_follow_the_body_as_sent_and_a_missing_member_sorts_at_its_parent() {
    let body = json!({ "z": 1, "spec": { "x/y": [1, 2, { "q": 1 }], "image": {} }, "a": 2 });
    let mut faults = [
        "/a",
        "/spec/image/reference",
        "/spec/x~1y/2/q",
        "/spec/x~1y/10",
        "/spec/none",
        "/z",
        "",
    ]
    .map(|pointer| Fault::at(pointer, ""))
    .to_vec();
    sort_by_document(&body, &mut faults);
    let order: Vec<&str> = faults
        .iter()
        .filter_map(|fault| fault.pointer.as_deref())
        .collect();
    assert_eq!(
        order,
        [
            "",
            "/z",
            "/spec/none",
            "/spec/x~1y/10",
            "/spec/x~1y/2/q",
            "/spec/image/reference",
            "/a"
        ]
    );
}
