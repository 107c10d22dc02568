//! JUnit's XML, as CI servers read it: a suite for each group, a case for each check.

use std::fmt::Write;

use super::{Check, Report};

pub(super) fn write(report: &Report) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = format!("mapwright {}", report.command);
    let _ = writeln!(text, "<testsuites name=\"{name}\" {}>", counts(report.checks.iter()));
    let mut groups: Vec<&str> = Vec::new();
    for check in &report.checks {
        if !groups.contains(&check.group.as_str()) {
            groups.push(&check.group);
        }
    }
    for group in groups {
        let checks: Vec<&Check> = report.checks.iter().filter(|check| check.group == group).collect();
        let group = escaped(group);
        let _ = writeln!(text, "  <testsuite name=\"{group}\" {}>", counts(checks.iter().copied()));
        checks.into_iter().for_each(|check| case(&mut text, &group, check));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

/// What could not be read is an error; what was read and is wrong, a failure.
fn counts<'c>(checks: impl Iterator<Item = &'c Check> + Clone) -> String {
    let wrong = |malformed| {
        let wrong = checks.clone().filter(|check| !check.findings.is_empty());
        wrong.filter(|check| check.malformed == malformed).count()
    };
    let (all, failures, errors) = (checks.clone().count(), wrong(false), wrong(true));
    format!("tests=\"{all}\" failures=\"{failures}\" errors=\"{errors}\"")
}

/// Many readers take one failure of a case, so all findings of a check are told in one.
fn case(text: &mut String, group: &str, check: &Check) {
    let name = escaped(&check.name);
    let Some(first) = check.findings.first() else {
        let _ = writeln!(text, "    <testcase classname=\"{group}\" name=\"{name}\"/>");
        return;
    };
    let message = match check.findings.len() {
        1 => first.message.clone(),
        count => format!("{} (and {} more)", first.message, count - 1),
    };
    let all: Vec<&str> = check.findings.iter().map(|finding| finding.text.as_str()).collect();
    let _ = writeln!(text, "    <testcase classname=\"{group}\" name=\"{name}\">");
    let (code, message, all) = (escaped(&first.code), escaped(&message), escaped(&all.join("\n")));
    let word = if check.malformed { "error" } else { "failure" };
    let _ = writeln!(text, "      <{word} type=\"{code}\" message=\"{message}\">{all}</{word}>");
    text.push_str("    </testcase>\n");
}

/// XML has no way to write most control characters, not even escaped.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
