//! `mapwright render`: the manifests of a spec, without a cluster.

use std::path::PathBuf;

use serde_json::Value;

use super::offline::{Offline, Root, Stop, load, read_document};
use super::{End, result};
use crate::engine::emit::emit_documents;

/// Print the manifests of a spec, without a cluster.
///
/// The spec is judged as a create would be: by its schema, then by the checks of its mapping.
///
/// Example: mapwright render container spec.yaml | kubectl create --dry-run=server -f -
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The service type.
    r#type: String,
    /// A file with the spec, in YAML or JSON; `-` is standard input.
    spec: PathBuf,
    #[command(flatten)]
    root: Root,
    #[command(flatten)]
    offline: Offline,
}

pub(super) fn run(arguments: &Arguments) -> End {
    match documents(arguments) {
        Ok(documents) => {
            result(&documents);
            End::Success
        }
        Err(stop) => stop.tell(),
    }
}

fn documents(arguments: &Arguments) -> Result<String, Stop> {
    let service = load(&arguments.root.root, &arguments.r#type)?;
    let prepared = arguments.offline.prepare(&service, read_document(&arguments.spec)?)?;
    let manifests = service.render(&prepared.identity, &prepared.inputs, 0);
    let manifests = manifests.map_err(|error| Stop::finding(error.to_string()))?;
    let bodies: Vec<Value> = manifests.into_iter().map(|manifest| manifest.body).collect();
    Ok(emit_documents(&bodies))
}
