//! The way to the API server: two clients, a deadline on every call, and nothing tried twice in silence.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use hyper::{Request, Response};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::credential::Plugin;
use super::missing::{Missing, Needed};
use super::refusal::{Refusal, RefusalKind, classify, classify_status};
use super::resource::{Resource, ResourceRef};

/// A connection to one cluster. Cheap to clone; all clones share connections, credentials and discovery.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

/// How to reach the cluster.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// A kubeconfig file. None means the usual rules (KUBECONFIG, the home directory), then in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The deadline of one call, from its first byte to the last of its answer.
    pub request_timeout: Duration,
    /// Whether watches may begin with what is there, where the server can; else it is read in pages.
    pub streaming_lists: bool,
}

/// Who answers calls in this process, in the place of a server.
pub type Answerer =
    Arc<dyn Fn(Request<Vec<u8>>) -> BoxFuture<'static, Response<BoxBody<Bytes, Infallible>>> + Send + Sync>;

/// The body of an answer, wherever it comes from.
pub(crate) type Answer = UnsyncBoxBody<Bytes, kube::Error>;

/// How long one watch call lasts before the server ends it. Short, because it bounds how long a vanished
/// peer stays unnoticed.
pub(crate) const WATCH_SECONDS: u32 = 10;

/// A watch whose server said nothing for this long, not even that the call is over, has lost its peer.
const WATCH_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// Longest wait for a TCP and TLS handshake: a host that drops packets must not cost a whole deadline.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Health has to answer within two seconds, whatever the cluster does.
const VERSION_TIMEOUT: Duration = Duration::from_millis(1500);

struct Inner {
    way: Way,
    plugin: Option<Arc<Plugin>>,
    request_timeout: Duration,
    streaming_lists: bool,
    address: String,
    default_namespace: String,
    resources: Mutex<BTreeMap<ResourceRef, Arc<Resource>>>,
    missing: Missing,
}

enum Way {
    Server {
        /// For calls that end: its connections give up when an answer takes longer than the deadline.
        requests: Client,
        /// For watches: the same, with the silence that a watch may keep as its limit.
        watches: Client,
    },
    InProcess(Answerer),
}

/// What a call is for.
#[derive(Clone, Copy)]
enum Purpose {
    Request,
    Watch,
}

pub(crate) fn watch_silence() -> Duration {
    if seeded!("endless-silence") { WATCH_SILENCE * 100 } else { WATCH_SILENCE }
}

impl Cluster {
    /// A cluster in this process: nothing of it needs a socket, or a time that passes by itself.
    #[must_use]
    pub fn in_process(answerer: Answerer, namespace: &str, request_timeout: Duration) -> Self {
        let inner = Inner {
            way: Way::InProcess(answerer),
            plugin: None,
            request_timeout,
            streaming_lists: true,
            address: "in this process".to_owned(),
            default_namespace: namespace.to_owned(),
            resources: Mutex::default(),
            missing: Missing::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Reads the configuration and prepares the clients. It does not call the server: a cluster that is
    /// away at the start is a matter of health, not of configuration.
    ///
    /// # Errors
    /// When no configuration is found, or the one found cannot be used.
    pub async fn connect(options: ConnectOptions) -> Result<Self, Refusal> {
        let mut config = load(options.kubeconfig.as_ref()).await?;
        let plugin = Plugin::take_from(&mut config).await.map(Arc::new);
        let inner = Inner {
            address: config.cluster_url.to_string(),
            default_namespace: config.default_namespace.clone(),
            way: Way::Server {
                requests: client(config.clone(), options.request_timeout)?,
                watches: client(config, watch_silence())?,
            },
            plugin,
            request_timeout: options.request_timeout,
            streaming_lists: options.streaming_lists,
            resources: Mutex::default(),
            missing: Missing::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The server's `/version` document; within two seconds, or a refusal that says why not.
    ///
    /// # Errors
    /// When the server does not answer in time, or refuses.
    pub async fn version(&self) -> Result<Value, Refusal> {
        let deadline = VERSION_TIMEOUT.min(self.inner.request_timeout);
        self.call_within(deadline, get("/version")?).await
    }

    /// The rights that the cluster has refused us, as `verb resource.group`, until the same is allowed.
    #[must_use]
    pub fn missing_rights(&self) -> Vec<String> {
        self.inner.missing.all()
    }

    /// Whether watches may begin with what is there.
    pub(crate) fn streams_lists(&self) -> bool {
        self.inner.streaming_lists
    }

    /// The server's address, for logs and health.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// The namespace that the kubeconfig's context, or the service account, names.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.inner.default_namespace
    }

    /// Any document that the server has under a path, such as its OpenAPI documents.
    ///
    /// # Errors
    /// When the server refuses or does not answer in time.
    pub async fn document(&self, path: &str) -> Result<Value, Refusal> {
        self.call(get(path)?).await
    }

    /// One call with a JSON answer, under the connection's deadline.
    pub(crate) async fn call(&self, request: Request<Vec<u8>>) -> Result<Value, Refusal> {
        self.call_within(self.inner.request_timeout, request).await
    }

    /// One call whose answer is text.
    pub(crate) async fn text(&self, request: Request<Vec<u8>>) -> Result<String, Refusal> {
        let deadline = self.inner.request_timeout;
        let bytes = within(deadline, async { self.bytes(request).await }).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Begins a call whose answer is a stream. Only its beginning has a deadline.
    pub(crate) async fn begin_stream(&self, request: Request<Vec<u8>>) -> Result<Answer, Refusal> {
        within(watch_silence(), async { self.answer(Purpose::Watch, request).await })
            .await
            .map(Response::into_body)
    }

    /// What discovery found so far.
    pub(crate) fn resources(&self) -> &Mutex<BTreeMap<ResourceRef, Arc<Resource>>> {
        &self.inner.resources
    }

    pub(crate) async fn call_within(
        &self,
        deadline: Duration,
        request: Request<Vec<u8>>,
    ) -> Result<Value, Refusal> {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let span = tracing::debug_span!("cluster", kind = "client", method, path);
        let bytes = within(deadline, async { self.bytes(request).await }).instrument(span).await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Refusal::new(RefusalKind::Other, format!("the cluster's answer is no JSON: {error}"))
        })
    }

    async fn bytes(&self, request: Request<Vec<u8>>) -> Result<Bytes, Refusal> {
        collect(self.answer(Purpose::Request, request).await?.into_body()).await
    }

    /// Sends one request with our credentials; an answer that is no success becomes its refusal.
    async fn answer(
        &self,
        purpose: Purpose,
        mut request: Request<Vec<u8>>,
    ) -> Result<Response<Answer>, Refusal> {
        if let Some(plugin) = &self.inner.plugin {
            request.headers_mut().insert(AUTHORIZATION, plugin.header().await?);
        }
        let needed = Needed::of(&request);
        let response = self.send(purpose, request).await?;
        if response.status().is_success() {
            needed.iter().for_each(|needed| self.inner.missing.is_granted(needed));
            return Ok(response);
        }
        let refusal = refused(response).await?;
        if let Some(needed) = needed.filter(|_| refusal.kind == RefusalKind::Forbidden) {
            self.inner.missing.note(needed);
        }
        if let (RefusalKind::Unauthorized, Some(plugin)) = (refusal.kind, &self.inner.plugin) {
            plugin.forget().await;
        }
        Err(refusal)
    }
}

// === the two ways ===

impl Cluster {
    async fn send(&self, purpose: Purpose, request: Request<Vec<u8>>) -> Result<Response<Answer>, Refusal> {
        let client = match (&self.inner.way, purpose) {
            (Way::InProcess(answerer), _) => {
                let response = answerer(request).await;
                return Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()));
            }
            (Way::Server { requests, .. }, Purpose::Request) => requests,
            (Way::Server { watches, .. }, Purpose::Watch) => watches,
        };
        let response = client.send(request.map(Body::from)).await.map_err(|error| classify(&error))?;
        Ok(response.map(Body::boxed_unsync))
    }
}

/// A GET of a path.
pub(crate) fn get(path: &str) -> Result<Request<Vec<u8>>, Refusal> {
    Request::get(path).body(Vec::new()).map_err(|error| unsendable(&error))
}

/// A request that carries a document.
pub(crate) fn with_body(
    method: hyper::Method,
    path: &str,
    media_type: &str,
    body: &Value,
) -> Result<Request<Vec<u8>>, Refusal> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, media_type)
        .body(body.to_string().into_bytes())
        .map_err(|error| unsendable(&error))
}

/// A request that cannot be written down never reached anybody.
pub(crate) fn unsendable(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(RefusalKind::Invalid, format!("the request cannot be made: {error}"))
}

async fn load(kubeconfig: Option<&PathBuf>) -> Result<Config, Refusal> {
    let options = KubeConfigOptions::default();
    if let Some(path) = kubeconfig {
        let broken = |error: &dyn std::error::Error| {
            let text = format!("the kubeconfig {} cannot be used: {error}", path.display());
            Refusal::new(RefusalKind::Other, text)
        };
        let file = Kubeconfig::read_from(path).map_err(|error| broken(&error))?;
        return Config::from_custom_kubeconfig(file, &options).await.map_err(|error| broken(&error));
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        Err(outside) => Config::incluster().map_err(|inside| {
            let text = format!(
                "no cluster is configured: as a kubeconfig: {outside}; as a pod: {inside}; \
                 name a kubeconfig file, or run in a pod with a service account"
            );
            Refusal::new(RefusalKind::Other, text)
        }),
    }
}

/// A client that repeats nothing by itself: a create that is sent twice answers "already exists" to the
/// one who made the object.
fn client(mut config: Config, read_timeout: Duration) -> Result<Client, Refusal> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    config.write_timeout = Some(read_timeout);
    // The time a pooled connection lay idle must not count against the next answer on it.
    config.reset_reader_on_write = true;
    Client::try_from(config).map_err(|error| classify(&error).during("the cluster's client"))
}

async fn within<T>(deadline: Duration, call: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
    timeout(deadline, call).await.unwrap_or_else(|_| {
        let text = format!("the cluster did not answer within {} s", deadline.as_secs_f32());
        Err(Refusal::new(RefusalKind::Unavailable, text))
    })
}

async fn collect(body: Answer) -> Result<Bytes, Refusal> {
    let collected = body.collect().await.map_err(|error| classify(&error))?;
    Ok(collected.to_bytes())
}

/// Reads an answer that is no success. Proxies in between answer in their own words, and only the header
/// of a throttled call says for certain when to come back.
async fn refused(response: Response<Answer>) -> Result<Refusal, Refusal> {
    let code = response.status().as_u16();
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let bytes = collect(response.into_body()).await?;
    let status = match serde_json::from_slice::<Status>(&bytes) {
        Ok(status) if status.is_failure() => status.with_code(code),
        _ => {
            let text: String = String::from_utf8_lossy(&bytes).trim().chars().take(500).collect();
            Status::failure(&format!("the cluster answered {code}: {text}"), "").with_code(code)
        }
    };
    let mut refusal = classify_status(&status);
    refusal.retry_after = header.or(refusal.retry_after);
    Ok(refusal)
}
