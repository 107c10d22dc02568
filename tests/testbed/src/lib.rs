//! Real parts for tests and the demo, in reading order; no test and nothing of the product is in here.
//!
//! Every server is started on 127.0.0.1 with a free port and a folder of its own, and ends with the
//! process that started it, however that one ends (see [`process`]).

// Blank lines keep the formatter from sorting them.

/// One error that reads well in a failing test.
pub mod failure;

/// Child processes and folders that do not outlive us.
pub mod process;

/// Builds the servers from the Go module in testdata/controlplane, once.
pub mod binaries;

/// Whether the real servers are there, and what is left out without them.
pub mod ground;

/// etcd, API server and controller manager.
pub mod control_plane;

/// The files that a control plane needs before it starts.
mod credentials;

/// Certificates of an authority of the test's own.
pub mod certificates;

/// NATS for a machine without Go.
mod little_nats;

/// A NATS server that a test may kill and start again.
pub mod nats;

/// A proxy in front of the API server, with a plan.
pub mod proxy;

/// A stub of DCM's registry.
pub mod registry;

/// One control plane and one NATS for all tests of a run.
pub mod shared;

/// Kubernetes objects as plain JSON.
pub mod objects;

/// Kubernetes' types, as the API server describes them.
pub mod openapi;

/// Polling with a deadline.
pub mod wait;

/// What the provider promises, held against what it answers.
pub mod contract;

/// What the program is built from.
pub mod sbom;

/// A small HTTP client.
pub mod http;

/// The product's own process.
pub mod provider;

/// What was published on NATS.
pub mod events;

/// Plans of faults: generated from a run without any, carried out, and judged.
pub mod faults;

pub use binaries::Binaries;
pub use contract::Contract;
pub use control_plane::{ControlPlane, Setup};
pub use events::Events;
pub use failure::{Context, Failure, Result};
pub use http::{Answer, Http};
pub use nats::{Nats, NatsKind};
pub use objects::{Kind, Objects};
pub use provider::{Launch, Provider};
pub use proxy::{Effect, Proxy};
pub use registry::Registry;
pub use shared::Shared;
pub use wait::{eventually, secs};
