//! SARIF 2.1.0, which code hosts show beside the lines of a change.

use serde_json::{Value, json};

use super::{Finding, Report};

pub(super) fn write(report: &Report) -> String {
    let mut rules: Vec<&str> = report.findings().map(|finding| finding.code.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Value> = report.findings().map(|finding| result(finding, &rules)).collect();
    let rules: Vec<Value> = rules.iter().map(|code| rule(code)).collect();
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "mapwright",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                },
            },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{document:#}\n")
}

fn rule(code: &str) -> Value {
    json!({
        "id": code,
        "shortDescription": { "text": code.replace('-', " ") },
        "help": { "text": format!("docs/errors/{code}.md says why it matters, and how it is mended.") },
    })
}

fn result(finding: &Finding, rules: &[&str]) -> Value {
    let message = match &finding.help {
        Some(help) => format!("{}\n{help}", finding.message),
        None => finding.message.clone(),
    };
    let mut result = json!({
        "ruleId": finding.code,
        "ruleIndex": rules.iter().position(|code| *code == finding.code),
        "level": "error",
        "message": { "text": message },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": uri(&finding.file) },
                "region": {
                    "startLine": finding.line,
                    "startColumn": finding.column,
                    "endColumn": finding.column + finding.width,
                },
            },
        }],
    });
    if let Some(fix) = &finding.fix {
        let inserted: String = fix.added.iter().map(|line| format!("{line}\n")).collect();
        let end = fix.line + fix.removed.len();
        result["fixes"] = json!([{
            "description": { "text": finding.help },
            "artifactChanges": [{
                "artifactLocation": { "uri": uri(&fix.file) },
                "replacements": [{
                    "deletedRegion": { "startLine": fix.line, "startColumn": 1, "endLine": end, "endColumn": 1 },
                    "insertedContent": { "text": inserted },
                }],
            }],
        }]);
    }
    result
}

/// A path as a relative reference; what a URI cannot hold is written in percents.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte))
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
