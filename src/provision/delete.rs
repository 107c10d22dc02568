//! A deletion: the record says so first, then everything of the instance goes.

use super::answer::problem_of;
use super::{Provisioner, remove_objects};
use crate::cluster::{Refusal, RefusalKind};
use crate::engine::names::DNS_LABEL;
use crate::engine::problem::Problem;
use crate::provider::Known;
use crate::record::{InstanceRecord, Method, State};

impl Provisioner {
    pub async fn delete(&self, id: &str, key: Option<&str>) -> Result<(), Problem> {
        let known = match self.resolve(id).await {
            Ok(known) => known,
            Err(problem) => {
                return if self.was_deleted_with(id, key).await? { Ok(()) } else { Err(problem) };
            }
        };
        let known = self.mark_deleted(known, key).await?;
        remove_objects(&self.provider, &known.record.id, known.record.all_planned())
            .await
            .map_err(|refusal| problem_of(&refusal, "deleting an object"))
    }

    /// The record says that the instance is wanted no more, and that its end is owed as an event.
    async fn mark_deleted(&self, mut known: Known, key: Option<&str>) -> Result<Known, Problem> {
        loop {
            if known.record.state == State::Deleting {
                return Ok(known);
            }
            let mut record = InstanceRecord {
                state: State::Deleting,
                owed_end: (!seeded!("forget-owed-end")).then_some(known.record.life),
                pending: None,
                ..known.record.clone()
            };
            record.use_key(key, Method::Delete, "");
            match self.update_record(&known, record).await {
                Ok(known) => return Ok(known),
                Err(refusal) if is_overtaken(&refusal) => {
                    known = self.reread(&known.record.id).await?;
                }
                Err(refusal) => return Err(problem_of(&refusal, "marking the record")),
            }
        }
    }

    /// The record as it is now, where a version that was read is out of date.
    pub(super) async fn reread(&self, id: &str) -> Result<Known, Problem> {
        let live = self.provider.find_live(id).await;
        let live = live.map_err(|refusal| problem_of(&refusal, "reading the record"))?;
        live.filter(|known| known.record.state != State::Tombstone)
            .ok_or_else(|| Problem::not_found(format!("there is no instance `{}`", super::shown(id))))
    }

    /// Whether a deletion with this key has been answered before.
    async fn was_deleted_with(&self, id: &str, key: Option<&str>) -> Result<bool, Problem> {
        if key.is_none() {
            return Ok(false);
        }
        let mut candidates = self.provider.find_by_name(id);
        if DNS_LABEL.accepts(id) {
            let live = self.provider.find_live(id).await;
            candidates.extend(live.map_err(|refusal| problem_of(&refusal, "reading the record"))?);
        }
        Ok(candidates.iter().any(|known| known.record.key_use(key, Method::Delete).is_some()))
    }
}

/// Somebody else wrote the record first; an adopted instance has its record created by the first write.
pub(super) fn is_overtaken(refusal: &Refusal) -> bool {
    matches!(refusal.kind, RefusalKind::Conflict | RefusalKind::AlreadyExists)
}
