//! A little NATS server in this process, for a machine without Go: subjects, wildcards, headers, and the word that
//! nobody listens. It has no JetStream and no accounts.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Context, Result};

/// One server; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LittleNats {
    hub: Arc<Hub>,
    port: u16,
}

#[derive(Debug, Default)]
struct Hub {
    closed: AtomicBool,
    next: AtomicU64,
    clients: Mutex<HashMap<u64, Client>>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    subscriptions: Vec<Subscription>,
}

#[derive(Debug)]
struct Subscription {
    id: String,
    subject: String,
    /// How many messages it still takes.
    left: Option<u64>,
}

const PATIENCE: Duration = Duration::from_secs(10);

/// One message on its way.
struct Sent<'s> {
    subject: &'s str,
    reply: &'s str,
    /// How long its headers are, if it has any.
    headers: Option<usize>,
    payload: &'s [u8],
}

impl LittleNats {
    pub(crate) fn start(port: u16) -> Result<Self> {
        let begin = Instant::now();
        // A former one may be about to give the port back.
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", port)) {
                Err(_) if begin.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
                bound => break bound.context("the little NATS server")?,
            }
        };
        let hub = Arc::new(Hub::default());
        let accepting = hub.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                if accepting.closed.load(Ordering::SeqCst) {
                    return;
                }
                let hub = accepting.clone();
                thread::spawn(move || hub.serve(stream));
            }
        });
        Ok(Self { hub, port })
    }
}

impl Drop for LittleNats {
    fn drop(&mut self) {
        self.hub.closed.store(true, Ordering::SeqCst);
        for client in self.hub.clients().values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        // The accepting thread wakes up, and gives the port back.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Hub {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let _ = stream.set_nodelay(true);
        let Ok(ours) = stream.try_clone() else { return };
        self.clients().insert(number, Client { stream: ours, subscriptions: Vec::new() });
        let info = r#"{"server_id":"LITTLE","server_name":"little","version":"2.12.0","go":"none","host":"127.0.0.1","port":0,"headers":true,"max_payload":1048576,"proto":1,"jetstream":false}"#;
        self.write(number, format!("INFO {info}\r\n").as_bytes());
        let mut reader = BufReader::new(stream);
        while self.command(number, &mut reader).is_some() {
            if self.closed.load(Ordering::SeqCst) {
                break;
            }
        }
        self.clients().remove(&number);
    }

    fn write(&self, client: u64, bytes: &[u8]) {
        if let Some(client) = self.clients().get_mut(&client) {
            let _ = client.stream.write_all(bytes);
        }
    }

    /// One command; None at the end of the connection.
    fn command(&self, number: u64, reader: &mut BufReader<TcpStream>) -> Option<()> {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.first()? {
            "PING" => self.write(number, b"PONG\r\n"),
            "SUB" => {
                let (subject, id) = ((*words.get(1)?).to_owned(), (*words.last()?).to_owned());
                let subscription = Subscription { id, subject, left: None };
                self.clients().get_mut(&number)?.subscriptions.push(subscription);
            }
            "UNSUB" => {
                let (id, left) = (*words.get(1)?, words.get(2).and_then(|left| left.parse().ok()));
                let mut clients = self.clients();
                let subscriptions = &mut clients.get_mut(&number)?.subscriptions;
                match left {
                    None => subscriptions.retain(|known| known.id != id),
                    left => subscriptions.iter_mut().filter(|s| s.id == id).for_each(|s| s.left = left),
                }
            }
            word @ ("PUB" | "HPUB") => {
                let sizes = if word == "HPUB" { 2 } else { 1 };
                let length: usize = words.last()?.parse().ok()?;
                let headers = (sizes == 2).then(|| words[words.len() - 2].parse().unwrap_or(0));
                let reply = if words.len() > 2 + sizes { words[2] } else { "" };
                let mut payload = vec![0; length + 2];
                reader.read_exact(&mut payload).ok()?;
                payload.truncate(length);
                self.publish(&Sent { subject: words.get(1)?, reply, headers, payload: &payload });
            }
            _ => {}
        }
        Some(())
    }

    fn publish(&self, sent: &Sent<'_>) {
        if !self.deliver(sent) && !sent.reply.is_empty() {
            let nobody = b"NATS/1.0 503\r\n\r\n";
            let answer =
                Sent { subject: sent.reply, reply: "", headers: Some(nobody.len()), payload: nobody };
            self.deliver(&answer);
        }
    }

    /// Whether anybody listened.
    fn deliver(&self, sent: &Sent<'_>) -> bool {
        let mut heard = false;
        for client in self.clients().values_mut() {
            let Client { stream, subscriptions } = client;
            for subscription in subscriptions.iter_mut().filter(|s| matches(&s.subject, sent.subject)) {
                heard = true;
                let _ = stream.write_all(&sent.frame(&subscription.id));
                subscription.left = subscription.left.map(|left| left.saturating_sub(1));
            }
            subscriptions.retain(|subscription| subscription.left != Some(0));
        }
        heard
    }
}

impl Sent<'_> {
    fn frame(&self, subscription: &str) -> Vec<u8> {
        let Self { subject, reply, headers, payload } = self;
        let length = payload.len();
        let line = match headers {
            None => format!("MSG {subject} {subscription} {reply} {length}\r\n"),
            Some(headers) => format!("HMSG {subject} {subscription} {reply} {headers} {length}\r\n"),
        };
        let mut frame = line.replace("  ", " ").into_bytes();
        frame.extend_from_slice(payload);
        frame.extend_from_slice(b"\r\n");
        frame
    }
}

/// Whether a subject with wildcards means another one.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut words = subject.split('.');
    for part in pattern.split('.') {
        match (part, words.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (part, Some(word)) if part == word => {}
            _ => return false,
        }
    }
    words.next().is_none()
}
