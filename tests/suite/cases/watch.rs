//! `test --watch`: a run soon after each save, however the editor saves.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::small;

/// The promise is 100 ms. The machine of a test may be busy and the build unoptimised, so that only what
/// has nothing to do with either fails; the figures are printed.
const SOON: Duration = Duration::from_secs(5);

struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(root: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mapwright"))
            .args(["test", "--watch"])
            .arg(root)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines }
    }

    /// The summary of the next run, if there is one within the limit.
    fn summary(&self, limit: Duration) -> Option<String> {
        let end = Instant::now() + limit;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
            if line.contains(" passed, ") {
                return Some(line);
            }
        }
    }

    /// Waits for a run with this summary. Some saves take two steps, and a run may see the first alone: what
    /// counts is that the last run has seen the last one.
    fn comes_to(&self, expected: &str, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while let Some(summary) = self.summary(end.saturating_duration_since(Instant::now())) {
            if summary == expected {
                return true;
            }
        }
        false
    }

    /// Whether the runs come to an end when nothing is saved.
    fn becomes_quiet(&self) -> bool {
        (0..10).any(|_| self.summary(Duration::from_millis(500)).is_none())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stderr, reason = "the figures are for whoever looks")]
#[test]
fn a_save_of_any_kind_is_followed_by_a_run() {
    let root = small();
    let golden = root.path("testdata/cases/storage/small/manifests.yaml");
    let (right, wrong) = (super::MANIFESTS, super::MANIFESTS.replace("10Gi", "99Gi"));
    let watching = Watching::start(&root.path(""));
    let passed = "1 case: 1 passed, 0 failed, 0 malformed";
    let failed = "1 case: 0 passed, 1 failed, 0 malformed";
    assert!(watching.comes_to(passed, Duration::from_secs(20)), "the first run");
    let save = |how: &str, expected: &str, act: &dyn Fn()| {
        let at = Instant::now();
        act();
        assert!(watching.comes_to(expected, SOON), "{how}");
        eprintln!("{how}: {} ms", at.elapsed().as_millis());
    };
    save("a write in place", failed, &|| fs::write(&golden, &wrong).unwrap());
    save("a file renamed over the old one", passed, &|| {
        let fresh = root.path("testdata/cases/storage/small/.manifests.yaml.swp");
        fs::write(&fresh, right).unwrap();
        fs::rename(&fresh, &golden).unwrap();
    });
    save("a link in place of the file", failed, &|| {
        root.write("elsewhere/one.yaml", &wrong);
        fs::remove_file(&golden).unwrap();
        std::os::unix::fs::symlink(root.path("elsewhere/one.yaml"), &golden).unwrap();
    });
    save("a link that is swapped", passed, &|| {
        root.write("elsewhere/two.yaml", right);
        let fresh = root.path("testdata/cases/storage/small/.link");
        std::os::unix::fs::symlink(root.path("elsewhere/two.yaml"), &fresh).unwrap();
        fs::rename(&fresh, &golden).unwrap();
    });
    save("a change of the mapping", failed, &|| {
        root.replace("mappings/storage/claim.yaml", "{{ spec.capacity }}", "7Gi");
    });
    assert!(watching.becomes_quiet(), "no save, no run");
}
