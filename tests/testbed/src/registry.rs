//! A stub of DCM's registry: it writes down what it is sent, and answers from a script.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::failure::{Context, Result};
use crate::process::free_port;
use crate::wait::eventually;

/// What stands before `/providers`, as in DCM.
const PREFIX: &str = "/api/v1alpha1";

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub at: Instant,
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    /// Null if it was no JSON.
    pub body: Value,
}

/// One answer to come.
#[derive(Debug, Clone, Default)]
pub struct Scripted {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Without one, the registration is echoed with its id.
    pub body: Option<Value>,
}

impl Scripted {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

/// It serves in the runtime that started it, until it is dropped.
#[derive(Debug)]
pub struct Registry {
    port: u16,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Recorded>,
    script: VecDeque<Scripted>,
    otherwise: Option<Scripted>,
}

impl Registry {
    pub async fn start() -> Result<Self> {
        // Between the look and the bind another process may have taken the port: then the next one will do.
        for _ in 0..4 {
            if let Ok(registry) = Self::start_at(free_port()?).await {
                return Ok(registry);
            }
        }
        Self::start_at(free_port()?).await
    }

    /// Starts at a port that was chosen before, for a registry that comes late or comes back.
    pub async fn start_at(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.context(format!("port {port}"))?;
        let state = Arc::new(Mutex::new(State::default()));
        let task = tokio::spawn(serve(listener, state.clone()));
        Ok(Self { port, state, task })
    }

    /// What goes into DCM_REGISTRATION_URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PREFIX}", self.port)
    }

    /// All requests so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        locked(&self.state).requests.clone()
    }

    /// Adds answers for the next requests, in order; after them it is 201 again.
    pub fn script(&self, answers: impl IntoIterator<Item = Scripted>) {
        locked(&self.state).script.extend(answers);
    }

    /// What to answer when the script is over, in place of 201.
    pub fn otherwise(&self, answer: Scripted) {
        locked(&self.state).otherwise = Some(answer);
    }

    /// Waits until there were at least `count` requests.
    pub async fn wait_for(&self, count: usize, deadline: Duration) -> Result<Vec<Recorded>> {
        let what = format!("the registry was asked {count} times");
        let asked = async || Some(self.requests()).filter(|requests| requests.len() >= count);
        eventually(&what, deadline, asked).await
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    // Connections end with the set, and the set with this task.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(converse(stream, state.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, state: Arc<Mutex<State>>) {
    let service = service_fn(|request| answer(request, &state));
    // A peer that hangs up is part of the test.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    state: &Mutex<State>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let scripted = {
        let mut state = locked(state);
        state.requests.push(Recorded {
            at,
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: head.headers,
            body: body.clone(),
        });
        state.script.pop_front().or_else(|| state.otherwise.clone())
    };
    let scripted = scripted.unwrap_or_else(|| Scripted::status(201));
    let text = scripted.body.unwrap_or_else(|| echo(body)).to_string();
    let mut response = Response::builder().status(scripted.status).header("content-type", "application/json");
    for (name, value) in &scripted.headers {
        response = response.header(name, value);
    }
    // A script with an impossible status is seen as an empty 200.
    Ok(response.body(Full::new(Bytes::from(text))).unwrap_or_default())
}

/// The registration with its id: the one it came with, else one that is the same at each renewal.
fn echo(mut registration: Value) -> Value {
    if !registration.is_object() {
        registration = json!({});
    }
    if registration["id"].is_null() {
        let digest = Sha256::digest(registration["name"].to_string());
        let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        registration["id"] = id.into();
    }
    registration
}

/// A test that panicked while it held the lock left nothing half-made in there.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
