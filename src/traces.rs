//! Spans for OpenTelemetry: collected from `tracing`, and sent to a collector as JSON over HTTP.
//!
//! Knows the form of OTLP, and not what the spans are about. The SDK's own exporter would bring thirty packages;
//! what is needed of it are one document and one POST. Spans are lossy on purpose: nothing waits for them.

mod collect;
mod context;
mod export;
mod otlp;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::mpsc;

pub use collect::{Collector, wants};
pub use context::Context;
pub use export::export;
pub use otlp::{Span, document};

/// Spans that wait to be sent; more are dropped.
const WAITING: usize = 4096;

/// What a collector layer and its exporter share.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<State>);

#[derive(Debug, Default)]
struct State {
    on: AtomicBool,
    dropped: AtomicU64,
}

impl Switch {
    /// Whether anybody takes spans: until the settings are read, and where they name no collector, nobody does.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.on.load(Ordering::Relaxed)
    }

    fn turn_on(&self) {
        self.0.on.store(true, Ordering::Relaxed);
    }

    fn drop_one(&self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn take_dropped(&self) -> u64 {
        self.0.dropped.swap(0, Ordering::Relaxed)
    }
}

/// The end that an exporter reads from.
#[derive(Debug)]
pub struct Source {
    spans: mpsc::Receiver<Span>,
    switch: Switch,
}

/// A layer for the subscriber, and what an exporter reads from once the settings name a collector.
#[must_use]
pub fn channel() -> (Collector, Switch, Source) {
    let (tell, spans) = mpsc::channel(WAITING);
    let switch = Switch::default();
    (Collector::new(tell, switch.clone()), switch.clone(), Source { spans, switch })
}
