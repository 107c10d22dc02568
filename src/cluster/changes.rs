//! Which index keys changed, told to whoever follows a store.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

/// The index keys that changed since the holder last asked: a set, so that it is bounded by the number of
/// instances and not by how busy they are.
pub struct Changes {
    pending: Arc<Pending>,
}

/// Everybody who follows a store; those that were dropped are forgotten.
#[derive(Default)]
pub(crate) struct Subscribers {
    pending: Vec<Weak<Pending>>,
}

#[derive(Default)]
struct Pending {
    keys: Mutex<BTreeSet<String>>,
    arrived: Notify,
}

impl Changes {
    /// Waits until something changed, and gives all that changed since the last call. Nothing is lost when
    /// the wait is given up.
    pub async fn next(&mut self) -> Vec<String> {
        loop {
            let keys = std::mem::take(&mut *self.pending.keys.lock().unwrap_or_else(PoisonError::into_inner));
            if !keys.is_empty() {
                return keys.into_iter().collect();
            }
            self.pending.arrived.notified().await;
        }
    }
}

impl Subscribers {
    /// One more, who has yet to hear of all these keys.
    pub(crate) fn add<'a>(&mut self, keys: impl IntoIterator<Item = &'a String>) -> Changes {
        let pending = Arc::new(Pending::default());
        pending.add(keys);
        self.pending.retain(|subscriber| subscriber.strong_count() > 0);
        self.pending.push(Arc::downgrade(&pending));
        Changes { pending }
    }

    pub(crate) fn tell(&self, keys: &[String]) {
        for subscriber in self.pending.iter().filter_map(Weak::upgrade) {
            subscriber.add(keys);
        }
    }
}

impl Pending {
    fn add<'a>(&self, keys: impl IntoIterator<Item = &'a String>) {
        self.keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(keys.into_iter().cloned());
        self.arrived.notify_one();
    }
}
