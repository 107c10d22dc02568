//! The proxy in front of the API server: it numbers writes, lists and events, and does what the plan says.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::board::Board;
use super::plan::Act;
use crate::control_plane::ControlPlane;
use crate::failure::{Context, Result};
use crate::proxy::Closed;

/// It serves until it is dropped.
pub(super) struct Gate {
    kubeconfig: PathBuf,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    board: Arc<Board>,
    /// The first list that was served from each place.
    first_lists: Mutex<HashMap<String, Bytes>>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Closed>>;
type Exchange = Result<Answer, Closed>;

/// Longer than it takes until the next event of an object, where there is one.
const COALESCE: Duration = Duration::from_millis(1_500);

impl Gate {
    pub(super) async fn start(plane: &ControlPlane, board: Arc<Board>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("a port for the gate")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared { client: plane.client().await?, board, first_lists: Mutex::default() });
        let task = tokio::spawn(serve(listener, shared));
        Ok(Self { kubeconfig: plane.kubeconfig_for("admin", &url)?, task })
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Connections end with the set, and the set with this task.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let shared = shared.clone();
            connections.spawn(async move {
                let service = service_fn(|request| answer(request, shared.clone()));
                // A peer that hangs up is a part of the plan.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Where a request goes: the verb as plans name it, the kind's plural, the name of an object.
struct Place {
    verb: String,
    plural: String,
    name: String,
}

impl Place {
    /// None for what plans do not disturb: discovery, reads of one object, and the renewals of a lease, of
    /// which there are as many as there is time.
    fn of(head: &Parts) -> Option<Self> {
        let (_, below) = head.uri.path().split_once("/namespaces/")?;
        let mut parts = below.split('/').skip(1);
        let (plural, name) = (parts.next()?.to_owned(), parts.next().unwrap_or_default().to_owned());
        let watch = head.uri.query().is_some_and(|query| query.contains("watch="));
        let verb = match (head.method.as_str(), name.as_str()) {
            _ if plural == "leases" => return None,
            ("GET", _) if watch => "WATCH",
            ("GET", "") => "LIST",
            ("GET", _) => return None,
            (method, _) => method,
        };
        Some(Self { verb: verb.to_owned(), plural, name })
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Exchange {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Closed)?.to_bytes();
    let Some(place) = Place::of(&head) else { return forward(head, body, &shared).await };
    let act = shared.board.reach(&format!("{} {}", place.verb, place.plural), &place.name);
    if place.verb == "LIST" {
        shared.board.renew(&place.plural);
    }
    match act {
        None if place.verb == "WATCH" && shared.board.is_expired(&place.plural) => Ok(refusal(410)),
        None => pass(head, body, &place, &shared).await,
        Some(Act::Delay(milliseconds)) => {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            pass(head, body, &place, &shared).await
        }
        Some(Act::KillBefore) => {
            shared.board.kill();
            std::future::pending().await
        }
        Some(Act::KillAfter) => {
            take_effect(head, body, &shared).await?;
            shared.board.kill();
            std::future::pending().await
        }
        Some(Act::CutReply) => {
            take_effect(head, body, &shared).await?;
            Err(Closed)
        }
        Some(Act::BlackHole) => std::future::pending().await,
        Some(Act::Answer { status, .. }) => Ok(refusal(status)),
        Some(Act::Expired) => {
            shared.board.expire(&place.plural);
            Ok(refusal(410))
        }
        Some(Act::Squat) => {
            squat(&head, &body, &place, &shared).await;
            forward(head, body, &shared).await
        }
        Some(Act::Swap) => {
            swap(&head, &place, &shared).await;
            forward(head, body, &shared).await
        }
        Some(Act::Stale) => match first_list(&head, &shared) {
            Some(list) => Ok(document(200, list)),
            None => pass(head, body, &place, &shared).await,
        },
        // What else a plan says here fits no request.
        Some(Act::Reset | Act::Coalesce | Act::Gone | Act::SwallowAck) => Err(Closed),
    }
}

async fn pass(head: Parts, body: Bytes, place: &Place, shared: &Arc<Shared>) -> Exchange {
    let key = list_key(&head);
    let (head, stream) = forward(head, body, shared).await?.into_parts();
    match place.verb.as_str() {
        "WATCH" if head.status == 200 => {
            let (lines, receiver) = mpsc::channel(16);
            tokio::spawn(relay(stream, place.plural.clone(), lines, shared.board.clone()));
            let frames = unfold(receiver, |mut receiver| async move {
                let line: std::result::Result<Bytes, Closed> = receiver.recv().await?;
                Some((line.map(Frame::data), receiver))
            });
            Ok(Response::from_parts(head, BodyExt::boxed_unsync(StreamBody::new(frames))))
        }
        "LIST" => {
            let list = stream.collect().await.map_err(|_| Closed)?.to_bytes();
            locked(&shared.first_lists).entry(key).or_insert_with(|| list.clone());
            Ok(Response::from_parts(head, whole(list)))
        }
        _ => Ok(Response::from_parts(head, stream)),
    }
}

fn first_list(head: &Parts, shared: &Shared) -> Option<Bytes> {
    locked(&shared.first_lists).get(&list_key(head)).cloned()
}

/// The place of a list, without the part of the query that says which page.
fn list_key(head: &Parts) -> String {
    let query = head.uri.query().unwrap_or_default();
    let kept: Vec<&str> = query.split('&').filter(|part| part.starts_with("labelSelector")).collect();
    format!("{}?{}", head.uri.path(), kept.join("&"))
}

/// Hands the lines of a watch on, one event at a time.
async fn relay(
    mut stream: UnsyncBoxBody<Bytes, Closed>,
    plural: String,
    lines: mpsc::Sender<std::result::Result<Bytes, Closed>>,
    board: Arc<Board>,
) {
    let mut buffer = BytesMut::new();
    let mut held: Option<(String, Bytes)> = None;
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1).freeze();
            match event(&line, &plural, &board, &mut held).await {
                Ok(None) => {}
                Ok(Some(line)) => {
                    if lines.send(Ok(line)).await.is_err() {
                        return;
                    }
                }
                Err(last) => {
                    if let Some(line) = last {
                        let _ = lines.send(Ok(line)).await;
                    }
                    return;
                }
            }
        }
        let patience = if held.is_some() { COALESCE } else { Duration::from_secs(3600) };
        tokio::select! {
            () = lines.closed() => return,
            frame = stream.frame() => match frame {
                Some(Ok(frame)) => buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                _ => return,
            },
            () = tokio::time::sleep(patience) => {
                let Some((_, line)) = held.take() else { continue };
                if lines.send(Ok(line)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What becomes of one line: itself, nothing, or the end of the watch with a last line.
async fn event(
    line: &Bytes,
    plural: &str,
    board: &Board,
    held: &mut Option<(String, Bytes)>,
) -> std::result::Result<Option<Bytes>, Option<Bytes>> {
    let document: Value = serde_json::from_slice(line).unwrap_or_default();
    let name = document["object"]["metadata"]["name"].as_str().unwrap_or_default();
    if !matches!(document["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED")) {
        return Ok(Some(line.clone()));
    }
    let act = board.reach(&format!("EVENT {plural}"), name);
    // The line that was held back is never seen where a newer one of its object follows.
    let waited = held.take();
    let before = waited.filter(|(of, _)| of != name).map(|(_, line)| line);
    let with_before = |line: &Bytes| match &before {
        Some(before) => Bytes::from([before.as_ref(), line.as_ref()].concat()),
        None => line.clone(),
    };
    match act {
        None => Ok(Some(with_before(line))),
        Some(Act::Coalesce) => {
            *held = Some((name.to_owned(), line.clone()));
            Ok(before)
        }
        Some(Act::Delay(milliseconds)) => {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            Ok(Some(with_before(line)))
        }
        Some(Act::KillBefore) => {
            board.kill();
            std::future::pending().await
        }
        Some(Act::KillAfter) => {
            board.kill();
            Ok(Some(with_before(line)))
        }
        Some(Act::BlackHole) => std::future::pending().await,
        Some(Act::Gone) => {
            board.expire(plural);
            let last = json!({"type": "ERROR", "object": status(410)});
            Err(Some(Bytes::from(format!("{last}\n"))))
        }
        // Whatever else ends the watch here.
        Some(_) => Err(None),
    }
}

async fn take_effect(head: Parts, body: Bytes, shared: &Shared) -> Result<(), Closed> {
    let answer = forward(head, body, shared).await?;
    answer.into_body().collect().await.map(|_| ())
}

async fn forward(mut head: Parts, body: Bytes, shared: &Shared) -> Exchange {
    for name in ["host", "authorization", "connection"] {
        head.headers.remove(name);
    }
    let request = Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let answer = shared.client.send(request).await.map_err(|_| Closed)?;
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head, BodyExt::boxed_unsync(body.map_err(|_| Closed))))
}

/// Removes the object and makes one of the same name that is nobody's of ours.
async fn swap(head: &Parts, place: &Place, shared: &Shared) {
    let path = head.uri.path();
    let collection = path.rsplit_once('/').map_or("", |(collection, _)| collection);
    let Ok(object) = send(shared, Method::GET, path, Vec::new()).await else { return };
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let _ = send(shared, Method::DELETE, path, now.to_string().into_bytes()).await;
    make_foreign(shared, collection, &place.plural, &place.name, object).await;
}

/// Somebody else is faster, and takes the name.
async fn squat(head: &Parts, body: &[u8], place: &Place, shared: &Shared) {
    let Ok(object) = serde_json::from_slice::<Value>(body) else { return };
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    make_foreign(shared, head.uri.path(), &place.plural, &name, object).await;
}

async fn make_foreign(shared: &Shared, collection: &str, plural: &str, name: &str, mut object: Value) {
    object["metadata"] = json!({"name": name});
    object["status"] = Value::Null;
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|member, _| !member.starts_with("clusterIP"));
    }
    match send(shared, Method::POST, collection, object.to_string().into_bytes()).await {
        Ok(made) => {
            shared.board.is_foreign(plural, name, made["metadata"]["uid"].as_str().unwrap_or_default())
        }
        Err(error) => shared.board.complain(format!("the harness: cannot make a foreign {name}: {error}")),
    }
}

async fn send(shared: &Shared, method: Method, path: &str, body: Vec<u8>) -> kube::Result<Value> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    shared.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
}

fn status(code: u16) -> Value {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
        "message": format!("{reason} by the plan"), "details": {"retryAfterSeconds": 1}})
}

fn refusal(code: u16) -> Answer {
    document(code, status(code).to_string().into())
}

fn document(code: u16, body: Bytes) -> Answer {
    let response = Response::builder().status(code).header("content-type", "application/json");
    let response = if code == 429 { response.header("retry-after", "1") } else { response };
    response.body(whole(body)).unwrap_or_else(|_| Response::new(whole(Bytes::new())))
}

fn whole(body: Bytes) -> UnsyncBoxBody<Bytes, Closed> {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A task that panicked while it held the lock left nothing half-made in there.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
