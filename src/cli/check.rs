//! `mapwright check`: loads every mapping and reports each mistake at its place.

use std::path::PathBuf;

use super::End;
use crate::engine::diagnostic::Findings;
use crate::engine::prove::{Proof, prove};
use crate::engine::service::Service;
use crate::files::MappingRoot;
use crate::kinds;

/// Example: mapwright check
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder that holds `mappings` and `schemas`.
    #[arg(default_value = ".")]
    root: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let root = MappingRoot::at(&arguments.root);
    let read = root.types().and_then(|types| root.read().map(|files| (types, files)));
    let (types, files) = match read {
        Ok(read) => read,
        Err(unreadable) => {
            eprintln!("{unreadable}");
            return End::Usage;
        }
    };
    if types.is_empty() {
        eprintln!("there is no mapping in {}", root.mappings.display());
        return End::Usage;
    }
    let mut findings = Findings::default();
    let kinds = kinds::of(&files, &mut findings);
    for name in &types {
        match Service::load(&files, name, &kinds) {
            Ok(service) => {
                let proof = prove(&service, &files, &kinds);
                let unread = service.unread_inputs();
                if proof.findings.is_empty() && unread.is_empty() {
                    let Proof { rendered, refused, .. } = proof;
                    println!(
                        "{name}: revision {}, no mistakes ({rendered} specs rendered, {refused} refused)",
                        service.revision
                    );
                }
                findings.append(proof.findings);
                findings.append(unread);
            }
            Err(found) => findings.append(found),
        }
    }
    if findings.is_empty() {
        return End::Success;
    }
    eprintln!("{findings}");
    End::Findings
}
