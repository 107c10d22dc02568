//! The one suite: every promise of the product as a sentence.
#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy knows test functions, but not their helpers")]

mod bus;
mod cloudevent;
mod delivery;
mod http;
mod ledger;
mod registration;
mod registry_rules;
mod settings;
