//! Mapwright: a Kubernetes service provider for DCM that is driven by data.
pub mod bus;
pub mod cloudevent;
pub mod ledger;
pub mod registry;
pub mod settings;
