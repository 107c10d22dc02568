//! Page tokens under one key of all replicas: the first one makes it, and the cluster keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::answer::problem_of;
use crate::cluster::{RecordStore, Refusal, RefusalKind};
use crate::engine::problem::Problem;
use crate::engine::token;

/// Writes and reads page tokens under a random key that all replicas share through the cluster.
#[derive(Clone)]
pub struct PageTokens {
    records: RecordStore,
    key: Arc<OnceCell<String>>,
}

/// The label that marks where the key is kept.
pub const KEY_MARKER: (&str, &str) = ("mapwright.dcm.project/page-tokens", "key");

const KEY_NAME: &str = "dcm-page-tokens";

impl PageTokens {
    pub fn new(records: RecordStore) -> Self {
        Self { records, key: Arc::default() }
    }

    /// The token of the page after this id of a collection.
    pub(super) async fn write(&self, collection: &str, last: &str) -> Result<String, Problem> {
        Ok(token::signed(self.key().await?, collection, last))
    }

    /// The id after which the page begins.
    pub(super) async fn read(&self, collection: &str, token: &str) -> Result<String, Problem> {
        let key = self.key().await?;
        token::position(key, collection, token).ok_or_else(|| {
            Problem::invalid_argument("the page_token was not issued for this list; begin without one")
        })
    }

    async fn key(&self) -> Result<&str, Problem> {
        let key = self.key.get_or_try_init(|| self.shared_key()).await;
        key.map(String::as_str).map_err(|refusal| problem_of(&refusal, "reading the key of page tokens"))
    }

    /// The key that the first replica made.
    async fn shared_key(&self) -> Result<String, Refusal> {
        let fresh = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let none = BTreeMap::new();
        let stored = match self.records.create(KEY_NAME, &none, &none, &json!({ "key": fresh })).await {
            Err(refusal) if refusal.kind == RefusalKind::AlreadyExists => self.records.read(KEY_NAME).await?,
            created => Some(created?),
        };
        let key = stored.as_ref().and_then(|stored| stored.value.get("key")?.as_str());
        let missing = || Refusal::new(RefusalKind::Other, format!("the record {KEY_NAME} holds no key"));
        key.map(str::to_owned).ok_or_else(missing)
    }
}
