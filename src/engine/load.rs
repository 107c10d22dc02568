//! From the files of a mapping to a compiled [`Service`]: every mistake is found, not the first alone.

use std::sync::Arc;

use crate::decode::{Decode, Decoder, Text};
use crate::diagnostic::{Findings, suggestion};
use crate::expression::{Compiler, Expression, Mixture};
use crate::format::{self, Mapping, Match, Moment, Propagation, SettingKind};
use crate::names::fingerprint;
use crate::problem::ProblemStyle;
use crate::read::read;
use crate::reads::{Names, Reads};
use crate::schema::Schema;
use crate::scope::Lets;
use crate::service::*;
use crate::shape::Step;
use crate::source::Source;
use crate::template::{Each, Template, literal};

/// Reads and compiles one folder.
pub struct Loader<'a> {
    files: &'a Files,
    folder: &'a str,
    findings: &'a mut Findings,
    used: Vec<&'a str>,
}

const MAPPING_FILES: [&str; 3] = ["mapping.toml", "mapping.yaml", "mapping.yml"];

impl<'a> Loader<'a> {
    pub fn new(files: &'a Files, folder: &'a str, findings: &'a mut Findings) -> Self {
        Self {
            files,
            folder,
            findings,
            used: Vec::new(),
        }
    }

    pub fn load(mut self) -> Option<Service> {
        let source = self.mapping_file()?;
        let tree = read(&source, self.findings)?;
        let mapping = Mapping::decode(
            &tree,
            &mut Decoder {
                source: &source,
                findings: self.findings,
            },
        )?;
        let schema = self.schema(&source, &mapping.schema);
        let update_schema = mapping
            .update
            .as_ref()
            .map(|update| self.schema(&source, &update.schema));
        let templates = self.template_sources(&source, &mapping);
        let revision = self.revision();
        let (schema, update_schema) = (schema?, flip(update_schema)?);
        let mut rules = Rules {
            source: &source,
            mapping: &mapping,
            templates: &templates,
            compiler: Compiler::new(self.findings),
            names: base_names(
                &mapping,
                &schema.document,
                update_schema.as_ref().map(|schema| &schema.document),
            ),
            broken: false,
        };
        let parts = rules.compile();
        let broken = rules.broken;
        let program = Arc::new(rules.compiler.finish());
        let mut service = parts?.assemble(&mapping, schema, update_schema, program, revision);
        if broken {
            return None;
        }
        prune(&mut service);
        Some(service)
    }

    fn mapping_file(&mut self) -> Option<Source> {
        let path = MAPPING_FILES
            .iter()
            .map(|name| format!("mappings/{}/{name}", self.folder));
        for path in path {
            if let Some((path, text)) = self.files.get_key_value(&path) {
                self.used.push(path);
                return Some(Source::new(path.clone(), text.clone()));
            }
        }
        let source = Source::new(format!("mappings/{}/mapping.toml", self.folder), "");
        self.findings.add(
            &source,
            &(0..0),
            "missing-mapping",
            "the folder holds no mapping.toml or mapping.yaml",
        );
        None
    }

    fn file(&mut self, source: &Source, named: &Text, path: String) -> Option<Source> {
        match self.files.get_key_value(&path) {
            Some((path, text)) => {
                self.used.push(path);
                Some(Source::new(path.clone(), text.clone()))
            }
            None => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let prefix = format!("{folder}/");
                let there: Vec<&str> = self
                    .files
                    .keys()
                    .filter_map(|key| key.strip_prefix(prefix.as_str()))
                    .collect();
                let message = format!("there is no file {path}");
                let help = suggestion(&named.value, &there);
                self.findings
                    .add_with_help(source, &named.span, "missing-file", message, help);
                None
            }
        }
    }

    fn schema(&mut self, source: &Source, named: &Text) -> Option<Schema> {
        let file = self.file(source, named, format!("schemas/{}", named.value))?;
        Schema::load(&file, self.findings)
    }

    fn template_sources(&mut self, source: &Source, mapping: &Mapping) -> Vec<Source> {
        let objects = mapping.object.iter().map(|object| &object.template);
        let patches = mapping
            .update
            .iter()
            .flat_map(|update| &update.r#do)
            .map(|patch| &patch.template);
        let view = mapping.view.iter().map(|view| &view.template);
        let named: Vec<&Text> = objects.chain(patches).chain(view).collect();
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
        let parts: Vec<&str> = used
            .iter()
            .flat_map(|path| [*path, self.files.get(*path).map_or("", String::as_str)])
            .collect();
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

/// The variables that every expression of a mapping may name.
fn base_names<'n>(
    mapping: &Mapping,
    spec: &'n serde_json::Value,
    patch: Option<&'n serde_json::Value>,
) -> Names<'n> {
    let mut names = Names::default();
    names.shaped("spec", spec);
    if let Some(patch) = patch {
        names.shaped("patch", patch);
    }
    for name in ["settings", "dcm", "previous"] {
        names.root(name);
    }
    for watch in &mapping.watch {
        names.root(&watch.name.value);
        if let Some(all) = &watch.all {
            names.root(&all.value);
        }
    }
    for lookup in &mapping.lookup {
        names.root(&lookup.name.value);
    }
    names
}

/// The rules of a mapping while they are compiled.
struct Rules<'r, 'c> {
    source: &'r Source,
    mapping: &'r Mapping,
    templates: &'r [Source],
    compiler: Compiler<'c>,
    names: Names<'r>,
    broken: bool,
}

struct Parts {
    lets: Vec<(String, Expression)>,
    checks: Vec<CheckRule>,
    objects: Vec<ObjectRule>,
    watches: Vec<WatchRule>,
    lookups: Vec<LookupRule>,
    status: StatusTable,
    view: Option<ViewRule>,
    set: Vec<(String, Expression)>,
    patches: Vec<(usize, Template)>,
}

impl Rules<'_, '_> {
    fn compile(&mut self) -> Option<Parts> {
        let lets = self.lets();
        let objects = self.objects();
        let watches = self.watches();
        let lookups = self.lookups();
        let checks = self.checks();
        let status = self.status();
        let view = self.view();
        let (set, patches) = self.update();
        Some(Parts {
            lets,
            checks,
            objects,
            watches,
            lookups,
            status: status?,
            view,
            set,
            patches,
        })
    }

    fn expression(&mut self, text: &Text) -> Option<Expression> {
        let names = self.names.clone();
        let compiled = self
            .compiler
            .expression(self.source, &text.span, &text.value, &names);
        self.broken |= compiled.is_none();
        compiled
    }

    fn mixture(&mut self, text: &Text) -> Option<Mixture> {
        let names = self.names.clone();
        let compiled = self
            .compiler
            .mixture(self.source, &text.span, &text.value, &names);
        self.broken |= compiled.is_none();
        compiled
    }

    fn template(&mut self, named: &Text) -> Option<(Template, &Source)> {
        let ending = format!("/{}", named.value);
        let source = self
            .templates
            .iter()
            .find(|source| source.name.ends_with(&ending));
        let compiled = source.and_then(|source| {
            let template = Template::load(source, &mut self.compiler, &self.names)?;
            Some((template, source))
        });
        self.broken |= compiled.is_none();
        compiled
    }

    /// A later `let` may use an earlier one; the order of the file is the order of definition.
    fn lets(&mut self) -> Vec<(String, Expression)> {
        let mut lets = Vec::new();
        for (name, text) in &self.mapping.r#let.0 {
            if self.names.has(&name.value) {
                let message = format!("`{}` is the name of another variable", name.value);
                self.compiler
                    .findings
                    .add(self.source, &name.span, "name-taken", message);
            }
            if let Some(expression) = self.expression(text) {
                self.names.alias(&name.value, &Reads::again(&expression));
                lets.push((name.value.clone(), expression));
            } else {
                self.names.opaque(&name.value);
            }
        }
        lets
    }

    fn objects(&mut self) -> Vec<ObjectRule> {
        let marked = self.mapping.object.iter().any(|object| object.root);
        let known: Vec<&str> = self
            .mapping
            .object
            .iter()
            .map(|object| object.name.value.as_str())
            .collect();
        let mut objects = Vec::new();
        for (index, object) in self.mapping.object.iter().enumerate() {
            let when = object.when.as_ref().map(|when| self.expression(when));
            if let Some(owner) = &object.owned_by
                && !known[..index].contains(&owner.value.as_str())
            {
                let message = format!("`{}` is not an object that stands before this one", owner.value);
                let help = suggestion(&owner.value, &known[..index]);
                self.compiler.findings.add_with_help(
                    self.source,
                    &owner.span,
                    "unknown-object",
                    message,
                    help,
                );
            }
            let Some((template, source)) = self.template(&object.template) else {
                continue;
            };
            let source = source.clone();
            let api_version = literal(&template, "apiVersion", &source, self.compiler.findings);
            let kind = literal(&template, "kind", &source, self.compiler.findings);
            let (Some(api_version), Some(kind), Some(when)) = (api_version, kind, flip(when)) else {
                self.broken = true;
                continue;
            };
            objects.push(ObjectRule {
                name: object.name.value.clone(),
                kind: KindRef {
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                },
                when,
                root: object.root || (!marked && index == 0),
                owned_by: object.owned_by.as_ref().map(|owner| owner.value.clone()),
                propagation: object.propagation.unwrap_or(Propagation::Background),
                template,
            });
        }
        objects
    }

    fn watches(&mut self) -> Vec<WatchRule> {
        let mut watches = Vec::new();
        for watch in &self.mapping.watch {
            let outer = self.names.clone();
            self.names.alias("item", &Reads::root(&watch.name.value));
            let filter = watch.r#where.as_ref().map(|text| self.expression(text));
            let order: Vec<Option<Expression>> =
                watch.order.iter().map(|text| self.expression(text)).collect();
            self.names = outer;
            let (Some(filter), Some(order)) = (flip(filter), order.into_iter().collect()) else {
                continue;
            };
            watches.push(WatchRule {
                name: watch.name.value.clone(),
                all: watch.all.as_ref().map(|all| all.value.clone()),
                kind: KindRef {
                    api_version: watch.api_version.value.clone(),
                    kind: watch.kind.value.clone(),
                },
                filter,
                order,
                matching: watch.r#match.unwrap_or(Match::Label),
                reads: Vec::new(),
            });
        }
        watches
    }

    fn lookups(&mut self) -> Vec<LookupRule> {
        let mut lookups = Vec::new();
        for lookup in &self.mapping.lookup {
            if lookup.get.is_some() == lookup.list {
                let message = "a look-up has either `get`, the name of one object, or `list = true`";
                self.compiler
                    .findings
                    .add(self.source, &lookup.span, "get-or-list", message);
            }
            let get = lookup.get.as_ref().map(|get| self.mixture(get));
            let Some(get) = flip(get) else { continue };
            lookups.push(LookupRule {
                name: lookup.name.value.clone(),
                kind: KindRef {
                    api_version: lookup.api_version.value.clone(),
                    kind: lookup.kind.value.clone(),
                },
                get,
                list: lookup.list,
                on: moments(&lookup.on),
            });
        }
        lookups
    }

    fn checks(&mut self) -> Vec<CheckRule> {
        let mapping = self.mapping;
        mapping
            .check
            .iter()
            .filter_map(|check| self.check(check))
            .collect()
    }

    fn check(&mut self, check: &format::Check) -> Option<CheckRule> {
        let outer = self.names.clone();
        let each = match &check.for_each {
            None => None,
            Some(text) => {
                let parsed = Each::parse(self.source, &text.span, &text.value, &mut self.compiler, &outer);
                self.broken |= parsed.is_none();
                let (each, names) = parsed?;
                self.names = names;
                Some(each)
            }
        };
        let condition = match (&check.when, &check.unless) {
            (Some(when), None) => self.expression(when).map(|condition| (condition, true)),
            (None, Some(unless)) => self.expression(unless).map(|condition| (condition, false)),
            _ => {
                let message = "a check has either `when` or `unless`";
                self.compiler
                    .findings
                    .add(self.source, &check.span, "when-or-unless", message);
                None
            }
        };
        let pointer = check.pointer.as_ref().map(|pointer| self.mixture(pointer));
        let detail = self.mixture(&check.detail);
        self.names = outer;
        let (condition, fails_when) = condition?;
        let status = u16::try_from(check.status.unwrap_or(400)).unwrap_or(0);
        if ![400, 404, 409, 422].contains(&status) {
            let message = "the status of a refusal is 400, 404, 409 or 422";
            self.compiler
                .findings
                .add(self.source, &check.span, "unknown-refusal", message);
        }
        let lookups = self.needed_lookups(
            condition
                .roots()
                .chain(each.iter().flat_map(|each| each.list.roots())),
        );
        Some(CheckRule {
            on: moments(&check.on),
            stage: check.stage.unwrap_or(1),
            each,
            condition,
            fails_when,
            status,
            pointer: flip(pointer)?,
            detail: detail?,
            lookups,
        })
    }

    fn needed_lookups<'n>(&self, roots: impl Iterator<Item = &'n str>) -> Vec<usize> {
        let mut needed: Vec<usize> = roots
            .filter_map(|root| {
                self.mapping
                    .lookup
                    .iter()
                    .position(|lookup| lookup.name.value == root)
            })
            .collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    fn status(&mut self) -> Option<StatusTable> {
        let status = &self.mapping.status;
        let values: Vec<&str> = status.values.iter().map(|value| value.value.as_str()).collect();
        let known = |text: &Text, compiler: &mut Compiler<'_>, source: &Source| {
            if !values.contains(&text.value.as_str()) {
                let message = format!("`{}` is not among the values of this table", text.value);
                let help = suggestion(&text.value, &values);
                compiler
                    .findings
                    .add_with_help(source, &text.span, "unknown-status", message, help);
            }
            text.value.clone()
        };
        let initial = known(&status.initial, &mut self.compiler, self.source);
        let gone = known(&status.gone, &mut self.compiler, self.source);
        let words = |texts: &[Text], compiler: &mut Compiler<'_>| -> Vec<String> {
            texts
                .iter()
                .map(|text| known(text, compiler, self.source))
                .collect()
        };
        let settle = status.settle.as_ref();
        let settle_into = settle
            .map(|s| words(&s.into, &mut self.compiler))
            .unwrap_or_default();
        let settle_from = settle
            .map(|s| words(&s.from, &mut self.compiler))
            .unwrap_or_default();
        let said: Vec<Option<String>> = status
            .rule
            .iter()
            .map(|rule| {
                rule.status
                    .as_ref()
                    .map(|text| known(text, &mut self.compiler, self.source))
            })
            .collect();
        let rules: Vec<Option<StatusRule>> = status
            .rule
            .iter()
            .zip(said)
            .map(|(rule, said)| self.rule(rule, said))
            .collect();
        if status.rule.last().is_none_or(|rule| rule.when.is_some()) {
            let span = status.rule.last().map_or(&status.span, |rule| &rule.span);
            let message = "the last row of a status table has no `when`: one row must always match";
            self.compiler
                .findings
                .add(self.source, span, "no-last-row", message);
        }
        let notes: Vec<Option<(Expression, Mixture)>> = status
            .note
            .iter()
            .map(|note| Some((self.expression(&note.when)?, self.mixture(&note.text)?)))
            .collect();
        Some(StatusTable {
            initial,
            gone,
            settle_into,
            settle_from,
            rules: rules.into_iter().collect::<Option<_>>()?,
            notes: notes.into_iter().collect::<Option<_>>()?,
        })
    }

    fn rule(&mut self, rule: &format::Rule, said: Option<String>) -> Option<StatusRule> {
        let says = match (said, rule.keep) {
            (Some(status), false) => Says::Status(status),
            (None, true) => Says::Keep,
            _ => {
                let message = "a row says either a `status` or `keep = true`";
                self.compiler
                    .findings
                    .add(self.source, &rule.span, "status-or-keep", message);
                self.broken = true;
                return None;
            }
        };
        let when = rule.when.as_ref().map(|when| self.expression(when));
        let message = rule.message.as_ref().map(|message| self.mixture(message));
        let (when, message) = (flip(when)?, flip(message)?);
        self.refuse_lookups(
            when.iter().chain(message.iter().flat_map(Mixture::expressions)),
            &rule.name,
        );
        Some(StatusRule {
            name: rule.name.value.clone(),
            when,
            says,
            message,
        })
    }

    /// Rules run at each change of each object, so they read what is watched and never ask the cluster.
    fn refuse_lookups<'e>(&mut self, expressions: impl Iterator<Item = &'e Expression>, at: &Text) {
        let roots: Vec<&str> = expressions.flat_map(Expression::roots).collect();
        for index in self.needed_lookups(roots.into_iter()) {
            let name = &self.mapping.lookup[index].name.value;
            let message = format!("a status rule reads the look-up `{name}`; watch the kind instead");
            self.compiler
                .findings
                .add(self.source, &at.span, "lookup-in-rule", message);
        }
    }

    fn view(&mut self) -> Option<ViewRule> {
        let view = self.mapping.view.as_ref()?;
        let (template, _) = self.template(&view.template)?;
        let written = template.written_paths();
        Some(ViewRule {
            written,
            omit: view.omit.iter().map(|path| path.value.clone()).collect(),
            template,
        })
    }

    fn update(&mut self) -> (Vec<(String, Expression)>, Vec<(usize, Template)>) {
        let Some(update) = &self.mapping.update else {
            return (Vec::new(), Vec::new());
        };
        let mut set = Vec::new();
        for (pointer, text) in &update.set.0 {
            set.extend(
                self.expression(text)
                    .map(|expression| (pointer.value.clone(), expression)),
            );
        }
        let mut patches = Vec::new();
        for patch in &update.r#do {
            let index = self
                .mapping
                .object
                .iter()
                .position(|object| object.name.value == patch.object.value);
            let Some(index) = index else {
                let known: Vec<&str> = self
                    .mapping
                    .object
                    .iter()
                    .map(|object| object.name.value.as_str())
                    .collect();
                let message = format!("`{}` is not an object of this mapping", patch.object.value);
                let help = suggestion(&patch.object.value, &known);
                self.compiler.findings.add_with_help(
                    self.source,
                    &patch.object.span,
                    "unknown-object",
                    message,
                    help,
                );
                continue;
            };
            if let Some((template, _)) = self.template(&patch.template) {
                patches.push((index, template));
            }
        }
        (set, patches)
    }
}

fn moments(on: &[Moment]) -> Vec<Moment> {
    if on.is_empty() {
        vec![Moment::Create]
    } else {
        on.to_vec()
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
        let prefix = mapping
            .problem
            .as_ref()
            .and_then(|form| form.type_prefix.as_ref());
        let lets: Lets = self.lets.into();
        Service {
            service_type: mapping.service_type.value.clone(),
            collection: mapping.collection.value.clone(),
            list_key: mapping
                .list_key
                .as_ref()
                .unwrap_or(&mapping.collection)
                .value
                .clone(),
            schema_version: mapping.schema_version.value.clone(),
            operations: mapping.operations.clone(),
            problem_style: prefix.map_or(ProblemStyle::BareCode, |text| {
                ProblemStyle::Prefixed(text.value.clone())
            }),
            revision,
            settings: mapping.settings.0.iter().map(setting).collect(),
            schema,
            checks: self.checks,
            objects: self.objects,
            watches: self.watches,
            lookups: self.lookups,
            status: self.status,
            view: self.view,
            update: update_schema.map(|schema| UpdateRule {
                schema,
                set: self.set,
                patches: self.patches,
            }),
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
    }
}

/// Gives each watch the paths that anything reads of its objects.
fn prune(service: &mut Service) {
    let mut reads = Vec::new();
    for expression in every_expression(service) {
        reads.extend(expression.reads.iter().cloned());
    }
    for watch in &mut service.watches {
        for read in &reads {
            let path = match &watch.all {
                Some(all) if *all == read.root => read.path.split_first().map_or(&[][..], |(_, rest)| rest),
                _ if watch.name == read.root => &read.path[..],
                _ => continue,
            };
            let path: Vec<Step> = path.to_vec();
            // A bare name (`not pod`) asks whether there is an object, and reads nothing of it.
            if !path.is_empty() && !watch.reads.contains(&path) {
                watch.reads.push(path);
            }
        }
    }
}

fn every_expression(service: &Service) -> Vec<&Expression> {
    let mut all: Vec<&Expression> = service.lets.iter().map(|(_, expression)| expression).collect();
    for check in &service.checks {
        all.push(&check.condition);
        all.extend(check.each.iter().map(|each| &each.list));
        all.extend(check.pointer.iter().flat_map(Mixture::expressions));
        all.extend(check.detail.expressions());
    }
    for object in &service.objects {
        all.extend(&object.when);
        all.extend(object.template.expressions());
    }
    for watch in &service.watches {
        all.extend(&watch.filter);
        all.extend(&watch.order);
    }
    all.extend(
        service
            .lookups
            .iter()
            .flat_map(|lookup| &lookup.get)
            .flat_map(Mixture::expressions),
    );
    for rule in &service.status.rules {
        all.extend(&rule.when);
        all.extend(rule.message.iter().flat_map(Mixture::expressions));
    }
    for (when, text) in &service.status.notes {
        all.push(when);
        all.extend(text.expressions());
    }
    all.extend(service.view.iter().flat_map(|view| view.template.expressions()));
    if let Some(update) = &service.update {
        all.extend(update.set.iter().map(|(_, expression)| expression));
        all.extend(
            update
                .patches
                .iter()
                .flat_map(|(_, template)| template.expressions()),
        );
    }
    all
}
