//! The one suite: every promise of the product as a sentence.

mod bus;
mod cloudevent;
mod ledger;
mod registry_rules;
mod settings;
