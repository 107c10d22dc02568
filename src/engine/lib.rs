//! Mapwright.
pub mod json;
pub mod problem;
