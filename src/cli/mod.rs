//! The command line: one file a sub-command. Results go to standard output, everything else to standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this room is for")]

mod check;
mod init;
mod openapi;
mod report;
mod schema;
mod serve;
mod test;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Kubernetes service provider for DCM that is driven by data.
#[derive(Debug, Parser)]
#[command(name = "mapwright", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// What a command does, and an example, stand with its arguments: a comment here would hide them from --help.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Check(check::Arguments),
    Test(test::Arguments),
    Init(init::Arguments),
    Openapi(openapi::Arguments),
    Schema(schema::Arguments),
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
        Command::Test(arguments) => test::run(&arguments).into(),
        Command::Init(arguments) => init::run(&arguments).into(),
        Command::Openapi(arguments) => openapi::run(&arguments).into(),
        Command::Schema(arguments) => schema::run(&arguments).into(),
    }
}

/// Whether standard error is a terminal that shows colour, and nobody objects (no-color.org).
fn colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
