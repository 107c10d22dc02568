//! A Kubernetes control plane without nodes: etcd, the API server and, unless a test wants to write every
//! status itself, the controller manager.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, client::Body};

use crate::binaries::Binaries;
use crate::credentials;
use crate::failure::{Context, Failure, Result};
use crate::ground::{has_servers, is_sandbox};
use crate::process::{Process, Scratch, free_port, tail};

/// A server under load on a busy machine; two cores idle need 4 s.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// What a control plane may do without, or needs besides.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Without it nothing reacts: no ReplicaSets, no binding of claims, no garbage collection.
    pub controller_manager: bool,
    /// Users beside `admin`, with no rights until a test binds a role to them.
    pub users: Vec<String>,
    /// The product's own in-memory API server in place of the real one.
    pub sandbox: bool,
    /// More flags of the API server, such as `--disable-admission-plugins=StorageObjectInUseProtection`.
    pub api_server_flags: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            controller_manager: true,
            users: vec!["limited".to_owned()],
            sandbox: is_sandbox(),
            api_server_flags: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub struct ControlPlane {
    /// None where the product's sandbox is the API server, and nothing is built.
    binaries: Option<Binaries>,
    kubeconfig: PathBuf,
    port: u16,
    api_server: Command,
    // In the order in which they are to end; the folder last.
    controller_manager: Option<Process>,
    running_api_server: Option<Process>,
    /// None where the product's sandbox is the API server: it keeps what is stored in itself.
    etcd: Option<Process>,
    scratch: Scratch,
}

impl ControlPlane {
    pub async fn start() -> Result<Self> {
        Self::start_with(Setup::default()).await
    }

    pub async fn start_with(setup: Setup) -> Result<Self> {
        let binaries = match setup.sandbox && !has_servers() {
            true => None,
            false => Some(tokio::task::spawn_blocking(Binaries::find).await??),
        };
        let scratch = Scratch::new("control-plane")?;
        let port = free_port()?;
        let (etcd, api_server) = match &binaries {
            _ if setup.sandbox => (None, sandbox_command(port, &setup)?),
            None => return Err(Failure::new("there is no control plane")),
            Some(binaries) => {
                let (etcd, etcd_url) = start_etcd(binaries, &scratch)?;
                (Some(etcd), api_server_command(binaries, &scratch, port, &etcd_url, &setup)?)
            }
        };
        let mut plane = Self {
            kubeconfig: scratch.join("admin.kubeconfig"),
            binaries,
            port,
            api_server,
            controller_manager: None,
            running_api_server: None,
            etcd,
            scratch,
        };
        plane.kubeconfig = plane.kubeconfig_for("admin", &plane.url())?;
        plane.start_apiserver().await?;
        // The sandbox has its controllers in itself.
        if setup.controller_manager && plane.etcd.is_some() {
            plane.start_controller_manager().await?;
        }
        Ok(plane)
    }

    /// The kubeconfig of `admin`, who may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes a kubeconfig for one of the users; `server` differs from [`ControlPlane::url`] where a proxy
    /// on 127.0.0.1 stands in between.
    pub fn kubeconfig_for(&self, user: &str, server: &str) -> Result<PathBuf> {
        let authority = self.scratch.join("apiserver/apiserver.crt");
        let authority = self.etcd.is_some().then(|| authority.to_string_lossy().into_owned());
        let text = credentials::kubeconfig(server, authority.as_deref(), user);
        let port = server.rsplit(':').next().unwrap_or_default();
        let name = if server == self.url() { user.to_owned() } else { format!("{user}-{port}") };
        self.scratch.write(&format!("{name}.kubeconfig"), &text)
    }

    pub fn url(&self) -> String {
        let scheme = if self.etcd.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// A client of `admin`. It belongs to the runtime that it is made in.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig).await
    }

    /// Runs kubectl as `admin`.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Output> {
        let mut kubectl = tokio::process::Command::new(&self.binaries()?.kubectl);
        kubectl.env("KUBECONFIG", &self.kubeconfig).args(args).stdin(Stdio::null()).kill_on_drop(true);
        kubectl.output().await.context("cannot run kubectl")
    }

    /// # Errors
    /// When they are not built, as on a machine without Go.
    pub fn binaries(&self) -> Result<&Binaries> {
        self.binaries
            .as_ref()
            .ok_or_else(|| Failure::new("the servers are not built, so there is no kubectl"))
    }

    /// From here on nobody answers at [`ControlPlane::url`]; what was stored stays.
    pub fn stop_apiserver(&mut self) {
        self.running_api_server = None;
    }

    /// Starts the API server on its port, after [`ControlPlane::stop_apiserver`] or instead of it.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver();
        self.start_apiserver().await
    }

    /// Ends the servers and removes their folder; dropping does the same.
    pub fn stop(self) {}

    async fn start_apiserver(&mut self) -> Result<()> {
        let log = self.scratch.join("kube-apiserver.log");
        let mut process = Process::spawn_logged(&self.api_server, &log)?;
        let start = Instant::now();
        loop {
            if is_ready(&self.kubeconfig).await {
                self.running_api_server = Some(process);
                return Ok(());
            }
            self.give_up_if(&mut process, start, "kube-apiserver", &log)?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn start_controller_manager(&mut self) -> Result<()> {
        let port = free_port()?;
        let mut command = Command::new(&self.binaries()?.kube_controller_manager);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--cert-dir={}", self.scratch.join("controller-manager").display()))
            .arg(format!("--secure-port={port}"))
            .arg(format!(
                "--service-account-private-key-file={}",
                self.scratch.join("service-account.key").display()
            ))
            .args(["--bind-address=127.0.0.1", "--leader-elect=false"])
            .args(["--use-service-account-credentials=false", "--kube-api-qps=200"])
            // Without it a claim that is seen before its volume waits for 15 s.
            .args(["--kube-api-burst=400", "--pvclaimbinder-sync-period=1s"]);
        let log = self.scratch.join("kube-controller-manager.log");
        let mut process = Process::spawn_logged(&command, &log)?;
        let start = Instant::now();
        while !listens(port) {
            self.give_up_if(&mut process, start, "kube-controller-manager", &log)?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.controller_manager = Some(process);
        Ok(())
    }

    fn give_up_if(&self, process: &mut Process, start: Instant, name: &str, log: &Path) -> Result<()> {
        let ended = process.ended();
        if ended.is_none() && start.elapsed() < READY_WITHIN {
            return Ok(());
        }
        let what =
            ended.map_or_else(|| format!("is not ready after {READY_WITHIN:?}"), |s| format!("ended ({s})"));
        let etcd = tail(&self.scratch.join("etcd.log"), 5);
        Err(Failure::new(format!("{name} {what}; its last lines:\n{}\netcd's:\n{etcd}", tail(log, 15))))
    }
}

fn start_etcd(binaries: &Binaries, scratch: &Scratch) -> Result<(Process, String)> {
    let client = format!("http://127.0.0.1:{}", free_port()?);
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = Command::new(&binaries.etcd);
    command
        .arg(format!("--data-dir={}", scratch.join("etcd").display()))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"))
        // Nothing here needs to survive a power cut.
        .arg("--unsafe-no-fsync");
    let process = Process::spawn_logged(&command, &scratch.join("etcd.log"))?;
    Ok((process, client))
}

fn api_server_command(
    binaries: &Binaries,
    scratch: &Scratch,
    port: u16,
    etcd: &str,
    setup: &Setup,
) -> Result<Command> {
    let (private, public) = credentials::service_account_key()?;
    let private = scratch.write("service-account.key", &private)?;
    let public = scratch.write("service-account.pub", &public)?;
    let tokens = scratch.write("tokens.csv", &credentials::token_file(&setup.users))?;
    let mut command = Command::new(&binaries.kube_apiserver);
    command
        .arg(format!("--etcd-servers={etcd}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--cert-dir={}", scratch.join("apiserver").display()))
        .arg(format!("--token-auth-file={}", tokens.display()))
        .arg(format!("--service-account-signing-key-file={}", private.display()))
        .arg(format!("--service-account-key-file={}", public.display()))
        .args(["--service-account-issuer=https://localhost", "--authorization-mode=RBAC"])
        .args(["--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true"])
        // An explicit address: else it looks for a network, and a build machine may have none.
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg("--endpoint-reconciler-type=none")
        // Pods here never run, so they need no account.
        .arg("--disable-admission-plugins=ServiceAccount")
        .args(&setup.api_server_flags);
    Ok(command)
}

/// The product's in-memory API server. It lies where cargo puts programs: above the folder of a test's own.
fn sandbox_command(port: u16, setup: &Setup) -> Result<Command> {
    let ours = std::env::current_exe()?;
    let found = ours.ancestors().skip(1).take(2).map(|folder| folder.join("mapwright")).find(|p| p.is_file());
    let binary =
        found.ok_or_else(|| Failure::new("there is no mapwright beside this program; build it first"))?;
    let mut command = Command::new(binary);
    command.args(["sandbox", "--bare", "--port"]).arg(port.to_string());
    if !setup.controller_manager {
        command.arg("--no-controllers");
    }
    Ok(command)
}

async fn is_ready(kubeconfig: &Path) -> bool {
    // The certificate is there only once the server has written it, so the client is made anew each time.
    let asked = async {
        let request = hyper::Request::get("/readyz").body(Body::empty())?;
        let answer = client(kubeconfig).await?.send(request).await?;
        Ok::<bool, Failure>(answer.status().is_success())
    };
    tokio::time::timeout(Duration::from_secs(2), asked).await.is_ok_and(|ready| ready.unwrap_or(false))
}

/// A client for the user of a kubeconfig file, without retries: tests want to see each answer.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

pub(crate) fn listens(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}
