//! Tells the program which commit it was built from: a release alone, since a build for development would be
//! compiled anew at each commit.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MAPWRIGHT_COMMIT");
    println!("cargo:rustc-env=MAPWRIGHT_COMMIT={}", commit());
}

/// Whoever builds from an archive, without git, may name the commit.
fn commit() -> String {
    let named = env::var("MAPWRIGHT_COMMIT").ok();
    let sane = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(named) = named.filter(sane) {
        return named;
    }
    if env::var("PROFILE").as_deref() != Ok("release") {
        return "development".to_owned();
    }
    // A commit moves the head's reference; a checkout, the head; and packing, the packed references.
    let head = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(head.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
