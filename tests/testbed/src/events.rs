//! What was published on NATS, as a subscriber of DCM sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::failure::{Context, Failure, Result};
use crate::wait::eventually;

/// One message.
#[derive(Debug, Clone)]
pub struct Received {
    pub at: Instant,
    pub subject: String,
    /// The header `Nats-Msg-Id`.
    pub message_id: Option<String>,
    /// Null if it was no JSON.
    pub event: Value,
}

/// Collects from the moment it exists until it is dropped, also after NATS was away for a while.
#[derive(Debug)]
pub struct Events {
    received: Arc<Mutex<Vec<Received>>>,
    /// Whose events are meant; without one, everybody's.
    source: Option<String>,
    task: JoinHandle<()>,
}

impl Events {
    /// Subscribes to a subject such as `dcm.*`.
    pub async fn subscribe(nats_url: &str, subject: &str) -> Result<Self> {
        let options =
            async_nats::ConnectOptions::new().reconnect_delay_callback(|_| Duration::from_millis(50));
        let client = options.connect(nats_url).await.context(nats_url)?;
        let mut subscription = client.subscribe(subject.to_owned()).await?;
        // A question that nobody answers comes back from the server: so it has seen the subscription.
        let _ = client.request("testbed.nobody", Bytes::new()).await;
        let received = Arc::new(Mutex::new(Vec::new()));
        let shelf = received.clone();
        let task = tokio::spawn(async move {
            // The subscription lives as long as its client.
            let _client = client;
            while let Some(message) = subscription.next().await {
                let header = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id"));
                let entry = Received {
                    at: Instant::now(),
                    subject: message.subject.to_string(),
                    message_id: header.map(ToString::to_string),
                    event: serde_json::from_slice(&message.payload).unwrap_or(Value::Null),
                };
                locked(&shelf).push(entry);
            }
        });
        Ok(Self { received, source: None, task })
    }

    /// Only the events of this source: on a shared server the ids of two tests may be equal.
    #[must_use]
    pub fn of_source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// All messages so far, oldest first.
    pub fn received(&self) -> Vec<Received> {
        let mine = |message: &&Received| {
            self.source.as_ref().is_none_or(|source| message.event["source"] == source.as_str())
        };
        locked(&self.received).iter().filter(mine).cloned().collect()
    }

    /// The events of one instance, oldest first.
    pub fn of(&self, id: &str) -> Vec<Value> {
        let all = self.received().into_iter().map(|message| message.event);
        all.filter(|event| event["data"]["id"] == id).collect()
    }

    /// The statuses of one instance, in order.
    pub fn statuses(&self, id: &str) -> Vec<String> {
        let text = |event: &Value| event["data"]["status"].as_str().unwrap_or_default().to_owned();
        self.of(id).iter().map(text).collect()
    }

    /// Waits until the newest event of the instance has this status.
    pub async fn wait_for(&self, id: &str, status: &str, deadline: Duration) -> Result<Value> {
        let newest = async || self.of(id).pop().filter(|event| event["data"]["status"] == status);
        let what = format!("the newest event of {id} says {status}");
        let seen = eventually(&what, deadline, newest).await;
        seen.context(format!("events were {:?}", self.statuses(id)))
    }

    /// Waits the whole time and fails if an event of the instance came.
    pub async fn quiet(&self, id: &str, time: Duration) -> Result<()> {
        let before = self.of(id).len();
        tokio::time::sleep(time).await;
        let after = self.of(id);
        if after.len() == before {
            return Ok(());
        }
        Err(Failure::new(format!("{id} was to be quiet for {time:?}, but: {:?}", &after[before..])))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn locked(received: &Mutex<Vec<Received>>) -> MutexGuard<'_, Vec<Received>> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}
