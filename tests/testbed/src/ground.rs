//! What the tests run on: the real servers where they are, or can be built; else the product's own sandbox.

use std::collections::BTreeSet;
use std::env;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::binaries::{Binaries, progress};

/// Whether the tests run against the product's own in-memory API server instead of the real control plane: so
/// if TESTBED is `sandbox`, or if there is nothing to build the real one with. `TESTBED=real` forbids that.
pub fn is_sandbox() -> bool {
    static SANDBOX: OnceLock<bool> = OnceLock::new();
    *SANDBOX.get_or_init(|| match env::var("TESTBED").as_deref() {
        Ok("sandbox") => true,
        Ok("real") => false,
        _ if Binaries::can_be_found() => false,
        _ => {
            leave_out(
                "the real control plane: there is neither Go nor KUBEBUILDER_ASSETS, so the suite runs on the \
                 sandbox alone",
            );
            true
        }
    })
}

/// Whether the servers and tools that Go builds are there: NATS with JetStream, and kubectl. Who wants the sandbox
/// alone does not wait for them to be built.
pub fn has_servers() -> bool {
    static SERVERS: OnceLock<bool> = OnceLock::new();
    *SERVERS.get_or_init(|| {
        let asked = env::var("TESTBED").is_ok_and(|kind| kind == "sandbox");
        let found = if asked { Binaries::are_there() } else { Binaries::can_be_found() };
        if !found {
            leave_out("JetStream and kubectl: they are not built, so what needs them is not tested");
        }
        found
    })
}

/// Says that a tool of somebody else's is not there. Not every machine can have it, so CI goes on.
pub fn leave_out_tool(name: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
        progress(&format!("left out: what needs {name}, which is not installed"));
    }
}

/// Says once, in one line, what is left out. In CI nothing may be.
fn leave_out(what: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned()) {
        progress(&format!("left out: {what}"));
    }
    if env::var("CI").is_ok_and(|ci| ci == "true") {
        progress("with CI=true nothing may be left out; install Go, or set KUBEBUILDER_ASSETS");
        std::process::exit(1);
    }
}
