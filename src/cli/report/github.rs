//! Workflow commands of GitHub Actions: each finding becomes a note at its line.

use std::fmt::Write;

use super::Report;

pub(super) fn write(report: &Report) -> String {
    let mut text = String::new();
    for finding in report.findings() {
        let help = finding.help.iter().map(|help| format!("\n{help}")).collect::<String>();
        let _ = writeln!(
            text,
            "::error file={},line={},col={},endColumn={},title={}::{}",
            property(&finding.file),
            finding.line,
            finding.column,
            finding.column + finding.width,
            property(&finding.code),
            data(&format!("{}{help}", finding.message)),
        );
    }
    text
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
