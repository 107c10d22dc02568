//! Page tokens, and alterations of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mapwright_properties::page_token::holds(bytes));
