//! The wall clock and the chance of all rooms: the machine's, or, in a simulated run, one that follows the
//! runtime's, and one that is the same each time.
//!
//! A runtime whose time is paused moves its own clock from timer to timer. What is written down as a moment (an
//! object's creation, an event's time) must move with it, or an age would be none. Such a runtime has one
//! thread, so the simulated clock is that thread's.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use uuid::Uuid;

thread_local! {
    /// When the simulated run on this thread began, by the runtime's clock.
    static BEGIN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// How many ids the simulated run has drawn for each purpose.
    static DRAWN: RefCell<HashMap<String, u32>> = RefCell::default();
}

/// When every simulated run begins: 2026-01-21T10:00:00Z.
const EPOCH: i64 = 1_768_989_600;

/// The present moment.
#[must_use]
pub fn now() -> Timestamp {
    let Some(begin) = BEGIN.get() else { return Timestamp::now() };
    let passed = SignedDuration::try_from(begin.elapsed()).unwrap_or_default();
    let epoch = Timestamp::from_second(EPOCH).unwrap_or_default();
    epoch.checked_add(passed).unwrap_or(epoch)
}

/// The present moment as Kubernetes writes it: whole seconds, in UTC.
#[must_use]
pub fn now_in_seconds() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An id that nothing else has; in a simulated run, the next of a series that is the same each time, whatever
/// else is drawn.
#[must_use]
pub fn unique(purpose: &str) -> Uuid {
    if BEGIN.get().is_none() {
        return Uuid::new_v4();
    }
    let number = DRAWN.with_borrow_mut(|drawn| {
        let number = drawn.entry(purpose.to_owned()).or_default();
        *number += 1;
        *number
    });
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{purpose} {number}").as_bytes())
}

/// While it lives, this thread's clock follows the runtime that it was made in.
#[derive(Debug)]
pub struct Simulated(());

impl Simulated {
    #[must_use]
    pub fn begin() -> Self {
        BEGIN.set(Some(Instant::now()));
        DRAWN.with_borrow_mut(HashMap::clear);
        Self(())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        BEGIN.set(None);
    }
}
