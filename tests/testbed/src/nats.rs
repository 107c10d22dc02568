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
enum Running {
    Process(Process),
    /// It is held, and ends when it is dropped.
    Little(#[expect(dead_code, reason = "nobody asks it anything")] LittleNats),
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

    /// A server with a configuration of its own, beside port and folder.
    pub async fn configured(config: &str) -> Result<Self> {
        let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
        let (port, scratch) = (free_port()?, Scratch::new("nats")?);
        let mut command = Command::new(&binaries.nats_server);
        command.arg("-c").arg(scratch.write("nats.conf", config)?);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(scratch.join("jetstream"));
        let mut nats = Self { command: Some(command), port, running: None, scratch };
        nats.restart().await?;
        Ok(nats)
    }

    /// Changes the configuration of a [`Nats::configured`] one while it runs.
    pub fn reconfigure(&mut self, config: &str) -> Result<()> {
        self.scratch.write("nats.conf", config)?;
        if let Some(Running::Process(process)) = &mut self.running {
            process.signal("HUP");
        }
        Ok(())
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        tail(&self.scratch.join("nats-server.log"), 200)
    }

    /// Nodes of one cluster, each with JetStream. They find each other while the caller goes on.
    pub async fn cluster(count: usize) -> Result<Vec<Self>> {
        let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
        let routes: Vec<u16> = (0..count).map(|_| free_port()).collect::<Result<_>>()?;
        let to_all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let mut nodes = Vec::new();
        for (number, route) in to_all.iter().enumerate() {
            let (port, scratch) = (free_port()?, Scratch::new("nats-node")?);
            // As short as the server lets it be: then the clients of a node that leaves are hung up on.
            let times = "lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"2s\"\n";
            let config = scratch.write("nats.conf", times)?;
            let mut command = Command::new(&binaries.nats_server);
            command.arg("-c").arg(config).args(["-a", "127.0.0.1", "-p", &port.to_string()]);
            command.arg("-js").arg("-sd").arg(scratch.join("jetstream"));
            command.args(["-n", &format!("node-{number}"), "-cluster_name", "testbed"]);
            command.args(["-cluster", route, "-routes", &to_all.join(",")]);
            let mut node = Self { command: Some(command), port, running: None, scratch };
            node.restart().await?;
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Tells the server that it is to leave: it says so to its clients, and hangs up on them after a while.
    pub fn lame_duck(&mut self) {
        if let Some(Running::Process(process)) = &mut self.running {
            process.signal("USR2");
        }
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
