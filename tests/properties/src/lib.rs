//! What must hold for any bytes at all, one property a module: a break of it is a panic.
//!
//! `fuzz/` looks for bytes that break one; the suite replays those that were kept in `fuzz/corpus`.

#![allow(clippy::panic, reason = "a panic is how a property says that it is broken")]

pub mod mapping;
pub mod page_token;
pub mod shape;
mod shipped;
pub mod spec;
pub mod template;
mod trial;
