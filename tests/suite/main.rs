//! The one suite: every promise of the product as a sentence.

mod cloudevent;
mod http;
mod ledger;
mod registry_rules;
mod settings;
