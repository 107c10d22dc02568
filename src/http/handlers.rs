//! Handlers in three moves: from the wire, one call, to the wire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{CONNECTION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use mapwright_engine::problem::Problem;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use warp::reply::Response;

use super::body::{self, Body};
use super::query::Query;
use super::routes::{self, Route};
use super::traffic::Traffic;
use super::{Act, Create, Limits, ListQuery, Outcome, Resources, Update, negotiate, reply};
use crate::access::{Access, Caller, Peer};
use crate::traces::Context;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What all handlers share.
pub(super) struct Server<R> {
    pub(super) resources: Arc<R>,
    pub(super) access: Arc<Access>,
    pub(super) limits: Limits,
    pub(super) traffic: Traffic,
}

/// Answers one request: every outcome is a reply, none a rejection.
pub(super) async fn answer<R: Resources>(
    server: Server<R>,
    method: Method,
    target: Uri,
    peer: Peer,
    body: Body,
) -> Response {
    let request_id = request_id(&body.headers);
    let given = body.headers.get(TRACEPARENT).and_then(|value| Some((value.clone(), sane(value)?)));
    let (traceparent, context) = given.unzip();
    let span = span(&request_id, context, &method, target.path());
    let request = Request { method, target, peer, body };
    let mut response = in_time(&server, request).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    if let Some(value) = traceparent {
        response.headers_mut().insert(TRACEPARENT, value);
    }
    response
}

/// All that a request causes is told under its id, its trace and, once that is known, its instance.
fn span(request_id: &str, context: Option<Context>, method: &Method, path: &str) -> Span {
    let Context { trace, parent, sampled } = context.unwrap_or_else(Context::begin);
    tracing::info_span!(
        "request",
        kind = "server",
        id = request_id,
        trace,
        parent,
        unsampled = (!sampled).then_some(true),
        method = method.as_str(),
        path,
        route = Empty,
        instance = Empty,
        caller = Empty,
        status = Empty,
    )
}

fn sane(value: &HeaderValue) -> Option<Context> {
    Context::parse(value.to_str().ok()?)
}

/// A request, taken apart.
struct Request {
    method: Method,
    target: Uri,
    peer: Peer,
    body: Body,
}

async fn in_time<R: Resources>(server: &Server<R>, mut request: Request) -> Response {
    let begun = Instant::now();
    let collections = server.resources.collections();
    let limit = server.limits.request;
    let routed = async {
        let route = routes::resolve(&request.method, request.target.path(), &collections);
        let trusted = admit(&server.access, route.as_ref().ok(), &request).await?;
        let route = route?;
        request.accepts(&route)?;
        Span::current().record("route", route.pattern());
        dispatch(server, route, trusted, &mut request).await
    };
    let outcome = timeout(limit, routed).await.unwrap_or_else(|_| {
        let detail = format!("not done within {} s; look before you repeat it", limit.as_secs());
        Err(Problem::unavailable(detail, 1))
    });
    let mut response = outcome.unwrap_or_else(|problem| {
        let style = routes::style(request.target.path(), &collections);
        reply::problem(&problem, &style, &request.instance())
    });
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static(server.access.challenge());
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response = reply::coded(response, negotiate::wants_gzip(&request.body.headers)).await;
    if request.method == Method::HEAD {
        response = reply::without_body(response);
    }
    if request.body.ends_connection() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let collection = routes::of_path(request.target.path(), &collections);
    let (name, status) = (collection.map(|collection| collection.name.clone()), response.status().as_u16());
    Span::current().record("status", status);
    server.traffic.note(name, &request.method, status, begun.elapsed());
    log(&request.method, response.status(), begun);
    request.body.discard();
    response
}

/// Judges who asks, from the head alone; whether it may see more than a stranger.
///
/// Health is for everybody, since those who probe it carry no proof; a stranger sees only whether it is well.
async fn admit(access: &Access, route: Option<&Route>, request: &Request) -> Result<bool, Problem> {
    let right = route.and_then(|route| route.right(&request.method));
    let judged = access.judge(&request.peer, &request.body.headers, right.as_ref());
    let caller = if route.is_some_and(Route::is_open) {
        match timeout(STRANGER, judged).await {
            Ok(Ok(caller)) => caller,
            _ => return Ok(false),
        }
    } else {
        judged.await?
    };
    if let Some(Caller(name)) = caller {
        Span::current().record("caller", name);
    }
    Ok(true)
}

async fn dispatch<R: Resources>(
    server: &Server<R>,
    route: Route,
    trusted: bool,
    request: &mut Request,
) -> Result<Response, Problem> {
    let resources = Arc::clone(&server.resources);
    match route {
        Route::Health { collection } => health(resources, collection, trusted).await,
        Route::OpenApi => Ok(reply::document(resources.openapi())),
        Route::Metrics => Ok(reply::text(resources.metrics() + &server.traffic.figures())),
        // Who is answered at all sees that the process turns.
        Route::Live => Ok(reply::json(StatusCode::OK, &json!({ "status": "ok" }))),
        Route::Ready => ready(&*resources, trusted),
        Route::Options { allow } => Ok(reply::options(&allow)),
        Route::Create { collection } => create(resources, collection, request).await,
        Route::List { collection } => list(resources, collection, request).await,
        Route::Get { collection, id } => get(resources, collection, id).await,
        Route::Update { collection, id } => update(resources, collection, id, request).await,
        Route::Delete { collection, id } => delete(resources, collection, id, request).await,
        Route::Act { collection, id, action } => act(resources, collection, id, action, request).await,
    }
}

fn ready<R: Resources>(resources: &R, trusted: bool) -> Result<Response, Problem> {
    match resources.unready().as_slice() {
        [] => Ok(reply::json(StatusCode::OK, &json!({ "status": "ok" }))),
        why if trusted => Err(Problem::unavailable(format!("not ready: {}", why.join("; ")), 1)),
        _ => Err(Problem::unavailable("not ready; the log and health tell those who may call why", 1)),
    }
}

async fn health<R: Resources>(
    resources: Arc<R>,
    collection: Option<String>,
    trusted: bool,
) -> Result<Response, Problem> {
    let mut health = apart(async move { Ok(resources.health(collection.as_deref()).await) }).await?;
    if let (false, Value::Object(members)) = (trusted, &mut health) {
        members.retain(|name, _| SHOWN_TO_ALL.contains(&name.as_str()));
    }
    Ok(reply::json(StatusCode::OK, &health))
}

/// After this long somebody who asks for health is a stranger: health has its own time.
const STRANGER: Duration = Duration::from_millis(400);

/// What a stranger sees of health: what DCM and a probe read.
const SHOWN_TO_ALL: [&str; 5] = ["type", "status", "path", "version", "uptime"];

async fn create<R: Resources>(
    resources: Arc<R>,
    collection: String,
    request: &mut Request,
) -> Result<Response, Problem> {
    let create = Create {
        id: request.query()?.once("id")?,
        idempotency_key: request.idempotency_key()?,
        body: request.body.json(body::JSON).await?,
    };
    let created = apart(async move { resources.create(&collection, create).await }).await?;
    Ok(reply::json(StatusCode::CREATED, &created))
}

async fn list<R: Resources>(
    resources: Arc<R>,
    collection: String,
    request: &Request,
) -> Result<Response, Problem> {
    let query = request.query()?;
    let query =
        ListQuery { max_page_size: query.once("max_page_size")?, page_token: query.once("page_token")? };
    let page = apart(async move { resources.list(&collection, query).await }).await?;
    Ok(reply::json(StatusCode::OK, &page))
}

async fn get<R: Resources>(resources: Arc<R>, collection: String, id: String) -> Result<Response, Problem> {
    let instance = apart(async move { resources.get(&collection, &id).await }).await?;
    Ok(reply::json(StatusCode::OK, &instance))
}

async fn update<R: Resources>(
    resources: Arc<R>,
    collection: String,
    id: String,
    request: &mut Request,
) -> Result<Response, Problem> {
    let update = Update {
        idempotency_key: request.idempotency_key()?,
        body: request.body.json(body::JSON_OR_MERGE_PATCH).await,
    };
    let updated = apart(async move { resources.update(&collection, &id, update).await }).await?;
    Ok(reply::json(StatusCode::OK, &updated))
}

async fn delete<R: Resources>(
    resources: Arc<R>,
    collection: String,
    id: String,
    request: &Request,
) -> Result<Response, Problem> {
    let key = request.idempotency_key()?;
    apart(async move { resources.delete(&collection, &id, key).await }).await?;
    Ok(reply::no_content())
}

async fn act<R: Resources>(
    resources: Arc<R>,
    collection: String,
    id: String,
    action: String,
    request: &mut Request,
) -> Result<Response, Problem> {
    let act = Act {
        name: action,
        query: request.query()?.into_pairs(),
        idempotency_key: request.idempotency_key()?,
        body: request.body.optional_json().await?,
    };
    match apart(async move { resources.act(&collection, &id, act).await }).await? {
        Outcome::Json(value) => Ok(reply::json(StatusCode::OK, &value)),
        Outcome::Text(text) => Ok(reply::text(text)),
    }
}

/// Runs a call as a task of its own: hanging up does not stop it, and a panic is answered like any error.
async fn apart<T: Send + 'static>(
    call: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(call.in_current_span()).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a call ended without an answer");
        Err(Problem::internal("the request could not be done; the log tells more under its request id"))
    })
}

/// The caller's id if it can stand in a log line as it is, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    sent.filter(|id| is_visible(id, 128)).map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

fn is_visible(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Writes and failures are told; reads, of which there are many, only when asked for.
fn log(method: &Method, status: StatusCode, begun: Instant) {
    let (status, ms) = (status.as_u16(), begun.elapsed().as_millis());
    if status >= 500 {
        tracing::warn!(status, ms, "answered");
    } else if method.is_safe() {
        tracing::debug!(status, ms, "answered");
    } else {
        tracing::info!(status, ms, "answered");
    }
}

impl Request {
    /// Path and query as they were sent.
    fn instance(&self) -> String {
        let path = self.target.path();
        self.target.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
    }

    /// Refuses before anything is done what could not be answered in a form that the caller reads.
    fn accepts(&self, route: &Route) -> Result<(), Problem> {
        let media_types: &[&str] = match route {
            // Neither has a body.
            Route::Options { .. } | Route::Delete { .. } => return Ok(()),
            Route::Act { .. } => &["application/json", "text/plain"],
            Route::Metrics => &["text/plain"],
            _ => &["application/json"],
        };
        if negotiate::accepts(&self.body.headers, media_types) {
            return Ok(());
        }
        let media_types = media_types.join(" or ");
        Err(Problem::not_acceptable(format!(
            "the answer is {media_types}; name it in Accept, or send no Accept"
        )))
    }

    fn query(&self) -> Result<Query, Problem> {
        Query::parse(self.target.query())
    }

    fn idempotency_key(&self) -> Result<Option<String>, Problem> {
        let mut values = self.body.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        match value.to_str() {
            Ok(key) if is_visible(key, 255) && values.next().is_none() => Ok(Some(key.to_owned())),
            _ => Err(Problem::invalid_argument(
                "the Idempotency-Key header must be given once, with 1 to 255 visible ASCII characters",
            )),
        }
    }
}

impl<R> Clone for Server<R> {
    fn clone(&self) -> Self {
        let Self { resources, access, limits, traffic } = self;
        Self {
            resources: Arc::clone(resources),
            access: Arc::clone(access),
            limits: limits.clone(),
            traffic: traffic.clone(),
        }
    }
}
