//! `mapwright schema`: the JSON Schema of each file that a person writes, for editors.

use super::End;
use crate::engine::describe;
use crate::settings;

/// Print the JSON Schema of a file that people write, for editors.
///
/// docs/editors.md says how an editor is told of it.
///
/// Example: mapwright schema mapping > mapping.schema.json
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The file that is described.
    #[arg(value_enum, default_value_t = Document::Mapping)]
    document: Document,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Document {
    /// `mapping.toml` or `mapping.yaml` of a service type.
    Mapping,
    /// A template: any Kubernetes object, with expressions and directives.
    Template,
    /// `case.yaml` of a test case.
    Case,
    /// `steps.yaml` of a test case.
    Steps,
    /// `provider.toml`, the settings of `serve`.
    Provider,
}

pub(super) fn run(arguments: &Arguments) -> End {
    let schema = match arguments.document {
        Document::Mapping => describe::mapping(),
        Document::Template => describe::template(),
        Document::Case => describe::case(),
        Document::Steps => describe::steps(),
        Document::Provider => settings::schema(),
    };
    super::result(&format!("{schema:#}\n"));
    End::Success
}
