//! GET and LIST: from memory, through the mapping's view.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::Provisioner;
use super::answer::problem_of;
use super::update::look_live;
use crate::engine::problem::Problem;
use crate::engine::status::Observation;
use crate::engine::view::Header;
use crate::provider::{Instance, Known};
use crate::record::State;

/// Items on a page where the caller does not say.
const PAGE: usize = 50;
const LARGEST_PAGE: usize = 1000;

/// How long a request that came before the first complete list waits for it.
const SYNC_PATIENCE: Duration = Duration::from_secs(5);

impl Provisioner {
    pub async fn get(&self, id: &str) -> Result<Value, Problem> {
        let known = self.resolve(id).await?;
        if let Some(answer) = self.present(known.clone()) {
            return Ok(answer);
        }
        // A store may have begun with an old list: only the cluster proves an absence. Memory learns what it has.
        let live = look_live(&self.provider, &known.record).await;
        let live = live.map_err(|refusal| problem_of(&refusal, "reading an object"))?;
        let answer =
            if live.is_empty() || seeded!("memory-proves-absence") { None } else { self.present(known) };
        answer.ok_or_else(|| Problem::not_found(format!("there is no instance `{}`", super::shown(id))))
    }

    pub async fn list(&self, size: Option<&str>, token: Option<&str>) -> Result<Value, Problem> {
        let size = page_size(size)?;
        let scope = &self.provider.service.collection;
        let mut after = match token.filter(|token| !token.is_empty()) {
            Some(token) => Some(self.tokens.read(scope, token).await?),
            None => None,
        };
        self.require_sync().await?;
        let mut items = Vec::new();
        // One more than the page holds, to know whether there is another page.
        'pages: loop {
            let ids = self.provider.ids_after(after.as_deref(), size + 1);
            let Some(last) = ids.last().cloned() else { break };
            for id in ids {
                let Some(known) = self.provider.find(&id) else { continue };
                if !self.provider.is_visible(&known.record) {
                    continue;
                }
                let Some(item) = self.present(known) else { continue };
                items.push((id, item));
                if items.len() > size {
                    break 'pages;
                }
            }
            after = Some(last);
        }
        let mut answer = serde_json::Map::new();
        let next = match items.len() > size {
            true => Some(self.tokens.write(scope, &items[size - 1].0).await?),
            false => None,
        };
        let page: Vec<Value> = items.into_iter().take(size).map(|(_, item)| item).collect();
        answer.insert(self.provider.service.list_key.clone(), Value::Array(page));
        if let Some(token) = next {
            answer.insert("next_page_token".to_owned(), json!(token));
        }
        Ok(Value::Object(answer))
    }

    /// The answer for an instance that exists; the caller has just made or found it.
    pub(super) fn show(&self, known: Known) -> Result<Value, Problem> {
        let gone = || Problem::not_found("the instance is gone");
        self.present(known).ok_or_else(gone)
    }

    /// The answer of a repeated create: the same instance, with its status as it is now, also when it has
    /// ended since.
    pub(super) fn replay(&self, known: Known) -> Value {
        let instance = self.provider.instance(known);
        let seen = self.provider.standing(&instance);
        self.document(&instance, seen)
    }

    /// The answer for an instance; none where its status says that it is gone.
    fn present(&self, known: Known) -> Option<Value> {
        let provider = &self.provider;
        let instance = provider.instance(known);
        let seen = provider.standing(&instance);
        let deleting = instance.known.record.state == State::Deleting;
        (seen.status != provider.service.status.gone || deleting).then(|| self.document(&instance, seen))
    }

    /// A rule of the view that fails must not hide the instance, nor cost everybody the list: what the
    /// engine itself knows is shown without it.
    fn document(&self, instance: &Instance, seen: Observation) -> Value {
        let header = Header {
            status: seen.status,
            status_message: seen.message,
            create_time: instance.known.record.create_time.clone(),
        };
        let service = &self.provider.service;
        service.view(&instance.identity, &instance.inputs, &header).unwrap_or_else(|error| {
            tracing::error!(id = instance.identity.id, %error, "the view failed; the instance is shown without it");
            service.bare_view(&instance.identity, &instance.inputs, &header)
        })
    }

    /// Before the first complete list, an absence in memory means nothing: a start is waited for.
    pub(super) async fn require_sync(&self) -> Result<(), Problem> {
        let patience = SYNC_PATIENCE.min(self.provider.request_timeout / 2);
        let synced = timeout(patience, self.provider.wait_synced()).await;
        synced.map_err(|_| Problem::unavailable("the provider has not read the cluster yet; try again", 1))
    }
}

fn page_size(size: Option<&str>) -> Result<usize, Problem> {
    let Some(text) = size else { return Ok(PAGE) };
    match text.parse() {
        Ok(size) if (1..=LARGEST_PAGE).contains(&size) => Ok(size),
        _ => Err(Problem::invalid_argument(format!(
            "max_page_size is a whole number from 1 to {LARGEST_PAGE}"
        ))),
    }
}
