//! Tokens that the cluster knows, and what it lets their holders do: asked of it, and remembered briefly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::{Caller, Right};
use crate::cluster::{Account, Cluster, Meant, Refusal};
use crate::engine::names::sha256;
use crate::engine::problem::Problem;

/// The group of our resources in rules. They are no objects of the cluster, and their paths are no rule's
/// matter: every account may read what is under `/api`.
const GROUP: &str = "dcm.project";

/// How long an answer holds: so late is a token that was revoked, or a right that was taken away, noticed.
const HOLDS: Duration = Duration::from_secs(10);

/// Tokens that are remembered at a time.
const MOST: usize = 1024;

/// Questions to the cluster at a time: whoever sends tokens that nobody knows must not drown it.
const ASKED_AT_A_TIME: usize = 8;

/// Asks the cluster who holds a token. Clones share what is remembered.
#[derive(Clone)]
pub struct Reviews {
    cluster: Cluster,
    /// For whom a token must have been made; empty where the API server's own audience is meant.
    audiences: Vec<String>,
    /// Where rules must stand.
    namespace: String,
    known: Arc<Mutex<HashMap<[u8; 32], Known>>>,
    asking: Arc<Semaphore>,
}

/// What the cluster said of one token.
struct Known {
    asked: Instant,
    account: Option<Arc<Account>>,
    rights: HashMap<Right, bool>,
}

impl Reviews {
    #[must_use]
    pub fn new(cluster: Cluster, audiences: Vec<String>, namespace: String) -> Self {
        let asking = Arc::new(Semaphore::new(ASKED_AT_A_TIME));
        Self { cluster, audiences, namespace, known: Arc::default(), asking }
    }

    /// Whose token this is, if that one has the right.
    pub(super) async fn judge(&self, token: &str, right: Option<&Right>) -> Result<Caller, Problem> {
        let key = sha256(token);
        let account = match self.remembered(&key) {
            Some(account) => account,
            None => self.ask_account(key, token).await?,
        };
        let Some(account) = account else {
            return Err(Problem::unauthenticated(
                "the cluster does not know the bearer token; send a current one",
            ));
        };
        if let Some(right) = right
            && !self.has(&key, &account, right).await?
        {
            return Err(Problem::permission_denied(format!(
                "the holder of the token may not {right}; bind a Role with that verb on that resource of {GROUP}"
            )));
        }
        Ok(Caller(account.name.clone()))
    }

    fn remembered(&self, key: &[u8; 32]) -> Option<Option<Arc<Account>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|known| known.asked.elapsed() < HOLDS).map(|known| known.account.clone())
    }

    async fn ask_account(&self, key: [u8; 32], token: &str) -> Result<Option<Arc<Account>>, Problem> {
        let _asking = self.asking.acquire().await;
        if let Some(account) = self.remembered(&key) {
            return Ok(account);
        }
        let account =
            self.cluster.account_of(token, &self.audiences).await.map_err(unanswered)?.map(Arc::new);
        let fresh = Known { asked: Instant::now(), account: account.clone(), rights: HashMap::new() };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, known| known.asked.elapsed() < HOLDS);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, fresh);
        Ok(account)
    }

    async fn has(&self, key: &[u8; 32], account: &Account, right: &Right) -> Result<bool, Problem> {
        let said = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(key).and_then(|known| known.rights.get(right).copied())
        };
        if let Some(said) = said {
            return Ok(said);
        }
        let _asking = self.asking.acquire().await;
        let meant = Meant {
            namespace: &self.namespace,
            group: GROUP,
            verb: right.verb,
            resource: &right.resource,
            subresource: right.action.as_deref().unwrap_or_default(),
        };
        let said = self.cluster.may(account, &meant).await.map_err(unanswered)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(key) {
            known.rights.insert(right.clone(), said);
        }
        Ok(said)
    }
}

fn unanswered(refusal: Refusal) -> Problem {
    tracing::warn!(error = refusal.message, "the cluster cannot be asked about a token");
    Problem::unavailable("the cluster cannot be asked who holds the token; try again", 1)
}
