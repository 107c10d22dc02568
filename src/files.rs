//! Reads a mapping root into memory, and notices that it changed: the only room that opens mapping files.

pub mod change;
pub mod reread;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::diagnostic::Findings;
use crate::engine::service::Files;
use crate::engine::source::Source;

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
        texts(self.bytes()?)
    }

    /// The schemas alone, of a root that may have no mappings yet; none where it has no schemas either.
    pub fn read_schemas(&self) -> Result<Files, Unreadable> {
        let mut files = Bytes::new();
        if self.schemas.is_dir() {
            read_folder(&home(&self.schemas)?, &self.schemas, "schemas", &mut files)?;
        }
        texts(files)
    }

    /// Every file, where one may be no text: each that is none is reported, and stands there with U+FFFD for
    /// what is no character, so that it hides nothing of what the others say.
    pub fn read_all(&self, findings: &mut Findings) -> Result<Files, Unreadable> {
        let mut files = Files::new();
        for (name, (_, bytes)) in self.bytes()? {
            if let Err(error) = std::str::from_utf8(&bytes) {
                let sound = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let source = Source::new(name.as_str(), String::from_utf8_lossy(&bytes));
                let place = sound.len()..sound.len() + char::REPLACEMENT_CHARACTER.len_utf8();
                let message = format!("the file is not UTF-8 from its byte {} on", sound.len() + 1);
                let help = "save it as UTF-8";
                findings.add_with_help(&source, &place, "unreadable-file", message, Some(help));
            }
            files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(files)
    }

    fn bytes(&self) -> Result<Bytes, Unreadable> {
        let mut files = Bytes::new();
        read_folder(&home(&self.mappings)?, &self.mappings, "mappings", &mut files)?;
        read_folder(&home(&self.schemas)?, &self.schemas, "schemas", &mut files)?;
        Ok(files)
    }
}

/// Files by their names from the root's parent: where each is, and what it holds.
type Bytes = BTreeMap<String, (PathBuf, Vec<u8>)>;

fn texts(files: Bytes) -> Result<Files, Unreadable> {
    let texts = files.into_iter().map(|(name, (path, bytes))| {
        let text = String::from_utf8(bytes);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        Ok((name, text.map_err(|error| Unreadable { path, error: invalid(error.utf8_error()) })?))
    });
    texts.collect()
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

/// The folder that holds a root's own: a link may lead anywhere below it, and nowhere else.
fn home(folder: &Path) -> Result<PathBuf, Unreadable> {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    above.canonicalize().map_err(|error| Unreadable { path: above.to_owned(), error })
}

/// Whoever may write a mapping may not read the rest of the disk by it, nor lead the reader round in a circle.
fn check_link(home: &Path, path: &Path) -> Result<(), Unreadable> {
    let unreadable = |error| Unreadable { path: path.to_owned(), error };
    let target = path.canonicalize().map_err(unreadable)?;
    let refused = |why: String| Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, why)));
    if !target.starts_with(home) {
        return refused(format!("it leads out of {}; put a copy in its place", home.display()));
    }
    let above = path.parent().and_then(|above| above.canonicalize().ok());
    if above.is_some_and(|above| above.starts_with(&target)) {
        return refused("it leads back to a folder that holds it; remove it".to_owned());
    }
    Ok(())
}

fn read_folder(home: &Path, folder: &Path, prefix: &str, files: &mut Bytes) -> Result<(), Unreadable> {
    for path in entries(folder)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        check_link(home, &path)?;
        let key = format!("{prefix}/{name}");
        if path.is_dir() {
            read_folder(home, &path, &key, files)?;
        } else if ["toml", "yaml", "yml", "json"].iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
            let bytes = fs::read(&path).map_err(|error| Unreadable { path: path.clone(), error })?;
            files.insert(key, (path, bytes));
        }
    }
    Ok(())
}
