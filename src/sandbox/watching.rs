//! Watches: each has a place in its kind's history and reads on from there at its client's own pace.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::api::Api;
use super::kinds::Kind;
use super::list::{metadata_of, selector};
use super::refusal::Refusal;
use super::reply::{Form, Reply};
use super::routes::{Place, Query};
use super::selector::Selector;
use super::store::{Change, Storage, Stored};
use super::table::Tables;

/// One watch of one client.
struct Watch {
    api: Arc<Api>,
    tables: Arc<Tables>,
    kind: Arc<Kind>,
    storage: Storage,
    namespace: String,
    selector: Selector,
    form: Form,
    /// Everything up to this version has been told.
    seen: u64,
    latest: watch::Receiver<u64>,
    /// What there was at the beginning, if it is to be told first.
    initial: Vec<Arc<Stored>>,
    /// Whether a bookmark is to tell where the beginning ends.
    marks_initial: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    first_table: bool,
    _count: Counted,
}

/// One of the watches that there may be.
struct Counted;

static WATCHES: AtomicUsize = AtomicUsize::new(0);

/// Watches at a time; more are asked to come back.
const MOST_WATCHES: usize = 4096;

/// How often a quiet watch tells the version.
const BOOKMARK: Duration = Duration::from_secs(10);

/// A watch that names no end gets one.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Changes that are read at once.
const BATCH: usize = 100;

pub(super) fn watch(
    api: &Arc<Api>,
    tables: &Arc<Tables>,
    kind: &Arc<Kind>,
    place: &Place,
    query: &Query,
    form: Form,
) -> Result<Reply, Refusal> {
    let selector = selector(kind, place, query)?;
    let asked = query.number("resourceVersion")?.unwrap_or(0);
    let limit = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let count = Counted::new()?;
    let storage: Storage = kind.resource_name().into();
    let mut store = api.store();
    let now = store.version().max(1);
    let marks_initial = query.is_set("sendInitialEvents");
    let from_now = asked == 0 || marks_initial;
    let initial = match from_now && query.get("sendInitialEvents") != "false" {
        true => store.all(&storage, &place.namespace).filter(|s| selector.matches(s)).cloned().collect(),
        false => Vec::new(),
    };
    let begin = Instant::now();
    let watch = Watch {
        api: api.clone(),
        tables: tables.clone(),
        kind: kind.clone(),
        namespace: place.namespace.clone(),
        selector,
        form,
        seen: if from_now { now } else { asked },
        latest: store.follow(&storage),
        storage,
        initial,
        marks_initial: marks_initial && query.is_set("allowWatchBookmarks"),
        bookmarks: query.is_set("allowWatchBookmarks"),
        next_bookmark: begin + BOOKMARK,
        end: begin + limit.unwrap_or(LONGEST).min(LONGEST),
        first_table: true,
        _count: count,
    };
    drop(store);
    let lines = unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        let (text, goes_on) = watch.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), goes_on.then_some(watch)))
    });
    let mut reply = Response::new(StreamBody::new(lines).boxed());
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(reply)
}

impl Watch {
    /// The next lines, and whether more may follow; None at the end.
    async fn next(&mut self) -> Option<(String, bool)> {
        let initial = std::mem::take(&mut self.initial);
        let mut text = String::new();
        for stored in initial {
            self.line("ADDED", &stored.object(), &mut text);
        }
        if std::mem::take(&mut self.marks_initial) {
            self.bookmark(true, &mut text);
        }
        loop {
            if !text.is_empty() {
                return Some((text, true));
            }
            self.latest.borrow_and_update();
            match self.news() {
                Err(refusal) => {
                    let line = json!({"type": "ERROR", "object": refusal.to_json()});
                    return Some((format!("{line}\n"), false));
                }
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => {
                    for change in changes {
                        self.seen = change.version;
                        self.tell(&change, &mut text);
                    }
                    continue;
                }
            }
            let wake = if self.bookmarks { self.end.min(self.next_bookmark) } else { self.end };
            tokio::select! {
                changed = self.latest.changed() => changed.ok()?,
                () = sleep_until(wake) => {
                    if Instant::now() >= self.end {
                        return None;
                    }
                    self.next_bookmark = Instant::now() + BOOKMARK;
                    self.bookmark(false, &mut text);
                }
            }
        }
    }

    /// The changes that are not told yet. Where there are none, everything up to now is told.
    fn news(&mut self) -> Result<Vec<Change>, Refusal> {
        let store = self.api.store();
        let changes = store.after(&self.storage, self.seen, BATCH)?;
        if changes.is_empty() {
            self.seen = self.seen.max(store.version());
        }
        Ok(changes)
    }

    /// What a change means to a watch that selects: an object may come into sight and go out of it.
    fn tell(&mut self, change: &Change, text: &mut String) {
        if !self.namespace.is_empty() && change.last.key.0 != self.namespace {
            return;
        }
        let matches =
            |stored: &Option<Arc<Stored>>| stored.as_ref().filter(|s| self.selector.matches(s)).cloned();
        match (matches(&change.before), matches(&change.after)) {
            (None, Some(after)) => self.line("ADDED", &after.object(), text),
            (Some(_), Some(after)) => self.line("MODIFIED", &after.object(), text),
            (Some(before), None) => {
                let mut object = if change.after.is_some() { before.object() } else { change.last.object() };
                object["metadata"]["resourceVersion"] = change.version.to_string().into();
                self.line("DELETED", &object, text);
            }
            (None, None) => {}
        }
    }

    fn line(&mut self, word: &str, object: &Value, text: &mut String) {
        let mut object = object.clone();
        if self.kind.custom {
            object["apiVersion"] = self.kind.api_version().into();
        }
        let shown = match self.form {
            Form::Table => {
                let first = std::mem::replace(&mut self.first_table, false);
                self.tables.table(&self.kind, std::slice::from_ref(&object), None, first)
            }
            Form::Metadata => metadata_of(&object),
            Form::Objects | Form::Discovery => object,
        };
        text.push_str(&json!({"type": word, "object": shown}).to_string());
        text.push('\n');
    }

    /// Says how far the client is, so that it can go on from here.
    fn bookmark(&mut self, initial_ends: bool, text: &mut String) {
        let mut metadata = json!({"resourceVersion": self.seen.to_string(), "creationTimestamp": null});
        if initial_ends {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata,
        });
        text.push_str(&json!({"type": "BOOKMARK", "object": object}).to_string());
        text.push('\n');
    }
}

impl Counted {
    fn new() -> Result<Self, Refusal> {
        if WATCHES.fetch_add(1, Ordering::Relaxed) >= MOST_WATCHES {
            WATCHES.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::too_many("there are too many watches; end one and try again"));
        }
        Ok(Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        WATCHES.fetch_sub(1, Ordering::Relaxed);
    }
}
