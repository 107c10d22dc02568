//! The fault harness: one fixed script of a provider's life, disturbed by a plan, and the promises that must
//! hold all the same.
//!
//! A run without faults is recorded. From what it did (each write that took effect, each event that a later
//! one overwrote, each list, each message) plans are generated; see [`generate`]. A plan is a file that a
//! person can read, and a plan that fails is written down and can be carried out again.
//!
//! In reading order: `plan` is the file, `board` counts what happens and says what is to happen to it, `gate`
//! stands in front of the API server and `wire` in front of NATS, `stage` is a provider between them, `script`
//! its life, `invariants` what is looked at afterwards, `run` joins them, `generate` writes plans.

// Blank lines keep the formatter from sorting them.

mod plan;

mod board;

mod gate;

mod wire;

mod stage;

mod script;

mod invariants;

mod run;

mod generate;

pub use board::Happening;
pub use generate::{generate, sample};
pub use plan::{Act, Fault, Plan};
pub use run::{Ground, Outcome, run};
