//! The one suite: every promise of the product as a sentence. One program, so that the tests share servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy knows test functions, but not their helpers")]

mod adoption;
mod broken;
mod bus;
mod check;
mod cloudevent;
mod cluster;
mod cluster_wire;
mod deaths;
mod delivery;
mod docs;
mod error_pages;
mod http;
mod ledger;
mod outages;
mod refusal;
mod registration;
mod registry_rules;
mod replicas;
mod settings;
mod source;
mod typos;
mod wire;
