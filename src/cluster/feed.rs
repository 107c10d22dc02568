//! One watch: list, follow, and begin again, for ever.
//!
//! kube's own watcher is not used, because it hides two things that are needed here: the signs of life of
//! a quiet watch (bookmarks and renewals), and an answer that cannot be resumed from (a bare Status 410, a
//! deletion that does not say of what), after which only a new list helps.

use std::time::Duration;

use kube::core::Status;
use kube::core::params::WatchParams;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Cluster, WATCH_SECONDS, unsendable};
use super::objects::{ListOptions, continue_token, take_items, typed};
use super::refusal::{Refusal, RefusalKind, classify_status};
use super::resource::Resource;
use super::shelf::Listing;
use super::store::{Store, metadata};
use super::stream::Lines;
use super::watch::WatchKey;

/// The task that keeps a store up to date.
pub(crate) struct Feed {
    pub(crate) cluster: Cluster,
    pub(crate) key: WatchKey,
    pub(crate) store: Store,
    /// How often to compare everything by a new list, beside the watch.
    pub(crate) resync: Duration,
    /// From where the watch can go on; None when only a list can tell what is there.
    resume: Option<String>,
    /// Whether the server is asked to begin a watch with what is there, which spares it and us a document of
    /// everything. Servers that do not know how are noticed, and asked for pages.
    streams: bool,
    listed_at: Instant,
    backoff: Backoff,
}

/// A watch that ends sooner than this without a word did not really run: without a pause, a proxy that
/// closes every stream would be asked thousands of times a second.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// The annotation of the bookmark behind the last object that is there.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// The longest pause between two objects of what is there, and before the mark behind them.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// So many attempts in a row, then pages: a busy server that does not know the mark never pauses.
const MOST_STREAMS: u32 = 3;

/// Waits between attempts: doubling, half of it by chance, so that many watches do not come back together.
#[derive(Default)]
struct Backoff {
    failures: u32,
}

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A server that asks for more patience than this is asked again all the same: nothing is noticed meanwhile.
const LONGEST_PATIENCE: u64 = 60;

impl Feed {
    pub(crate) fn new(cluster: Cluster, key: WatchKey, store: Store, resync: Duration) -> Self {
        let (resume, listed_at, backoff) = (None, Instant::now(), Backoff::default());
        let streams = cluster.streams_lists();
        Self { cluster, key, store, resync, resume, streams, listed_at, backoff }
    }

    /// Runs until it is dropped. Nothing that the server does ends it.
    pub(crate) async fn run(mut self) {
        loop {
            let Err(refusal) = self.round().await else {
                self.backoff.failures = 0;
                continue;
            };
            if !can_resume(&refusal) && !seeded!("ignore-410") {
                self.resume = None;
            }
            let wait = self.backoff.next(refusal.retry_after);
            if self.store.fail(refusal.message.clone()) {
                tracing::warn!(watch = %self.key, ?wait, reason = %refusal, "a watch was interrupted");
            }
            sleep(wait).await;
        }
    }

    /// A list if one is due, then one watch call to its end.
    async fn round(&mut self) -> Result<(), Refusal> {
        let resource = self.cluster.resource(&self.key.resource).await?;
        if self.listed_at.elapsed() >= self.resync {
            self.resume = None;
        }
        let (version, listing) = match self.resume.clone() {
            Some(version) => (version, None),
            None if self.streams && self.backoff.failures < MOST_STREAMS => {
                (String::new(), Some(self.store.begin_list()))
            }
            None => (self.list(&resource).await?, None),
        };
        let began = Instant::now();
        let streaming = listing.is_some();
        let events = match self.follow(&resource, &version, listing).await {
            Err(refusal) if streaming && self.resume.is_none() && cannot_stream(&refusal) => {
                tracing::info!(watch = %self.key, reason = %refusal, "lists are read in pages from now on");
                self.streams = false;
                return Ok(());
            }
            followed => followed?,
        };
        if events == 0 && began.elapsed() < SHORTEST_WATCH {
            return Err(Refusal::new(RefusalKind::Unavailable, "the watch was closed as soon as it began"));
        }
        Ok(())
    }

    /// Reads a complete list. Only its end says anything about absence.
    async fn list(&mut self, resource: &Resource) -> Result<String, Refusal> {
        let mut listing = self.store.begin_list();
        let mut token: Option<String> = None;
        loop {
            let options = &self.key.select;
            let namespace = &self.key.namespace;
            let mut page = self.cluster.list_page(resource, namespace, options, token.as_deref()).await?;
            self.store.sign_of_life();
            for item in take_items(&mut page) {
                self.store.listed(&mut listing, typed(item, resource));
            }
            token = continue_token(&page);
            if token.is_none() {
                let version = metadata(&page, "resourceVersion").to_owned();
                if version.is_empty() {
                    return Err(Refusal::new(RefusalKind::Other, "the list has no resource version"));
                }
                self.complete(&listing, version.clone());
                return Ok(version);
            }
        }
    }

    fn complete(&mut self, listing: &Listing, version: String) {
        self.store.end_list(listing);
        self.listed_at = Instant::now();
        self.resume = Some(version);
    }

    /// Follows one watch call to its end, and says how many events it had. With a listing it begins with all
    /// that is there.
    async fn follow(
        &mut self,
        resource: &Resource,
        version: &str,
        mut listing: Option<Listing>,
    ) -> Result<u64, Refusal> {
        let ListOptions { labels, fields } = self.key.select.clone();
        let params = WatchParams {
            label_selector: labels,
            field_selector: fields,
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events: listing.is_some(),
        };
        let request = kube::core::Request::new(resource.collection(&self.key.namespace)?);
        let request = request.watch(&params, version).map_err(|error| unsendable(&error))?;
        let mut lines = Lines::new(self.cluster.begin_stream(request).await?);
        self.store.sign_of_life();
        if let Some(listing) = listing.take() {
            self.initial(&mut lines, resource, listing).await?;
        }
        self.store.recover();
        let mut events = 0;
        while let Some(event) = lines.next().await? {
            self.apply(event, resource)?;
            self.store.sign_of_life();
            events += 1;
        }
        Ok(events)
    }

    /// Reads what is there from the beginning of a watch. Only the mark at its end says anything about absence.
    async fn initial(
        &mut self,
        lines: &mut Lines,
        resource: &Resource,
        mut listing: Listing,
    ) -> Result<(), Refusal> {
        loop {
            let event = timeout(LONGEST_PAUSE, lines.next()).await.map_err(|_| {
                // A server that does not know the mark sends what is there, and then nothing.
                Refusal::new(RefusalKind::Other, "the watch does not mark the end of what is there")
            })??;
            let event = event.ok_or_else(|| {
                Refusal::new(RefusalKind::Unavailable, "the watch ended within what is there")
            })?;
            self.store.sign_of_life();
            let object = event.get("object").unwrap_or(&Value::Null);
            match event.get("type").and_then(Value::as_str) {
                Some("ADDED" | "MODIFIED") => {
                    self.store.listed(&mut listing, typed(object.clone(), resource))
                }
                Some("BOOKMARK") if ends_initial(object) => {
                    self.complete(&listing, metadata(object, "resourceVersion").to_owned());
                    return Ok(());
                }
                _ => {
                    self.apply(event, resource)?;
                    // What was said of one object says nothing of the others.
                    self.resume = None;
                }
            }
        }
    }

    /// One event. An object that is malformed is skipped by the store; an event after which we no longer
    /// know what is there is an error, and a new list follows.
    fn apply(&mut self, mut event: Value, resource: &Resource) -> Result<(), Refusal> {
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let version = metadata(&object, "resourceVersion").to_owned();
        match event.get("type").and_then(Value::as_str) {
            Some("ADDED" | "MODIFIED") => self.store.saw(typed(object, resource)),
            Some("DELETED") if seeded!("skip-deletions") => {}
            Some("DELETED") => {
                if !self.store.saw_gone(&object) {
                    return Err(Refusal::new(RefusalKind::Other, "a deletion does not say of what"));
                }
            }
            Some("BOOKMARK") => {}
            Some("ERROR") => return Err(failure(object)),
            // A bare Status in place of events.
            None => return Err(failure(event)),
            Some(other) => {
                let text = format!("an event has the unknown type {other:?}");
                return Err(Refusal::new(RefusalKind::Other, text));
            }
        }
        if !version.is_empty() {
            self.resume = Some(version);
        }
        Ok(())
    }
}

/// The mark at the end of what is there, with the version from which the watch goes on.
fn ends_initial(object: &Value) -> bool {
    let mark = object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(INITIAL_END));
    mark.is_some_and(|mark| mark == "true") && !metadata(object, "resourceVersion").is_empty()
}

/// Whether a server refused to begin a watch with what is there because it does not know how.
fn cannot_stream(refusal: &Refusal) -> bool {
    matches!(refusal.kind, RefusalKind::Invalid | RefusalKind::Other)
}

/// Whether the watch may go on from where it was: the server, or the way to it, was at fault, and not the
/// place. In doubt a list is dearer and always right.
fn can_resume(refusal: &Refusal) -> bool {
    let unknown_version = refusal.message.contains("Too large resource version");
    let place_is_good = matches!(
        refusal.kind,
        RefusalKind::Unavailable
            | RefusalKind::Throttled
            | RefusalKind::Unauthorized
            | RefusalKind::Forbidden
    );
    place_is_good && !unknown_version
}

fn failure(document: Value) -> Refusal {
    match serde_json::from_value::<Status>(document) {
        Ok(status) => classify_status(&status),
        Err(error) => {
            Refusal::new(RefusalKind::Other, format!("the watch ended with an unreadable Status: {error}"))
        }
    }
}

impl Backoff {
    /// How long to wait now; not shorter than the server asks.
    fn next(&mut self, retry_after: Option<u64>) -> Duration {
        let longest = FIRST_WAIT.saturating_mul(1 << self.failures.min(10)).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        // A random UUID is the randomness at hand; a thousandth is fine enough.
        let thousandths = (uuid::Uuid::new_v4().as_u128() % 1000) as u32;
        let wait = longest / 2 + longest / 2 * thousandths / 1000;
        wait.max(Duration::from_secs(retry_after.unwrap_or(0).min(LONGEST_PATIENCE)))
    }
}
