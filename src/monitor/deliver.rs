//! One report on its way to DCM: published, acknowledged, remembered.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join;
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use super::Monitor;
use crate::bus::{Bus, BusError, Delivery, LedgerStore, Message};
use crate::cloudevent::{CloudEvent, Identity};
use crate::engine::inputs::Previous;
use crate::ledger::{Delivered, Outgoing};
use crate::provider::Provider;

/// Where the deliveries of one service type are remembered beyond the life of the process.
#[derive(Clone)]
pub(super) struct Shelf {
    store: LedgerStore,
    service_type: String,
    scope: String,
    /// What stands there, of each instance.
    kept: Arc<Mutex<HashMap<String, Kept>>>,
}

/// An entry: what was delivered, and in which cluster's namespace. An entry of another scope (another
/// cluster behind the same NATS) says nothing about this one.
#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    scope: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delivered: Option<Delivered>,
    /// What was sent after that, and may have arrived: a process that dies before it hears of it leaves this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<Delivered>,
}

/// An entry as this process has read or written it last.
#[derive(Clone, Default)]
struct Kept {
    /// The revision under which it may be replaced.
    revision: Option<u64>,
    delivered: Option<Delivered>,
    /// The number of the attempt that it names.
    attempt: Option<u64>,
}

/// What came of an attempt.
pub(super) struct Sent {
    outgoing: Outgoing,
    result: Result<Delivery, BusError>,
}

/// Publishes one report. That it is under way is noted first, on the same connection and without waiting; what
/// is acknowledged is remembered before the next report of the instance goes out. So a restart repeats at most
/// one report, and under its own number.
pub(super) async fn send(provider: Arc<Provider>, bus: Bus, shelf: Shelf, outgoing: Outgoing) -> Sent {
    let identity = Identity {
        provider: &provider.name,
        service_type: &provider.service.service_type,
        instance: &outgoing.id,
        life: outgoing.life,
        status: &outgoing.report.status,
        message: &outgoing.report.message,
        revision: outgoing.revision,
    };
    let mut event = CloudEvent::new(&identity, crate::clock::now().to_string());
    if seeded!("chance-ids") {
        event.id = uuid::Uuid::new_v4();
    }
    let message = Message {
        subject: event.envelope.subject.clone(),
        id: event.id.to_string(),
        payload: Bytes::from(event.to_bytes()),
        announced: outgoing.announced,
    };
    if seeded!("note-before-delivery") {
        shelf.remember(&outgoing).await;
    }
    let span =
        tracing::debug_span!("publish", kind = "producer", instance = outgoing.id, subject = message.subject);
    let ((), result) = join(shelf.note_attempt(&outgoing), bus.publish(&message)).instrument(span).await;
    if matches!(result, Ok(Delivery::Acknowledged | Delivery::Flushed)) {
        shelf.remember(&outgoing).await;
    }
    Sent { outgoing, result }
}

impl Monitor {
    pub(super) fn note_sent(&mut self, sent: Sent) {
        let Sent { outgoing, result } = sent;
        let now = self.now();
        match result {
            Ok(Delivery::Acknowledged | Delivery::Flushed) => {
                let Outgoing { id, report, .. } = &outgoing;
                tracing::info!(id, status = report.status, message = report.message, "reported");
                self.state.send_modify(|state| state.delivered += 1);
                self.ledger.delivered(&outgoing);
                self.delivered(&outgoing);
            }
            Ok(Delivery::NoStreamYet) => self.ledger.announced(now, &outgoing),
            Err(_) if seeded!("drop-on-publish-failure") => self.ledger.delivered(&outgoing),
            Err(error) => {
                tracing::debug!(id = outgoing.id, %error, "an event stays owed");
                self.state.send_modify(|state| state.failed += 1);
                self.ledger.failed(now, &outgoing);
            }
        }
    }

    fn delivered(&mut self, outgoing: &Outgoing) {
        self.provider.note_delivered(&outgoing.id, previous(&document(outgoing)));
        if !outgoing.ends {
            return;
        }
        match self.provider.find(&outgoing.id) {
            Some(known) if known.record.owed_end == Some(outgoing.life) => {
                self.begin(super::Chore::Settle(known, outgoing.life));
            }
            Some(_) => {}
            None => self.forget(&outgoing.id),
        }
    }

    /// Finds out where deliveries are remembered, and what was delivered before this process began.
    pub(super) async fn open_shelf(&mut self) {
        match Shelf::open(&self.provider, &self.bus, &self.settings).await {
            Ok((shelf, entries)) => {
                tracing::info!(ledger = %shelf, entries = entries.len(), "deliveries are remembered");
                let known: Vec<String> = entries.iter().map(|(id, _)| id.clone()).collect();
                for (id, entry) in entries {
                    if let Some(delivered) = entry.delivered {
                        self.provider.note_delivered(&id, previous(&delivered));
                        self.ledger.restore(&id, delivered);
                    }
                    if let Some(attempt) = entry.attempt {
                        self.ledger.restore_attempt(&id, attempt);
                    }
                }
                self.shelf = Some(shelf);
                // Ends that a former process delivered, and instances that vanished meanwhile.
                self.sweep();
                known.iter().for_each(|id| self.look_at(id));
            }
            Err(error) => tracing::debug!(%error, "the ledger cannot be opened yet"),
        }
    }
}

impl Shelf {
    pub(super) async fn open(
        provider: &Provider,
        bus: &Bus,
        settings: &super::MonitorSettings,
    ) -> Result<(Self, Vec<(String, Entry)>), BusError> {
        let store = LedgerStore::open(bus, &settings.bucket, &settings.state_directory).await?;
        let service_type = provider.service.service_type.clone();
        // Another cluster behind the same NATS must not pass for this one; where we may not ask, the
        // namespace's name is all there is.
        let place = provider.cluster.namespace_uid(&provider.namespace).await;
        let scope = format!("{}/{}", place.unwrap_or_else(|_| provider.namespace.clone()), provider.name);
        let shelf = Self { store, service_type, scope, kept: Arc::default() };
        let mut entries = Vec::new();
        for (key, stored) in shelf.store.load_all(&shelf.prefix()).await? {
            let Some(id) = key.strip_prefix(&shelf.prefix()) else { continue };
            let mut kept = Kept { revision: Some(stored.revision), ..Kept::default() };
            match serde_json::from_slice::<Entry>(&stored.value) {
                Ok(entry) if entry.scope == shelf.scope => {
                    kept.delivered.clone_from(&entry.delivered);
                    kept.attempt = entry.attempt.as_ref().map(|attempt| attempt.revision);
                    entries.push((id.to_owned(), entry));
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(key, %error, "an entry of the ledger cannot be read"),
            }
            shelf.kept().insert(id.to_owned(), kept);
        }
        Ok((shelf, entries))
    }

    /// Whether other replicas see what is remembered here.
    pub(super) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Tells each entry that somebody writes or removes, until the bus breaks off.
    pub(super) async fn follow(&self, mut tell: impl FnMut(&str, Option<Delivered>)) -> Result<(), BusError> {
        let prefix = self.prefix();
        let mut changes = self.store.follow().await?;
        while let Some((key, value)) = changes.next().await {
            let Some(id) = key.strip_prefix(&prefix) else { continue };
            let entry = value.and_then(|value| serde_json::from_slice::<Entry>(&value).ok());
            tell(id, entry.and_then(|entry| entry.delivered));
        }
        Ok(())
    }

    /// Ids of two providers may be equal, so an entry is named by provider, type and id.
    fn prefix(&self) -> String {
        format!("{}/{}/", self.scope, self.service_type)
    }

    async fn remember(&self, outgoing: &Outgoing) {
        self.put(&outgoing.id, Some(document(outgoing)), None).await;
    }

    /// Notes what is about to be sent, once for all attempts.
    async fn note_attempt(&self, outgoing: &Outgoing) {
        let kept = self.kept().get(&outgoing.id).cloned().unwrap_or_default();
        let noted = kept.attempt == Some(outgoing.revision);
        if !noted && !seeded!("no-note-of-attempts") && !seeded!("note-before-delivery") {
            self.put(&outgoing.id, kept.delivered, Some(document(outgoing))).await;
        }
    }

    async fn put(&self, id: &str, delivered: Option<Delivered>, attempt: Option<Delivered>) {
        let number = attempt.as_ref().map(|attempt| attempt.revision);
        let entry = Entry { scope: self.scope.clone(), delivered, attempt };
        let Ok(value) = serde_json::to_vec(&entry) else { return };
        if seeded!("no-ledger") {
            return;
        }
        let over = self.kept().get(id).and_then(|kept| kept.revision);
        match self.store.put(&format!("{}{id}", self.prefix()), value.into(), over).await {
            Ok(revision) => {
                let kept = Kept { revision: Some(revision), delivered: entry.delivered, attempt: number };
                self.kept().insert(id.to_owned(), kept);
            }
            // A restart repeats the event then; it is not lost.
            Err(error) => tracing::warn!(id, %error, "a delivery is not remembered"),
        }
    }

    /// Drops all memory of an id, beside the loop: nothing waits for it.
    pub(super) fn forget(&self, id: &str) {
        self.kept().remove(id);
        let (shelf, key) = (self.clone(), format!("{}{id}", self.prefix()));
        tokio::spawn(async move {
            if let Err(error) = shelf.store.delete(&key).await {
                tracing::warn!(key, %error, "an entry of the ledger is not removed");
            }
        });
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a rule that keeps the status keeps; nothing of a life that has ended.
pub(super) fn previous(delivered: &Delivered) -> Option<Previous> {
    let Delivered { status, message, ends, .. } = delivered;
    (!ends).then(|| Previous { status: status.clone(), message: message.clone() })
}

fn document(outgoing: &Outgoing) -> Delivered {
    Delivered {
        life: outgoing.life,
        status: outgoing.report.status.clone(),
        message: outgoing.report.message.clone(),
        settling: outgoing.report.settling,
        ends: outgoing.ends,
        revision: outgoing.revision,
    }
}

impl fmt::Display for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}
