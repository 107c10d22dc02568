//! What the monitor must do in the cluster: each chore can be repeated, so each may die at any point.

use std::sync::Arc;

use jiff::{Span, Timestamp};

use crate::cluster::{Refusal, RefusalKind};
use crate::provider::{Known, Provider, now};
use crate::provision::{complete, confirm_gone, remove_objects, resume};
use crate::record::{InstanceRecord, State};

/// One piece of work for one instance.
pub(super) enum Chore {
    /// Memory holds no root any more: if the cluster agrees, the rest goes and the end is owed.
    End(Known),
    /// A deletion may have died before it deleted everything.
    Remove(Known),
    /// The end of this life has been said: the record may forget it.
    Settle(Known, u64),
    /// A create died: completed where everything is there, else cleared away.
    Complete(Known),
    /// An update died between its checks and its last object.
    Resume(Known),
    /// A tombstone has been kept long enough.
    Drop(Known),
    /// Memory has neither record nor objects of an id that was reported.
    Vanish(String),
}

/// How a chore ended.
pub(super) enum Done {
    /// No root is left, and nothing else of the instance.
    Ended(Box<Known>),
    /// The record is gone, and with it all memory of the id.
    Dropped(String),
    /// Nothing of the instance is left, and no record says what became of it.
    Vanished(String),
    /// Something changed: look at the instance again.
    Again(String),
    Failed(String),
}

/// How long a tombstone is kept: until every replica has seen the end, and while a key may be repeated.
const KEPT_MINUTES: i64 = 5;
const KEPT_FOR_KEYS_MINUTES: i64 = 24 * 60;

impl Chore {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::End(known)
            | Self::Remove(known)
            | Self::Settle(known, _)
            | Self::Complete(known)
            | Self::Resume(known)
            | Self::Drop(known) => &known.record.id,
            Self::Vanish(id) => id,
        }
    }

    pub(super) async fn run(self, provider: Arc<Provider>) -> Done {
        let id = self.id().to_owned();
        match self.try_run(&provider).await {
            Ok(done) => done,
            // Somebody else was faster: the watch brings what they wrote.
            Err(refusal) if refusal.kind == RefusalKind::Conflict => Done::Failed(id),
            Err(refusal) => {
                tracing::warn!(id, error = refusal.message, "a chore failed and is tried again");
                Done::Failed(id)
            }
        }
    }

    async fn try_run(self, provider: &Provider) -> Result<Done, Refusal> {
        match self {
            Self::End(known) => end(provider, known).await,
            Self::Remove(known) => {
                remove_objects(provider, &known.record.id, known.record.all_planned()).await?;
                Ok(Done::Again(known.record.id))
            }
            Self::Settle(known, life) => settle(provider, &known, life).await,
            Self::Complete(known) => {
                complete(provider, &known).await?;
                Ok(Done::Again(known.record.id))
            }
            Self::Resume(known) => {
                resume(provider, &known).await?;
                Ok(Done::Again(known.record.id))
            }
            Self::Vanish(id) => match provider.find_live(&id).await? {
                Some(_) => Ok(Done::Again(id)),
                None => Ok(Done::Vanished(id)),
            },
            Self::Drop(known) => {
                provider.drop_record(&known).await?;
                Ok(Done::Dropped(known.record.id))
            }
        }
    }
}

impl Done {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Ended(known) => &known.record.id,
            Self::Dropped(id) | Self::Vanished(id) | Self::Again(id) | Self::Failed(id) => id,
        }
    }
}

async fn end(provider: &Provider, known: Known) -> Result<Done, Refusal> {
    // The store may be behind: only the cluster itself proves an absence.
    let Some(live) = provider.find_live(&known.record.id).await? else {
        return Ok(Done::Failed(known.record.id));
    };
    if !confirm_gone(provider, &live.record).await? {
        return Ok(Done::Failed(live.record.id));
    }
    let known = match live.record.state {
        State::Deleting => live,
        // Another create, whose objects are still to come: the watch brings it.
        State::Creating if live.record.claim != known.record.claim => {
            return Ok(Done::Failed(live.record.id));
        }
        State::Tombstone => return Ok(Done::Failed(live.record.id)),
        // What was visible was made, also where its record does not say so yet.
        State::Ready | State::Creating => {
            let owed_end = Some(live.record.life);
            let record = InstanceRecord { state: State::Deleting, owed_end, ..live.record.clone() };
            let known = provider.update_record(&live, record).await?;
            provider.record_says_so(&known.record.id);
            known
        }
    };
    remove_objects(provider, &known.record.id, known.record.all_planned()).await?;
    Ok(Done::Ended(Box::new(known)))
}

/// The record forgets an end that was delivered, and what former lives left behind; where that was the last
/// life, a tombstone is left.
async fn settle(provider: &Provider, known: &Known, life: u64) -> Result<Done, Refusal> {
    let Some(live) = provider.find_live(&known.record.id).await? else {
        return Ok(Done::Dropped(known.record.id.clone()));
    };
    let mut record = live.record.clone();
    if record.owed_end == Some(life) && !seeded!("never-settled") {
        record.owed_end = None;
    }
    if record.owed_end.is_none() {
        remove_objects(provider, &record.id, record.old.iter()).await?;
        record.old.clear();
    }
    if record.state == State::Deleting && record.owed_end.is_none() {
        record.state = State::Tombstone;
        record.end_time = Some(now());
        record.plan.clear();
    }
    provider.update_record(&live, record).await?;
    Ok(Done::Again(known.record.id.clone()))
}

/// Whether a tombstone has been kept long enough.
pub(super) fn is_over(record: &InstanceRecord) -> bool {
    let minutes = if record.keys.is_empty() { KEPT_MINUTES } else { KEPT_FOR_KEYS_MINUTES };
    let end = record.end_time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
    let over = end.and_then(|end| end.checked_add(Span::new().minutes(minutes)).ok());
    over.is_some_and(|over| over < crate::clock::now())
}
