//! `mapwright completions`: what a shell needs to complete commands and flags.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::{End, result};

/// Print a script that completes commands and flags.
///
/// Example: mapwright completions bash > /etc/bash_completion.d/mapwright
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell that reads it.
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let mut script = Vec::new();
    generate(arguments.shell, &mut super::Arguments::command(), "mapwright", &mut script);
    result(&String::from_utf8_lossy(&script));
    End::Success
}
