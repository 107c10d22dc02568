//! Templates and expressions of a small mapping.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mapwright_properties::template::holds(bytes));
