//! The files that the properties are tried on, read once: the shipped mappings, and a small one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use mapwright_engine::kinds::Kinds;
use mapwright_engine::service::{Files, Service};
use mapwright_engine::source::Source;

const PACK: &[u8] = include_bytes!("../../../schemas/kubernetes/types.pack");
const ADDITIONS: &str = include_str!("../../../schemas/kubernetes/additions.yaml");

/// The kinds of Kubernetes, as the product knows them.
pub(crate) static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let additions = Source::new("additions.yaml", ADDITIONS);
    Kinds::read(PACK, &additions).expect("the embedded types are well formed")
});

/// The mappings and schemas that come with the program.
pub(crate) static SHIPPED: LazyLock<Files> = LazyLock::new(|| read(""));

/// A mapping of one object, which the broken ones of the tests are made of.
pub(crate) static SMALL: LazyLock<Files> = LazyLock::new(|| read("testdata/broken/_base"));

/// The shipped mappings, compiled.
pub(crate) static SERVICES: LazyLock<Vec<Service>> = LazyLock::new(|| {
    let load =
        |name: &String| Service::load(&SHIPPED, name, &KINDS).expect("a shipped mapping has no mistakes");
    folders(&SHIPPED).iter().map(load).collect()
});

/// The names of the folders that hold a mapping.
pub(crate) fn folders(files: &Files) -> Vec<String> {
    let tables =
        files.keys().filter_map(|path| path.strip_prefix("mappings/")?.strip_suffix("/mapping.toml"));
    tables.map(str::to_owned).collect()
}

fn read(below: &str) -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(below);
    let mut files = Files::new();
    for part in ["mappings", "schemas"] {
        collect(&root.join(part), part, &mut files);
    }
    files
}

fn collect(folder: &Path, name: &str, files: &mut Files) {
    let entries = fs::read_dir(folder).expect("the repository holds its mappings");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The types of Kubernetes lie in a folder of their own, and no mapping names them.
        if path.is_dir() && last != "kubernetes" {
            collect(&path, &format!("{name}/{last}"), files);
        } else if [".toml", ".yaml", ".json"].iter().any(|ending| last.ends_with(ending)) {
            files.insert(format!("{name}/{last}"), fs::read_to_string(&path).expect("a text"));
        }
    }
}
