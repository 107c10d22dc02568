//! The pages of mistakes, docs/errors/: each is run, and none is missing or left over.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mapwright::app::Simulator;
use mapwright::cases::{Mappings, Suite};
use mapwright::engine::diagnostic::Diagnostic;
use mapwright::engine::service::Files;
use mapwright::engine::source::Source;
use mapwright::sandbox::Stages;

use super::broken::{base, findings, root, updating};
use super::source;
use super::walk::Walk;

/// Kebab-case words of the engine that are no names of mistakes: the codes of problem documents.
const PROBLEMS: &str = "problem.rs";

/// What is no name of a mistake either: the provider of every case.
const NO_CODES: [&str; 1] = ["example-provider"];

/// The sound mapping with a case that broken files of cases are laid over.
const CASES: &str = "testdata/case-mistakes/";

/// Who reports a mistake, as its page says it.
const REPORTERS: [(&str, Reporter); 3] = [
    ("\n`mapwright check` says:\n", Reporter::Check),
    ("\n`mapwright test` says:\n", Reporter::Test),
    ("\n`mapwright dev --scenario stages.yaml` says:\n", Reporter::Scenario),
];

#[derive(Clone, Copy)]
enum Reporter {
    Check,
    Test,
    Scenario,
}

/// What is wrong with files: the names, what is printed, and the mistakes that have a place.
struct Report {
    codes: Vec<&'static str>,
    printed: String,
    items: Vec<Diagnostic>,
}

impl Reporter {
    fn base(self) -> Files {
        match self {
            Self::Check => base(),
            Self::Test => {
                let files = source::files(CASES, "").into_iter();
                files.map(|file| (file.name[CASES.len()..].to_owned(), file.text)).collect()
            }
            Self::Scenario => Files::new(),
        }
    }

    fn report(self, files: &Files) -> Report {
        let found = match self {
            Self::Check => findings(files),
            Self::Test => return tested(files),
            Self::Scenario => {
                let text = files["stages.yaml"].as_str();
                Stages::load(vec![Source::new("stages.yaml", text)], true, true).err().unwrap_or_default()
            }
        };
        let codes = found.iter().map(|item| item.code).collect();
        Report { codes, printed: found.to_string(), items: found.iter().cloned().collect() }
    }
}

/// The names come from the suite, for a person reads what failed without them.
fn tested(files: &Files) -> Report {
    let walk = Walk::new("error-pages");
    files.iter().for_each(|(name, text)| walk.write(name, text));
    let suite = Suite::open(&mut Mappings::read(&walk.folder).unwrap(), "", false).unwrap();
    let simulator = Simulator::default();
    let ran = suite.run(1, &|service, story| simulator.play(service, story));
    let mistakes = ran.results.iter().flat_map(|result| result.mistakes.iter());
    let items: Vec<Diagnostic> = suite.findings.iter().chain(mistakes).cloned().collect();
    let failures = ran.results.iter().flat_map(|result| &result.failures).map(|failure| failure.code);
    let unreadable = ran.unreadable.iter().map(|_| "unreadable-file");
    let codes = items.iter().map(|item| item.code).chain(failures).chain(unreadable).collect();
    Report { codes, printed: walk.printed("mapwright test"), items }
}

/// A page, in parts.
struct Page {
    name: String,
    reporter: Reporter,
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
        let parts = |(marker, reporter)| Some((broken.split_once(marker)?, reporter));
        let ((shown, says), reporter) = REPORTERS.into_iter().find_map(parts).expect(name);
        let (_, says) = fence(says).expect(name);
        let (broken, mended) = (Part::read(shown), Part::read(mended));
        Self { name: name.to_owned(), reporter, broken, says, mended }
    }

    fn update(&self, found: &str) {
        let path = root().join(format!("docs/errors/{}.md", self.name));
        let text = fs::read_to_string(&path).unwrap();
        let says = format!("```text\n{}```", self.says);
        fs::write(&path, text.replacen(&says, &format!("```text\n{found}```"), 1)).unwrap();
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

/// Every name of a mistake in the source. In the engine that is every text in kebab-case, outside of tests;
/// elsewhere those that are given to findings.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for path in sources(&root().join("src")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let in_engine = path.starts_with(root().join("src/engine"));
        // What a new mapping is written from names the folders of its cases.
        if [PROBLEMS, "starter.rs"].contains(&name.as_str()) || name.starts_with("tests_") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        match in_engine {
            true => codes.extend(codes_in(text)),
            false => {
                let calls = [".add(", ".add_with_help(", "::at_the_beginning("].into_iter();
                let calls = calls.flat_map(|call| text.split(call).skip(1));
                codes.extend(calls.flat_map(|call| codes_in(call.split(';').next().unwrap())));
            }
        }
    }
    codes
}

fn codes_in(text: &str) -> impl Iterator<Item = String> {
    let words = text.split('"').filter(|word| is_code(word) && !NO_CODES.contains(word));
    words.map(str::to_owned)
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
        let files = page.broken.over(page.reporter.base());
        let found = page.reporter.report(&files);
        if updating() {
            page.update(&found.printed);
            continue;
        }
        if found.codes != [page.name.as_str()] || found.printed != page.says {
            let (codes, printed) = (found.codes, found.printed);
            wrong.push(format!(
                "{name}: the broken file gives {codes:?}\n{printed}\nthe page says\n{}",
                page.says
            ));
            continue;
        }
        let mended = page.mended.over(files.clone());
        let left = page.reporter.report(&mended);
        if !left.codes.is_empty() {
            wrong.push(format!("{name}: the mended file gives\n{}", left.printed));
        }
        for fix in found.items.iter().filter_map(|item| item.fix.as_ref()) {
            let text = follow(&page.says, &files[&fix.file]);
            if text.as_ref() != mended.get(&fix.file) {
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
