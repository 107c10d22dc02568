//! The pure engine: what a mapping means. No clock, no I/O, no async, no randomness.
//!
//! The modules in reading order:
//!
//! - [`source`], [`read`], [`diagnostic`]: files that people write, their trees, and their mistakes.
//! - [`decode`], [`describe`], [`format`]: the mapping format, as types and as a JSON Schema.
//! - [`expression`], [`reads`], [`shape`], [`filters`], [`attributes`], [`quantity`]: expressions and what they read.
//! - [`types`], [`infer`], [`kinds`]: what is known of values before anything runs.
//! - [`scope`], [`value`], [`template`]: variables, and trees made from them.
//! - [`schema`], [`json`]: documents that callers send.
//! - [`service`], [`load`]: a mapping, compiled.
//! - [`inputs`], [`request`], [`manifest`], [`status`], [`view`]: the five things that a mapping does.
//! - [`emit`]: what was made, as YAML that every reader takes for the same.
//! - [`case`], [`coverage`]: tests as data, and which ways of a mapping they go.
//! - [`samples`], [`prove`]: specs that cover a schema, and what a mapping makes of them.
//! - [`starter`]: the files of a new mapping.
//! - [`token`]: positions in a list that nobody can make up.
//! - [`names`], [`problem`]: what all of them share.

pub mod attributes;
pub mod case;
pub mod change;
pub mod coverage;
pub mod decode;
pub mod describe;
pub mod diagnostic;
pub mod emit;
pub mod explain;
pub mod expression;
pub mod filters;
pub mod format;
pub mod infer;
pub mod inputs;
pub mod json;
pub mod kinds;
pub mod load;
pub mod manifest;
pub mod names;
pub mod problem;
pub mod prove;
pub mod provenance;
pub mod quantity;
mod quick;
pub mod read;
pub mod reads;
pub mod request;
pub mod reserved;
pub mod rights;
pub mod samples;
pub mod schema;
pub mod scope;
pub mod service;
pub mod shape;
pub mod source;
pub mod starter;
pub mod status;
pub mod template;
pub mod token;
pub mod types;
pub mod unread;
pub mod value;
pub mod view;

#[cfg(test)]
mod tests_provenance;
#[cfg(test)]
mod tests_service;
#[cfg(test)]
mod tests_unread;
