//! A proxy between the product and the API server: it counts calls, and does what a plan of the test says.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::control_plane::ControlPlane;
use crate::failure::{Context, Result};

/// One call that came through, as the product made it.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    /// Path and query.
    pub target: String,
}

impl Call {
    pub fn is_watch(&self) -> bool {
        self.target.contains("watch=")
    }
}

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum Effect {
    /// It goes through.
    Pass,
    /// The API server never sees it; this is the answer. A body that ends in a newline is a stream that ends.
    Answer { status: u16, headers: Vec<(String, String)>, body: String },
    /// It goes through after a while.
    Hold(Duration),
    /// The connection closes before the API server sees the call.
    Reset,
    /// The API server does it, and the connection closes without an answer.
    CutReply,
    /// Nothing happens, for ever.
    Swallow,
}

type Plan = Box<dyn FnMut(&Parts) -> Effect + Send>;

/// It serves in the runtime that started it, until it is dropped.
pub struct Proxy {
    url: String,
    kubeconfig: PathBuf,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    calls: Mutex<Vec<Call>>,
    plan: Mutex<Plan>,
    /// Connections older than this number are black holes.
    hole_below: watch::Sender<u64>,
    /// Connections older than this number are cut.
    cut_below: watch::Sender<u64>,
    connections: AtomicU64,
}

impl Proxy {
    /// A proxy that passes everything.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("a port for the proxy")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            client: plane.client().await?,
            calls: Mutex::default(),
            plan: Mutex::new(Box::new(|_| Effect::Pass)),
            hole_below: watch::Sender::new(0),
            cut_below: watch::Sender::new(0),
            connections: AtomicU64::new(0),
        });
        let task = tokio::spawn(serve(listener, shared.clone()));
        Ok(Self { kubeconfig: plane.kubeconfig_for("admin", &url)?, url, shared, task })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig that points here.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Every call so far, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        locked(&self.shared.calls).clone()
    }

    pub fn forget_calls(&self) {
        locked(&self.shared.calls).clear();
    }

    /// From now on each call is asked about here.
    pub fn plan(&self, plan: impl FnMut(&Parts) -> Effect + Send + 'static) {
        *locked(&self.shared.plan) = Box::new(plan);
    }

    pub fn pass(&self) {
        self.plan(|_| Effect::Pass);
    }

    /// On the connections of now, bytes vanish without a word; new ones work.
    pub fn black_hole(&self) {
        self.shared.hole_below.send_replace(self.shared.connections.load(Ordering::SeqCst));
    }

    /// The connections of now are closed; new ones work.
    pub fn reset(&self) {
        self.shared.cut_below.send_replace(self.shared.connections.load(Ordering::SeqCst));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("url", &self.url).finish_non_exhaustive()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Connections end with the set, and the set with this task.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let number = shared.connections.fetch_add(1, Ordering::SeqCst);
            connections.spawn(converse(stream, number, shared.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, number: u64, shared: Arc<Shared>) {
    let mut cut = shared.cut_below.subscribe();
    let service = service_fn(|request| answer(request, number, shared.clone()));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A peer that hangs up, and a call that is answered by closing, are parts of the test.
        _ = connection => {}
        _ = cut.wait_for(|below| number < *below) => {}
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Closed>>;

/// The error by which a connection is closed without an answer.
#[derive(Debug)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed by the plan")
    }
}

impl std::error::Error for Closed {}

async fn answer(
    request: Request<Incoming>,
    number: u64,
    shared: Arc<Shared>,
) -> std::result::Result<Answer, Closed> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
    let call = Call { method: head.method.to_string(), target: head.uri.to_string() };
    locked(&shared.calls).push(call);
    let effect = (locked(&shared.plan))(&head);
    in_hole(number, &shared).await;
    match effect {
        Effect::Pass => forward(head, body, number, &shared).await,
        Effect::Hold(time) => {
            tokio::time::sleep(time).await;
            forward(head, body, number, &shared).await
        }
        Effect::Reset => Err(Closed),
        Effect::CutReply => {
            let answer = forward(head, body, number, &shared).await?;
            let _ = answer.into_body().collect().await;
            Err(Closed)
        }
        Effect::Swallow => std::future::pending().await,
        Effect::Answer { status, headers, body } => Ok(scripted(status, &headers, body)),
    }
}

fn scripted(status: u16, headers: &[(String, String)], body: String) -> Answer {
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {}).boxed_unsync();
    // An impossible status of a plan is seen as an empty 200.
    response.body(body).unwrap_or_else(|_| Response::new(empty()))
}

fn empty() -> UnsyncBoxBody<Bytes, Closed> {
    Full::new(Bytes::new()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// On a connection that is a black hole, waits for ever.
async fn in_hole(number: u64, shared: &Shared) {
    if number < *shared.hole_below.borrow() {
        std::future::pending::<()>().await;
    }
}

async fn forward(
    mut head: Parts,
    body: Bytes,
    number: u64,
    shared: &Shared,
) -> std::result::Result<Answer, Closed> {
    for name in ["host", "authorization", "connection"] {
        head.headers.remove(name);
    }
    let request = Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let answer = shared.client.send(request).await.map_err(|_| Closed)?;
    let (head, body) = answer.into_parts();
    in_hole(number, shared).await;
    let stream = Guarded { body: Box::pin(body), number, hole_below: shared.hole_below.subscribe() };
    Ok(Response::from_parts(head, BodyExt::boxed_unsync(stream)))
}

/// A stream that stops for ever when its connection becomes a black hole.
struct Guarded {
    body: Pin<Box<kube::client::Body>>,
    number: u64,
    hole_below: watch::Receiver<u64>,
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Closed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Closed>>> {
        let number = self.number;
        let swallowed = self.hole_below.wait_for(|below| number < *below).now_or_never().is_some();
        if swallowed {
            return Poll::Pending;
        }
        self.body.as_mut().poll_frame(context).map_err(|_| Closed)
    }
}

/// A test that panicked while it held the lock left nothing half-made in there.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
