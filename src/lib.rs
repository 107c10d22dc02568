//! Mapwright: a Kubernetes service provider for DCM that is driven by data.

pub use mapwright_engine as engine;
