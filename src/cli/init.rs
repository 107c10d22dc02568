//! `mapwright init`: a new mapping that passes `check`.

use std::fs;
use std::path::PathBuf;

use super::End;
use crate::engine::diagnostic::Findings;
use crate::engine::service::Files;
use crate::engine::starter::starter;
use crate::files::MappingRoot;
use crate::kinds;

/// Write a new mapping for a kind.
///
/// Example: mapwright init report --kind batch/v1/CronJob
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The service type, as DCM will name it.
    service_type: String,
    /// The kind of the object that an instance is made of, with its version: `apps/v1/Deployment`.
    #[arg(long)]
    kind: String,
    /// The folder that holds `mappings` and `schemas`; they are made where they are not there yet.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let root = MappingRoot::at(&arguments.dir);
    let files = match root.read_schemas() {
        Ok(files) => files,
        Err(unreadable) => {
            eprintln!("{unreadable}");
            return End::Usage;
        }
    };
    let mut findings = Findings::default();
    let kinds = kinds::of(&files, &mut findings);
    if !findings.is_empty() {
        eprintln!("{findings}");
        return End::Findings;
    }
    match starter(&arguments.service_type, &arguments.kind, &kinds) {
        Ok(files) => write(arguments, &files),
        Err(reason) => {
            eprintln!("{reason}");
            End::Usage
        }
    }
}

/// Nothing is written where one file is there already.
fn write(arguments: &Arguments, files: &Files) -> End {
    for name in files.keys() {
        let path = arguments.dir.join(name);
        if path.exists() {
            eprintln!("{} is there already; choose another service type, or remove it first", path.display());
            return End::Usage;
        }
    }
    for (name, text) in files {
        let path = arguments.dir.join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(error) = folder.and_then(|()| fs::write(&path, text)) {
            eprintln!("cannot write {}: {error}", path.display());
            return End::Usage;
        }
        println!("{}", path.strip_prefix(".").unwrap_or(&path).display());
    }
    let (name, dir) = (&arguments.service_type, arguments.dir.display());
    eprintln!("\nnext, after each change: mapwright check {dir} && mapwright test {dir} --filter {name}/");
    End::Success
}
