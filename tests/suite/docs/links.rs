//! Every link of every page leads somewhere, and a link to a symbol of the source leads to that symbol.

use super::super::source::{no_complaints, root};
use super::markdown::{Link, Page, code};
use super::{page, pages};

/// What is wrong with a link of a page; nothing if it leads where it says.
fn fault(page: &Page, link: &Link) -> Option<String> {
    if link.target.starts_with("https://") || link.target.starts_with("http://") {
        return None;
    }
    let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let folder = root().join(&page.name);
    let path = match file {
        "" => folder,
        file => folder.parent().unwrap().join(file),
    };
    let Ok(path) = path.canonicalize() else { return Some(format!("there is no file {file}")) };
    if !path.is_file() {
        return (!anchor.is_empty()).then(|| format!("{file} is a folder and has no headings"));
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let is_symbol = link.shown.starts_with('`') && file.ends_with(".rs");
    if is_symbol && !defines(&text, code(&link.shown)) {
        return Some(format!("{file} does not define {}", link.shown));
    }
    let has_anchor = || Page::parse(file, &text).anchors().iter().any(|own| own == anchor);
    (file.ends_with(".md") || file.is_empty())
        .then_some(anchor)
        .filter(|anchor| !anchor.is_empty() && !has_anchor())
        .map(|anchor| format!("{} has no heading #{anchor}", page.name))
}

/// Whether a source file defines the last part of `Type::method`.
fn defines(source: &str, symbol: &str) -> bool {
    let name = symbol.rsplit("::").next().unwrap_or(symbol).trim_end_matches("()");
    let words = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "macro_rules!"];
    source.lines().any(|line| {
        words.iter().any(|word| {
            let found = line.split_once(&format!("{word} {name}"));
            found.is_some_and(|(before, after)| {
                (before.is_empty() || before.ends_with(' '))
                    && !before.contains("//")
                    && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    })
}

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    let mut complaints = Vec::new();
    for page in pages() {
        for link in page.links() {
            count += 1;
            complaints
                .extend(fault(&page, &link).map(|fault| format!("{}:{}: {fault}", page.name, link.line)));
        }
    }
    no_complaints(complaints);
    assert!(count > 60, "only {count} links were found");
}

#[test]
fn a_dead_link_is_caught() {
    let text = "# A\n[b](nowhere.md) [`nothing`](../src/app.rs) [`serve`](../src/app.rs) [c](#a) [d](#b)\n";
    let page = Page::parse("docs/x.md", &text.replace("(#", "(ARCHITECTURE.md#"));
    let faults: Vec<bool> = page.links().iter().map(|link| fault(&page, link).is_some()).collect();
    assert_eq!(faults, [true, true, false, true, true]);
}

#[test]
fn the_two_lives_are_tours_of_at_most_eight_stops() {
    let architecture = page("docs/ARCHITECTURE.md");
    for tour in ["The life of one POST", "The life of one event"] {
        let stops = architecture
            .lines
            .iter()
            .filter(|line| line.section == tour && line.text.starts_with(|c: char| c.is_ascii_digit()));
        let stops: Vec<usize> = stops.map(|line| line.number).collect();
        assert!((5..=8).contains(&stops.len()), "{tour} has {} stops", stops.len());
        let links = architecture.links();
        for stop in stops {
            let leads = |link: &Link| {
                link.section == tour
                    && link.line == stop
                    && link.target.ends_with(".rs")
                    && link.shown.starts_with('`')
            };
            assert!(links.iter().any(leads), "docs/ARCHITECTURE.md:{stop}: a stop without a symbol");
        }
    }
}
