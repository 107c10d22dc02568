//! The accept loop: connections with limits in number, size and time, and an end that lets them finish.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::Tls;
use super::connection::Serving;
use super::pulse::Pulse;

/// Serves until `shutdown` is done, then lets running requests finish within [`Limits::drain`].
///
/// warp's own loop sets no timers, so half a header would hold a connection for ever.
pub async fn run<S, B>(
    listener: TcpListener,
    tls: Option<Tls>,
    service: S,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let (closing, closed) = watch::channel(false);
    let serving = Serving { service, limits: Arc::new(limits), tls, closed };
    let limits = Arc::clone(&serving.limits);
    let mut open = Open::default();
    let mut shutdown = pin!(shutdown);
    loop {
        let full = open.tasks.len() >= limits.connections;
        if full {
            open.make_room(1);
        }
        tokio::select! {
            () = &mut shutdown => break,
            Some(ended) = open.tasks.join_next_with_id() => open.note(ended),
            // Where every client is being answered, further ones wait in the kernel's queue, where they cost
            // no descriptor.
            () = sleep(FULL), if full => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, _)) => open.spawn(|pulse| serving.clone().serve(stream, pulse)),
                Err(error) => open.survive(&error).await,
            },
        }
    }
    drop(listener);
    closing.send_replace(true);
    open.drain(limits.drain).await;
}

/// How often a full house is looked through for somebody who may go.
const FULL: Duration = Duration::from_millis(100);

/// How long nobody is accepted after the system refused to.
const PAUSE: Duration = Duration::from_millis(50);

/// What one client, and all of them together, may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections at a time. Of more than that, those that have waited longest for their client go.
    pub connections: usize,
    /// From the first byte of a request to the end of its head; from the connection to the end of the first
    /// head, or of the handshake.
    pub header_read: Duration,
    /// Size of a request's header.
    pub header_bytes: usize,
    /// How long a connection may be without a request. None, here and below, is no limit.
    pub idle: Option<Duration>,
    /// From the end of the header to the end of the body.
    pub body_read: Option<Duration>,
    pub body_bytes: usize,
    /// From the end of the header to the answer.
    pub request: Duration,
    /// From the answer to the moment when its client has taken it.
    pub write: Option<Duration>,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// From the shutdown to the last answer.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header_read: Duration::from_secs(5),
            header_bytes: 32 << 10,
            idle: Some(Duration::from_secs(60)),
            body_read: Some(Duration::from_secs(15)),
            body_bytes: 1 << 20,
            request: Duration::from_secs(30),
            write: Some(Duration::from_secs(60)),
            streams: 100,
            drain: Duration::from_secs(15),
        }
    }
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    pulses: HashMap<Id, Arc<Pulse>>,
}

impl Open {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&mut self, serve: impl FnOnce(Arc<Pulse>) -> F) {
        let pulse = Pulse::new();
        let task = self.tasks.spawn(serve(Arc::clone(&pulse)));
        self.pulses.insert(task.id(), pulse);
    }

    /// Ends the connections that have waited longest for their clients, so that one who has something to say
    /// is not kept out by many who have not.
    fn make_room(&self, places: usize) {
        let waiting = self.pulses.values().filter_map(|pulse| Some((pulse.waits_since()?, pulse)));
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable_by_key(|(since, _)| *since);
        for (_, pulse) in waiting.into_iter().take(places) {
            pulse.make_room();
        }
    }

    /// An error to accept a connection is never the end of serving.
    async fn survive(&self, error: &io::Error) {
        // The client gave up between its handshake and our call; the next one is unharmed.
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
            return;
        }
        // Out of descriptors or memory: a connection must end first, and asking at once again would spin.
        tracing::warn!(%error, connections = self.tasks.len(), "cannot accept a connection; trying again");
        self.make_room(1 + self.tasks.len() / 4);
        sleep(PAUSE).await;
    }

    async fn drain(&mut self, patience: Duration) {
        let drained = timeout(patience, async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                self.note(ended);
            }
        });
        if drained.await.is_err() {
            tracing::warn!(connections = self.tasks.len(), "connections cut that did not end in time");
            self.tasks.shutdown().await;
        }
    }

    fn note(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "a connection's task failed");
                error.id()
            }
        };
        self.pulses.remove(&id);
    }
}
