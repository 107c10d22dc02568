//! What the source must not do, and must not know: each invariant of ARCHITECTURE.md that text can prove.
//!
//! Every scan is a function from text to complaints, and has a small bad text beside it that it must catch.

mod limits;
mod rooms;
mod rust;
mod seeds;
mod supply;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the repository, named from its root with `/`.
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
pub(crate) fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every file below a folder whose name ends so; hidden ones and build products left out.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<SourceFile> {
    let mut found = Vec::new();
    collect(&root().join(folder), ending, &mut found);
    found.sort();
    let files = found.into_iter().map(|path| {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        SourceFile { text: text(&name), name }
    });
    files.collect()
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            collect(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// The files of the product. Unit tests that stand in files of their own (`tests_*.rs`) are no product.
fn product_files() -> Vec<SourceFile> {
    let mut files = files("src", ".rs");
    files.retain(|file| !file.name.rsplit('/').next().unwrap().starts_with("tests_"));
    assert!(files.len() > 50, "the product was not found: {} files", files.len());
    files
}

/// Fails with every complaint, one a line.
pub(crate) fn no_complaints(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
