//! The far side of a connection, in a test's hands: a scripted API server, and a proxy that loses bytes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the scripted server answers.
pub(crate) enum Reply {
    Json(u16, Value),
    /// Refuses, with a Retry-After header of so many seconds.
    ComeBack(u16, u64),
    /// These lines, then the end.
    Lines(Vec<Value>),
    /// What the test sends, as long as it keeps the sender.
    Open(mpsc::UnboundedReceiver<Value>),
    /// No answer, ever.
    Silence,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) authorization: String,
}

impl Asked {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }
}

/// An API server that knows config maps and answers everything else by a script.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    pub(crate) async fn start(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(script));
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                let service = service_fn(move |request| {
                    let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                    async move { answer(&request, &*script, &seen).await }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, asked }
    }

    /// The requests so far, discovery left out.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn kubeconfig(&self, user: Value) -> PathBuf {
        kubeconfig(&format!("http://{}", self.address), user)
    }
}

async fn answer<F: FnMut(&Asked) -> Reply>(
    request: &Request<hyper::body::Incoming>,
    script: &Mutex<F>,
    seen: &Mutex<Vec<Asked>>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let header = request.headers().get("authorization").map(|value| value.to_str().unwrap());
    let asked = Asked {
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        authorization: header.unwrap_or_default().to_owned(),
    };
    if asked.path == "/api/v1" {
        return Ok(json_reply(200, &discovery()));
    }
    seen.lock().unwrap().push(asked.clone());
    let reply = (script.lock().unwrap())(&asked);
    Ok(match reply {
        Reply::Json(code, body) => json_reply(code, &body),
        Reply::ComeBack(code, seconds) => {
            let mut response = json_reply(code, &json!("later"));
            response.headers_mut().insert("retry-after", seconds.into());
            response
        }
        Reply::Lines(lines) => {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            Response::new(Full::new(Bytes::from(text)).boxed())
        }
        Reply::Open(receiver) => {
            let lines = futures::stream::unfold(receiver, |mut receiver| async {
                let line = receiver.recv().await?;
                Some((Ok(Frame::data(Bytes::from(format!("{line}\n")))), receiver))
            });
            Response::new(StreamBody::new(lines).boxed())
        }
        Reply::Silence => std::future::pending().await,
    })
}

fn json_reply(code: u16, body: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let body = Full::new(Bytes::from(body.to_string())).boxed();
    Response::builder().status(code).body(body).unwrap()
}

fn discovery() -> Value {
    json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
        { "name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["list", "watch"] },
    ] })
}

/// Writes a kubeconfig of its own for one user.
pub(crate) fn kubeconfig(server: &str, user: Value) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mapwright-wire-{}-{number}.json", std::process::id()));
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": server } }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    });
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

/// A proxy whose established connections can be made to lose every byte, while new ones pass.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    connections: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
}

impl Proxy {
    pub(crate) async fn start(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections: Arc<Mutex<Vec<Arc<AtomicBool>>>> = Arc::default();
        let all = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let lost = Arc::new(AtomicBool::new(false));
                all.lock().unwrap().push(Arc::clone(&lost));
                let Ok(far) = TcpStream::connect(&upstream).await else {
                    continue;
                };
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                tokio::spawn(carry(near_read, far_write, Arc::clone(&lost)));
                tokio::spawn(carry(far_read, near_write, lost));
            }
        });
        Self { port, connections }
    }

    pub(crate) fn blackhole(&self) {
        for lost in self.connections.lock().unwrap().iter() {
            lost.store(true, Ordering::Relaxed);
        }
    }
}

/// Neither an end nor a reset goes through a black hole.
async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    lost: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        if lost.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
