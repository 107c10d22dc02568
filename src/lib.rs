//! Mapwright.

pub mod cluster;
