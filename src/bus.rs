//! NATS, or a stand-in without it: a publish that knows what its answer is worth, and a place for the ledger.
//!
//! Knows no mapping, no cluster and no settings: subjects, keys and bytes come in, facts go out.

mod credentials;
mod error;
mod ledger_store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::context::{PublishErrorKind, RequestErrorKind};
use async_nats::jetstream::{self, message::PublishMessage};
use async_nats::{Client, Event, HeaderMap, ServerError};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

pub use credentials::{Credentials, Held};
pub use error::{BusError, BusErrorKind};
pub use ledger_store::{LedgerStore, Stored};

/// Where messages go: to NATS, to somebody in this process, or to both. Clones share it.
#[derive(Clone)]
pub struct Bus {
    /// None where there is no NATS: then whoever listens here is everybody.
    nats: Option<Nats>,
    heard: Option<mpsc::UnboundedSender<Message>>,
    /// Where the ledger is kept without NATS; nowhere where this is none.
    kept: Option<std::path::PathBuf>,
    link: watch::Receiver<Link>,
}

/// A connection to NATS that reconnects by itself, without end.
#[derive(Clone)]
struct Nats {
    client: Client,
    jetstream: jetstream::Context,
    deadline: Duration,
    link: watch::Receiver<Link>,
    captures: Arc<Mutex<HashMap<String, (Capture, Instant)>>>,
    /// Held while a question is under way, so that many messages ask it once.
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// How to reach NATS.
pub struct Options {
    /// URLs with the scheme `nats` or `tls`; any of them may answer.
    pub servers: Vec<String>,
    /// Shown by the server's monitoring.
    pub name: String,
    pub credentials: Credentials,
    pub tls: Tls,
    /// How long any one call may take.
    pub deadline: Duration,
}

/// PEM files for TLS; without an authority the system's own roots hold.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    pub authority: Option<std::path::PathBuf>,
    pub certificate_and_key: Option<(std::path::PathBuf, std::path::PathBuf)>,
}

/// The state of the connection, for health and for whoever waits for its return.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    pub up: bool,
    /// What the server or the connection complained about last.
    pub complaint: Option<String>,
}

/// One message to publish.
#[derive(Debug, Clone)]
pub struct Message {
    pub subject: String,
    /// The header `Nats-Msg-Id`, by which a stream drops a second copy.
    pub id: String,
    pub payload: Bytes,
    /// It went out before without being stored, so only a stream is of interest now.
    pub announced: bool,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A stream stored it.
    Acknowledged,
    /// The server has no JetStream, and took it: there is nothing more to be had.
    Flushed,
    /// The server has JetStream, but no stream captures the subject yet. Whoever listens has been told once;
    /// the message stays owed until a stream acknowledges it.
    NoStreamYet,
}

/// Who keeps what is published on a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capture {
    Stream,
    NoStream,
    NoJetStream,
    /// The server has JetStream, but this user may not ask about it: only an acknowledgement tells.
    Unknown,
}

/// A known stream is asked about again after this long, or after a failed publish.
const STREAM_KNOWN_FOR: Duration = Duration::from_secs(30);
/// A missing stream may appear at any time; this only keeps many owed messages from asking one by one.
const ABSENCE_KNOWN_FOR: Duration = Duration::from_secs(1);
/// The call of JetStream's API that tells which streams capture a subject.
const NAMES_OF_STREAMS: &str = "STREAM.NAMES";
/// A peer that vanished is noticed after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(20);

// === impl Bus ===

impl Bus {
    /// Prepares a connection to NATS and returns at once; the server may come later. Only a file that cannot
    /// be used is an error.
    pub async fn connect(options: Options) -> Result<Self, BusError> {
        let nats = Nats::connect(options).await?;
        Ok(Self { link: nats.link.clone(), nats: Some(nats), heard: None, kept: None })
    }

    /// A bus without NATS, with a directory for the ledger or with the memory of this process. What is
    /// published is delivered once somebody listens here.
    pub fn local(kept: Option<std::path::PathBuf>) -> Self {
        let (_, link) = watch::channel(Link { up: true, complaint: None });
        Self { nats: None, heard: None, kept, link }
    }

    /// From now on every message that is delivered is heard here as well.
    pub fn listen(&mut self) -> mpsc::UnboundedReceiver<Message> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.heard = Some(sender);
        receiver
    }

    /// Publishes one message and says what its delivery is worth. After an error the message may have arrived
    /// or not: send it again under the same id.
    pub async fn publish(&self, message: &Message) -> Result<Delivery, BusError> {
        let delivery = match &self.nats {
            Some(nats) => nats.publish(message).await?,
            None => Delivery::Acknowledged,
        };
        if let Some(heard) = &self.heard {
            // Whoever listened may have gone.
            let _ = heard.send(message.clone());
        }
        Ok(delivery)
    }

    /// The state of the connection; [`watch::Receiver::changed`] waits for it to return.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Sends what is still on its way and closes the connection.
    pub async fn close(&self) {
        if let Some(nats) = &self.nats {
            nats.close().await;
        }
    }
}

// === impl Nats ===

impl Nats {
    async fn connect(options: Options) -> Result<Self, BusError> {
        let servers = parse_servers(&options.servers)?;
        let (tell_link, link) = watch::channel(Link::default());
        let mut connect = credentials::connect_options(options.credentials, &servers)?
            .name(&options.name)
            .retry_on_initial_connect()
            .ping_interval(PING_INTERVAL)
            .connection_timeout(options.deadline)
            .request_timeout(Some(options.deadline))
            .event_callback(move |event| note_event(tell_link.clone(), event));
        if let Some(authority) = options.tls.authority {
            connect = connect.add_root_certificates(authority);
        }
        if let Some((certificate, key)) = options.tls.certificate_and_key {
            connect = connect.add_client_certificate(certificate, key);
        }
        let client = connect.connect(servers).await.map_err(|error| {
            BusError::new(BusErrorKind::Options, "cannot prepare the connection to NATS").because(error)
        })?;
        let jetstream = jetstream::ContextBuilder::new().timeout(options.deadline).build(client.clone());
        Ok(Self {
            client,
            jetstream,
            deadline: options.deadline,
            link,
            captures: Arc::default(),
            asking: Arc::default(),
        })
    }

    async fn publish(&self, message: &Message) -> Result<Delivery, BusError> {
        let subject = message.subject.as_str();
        self.require_link(&format!("publish on `{subject}`"))?;
        match self.capture(subject).await? {
            Capture::Stream | Capture::Unknown => self.publish_to_stream(message).await,
            Capture::NoStream if message.announced => Ok(Delivery::NoStreamYet),
            Capture::NoStream => self.send_plainly(message).await.map(|()| Delivery::NoStreamYet),
            Capture::NoJetStream => self.send_plainly(message).await.map(|()| Delivery::Flushed),
        }
    }

    async fn close(&self) {
        // Nothing can be done about a failure here: what was not acknowledged is still owed at the next start.
        let _ = timeout(self.deadline, self.client.flush()).await;
        let _ = timeout(self.deadline, self.client.drain()).await;
    }

    async fn publish_to_stream(&self, message: &Message) -> Result<Delivery, BusError> {
        let subject = message.subject.as_str();
        let publish = PublishMessage::build().message_id(&message.id).payload(message.payload.clone());
        let sent = async { self.jetstream.send_publish(subject.to_owned(), publish).await?.await };
        let failure = match timeout(self.deadline, sent).await {
            Ok(Ok(_)) => return Ok(Delivery::Acknowledged),
            Ok(Err(error)) if error.kind() == PublishErrorKind::TimedOut => None,
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        // The stream may have been removed or moved, so the next attempt asks anew.
        self.captures.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
        let what = format!("no stream acknowledged a message on `{subject}`; it is sent again");
        Err(match failure {
            Some(error) => BusError::new(BusErrorKind::Refused, what).because(error),
            None => BusError::new(BusErrorKind::TimedOut, what),
        })
    }

    /// Sends without a stream, and waits until the server's side of the socket has it.
    async fn send_plainly(&self, message: &Message) -> Result<(), BusError> {
        let what = || format!("cannot send on `{}`; it is sent again", message.subject);
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, message.id.as_str());
        let sent = async {
            let payload = message.payload.clone();
            self.client
                .publish_with_headers(message.subject.clone(), headers, payload)
                .await
                .map_err(|error| BusError::new(BusErrorKind::Refused, what()).because(error))?;
            self.client
                .flush()
                .await
                .map_err(|error| BusError::new(BusErrorKind::Disconnected, what()).because(error))
        };
        timeout(self.deadline, sent)
            .await
            .unwrap_or_else(|_| Err(BusError::new(BusErrorKind::TimedOut, what())))?;
        // A connection that broke during the flush may have swallowed the message.
        self.require_link(&format!("send on `{}`", message.subject))
    }

    /// Who keeps what is published on a subject, asked of the server unless it was asked a moment ago.
    async fn capture(&self, subject: &str) -> Result<Capture, BusError> {
        let asked = async {
            let _asking = self.asking.lock().await;
            match self.known_capture(subject) {
                Some(known) => Ok(known),
                None => self.ask_capture(subject).await,
            }
        };
        // Twice the time of one question: another one may be under way, and fail.
        let patience = self.deadline * 2;
        timeout(patience, asked).await.unwrap_or_else(|_| Err(cannot_ask(BusErrorKind::TimedOut, subject)))
    }

    /// Asks the server which stream captures a subject. "No responders" to a publish says less: it does not
    /// come when an ordinary subscriber listens on the subject.
    async fn ask_capture(&self, subject: &str) -> Result<Capture, BusError> {
        let question = json!({ "subject": subject });
        let asked = self.jetstream.request::<_, _, Value>(NAMES_OF_STREAMS, &question);
        let capture = match timeout(self.deadline, asked).await {
            Ok(Ok(answer)) => read_capture(&answer)
                .map_err(|detail| cannot_ask(BusErrorKind::Refused, subject).because(detail))?,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Capture::NoJetStream,
            Ok(Err(error)) if error.kind() != RequestErrorKind::TimedOut => {
                return Err(cannot_ask(BusErrorKind::Refused, subject).because(error));
            }
            // A request that a user may not make is never answered; the server complains beside it.
            Ok(Err(_)) | Err(_) if self.lacks_right_to(NAMES_OF_STREAMS) => {
                match self.client.server_info().jetstream {
                    true => Capture::Unknown,
                    false => Capture::NoJetStream,
                }
            }
            Ok(Err(_)) | Err(_) => return Err(cannot_ask(BusErrorKind::TimedOut, subject)),
        };
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        captures.insert(subject.to_owned(), (capture, Instant::now()));
        Ok(capture)
    }

    fn known_capture(&self, subject: &str) -> Option<Capture> {
        let captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        let (capture, asked) = captures.get(subject)?;
        let holds_for = if *capture == Capture::Stream { STREAM_KNOWN_FOR } else { ABSENCE_KNOWN_FOR };
        (asked.elapsed() < holds_for).then_some(*capture)
    }

    /// Whether the server has complained that this user may not publish to such a subject.
    fn lacks_right_to(&self, subject: &str) -> bool {
        let link = self.link.borrow();
        link.complaint.as_ref().is_some_and(|complaint| {
            complaint.to_lowercase().contains("permissions violation") && complaint.contains(subject)
        })
    }

    /// A command given while the connection is down would be queued and sent late, after newer ones were
    /// decided on; so it is refused here.
    fn require_link(&self, to_do: &str) -> Result<(), BusError> {
        if self.client.connection_state() == State::Connected {
            return Ok(());
        }
        let complaint = self.link.borrow().complaint.clone();
        let because = complaint.map_or(String::new(), |complaint| format!(" ({complaint})"));
        Err(BusError::new(
            BusErrorKind::Disconnected,
            format!("cannot {to_do}: NATS is not connected{because}"),
        ))
    }
}

fn cannot_ask(kind: BusErrorKind, subject: &str) -> BusError {
    BusError::new(kind, format!("cannot ask NATS which stream captures `{subject}`; it is asked again"))
}

fn parse_servers(servers: &[String]) -> Result<Vec<async_nats::ServerAddr>, BusError> {
    let parsed = servers.iter().map(|server| {
        server.parse().map_err(|error: std::io::Error| {
            BusError::new(BusErrorKind::Options, "a NATS server has no usable URL").because(error)
        })
    });
    parsed.collect()
}

async fn note_event(link: watch::Sender<Link>, event: Event) {
    match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            link.send_replace(Link { up: true, complaint: None });
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!("the connection to NATS is down");
            link.send_modify(|link| link.up = false);
        }
        Event::ServerError(ServerError::Other(complaint)) => note_complaint(&link, complaint),
        Event::ServerError(error) => note_complaint(&link, error.to_string()),
        Event::ClientError(error) => note_complaint(&link, error.to_string()),
        Event::SlowConsumer(_) | Event::LameDuckMode | Event::Draining => {
            tracing::debug!(%event, "NATS");
        }
    }
}

/// Keeps a complaint, and logs it once: a server that is down is complained about at every attempt.
fn note_complaint(link: &watch::Sender<Link>, complaint: String) {
    link.send_if_modified(|link| {
        let new = link.complaint.as_deref() != Some(&complaint);
        if new {
            tracing::warn!(%complaint, "NATS");
            link.complaint = Some(complaint);
        }
        new
    });
}

/// Reads the answer to the question which streams capture a subject.
fn read_capture(answer: &Value) -> Result<Capture, String> {
    /// What a server says whose JetStream is off, for itself or for this account.
    const NOT_ENABLED: [u64; 2] = [10_076, 10_039];
    if let Some(error) = answer.get("error") {
        let code = error.get("err_code").and_then(Value::as_u64).unwrap_or_default();
        return if NOT_ENABLED.contains(&code) { Ok(Capture::NoJetStream) } else { Err(error.to_string()) };
    }
    let streams = answer.get("streams").and_then(Value::as_array);
    Ok(if streams.is_some_and(|streams| !streams.is_empty()) { Capture::Stream } else { Capture::NoStream })
}
