//! The proxy in front of NATS: it numbers status messages and writes of the ledger, and does what the plan says.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::board::Board;
use super::plan::Act;
use crate::failure::{Context, Failure, Result};

/// It serves until it is dropped.
pub(super) struct Wire {
    url: String,
    task: JoinHandle<()>,
}

impl Wire {
    /// `server` is a URL such as `nats://127.0.0.1:4222`.
    pub(super) async fn start(server: &str, board: Arc<Board>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("a port for the wire")?;
        let url = format!("nats://{}", listener.local_addr()?);
        let server = server.trim_start_matches("nats://").to_owned();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                if let Ok((client, _)) = listener.accept().await {
                    let (server, board) = (server.clone(), board.clone());
                    connections.spawn(async move {
                        // However it ends, both sides are hung up.
                        let _ = converse(client, &server, board).await;
                    });
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { url, task })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Subjects of answers that are to be lost.
type Swallowed = Arc<Mutex<HashSet<String>>>;

async fn converse(client: TcpStream, server: &str, board: Arc<Board>) -> Result<()> {
    let server = TcpStream::connect(server).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let swallowed = Swallowed::default();
    tokio::select! {
        ended = upwards(from_client, to_server, &board, &swallowed) => ended,
        ended = downwards(from_server, to_client, &swallowed) => ended,
    }
}

async fn upwards(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    board: &Board,
    swallowed: &Swallowed,
) -> Result<()> {
    let mut frames = Frames::new(from);
    loop {
        let frame = frames.next().await?;
        let act = match &frame.place {
            Some(place) => board.reach(place, ""),
            None => None,
        };
        match act {
            None => {}
            Some(Act::Delay(milliseconds)) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
            Some(Act::KillBefore) => {
                board.kill();
                std::future::pending::<()>().await;
            }
            Some(Act::KillAfter) => {
                to.write_all(&frame.bytes).await?;
                // The server has it once it has answered the next command; nothing of ours comes in between.
                tokio::time::sleep(Duration::from_millis(100)).await;
                board.kill();
                std::future::pending::<()>().await;
            }
            Some(Act::CutReply) => {
                to.write_all(&frame.bytes).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
                return Err(Failure::new("cut by the plan"));
            }
            Some(Act::BlackHole) => std::future::pending::<()>().await,
            Some(Act::SwallowAck) => {
                swallowed.lock().unwrap_or_else(PoisonError::into_inner).extend(frame.reply.clone());
            }
            Some(_) => return Err(Failure::new("cut by the plan")),
        }
        to.write_all(&frame.bytes).await?;
    }
}

async fn downwards(from: OwnedReadHalf, mut to: OwnedWriteHalf, swallowed: &Swallowed) -> Result<()> {
    let mut frames = Frames::new(from);
    loop {
        let frame = frames.next().await?;
        let lost = {
            let swallowed = swallowed.lock().unwrap_or_else(PoisonError::into_inner);
            frame.subject.as_ref().is_some_and(|subject| swallowed.contains(subject))
        };
        if !lost {
            to.write_all(&frame.bytes).await?;
        }
    }
}

/// One command of NATS' protocol, with its payload.
struct Protocol {
    bytes: Bytes,
    /// Where plans find it: `PUBLISH` is a status message, `LEDGER` a write of the ledger.
    place: Option<String>,
    subject: Option<String>,
    reply: Option<String>,
}

struct Frames {
    from: OwnedReadHalf,
    buffer: BytesMut,
}

impl Frames {
    fn new(from: OwnedReadHalf) -> Self {
        Self { from, buffer: BytesMut::new() }
    }

    async fn next(&mut self) -> Result<Protocol> {
        loop {
            if let Some((length, mut protocol)) = whole_command(&self.buffer) {
                protocol.bytes = self.buffer.split_to(length).freeze();
                return Ok(protocol);
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Err(Failure::new("the peer has hung up"));
            }
        }
    }
}

/// The first command of a buffer and its length, if all of it is there.
fn whole_command(buffer: &[u8]) -> Option<(usize, Protocol)> {
    let end = buffer.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let line = String::from_utf8_lossy(&buffer[..end]);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let verb = words.first().map(|verb| verb.to_ascii_uppercase()).unwrap_or_default();
    let sizes = match verb.as_str() {
        "PUB" | "MSG" => 1,
        "HPUB" | "HMSG" => 2,
        _ => 0,
    };
    let payload = if sizes == 0 { 0 } else { words.last()?.parse::<usize>().ok()? + 2 };
    let subject = (sizes > 0).then(|| words.get(1).map(ToString::to_string)).flatten();
    let published = matches!(verb.as_str(), "PUB" | "HPUB");
    let reply = (published && words.len() == 3 + sizes).then(|| words[2].to_owned());
    let place = subject.as_deref().filter(|_| published).and_then(|subject| match subject {
        subject if subject.starts_with("dcm.") => Some("PUBLISH".to_owned()),
        subject if subject.starts_with("$KV.") => Some("LEDGER".to_owned()),
        _ => None,
    });
    let length = end + payload;
    (buffer.len() >= length).then(|| (length, Protocol { bytes: Bytes::new(), place, subject, reply }))
}
