//! Kubernetes' types as they are embedded in the program: data, which the engine reads.

use std::sync::OnceLock;

use crate::engine::diagnostic::Findings;
use crate::engine::kinds::Kinds;
use crate::engine::service::Files;
use crate::engine::source::Source;

const PACK: &[u8] = include_bytes!("../schemas/kubernetes/types.pack");
const ADDITIONS: &str = include_str!("../schemas/kubernetes/additions.yaml");

/// The kinds of the supported Kubernetes version.
pub fn embedded() -> &'static Kinds {
    static EMBEDDED: OnceLock<Kinds> = OnceLock::new();
    EMBEDDED.get_or_init(|| {
        let additions = Source::new("schemas/kubernetes/additions.yaml", ADDITIONS);
        Kinds::read(PACK, &additions).expect("the embedded types are well formed: a test reads them all")
    })
}

/// The embedded kinds, and those that the CustomResourceDefinitions of a mapping root add.
pub fn of(files: &Files, findings: &mut Findings) -> Kinds {
    embedded().with_custom(files, findings)
}
