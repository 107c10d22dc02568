//! The threat model names the tests that hold it, and each of them is there.

use super::super::source::{files, no_complaints};
use super::page;

/// What may be attacked, each of which the model must speak of.
const THREATS: [&str; 12] = [
    "request body",
    "mapping files",
    "another instance",
    "another provider",
    "node",
    "log injection",
    "server-side requests",
    "page tokens",
    "exhaustion",
    "secrets",
    "rights",
    "supply chain",
];

#[test]
fn each_threat_names_tests_that_there_are() {
    let page = page("SECURITY.md");
    let rows = page.rows("Threats");
    let sources: Vec<String> =
        ["tests", "src"].iter().flat_map(|folder| files(folder, ".rs")).map(|file| file.text).collect();
    let mut complaints = Vec::new();
    for row in &rows {
        let named: Vec<&str> = row[2].split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            complaints.push(format!("{}: names no test", row[0]));
        }
        for test in named {
            let function = format!("fn {test}(");
            let is_test = sources.iter().any(|source| {
                let Some((before, _)) = source.split_once(&function) else { return false };
                let lines: Vec<&str> = before.lines().rev().take(3).collect();
                lines.iter().any(|line| {
                    line.trim_start().starts_with("#[test]") || line.trim_start().starts_with("#[tokio::test")
                })
            });
            if !is_test {
                complaints.push(format!("{}: there is no test `{test}`", row[0]));
            }
        }
    }
    let told: Vec<String> = rows.iter().map(|row| row[0].to_lowercase()).collect();
    let missing = THREATS.iter().filter(|threat| !told.iter().any(|told| told.contains(**threat)));
    complaints.extend(missing.map(|threat| format!("the model does not speak of {threat}")));
    no_complaints(complaints);
}
