//! The one suite: every promise of the product as a sentence. One program, so that the tests share servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy knows test functions, but not their helpers")]

mod broken;
mod bus;
mod check;
mod cloudevent;
mod cluster;
mod cluster_wire;
mod delivery;
mod error_pages;
mod http;
mod ledger;
mod refusal;
mod registration;
mod registry_rules;
mod settings;
mod typos;
mod wire;
