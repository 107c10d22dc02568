//! What `mapwright dev` shows of a save.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use super::{MAPPING, TAKEN};
use crate::cases::root::{Root, run};

pub(crate) struct Screen {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    lines
}

/// The lines up to one that holds this.
fn until(lines: &Receiver<String>, part: &str) -> Vec<String> {
    let end = Instant::now() + TAKEN;
    let mut seen = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let line = lines.recv_timeout(left).unwrap_or_else(|_| panic!("no line holds {part}: {seen:?}"));
        let found = line.contains(part);
        seen.push(line);
        if found {
            return seen;
        }
    }
}

impl Screen {
    /// Starts `mapwright dev` with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mapwright"));
        command.arg("dev").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Self { child, out, err }
    }

    /// Ends it as this signal does, and hands over what it has printed and nobody read.
    pub(crate) fn end(mut self, signal: &str) -> Vec<String> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap();
        self.out.iter().collect()
    }

    /// The lines up to the next one that holds this.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        until(&self.out, part)
    }

    /// The next line that holds this.
    pub(crate) fn line(&self, part: &str) -> String {
        self.lines(part).pop().unwrap()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn dev_says_of_a_save_what_check_says_and_what_serves() {
    let root = Root::new();
    let folder = root.path("").to_string_lossy().trim_end_matches('/').to_owned();
    let screen = Screen::start(&["--root", &folder]);
    screen.line("Status events");
    root.replace(MAPPING, "'the pod is running'", "'the pod is runing' | uper");
    let refused = screen.line("is refused");
    assert!(refused.contains("serves on"), "{refused}");
    let checked = run(&["check", &folder]).err;
    let told = until(&screen.err, "docs/errors/");
    assert!(!checked.is_empty());
    assert_eq!(told.join("\n").trim_end(), checked.trim_end());

    root.replace(MAPPING, "'the pod is runing' | uper", "'the pod is up'");
    screen.line("serves from now on");
    root.replace(MAPPING, "format         = ", "formt         = ");
    screen.line("is refused");
    root.replace(MAPPING, "formt         = ", "format         = ");
    screen.line("is what the files say again");
}
