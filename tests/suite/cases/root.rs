//! A mapping root of a test's own, and the program that is run on it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder with the shipped mappings, removed at the end.
pub(crate) struct Root(PathBuf);

/// What a run of the program said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Told {
    pub(crate) fn new(code: i32, out: &str, err: &str) -> Self {
        Self { code, out: out.to_owned(), err: err.to_owned() }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}\n{}\n---\n{}", self.code, self.out, self.err)
    }
}

/// Runs the program.
pub(crate) fn run(arguments: &[&str]) -> Told {
    let done = Command::new(env!("CARGO_BIN_EXE_mapwright")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: done.status.code().unwrap(), out: text(done.stdout), err: text(done.stderr) }
}

impl Root {
    /// Mappings and schemas, and no case.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mapwright-cases-{}-{number}", std::process::id()));
        let root = Self(path);
        root.take("mappings/container");
        root.take("mappings/storage");
        root.take("schemas");
        root
    }

    /// With the shipped cases of both mappings.
    pub(crate) fn shipped() -> Self {
        let root = Self::new();
        root.take("testdata/cases/container");
        root.take("testdata/cases/storage");
        root
    }

    fn take(&self, folder: &str) {
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &self.path(folder));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// Puts a text into the place of another one, which must be there.
    pub(crate) fn replace(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert!(text.contains(old), "{name} does not hold {old}");
        fs::write(self.path(name), text.replacen(old, new, 1)).unwrap();
    }

    /// Runs `mapwright test` on it.
    pub(crate) fn test(&self, options: &[&str]) -> Told {
        let root = self.0.to_string_lossy().into_owned();
        run(&[&["test", root.as_str()], options].concat())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
}
