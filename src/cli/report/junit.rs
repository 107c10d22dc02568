//! JUnit's XML, as CI servers read it: a suite for each group, a case for each check.

use std::fmt::Write;

use super::{Check, Report};

pub(super) fn write(report: &Report) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (all, failed) = (report.checks.len(), report.failed());
    let name = format!("mapwright {}", report.command);
    let _ = writeln!(text, "<testsuites name=\"{name}\" tests=\"{all}\" failures=\"{failed}\">");
    let mut groups: Vec<&str> = Vec::new();
    for check in &report.checks {
        if !groups.contains(&check.group.as_str()) {
            groups.push(&check.group);
        }
    }
    for group in groups {
        let checks: Vec<&Check> = report.checks.iter().filter(|check| check.group == group).collect();
        let failed = checks.iter().filter(|check| !check.findings.is_empty()).count();
        let (group, all) = (escaped(group), checks.len());
        let _ = writeln!(
            text,
            "  <testsuite name=\"{group}\" tests=\"{all}\" failures=\"{failed}\" errors=\"0\">"
        );
        checks.into_iter().for_each(|check| case(&mut text, &group, check));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
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
    let _ = writeln!(text, "      <failure type=\"{code}\" message=\"{message}\">{all}</failure>");
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
