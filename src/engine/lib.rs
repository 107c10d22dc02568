//! The pure engine: what a mapping means. No clock, no I/O, no async, no randomness.
//!
//! The modules in reading order:
//!
//! - [`source`], [`read`], [`diagnostic`]: files that people write, their trees, and their mistakes.
//! - [`decode`], [`describe`], [`format`]: the mapping format, as types and as a JSON Schema.
//! - [`expression`], [`reads`], [`shape`], [`filters`], [`attributes`], [`quantity`]: expressions and what they read.
//! - [`scope`], [`value`], [`template`]: variables, and trees made from them.
//! - [`schema`], [`json`]: documents that callers send.
//! - [`service`], [`load`]: a mapping, compiled.
//! - [`inputs`], [`request`], [`manifest`], [`status`], [`view`]: the five things that a mapping does.
//! - [`names`], [`problem`]: what all of them share.

pub mod attributes;
pub mod decode;
pub mod describe;
pub mod diagnostic;
pub mod expression;
pub mod filters;
pub mod format;
pub mod inputs;
pub mod json;
pub mod load;
pub mod manifest;
pub mod names;
pub mod problem;
pub mod quantity;
pub mod read;
pub mod reads;
pub mod request;
pub mod schema;
pub mod scope;
pub mod service;
pub mod shape;
pub mod source;
pub mod status;
pub mod template;
pub mod value;
pub mod view;

#[cfg(test)]
mod tests_service;
