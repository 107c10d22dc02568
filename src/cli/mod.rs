//! The command line: one file a sub-command. Results go to standard output, everything else to standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this room is for")]

mod check;
mod completions;
mod dev;
mod diff;
mod explain;
mod init;
mod man;
mod offline;
mod openapi;
mod rbac;
mod render;
mod report;
mod sandbox;
mod schema;
mod serve;
mod test;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The version, and the commit that it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MAPWRIGHT_COMMIT"), ")");

/// A Kubernetes service provider for DCM that is driven by data.
#[derive(Debug, Parser)]
#[command(name = "mapwright", version = VERSION, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// What a command does, and an example, stand with its arguments: a comment here would hide them from --help.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Check(check::Arguments),
    Dev(dev::Arguments),
    Sandbox(sandbox::Arguments),
    Render(render::Arguments),
    Explain(explain::Arguments),
    Diff(diff::Arguments),
    Rbac(rbac::Arguments),
    Test(test::Arguments),
    Init(init::Arguments),
    Openapi(openapi::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
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
        Command::Render(arguments) => render::run(&arguments).into(),
        Command::Explain(arguments) => explain::run(&arguments).into(),
        Command::Diff(arguments) => diff::run(&arguments).into(),
        Command::Rbac(arguments) => rbac::run(&arguments).into(),
        Command::Test(arguments) => test::run(&arguments).into(),
        Command::Init(arguments) => init::run(&arguments).into(),
        Command::Openapi(arguments) => openapi::run(&arguments).into(),
        Command::Schema(arguments) => schema::run(&arguments).into(),
        Command::Completions(arguments) => completions::run(&arguments).into(),
        Command::Man(arguments) => man::run(&arguments).into(),
    }
}

/// Prints a result. Whoever reads it may have seen enough: a closed pipe is no mistake.
fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Whether standard error is a terminal that shows colour, and nobody objects (no-color.org).
fn colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
