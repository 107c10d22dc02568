//! Mapwright.
pub mod http;
