//! The product's own process: started as an operator starts it, with an environment and nothing else.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::contract::Contract;
use crate::credentials::kubeconfig;
use crate::failure::{Failure, Result};
use crate::http::Http;
use crate::process::{Process, Scratch, free_port};
use crate::registry::Registry;
use crate::shared::Shared;

const READY_WITHIN: Duration = Duration::from_secs(30);

/// How to start `mapwright serve`; everything may be changed before [`Launch::start`].
#[derive(Debug, Clone)]
pub struct Launch {
    binary: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    folder: Option<PathBuf>,
    port: u16,
}

impl Launch {
    /// `mapwright serve` on a free port, with the settings that no test cares about.
    pub fn new(binary: impl Into<PathBuf>) -> Result<Self> {
        let launch = Self {
            binary: binary.into(),
            arguments: vec!["serve".to_owned()],
            environment: BTreeMap::new(),
            folder: None,
            port: 0,
        };
        Ok(launch
            .at(free_port()?)
            .env("SP_NAME", "testbed-sp")
            .env("SP_K8S_EXTERNAL_SVC_TYPE", "LoadBalancer"))
    }

    /// In a namespace of the shared control plane, with events on the shared NATS.
    pub fn shared(binary: impl Into<PathBuf>, shared: &Shared, namespace: &str) -> Result<Self> {
        let launch = Self::new(binary)?.cluster(shared.kubeconfig(), namespace);
        // A name for each test: what is kept by provider name on the shared NATS stays apart.
        let state = shared.nats.state_directory(namespace);
        let launch = launch.env("SP_STATE_DIRECTORY", &state.to_string_lossy());
        Ok(launch.env("SP_NATS_URL", &shared.nats.url()).env("SP_NAME", &format!("sp-{namespace}")))
    }

    /// With nobody behind it, neither cluster nor NATS nor DCM: for what concerns its callers alone.
    pub fn alone(binary: impl Into<PathBuf>, scratch: &Scratch) -> Result<Self> {
        let nowhere = "http://127.0.0.1:1";
        let kubeconfig = scratch.write("kubeconfig", &kubeconfig(nowhere, None, "nobody"))?;
        let launch = Self::new(binary)?.cluster(&kubeconfig, "default");
        let launch = launch.env("DCM_REGISTRATION_URL", &format!("{nowhere}/api/v1alpha1"));
        Ok(launch.env("SP_NATS_URL", "nats://127.0.0.1:1"))
    }

    #[must_use]
    pub fn cluster(self, kubeconfig: &Path, namespace: &str) -> Self {
        self.env("SP_K8S_KUBECONFIG", &kubeconfig.to_string_lossy()).env("SP_K8S_NAMESPACE", namespace)
    }

    /// Listens on this port of 127.0.0.1, and says so as its endpoint.
    #[must_use]
    pub fn at(mut self, port: u16) -> Self {
        self.port = port;
        let address = format!("127.0.0.1:{port}");
        self.env("SP_SERVER_ADDRESS", &address).env("SP_ENDPOINT", &format!("http://{address}"))
    }

    /// The service types to serve.
    #[must_use]
    pub fn types(mut self, types: &[&str]) -> Self {
        self.arguments.extend(types.iter().map(ToString::to_string));
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Leaves a setting out.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// The working folder, instead of the test's own.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Starts it and waits until `GET /health` answers 200. Where no registry is named, it gets its own.
    pub async fn start(mut self) -> Result<Provider> {
        let mut registry = None;
        if !self.environment.contains_key("DCM_REGISTRATION_URL") {
            let own = Registry::start().await?;
            self = self.env("DCM_REGISTRATION_URL", &own.url());
            registry = Some(own);
        }
        let log = Log::default();
        let process = self.spawn(&log)?;
        let mut provider = Provider { launch: self, process, log, registry, contract: None };
        provider.until_healthy().await?;
        Ok(provider)
    }

    /// Starts it and waits until it says that it serves, without a question.
    pub async fn listen(self) -> Result<Provider> {
        let log = Log::default();
        let process = self.spawn(&log)?;
        let mut provider = Provider { launch: self, process, log, registry: None, contract: None };
        let start = Instant::now();
        while !provider.log().contains("\"serving\"") {
            if provider.ended().is_some() || start.elapsed() > READY_WITHIN {
                provider.log.until_closed().await;
                return Err(Failure::new(format!(
                    "the provider does not serve; its log:\n{}",
                    provider.log()
                )));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(provider)
    }

    /// Starts it and waits until it ends: for settings and mappings that it refuses.
    pub async fn run(self, deadline: Duration) -> Result<(ExitStatus, String)> {
        let log = Log::default();
        let mut process = self.spawn(&log)?;
        let status = process.wait(deadline).await;
        let status = status.map_err(|error| Failure::new(format!("{error}; its log:\n{}", log.text())))?;
        log.until_closed().await;
        Ok((status, log.text()))
    }

    fn spawn(&self, log: &Log) -> Result<Process> {
        let mut command = Command::new(&self.binary);
        // The settings of whoever runs the tests are not theirs.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["SP_", "DCM_", "MAPWRIGHT_"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.args(&self.arguments).envs(&self.environment);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut process = Process::spawn(&command, Stdio::piped(), Stdio::piped())?;
        let (stdout, stderr) = process.outputs();
        log.follow(stdout);
        log.follow(stderr);
        Ok(process)
    }
}

/// A running provider; it ends when this is dropped.
#[derive(Debug)]
pub struct Provider {
    launch: Launch,
    process: Process,
    log: Log,
    registry: Option<Registry>,
    contract: Option<Arc<Contract>>,
}

impl Provider {
    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.launch.port)
    }

    /// A client that holds every answer to the provider's own OpenAPI document.
    pub fn http(&self) -> Http {
        Http::new(self.base_url()).held_to(self.contract.clone())
    }

    /// Its own registry, if [`Launch::start`] made one.
    pub fn registry(&self) -> Option<&Registry> {
        self.registry.as_ref()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Everything it wrote so far, over restarts.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// SIGKILL, in the middle of whatever it does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM; answers how it ended.
    pub async fn terminate(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.process.signal("TERM");
        let status = self.process.wait(deadline).await;
        status.map_err(|error| Failure::new(format!("{error}; its log:\n{}", self.log())))
    }

    /// Starts it again on its port, after [`Provider::kill`] or [`Provider::terminate`], or instead of them.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = self.launch.spawn(&self.log)?;
        self.until_healthy().await
    }

    /// Like [`Provider::restart`], with a setting changed.
    pub async fn restart_with(&mut self, name: &str, value: &str) -> Result<()> {
        self.launch.environment.insert(name.to_owned(), value.to_owned());
        self.restart().await
    }

    async fn until_healthy(&mut self) -> Result<()> {
        let http = Http::new(self.base_url());
        let start = Instant::now();
        loop {
            let asked = tokio::time::timeout(Duration::from_secs(3), http.get("/health")).await;
            if asked.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status == 200)) {
                self.contract = contract(&http).await?;
                return Ok(());
            }
            let ended = self.process.ended();
            if ended.is_some() || start.elapsed() > READY_WITHIN {
                let what =
                    ended.map_or_else(|| "is not healthy".to_owned(), |status| format!("ended ({status})"));
                self.log.until_closed().await;
                return Err(Failure::new(format!("the provider {what}; its log:\n{}", self.log())));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What the provider promises; the self-check's stand-in promises nothing.
async fn contract(http: &Http) -> Result<Option<Arc<Contract>>> {
    let answer = http.get("/api/v1alpha1/openapi.json").await?;
    Ok((answer.status == 200).then(|| Arc::new(Contract::new(answer.json()))))
}

/// The lines of both outputs, in the order in which they came.
#[derive(Debug, Default, Clone)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// A thread, not a task: a runtime that is busy or gone must not stop the provider's writing.
    fn follow(&self, output: Option<impl Read + Send + 'static>) {
        let Some(output) = output else { return };
        let log = self.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                log.lines().push(text);
                line.clear();
            }
        });
    }

    fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// An ended process's last lines are a moment behind its exit status.
    async fn until_closed(&self) {
        for _ in 0..20 {
            // Each follower holds the log.
            if Arc::strong_count(&self.0) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
