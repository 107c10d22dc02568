//! The documents are true: fences run, load or parse, links resolve, lists are equal to the code.
//!
//! What a fence is, the words behind its language say; [`fences`] knows them all.

mod change;
mod commands;
mod fences;
mod links;
pub(crate) mod markdown;
mod reference;
mod sample;
mod tables;
mod threats;

pub(crate) use change::declared_by_mappings;
use markdown::Page;

use super::source::files;

/// Every page that a person reads.
fn pages() -> Vec<Page> {
    let mut names = vec!["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
        .into_iter()
        .map(|name| Page::parse(name, &super::source::text(name)))
        .collect::<Vec<_>>();
    for folder in ["docs", "mappings"] {
        names.extend(files(folder, ".md").iter().map(|file| Page::parse(&file.name, &file.text)));
    }
    names
}

fn page(name: &str) -> Page {
    Page::parse(name, &super::source::text(name))
}
