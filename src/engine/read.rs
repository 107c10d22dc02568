//! Reads TOML, YAML and JSON text into trees that keep the place of every key and value.

mod toml;
mod yaml;

use crate::diagnostic::Findings;
use crate::source::{Source, Tree};

pub use yaml::read_documents;

/// Reads a file by the ending of its name: `.toml`, else YAML, of which JSON is a part.
pub fn read(source: &Source, findings: &mut Findings) -> Option<Tree> {
    if source.name.ends_with(".toml") { toml::read(source, findings) } else { yaml::read(source, findings) }
}
