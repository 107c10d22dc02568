//! JSON: the structure itself.

use serde_json::{Value, json};

use super::{Check, Finding, Report};

pub(super) fn write(report: &Report) -> String {
    let document = json!({
        "command": report.command,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "total": report.checks.len(),
        "failed": report.failed(),
    });
    format!("{document:#}\n")
}

fn check(check: &Check) -> Value {
    json!({
        "group": check.group,
        "name": check.name,
        "ok": check.findings.is_empty(),
        "malformed": check.malformed,
        "findings": check.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    let fix = finding
        .fix
        .as_ref()
        .map(|fix| json!({ "file": fix.file, "line": fix.line, "removed": fix.removed, "added": fix.added }));
    json!({
        "code": finding.code,
        "message": finding.message,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "width": finding.width,
        "help": finding.help,
        "fix": fix,
        "text": finding.text,
    })
}
