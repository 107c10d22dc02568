//! The claim on an id: the record is made before anything else, and its name decides between rivals.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::answer::problem_of;
use super::{Provisioner, shown};
use crate::cluster::{Refusal, RefusalKind};
use crate::engine::problem::{Problem, ProblemKind};
use crate::provider::Known;
use crate::record::{Claim, Claimant, InstanceRecord, Method, State};

/// How a claim ended.
pub(super) enum Claimed {
    /// The id is ours; nothing of the instance has been made yet.
    Won(Known),
    /// An equal request came before; its instance is the answer.
    Earlier(Known),
}

/// How often a repeat looks whether the first request is done.
const WAIT: Duration = Duration::from_millis(100);

impl Provisioner {
    /// Claims the id of a record, or says who has it. `draft` makes the record of a given life.
    pub(super) async fn claim(
        &self,
        draft: impl Fn(u64) -> Result<InstanceRecord, Problem>,
        key: Option<&str>,
        digest: &str,
    ) -> Result<Claimed, Problem> {
        let first = draft(1)?;
        let deadline = Instant::now() + self.provider.request_timeout;
        match self.provider.create_record(first.clone()).await {
            Ok(known) => return Ok(Claimed::Won(known)),
            Err(refusal) if refusal.kind == RefusalKind::AlreadyExists => {}
            Err(refusal) if refusal.kind.leaves_doubt() => {}
            Err(refusal) => return Err(problem_of(&refusal, "claiming the id")),
        }
        loop {
            let found = self.provider.claimed_live(&first.id).await;
            let Some(known) = found.map_err(|refusal| problem_of(&refusal, "claiming the id"))? else {
                // It was there a moment ago, or our create never arrived: once more from the start.
                let made = self.provider.create_record(first.clone()).await;
                return made.map(Claimed::Won).map_err(|refusal| problem_of(&refusal, "claiming the id"));
            };
            let claimant = Claimant { provider: &self.provider.name, claim: &first.claim, key, digest };
            match known.record.claimed_by(claimant, self.roots_left_live(&known).await?) {
                Claim::Replay if known.record.claim == first.claim => return Ok(Claimed::Won(known)),
                Claim::Replay => return Ok(Claimed::Earlier(known)),
                Claim::Wait if Instant::now() < deadline => sleep(WAIT).await,
                Claim::Wait => {
                    return Err(Problem::unavailable("an equal request is still under way; try again", 1));
                }
                Claim::KeyReused => return Err(key_reused()),
                Claim::BeingDeleted => return Err(being_deleted(&first.id)),
                Claim::Taken => return Err(taken(&first.id)),
                Claim::NewLife { life } => match self.begin_life(&known, draft(life)?).await {
                    Ok(known) => return Ok(Claimed::Won(known)),
                    Err(refusal) if refusal.kind == RefusalKind::Conflict => {}
                    Err(refusal) => return Err(problem_of(&refusal, "claiming the id")),
                },
            }
        }
    }

    /// The instance that an earlier request with this key made, before anything is judged anew: a repeat
    /// gets the same answer whatever has changed since.
    pub(super) async fn earlier(
        &self,
        id: &str,
        key: Option<&str>,
        digest: &str,
    ) -> Result<Option<Known>, Problem> {
        let Some(key) = key else { return Ok(None) };
        let live = self.provider.claimed_live(id).await;
        let live = live.map_err(|refusal| problem_of(&refusal, "reading the record"))?;
        let Some(known) = live else { return Ok(None) };
        match known.record.key_use(Some(key), Method::Create) {
            Some(used) if used.digest != digest => Err(key_reused()),
            Some(_) if known.record.state != State::Creating => Ok(Some(known)),
            _ => Ok(None),
        }
    }

    /// A new life takes the record over; what the former one left behind and what it owes stays with it.
    async fn begin_life(&self, former: &Known, mut record: InstanceRecord) -> Result<Known, Refusal> {
        record.old = former.record.all_planned().cloned().collect();
        record.owed_end = former.record.owed_end;
        self.update_record(former, record).await
    }

    /// Writes a record under the version that was read.
    pub(super) async fn update_record(
        &self,
        known: &Known,
        record: InstanceRecord,
    ) -> Result<Known, Refusal> {
        self.provider.update_record(known, record).await
    }

    /// Whether a root of a record that is being deleted is still in the cluster.
    async fn roots_left_live(&self, known: &Known) -> Result<bool, Problem> {
        if known.record.state != State::Deleting {
            return Ok(false);
        }
        let gone = super::confirm_gone(&self.provider, &known.record).await;
        gone.map(|gone| !gone).map_err(|refusal| problem_of(&refusal, "claiming the id"))
    }
}

pub(super) fn taken(id: &str) -> Problem {
    Problem::already_exists(format!("the id `{}` is taken; choose another one", shown(id)))
}

pub(super) fn key_reused() -> Problem {
    let detail = "the Idempotency-Key came with another body before; use a new key for a new request";
    Problem::new(ProblemKind::FailedPrecondition, detail)
}

pub(super) fn being_deleted(id: &str) -> Problem {
    Problem::conflict(format!("the instance `{}` is being deleted; try again when it is gone", shown(id)))
}
