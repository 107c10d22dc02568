//! `mapwright man`: the manual page of the program, or of one of its commands.

use clap::CommandFactory as _;
use clap_mangen::Man;

use super::offline::Stop;
use super::{End, result};
use crate::engine::diagnostic::nearest;

/// Print a manual page.
///
/// Example: mapwright man serve > mapwright-serve.1
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The command; the program's own page where none is named.
    command: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> End {
    match page(arguments.command.as_deref()) {
        Ok(text) => {
            result(&text);
            End::Success
        }
        Err(stop) => stop.tell(),
    }
}

fn page(name: Option<&str>) -> Result<String, Stop> {
    let mut program = super::Arguments::command();
    program.build();
    let command = match name {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
            let help =
                nearest(name, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            Stop::usage(format!("there is no command `{name}`{help}"))
        })?,
    };
    let mut page = Vec::new();
    let rendered = Man::new(command).render(&mut page);
    rendered.map_err(|error| Stop::finding(format!("the page cannot be written: {error}")))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
