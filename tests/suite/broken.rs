//! Broken mappings: each has one mistake, and its golden says how that is reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mapwright::engine::diagnostic::Findings;
use mapwright::engine::prove::prove;
use mapwright::engine::service::{Files, Service};
use mapwright::kinds;

/// The folder of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sound mapping `web` that broken files are laid over.
pub(crate) fn base() -> Files {
    let mut files = BTreeMap::new();
    let base = root().join("testdata/broken/_base");
    for folder in ["mappings/web", "schemas"] {
        for (name, text) in texts(&base.join(folder)) {
            files.insert(format!("{folder}/{name}"), text);
        }
    }
    files
}

/// Everything that is wrong with the mapping `web` of these files, as `mapwright check` finds it.
pub(crate) fn findings(files: &Files) -> Findings {
    let mut findings = Findings::default();
    let kinds = kinds::of(files, &mut findings);
    match Service::load(files, "web", &kinds) {
        Ok(service) => {
            findings.append(prove(&service, files, &kinds).findings);
            findings.append(service.unread_inputs());
        }
        Err(found) => findings.append(found),
    }
    findings
}

/// Whether goldens are written instead of compared.
pub(crate) fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDENS").is_some()
}

fn texts(folder: &Path) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        texts.push((name, fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))));
    }
    texts.sort();
    texts
}

fn cases() -> Vec<PathBuf> {
    let folder = root().join("testdata/broken");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !path.ends_with("_base"))
        .collect();
    cases.sort();
    cases
}

/// A case holds the broken files only: schemas are JSON or a CRD, everything else belongs to the mapping, and
/// `without` lists files that are not there.
fn compose(case: &Path) -> Files {
    let mut files = base();
    for (name, text) in texts(case) {
        match name.as_str() {
            "expected.txt" => {}
            "without" => text.lines().for_each(|path| {
                assert!(files.remove(path).is_some(), "{path} is not in the base");
            }),
            "crd.yaml" => drop(files.insert("schemas/crds/crd.yaml".to_owned(), text)),
            _ if name.ends_with(".json") => drop(files.insert(format!("schemas/{name}"), text)),
            _ => drop(files.insert(format!("mappings/web/{name}"), text)),
        }
    }
    files
}

#[test]
fn the_mapping_that_broken_files_are_laid_over_is_sound() {
    assert_eq!(findings(&base()).to_string(), "");
}

#[test]
fn each_broken_mapping_gives_its_one_diagnostic() {
    let cases = cases();
    assert!(cases.len() >= 120, "{} broken mappings", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let found = findings(&compose(&case));
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        if found.len() != 1 {
            wrong.push(format!("{name}: {} mistakes\n{found}", found.len()));
            continue;
        }
        let golden = case.join("expected.txt");
        if updating() {
            fs::write(&golden, found.to_string()).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != found.to_string() {
            wrong.push(format!("{name}: expected\n{expected}\nfound\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn where_a_broken_mapping_has_a_fix_it_mends_the_mapping() {
    for case in cases() {
        let mut files = compose(&case);
        let found = findings(&files);
        for fix in found.iter().filter_map(|item| item.fix.as_ref()) {
            let text = files.get_mut(&fix.file).unwrap();
            *text = fix.apply(text).unwrap_or_else(|| panic!("{case:?}: the fix does not apply"));
            assert_eq!(findings(&files).to_string(), "", "{case:?} after its fix");
        }
    }
}
