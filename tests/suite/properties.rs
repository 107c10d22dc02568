//! Inputs that a fuzzer, or a person, once found worth keeping: each property holds for each of them.

use std::fs;
use std::panic::catch_unwind;

use mapwright_properties::{mapping, page_token, spec, template};

use super::source::root;

/// The most files of all corpora together, so that a replay stays short.
const MOST: usize = 300;

/// Every property by the name of its fuzz target.
const PROPERTIES: [(&str, fn(&[u8])); 4] = [
    ("mapping", mapping::holds),
    ("page_token", page_token::holds),
    ("spec", spec::holds),
    ("template", template::holds),
];

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_property_holds_for_every_kept_input() {
    let mut broken = Vec::new();
    for (target, holds) in PROPERTIES {
        let folder = format!("fuzz/corpus/{target}");
        for name in names(&folder) {
            let bytes = fs::read(root().join(&folder).join(&name)).unwrap();
            if catch_unwind(|| holds(&bytes)).is_err() {
                broken.push(format!("{folder}/{name}"));
            }
        }
    }
    assert!(broken.is_empty(), "what broke them stands above: {broken:#?}");
}

#[test]
fn every_target_has_a_property_and_a_small_corpus() {
    let targets = PROPERTIES.map(|(target, _)| target);
    let files = targets.map(|target| format!("{target}.rs"));
    assert_eq!(names("fuzz/fuzz_targets"), files);
    assert_eq!(names("fuzz/corpus"), targets);
    let counts = targets.map(|target| names(&format!("fuzz/corpus/{target}")).len());
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    assert!(counts.iter().sum::<usize>() < MOST, "{counts:?}");
}
