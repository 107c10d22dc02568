//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::CONNECTION;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::pulse::{Over, Pulse};
use super::stream::{Answer, Stream};
use super::{Limits, Tls};
use crate::access::Peer;

/// How long a client may take that is told to go, and is not being answered.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a connection is served with.
#[derive(Clone)]
pub(super) struct Serving<S> {
    pub(super) service: S,
    pub(super) limits: Arc<Limits>,
    pub(super) tls: Option<Tls>,
    pub(super) closed: watch::Receiver<bool>,
}

impl<S, B> Serving<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send + 'static>,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    pub(super) async fn serve(mut self, stream: TcpStream, pulse: Arc<Pulse>) {
        // An answer is one write; waiting for more to fill a packet would only delay it.
        let _ = stream.set_nodelay(true);
        let Some(tls) = self.tls.clone() else {
            return self.converse(stream, Peer::default(), &pulse).await;
        };
        let shaken = tokio::select! {
            shaken = tls.accept(stream) => shaken,
            _ = pulse.over(&self.limits) => return,
            _ = self.closed.wait_for(|closed| *closed) => return,
        };
        match shaken {
            Ok(stream) => {
                let peer = Peer::of(stream.get_ref().1.peer_certificates());
                pulse.shaken();
                self.converse(stream, peer, &pulse).await;
            }
            Err(error) => tracing::debug!(%error, "a handshake failed"),
        }
    }

    async fn converse(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Peer,
        pulse: &Arc<Pulse>,
    ) {
        let service = self.service;
        let beating = Arc::clone(pulse);
        let counted = service_fn(move |mut request: Request<Incoming>| {
            let version = request.version();
            let turn = beating.begin(version);
            request.extensions_mut().insert(peer.clone());
            let answer = service.call(request);
            async move {
                let response = answer.await?;
                Ok::<_, Infallible>(in_version(version, response.map(|body| Answer::new(body, turn))))
            }
        });
        let protocol = protocol(&self.limits);
        let stream = Stream::new(stream, Arc::clone(pulse), self.limits.write);
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), counted));
        let grace = tokio::select! {
            ended = connection.as_mut() => return note_end(ended),
            over = pulse.over(&self.limits) => match over {
                Over::Quiet => self.limits.request,
                Over::Stuck => return tracing::debug!("a client did not take its answer"),
            },
            _ = self.closed.wait_for(|closed| *closed) => self.limits.drain,
        };
        // Half of a first head is all that was ever said: nobody waits for an answer.
        if !pulse.is_served() {
            return;
        }
        connection.as_mut().graceful_shutdown();
        match timeout(LAST_WORDS.min(grace), connection.as_mut()).await {
            Ok(ended) => note_end(ended),
            // A request that came at the last moment is still answered.
            Err(_) if pulse.is_busy() => {
                let ended = timeout(grace.saturating_sub(LAST_WORDS), connection).await;
                if let Ok(ended) = ended {
                    note_end(ended);
                }
            }
            Err(_) => {}
        }
    }
}

/// HTTP/1.1 and HTTP/2 on one port, told apart by the first bytes.
fn protocol(limits: &Limits) -> Builder<TokioExecutor> {
    // hyper refuses to work with a buffer below its own minimum.
    let buffer = limits.header_bytes.max(8192);
    let mut builder = Builder::new(TokioExecutor::new());
    // The pulse sets the times: hyper's own limit would end a connection that is merely idle.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(buffer);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    builder
}

/// Streams that a client may give up before we have looked at them, and streams that we may have to refuse,
/// before the connection ends: more are an attack.
const RESETS: usize = 50;

/// What one stream holds of an answer that waits for its client.
const SEND_BUFFER: usize = 64 << 10;

/// How often a silent HTTP/2 client is asked whether it is there, and how long it may take to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

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
