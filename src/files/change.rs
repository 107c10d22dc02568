//! Notices that a file below some folders was saved, by looking again and again.
//!
//! Looking sees what matters however it came about: a write in place, an editor that renames a new file over
//! the old one, a link that is swapped (as a mounted ConfigMap is). Notifications of the system follow the
//! inode and not the name, lose links, and cost a tree of dependencies; a thousand cases are looked at in a
//! few milliseconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long nobody looks: with the look itself and the run far below 100 ms.
pub const PAUSE: Duration = Duration::from_millis(30);

/// Folders nest no deeper; a link that leads back to its own folder would never end.
const DEPTH: usize = 8;

/// The files below some folders, as they were at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look(BTreeMap<PathBuf, Option<Mark>>);

/// What changes when a file does. A swapped link leads to another inode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Look {
    pub fn at(folders: &[PathBuf]) -> Self {
        let mut look = Self::default();
        for folder in folders {
            look.add(folder, DEPTH);
        }
        look
    }

    fn add(&mut self, path: &Path, depth: usize) {
        // Through links: what is at the other end counts.
        let Ok(found) = fs::metadata(path) else {
            self.0.insert(path.to_owned(), None);
            return;
        };
        if !found.is_dir() {
            let mark = Mark { modified: found.modified().ok(), length: found.len(), inode: inode(&found) };
            self.0.insert(path.to_owned(), Some(mark));
            return;
        }
        if depth == 0 {
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with('.') {
                self.add(&entry.path(), depth - 1);
            }
        }
    }
}

#[cfg(unix)]
fn inode(found: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> u64 {
    0
}
