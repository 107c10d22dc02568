//! Child processes, folders and ports that do not outlive the process that asked for them.
//!
//! A test may panic, be killed, or keep its servers in a static that is never dropped. So each child has
//! a watcher: a shell in the child's process group that reads a pipe whose only writer is us. When we
//! end, however we end, the kernel closes the pipe, and the watcher kills the group.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::{Context, Failure, Result};

/// The shell forks the watcher and then becomes the command, so the child's pid is the command's.
/// The watcher holds none of the command's outputs: their readers see the end when the command ends.
const WATCHED: &str = r#"
exec 3<&0 </dev/null
{ read -r _ <&3; kill -s KILL 0; } >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"#;

/// A folder's watcher removes it; the servers in it are being killed at the same moment.
const JANITOR: &str = r#"read -r _; sleep 0.3; rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }"#;

/// A child process that ends when this value is dropped or when this process ends.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Open for as long as the child may live; it and the watcher go when this closes.
    _leash: Option<ChildStdin>,
}

impl Process {
    /// Starts `command` with an empty input and the given outputs (those set on `command` are not used).
    pub fn spawn(command: &Command, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Result<Self> {
        let program = command.get_program();
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        let mut shell = Command::new("sh");
        shell.args(["-c", WATCHED, "watcher"]).arg(program).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        // A group of its own: an interrupt at the terminal is ours to handle, in our order.
        shell.process_group(0).stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let mut child = shell.spawn().context(format!("cannot start {name}"))?;
        let leash = child.stdin.take();
        Ok(Self { name, child, _leash: leash })
    }

    /// Like [`Process::spawn`], with both outputs appended to one file.
    pub fn spawn_logged(command: &Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log).context(log.display())?;
        let second = file.try_clone()?;
        Self::spawn(command, file, second)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The piped outputs, once.
    pub fn outputs(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends the signal and does not wait; an ended process is left alone.
    pub fn signal(&mut self, signal: &str) {
        if self.ended().is_none() {
            let pid = self.child.id().to_string();
            // The shell's own `kill`: no package needs to be there. A process that just ended is no error.
            let _ = Command::new("sh").args(["-c", r#"kill -s "$1" "$2""#, "sh", signal, &pid]).status();
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end, which may not come.
    pub async fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if start.elapsed() > deadline {
                return Err(Failure::new(format!("{} did not end within {deadline:?}", self.name)));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A temporary folder that is removed when this value is dropped or when this process ends.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Its pipe is the leash; the janitor removes the folder and ends when it closes.
    janitor: Child,
}

impl Scratch {
    pub fn new(name: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("mapwright-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        // Of a killed process that had our pid.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).context(path.display())?;
        let mut shell = Command::new("sh");
        shell.args(["-c", JANITOR, "janitor"]).arg(&path).process_group(0);
        // It must not hold the outputs of a test run open.
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let janitor = shell.spawn().context("cannot start sh")?;
        Ok(Self { path, janitor })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, text).context(path.display())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.janitor.stdin.take();
        let _ = self.janitor.wait();
    }
}

/// A port on 127.0.0.1 that nobody listens on.
///
/// It lies below the range that the kernel gives to outgoing connections, so that a server that is
/// stopped and started again finds its port free.
pub fn free_port() -> Result<u16> {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    // Two test runs on one machine begin at different places.
    let _ = NEXT.compare_exchange(0, nanos ^ std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    for _ in 0..COUNT {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = u16::try_from(FIRST + offset)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Failure::new("no free port on 127.0.0.1"))
}

/// What a process has of memory, in KiB, by the name of the line that tells it (`VmRSS`, `VmHWM`).
pub fn memory(pid: u32, line: &str) -> Result<i64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line));
    let number =
        found.and_then(|rest| rest.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| Failure::new(format!("/proc/{pid}/status has no {line}")))
}

/// The last lines of a log file, for a failure message.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
