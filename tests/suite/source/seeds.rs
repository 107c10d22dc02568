//! The faults that are seeded in the product: none of them in a release, and each of them caught by a plan.

use std::collections::BTreeSet;

use super::{product_files, text};
use crate::faults::SEEDS;

/// The names in `seeded!("...")`.
fn seeded(text: &str) -> impl Iterator<Item = &str> {
    text.split("seeded!(\"").skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn every_seeded_fault_has_a_plan_that_catches_it_and_the_other_way_round() {
    let files = product_files();
    let product = files.iter().filter(|file| file.name != "src/seeded.rs");
    let sown: BTreeSet<&str> = product.flat_map(|file| seeded(&file.text)).collect();
    let caught: BTreeSet<&str> = SEEDS.iter().map(|seed| seed.fault).collect();
    assert_eq!(sown, caught);
    assert!(sown.len() >= 20, "{sown:?}");
}

#[test]
fn a_release_has_no_switch_for_faults() {
    let switch = text("src/seeded.rs");
    assert!(switch.contains("cfg!(debug_assertions) && $crate::seeded::is($fault)"));
    let (before, _) = switch.split_once("std::env::var").unwrap();
    let last_item = before.rsplit("#[cfg(").next().unwrap();
    assert!(last_item.starts_with("debug_assertions)]"), "the environment is read in a release too");
    // No profile but the test's own switches these on.
    assert!(!text("Cargo.toml").contains("debug-assertions"));
    for file in product_files() {
        let asks = file.text.contains("MAPWRIGHT_SEEDED") || file.text.contains("seeded::is");
        assert!(!asks || file.name == "src/seeded.rs", "{} asks without the macro", file.name);
    }
}
