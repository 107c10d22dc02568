//! The REST surface: what arrives on the wire becomes one call of [`Resources`], its answer goes back.
//!
//! The room knows routes, headers, bodies and connections. It knows no service type: which collections
//! exist, and what may be done to them, it asks.

mod accept;
mod body;
mod connection;
mod handlers;
mod negotiate;
mod pulse;
mod query;
mod reply;
mod routes;
mod stream;
mod tls;
mod traffic;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use hyper::body::Body;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Uri};
use hyper_util::service::TowerToHyperService;
use mapwright_engine::problem::{Problem, ProblemStyle};
use serde_json::Value;
use warp::Filter;

use crate::access::{Access, Peer};

pub use accept::{Limits, run};
pub(crate) use query::{form_decode, percent_decode};
pub use tls::{Tls, TlsFiles};

/// What the routes do, in the product's terms.
///
/// Each call runs as a task of its own: a caller who hangs up does not stop it half-way, and a call that
/// outlives [`Limits::request`] is answered as unavailable but goes on. A call therefore brings its own
/// end.
pub trait Resources: Send + Sync + 'static {
    /// The collections that are served now; asked anew for each request.
    fn collections(&self) -> Arc<[Collection]>;

    /// The OpenAPI document of all collections, as JSON text.
    fn openapi(&self) -> String;

    /// The figures of the process, in the text format of Prometheus.
    fn metrics(&self) -> String;

    /// What keeps this process from serving, in words; empty where nothing does.
    fn unready(&self) -> Vec<String>;

    /// The health of one collection, or of the whole process. Must answer within two seconds.
    fn health(&self, collection: Option<&str>) -> impl Future<Output = Value> + Send;

    fn create(&self, collection: &str, create: Create)
    -> impl Future<Output = Result<Value, Problem>> + Send;

    fn get(&self, collection: &str, id: &str) -> impl Future<Output = Result<Value, Problem>> + Send;

    fn list(&self, collection: &str, query: ListQuery)
    -> impl Future<Output = Result<Value, Problem>> + Send;

    fn update(
        &self,
        collection: &str,
        id: &str,
        update: Update,
    ) -> impl Future<Output = Result<Value, Problem>> + Send;

    fn delete(
        &self,
        collection: &str,
        id: &str,
        idempotency_key: Option<String>,
    ) -> impl Future<Output = Result<(), Problem>> + Send;

    /// An action that the collection declares.
    fn act(
        &self,
        collection: &str,
        id: &str,
        act: Act,
    ) -> impl Future<Output = Result<Outcome, Problem>> + Send;
}

/// A collection as far as routing needs to know it.
#[derive(Clone, Debug)]
pub struct Collection {
    /// The path segment.
    pub name: String,
    /// POST creates, GET reads and lists, PATCH updates, DELETE deletes; HEAD goes with GET.
    pub operations: Vec<Method>,
    pub actions: Vec<Action>,
    pub problem_style: ProblemStyle,
}

/// A custom method of an instance: `<id>:<name>`.
#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    /// POST for one that acts, GET for one that only reads.
    pub method: Method,
}

/// A create as it was asked for.
#[derive(Clone, Debug)]
pub struct Create {
    /// The id that the caller chose; its form is not checked yet.
    pub id: Option<String>,
    pub idempotency_key: Option<String>,
    /// The body as it was sent, members in their order.
    pub body: Value,
}

/// Which page of a list is asked for; neither value is checked yet.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub max_page_size: Option<String>,
    pub page_token: Option<String>,
}

/// An update as it was asked for.
#[derive(Clone, Debug)]
pub struct Update {
    pub idempotency_key: Option<String>,
    /// The body, or why it could not be read: whether there is such an instance is judged before that.
    pub body: Result<Value, Problem>,
}

/// An action as it was asked for.
#[derive(Clone, Debug)]
pub struct Act {
    /// The name of a declared action.
    pub name: String,
    /// Decoded, in the order of the request.
    pub query: Vec<(String, String)>,
    pub idempotency_key: Option<String>,
    pub body: Option<Value>,
}

/// What an action answers.
#[derive(Clone, Debug)]
pub enum Outcome {
    Json(Value),
    Text(String),
}

/// The service that [`run`] serves, whatever carries the bodies: one filter for all routes.
///
/// warp's own path filters neither decode segments nor serve HEAD nor tell a wrong method from an unknown
/// path, and they panic on a target without a path, as CONNECT has. So the filter only takes the request
/// apart, its target travels beside it, and the pure table in `routes` decides.
pub fn service<R, B>(
    resources: Arc<R>,
    access: Arc<Access>,
    limits: &Limits,
) -> impl Service<Request<B>, Response = warp::reply::Response, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static
where
    R: Resources,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Sync + 'static,
{
    let traffic = traffic::Traffic::default();
    let server = handlers::Server { resources, access, limits: limits.clone(), traffic };
    let (bytes, time) = (limits.body_bytes, limits.body_read);
    let body = warp::header::headers_cloned()
        .and(warp::body::stream())
        .map(move |headers, stream| body::Body::new(headers, stream, bytes, time));
    // Only a connection has a peer; what comes from within this process is nobody in particular.
    let peer = warp::ext::optional::<Peer>().map(Option::unwrap_or_default);
    let filter = warp::any()
        .map(move || server.clone())
        .and(warp::method())
        .and(warp::ext::get::<Uri>())
        .and(peer)
        .and(body)
        .then(handlers::answer);
    let filtered = TowerToHyperService::new(warp::service(filter));
    service_fn(move |mut request: Request<B>| {
        let target = request.uri().clone();
        request.extensions_mut().insert(target);
        filtered.call(request)
    })
}
