//! All tests of the provider, in one program: they share servers, and link once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod cluster;
mod cluster_wire;
mod refusal;
mod wire;
