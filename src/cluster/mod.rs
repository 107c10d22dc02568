//! Kubernetes as this program sees it: JSON objects that are written, read and watched.
//!
//! Invariants of the room:
//!
//! - It knows no mapping, no service type and no sibling room.
//! - It names a kind only where a protocol of its own needs one: the ConfigMap of a record, the Lease of a leader.
//! - Objects are [`serde_json::Value`]s in and out, so that no field is lost that a type does not know.
//! - Every call ends: by an answer, a [`Refusal`] or its deadline. Nothing here retries a write.
//! - Every failure is a [`Refusal`], classified in one place; callers match on its kind, never on text.
//!
//! The files in reading order: [`connection`] reaches the API server, with `credential` for plugins that
//! hand out short tokens; [`refusal`] says what a failure means; [`resource`] turns a kind into a path;
//! `missing` remembers which verbs were not allowed; [`objects`] holds the verbs; [`store`] remembers what [`watch`] sees, cut down by [`prune`], told on by
//! [`changes`]; [`record`] keeps one JSON document per instance;
//! [`lease`] lets one of several replicas lead; [`review`] asks who holds a token.

pub mod changes;
pub mod connection;
mod credential;
mod feed;
pub mod lease;
mod missing;
pub mod objects;
pub mod prune;
pub mod record;
pub mod refusal;
pub mod resource;
pub mod review;
mod rights;
mod shelf;
pub mod store;
mod stream;
pub mod watch;

pub use changes::Changes;
pub use connection::{Answerer, Cluster, ConnectOptions};
pub use lease::Lease;
pub use objects::{Deleted, ListOptions, Preconditions, Propagation};
pub use prune::Prune;
pub use record::{RecordStore, Stored, stored};
pub use refusal::{Cause, Refusal, RefusalKind};
pub use resource::{Resource, ResourceRef};
pub use review::{Account, Meant};
pub use rights::{OwnRight, own_rights, review_rights};
pub use store::{Indexer, ObjectKey, Store};
pub use watch::{WatchHealth, WatchKey, WatchSpec, Watches};
