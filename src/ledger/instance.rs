//! The event rules for one instance: what it owes, and how long that has to wait.

use std::time::Duration;

use super::{Delivered, Outgoing, Report};

/// A busy instance lengthens its window with each change, but never beyond this many lengths.
const LONGEST_WINDOW: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// At most two reports wait: the owed end of a life, and the newest status behind it.
#[derive(Debug, Default)]
pub(super) struct Instance {
    pub(super) delivered: Option<Delivered>,
    /// The time under which the agenda knows this instance.
    pub(super) scheduled: Option<Duration>,
    life: u64,
    in_flight: Option<Statement>,
    ending: Option<Statement>,
    newest: Option<Statement>,
    window: Option<Window>,
    /// The settling status that waits out its window.
    settling: Option<Settling>,
    /// A report that was replaced may have arrived all the same, so even a return to what was last
    /// delivered has to be said.
    uncertain: bool,
    revision: u64,
    failures: u32,
    retry_at: Duration,
}

#[derive(Debug, Clone)]
struct Statement {
    life: u64,
    report: Report,
    ends: bool,
    /// Given at the first attempt and kept for the next ones; none means never tried.
    revision: Option<u64>,
    announced: bool,
}

#[derive(Debug)]
struct Window {
    opened: Duration,
    until: Duration,
}

#[derive(Debug)]
struct Settling {
    since: Duration,
    /// The status before it.
    from: String,
}

// === impl Instance ===

impl Instance {
    pub(super) fn observe(&mut self, now: Duration, window: Duration, life: u64, report: Report) {
        let statement = Statement::new(life, report, false);
        let repeats = self.last_said().is_some_and(|last| last.says_as_much_as(&statement));
        if life < self.life || (repeats && !seeded!("no-comparison")) {
            return;
        }
        self.enter_life(life);
        self.lengthen_window(now, window);
        let from = self.stands_at(life).map(str::to_owned);
        self.drop_newest();
        let settles = statement.report.settling && self.ending.is_none();
        let since = self.settling.take().map_or(now, |settling| settling.since);
        self.settling = from.filter(|_| settles).map(|from| Settling { since, from });
        let news = !self.already_says(&statement) || seeded!("no-comparison");
        if self.uncertain || self.ending.is_some() || news {
            self.newest = Some(statement);
        }
    }

    pub(super) fn gone(&mut self, now: Duration, window: Duration, life: u64, report: Report) {
        let end = Statement::new(life, report, true);
        if life < self.life {
            return self.gone_late(end);
        }
        if self.last_said().is_some_and(|last| last.says_as_much_as(&end)) {
            return;
        }
        self.enter_life(life);
        self.lengthen_window(now, window);
        self.drop_newest();
        self.settling = None;
        if self.ending.as_ref().is_some_and(|ending| ending.revision.is_some()) {
            self.uncertain = true;
        }
        // Receivers see ids, not lives: two ends in a row with the same words would be one event twice.
        let repeats = self.base().is_some_and(|base| base.ends && base.has_the_words_of(&end));
        self.ending = (self.uncertain || !repeats).then_some(end);
    }

    /// The end of an earlier life, told after its successor was seen: it goes first while the successor
    /// has not been heard of, else it would speak of the wrong life.
    fn gone_late(&mut self, end: Statement) {
        let heard = self.base().is_some_and(|base| base.life > end.life || base.ends)
            || self.newest.as_ref().is_some_and(|newest| newest.revision.is_some());
        if !heard && self.ending.is_none() {
            self.ending = Some(end);
        }
    }

    /// Takes what goes out next and opens the window behind it.
    pub(super) fn send(&mut self, now: Duration, window: Duration, id: &str) -> Option<Outgoing> {
        let mut statement = self.ending.take().or_else(|| self.newest.take())?;
        let revision = statement.revision.unwrap_or(self.revision + 1);
        self.revision = self.revision.max(revision);
        statement.revision = Some(revision);
        // The first status of a new life waits for nothing: the end of the old one opens no window.
        self.window = (!statement.ends).then_some(Window { opened: now, until: now + window });
        if !statement.ends {
            self.settling = None;
        }
        let outgoing = Outgoing {
            id: id.to_owned(),
            life: statement.life,
            report: statement.report.clone(),
            ends: statement.ends,
            revision,
            announced: statement.announced,
        };
        self.in_flight = Some(statement);
        Some(outgoing)
    }

    /// When the next report may go out; none while one is in flight or nothing is owed.
    pub(super) fn ready(&self, window: Duration, flushing: bool) -> Option<Duration> {
        if self.in_flight.is_some() || !self.owes() {
            return None;
        }
        // With a new life behind it, the end of the old one has nothing left to be coalesced with.
        let hurries = flushing || (self.ending.is_some() && self.newest.is_some());
        if hurries {
            return Some(self.retry_at);
        }
        let window_ends = self.window.as_ref().map_or(Duration::ZERO, |open| open.until);
        let settled = self.settling.as_ref().map_or(Duration::ZERO, |settling| settling.since + window);
        Some(self.retry_at.max(window_ends).max(settled))
    }

    /// The status that was observed last in a life; of one that settles, the status before it.
    pub(super) fn stands_at(&self, life: u64) -> Option<&str> {
        if let Some(settling) = &self.settling {
            return (self.life == life).then_some(settling.from.as_str());
        }
        if let Some(said) = self.newest.as_ref().or(self.ending.as_ref()).or(self.in_flight.as_ref()) {
            let stands = said.life == life && !said.ends && !said.report.settling;
            return stands.then_some(said.report.status.as_str());
        }
        let last = self.delivered.as_ref()?;
        (last.life == life && !last.ends && !last.settling).then_some(last.status.as_str())
    }

    pub(super) fn awaits(&self, outgoing: &Outgoing) -> bool {
        self.in_flight.as_ref().is_some_and(|sent| sent.revision == Some(outgoing.revision))
    }

    pub(super) fn delivered(&mut self) {
        let Some(sent) = self.in_flight.take() else { return };
        self.delivered = Some(sent.into_delivered());
        self.uncertain = false;
        self.failures = 0;
        self.retry_at = Duration::ZERO;
        self.drop_repeats();
    }

    pub(super) fn failed(&mut self, now: Duration, announced: bool) {
        let Some(mut sent) = self.in_flight.take() else {
            return;
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + pause;
        sent.announced |= announced;
        match sent.ends {
            true if self.ending.is_none() => self.ending = Some(sent),
            false if self.ending.is_none() && self.newest.is_none() => self.newest = Some(sent),
            _ => self.uncertain = true,
        }
    }

    pub(super) fn retry_now(&mut self) {
        self.retry_at = Duration::ZERO;
        self.failures = 0;
    }

    pub(super) fn restore(&mut self, delivered: Delivered) {
        self.life = self.life.max(delivered.life);
        self.revision = self.revision.max(delivered.revision);
        self.delivered = Some(delivered);
        self.drop_repeats();
    }

    pub(super) fn restore_attempt(&mut self, attempt: Delivered) {
        self.life = self.life.max(attempt.life);
        self.revision = self.revision.max(attempt.revision);
        let attempt = Statement::from(attempt);
        let waits = if attempt.ends { &mut self.ending } else { &mut self.newest };
        *waits = Some(attempt);
    }

    /// The life that has begun and not ended, as far as anything was said of it or is about to be.
    pub(super) fn open_life(&self) -> Option<u64> {
        self.last_said().filter(|last| !last.ends).map(|last| last.life)
    }

    pub(super) fn owes(&self) -> bool {
        self.in_flight.is_some() || self.ending.is_some() || self.newest.is_some()
    }

    fn enter_life(&mut self, life: u64) {
        if life > self.life {
            self.life = life;
            self.window = None;
            self.settling = None;
        }
    }

    fn lengthen_window(&mut self, now: Duration, window: Duration) {
        if let Some(open) = self.window.as_mut().filter(|open| now < open.until) {
            open.until = (now + window).min(open.opened + window * LONGEST_WINDOW);
        }
    }

    fn drop_newest(&mut self) {
        if self.newest.take().is_some_and(|replaced| replaced.revision.is_some()) {
            self.uncertain = true;
        }
    }

    fn drop_repeats(&mut self) {
        let Some(base) = self.base() else { return };
        let ending_repeats = self.ending.as_ref().is_some_and(|end| base.ends && base.has_the_words_of(end));
        let newest_repeats = self.newest.as_ref().is_some_and(|newest| base.says_as_much_as(newest));
        if ending_repeats && !self.uncertain {
            self.ending = None;
        }
        if newest_repeats && !self.uncertain && self.ending.is_none() {
            self.newest = None;
            self.settling = None;
        }
    }

    /// What a receiver knows, or is being told at this moment.
    fn base(&self) -> Option<Statement> {
        self.in_flight.clone().or_else(|| self.delivered.clone().map(Statement::from))
    }

    /// What a receiver will know once everything that waits has gone out.
    fn last_said(&self) -> Option<Statement> {
        self.newest.clone().or_else(|| self.ending.clone()).or_else(|| self.base())
    }

    fn already_says(&self, statement: &Statement) -> bool {
        self.base().is_some_and(|base| base.says_as_much_as(statement))
    }
}

// === impl Statement ===

impl Statement {
    fn new(life: u64, report: Report, ends: bool) -> Self {
        Self { life, report, ends, revision: None, announced: false }
    }

    fn says_as_much_as(&self, other: &Self) -> bool {
        self.life == other.life && self.ends == other.ends && self.has_the_words_of(other)
    }

    fn has_the_words_of(&self, other: &Self) -> bool {
        self.report.status == other.report.status && self.report.message == other.report.message
    }

    fn into_delivered(self) -> Delivered {
        Delivered {
            life: self.life,
            status: self.report.status,
            message: self.report.message,
            settling: self.report.settling,
            ends: self.ends,
            revision: self.revision.unwrap_or_default(),
        }
    }
}

impl From<Delivered> for Statement {
    fn from(delivered: Delivered) -> Self {
        let Delivered { life, status, message, settling, ends, revision } = delivered;
        let report = Report { status, message, settling };
        Self { life, report, ends, revision: Some(revision), announced: false }
    }
}
