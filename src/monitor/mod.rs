//! From observation to event: what changed, what the table says of it, and what is owed to DCM.
//!
//! One loop a service type owns the ledger, so that nothing is locked; everything that waits (publishing,
//! and the chores that end an instance) runs beside it and comes back as news.

mod chores;
mod deliver;
mod standby;

pub use standby::take_turns;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, select_all, unfold};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};

use crate::bus::{Bus, Link};
use crate::engine::status::Observation;
use crate::ledger::{Ledger, Outgoing, Report};
use crate::provider::{InUse, Instance, Known, Provider};
use crate::record::State;
use chores::{Chore, Done};
use deliver::{Sent, Shelf};

/// The monitor of one service type.
pub struct Monitor {
    /// Of the revision that is in use now; what is under way ends with the one that it began with.
    provider: Arc<Provider>,
    in_use: InUse,
    bus: Bus,
    ledger: Ledger,
    /// Where deliveries are remembered; none until the bus has said where that is.
    shelf: Option<Shelf>,
    settings: MonitorSettings,
    started: Instant,
    chores: JoinSet<Done>,
    /// Instances with a chore under way; news of them waits for its end.
    busy: HashSet<String>,
    /// Instances of which there was news while they had a chore.
    missed: HashSet<String>,
    sending: JoinSet<Sent>,
    /// Since when something has been seen unfinished, by the claim of its record.
    creating: HashMap<String, Instant>,
    /// Deletions whose objects this process has swept once.
    swept: HashSet<(String, u64)>,
    state: watch::Sender<MonitorState>,
}

/// What the monitor needs to know beside its provider.
#[derive(Clone, Debug)]
pub struct MonitorSettings {
    pub window: Duration,
    pub bucket: String,
    pub state_directory: std::path::PathBuf,
    /// How long a shutdown may flush.
    pub shutdown_timeout: Duration,
}

/// How the monitor stands, for health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorState {
    /// Where deliveries are remembered, or why that is not known yet.
    pub ledger: String,
    /// Instances with a report that is not delivered.
    pub owing: usize,
    /// Chores under way, and messages under way.
    pub queued: usize,
    pub sending: usize,
    /// Reports that arrived, and attempts that did not, since the process began.
    pub delivered: u64,
    pub failed: u64,
    /// Rules that failed to evaluate since this revision of the mapping is in use.
    pub rule_errors: u64,
}

/// How often creates that died and tombstones are looked at.
const SWEEP: Duration = Duration::from_secs(5);

/// How long a bus that does not answer is left alone before it is asked for the ledger again.
const OPEN_AGAIN: Duration = Duration::from_millis(500);

impl Monitor {
    fn new(
        mut in_use: InUse,
        bus: Bus,
        settings: MonitorSettings,
        state: watch::Sender<MonitorState>,
    ) -> Self {
        let provider = in_use.borrow_and_update().clone();
        Self {
            ledger: Ledger::new(settings.window),
            shelf: None,
            started: Instant::now(),
            chores: JoinSet::new(),
            busy: HashSet::new(),
            missed: HashSet::new(),
            sending: JoinSet::new(),
            creating: HashMap::new(),
            swept: HashSet::new(),
            provider,
            in_use,
            bus,
            settings,
            state,
        }
    }

    /// Runs until `shutdown`, then flushes what is owed.
    async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        let mut changes = loop {
            let provider = self.provider.clone();
            tokio::select! {
                () = provider.wait_synced() => break changes(&provider),
                Ok(()) = self.in_use.changed() => drop(self.take_revision()),
                () = asked_to_stop(&mut shutdown) => return,
            }
        };
        let mut link = self.bus.link();
        let mut sweep = interval(SWEEP);
        let mut open = interval(OPEN_AGAIN);
        loop {
            self.publish_due();
            self.tell_state();
            let deadline = self.deadline();
            tokio::select! {
                () = asked_to_stop(&mut shutdown) => break,
                Some(keys) = changes.next() => self.see(keys),
                Some(Ok(sent)) = self.sending.join_next() => self.note_sent(sent),
                Some(Ok(done)) = self.chores.join_next() => self.note_done(done),
                Ok(()) = link.changed() => self.note_link(&link),
                Ok(()) = self.in_use.changed() => changes = self.take_revision(),
                _ = open.tick(), if self.shelf.is_none() => self.open_shelf().await,
                () = sleep_until(deadline) => {}
                _ = sweep.tick() => self.sweep(),
            }
        }
        let limit = self.settings.shutdown_timeout;
        if timeout(limit, self.flush()).await.is_err() {
            tracing::warn!(
                owing = self.ledger.owing(),
                "the shutdown ended before every event was delivered"
            );
        }
    }

    /// From now on the rules of another revision hold. All its stores hold is looked at anew, and the ledger
    /// knows what of that is news.
    fn take_revision(&mut self) -> BoxStream<'static, Vec<String>> {
        self.provider = self.in_use.borrow_and_update().clone();
        // What failed were the rules of the former one.
        self.state.send_modify(|state| state.rule_errors = 0);
        changes(&self.provider)
    }

    /// Everything that waits goes out now; what the bus does not take in time stays owed by the records.
    async fn flush(&mut self) {
        if self.shelf.is_none() {
            self.open_shelf().await;
        }
        self.ledger.flush();
        loop {
            self.publish_due();
            match self.sending.join_next().await {
                Some(Ok(sent)) => self.note_sent(sent),
                Some(Err(_)) => {}
                None if self.ledger.owing() == 0 || self.shelf.is_none() => return,
                None => sleep_until(self.deadline()).await,
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn deadline(&self) -> Instant {
        let next = self.ledger.next_deadline().filter(|_| self.shelf.is_some());
        self.started + next.unwrap_or(self.now() + Duration::from_secs(3600))
    }

    fn see(&mut self, keys: Vec<String>) {
        let ids: HashSet<String> = keys.iter().filter_map(|key| self.provider.id_of_key(key)).collect();
        for id in ids {
            self.look_at(&id);
        }
    }

    /// One instance changed: what is to be said of it, and what is to be done?
    fn look_at(&mut self, id: &str) {
        if self.busy.contains(id) {
            self.missed.insert(id.to_owned());
            return;
        }
        let Some(known) = self.provider.find(id) else { return self.miss(id) };
        let record = &known.record;
        // The end of a former life is owed before anything of this one.
        if let Some(life) = record.owed_end.filter(|life| *life < record.life) {
            self.end_of(id, life, &known);
        }
        match record.state {
            State::Ready if !record.old.is_empty() && record.owed_end.is_none() => {
                self.begin(Chore::Settle(known.clone(), 0));
                self.report(known);
            }
            State::Ready => self.report(known),
            State::Creating if self.provider.is_visible(record) => self.report(known),
            State::Creating => {
                let claim = record.claim.clone();
                self.creating.entry(claim).or_insert_with(Instant::now);
            }
            State::Deleting if !self.provider.roots_left(record) => self.end_if_gone(known),
            State::Deleting
                if !seeded!("no-removal") && self.swept.insert((record.id.clone(), record.life)) =>
            {
                self.begin(Chore::Remove(known.clone()));
                self.report(known);
            }
            State::Deleting => self.report(known),
            State::Tombstone => {}
        }
    }

    /// The roots are gone; what they leave behind may take its time, and nothing is said meanwhile.
    fn end_if_gone(&mut self, known: Known) {
        let instance = self.provider.instance(known);
        let seen = self.provider.service.observe(&instance.identity, &instance.inputs);
        if seen.is_ok_and(|seen| seen.status == self.provider.service.status.gone) {
            self.begin(Chore::End(instance.known));
        }
    }

    /// An instance that was reported, and of which nothing is left in memory, not even a record.
    fn miss(&mut self, id: &str) {
        if self.ledger.open_life(id).is_some() {
            self.begin(Chore::Vanish(id.to_owned()));
        }
    }

    /// What the table says goes into the ledger; an instance that is gone is ended first.
    fn report(&mut self, known: Known) {
        let instance = self.provider.instance(known);
        let id = instance.known.record.id.clone();
        let seen = match self.provider.observe(&instance) {
            Ok(seen) => seen,
            Err(error) => {
                tracing::error!(id, %error, "a status rule failed; the previous status stands");
                self.state.send_modify(|state| state.rule_errors += 1);
                return;
            }
        };
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.tell_why(&instance);
        }
        if seen.status == self.provider.service.status.gone {
            self.begin(Chore::End(instance.known));
        } else if !seen.kept {
            let life = instance.identity.life;
            let from = self.ledger.stands_at(&id, life);
            let settling = self.provider.service.settles(from, &seen.status);
            let report = Report { status: seen.status, message: seen.message, settling };
            self.ledger.observe(self.now(), &id, life, report);
        }
    }

    /// The debug log says of a status what `mapwright explain --status` prints.
    fn tell_why(&self, instance: &Instance) {
        if let Ok(why) = self.provider.service.explain_status(&instance.identity, &instance.inputs) {
            let Observation { rule, status, message, .. } = &why.observation;
            tracing::debug!(id = instance.known.record.id, rule, status, message, %why, "observed");
        }
    }

    /// The end of a life is said once; where it has been said already, the record learns that.
    fn end_of(&mut self, id: &str, life: u64, known: &Known) {
        let status = self.provider.service.status.gone.clone();
        let message = self.last_words(known);
        self.ledger.gone(self.now(), id, life, Report { status, message, settling: false });
        if !self.ledger.owes(id) {
            self.begin(Chore::Settle(known.clone(), life));
        }
    }

    /// What the table says when nothing is left of an instance.
    fn last_words(&self, known: &Known) -> String {
        let mut instance = self.provider.instance(known.clone());
        instance.inputs.observed.iter_mut().for_each(Vec::clear);
        let seen = self.provider.service.observe(&instance.identity, &instance.inputs);
        seen.map(|seen| seen.message).unwrap_or_default()
    }

    fn begin(&mut self, chore: Chore) {
        if self.busy.insert(chore.id().to_owned()) {
            self.chores.spawn(chore.run(self.provider.clone()));
        }
    }

    fn note_done(&mut self, done: Done) {
        let id = done.id().to_owned();
        self.busy.remove(&id);
        self.follow(done);
        if self.missed.remove(&id) {
            self.look_at(&id);
        }
    }

    fn follow(&mut self, done: Done) {
        match done {
            Done::Ended(known) => match known.record.owed_end {
                Some(life) => self.end_of(&known.record.id.clone(), life, &known),
                None => self.begin(Chore::Settle(*known, 0)),
            },
            Done::Again(id) => self.look_at(&id),
            Done::Dropped(id) => self.forget(&id),
            Done::Vanished(id) => {
                let life = self.ledger.open_life(&id).unwrap_or_default();
                let (status, message) = (self.provider.service.status.gone.clone(), "vanished".to_owned());
                self.ledger.gone(self.now(), &id, life, Report { status, message, settling: false });
            }
            // The next sweep tries again; looking at once would spin while the cluster is away.
            Done::Failed(id) => self.swept.retain(|(swept, _)| *swept != id),
        }
    }

    /// Nothing is remembered of an id whose record is gone.
    fn forget(&mut self, id: &str) {
        self.ledger.forget(id);
        self.provider.note_delivered(id, None);
        self.swept.retain(|(swept, _)| swept != id);
        if let Some(shelf) = &self.shelf {
            shelf.forget(id);
        }
    }

    /// Whatever died half-way is completed or cleared away, by this process or by a former one.
    fn sweep(&mut self) {
        let patience = self.provider.request_timeout * 2;
        for known in self.provider.unfinished() {
            let record = &known.record;
            let visible = self.provider.is_visible(record);
            let since = *self.creating.entry(record.claim.clone()).or_insert_with(Instant::now);
            match record.state {
                State::Creating if seeded!("no-completion") => {}
                State::Creating if visible || since.elapsed() > patience => {
                    self.begin(Chore::Complete(known))
                }
                State::Ready if seeded!("no-resume") && record.pending.is_some() => {}
                State::Ready if record.pending.is_some() && since.elapsed() > patience => {
                    self.begin(Chore::Resume(known));
                }
                State::Tombstone if chores::is_over(record) => self.begin(Chore::Drop(known)),
                _ => self.look_at(&known.record.id.clone()),
            }
        }
        self.creating.retain(|_, since| since.elapsed() < patience * 4);
    }

    fn note_link(&mut self, link: &watch::Receiver<Link>) {
        if link.borrow().up {
            self.ledger.retry_now();
        }
    }

    fn publish_due(&mut self) {
        let Some(shelf) = &self.shelf else { return };
        let due: Vec<Outgoing> = self.ledger.due(self.started.elapsed());
        for outgoing in due {
            self.sending.spawn(deliver::send(
                self.provider.clone(),
                self.bus.clone(),
                shelf.clone(),
                outgoing,
            ));
        }
    }

    fn tell_state(&self) {
        let (owing, queued, sending) = (self.ledger.owing(), self.chores.len(), self.sending.len());
        let ledger = match &self.shelf {
            Some(shelf) => shelf.to_string(),
            None => "not known until NATS answers".to_owned(),
        };
        self.state.send_if_modified(|state| {
            let now = (owing, queued, sending);
            let changed = (state.owing, state.queued, state.sending) != now || state.ledger != ledger;
            (state.owing, state.queued, state.sending) = now;
            state.ledger = ledger;
            changed
        });
    }
}

async fn asked_to_stop(shutdown: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same as one that says so.
    let _ = shutdown.wait_for(|stop| *stop).await;
}

/// The index keys that change in any store of a provider, as they change.
fn changes(provider: &Provider) -> BoxStream<'static, Vec<String>> {
    let streams = provider.all_stores().map(|store| {
        let follow = unfold(store.subscribe(), |mut changes| async move {
            let keys = changes.next().await;
            Some((keys, changes))
        });
        follow.boxed()
    });
    select_all(streams).boxed()
}
