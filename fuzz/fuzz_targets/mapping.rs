//! Tables of mappings, and edits of the shipped ones.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mapwright_properties::mapping::holds(bytes));
