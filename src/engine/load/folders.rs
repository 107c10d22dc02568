//! What two mappings of one root may not share: DCM and callers would find the first of them alone.

use crate::decode::Text;
use crate::diagnostic::Findings;
use crate::format::Mapping;
use crate::read::read;
use crate::service::Files;
use crate::source::{Source, Tree};

use super::MAPPING_FILES;

/// Reports a service type and a collection that a mapping before this one has already.
pub(super) fn lint(files: &Files, folder: &str, source: &Source, mapping: &Mapping, findings: &mut Findings) {
    for (path, other) in before(files, folder) {
        let said = |key: &str| other.get(key).and_then(Tree::as_str);
        let mut same = |key: &str, text: &Text, what: &str| {
            if !text.value.is_empty() && said(key) == Some(&text.value) {
                let message = format!("{path} has the {what} `{}` already", text.value);
                let help = "give each mapping its own, or move one out of `mappings`";
                findings.add_with_help(source, &text.span, "duplicate-name", message, Some(help));
            }
        };
        same("service_type", &mapping.service_type, "service type");
        same("collection", &mapping.collection, "collection");
    }
}

/// The mappings of the folders before this one. What is wrong in them is reported where they are loaded.
fn before<'f>(files: &'f Files, folder: &'f str) -> impl Iterator<Item = (&'f String, Tree)> {
    files.iter().filter_map(move |(path, text)| {
        let (other, name) = path.strip_prefix("mappings/")?.split_once('/')?;
        if other >= folder || other.starts_with(['.', '_']) || !MAPPING_FILES.contains(&name) {
            return None;
        }
        let tree = read(&Source::new(path.as_str(), text.as_str()), &mut Findings::default())?;
        Some((path, tree))
    })
}
