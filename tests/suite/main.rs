//! The one suite: every promise of the product as a sentence. One program, so that the tests share servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy knows test functions, but not their helpers")]

mod adoption;
mod bus;
mod cloudevent;
mod cluster;
mod cluster_wire;
mod deaths;
mod delivery;
mod docs;
mod http;
mod ledger;
mod offline;
mod outages;
mod refusal;
mod refused_fields;
mod registration;
mod registry_rules;
mod render;
mod replicas;
mod rights;
mod safety;
mod settings;
mod source;
mod wire;
