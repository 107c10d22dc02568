//! Mapwright.
