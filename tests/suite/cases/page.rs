//! docs/testing-mappings.md is true: its cases are written, its commands run, its lists are the code's.

use super::root::{Root, run};
use crate::source::text;

const PAGE: &str = "docs/testing-mappings.md";

/// The words behind the opening marks of each fence, and the text in it.
fn fences(page: &str) -> Vec<(&str, String)> {
    let mut fences = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => fences.extend(open.take()),
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, Some(words)) => open = Some((words, String::new())),
            (None, None) => {}
        }
    }
    fences
}

#[test]
fn the_examples_of_the_page_do_what_it_says() {
    let page = text(PAGE);
    let root = Root::new();
    let mut ran = 0;
    let fences = fences(&page);
    for (index, (words, text)) in fences.iter().enumerate() {
        if let Some(file) = words.strip_prefix("yaml file=") {
            root.write(file, text);
        }
        if *words == "sh here" {
            let options: Vec<&str> = text.trim().strip_prefix("mapwright test").unwrap().split(' ').collect();
            let options: Vec<&str> = options.into_iter().filter(|word| !word.is_empty()).collect();
            let told = root.test(&options);
            assert_eq!(fences[index + 1].0, "text");
            assert_eq!(told.out, fences[index + 1].1, "{text}{told}");
            ran += 1;
        }
    }
    assert_eq!(ran, 5);
}

/// The names in the first column of the table below a heading.
fn rows(heading: &str) -> Vec<String> {
    let page = text(PAGE);
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.map(str::to_owned).collect()
}

#[test]
fn the_page_lists_every_key_and_every_file() {
    let root = Root::new();
    root.write("testdata/cases/storage/a/case.yaml", "entirely-wrong-name: 1\n");
    root.write("testdata/cases/storage/a/entirely-wrong-name", "");
    let told = root.test(&[]);
    let mut lists =
        told.err.lines().filter_map(|line| line.split_once("expected one of: ")).map(|(_, list)| list);
    let mut next = || -> Vec<&str> { lists.next().unwrap().split(", ").collect() };
    let first = next();
    let second = next();
    let (keys, files) = if first.contains(&"operation") { (first, second) } else { (second, first) };
    assert_eq!(rows("The keys of case.yaml"), keys);
    let listed = text(PAGE);
    for file in files {
        assert!(listed.contains(&format!("`{file}`")), "{file}");
    }
}

#[test]
fn every_option_of_the_help_is_on_the_page() {
    let help = run(&["test", "--help"]).out;
    let options = help.lines().filter_map(|line| line.trim().strip_prefix("--"));
    let page = text(PAGE);
    for option in options.filter_map(|rest| rest.split([' ', '<']).next()) {
        assert!(page.contains(&format!("--{option}")), "--{option}");
    }
}
