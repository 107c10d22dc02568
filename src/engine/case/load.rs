//! From the files of a folder to a [`Case`]: every mistake is found, not the first alone.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::form::{CaseForm, Defaults, Document, Doing};
use super::steps::Steps;
use super::{Body, Case};
use crate::decode::{Decode, Decoder, Named};
use crate::diagnostic::{Findings, Help, suggestion};
use crate::format::SettingKind;
use crate::inputs::{Identity, Previous};
use crate::json::read_body;
use crate::read::{read, read_documents};
use crate::service::{KindRef, Service, SettingRule};
use crate::source::{Kind, Source, Span, Tree};

/// The provider and the namespace of every case: what they are is no business of a mapping.
const PROVIDER: &str = "example-provider";
const NAMESPACE: &str = "example";
const ID: &str = "example";

const CASE: [&str; 2] = ["case.yaml", "case.toml"];
const SPEC: [&str; 2] = ["spec.json", "spec.yaml"];
const PATCH: [&str; 2] = ["patch.json", "patch.yaml"];
const OBJECTS: [&str; 1] = ["objects.yaml"];
const STEPS: [&str; 1] = ["steps.yaml"];

/// The folder of one case in memory.
#[derive(Clone, Debug)]
pub struct CaseFolder {
    /// `<type>/<what happens>`.
    pub name: String,
    /// The path of the folder, as messages show it.
    pub path: String,
    /// File names and their texts.
    pub files: BTreeMap<String, String>,
}

impl CaseFolder {
    /// The path of the case's own file.
    pub fn file(&self) -> String {
        let name = CASE.iter().find(|name| self.files.contains_key(**name)).unwrap_or(&CASE[0]);
        format!("{}/{name}", self.path)
    }

    fn source(&self, names: &[&str]) -> Option<Source> {
        let (name, text) = names.iter().find_map(|name| self.files.get_key_value(*name))?;
        Some(Source::new(format!("{}/{name}", self.path), text.clone()))
    }

    /// Each file has a known name, and none of them says the same as another.
    fn check_names(&self, case: &Source, findings: &mut Findings) {
        let goldens = Document::ALL.iter().map(|document| document.files());
        let kinds: Vec<&[&str]> =
            [&CASE[..], &SPEC, &PATCH, &OBJECTS, &STEPS].into_iter().chain(goldens).collect();
        let known: Vec<&str> = kinds.iter().flat_map(|names| names.iter().copied()).collect();
        for name in self.files.keys().filter(|name| !known.contains(&name.as_str())) {
            let message = format!("`{name}` is not a file of a case");
            let place = Source::new(format!("{}/{name}", self.path), "");
            let help = suggestion(name, &known);
            findings.add_with_help(&place, &(0..0), "unknown-file", message, help);
        }
        for names in kinds {
            let there: Vec<&str> =
                names.iter().copied().filter(|name| self.files.contains_key(*name)).collect();
            if let [first, second, ..] = there.as_slice() {
                let message = format!("`{first}` and `{second}` say the same thing; keep one of them");
                findings.add(case, &(0..0), "file-twice", message);
            }
        }
    }
}

impl Defaults {
    /// Reads the `defaults.yaml` of a type.
    pub fn load(source: &Source, service: &Service, findings: &mut Findings) -> Option<Self> {
        let tree = read(source, findings)?;
        let defaults = Self::decode(&tree, &mut Decoder { source, findings })?;
        check_setting_names(&defaults.settings, source, service, findings);
        Some(defaults)
    }
}

impl Case {
    /// Reads the case of one folder against the mapping that it tests. None where a mistake was found.
    pub fn load(
        folder: &CaseFolder,
        service: &Service,
        defaults: &Defaults,
        findings: &mut Findings,
    ) -> Option<Self> {
        let Some(source) = folder.source(&CASE) else {
            let place = Source::new(folder.path.clone(), "");
            let help = "write one: `operation: create`, `update`, `status` or `steps`";
            let message = "the folder of a case holds a case.yaml";
            findings.add_with_help(&place, &(0..0), "missing-case", message, Some(help));
            return None;
        };
        folder.check_names(&source, findings);
        let tree = read(&source, findings)?;
        let form = CaseForm::decode(&tree, &mut Decoder { source: &source, findings })?;
        let loaded = Loading { folder, service, source: &source, tree: &tree, findings }.case(form, defaults);
        loaded.filter(|_| findings.is_empty())
    }
}

/// One case while its parts are read.
struct Loading<'l> {
    folder: &'l CaseFolder,
    service: &'l Service,
    source: &'l Source,
    tree: &'l Tree,
    findings: &'l mut Findings,
}

impl Loading<'_> {
    fn case(mut self, form: CaseForm, defaults: &Defaults) -> Option<Case> {
        self.check_form(&form);
        let settings = self.settings(&form, &defaults.settings);
        let objects = self.objects(form.operation);
        let steps = self.steps(&form);
        let (spec, patch) = (self.body(&SPEC), self.body(&PATCH));
        self.check_bodies(&form, spec.is_some(), patch.is_some());
        let goldens = Document::ALL.into_iter();
        let goldens =
            goldens.filter_map(|document| Some((document, self.folder.source(document.files())?))).collect();
        let previous = form.previous.map(|previous| Previous {
            status: previous.status.value,
            message: previous.message.map(|message| message.value).unwrap_or_default(),
        });
        Some(Case {
            name: self.folder.name.clone(),
            operation: form.operation,
            source: self.source.clone(),
            identity: Identity {
                id: form.id.map_or_else(|| ID.to_owned(), |id| id.value),
                provider: PROVIDER.to_owned(),
                namespace: NAMESPACE.to_owned(),
                life: form.life.and_then(|life| u64::try_from(life).ok()).unwrap_or(1),
            },
            settings,
            previous,
            spec: spec.flatten(),
            patch: patch.flatten(),
            objects: objects?,
            steps,
            expect: form.expect,
            assertions: form.assert,
            goldens,
        })
    }

    fn check_form(&mut self, form: &CaseForm) {
        let words = Document::WORDS;
        for assertion in &form.assert {
            let ways = [assertion.value.is_some(), assertion.contains.is_some(), assertion.absent];
            if ways.iter().filter(|way| **way).count() != 1 {
                let message = "an assertion has one of `value`, `contains` and `absent: true`";
                let help = match ways.contains(&true) {
                    true => "keep one of them, and write an assertion of its own for the other",
                    false => "add one of them: what stands at the path, a part of the text, or nothing",
                };
                let span = &assertion.span;
                self.findings.add_with_help(self.source, span, "malformed-assertion", message, Some(help));
            }
            let first = assertion.path.value.strip_prefix('/').and_then(|rest| rest.split('/').next());
            if !first.is_some_and(|first| words.contains(&first)) {
                let message = format!("`{}` does not begin with a document", assertion.path.value);
                let help = format!("begin with one of: /{}", words.join(", /"));
                let span = &assertion.path.span;
                self.findings.add_with_help(self.source, span, "malformed-assertion", message, Some(help));
            }
        }
        if let Some(life) = form.life.filter(|life| *life < 1) {
            let message = format!("the life {life} is no count: the first is 1");
            let help = Help::replace("write 1, or remove the key", "1");
            let span = self.span_of("life").clone();
            self.findings.add_with_help(self.source, &span, "malformed-life", message, Some(help));
        }
    }

    /// Where the value of a key stands; the file's beginning without it.
    fn span_of(&self, key: &str) -> &'_ Span {
        self.tree.get(key).map_or(&self.tree.span, |value| &value.span)
    }

    fn check_bodies(&mut self, form: &CaseForm, spec: bool, patch: bool) {
        let (code, message, help) = match form.operation {
            Doing::Create if !spec => (
                "missing-body",
                "a create needs its body".to_owned(),
                "write it into spec.yaml beside this file, or into spec.json",
            ),
            Doing::Update if !spec || !patch => (
                "missing-body",
                "an update needs the spec that the instance was made from, and the body of the PATCH"
                    .to_owned(),
                "write them into spec.yaml and patch.yaml beside this file, or into .json",
            ),
            Doing::Update if self.service.update.is_none() => (
                "no-update",
                format!("`{}` has no [update]", self.service.service_type),
                "give the mapping an [update], or ask for a create or a status",
            ),
            Doing::Create | Doing::Status if patch => (
                "unused-body",
                format!("a {} has no patch", form.operation.word()),
                "remove the patch file, or ask for `operation: update`",
            ),
            _ => return,
        };
        let span = self.span_of("operation").clone();
        // Which body a word that is none would need, nobody knows.
        if !self.findings.said_at(self.source, &span) {
            self.findings.add_with_help(self.source, &span, code, message, Some(help));
        }
    }

    /// A JSON body is read as the server reads it, and may be refused; a YAML one is always well formed.
    fn body(&mut self, names: &[&str]) -> Option<Option<Body>> {
        let source = self.folder.source(names)?;
        if source.name.ends_with(".json") {
            return Some(Some(read_body(source.text.as_bytes())));
        }
        Some(read(&source, self.findings).map(|tree| Ok(tree.to_json())))
    }

    /// The steps, which only an operation of that name takes.
    fn steps(&mut self, form: &CaseForm) -> Option<Steps> {
        match (form.operation, self.folder.source(&STEPS)) {
            (Doing::Steps, Some(source)) => return Steps::load(source, self.findings),
            (Doing::Steps, None) => {
                let (message, help) =
                    ("the steps of this case are missing", "write them into steps.yaml beside this file");
                let span = self.span_of("operation").clone();
                self.findings.add_with_help(self.source, &span, "missing-steps", message, Some(help));
            }
            (_, Some(source)) => {
                let message = format!("a {} has no steps", form.operation.word());
                let help = "remove the file, or ask for `operation: steps`";
                self.findings.add_with_help(&source, &(0..0), "unused-steps", message, Some(help));
            }
            (_, None) => {}
        }
        None
    }

    /// Observed objects: a list, or one document each, as `kubectl get -o yaml` prints them.
    fn objects(&mut self, operation: Doing) -> Option<Vec<Json>> {
        let Some(source) = self.folder.source(&OBJECTS) else {
            return Some(Vec::new());
        };
        let mut trees = Vec::new();
        for document in read_documents(&source, self.findings)? {
            match document.kind {
                Kind::List(items) => trees.extend(items),
                Kind::Null => {}
                _ => trees.push(document),
            }
        }
        for tree in &trees {
            self.check_kind(&source, tree, operation);
        }
        Some(trees.iter().map(Tree::to_json).collect())
    }

    /// An object that nothing watches or looks up would stand there for nothing.
    fn check_kind(&mut self, source: &Source, tree: &Tree, operation: Doing) {
        let text = |key| tree.get(key).and_then(Tree::as_str);
        let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
            let message = "an object has an apiVersion and a kind";
            let help = "write both, as `kubectl get -o yaml` prints them";
            return self.findings.add_with_help(source, &tree.span, "no-kind", message, Some(help));
        };
        // A cluster in memory takes whatever there may be.
        if operation == Doing::Steps {
            return;
        }
        let found = KindRef { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let watched = self.service.watches.iter().map(|watch| &watch.kind);
        let mut read = watched.chain(self.service.lookups.iter().map(|lookup| &lookup.kind));
        if read.clone().any(|kind| *kind == found) {
            return;
        }
        let names: Vec<String> =
            read.by_ref().map(|kind| format!("{} {}", kind.api_version, kind.kind)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = format!("{api_version} {kind}");
        let span = tree.get("kind").map_or(&tree.span, |kind| &kind.span);
        let message = format!("the mapping neither watches nor looks up `{found}`");
        self.findings.add_with_help(source, span, "unwatched-kind", message, suggestion(&found, &names));
    }

    /// The mapping's defaults, then the type's, then the case's own.
    fn settings(&mut self, form: &CaseForm, shared: &Named<Tree>) -> Map<String, Json> {
        let rules = &self.service.settings;
        let mut settings = Map::new();
        for rule in rules {
            settings.extend(rule.default.clone().map(|value| (rule.name.clone(), value)));
        }
        check_setting_names(&form.settings, self.source, self.service, self.findings);
        for (name, tree) in shared.0.iter().chain(&form.settings.0) {
            settings.insert(name.value.clone(), tree.to_json());
        }
        for rule in rules {
            let wrong = match settings.get(&rule.name) {
                Some(value) => misfit(rule, value),
                None if rule.required => {
                    Some(format!("the setting `{}` is required and has no value", rule.name))
                }
                None => None,
            };
            if let Some(message) = wrong {
                let own = form.settings.0.iter().find(|(name, _)| name.value == rule.name);
                let span = own.map_or(&form.span, |(_, tree)| &tree.span);
                let help = "set it under `settings` here, or for all cases of the type in defaults.yaml";
                let words: Vec<&str> = rule.allowed.iter().map(String::as_str).collect();
                let word = settings.get(&rule.name).and_then(Json::as_str).unwrap_or_default();
                let help = suggestion(word, &words).unwrap_or_else(|| help.into());
                self.findings.add_with_help(self.source, span, "wrong-setting", message, Some(help));
            }
        }
        settings
    }
}

fn check_setting_names(settings: &Named<Tree>, source: &Source, service: &Service, findings: &mut Findings) {
    let known: Vec<&str> = service.settings.iter().map(|rule| rule.name.as_str()).collect();
    for (name, _) in settings.0.iter().filter(|(name, _)| !known.contains(&name.value.as_str())) {
        let message = format!("`{}` is not a setting of this mapping", name.value);
        let help = suggestion(&name.value, &known);
        findings.add_with_help(source, &name.span, "unknown-setting", message, help);
    }
}

/// Why a value is none of a setting.
fn misfit(rule: &SettingRule, value: &Json) -> Option<String> {
    let fits = match rule.kind {
        SettingKind::String => value.is_string(),
        SettingKind::Integer => value.is_i64(),
        SettingKind::Number => value.is_number(),
        SettingKind::Boolean => value.is_boolean(),
    };
    let allowed = rule.allowed.is_empty()
        || value.as_str().is_some_and(|text| rule.allowed.iter().any(|word| word == text));
    (!fits || !allowed).then(|| format!("{value} is no value of the setting `{}`", rule.name))
}
