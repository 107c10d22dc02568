//! `mapwright openapi`: the OpenAPI document, as a provider serves it.

use std::path::PathBuf;

use super::End;
use crate::engine::diagnostic::Findings;
use crate::engine::service::Service;
use crate::files::MappingRoot;
use crate::kinds;

/// Print the OpenAPI document, as a provider serves it.
///
/// Example: mapwright openapi container
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The service type; all mappings where none is named.
    service_type: Option<String>,
    /// The folder that holds `mappings` and `schemas`.
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let root = MappingRoot::at(&arguments.root);
    let read = root.types().and_then(|types| root.read().map(|files| (types, files)));
    let (known, files) = match read {
        Ok(read) => read,
        Err(unreadable) => {
            eprintln!("{unreadable}");
            return End::Usage;
        }
    };
    let wanted = match &arguments.service_type {
        Some(name) if !known.contains(name) => {
            eprintln!("there is no mapping for `{name}`; there are: {}", known.join(", "));
            return End::Usage;
        }
        Some(name) => vec![name.clone()],
        None => known,
    };
    let mut findings = Findings::default();
    let kinds = kinds::of(&files, &mut findings);
    let mut services = Vec::new();
    for name in &wanted {
        match Service::load(&files, name, &kinds) {
            Ok(service) => services.push(service),
            Err(found) => findings.append(found),
        }
    }
    if !findings.is_empty() {
        eprintln!("{findings}");
        return End::Findings;
    }
    print!("{}", crate::openapi::text(&services));
    End::Success
}
