//! The kinds that a mapping names, compared with those that exist.

use crate::decode::Text;
use crate::diagnostic::{Help, suggestion};
use crate::service::KindRef;
use crate::source::{Source, Span};
use crate::template::Template;
use crate::types::Type;

use super::rules::Rules;

impl Rules<'_, '_> {
    /// A kind of a [[watch]] or [[lookup]].
    pub(super) fn named_kind(&mut self, api_version: &Text, kind: &Text) -> KindRef {
        let named = KindRef { api_version: api_version.value.clone(), kind: kind.value.clone() };
        let source = self.source;
        self.known_kind(source, &named, &api_version.span, &kind.span);
        named
    }

    /// A template against the kind that it names, which lives in a namespace.
    pub(super) fn object_kind(&mut self, source: &Source, template: &Template, kind: &KindRef) {
        let span = |key: &str| template.tree.get(key).map_or(0..0, |tree| tree.span.clone());
        self.known_kind(source, kind, &span("apiVersion"), &span("kind"));
        if self.kinds.get(kind).is_some_and(|row| !row.namespaced) {
            let message = format!("objects of the kind `{}` live in no namespace", kind.kind);
            let help =
                "an instance is made of objects in its own namespace; read others with [[lookup]]".to_owned();
            let findings = &mut *self.compiler.findings;
            findings.add_with_help(source, &span("kind"), "object-without-namespace", message, Some(help));
        }
        self.fields(source, template, kind, true);
    }

    /// A template against the schema of a kind.
    pub(super) fn fields(&mut self, source: &Source, template: &Template, kind: &KindRef, whole: bool) {
        if let Some(schema) = self.kinds.schema(kind) {
            template.check(source, &Type::schema(schema), whole, self.compiler.findings);
        }
    }

    fn known_kind(&mut self, source: &Source, named: &KindRef, api_version: &Span, kind: &Span) {
        // One that is missing was reported as such.
        let missing = named.kind.is_empty() || named.api_version.is_empty();
        if missing || self.kinds.is_empty() || self.kinds.get(named).is_some() {
            return;
        }
        let meant = self.kinds.nearest(named).cloned();
        let elsewhere = meant.as_ref().filter(|meant| meant.kind == named.kind);
        let (span, message) = match elsewhere {
            Some(_) => (api_version, format!("`{}` has no kind `{}`", named.api_version, named.kind)),
            None => (kind, format!("there is no kind `{}` in `{}`", named.kind, named.api_version)),
        };
        let help = match (elsewhere, &meant) {
            (Some(meant), _) => suggestion(&named.api_version, &[&meant.api_version]),
            (None, Some(meant)) if meant.api_version == named.api_version => {
                Some(Help::replace(format!("did you mean `{}`?", meant.kind), &meant.kind))
            }
            (None, Some(meant)) => {
                Some(format!("did you mean `{}` of `{}`?", meant.kind, meant.api_version).into())
            }
            (None, None) => {
                Some("put the CustomResourceDefinition of a kind of your own into schemas/crds/".into())
            }
        };
        self.compiler.findings.add_with_help(source, span, "unknown-kind", message, help);
    }
}
