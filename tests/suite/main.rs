//! The one suite: every promise of the product as a sentence. One program, so that the tests share servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy knows test functions, but not their helpers")]

mod adoption;
mod bad_input;
mod bus;
mod cases;
mod cloudevent;
mod cluster;
mod cluster_wire;
mod containers;
mod controllers;
mod dcm;
mod deaths;
mod delivery;
mod docs;
mod events;
mod field_requests;
mod field_status;
mod figures;
mod http;
mod ledger;
mod lives;
mod openapi;
mod outages;
mod refusal;
mod registration;
mod registry_rules;
mod replicas;
mod sandbox;
mod settings;
mod source;
mod start;
mod strings;
mod volumes;
mod wire;
