//! The small type of the reference, laid together from its own fences, so that every example is loaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use mapwright::engine::diagnostic::Findings;
use mapwright::engine::expression::Compiler;
use mapwright::engine::reads::Names;
use mapwright::engine::scope::Scope;
use mapwright::engine::service::{Files, Service};
use mapwright::engine::source::Source;
use mapwright::engine::template::Template;
use mapwright::engine::value::{from_json, to_json};
use serde_json::Value;

use super::markdown::{Fence, Page};

/// What the examples of the reference share.
pub(super) struct Sample {
    files: Files,
    /// The parts of the smallest mapping: its top-level keys, then its tables by their first name.
    keys: Vec<(String, String)>,
    tables: Vec<(String, String)>,
    pub(super) spec: Value,
}

impl Sample {
    pub(super) fn of(page: &Page) -> Self {
        let mut files = BTreeMap::new();
        for fence in &page.fences {
            let Some(name) = fence.value("file") else { continue };
            let folder = if name.ends_with(".json") { "schemas" } else { "mappings/site" };
            files.insert(format!("{folder}/{name}"), fence.text.clone());
        }
        let mapping =
            files.remove("mappings/site/mapping.toml").expect("the smallest mapping is on the page");
        let spec = page.fences.iter().find(|fence| fence.language == "json" && fence.is("spec"));
        let spec = serde_json::from_str(&spec.expect("a spec is on the page").text).unwrap();
        let (keys, tables) = take_apart(&mapping);
        Self { files, keys, tables, spec }
    }

    /// The smallest mapping with a fence in place of the parts that the fence has too.
    pub(super) fn load(&self, fence: &str) -> Result<Service, Findings> {
        let (own_keys, own_tables) = take_apart(fence);
        let mut mapping = String::new();
        for (key, text) in self.keys.iter().filter(|(key, _)| !own_keys.iter().any(|(own, _)| own == key)) {
            assert!(text.starts_with(key.as_str()));
            mapping.push_str(text);
        }
        mapping.push_str(fence);
        for (_, text) in self.tables.iter().filter(|(name, _)| !own_tables.iter().any(|(own, _)| own == name))
        {
            mapping.push('\n');
            mapping.push_str(text);
        }
        let mut files = self.files.clone();
        // Files of other examples would be left over in this one.
        files.retain(|path, _| {
            let name = path.rsplit('/').next().unwrap_or_default();
            path.starts_with("schemas/") || mapping.contains(&format!("\"{name}\""))
        });
        files.insert("mappings/site/mapping.toml".to_owned(), mapping);
        Service::load(&files, "site", mapwright::kinds::embedded())
    }

    /// What a template gives for the spec of the page.
    pub(super) fn render(&self, fence: &Fence) -> Value {
        let mut findings = Findings::default();
        let source = Source::new("example.yaml", fence.text.clone());
        let mut compiler = Compiler::new(&mut findings);
        let template = Template::load(&source, &mut compiler, &names());
        let program = Arc::new(compiler.finish());
        let template = template.unwrap_or_else(|| panic!("line {}:\n{findings}", fence.line));
        template.render(&self.scope(program)).unwrap()
    }

    /// What an expression gives for the spec of the page; null where it gives nothing.
    pub(super) fn eval(&self, expression: &str) -> Result<Value, String> {
        let mut findings = Findings::default();
        let source = Source::new("example", expression);
        let mut compiler = Compiler::new(&mut findings);
        let compiled = compiler.expression(&source, &(0..expression.len()), expression, &names());
        let program = Arc::new(compiler.finish());
        let Some(compiled) = compiled.filter(|_| findings.is_empty()) else {
            return Err(findings.to_string());
        };
        let value =
            program.eval(&compiled, &self.scope(program.clone())).map_err(|error| error.to_string())?;
        Ok(to_json(&value)?.unwrap_or(Value::Null))
    }

    fn scope(&self, program: Arc<mapwright::engine::expression::Program>) -> Scope {
        Scope::root(program, Arc::new([]), vec![("spec".into(), from_json(&self.spec))], None)
    }
}

fn names() -> Names {
    let mut names = Names::default();
    names.root("spec");
    names
}

/// Top-level keys with their lines, and tables, all of one first name together.
type Parts = (Vec<(String, String)>, Vec<(String, String)>);

fn take_apart(mapping: &str) -> Parts {
    let (mut keys, mut tables): Parts = (Vec::new(), Vec::new());
    for line in mapping.lines() {
        if line.starts_with('[') {
            let name = line.trim_start_matches('[').split([']', '.']).next().unwrap().to_owned();
            if tables.last().is_none_or(|(last, _)| *last != name) {
                tables.push((name, String::new()));
            }
        } else if tables.is_empty() && line.contains('=') {
            let key = line.split('=').next().unwrap().trim().to_owned();
            keys.push((key, String::new()));
        }
        let part = if tables.is_empty() { keys.last_mut() } else { tables.last_mut() };
        if let Some((_, text)) = part {
            text.push_str(line);
            text.push('\n');
        }
    }
    (keys, tables)
}
