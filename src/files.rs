//! Reads a mapping root into memory, and notices that it changed: the only room that opens mapping files.

pub mod change;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::service::Files;

/// A mapping root that could not be read.
#[derive(Debug)]
pub struct Unreadable {
    pub path: PathBuf,
    pub error: io::Error,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot read {}: {}", self.path.display(), self.error)
    }
}

/// Where mappings and schemas are.
#[derive(Clone, Debug)]
pub struct MappingRoot {
    pub mappings: PathBuf,
    pub schemas: PathBuf,
}

impl MappingRoot {
    /// `mappings` and `schemas` beside each other, below a folder.
    pub fn at(folder: &Path) -> Self {
        Self { mappings: folder.join("mappings"), schemas: folder.join("schemas") }
    }

    /// The names of the folders that hold a mapping.
    pub fn types(&self) -> Result<Vec<String>, Unreadable> {
        let mut types = Vec::new();
        for path in entries(&self.mappings)? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() && !name.starts_with(['.', '_']) {
                types.push(name);
            }
        }
        Ok(types)
    }

    /// Every file, under its name from the root's parent.
    pub fn read(&self) -> Result<Files, Unreadable> {
        let mut files = BTreeMap::new();
        read_folder(&self.mappings, "mappings", &mut files)?;
        read_folder(&self.schemas, "schemas", &mut files)?;
        Ok(files)
    }
}

/// What is in a folder, sorted by name.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let unreadable = |error| Unreadable { path: folder.to_owned(), error };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Files) -> Result<(), Unreadable> {
    for path in entries(folder)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        let key = format!("{prefix}/{name}");
        if path.is_dir() {
            read_folder(&path, &key, files)?;
        } else if ["toml", "yaml", "yml", "json"].iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
            let text = fs::read_to_string(&path).map_err(|error| Unreadable { path: path.clone(), error })?;
            files.insert(key, text);
        }
    }
    Ok(())
}
