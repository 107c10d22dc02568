//! `mapwright check`: loads every mapping and reports each mistake at its place.

use std::path::{Path, PathBuf};

use super::report::{Check, Finding, Report, Target, prefix};
use super::{End, colour};
use crate::engine::diagnostic::Findings;
use crate::engine::kinds::Kinds;
use crate::engine::prove::Proof;
use crate::engine::service::{Files, Service};
use crate::files::MappingRoot;
use crate::kinds;
use crate::revision::proof;

/// Load mappings and report every mistake at its place.
///
/// What is sound is said on standard output, each mistake with its place and a way out on standard error.
/// The exit code is 0 where there is no mistake, 1 where there are some, 2 where nothing could be checked.
///
/// Example: mapwright check --report junit=report.xml
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder that holds `mappings` and `schemas`.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Write a report as well: github, json, junit, sarif or tap; `-` is standard output.
    #[arg(long, value_name = "FORMAT=FILE")]
    report: Vec<Target>,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let root = MappingRoot::at(&arguments.root);
    let mut unread = Findings::default();
    let read = root.types().and_then(|types| root.read_all(&mut unread).map(|files| (types, files)));
    let (types, files) = match read {
        Ok(read) => read,
        Err(unreadable) => {
            let why = format!("{unreadable}; DIR is the folder that holds `mappings` and `schemas`");
            return nothing(arguments, "unreadable-file", why, &unreadable.path);
        }
    };
    if !types.iter().any(|name| holds_a_mapping(&files, name)) {
        let folder = root.mappings.display();
        let why = format!("there is no mapping in {folder}: mapping.toml of a folder is one");
        return nothing(arguments, "missing-mapping", why, &root.mappings);
    }
    let (report, findings) = look(&arguments.root, &files, &types, unread);
    if !findings.is_empty() {
        eprintln!("{}\n{}", findings.painted(colour()), summary(findings.len()));
    }
    if let Err(message) = report.write(&arguments.report) {
        eprintln!("{message}");
        return End::Usage;
    }
    if findings.is_empty() { End::Success } else { End::Findings }
}

/// Where nothing can be checked, the reports say so as well.
fn nothing(arguments: &Arguments, code: &str, why: String, path: &Path) -> End {
    eprintln!("{why}");
    let file = path.display().to_string().trim_start_matches("./").to_owned();
    let findings = vec![Finding::at_the_beginning(code, why, file.clone())];
    let check = Check { group: "files".to_owned(), name: file, malformed: true, findings };
    if let Err(message) = (Report { command: "check", checks: vec![check] }).write(&arguments.report) {
        eprintln!("{message}");
    }
    End::Usage
}

/// Everything that is wrong: first with files that are no text, then in the kinds that the files define, then
/// in each mapping.
fn look(root: &Path, files: &Files, types: &[String], mut unread: Findings) -> (Report, Findings) {
    let mut report = Report { command: "check", checks: Vec::new() };
    let mut findings = Findings::default();
    let kinds = kinds::of(files, &mut findings);
    for (group, name, found) in
        [("files", "mappings and schemas", &mut unread), ("kinds", "schemas/crds", &mut findings)]
    {
        found.place_below(&prefix(root));
        if !found.is_empty() {
            let (group, name) = (group.to_owned(), name.to_owned());
            let findings = found.iter().map(Finding::from).collect();
            report.checks.push(Check { group, name, malformed: false, findings });
        }
    }
    let (kinds_found, mut findings) = (findings, unread);
    findings.append(kinds_found);
    for name in types {
        let mut found = mistakes(files, name, &kinds);
        found.place_below(&prefix(root));
        report.checks.extend(checks(files, name, root, &found));
        findings.append(found);
    }
    (report, findings)
}

/// What is wrong with one mapping. That it is sound is printed.
fn mistakes(files: &Files, name: &str, kinds: &Kinds) -> Findings {
    let service = match Service::load(files, name, kinds) {
        Ok(service) => service,
        Err(mistakes) => return mistakes,
    };
    let Proof { findings, rendered, refused } = proof(&service, files, kinds);
    if findings.is_empty() {
        let revision = &service.revision;
        println!("{name}: revision {revision}, no mistakes ({rendered} specs rendered, {refused} refused)");
    }
    findings
}

fn holds_a_mapping(files: &Files, name: &str) -> bool {
    let prefix = format!("mappings/{name}/");
    files.keys().any(|path| path.starts_with(&prefix))
}

pub(super) fn summary(count: usize) -> String {
    let mistakes = if count == 1 { "1 mistake".to_owned() } else { format!("{count} mistakes") };
    format!("{mistakes}; docs/errors/ has a page for each name in brackets")
}

/// One check for each file: those of the mapping's folder, and others that have a finding.
fn checks(files: &Files, name: &str, root: &Path, found: &Findings) -> Vec<Check> {
    let folder = format!("mappings/{name}/");
    let prefix = prefix(root);
    let own = files.keys().filter(|path| path.starts_with(&folder)).map(|path| format!("{prefix}{path}"));
    let mut paths: Vec<String> = own.chain(found.iter().map(|item| item.file.clone())).collect();
    paths.sort();
    paths.dedup();
    let check = |path: String| {
        let findings = found.iter().filter(|item| item.file == path).map(Finding::from).collect();
        Check { group: name.to_owned(), name: path, malformed: false, findings }
    };
    paths.into_iter().map(check).collect()
}
