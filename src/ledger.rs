//! What was last delivered for each instance, and what is still owed.
//!
//! Pure: time is an argument, a [`Duration`] since a start of the caller's choice, and nothing here sends.
//! The caller observes, asks [`Ledger::due`], sends, and answers with [`Ledger::delivered`],
//! [`Ledger::announced`] or [`Ledger::failed`]. The rules of one instance are in `instance.rs`;
//! this file keeps many of them and the agenda of who is due when.

mod instance;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use instance::Instance;

/// The ledger of one service type, keyed by instance id.
#[derive(Debug)]
pub struct Ledger {
    window: Duration,
    instances: HashMap<String, Instance>,
    /// Who may speak when: exactly one entry for each instance that owes something and has nothing in flight.
    agenda: BTreeSet<(Duration, String)>,
    /// Once set, nothing waits for a window any more: the process is about to end.
    flushing: bool,
}

/// What is to be said of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub status: String,
    pub message: String,
    /// The mapping marks this status as one that may heal by itself, so it waits out a window first.
    pub settling: bool,
}

/// A report that is to be published now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub id: String,
    pub life: u64,
    pub report: Report,
    /// This report ends the life: it came by [`Ledger::gone`].
    pub ends: bool,
    /// Counts what was sent for this id. A repeated attempt keeps its number, so that receivers drop the copy.
    pub revision: u64,
    /// The same report went out before, to whoever listened, but nothing has stored it yet.
    pub announced: bool,
}

/// What is known to have been delivered last: the document that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub life: u64,
    pub status: String,
    pub message: String,
    #[serde(default)]
    pub settling: bool,
    #[serde(default)]
    pub ends: bool,
    #[serde(default)]
    pub revision: u64,
}

// === impl Ledger ===

impl Ledger {
    /// An empty ledger whose windows have this length.
    pub fn new(window: Duration) -> Self {
        Self { window, instances: HashMap::new(), agenda: BTreeSet::new(), flushing: false }
    }

    /// Takes note of what an instance is now. The lives of one id count upwards until [`Self::forget`]:
    /// a report of an earlier life comes too late and is ignored.
    pub fn observe(&mut self, now: Duration, id: &str, life: u64, report: Report) {
        let window = self.window;
        self.change(id, |instance| instance.observe(now, window, life, report));
    }

    /// Takes note that a life has ended. This report is owed until it is delivered, before anything that a
    /// later life has to say, and in place of everything that this life still owed.
    pub fn gone(&mut self, now: Duration, id: &str, life: u64, report: Report) {
        let window = self.window;
        self.change(id, |instance| instance.gone(now, window, life, report));
    }

    /// What is to be published now; each of it is in flight until the caller answers for it.
    pub fn due(&mut self, now: Duration) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            let Some((_, id)) = self.agenda.pop_first() else {
                break;
            };
            let Some(instance) = self.instances.get_mut(&id) else {
                continue;
            };
            instance.scheduled = None;
            outgoing.extend(instance.send(now, self.window, &id));
        }
        outgoing
    }

    /// When [`Self::due`] has something next; a time in the past means at once.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.agenda.first().map(|(deadline, _)| *deadline)
    }

    /// The report has been acknowledged: [`Self::last_delivered`] is now what the caller should store.
    pub fn delivered(&mut self, outgoing: &Outgoing) {
        self.answer(outgoing, Instance::delivered);
    }

    /// The report was sent to whoever listens, but nothing stores it yet: it stays owed, marked as announced.
    pub fn announced(&mut self, now: Duration, outgoing: &Outgoing) {
        self.answer(outgoing, |instance| instance.failed(now, true));
    }

    /// The report may or may not have arrived: it stays owed unless something newer waits already.
    pub fn failed(&mut self, now: Duration, outgoing: &Outgoing) {
        self.answer(outgoing, |instance| instance.failed(now, false));
    }

    /// Ends the pauses after failures, for the moment at which the bus is back.
    pub fn retry_now(&mut self) {
        for id in self.known() {
            self.change(&id, Instance::retry_now);
        }
    }

    /// Makes everything that waits due at once, now and from now on, settling statuses included.
    pub fn flush(&mut self) {
        self.flushing = true;
        self.retry_now();
    }

    /// Drops all memory of an id, once its end has been delivered and its record is gone.
    pub fn forget(&mut self, id: &str) {
        if let Some(scheduled) = self.instances.remove(id).and_then(|instance| instance.scheduled) {
            self.agenda.remove(&(scheduled, id.to_owned()));
        }
    }

    /// Puts back what an earlier process, or another replica, has delivered.
    pub fn restore(&mut self, id: &str, delivered: Delivered) {
        self.change(id, |instance| instance.restore(delivered));
    }

    /// Puts back what an earlier process sent without hearing that it arrived. It is owed under its number,
    /// unless something else is the case by now; then that is owed, even where it was delivered before.
    pub fn restore_attempt(&mut self, id: &str, attempt: Delivered) {
        self.change(id, |instance| instance.restore_attempt(attempt));
    }

    /// The life of which receivers have heard, or are about to, and whose end they have not.
    pub fn open_life(&self, id: &str) -> Option<u64> {
        self.instances.get(id)?.open_life()
    }

    /// The previous status of an instance, for rules that keep it.
    pub fn last_delivered(&self, id: &str) -> Option<&Delivered> {
        self.instances.get(id)?.delivered.as_ref()
    }

    /// The status from which the next one of a life comes: what was observed last, delivered or not. While
    /// a status settles, that is the one before it.
    pub fn stands_at(&self, id: &str, life: u64) -> Option<&str> {
        self.instances.get(id)?.stands_at(life)
    }

    /// Whether anything about this id waits or is in flight.
    pub fn owes(&self, id: &str) -> bool {
        self.instances.get(id).is_some_and(Instance::owes)
    }

    /// How many instances owe something: a figure for health.
    pub fn owing(&self) -> usize {
        self.instances.values().filter(|instance| instance.owes()).count()
    }

    /// Every id that the ledger knows, so that a start can find those that vanished meanwhile.
    pub fn known(&self) -> Vec<String> {
        self.instances.keys().cloned().collect()
    }

    fn answer(&mut self, outgoing: &Outgoing, answered: impl FnOnce(&mut Instance)) {
        // An answer for an id that was forgotten meanwhile must not bring it back.
        let expected = self.instances.get(&outgoing.id).is_some_and(|instance| instance.awaits(outgoing));
        if expected {
            self.change(&outgoing.id, answered);
        }
    }

    /// Changes one instance and keeps the agenda true to it.
    fn change(&mut self, id: &str, act: impl FnOnce(&mut Instance)) {
        let instance = self.instances.entry(id.to_owned()).or_default();
        act(instance);
        let ready = instance.ready(self.window, self.flushing);
        if ready == instance.scheduled {
            return;
        }
        if let Some(scheduled) = instance.scheduled {
            self.agenda.remove(&(scheduled, id.to_owned()));
        }
        if let Some(ready) = ready {
            self.agenda.insert((ready, id.to_owned()));
        }
        instance.scheduled = ready;
    }
}
