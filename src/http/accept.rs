//! The accept loop: connections with limits in number, size and time, and an end that lets them finish.

use std::convert::Infallible;
use std::error::Error;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::CONNECTION;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

/// Serves until `shutdown` is done, then lets running requests finish within [`Limits::drain`].
///
/// warp's own loop sets no timers, so half a header would hold a connection for ever.
pub async fn run<S, B>(listener: TcpListener, service: S, limits: Limits, shutdown: impl Future<Output = ()>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let drain = limits.drain;
    let limits = Arc::new(limits);
    let (closing, closed) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(ended) = connections.join_next() => note(ended),
            // At the limit further clients wait in the kernel's queue, where they cost no descriptor.
            stream = accept(&listener), if connections.len() < limits.connections => {
                let limits = Arc::clone(&limits);
                connections.spawn(serve(stream, service.clone(), limits, closed.clone()));
            }
        }
    }
    drop(listener);
    closing.send_replace(true);
    let drained = timeout(drain, async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
    });
    if drained.await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "connections cut that did not end in time"
        );
        connections.shutdown().await;
    }
}

/// What one client, and all of them together, may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections at a time.
    pub connections: usize,
    /// From the first byte awaited to the end of a request's header. Over HTTP/1 it is also how long a
    /// connection may be idle between requests.
    pub header_read: Duration,
    /// Size of a request's header.
    pub header_bytes: usize,
    /// How long a connection may be without a request, or go on reading an answer.
    pub idle: Duration,
    /// From the end of the header to the end of the body.
    pub body_read: Duration,
    pub body_bytes: usize,
    /// From the end of the header to the answer.
    pub request: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// From the shutdown to the last answer.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header_read: Duration::from_secs(20),
            header_bytes: 32 << 10,
            idle: Duration::from_secs(60),
            body_read: Duration::from_secs(15),
            body_bytes: 1 << 20,
            request: Duration::from_secs(30),
            streams: 100,
            drain: Duration::from_secs(15),
        }
    }
}

/// The next connection; an error to accept one is never the end of serving.
async fn accept(listener: &TcpListener) -> TcpStream {
    let mut pause = Duration::from_millis(10);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client gave up between its handshake and our call; the next one is unharmed.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
                ) => {}
            // Out of descriptors or memory: an open connection must end first, and asking at once again
            // would spin.
            Err(error) => {
                tracing::warn!(%error, ?pause, "cannot accept a connection; trying again after a pause");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}

/// One connection from its first byte to its last.
async fn serve<S, B>(stream: TcpStream, service: S, limits: Arc<Limits>, mut closed: watch::Receiver<bool>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send + 'static>,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    // An answer is one write; waiting for more to fill a packet would only delay it.
    let _ = stream.set_nodelay(true);
    let (running, requests) = watch::channel(0);
    let running = Arc::new(running);
    let counted = service_fn(move |request: Request<Incoming>| {
        let counted = Running::begin(&running);
        let version = request.version();
        let answer = service.call(request);
        async move {
            let answer = answer.await.map(|response| in_version(version, response));
            drop(counted);
            answer
        }
    });
    let protocol = protocol(&limits);
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), counted));
    let grace = tokio::select! {
        ended = connection.as_mut() => return note_end(ended),
        () = quiet(requests, &limits) => limits.request,
        _ = closed.wait_for(|closed| *closed) => limits.drain,
    };
    connection.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(grace, connection).await {
        note_end(ended);
    }
}

/// HTTP/1.1 and HTTP/2 on one port, told apart by the first bytes.
fn protocol(limits: &Limits) -> Builder<TokioExecutor> {
    // hyper refuses to work with a buffer below its own minimum.
    let buffer = limits.header_bytes.max(8192);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_buf_size(buffer);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.header_read)
        .keep_alive_timeout(limits.header_read);
    builder
}

/// Returns once the connection has had no request for too long.
///
/// This bounds what the protocols' own timers leave open: telling the version apart, the settings of
/// HTTP/2, an idle HTTP/2 connection, an answer that the client does not read.
async fn quiet(mut requests: watch::Receiver<usize>, limits: &Limits) {
    let mut patience = limits.header_read;
    loop {
        let busy = *requests.borrow_and_update() > 0;
        let change = requests.changed();
        let changed = if busy {
            Ok(change.await)
        } else {
            timeout(patience, change).await
        };
        match changed {
            Ok(Ok(())) => patience = limits.idle,
            _ => return,
        }
    }
}

/// HTTP/2 has no `Connection` header; its streams end one by one.
fn in_version<B>(version: Version, mut response: Response<B>) -> Response<B> {
    if version == Version::HTTP_2 {
        response.headers_mut().remove(CONNECTION);
    }
    response
}

fn note_end(ended: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// A request that runs; it ends when dropped, also when its connection does.
struct Running(Arc<watch::Sender<usize>>);

impl Running {
    fn begin(running: &Arc<watch::Sender<usize>>) -> Self {
        running.send_modify(|count| *count += 1);
        Self(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
