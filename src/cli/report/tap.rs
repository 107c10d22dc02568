//! The Test Anything Protocol, version 14.

use std::fmt::Write;

use serde_json::json;

use super::{Finding, Report};

pub(super) fn write(report: &Report) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", report.checks.len());
    for (index, check) in report.checks.iter().enumerate() {
        let word = if check.findings.is_empty() { "ok" } else { "not ok" };
        let name = format!("{} {}", check.group, check.name).replace('\\', "\\\\").replace('#', "\\#");
        let _ = writeln!(text, "{word} {} - {name}", index + 1);
        if !check.findings.is_empty() {
            let findings: String = check.findings.iter().map(item).collect();
            let _ = write!(text, "  ---\n  findings:\n{findings}  ...\n");
        }
    }
    text
}

/// One finding of the YAML block; a JSON string is a YAML string.
fn item(finding: &Finding) -> String {
    let mut text = String::new();
    let members = [
        ("- code", json!(finding.code)),
        ("  message", json!(finding.message)),
        ("  file", json!(finding.file)),
        ("  line", json!(finding.line)),
        ("  column", json!(finding.column)),
        ("  help", json!(finding.help)),
    ];
    for (key, value) in members {
        let _ = writeln!(text, "    {key}: {value}");
    }
    text
}
