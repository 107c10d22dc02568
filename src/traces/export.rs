//! The way of spans to the collector: in batches, and nobody waits for them.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, header};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Source, Span, otlp};

/// A batch goes out when it is full, or when its first span has waited this long.
const BATCH: usize = 512;
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const CALL_DEADLINE: Duration = Duration::from_secs(5);

/// The client that carries batches; whoever wires says whom it trusts.
pub(super) type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends spans to `<url>/v1/traces` until `shutdown`; then what is left, once.
pub async fn export(
    mut source: Source,
    http: Http,
    url: &str,
    resource: &[(&str, &str)],
    shutdown: impl Future<Output = ()>,
) {
    let url = format!("{url}/v1/traces");
    source.switch.turn_on();
    let (mut failing, mut batch) = (false, Vec::new());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let ending = tokio::select! {
            () = fill(&mut batch, &mut source) => false,
            () = &mut shutdown => true,
        };
        if ending {
            batch.extend(std::iter::from_fn(|| source.spans.try_recv().ok()));
        }
        let sent = match batch.is_empty() {
            true => Ok(()),
            false => send(&http, &url, otlp::document(resource, &batch).to_string()).await,
        };
        let dropped = source.switch.take_dropped();
        match &sent {
            Err(why) if !failing => tracing::warn!(url, why, spans = batch.len(), "spans are lost"),
            _ if dropped > 0 => tracing::warn!(url, dropped, "spans were dropped: the collector is too slow"),
            Ok(()) if failing => tracing::info!(url, "the collector takes spans again"),
            _ => {}
        }
        failing = sent.is_err();
        batch.clear();
        if ending {
            return;
        }
    }
}

/// What it has taken stays in the batch, also when it is stopped half-way.
async fn fill(batch: &mut Vec<Span>, source: &mut Source) {
    // The layer lives as long as the process, so the channel does not close.
    if source.spans.recv_many(batch, BATCH).await == 0 {
        std::future::pending::<()>().await;
    }
    let end = Instant::now() + LONGEST_WAIT;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        if timeout_at(end, source.spans.recv_many(batch, room)).await.is_err() {
            break;
        }
    }
}

/// Redirects are not followed: spans go where the settings say, or nowhere.
async fn send(http: &Http, url: &str, document: String) -> Result<(), String> {
    let request = Request::post(url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("mapwright/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(document)))
        .map_err(|error| error.to_string())?;
    match timeout(CALL_DEADLINE, http.request(request)).await {
        Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
        Ok(Ok(answer)) => Err(format!("the collector answered {}", answer.status())),
        Ok(Err(error)) => Err(format!("the collector cannot be reached: {error}")),
        Err(_) => Err(format!("the collector did not answer within {} s", CALL_DEADLINE.as_secs())),
    }
}
