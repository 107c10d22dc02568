//! Reports for machines: one structure, one small file a format.
//!
//! A command fills a [`Report`]: named checks, each with what is wrong in it. A check that is sound has no
//! findings, and is in the report all the same, so that a reader sees what was looked at. `check` has one
//! check for each file of a mapping; a command that runs cases has one for each case, and a finding for each
//! expectation that is not met.

pub(super) mod cases;
mod github;
mod json;
mod junit;
mod sarif;
mod tap;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::engine::diagnostic::{Diagnostic, Fix, nearest};

/// What a command looked at, and what it found.
pub(super) struct Report {
    /// The command: `check`, `test`.
    pub(super) command: &'static str,
    pub(super) checks: Vec<Check>,
}

/// One thing that was looked at, sound or not.
pub(super) struct Check {
    /// What it belongs to: a service type.
    pub(super) group: String,
    /// Its name, unique in the group.
    pub(super) name: String,
    /// Whether it could not be read, so that it says nothing of what it was to look at.
    pub(super) malformed: bool,
    pub(super) findings: Vec<Finding>,
}

/// One thing that is wrong.
pub(super) struct Finding {
    /// Its name, in kebab-case.
    pub(super) code: String,
    pub(super) message: String,
    /// The file at fault, as a path from where the command was run.
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) column: usize,
    /// How many characters of the line are meant.
    pub(super) width: usize,
    pub(super) help: Option<String>,
    pub(super) fix: Option<Fix>,
    /// Everything, as a person reads it.
    pub(super) text: String,
}

impl From<&Diagnostic> for Finding {
    fn from(item: &Diagnostic) -> Self {
        Self {
            code: item.code.to_owned(),
            message: item.message.clone(),
            file: item.file.clone(),
            line: item.position.line,
            column: item.position.column,
            width: item.width,
            help: item.help.clone(),
            fix: item.fix.clone(),
            text: item.to_string(),
        }
    }
}

impl Finding {
    /// What is wrong with a file as a whole.
    pub(super) fn at_the_beginning(code: &str, message: String, file: String) -> Self {
        Self {
            code: code.to_owned(),
            text: format!("{message}\n"),
            message,
            file,
            line: 1,
            column: 1,
            width: 1,
            help: None,
            fix: None,
        }
    }
}

impl Report {
    /// Writes every report that was asked for.
    pub(super) fn write(&self, targets: &[Target]) -> Result<(), String> {
        targets.iter().try_for_each(|target| target.write(self))
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.checks.iter().flat_map(|check| &check.findings)
    }

    fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.findings.is_empty()).count()
    }
}

/// What stands before the names of files, so that they are paths from where the command was run.
pub(super) fn prefix(root: &Path) -> String {
    match root.to_string_lossy() {
        root if root == "." => String::new(),
        root => format!("{}/", root.trim_end_matches('/')),
    }
}

/// A report that was asked for: `--report junit=report.xml`, `--report github=-`.
#[derive(Clone, Debug)]
pub(super) struct Target {
    format: Format,
    /// The file; standard output where there is none.
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Github,
    Json,
    Junit,
    Sarif,
    Tap,
}

const FORMATS: [(&str, Format); 5] = [
    ("github", Format::Github),
    ("json", Format::Json),
    ("junit", Format::Junit),
    ("sarif", Format::Sarif),
    ("tap", Format::Tap),
];

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            return Err("expected FORMAT=FILE, as junit=report.xml; `-` is standard output".to_owned());
        };
        let names = FORMATS.iter().map(|(name, _)| *name);
        let Some((_, format)) = FORMATS.iter().find(|(known, _)| *known == name) else {
            return Err(match nearest(name, names.clone()) {
                Some(near) => format!("`{name}` is not a format; did you mean `{near}`?"),
                None => {
                    format!("`{name}` is not a format; it is one of {}", Vec::from_iter(names).join(", "))
                }
            });
        };
        let path = (path != "-").then(|| PathBuf::from(path));
        Ok(Self { format: *format, path })
    }
}

impl Target {
    fn write(&self, report: &Report) -> Result<(), String> {
        let text = match self.format {
            Format::Github => github::write(report),
            Format::Json => json::write(report),
            Format::Junit => junit::write(report),
            Format::Sarif => sarif::write(report),
            Format::Tap => tap::write(report),
        };
        match &self.path {
            None => print!("{text}"),
            Some(path) => write(path, &text)?,
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
