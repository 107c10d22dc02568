//! From the files of a mapping to a compiled [`Service`]: every mistake is found, not the first alone.

mod folders;
mod kinds;
mod lint;
mod manifest;
mod names;
mod prune;
mod reach;
mod rules;

use std::sync::Arc;

use crate::decode::{Decode, Decoder, Text};
use crate::diagnostic::{Findings, nearest, suggestion};
use crate::expression::Compiler;
use crate::format::{self, Mapping, SettingKind};
use crate::kinds::Kinds;
use crate::names::fingerprint;
use crate::problem::ProblemStyle;
use crate::read::read;
use crate::schema::Schema;
use crate::scope::Lets;
use crate::service::*;
use crate::source::Source;

use lint::Lint;
use rules::{Parts, Rules};
use serde_json::Value as Json;

/// Reads and compiles one folder.
pub struct Loader<'a> {
    files: &'a Files,
    folder: &'a str,
    kinds: &'a Kinds,
    findings: &'a mut Findings,
    used: Vec<&'a str>,
    /// Files that a misspelt name most likely means.
    meant: Vec<String>,
}

const MAPPING_FILES: [&str; 3] = ["mapping.toml", "mapping.yaml", "mapping.yml"];

impl<'a> Loader<'a> {
    pub fn new(files: &'a Files, folder: &'a str, kinds: &'a Kinds, findings: &'a mut Findings) -> Self {
        Self { files, folder, kinds, findings, used: Vec::new(), meant: Vec::new() }
    }

    pub fn load(mut self) -> Option<Service> {
        let source = self.mapping_file()?;
        let tree = read(&source, self.findings)?;
        let before = self.findings.len();
        let mapping = Mapping::decode(&tree, &mut Decoder { source: &source, findings: self.findings })?;
        let whole = self.findings.len() == before;
        let schema = self.schema(&source, &mapping.schema);
        let update_schema = mapping.update.as_ref().map(|update| self.schema(&source, &update.schema));
        let templates = self.template_sources(&source, &mapping);
        if whole {
            self.unused_files(&source.name);
        }
        let revision = self.revision();
        // A schema that cannot be read is reported; to the expressions it says nothing.
        let shape_of = |schema: &Option<Schema>| {
            schema.as_ref().map_or(Json::Bool(true), |schema| schema.document.clone())
        };
        let shape = shape_of(&schema);
        let patch = update_schema.as_ref().map(shape_of);
        Lint { source: &source, mapping: &mapping, findings: self.findings }.run(&shape);
        folders::lint(self.files, self.folder, &source, &mapping, self.findings);
        let mut rules = Rules {
            source: &source,
            mapping: &mapping,
            templates: &templates,
            compiler: Compiler::new(self.findings),
            names: names::base(&mapping, self.kinds, &shape, patch.as_ref()),
            kinds: self.kinds,
            broken: false,
        };
        rules.echoed(&shape);
        let parts = rules.compile();
        let broken = rules.broken;
        let program = Arc::new(rules.compiler.finish());
        let (schema, update_schema) = (schema?, flip(update_schema)?);
        let mut service = parts?.assemble(&mapping, schema, update_schema, program, revision);
        if broken {
            return None;
        }
        service.definitions = self.kinds.documents();
        prune::prune(&mut service);
        Some(service)
    }

    fn mapping_file(&mut self) -> Option<Source> {
        let paths = MAPPING_FILES.iter().map(|name| format!("mappings/{}/{name}", self.folder));
        let found: Vec<(&'a String, &'a String)> =
            paths.filter_map(|path| self.files.get_key_value(&path)).collect();
        let Some((path, text)) = found.first() else {
            let source = Source::new(format!("mappings/{}/mapping.toml", self.folder), "");
            let message = "the folder holds no mapping.toml or mapping.yaml";
            let help = nearest("mapping.toml", self.there(&format!("mappings/{}/", self.folder)))
                .map(|name| format!("rename `{name}` to `mapping.toml`"));
            self.findings.add_with_help(&source, &(0..0), "missing-mapping", message, help);
            return None;
        };
        for (other, text) in &found[1..] {
            let other = Source::new(other.as_str(), text.as_str());
            let message = format!("the folder holds two mappings: this one and {path}");
            let help = "remove one of them";
            self.findings.add_with_help(&other, &(0..0), "two-mappings", message, Some(help));
        }
        self.used.extend(found.iter().map(|(path, _)| path.as_str()));
        Some(Source::new(path.as_str(), text.as_str()))
    }

    /// The names of the files below a prefix.
    fn there(&self, prefix: &str) -> Vec<&'a str> {
        self.files.keys().filter_map(|key| key.strip_prefix(prefix)).collect()
    }

    fn file(&mut self, source: &Source, named: &Text, path: String) -> Option<Source> {
        if named.is_missing() || named.value.is_empty() {
            return None;
        }
        match self.files.get_key_value(&path) {
            Some((path, text)) => {
                self.used.push(path);
                Some(Source::new(path.clone(), text.clone()))
            }
            None => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let there = self.there(&format!("{folder}/"));
                let right: Vec<&str> =
                    there.iter().copied().filter(|name| !MAPPING_FILES.contains(name)).collect();
                let message = format!("there is no file {path}");
                let help = suggestion(&named.value, &right);
                self.findings.add_with_help(source, &named.span, "missing-file", message, help);
                let meant = nearest(&named.value, right.iter().copied());
                self.meant.extend(meant.map(|name| format!("{folder}/{name}")));
                None
            }
        }
    }

    /// A template that nothing names was left behind, or was meant to be used.
    fn unused_files(&mut self, mapping: &str) {
        let prefix = format!("mappings/{}/", self.folder);
        for (path, text) in self.files.iter().filter(|(path, _)| path.starts_with(&prefix)) {
            let read = [".toml", ".yaml", ".yml", ".json"].iter().any(|ending| path.ends_with(ending));
            if !read || self.used.contains(&path.as_str()) || self.meant.contains(path) {
                continue;
            }
            let source = Source::new(path.clone(), text.clone());
            let message = format!("nothing in {mapping} names this file");
            let help =
                "name it as the template of an [[object]], an [[update.do]] or the [view], or remove it";
            self.findings.add_with_help(&source, &(0..0), "unused-file", message, Some(help));
        }
    }

    fn schema(&mut self, source: &Source, named: &Text) -> Option<Schema> {
        let file = self.file(source, named, format!("schemas/{}", named.value))?;
        Schema::load(&file, self.findings)
    }

    fn template_sources(&mut self, source: &Source, mapping: &Mapping) -> Vec<Source> {
        let objects = mapping.object.iter().map(|object| &object.template);
        let patches = mapping.update.iter().flat_map(|update| &update.r#do).map(|patch| &patch.template);
        let view = mapping.view.iter().map(|view| &view.template);
        let adopt = mapping.adopt.iter().map(|adopt| &adopt.template);
        let named: Vec<&Text> = objects.chain(patches).chain(view).chain(adopt).collect();
        let folder = self.folder;
        named
            .into_iter()
            .filter_map(|named| self.file(source, named, format!("mappings/{folder}/{}", named.value)))
            .collect()
    }

    fn revision(&self) -> String {
        let mut used = self.used.clone();
        used.sort_unstable();
        used.dedup();
        let parts: Vec<&str> =
            used.iter().flat_map(|path| [*path, self.files.get(*path).map_or("", String::as_str)]).collect();
        fingerprint(&parts)[..12].to_owned()
    }
}

fn flip<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
        None => Some(None),
    }
}

impl Parts {
    fn assemble(
        self,
        mapping: &Mapping,
        schema: Schema,
        update_schema: Option<Schema>,
        program: Arc<crate::expression::Program>,
        revision: String,
    ) -> Service {
        let prefix = mapping.problem.as_ref().and_then(|form| form.type_prefix.as_ref());
        let lets: Lets = self.lets.into();
        Service {
            definitions: Arc::default(),
            service_type: mapping.service_type.value.clone(),
            collection: mapping.collection.value.clone(),
            list_key: mapping.list_key.as_ref().unwrap_or(&mapping.collection).value.clone(),
            schema_version: mapping.schema_version.value.clone(),
            operations: mapping.operations.clone(),
            problem_style: prefix
                .map_or(ProblemStyle::BareCode, |text| ProblemStyle::Prefixed(text.value.clone())),
            revision,
            settings: mapping.settings.0.iter().map(setting).collect(),
            schema,
            echoed: mapping.echoed.iter().map(|pointer| pointer.value.clone()).collect(),
            checks: self.checks,
            objects: self.objects,
            watches: self.watches,
            lookups: self.lookups,
            status: self.status,
            view: self.view,
            adopt: self.adopt,
            update: update_schema.map(|schema| UpdateRule { schema, set: self.set, patches: self.patches }),
            program,
            lets,
        }
    }
}

fn setting((name, setting): &(Text, format::Setting)) -> SettingRule {
    SettingRule {
        name: name.value.clone(),
        env: setting.env.value.clone(),
        kind: setting.kind.unwrap_or(SettingKind::String),
        allowed: setting.r#enum.iter().map(|word| word.value.clone()).collect(),
        default: setting.default.as_ref().map(crate::source::Tree::to_json),
        required: setting.required,
        secret: setting.secret,
    }
}
