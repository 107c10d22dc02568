//! How long, how named, how printed, and what it is built from.

use super::rust::{Kind, product};
use super::{SourceFile, files, no_complaints, product_files, text};

/// A file is a sitting.
const LONGEST_FILE: usize = 600;
/// Direct dependencies of one crate, and packages of the whole lock file.
const MOST_DEPENDENCIES: usize = 29;
const MOST_PACKAGES: usize = 350;

/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["utils", "util", "helpers", "helper", "common", "misc", "manager", "data", "info"];

fn form(file: &SourceFile) -> Vec<String> {
    let mut complaints = Vec::new();
    if !file.text.starts_with("//! ") {
        complaints.push(format!("{}: does not open with a `//!` sentence", file.name));
    }
    let lines = file.text.lines().count();
    if lines > LONGEST_FILE {
        complaints.push(format!("{}: has {lines} lines, more than {LONGEST_FILE}; split it", file.name));
    }
    let mut segments = file.name.trim_end_matches(".rs").split('/');
    if segments.any(|segment| EMPTY_NAMES.contains(&segment)) {
        complaints.push(format!("{}: the name does not say what is inside", file.name));
    }
    complaints
}

fn macros(file: &SourceFile) -> Vec<String> {
    let tokens = product(&file.text);
    let mut complaints = Vec::new();
    for pair in tokens.windows(2) {
        let [name, mark] = pair else { continue };
        let (Kind::Word(word), Kind::Mark('!')) = (&name.kind, &mark.kind) else { continue };
        let why = match word.as_str() {
            "todo" | "unimplemented" => "is a promise, not a program",
            "dbg" => "is for the author's eyes only",
            "print" | "println" | "eprint" | "eprintln" if !file.name.starts_with("src/cli/") => {
                "prints, which only src/cli does"
            }
            _ => continue,
        };
        complaints.push(format!("{}:{}: `{word}!` {why}", file.name, name.line));
    }
    complaints
}

/// The names of direct dependencies, and complaints about lines without a reason. A line that inherits from
/// the workspace has its reason there.
fn dependencies(name: &str, manifest: &str) -> (Vec<String>, Vec<String>) {
    let (mut names, mut complaints) = (Vec::new(), Vec::new());
    let mut section = "";
    let mut before = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !line.starts_with('#') && line.contains('=') {
            let dependency = line.split(['=', '.']).next().unwrap_or_default().trim();
            if section == "[dependencies]" {
                names.push(dependency.to_owned());
            }
            if !before.starts_with("# ") && !line.contains(".workspace = true") {
                complaints.push(format!("{name}: `{dependency}` has no comment above it that says what for"));
            }
        }
        before = line;
    }
    (names, complaints)
}

#[test]
fn every_file_opens_with_a_sentence_is_short_and_is_named_for_what_it_holds() {
    let mut all = files("src", ".rs");
    all.extend(files("tests", ".rs"));
    no_complaints(all.iter().flat_map(form).collect());
}

#[test]
fn nothing_is_left_to_do_and_only_the_command_line_prints() {
    no_complaints(product_files().iter().flat_map(macros).collect());
}

#[test]
fn every_dependency_says_what_for_and_there_are_few() {
    for name in ["Cargo.toml", "src/engine/Cargo.toml"] {
        let (names, complaints) = dependencies(name, &text(name));
        no_complaints(complaints);
        assert!((5..=MOST_DEPENDENCIES).contains(&names.len()), "{name}: {} of {names:?}", names.len());
    }
    let packages = text("Cargo.lock").matches("\n[[package]]\n").count();
    assert!((100..=MOST_PACKAGES).contains(&packages), "the lock file holds {packages} packages");
}

#[test]
fn a_file_without_form_is_caught() {
    let file = |name: &str, text: &str| SourceFile { name: name.to_owned(), text: text.to_owned() };
    assert_eq!(form(&file("src/a.rs", "use std::fmt;\n")).len(), 1);
    assert_eq!(form(&file("src/a.rs", &format!("//! A.\n{}", "\n".repeat(600)))).len(), 1);
    assert_eq!(form(&file("src/utils/a.rs", "//! A.\n")).len(), 1);
    assert_eq!(form(&file("src/a.rs", "//! A.\n")).len(), 0);
    assert_eq!(macros(&file("src/a.rs", "fn a() { todo!(); dbg!(1); println!(\"\"); }")).len(), 3);
    assert_eq!(macros(&file("src/cli/a.rs", "fn a() { println!(\"todo!\"); }")).len(), 0);
}

#[test]
fn a_dependency_without_a_reason_is_caught() {
    let manifest = "[dependencies]\n# Why.\nserde = \"1\"\nbytes = \"1\"\ntracing.workspace = true\n";
    let (names, complaints) = dependencies("Cargo.toml", manifest);
    assert_eq!(names, ["serde", "bytes", "tracing"]);
    assert_eq!(complaints, ["Cargo.toml: `bytes` has no comment above it that says what for"]);
}
