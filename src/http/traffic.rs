//! What was asked and answered: counted by collection, method and status, with the time that it took.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;

use super::routes::METHODS;
use crate::metrics::{Exposition, Histogram, Kind};

/// The requests of a process. Cheap to clone; all clones are one count.
#[derive(Clone, Default)]
pub(super) struct Traffic(Arc<Mutex<BTreeMap<Asked, Answered>>>);

/// Both labels are of a closed set: what callers make up must not become memory.
type Asked = (String, &'static str);

#[derive(Default)]
struct Answered {
    by_status: BTreeMap<u16, u64>,
    durations: Histogram,
}

impl Traffic {
    /// `collection` is none for what belongs to the process itself, or to nothing.
    pub(super) fn note(&self, collection: Option<String>, method: &Method, status: u16, took: Duration) {
        let method = METHODS.into_iter().find(|known| method == known).unwrap_or("other");
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = counted.entry((collection.unwrap_or_else(|| "-".to_owned()), method)).or_default();
        *answered.by_status.entry(status).or_default() += 1;
        answered.durations.observe(took);
    }

    /// The figures, to stand below those of the resources.
    pub(super) fn figures(&self) -> String {
        let mut page = Exposition::default();
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = page.family("mapwright_http_requests_total", Kind::Counter, "Requests answered.");
        for ((collection, method), answered) in &*counted {
            for (status, count) in &answered.by_status {
                let code = status.to_string();
                total.figure(&[("collection", collection), ("method", method), ("code", &code)], count);
            }
        }
        let about = "From the end of a request's header to its answer.";
        let mut durations = page.family("mapwright_http_request_duration_seconds", Kind::Histogram, about);
        for ((collection, method), answered) in &*counted {
            durations.histogram(&[("collection", collection), ("method", method)], &answered.durations);
        }
        page.finish()
    }
}
