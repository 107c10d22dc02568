//! Finds the servers of the tests; builds those that are missing from testdata/controlplane, once a version.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::failure::{Context, Failure, Result};
use crate::process::{Process, tail};

const GO_MOD: &str = include_str!("../../../testdata/controlplane/go.mod");
const GO_SUM: &str = include_str!("../../../testdata/controlplane/go.sum");

const ETCD: Server = Server { name: "etcd", package: "go.etcd.io/etcd/server/v3", built_as: "server" };
const API_SERVER: Server = Server::kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver");
const KUBECTL: Server = Server::kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl");
const CONTROLLER_MANAGER: Server =
    Server::kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager");
const NATS: Server =
    Server { name: "nats-server", package: "github.com/nats-io/nats-server/v2", built_as: "nats-server" };

/// What KUBEBUILDER_ASSETS promises.
const ASSETS: [Server; 3] = [ETCD, API_SERVER, KUBECTL];
/// What it may hold as well.
const BESIDE: [Server; 2] = [CONTROLLER_MANAGER, NATS];

/// Where the servers are.
#[derive(Debug, Clone)]
pub struct Binaries {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    pub kube_controller_manager: PathBuf,
    pub kubectl: PathBuf,
    pub nats_server: PathBuf,
}

impl Binaries {
    /// Finds them, building what is missing. Blocks the thread: for minutes, if nothing is built yet.
    pub fn find() -> Result<Self> {
        let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        if let Some(assets) = &assets {
            let absent: Vec<_> =
                ASSETS.iter().filter(|s| !assets.join(s.name).is_file()).map(|s| s.name).collect();
            if !absent.is_empty() {
                return Err(Failure::new(format!(
                    "KUBEBUILDER_ASSETS is {}, which lacks {}; put them there, or unset it to have them built \
                     with Go",
                    assets.display(),
                    absent.join(", ")
                )));
            }
        }
        let given =
            |server: &Server| assets.as_ref().is_some_and(|folder| folder.join(server.name).is_file());
        let needed: Vec<Server> = ASSETS.into_iter().chain(BESIDE).filter(|s| !given(s)).collect();
        let cache = cache_folder()?;
        build_missing(&cache, &needed)?;
        let place = |server: Server| match &assets {
            Some(folder) if given(&server) => folder.join(server.name),
            _ => cache.join(server.name),
        };
        Ok(Self {
            etcd: place(ETCD),
            kube_apiserver: place(API_SERVER),
            kube_controller_manager: place(CONTROLLER_MANAGER),
            kubectl: place(KUBECTL),
            nats_server: place(NATS),
        })
    }
}

impl Binaries {
    /// Whether they are there, or there is something to build them with.
    pub fn can_be_found() -> bool {
        Self::are_there() || has_go()
    }

    /// Whether they are there already, or are said to be.
    pub fn are_there() -> bool {
        let named = env::var_os("KUBEBUILDER_ASSETS").is_some_and(|folder| !folder.is_empty());
        let all = ASSETS.iter().chain(&BESIDE);
        let built = cache_folder().is_ok_and(|cache| all.clone().all(|s| cache.join(s.name).is_file()));
        named || built
    }
}

#[derive(Debug, Clone, Copy)]
struct Server {
    name: &'static str,
    package: &'static str,
    /// Go names a program after its package's last word.
    built_as: &'static str,
}

impl Server {
    const fn kubernetes(name: &'static str, package: &'static str) -> Self {
        Self { name, package, built_as: name }
    }
}

/// One folder for each state of the Go module, where neither git nor cargo cleans.
fn cache_folder() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("MAPWRIGHT_TESTBED_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("mapwright/testbed")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/mapwright/testbed")))
        .ok_or_else(|| {
            Failure::new("set MAPWRIGHT_TESTBED_DIR: there is no HOME to keep built servers in")
        })?;
    let digest = Sha256::new().chain_update(GO_MOD).chain_update(GO_SUM).finalize();
    let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(base.join(name))
}

fn build_missing(cache: &Path, needed: &[Server]) -> Result<()> {
    let missing = || needed.iter().copied().filter(|s| !cache.join(s.name).is_file()).collect::<Vec<_>>();
    if missing().is_empty() {
        return Ok(());
    }
    fs::create_dir_all(cache).context(cache.display())?;
    let _lock = lock(&cache.with_extension("lock"))?;
    // Another process may have built them while we waited.
    let missing = missing();
    if missing.is_empty() { Ok(()) } else { build(cache, &missing) }
}

/// The lock goes with the file, also when its holder is killed.
fn lock(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path).context(path.display())?;
    let start = Instant::now();
    let mut told = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).context(path.display()),
        }
        if start.elapsed() >= told {
            progress(&format!(
                "another process builds the test bed's servers; waiting for {}",
                path.display()
            ));
            told += Duration::from_secs(15);
        }
        thread::sleep(Duration::from_millis(250));
    }
}

/// Builds in a folder beside the cache and moves each finished server: nobody ever sees half of one.
fn build(cache: &Path, missing: &[Server]) -> Result<()> {
    require_go(missing)?;
    let workshop = cache.with_extension("building");
    // Of a build that was killed; we hold the lock.
    let _ = fs::remove_dir_all(&workshop);
    fs::create_dir_all(&workshop).context(workshop.display())?;
    fs::write(workshop.join("go.mod"), GO_MOD)?;
    fs::write(workshop.join("go.sum"), GO_SUM)?;

    let version = GO_MOD.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    let version = version.and_then(|rest| rest.split_whitespace().next()).unwrap_or("0.0.0");
    let mut go = Command::new("go");
    go.current_dir(&workshop).env("CGO_ENABLED", "0").env("GOWORK", "off");
    go.args(["build", "-trimpath", "-buildvcs=false", "-ldflags"]);
    go.arg(format!("-s -w -X k8s.io/component-base/version.gitVersion=v{version}"));
    go.args(["-o", "bin/"]).args(missing.iter().map(|server| server.package));

    let log = workshop.join("build.log");
    let names: Vec<_> = missing.iter().map(|server| server.name).collect();
    let names = names.join(", ");
    progress(&format!("building {names} {version}, once; about 10 minutes on two cores with cold caches"));
    let took = wait_with_progress(Process::spawn_logged(&go, &log)?, &log, &names)?;
    for server in missing {
        fs::rename(workshop.join("bin").join(server.built_as), cache.join(server.name))
            .context(format!("cannot move the built {}", server.name))?;
    }
    progress(&format!("built {names} in {} s, kept in {}", took.as_secs(), cache.display()));
    Ok(fs::remove_dir_all(&workshop)?)
}

fn wait_with_progress(mut go: Process, log: &Path, names: &str) -> Result<Duration> {
    let start = Instant::now();
    let mut told = Duration::from_secs(15);
    loop {
        if let Some(status) = go.ended() {
            if status.success() {
                return Ok(start.elapsed());
            }
            let text = tail(log, 20);
            return Err(Failure::new(format!("go build of {names} failed ({status}):\n{text}")));
        }
        if start.elapsed() >= told {
            let last = tail(log, 1);
            progress(&format!("still building after {} s  {last}", told.as_secs()));
            told += Duration::from_secs(15);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn has_go() -> bool {
    let found = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn require_go(missing: &[Server]) -> Result<()> {
    if has_go() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|server| server.name).collect();
    Err(Failure::new(format!(
        "the tests run against a real Kubernetes control plane and NATS, and these are not built yet: {}. \
         They are built from the Go module in testdata/controlplane, but there is no `go` on the PATH. Either \
         install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a folder that holds etcd, kube-apiserver, \
         kubectl, kube-controller-manager and nats-server",
        names.join(", ")
    )))
}

/// Straight to the terminal: the test harness would keep `eprintln` to itself until a test fails.
pub(crate) fn progress(text: &str) {
    let _ = writeln!(io::stderr(), "[test bed] {text}");
}
