//! The variables that every expression of a mapping may name, and their types.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::format::{Mapping, Setting, SettingKind};
use crate::kinds::Kinds;
use crate::reads::Names;
use crate::service::KindRef;
use crate::types::Type;

pub(super) fn base(mapping: &Mapping, kinds: &Kinds, spec: &Json, patch: Option<&Json>) -> Names {
    let mut names = Names::default();
    names.typed_root("spec", Type::schema(Arc::new(spec.clone())));
    if let Some(patch) = patch {
        names.typed_root("patch", Type::schema(Arc::new(patch.clone())));
    }
    let settings =
        mapping.settings.0.iter().map(|(name, setting)| (name.value.as_str(), setting_type(setting)));
    names.typed_root("settings", Type::map(settings));
    names.typed_root("dcm", dcm(mapping));
    let said = Type::words(mapping.status.values.iter().map(|word| word.value.as_str()));
    names.typed_root("previous", Type::map([("status", said), ("message", Type::text())]));
    // A name that is taken is reported, and keeps its first meaning.
    let mut add = |name: &str, kind: Type| {
        if !names.has(name) {
            names.typed_root(name, kind);
        }
    };
    for watch in &mapping.watch {
        let kind = object_type(kinds, &watch.api_version.value, &watch.kind.value);
        if let Some(all) = &watch.all {
            add(&all.value, Type::list(kind.clone()));
        }
        add(&watch.name.value, kind);
    }
    for lookup in &mapping.lookup {
        let kind = object_type(kinds, &lookup.api_version.value, &lookup.kind.value);
        add(&lookup.name.value, if lookup.list { Type::list(kind) } else { kind });
    }
    names
}

fn object_type(kinds: &Kinds, api_version: &str, kind: &str) -> Type {
    let kind = KindRef { api_version: api_version.to_owned(), kind: kind.to_owned() };
    kinds.schema(&kind).map(Type::schema).unwrap_or_default()
}

fn setting_type(setting: &Setting) -> Type {
    match setting.kind.unwrap_or(SettingKind::String) {
        SettingKind::String if setting.r#enum.is_empty() => Type::text(),
        SettingKind::String => {
            // A default outside the list is a value all the same.
            let default = setting.default.as_ref().map(crate::source::Tree::to_json);
            let default = default.as_ref().and_then(Json::as_str).map(str::to_owned);
            Type::words(setting.r#enum.iter().map(|word| word.value.clone()).chain(default))
        }
        SettingKind::Integer | SettingKind::Number => Type::Number,
        SettingKind::Boolean => Type::Bool,
    }
}

/// What the engine itself says of an instance.
fn dcm(mapping: &Mapping) -> Type {
    Type::map([
        ("id", Type::text()),
        ("provider", Type::text()),
        ("namespace", Type::text()),
        ("service_type", Type::words([mapping.service_type.value.as_str()])),
        ("collection", Type::words([mapping.collection.value.as_str()])),
        ("labels", Type::free_map(Type::text())),
    ])
}
