//! Inputs that a fuzzer, or a person, once found worth keeping: each property holds for each of them.

use std::fs;
use std::panic::catch_unwind;

use mapwright::engine::samples::samples;
use mapwright_properties::{mapping, page_token, spec, template};

use super::safety::{Numbers, STRINGS, disturb, filled, service};
use super::source::root;

/// The most files of all corpora together, so that a replay stays short.
const MOST: usize = 300;

/// Panics where it does not hold.
type Property = fn(&[u8]);

/// Every property by the name of its fuzz target.
const PROPERTIES: [(&str, Property); 4] = [
    ("mapping", mapping::holds),
    ("page_token", page_token::holds),
    ("spec", spec::holds),
    ("template", template::holds),
];

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // What cargo-fuzz finds by itself is named by its digest, and is not kept.
    names.retain(|name| name.len() != 40 || name.contains(|letter: char| !letter.is_ascii_hexdigit()));
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

#[test]
fn the_property_of_specs_holds_for_samples_hostile_texts_and_disturbed_documents() {
    let mut numbers = Numbers(20_260_131);
    for name in ["container", "storage"] {
        let service = service(name);
        for sample in samples(&service.schema.document).into_iter().step_by(9) {
            let mut disturbed = sample.clone();
            disturb(&mut disturbed, &mut numbers);
            let hostile = filled(&service, &sample, STRINGS[numbers.below(STRINGS.len())]);
            for document in [sample, disturbed, hostile] {
                spec::holds(document.to_string().as_bytes());
            }
        }
    }
}

#[test]
fn the_property_of_mappings_holds_for_edits_by_chance() {
    let mut numbers = Numbers(7);
    for round in 0..120 {
        let mut edits = vec![if round % 2 == 0 { b'0' } else { b'1' }];
        // Seldom more than one edit: what has many mistakes ends early.
        let count = 6 * (1 + numbers.below(2));
        edits.extend((0..count).map(|_| u8::try_from(numbers.below(256)).unwrap()));
        mapping::holds(&edits);
    }
}
