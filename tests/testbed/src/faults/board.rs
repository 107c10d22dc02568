//! What has happened so far, and what the plan wants to happen now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::plan::{Act, Fault, Plan};

/// Something that a plan can disturb: its place, its number there, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub at: String,
    pub nth: usize,
    /// The object of an event; empty for what has none.
    pub about: String,
}

/// Shared by everything that takes part in a run.
pub(super) struct Board {
    faults: Vec<Fault>,
    state: Mutex<State>,
    kills: mpsc::UnboundedSender<()>,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<String, usize>,
    trace: Vec<Happening>,
    fired: usize,
    /// What was seen to be wrong while the run went on.
    complaints: Vec<String>,
    /// Kinds whose old versions the API server has forgotten: only a list helps.
    expired: BTreeSet<String>,
    /// Somebody else's objects that must not be touched: plural, name, uid.
    foreign: Vec<[String; 3]>,
}

impl Board {
    /// The receiver hears when the provider is to be killed.
    pub(super) fn new(plan: &Plan) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (kills, killed) = mpsc::unbounded_channel();
        (Self { faults: plan.faults.clone(), state: Mutex::default(), kills }, killed)
    }

    /// Counts one more of these, and says what the plan does to it.
    pub(super) fn reach(&self, at: &str, about: &str) -> Option<Act> {
        let mut state = self.state();
        let count = state.counts.entry(at.to_owned()).or_default();
        *count += 1;
        let nth = *count;
        state.trace.push(Happening { at: at.to_owned(), nth, about: about.to_owned() });
        let meant = |fault: &&Fault| {
            let times = if let Act::Answer { times, .. } = fault.act { times } else { 1 };
            fault.at == at && (fault.nth..fault.nth + times).contains(&nth)
        };
        let act = self.faults.iter().find(meant).map(|fault| fault.act.clone());
        state.fired += usize::from(act.is_some());
        act
    }

    /// How often the plan may lose a message without the provider learning whether it arrived. Each time the
    /// provider may have to say once more what it had said before: what came in between may have been heard.
    pub(super) fn messages_in_doubt(&self) -> usize {
        let on_the_bus = |fault: &&Fault| matches!(fault.at.as_str(), "PUBLISH" | "LEDGER");
        let loses = |fault: &&Fault| !matches!(fault.act, Act::SwallowAck | Act::Delay(_));
        self.faults.iter().filter(on_the_bus).filter(loses).count()
    }

    pub(super) fn kill(&self) {
        // At the end of a run nobody kills any more.
        let _ = self.kills.send(());
    }

    pub(super) fn complain(&self, complaint: impl Into<String>) {
        self.state().complaints.push(complaint.into());
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    pub(super) fn is_foreign(&self, plural: &str, name: &str, uid: &str) {
        self.state().foreign.push([plural.to_owned(), name.to_owned(), uid.to_owned()]);
    }

    pub(super) fn foreign(&self) -> Vec<[String; 3]> {
        self.state().foreign.clone()
    }

    pub(super) fn expire(&self, plural: &str) {
        self.state().expired.insert(plural.to_owned());
    }

    pub(super) fn is_expired(&self, plural: &str) -> bool {
        self.state().expired.contains(plural)
    }

    pub(super) fn renew(&self, plural: &str) {
        self.state().expired.remove(plural);
    }

    pub(super) fn trace(&self) -> Vec<Happening> {
        self.state().trace.clone()
    }

    /// How many faults came to pass.
    pub(super) fn fired(&self) -> usize {
        self.state().fired
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
