//! A NATS server that a test may kill and start again on the same port.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use serde_json::Value;

use crate::binaries::Binaries;
use crate::control_plane::listens;
use crate::failure::{Context, Failure, Result};
use crate::ground::has_servers;
use crate::little_nats::LittleNats;
use crate::process::{Process, Scratch, free_port, tail};

const READY_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatsKind {
    /// Streams and acknowledgements; what was stored survives [`Nats::kill`].
    JetStream,
    /// Fire and forget.
    Plain,
}

#[derive(Debug)]
#[expect(dead_code, reason = "they are held, and end when they are dropped")]
enum Running {
    Process(Process),
    Little(LittleNats),
}

#[derive(Debug)]
pub struct Nats {
    /// None where the little one takes its place.
    command: Option<Command>,
    port: u16,
    running: Option<Running>,
    scratch: Scratch,
}

impl Nats {
    pub async fn start(kind: NatsKind) -> Result<Self> {
        Self::start_at(kind, free_port()?).await
    }

    /// Starts at a port that was chosen before, for a server that comes late.
    pub async fn start_at(kind: NatsKind, port: u16) -> Result<Self> {
        let scratch = Scratch::new("nats")?;
        let mut command = None;
        if has_servers() {
            let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
            let server = command.insert(Command::new(&binaries.nats_server));
            server.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
            if kind == NatsKind::JetStream {
                server.arg("-js").arg("-sd").arg(scratch.join("jetstream"));
            }
        }
        let mut nats = Self { command, port, running: None, scratch };
        nats.restart().await?;
        Ok(nats)
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// From here on nobody answers at [`Nats::url`].
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts it on its port, after [`Nats::kill`] or instead of it.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill();
        let log = self.scratch.join("nats-server.log");
        let Some(command) = &self.command else {
            self.running = Some(Running::Little(LittleNats::start(self.port)?));
            return Ok(());
        };
        let mut process = Process::spawn_logged(command, &log)?;
        let start = Instant::now();
        while !listens(self.port) {
            if process.ended().is_some() || start.elapsed() > READY_WITHIN {
                return Err(Failure::new(format!("nats-server does not start:\n{}", tail(&log, 15))));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.running = Some(Running::Process(process));
        Ok(())
    }

    /// Where a provider may keep its ledger, should there be no JetStream.
    pub fn state_directory(&self, name: &str) -> PathBuf {
        self.scratch.join("state").join(name)
    }

    /// Makes a stream that captures `subjects`, unless there is one of that name. The little server has none.
    pub async fn stream(&self, name: &str, subjects: &[&str]) -> Result<()> {
        if self.command.is_none() {
            return Ok(());
        }
        let client = async_nats::connect(self.url()).await.context(self.url())?;
        let config = stream::Config {
            name: name.to_owned(),
            subjects: subjects.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        jetstream::new(client).get_or_create_stream(config).await?;
        Ok(())
    }

    /// The newest event that a stream holds of a subject.
    pub async fn newest(&self, stream: &str, subject: &str) -> Result<Value> {
        let client = async_nats::connect(self.url()).await.context(self.url())?;
        let stream = jetstream::new(client).get_stream(stream).await?;
        let message = stream.get_last_raw_message_by_subject(subject).await?;
        Ok(serde_json::from_slice(&message.payload)?)
    }
}
