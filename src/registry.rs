//! Registration with DCM: said once HTTP serves, renewed like a lease, never in anybody's way.
//!
//! [`next_step`] decides, [`run`] executes. Knows neither cluster nor bus.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::rustls;

/// The body that DCM's registry takes: one a service type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Registration {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    pub service_type: String,
    pub schema_version: String,
    pub endpoint: String,
    pub operations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Where this provider is and what it can give; absent where nothing is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// Totals in the notation of whoever set them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_memory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_storage: Option<String>,
}

/// How the registration stands, for health.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegistryState {
    pub outcome: Outcome,
    pub attempts: u64,
    pub next_try: Option<Timestamp>,
}

/// What the last attempt came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Outcome {
    #[default]
    NotTried,
    /// The registry knows us, under this id where it gave one.
    Registered { id: Option<String> },
    /// The registry does not want us; somebody has to look at it.
    Refused { why: String },
    /// The registry could not be asked, or asked for patience.
    Unavailable { why: String },
}

/// What came back from one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Replied { status: u16, retry_after: Option<String>, body: String },
    Failed { why: String },
}

/// What to make of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub outcome: Outcome,
    pub then: Then,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Then {
    AtTheInterval,
    /// After a pause that grows with each failure, and not before the time that the registry named.
    BackOff {
        at_least: Duration,
    },
}

const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// How long the end of a process may wait for the registry.
const FAREWELL: Duration = Duration::from_secs(2);
const ANSWER_LIMIT: usize = 64 * 1024;
/// How much of an answer goes into the log and onto health.
const QUOTED_LIMIT: usize = 500;
/// A registry that asks for more patience than this is taken to have made a mistake.
const LONGEST_PATIENCE: Duration = Duration::from_secs(3600);

/// A client of HTTP and HTTPS.
pub type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Where a registration is made, and for how long it holds.
#[derive(Debug, Clone)]
pub struct Terms {
    /// With the API prefix.
    pub base_url: String,
    pub interval: Duration,
    /// Whether it is taken back at the end.
    pub deregister: bool,
}

/// Registers and renews until `shutdown`.
pub async fn run(
    registration: Registration,
    terms: &Terms,
    state: watch::Sender<RegistryState>,
    shutdown: impl Future<Output = ()>,
) {
    let url = format!("{}/providers", terms.base_url.trim_end_matches('/'));
    let body = Bytes::from(serde_json::to_vec(&registration).unwrap_or_default());
    tokio::select! {
        () = shutdown => {}
        () = keep_registered(&registration, &url, body, terms.interval, &state) => {}
    }
    let known = match &state.borrow().outcome {
        Outcome::Registered { id } => id.clone(),
        _ => None,
    };
    if let Some(id) = known.filter(|_| terms.deregister) {
        deregister(&registration, &format!("{url}/{}", segment(&id))).await;
    }
}

/// Decides what an answer means. `known_id` is the id that an earlier answer gave.
pub fn next_step(answer: &Answer, known_id: Option<&str>, now: Timestamp) -> Step {
    let (status, retry_after, body) = match answer {
        Answer::Replied { status, retry_after, body } => (*status, retry_after.as_deref(), body),
        Answer::Failed { why } => return back_off(why.clone(), Duration::ZERO),
    };
    match status {
        200 | 201 => accepted(read_id(body), known_id),
        408 | 425 | 429 | 500..=599 => {
            let at_least = retry_after.and_then(|value| read_retry_after(value, now)).unwrap_or_default();
            back_off(format!("the registry answered {status}: {}", quoted(body)), at_least)
        }
        409 => refused(format!("the registry answered 409, the name is taken: {}", quoted(body))),
        300..=399 => refused(format!(
            "the registry answered {status}, and redirects are not followed; set DCM_REGISTRATION_URL to the target"
        )),
        _ => refused(format!("the registry answered {status}: {}", quoted(body))),
    }
}

/// How long to wait after this many failures in a row; `chance` from 0 to 1 spreads the callers.
pub fn back_off_pause(failures: u32, chance: f64) -> Duration {
    let shortest = 2_f64.powi(failures.saturating_sub(1).min(6) as i32).min(45.0);
    let longest = (shortest * 2.0).min(60.0);
    Duration::from_secs_f64(shortest + (longest - shortest) * chance)
}

/// How long to wait until the next renewal: early by up to a fifth, as a lease must not lapse.
pub fn renewal_pause(interval: Duration, chance: f64) -> Duration {
    interval.mul_f64(1.0 - chance / 5.0)
}

/// Reads `Retry-After`: seconds, or a date.
pub fn read_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
            // A date in the past asks for no patience at all.
            Duration::try_from(date.duration_since(now)).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_PATIENCE))
}

// === deciding ===

fn accepted(id: Option<String>, known_id: Option<&str>) -> Step {
    match (id, known_id) {
        (Some(id), Some(known)) if id != known => refused(format!(
            "the registry answered with id {id}, but knew this provider as {known}; \
             look for a second provider of the same name"
        )),
        (id, known) => {
            let id = id.or_else(|| known.map(str::to_owned));
            Step { outcome: Outcome::Registered { id }, then: Then::AtTheInterval }
        }
    }
}

fn refused(why: String) -> Step {
    Step { outcome: Outcome::Refused { why }, then: Then::AtTheInterval }
}

fn back_off(why: String, at_least: Duration) -> Step {
    Step { outcome: Outcome::Unavailable { why }, then: Then::BackOff { at_least } }
}

fn read_id(body: &str) -> Option<String> {
    let answer = serde_json::from_str::<serde_json::Value>(body).ok()?;
    answer.get("id")?.as_str().filter(|id| !id.is_empty()).map(str::to_owned)
}

/// As much of an answer as a log line bears, on one line.
fn quoted(body: &str) -> String {
    let line = body.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTED_LIMIT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.is_empty() => "no text".to_owned(),
        None => line,
    }
}

// === executing ===

async fn keep_registered(
    registration: &Registration,
    url: &str,
    body: Bytes,
    interval: Duration,
    state: &watch::Sender<RegistryState>,
) {
    let http = client(url);
    let mut known_id: Option<String> = None;
    let mut failures = 0_u32;
    loop {
        let answer = post(&http, url, body.clone()).await;
        let step = next_step(&answer, known_id.as_deref(), Timestamp::now());
        tell(registration, &step.outcome, &state.borrow().outcome);
        if let Outcome::Registered { id } = &step.outcome {
            known_id.clone_from(id);
        }
        let pause = match step.then {
            Then::AtTheInterval => {
                failures = 0;
                renewal_pause(interval, chance())
            }
            Then::BackOff { at_least } => {
                failures = failures.saturating_add(1);
                back_off_pause(failures, chance()).max(at_least)
            }
        };
        state.send_modify(|state| {
            state.outcome = step.outcome;
            state.attempts += 1;
            state.next_try = Timestamp::now().checked_add(pause).ok();
        });
        tokio::time::sleep(pause).await;
    }
}

/// A renewal that changes nothing is not worth a line.
fn tell(registration: &Registration, outcome: &Outcome, before: &Outcome) {
    let Registration { name, service_type, .. } = registration;
    match outcome {
        Outcome::Registered { id } if outcome != before => {
            tracing::info!(%name, %service_type, id = id.as_deref(), "registered with DCM");
        }
        Outcome::Refused { why } => {
            tracing::error!(%name, %service_type, %why, "DCM refuses the registration")
        }
        Outcome::Unavailable { why } => {
            tracing::warn!(%name, %service_type, %why, "registration is tried again")
        }
        Outcome::Registered { .. } | Outcome::NotTried => {
            tracing::debug!(%name, %service_type, "registration renewed");
        }
    }
}

/// Asks once: the process ends, and a lease that is left ends by itself.
async fn deregister(registration: &Registration, url: &str) {
    let Registration { name, service_type, .. } = registration;
    match send(&client(url), Method::DELETE, url, Bytes::new(), FAREWELL).await {
        Answer::Replied { status: 200..=299 | 404 | 410, .. } => {
            tracing::info!(%name, %service_type, "registration taken back");
        }
        Answer::Replied { status, body, .. } => {
            let body = quoted(&body);
            tracing::warn!(%name, %service_type, status, %body, "the registry does not take the registration back");
        }
        Answer::Failed { why } => {
            tracing::warn!(%name, %service_type, %why, "the registration cannot be taken back");
        }
    }
}

/// An id of the registry as one segment of a path, whatever is in it.
fn segment(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
    let letters = id
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    letters.collect()
}

async fn post(http: &Http, url: &str, body: Bytes) -> Answer {
    send(http, Method::POST, url, body, CALL_DEADLINE).await
}

async fn send(http: &Http, method: Method, url: &str, body: Bytes, deadline: Duration) -> Answer {
    match timeout(deadline, exchange(http, method, url, body)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            Answer::Failed { why: format!("cannot reach the registry at {}: {}", shown(url), chain(&*error)) }
        }
        Err(_) => Answer::Failed {
            why: format!("the registry at {} did not answer within {} s", shown(url), deadline.as_secs()),
        },
    }
}

async fn exchange(
    http: &Http,
    method: Method,
    url: &str,
    body: Bytes,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, application/problem+json")
        .header(header::USER_AGENT, concat!("mapwright/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body))?;
    let reply = http.request(request).await?;
    let status: StatusCode = reply.status();
    let retry_after =
        reply.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    // The status alone decides; a text that is too long or cut short is only missing from the log.
    let body = match Limited::new(reply.into_body(), ANSWER_LIMIT).collect().await {
        Ok(collected) => String::from_utf8_lossy(&collected.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    Ok(Answer::Replied { status: status.as_u16(), retry_after, body })
}

/// One call a minute keeps no connection, so none can go stale. Redirects are never followed.
pub fn client(url: &str) -> Http {
    let provider = rustls::crypto::ring::default_provider();
    let builder = match HttpsConnectorBuilder::new().with_provider_and_native_roots(provider) {
        Ok(builder) => builder,
        Err(error) => {
            // An image without certificates still reaches a registry by plain HTTP.
            if url.starts_with("https:") {
                tracing::error!(%error, "no certificate authorities found; install ca-certificates or set SSL_CERT_FILE");
            }
            HttpsConnectorBuilder::new().with_tls_config(trusting_nobody())
        }
    };
    let connector = builder.https_or_http().enable_http1().build();
    Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector)
}

fn trusting_nobody() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.expect("ring supports the default versions of TLS");
    versions.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

/// A URL without its user part, which may hold a password.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A number from 0 to 1, from the random bits of a fresh UUID.
fn chance() -> f64 {
    let [a, b, c, d, ..] = uuid::Uuid::new_v4().into_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}
