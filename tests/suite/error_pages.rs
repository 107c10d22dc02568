//! The pages of mistakes, docs/errors/: each is run, and none is missing or left over.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mapwright::engine::service::Files;

use super::broken::{base, findings, root, updating};

/// Kebab-case words of the engine that are no names of mistakes: the codes of problem documents.
const PROBLEMS: &str = "problem.rs";

/// What `mapwright test` says of cases: docs/testing-mappings.md describes it.
const CASES: &str = "src/engine/case";

/// A page, in parts.
struct Page {
    name: String,
    broken: Part,
    says: String,
    mended: Part,
}

/// The files that a part shows, and those that it says are not there.
#[derive(Default)]
struct Part {
    files: Vec<(String, String)>,
    gone: Vec<String>,
}

impl Page {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(root().join(format!("docs/errors/{name}.md"))).unwrap();
        let (head, rest) = text.split_once("\n## The broken file\n").expect(name);
        let (broken, mended) = rest.split_once("\n## The mended file\n").expect(name);
        assert!(head.starts_with(&format!("# {name}\n\n")), "{name}: the heading is the name");
        let (what, why) = head.split_once("\n## Why it matters\n").expect(name);
        assert!(
            what.len() > name.len() + 25 && why.len() > 40,
            "{name}: the page says what happened, and why"
        );
        let (shown, says) = broken.split_once("\n`mapwright check` says:\n").expect(name);
        let (_, says) = fence(says).expect(name);
        Self { name: name.to_owned(), broken: Part::read(shown), says, mended: Part::read(mended) }
    }
}

impl Part {
    fn read(text: &str) -> Self {
        let mut part = Self::default();
        for (at, _) in text.match_indices("\n`") {
            if let Some((path, rest)) = text[at + 2..].split_once("`:\n\n```") {
                if path.contains('\n') {
                    continue;
                }
                let (_, body) = fence(&format!("```{rest}")).unwrap();
                part.files.push((path.to_owned(), body));
            }
        }
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("There is no `") {
                part.gone.push(rest.trim_end_matches("`.").to_owned());
            }
        }
        part
    }

    fn over(&self, mut files: Files) -> Files {
        for path in &self.gone {
            files.remove(path);
        }
        files.extend(self.files.iter().cloned());
        files
    }
}

/// The first fence of a text: its language, and what it holds.
fn fence(text: &str) -> Option<(String, String)> {
    let (_, rest) = text.split_once("```")?;
    let (language, rest) = rest.split_once('\n')?;
    let (body, _) = rest.split_once("```")?;
    Some((language.to_owned(), body.to_owned()))
}

/// What a person does who reads the printed help: takes the lines with `-` out and puts those with `+` in.
fn follow(says: &str, text: &str) -> Option<String> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let change = |line: &str, sign: char| {
        let line = line.trim_start();
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = line[..digits].parse().ok()?;
        let rest = line[digits..].strip_prefix(' ')?.strip_prefix(sign)?;
        Some((number, rest.strip_prefix(' ').unwrap_or(rest).to_owned()))
    };
    let removed: Vec<(usize, String)> = says.lines().filter_map(|line| change(line, '-')).collect();
    let added: Vec<(usize, String)> = says.lines().filter_map(|line| change(line, '+')).collect();
    if removed.is_empty() && added.is_empty() {
        return None;
    }
    for (number, line) in removed.iter().rev() {
        assert_eq!(&lines.remove(number - 1), line, "the help takes out a line that is not there");
    }
    for (number, line) in added {
        lines.insert(number - 1, line);
    }
    Some(lines.join("\n"))
}

fn pages() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("docs/errors")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "README.md").map(|name| name.trim_end_matches(".md").to_owned()).collect()
}

/// Every name of a mistake in the source of the engine: texts in kebab-case, outside of tests.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for path in sources(&root().join("src/engine")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // What a new mapping is written from names the folders of its cases.
        let of_cases = path.starts_with(root().join(CASES)) || name == "case.rs" || name == "starter.rs";
        if name == PROBLEMS || name.starts_with("tests_") || of_cases {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        codes.extend(text.split('"').filter(|word| is_code(word)).map(str::to_owned));
    }
    codes
}

fn is_code(word: &str) -> bool {
    // What begins with `x-` is a keyword of JSON Schema of our own.
    word.contains('-')
        && !word.starts_with("x-")
        && word.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase()))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("examples") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_mistake_has_a_page_and_every_page_a_mistake() {
    let (codes, pages) = (codes(), pages());
    assert!(codes.len() > 60, "the scan of the source found {} names", codes.len());
    let missing: Vec<&String> = codes.difference(&pages).collect();
    let stale: Vec<&String> = pages.difference(&codes).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "without a page: {missing:?}; pages of nothing: {stale:?}"
    );
}

#[test]
fn each_page_is_true() {
    let mut wrong = Vec::new();
    for name in pages() {
        let page = Page::read(&name);
        let files = page.broken.over(base());
        let found = findings(&files);
        if updating() {
            let path = root().join(format!("docs/errors/{name}.md"));
            let text = fs::read_to_string(&path).unwrap();
            let text =
                text.replacen(&format!("```text\n{}```", page.says), &format!("```text\n{found}```"), 1);
            fs::write(&path, text).unwrap();
            continue;
        }
        if found.iter().map(|item| item.code).collect::<Vec<_>>() != [page.name.as_str()]
            || found.to_string() != page.says
        {
            wrong.push(format!("{name}: the broken file gives\n{found}\nthe page says\n{}", page.says));
            continue;
        }
        let mended = page.mended.over(files.clone());
        let left = findings(&mended);
        if !left.is_empty() {
            wrong.push(format!("{name}: the mended file gives\n{left}"));
        }
        for item in found.iter().filter(|item| item.fix.is_some()) {
            let text = follow(&page.says, &files[&item.fix.as_ref().unwrap().file]);
            if text.as_ref() != mended.get(&item.fix.as_ref().unwrap().file) {
                wrong.push(format!("{name}: following the help gives\n{}", text.unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_list_of_pages_is_complete() {
    let list = fs::read_to_string(root().join("docs/errors/README.md")).unwrap();
    let listed: Vec<&str> = list
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("- [")?.split_once("](")?;
            rest.strip_prefix(name)?.starts_with(".md)").then_some(name)
        })
        .collect();
    assert_eq!(listed, pages().iter().map(String::as_str).collect::<Vec<_>>());
}
