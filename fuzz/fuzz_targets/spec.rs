//! Bodies of requests, as they come from the wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mapwright_properties::spec::holds(bytes));
