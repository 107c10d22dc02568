//! What came of cases, as a report: a check for each case, and a finding for each expectation that is not met.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::{Check, Finding, Report, prefix};
use crate::cases::{Run, Suite};
use crate::engine::case::{CaseResult, Failure, Outcome};
use crate::engine::diagnostic::Findings;
use crate::files::Unreadable;

/// Everything that `mapwright test` looked at. What kept cases from running is malformed.
pub(in super::super) fn report(root: &Path, suite: &Suite, ran: &Run) -> Report {
    let prefix = prefix(root);
    let mut checks = mistakes(&suite.findings, &prefix);
    checks.extend(suite.unreadable.iter().chain(&ran.unreadable).map(unreadable));
    checks.extend(ran.results.iter().map(|result| case(result, &prefix)));
    Report { command: "test", checks }
}

/// One check for each file of a mapping, or shared by cases, that has a mistake.
fn mistakes(found: &Findings, prefix: &str) -> Vec<Check> {
    let found = placed(found, prefix);
    let files: BTreeSet<&str> = found.iter().map(|item| item.file.as_str()).collect();
    let check = |file: &str| Check {
        group: "files".to_owned(),
        name: file.to_owned(),
        malformed: true,
        findings: found.iter().filter(|item| item.file == file).map(Finding::from).collect(),
    };
    files.into_iter().map(check).collect()
}

fn placed(found: &Findings, prefix: &str) -> Findings {
    let mut found = found.clone();
    found.place_below(prefix);
    found
}

fn unreadable(unreadable: &Unreadable) -> Check {
    let file = unreadable.path.display().to_string();
    let finding = Finding::at_the_beginning("unreadable-file", unreadable.to_string(), file.clone());
    Check { group: "files".to_owned(), name: file, malformed: true, findings: vec![finding] }
}

fn case(result: &CaseResult, prefix: &str) -> Check {
    let (group, name) = result.name.split_once('/').unwrap_or(("", &result.name));
    let mut findings: Vec<Finding> = placed(&result.mistakes, prefix).iter().map(Finding::from).collect();
    findings.extend(result.failures.iter().map(|failure| finding(failure, prefix)));
    let malformed = result.outcome == Outcome::Malformed;
    Check { group: group.to_owned(), name: name.to_owned(), malformed, findings }
}

fn finding(failure: &Failure, prefix: &str) -> Finding {
    let message = match &failure.path {
        Some(path) => {
            let (expected, found) = beside(failure);
            format!("{path}: {}: expected {expected}, found {found}", failure.message)
        }
        None => failure.message.clone(),
    };
    let file = format!("{prefix}{}", failure.file);
    let mut finding = Finding::at_the_beginning(failure.code, message, file.clone());
    if let Some(position) = failure.position {
        (finding.line, finding.column) = (position.line, position.column);
    }
    finding.text = told(&Failure { file, ..failure.clone() });
    finding
}

/// A failure as a person reads it: the place of the expectation, and both values.
pub(in super::super) fn told(failure: &Failure) -> String {
    let place = match failure.position {
        Some(position) => format!("{}:{}:{}", failure.file, position.line, position.column),
        None => failure.file.clone(),
    };
    let Some(path) = &failure.path else {
        return format!("  {place}: {}\n", failure.message);
    };
    let mut text = format!("  {place}: {path}: {}\n", failure.message);
    let (expected, found) = beside(failure);
    let _ = writeln!(text, "    expected {expected}\n    found    {found}");
    text
}

/// Both values; of long ones the stretch where they part.
pub(in super::super) fn beside(failure: &Failure) -> (String, String) {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    let (expected, found) = (text(&failure.expected), text(&failure.found));
    let alike = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
    (clip(&expected, alike), clip(&found, alike))
}

fn clip(text: &str, around: usize) -> String {
    const ROOM: usize = 200;
    let length = text.chars().count();
    if length <= ROOM {
        return text.to_owned();
    }
    let start = around.saturating_sub(ROOM / 4).min(length - ROOM);
    let part: String = text.chars().skip(start).take(ROOM).collect();
    let before = if start > 0 { "..." } else { "" };
    format!("{before}{part}... ({length} characters)")
}
