//! The command line: one file a sub-command. Results go to standard output, everything else to standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this room is for")]

mod check;
mod diff;
mod explain;
mod init;
mod offline;
mod openapi;
mod rbac;
mod render;
mod serve;
mod test;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Kubernetes service provider for DCM that is driven by data.
#[derive(Debug, Parser)]
#[command(name = "mapwright", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve service types: REST, events and registration.
    Serve(serve::Arguments),
    /// Load mappings and report every mistake at its place.
    Check(check::Arguments),
    /// Print the manifests of a spec, without a cluster.
    Render(render::Arguments),
    /// Tell where each field comes from, or why a status is said.
    Explain(explain::Arguments),
    /// Show what a change of mappings does to instances.
    Diff(diff::Arguments),
    /// Print the exact rights of the mappings.
    Rbac(rbac::Arguments),
    // What it does, and an example, stand with its arguments: a comment here would hide them from --help.
    Test(test::Arguments),
    /// Write a new mapping for a kind.
    Init(init::Arguments),
    /// Print the OpenAPI document, as a provider serves it.
    Openapi(openapi::Arguments),
}

/// How a command ended, as its exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Success,
    /// Findings, failing cases, differences; a start that its settings prevent.
    Findings,
    /// Usage, unreadable files, nothing to check.
    Usage,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Success => Self::SUCCESS,
            End::Findings => Self::from(1),
            End::Usage => Self::from(2),
        }
    }
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments).into(),
        Command::Check(arguments) => check::run(&arguments).into(),
        Command::Render(arguments) => render::run(&arguments).into(),
        Command::Explain(arguments) => explain::run(&arguments).into(),
        Command::Diff(arguments) => diff::run(&arguments).into(),
        Command::Rbac(arguments) => rbac::run(&arguments).into(),
        Command::Test(arguments) => test::run(&arguments).into(),
        Command::Init(arguments) => init::run(&arguments).into(),
        Command::Openapi(arguments) => openapi::run(&arguments).into(),
    }
}

/// Prints a result. Whoever reads it may have seen enough: a closed pipe is no mistake.
fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
