//! The command line: one file a sub-command. Results go to standard output, everything else to standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this room is for")]

mod check;
mod dev;
mod init;
mod openapi;
mod sandbox;
mod serve;
mod test;

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
    /// Everything in one process: a cluster in memory, all mappings, REST, and events on the screen.
    Dev(dev::Arguments),
    /// Serve a Kubernetes API in memory, for kubectl and for tests.
    Sandbox(sandbox::Arguments),
    /// Run the cases of mappings, and show each leaf that differs.
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
        Command::Dev(arguments) => dev::run(arguments).into(),
        Command::Sandbox(arguments) => sandbox::run(&arguments).into(),
        Command::Test(arguments) => test::run(&arguments).into(),
        Command::Init(arguments) => init::run(&arguments).into(),
        Command::Openapi(arguments) => openapi::run(&arguments).into(),
    }
}
