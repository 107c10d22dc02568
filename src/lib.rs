//! Mapwright: a Kubernetes service provider for DCM that is driven by data.
//!
//! The modules in the order in which a request meets them, and what each does *not* know:
//!
//! - [`engine`]: what a mapping means. Pure: no clock, no I/O, no async, no randomness.
//! - [`clock`]: the wall clock and the chance of all rooms, of which a simulated run has its own.
//! - [`files`]: reads mapping folders into memory. Knows nothing of what is in them.
//! - [`revision`]: the files of a root as one whole: read, checked, told apart by a digest. Serves nothing.
//! - [`cases`]: tests as data: reads folders of cases and runs them. Asks no cluster.
//! - [`kinds`]: Kubernetes' types, embedded. Knows no mapping.
//! - [`settings`]: environment and file become [`settings::Settings`]. Starts nothing.
//! - [`api`], [`openapi`]: the resources that REST shows, and their description.
//! - [`http`]: the accept loop, routes and problem documents. Decides nothing about a service type.
//! - [`access`]: who may call: certificates, tokens. Knows no route.
//! - [`provision`]: the story of one request. Knows no header and no kind of Kubernetes.
//! - [`record`]: what makes an id ours. Pure: the clock is an argument.
//! - [`provider`]: one service type at work: its mapping, its stores, its records.
//! - [`cluster`]: Kubernetes. Knows no mapping, no service type, no sibling room.
//! - [`monitor`]: observation, rules, ledger, event. Knows no transport.
//! - [`metrics`]: figures in the text format of Prometheus. Knows not what is counted.
//! - [`traces`]: spans for OpenTelemetry. Knows not what they are about.
//! - [`ledger`]: what was last said of an instance. Pure: time is an argument.
//! - [`leader`]: which of several replicas speaks. Knows no mapping and no bus.
//! - [`cloudevent`]: a change of status as a CloudEvents document. Pure.
//! - [`bus`]: NATS. Knows no mapping and no cluster.
//! - [`registry`]: registration with DCM. Knows neither cluster nor bus.
//! - [`sandbox`]: a Kubernetes API in memory. Knows no mapping and no sibling but the accept loop.
//! - [`app`]: the only wiring: builds, spawns, joins, shuts down.
//! - [`cli`]: one file a sub-command; the only room that prints.

#[macro_use]
mod seeded;

pub use mapwright_engine as engine;

pub mod access;
pub mod api;
pub mod app;
pub mod bus;
pub mod cases;
pub mod cli;
pub mod clock;
pub mod cloudevent;
pub mod cluster;
pub mod files;
pub mod http;
pub mod kinds;
pub mod leader;
pub mod ledger;
pub mod metrics;
pub mod monitor;
pub mod openapi;
pub mod provider;
pub mod provision;
pub mod record;
pub mod registry;
pub mod revision;
pub mod sandbox;
pub mod settings;
pub mod traces;
