//! The signs of life of one connection: what its client does now, since when, and how long it may.

use std::sync::Arc;
use std::time::Instant;

use hyper::Version;
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::Limits;

/// What a connection does. Whoever serves it beats, and whoever watches it waits.
pub(super) struct Pulse(watch::Sender<Beat>);

#[derive(Clone, Debug)]
struct Beat {
    /// When the client could begin to send what is awaited now.
    since: Instant,
    /// Requests that are being answered.
    running: usize,
    /// When each answer was begun that the client has not taken yet.
    answers: Vec<Instant>,
    /// Whether there was a request at all.
    served: bool,
    /// Whether requests share the connection, so that a byte need not be the first of one.
    shared: bool,
    /// When the first byte of the next request came.
    head: Option<Instant>,
    /// Another client needs the place.
    unwanted: bool,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Nothing was heard of its client for too long: it is told to go, and goes.
    Quiet,
    /// Its client does not take an answer.
    Stuck,
}

impl Pulse {
    pub(super) fn new() -> Arc<Self> {
        let beat = Beat {
            since: Instant::now(),
            running: 0,
            answers: Vec::new(),
            served: false,
            shared: false,
            head: None,
            unwanted: false,
        };
        Arc::new(Self(watch::Sender::new(beat)))
    }

    /// The handshake is done: the client may take its time for a head again.
    pub(super) fn shaken(&self) {
        self.0.send_modify(|beat| beat.since = Instant::now());
    }

    /// A byte came.
    pub(super) fn heard(&self) {
        self.0.send_if_modified(|beat| {
            let first = beat.served && !beat.shared && !beat.is_busy() && beat.head.is_none();
            if first {
                beat.head = Some(Instant::now());
            }
            first
        });
    }

    /// The head of a request is complete.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Turn {
        self.0.send_modify(|beat| {
            beat.served = true;
            beat.shared = version == Version::HTTP_2;
            beat.head = None;
            beat.running += 1;
        });
        Turn { pulse: Arc::clone(self), answering: None }
    }

    /// Makes the connection end, if nothing is being answered on it.
    pub(super) fn make_room(&self) {
        self.0.send_modify(|beat| beat.unwanted = true);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.0.borrow().is_busy()
    }

    pub(super) fn is_served(&self) -> bool {
        self.0.borrow().served
    }

    /// Since when the client is awaited; none while it is being answered, or goes already.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let beat = self.0.borrow();
        (!beat.is_busy() && !beat.unwanted).then(|| beat.head.unwrap_or(beat.since))
    }

    /// Returns once the client has let pass what it may.
    pub(super) async fn over(&self, limits: &Limits) -> Over {
        let mut beats = self.0.subscribe();
        loop {
            let deadline = beats.borrow_and_update().deadline(limits);
            let changed = match deadline {
                None => Ok(beats.changed().await),
                Some((at, _)) => timeout_at(at.into(), beats.changed()).await,
            };
            if let (Err(_), Some((_, over))) = (changed, deadline) {
                return over;
            }
        }
    }
}

impl Beat {
    fn is_busy(&self) -> bool {
        self.running > 0 || !self.answers.is_empty()
    }

    /// Until when the present state may last.
    fn deadline(&self, limits: &Limits) -> Option<(Instant, Over)> {
        if self.is_busy() {
            let oldest = self.answers.iter().min()?;
            return oldest.checked_add(limits.write?).map(|at| (at, Over::Stuck));
        }
        let at = match (self.unwanted, self.served, self.head) {
            (true, ..) => Some(self.since),
            (_, false, _) => self.since.checked_add(limits.header_read),
            (_, true, Some(head)) => head.checked_add(limits.header_read),
            (_, true, None) => self.since.checked_add(limits.idle?),
        };
        at.map(|at| (at, Over::Quiet))
    }
}

/// One request, from the end of its head until its answer is taken. It ends when dropped, also when its
/// connection does.
pub(super) struct Turn {
    pulse: Arc<Pulse>,
    answering: Option<Instant>,
}

impl Turn {
    /// There is an answer, and the client has to take it.
    pub(super) fn answered(mut self) -> Self {
        let now = Instant::now();
        self.answering = Some(now);
        self.pulse.0.send_modify(|beat| {
            beat.running -= 1;
            beat.answers.push(now);
        });
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pulse.0.send_modify(|beat| {
            match self.answering {
                None => beat.running -= 1,
                Some(begun) => {
                    if let Some(at) = beat.answers.iter().position(|other| *other == begun) {
                        beat.answers.swap_remove(at);
                    }
                }
            }
            beat.since = Instant::now();
            beat.head = None;
        });
    }
}
