//! The story of one request: decode, validate, render, apply, view.
//!
//! `create` is the whole story; the other files tell parts of it again for reads, updates and deletions.

mod answer;
mod apply;
mod claim;
mod create;
mod delete;
mod judge;
mod page;
mod read;
mod update;

pub use answer::problem_of;
pub use apply::{complete, confirm_gone, remove_objects};
pub use page::{KEY_MARKER, PageTokens};
pub use update::resume;

use std::sync::Arc;

use serde_json::Value;

use crate::engine::names::DNS_LABEL;
use crate::engine::problem::Problem;
use crate::provider::{Known, Provider, RESERVED};

/// What serves the requests of one service type.
#[derive(Clone)]
pub struct Provisioner {
    pub provider: Arc<Provider>,
    pub tokens: PageTokens,
}

/// A create as it was asked for; the body is JSON, nothing else is known of it.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    pub id: Option<String>,
    pub idempotency_key: Option<String>,
    pub body: Value,
}

/// Refuses an id that is no RFC 1123 label, or that is reserved.
fn check_id(id: &str) -> Result<(), Problem> {
    if RESERVED.contains(&id) {
        return Err(Problem::invalid_argument(format!("the id `{id}` is reserved; choose another one")));
    }
    if DNS_LABEL.accepts(id) {
        return Ok(());
    }
    Err(Problem::invalid_argument(
        "the id is not an RFC 1123 label: 1 to 63 small letters, digits and inner hyphens",
    ))
}

/// From here on each line of the request's log names the instance.
fn tell_instance(id: &str) {
    tracing::Span::current().record("instance", id);
}

impl Provisioner {
    /// The record that an id means: of this id, else the only one of this name. Memory is asked first; an
    /// absence is looked up live, once, since another replica may have made it.
    async fn resolve(&self, id: &str) -> Result<Known, Problem> {
        self.require_sync().await?;
        let provider = &self.provider;
        let missing = || Problem::not_found(format!("there is no instance `{}`", shown(id)));
        if let Some(known) = provider.find(id).filter(|known| provider.is_visible(&known.record)) {
            tell_instance(&known.record.id);
            return Ok(known);
        }
        if !DNS_LABEL.accepts(id) {
            return Err(missing());
        }
        let live = provider.find_live(id).await;
        let found = match live.map_err(|refusal| problem_of(&refusal, "reading the record"))? {
            Some(known) if provider.is_visible(&known.record) => Ok(known),
            _ => self.named(id).ok_or_else(missing),
        };
        found.inspect(|known| tell_instance(&known.record.id))
    }

    /// The only visible instance of this name, where callers may use names.
    fn named(&self, name: &str) -> Option<Known> {
        if !self.provider.find_by_name {
            return None;
        }
        let found = self.provider.find_by_name(name);
        let mut visible = found.into_iter().filter(|known| self.provider.is_visible(&known.record));
        visible.next().filter(|_| visible.next().is_none())
    }
}

/// A caller's text inside a message: bounded, and without anything that moves a terminal.
fn shown(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
