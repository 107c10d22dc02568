//! The rules of a mapping, compiled one by one.

use std::sync::Arc;

use crate::decode::{Number, Text};
use crate::diagnostic::suggestion;
use crate::expression::{Compiler, Expression, Mixture, Place};
use crate::format::{self, Mapping, Match, Moment, Propagation};
use crate::json::unescape;
use crate::kinds::Kinds;
use crate::reads::{Names, Reads};
use crate::reserved;
use crate::service::*;
use crate::source::Source;
use crate::template::{Each, Template, literal};
use crate::types::{Member, Type};

use super::{flip, manifest};

/// Where the controllers of Kubernetes keep the template of their pods, whatever their kind.
const POD_TEMPLATE: &str = "/spec/template";

/// Names in `[let]`: far beyond any honest mapping, and far from the end of the stack.
const MOST_LETS: usize = 128;

/// The rules of a mapping while they are compiled.
pub(super) struct Rules<'r, 'c> {
    pub(super) source: &'r Source,
    pub(super) mapping: &'r Mapping,
    pub(super) templates: &'r [Source],
    pub(super) compiler: Compiler<'c>,
    pub(super) names: Names,
    pub(super) kinds: &'r Kinds,
    pub(super) broken: bool,
}

pub(super) struct Parts {
    pub(super) lets: Vec<(String, Expression)>,
    pub(super) checks: Vec<CheckRule>,
    pub(super) objects: Vec<ObjectRule>,
    pub(super) watches: Vec<WatchRule>,
    pub(super) lookups: Vec<LookupRule>,
    pub(super) status: StatusTable,
    pub(super) view: Option<ViewRule>,
    pub(super) adopt: Option<Template>,
    pub(super) set: Vec<(String, Expression)>,
    pub(super) patches: Vec<(usize, Template)>,
}

/// The new values of an update, and the patches of objects.
type UpdateParts = (Vec<(String, Expression)>, Vec<(usize, Template)>);

impl Rules<'_, '_> {
    pub(super) fn compile(&mut self) -> Option<Parts> {
        let lets = self.lets();
        let objects = self.objects();
        let watches = self.watches();
        self.unwatched_roots(&objects, &watches);
        let lookups = self.lookups();
        let checks = self.checks();
        let status = self.status();
        let view = self.view();
        let adopt = self
            .mapping
            .adopt
            .as_ref()
            .and_then(|adopt| self.template(&adopt.template))
            .map(|(template, _)| template);
        let (set, patches) = self.update(&objects);
        Some(Parts { lets, checks, objects, watches, lookups, status: status?, view, adopt, set, patches })
    }

    /// What is echoed only is a part of the spec.
    pub(super) fn echoed(&mut self, schema: &serde_json::Value) {
        for pointer in &self.mapping.echoed {
            let mut place = Type::schema(Arc::new(schema.clone()));
            for key in pointer.value.split('/').skip(1).map(unescape) {
                match place.member(&key) {
                    Member::Found(member) => place = member,
                    missing => {
                        let known = if let Member::Missing(known) = missing { known } else { Vec::new() };
                        let known: Vec<&str> = known.iter().map(String::as_str).collect();
                        let message =
                            format!("`{}` does not exist: the schema has no such property", pointer.value);
                        let help = suggestion(&key, &known);
                        let findings = &mut self.compiler.findings;
                        findings.add_with_help(self.source, &pointer.span, "unknown-path", message, help);
                        break;
                    }
                }
            }
        }
    }

    fn place(&self, text: &Text) -> Arc<Place> {
        Arc::new(Place::of(self.source, &text.span, &text.value))
    }

    fn expression(&mut self, text: &Text) -> Option<Expression> {
        if text.is_missing() {
            self.broken = true;
            return None;
        }
        let names = self.names.clone();
        let compiled = self.compiler.expression(self.source, &text.span, &text.value, &names);
        self.broken |= compiled.is_none();
        compiled
    }

    fn mixture(&mut self, text: &Text) -> Option<Mixture> {
        if text.is_missing() {
            self.broken = true;
            return None;
        }
        let names = self.names.clone();
        let compiled = self.compiler.mixture(self.source, &text.span, &text.value, &names);
        self.broken |= compiled.is_none();
        compiled
    }

    fn template(&mut self, named: &Text) -> Option<(Template, &Source)> {
        let ending = format!("/{}", named.value);
        let source = self.templates.iter().find(|source| source.name.ends_with(&ending));
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
        // One may use the next to the last: what is read recurses over them.
        if let Some((name, _)) = self.mapping.r#let.0.get(MOST_LETS) {
            let message = format!("more than {MOST_LETS} names in [let]: each may lie within the next");
            self.compiler.findings.add(self.source, &name.span, "too-deep", message);
            self.broken = true;
        }
        for (name, text) in self.mapping.r#let.0.iter().take(MOST_LETS) {
            if self.names.has(&name.value) {
                let message = format!("`{}` is the name of another variable", name.value);
                self.compiler.findings.add(self.source, &name.span, "name-taken", message);
                continue;
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
        let known: Vec<&str> = self.mapping.object.iter().map(|object| object.name.value.as_str()).collect();
        let mut objects = Vec::new();
        for (index, object) in self.mapping.object.iter().enumerate() {
            let when = object.when.as_ref().map(|when| self.expression(when));
            if let Some(owner) = &object.owned_by
                && !owner.is_missing()
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
            let Some((mut template, source)) = self.template(&object.template) else {
                continue;
            };
            let source = source.clone();
            // For namespace, name, labels and annotations.
            template.make_room("metadata", 4);
            manifest::lint(&template, &source, self.compiler.findings);
            let api_version = literal(&template, "apiVersion", &source, self.compiler.findings);
            let kind = literal(&template, "kind", &source, self.compiler.findings);
            let (Some(api_version), Some(kind), Some(when)) = (api_version, kind, flip(when)) else {
                self.broken = true;
                continue;
            };
            let kind = KindRef { api_version: api_version.to_owned(), kind: kind.to_owned() };
            self.object_kind(&source, &template, &kind);
            objects.push(ObjectRule {
                name: object.name.value.clone(),
                place: self.place(&object.name),
                kind,
                when,
                root: object.root || (!marked && index == 0),
                owned_by: object.owned_by.as_ref().map(|owner| owner.value.clone()),
                propagation: object.propagation.unwrap_or(Propagation::Background),
                restarts: match &object.restarts {
                    Some(pointers) => pointers.iter().map(|pointer| pointer.value.clone()).collect(),
                    None => vec![POD_TEMPLATE.to_owned()],
                },
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
            self.names.set_type("item", outer.type_of(&watch.name.value));
            let filter = watch.r#where.as_ref().map(|text| self.expression(text));
            let order: Vec<Option<Expression>> =
                watch.order.iter().map(|text| self.expression(text)).collect();
            self.names = outer;
            let (Some(filter), Some(order)) = (flip(filter), order.into_iter().collect()) else {
                continue;
            };
            watches.push(WatchRule {
                name: watch.name.value.clone(),
                place: self.place(&watch.name),
                all: watch.all.as_ref().map(|all| all.value.clone()),
                kind: self.named_kind(&watch.api_version, &watch.kind),
                filter,
                order,
                matching: watch.r#match.unwrap_or(Match::Label),
                reads: Vec::new(),
            });
        }
        watches
    }

    /// Whether a root is still there must be known without asking the cluster.
    fn unwatched_roots(&mut self, objects: &[ObjectRule], watches: &[WatchRule]) {
        let kinds = self.mapping.watch.iter().flat_map(|watch| [&watch.api_version, &watch.kind]);
        if kinds.into_iter().any(Text::is_missing) {
            return;
        }
        for rule in objects.iter().filter(|rule| rule.root) {
            let named = self.mapping.object.iter().find(|object| object.name.value == rule.name);
            let watched =
                watches.iter().any(|watch| watch.kind == rule.kind && watch.matching == Match::Label);
            if let (Some(named), false) = (named, watched) {
                let KindRef { api_version, kind } = &rule.kind;
                let message = format!("the root `{}` is of a kind that no [[watch]] observes", rule.name);
                let help =
                    format!("add [[watch]] with api_version = \"{api_version}\" and kind = \"{kind}\"");
                self.compiler.findings.add_with_help(
                    self.source,
                    &named.name.span,
                    "unwatched-root",
                    message,
                    Some(help),
                );
            }
        }
    }

    fn lookups(&mut self) -> Vec<LookupRule> {
        let mut lookups = Vec::new();
        for lookup in &self.mapping.lookup {
            if lookup.get.is_some() == lookup.list {
                let message = "a look-up has either `get`, the name of one object, or `list = true`";
                self.compiler.findings.add(self.source, &lookup.span, "get-or-list", message);
            }
            let get = lookup.get.as_ref().map(|get| self.mixture(get));
            let Some(get) = flip(get) else { continue };
            lookups.push(LookupRule {
                name: lookup.name.value.clone(),
                place: self.place(&lookup.name),
                kind: self.named_kind(&lookup.api_version, &lookup.kind),
                get,
                list: lookup.list,
            });
        }
        lookups
    }

    fn checks(&mut self) -> Vec<CheckRule> {
        let mapping = self.mapping;
        mapping.check.iter().filter_map(|check| self.check(check)).collect()
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
                self.compiler.findings.add(self.source, &check.span, "when-or-unless", message);
                None
            }
        };
        let pointer = check.pointer.as_ref().map(|pointer| self.mixture(pointer));
        let detail = self.mixture(&check.detail);
        self.names = outer;
        let (condition, fails_when) = condition?;
        let status = self.refusal(check.status.as_ref());
        let lookups =
            self.needed_lookups(condition.roots().chain(each.iter().flat_map(|each| each.list.roots())));
        Some(CheckRule {
            on: self.judged(check, &lookups),
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

    /// The operations of a check in which every look-up that it reads is fetched.
    fn judged(&mut self, check: &format::Check, lookups: &[usize]) -> Vec<Moment> {
        let on = if check.on.is_empty() { &[Moment::Create][..] } else { &check.on };
        let lookups: Vec<&format::Lookup> =
            lookups.iter().map(|index| &self.mapping.lookup[*index]).collect();
        let fetched =
            |moment: &Moment| lookups.iter().all(|lookup| lookup.on.is_empty() || lookup.on.contains(moment));
        let judged: Vec<Moment> = on.iter().copied().filter(fetched).collect();
        if judged.is_empty() {
            let names: Vec<String> =
                lookups.iter().map(|lookup| format!("`{}`", lookup.name.value)).collect();
            let words: Vec<&str> = on.iter().map(|moment| moment.word()).collect();
            let (names, words) = (names.join(" and "), words.join(", "));
            let message = format!("this check is never judged: on {words}, {names} is not fetched");
            let help = "give both the same operation in `on`; a look-up without `on` is fetched in all";
            let findings = &mut self.compiler.findings;
            findings.add_with_help(self.source, &check.span, "never-judged", message, Some(help));
        }
        judged
    }

    fn refusal(&mut self, number: Option<&Number>) -> u16 {
        let Some(number) = number else { return 400 };
        let known = [400, 404, 409, 422];
        if !known.contains(&number.value) {
            let message = format!("{} is not the status of a refusal", number.value);
            let help = "400 (the request is wrong), 404, 409 or 422 (right, but not now)";
            let findings = &mut self.compiler.findings;
            findings.add_with_help(self.source, &number.span, "unknown-refusal", message, Some(help));
        }
        u16::try_from(number.value).unwrap_or(400)
    }

    fn needed_lookups<'n>(&self, roots: impl Iterator<Item = &'n str>) -> Vec<usize> {
        let mut needed: Vec<usize> = roots
            .filter_map(|root| self.mapping.lookup.iter().position(|lookup| lookup.name.value == root))
            .collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    fn status(&mut self) -> Option<StatusTable> {
        let status = &self.mapping.status;
        let initial = self.status_word(&status.initial);
        let gone = self.status_word(&status.gone);
        let deleting = status.deleting.as_ref().map(|word| self.status_word(word));
        let settle = status.settle.as_ref();
        let words =
            |loader: &mut Self, texts: &[Text]| texts.iter().map(|text| loader.status_word(text)).collect();
        let settle_into = settle.map(|settle| words(self, &settle.into)).unwrap_or_default();
        let settle_from = settle.map(|settle| words(self, &settle.from)).unwrap_or_default();
        let rules: Vec<Option<StatusRule>> = status.rule.iter().map(|rule| self.rule(rule)).collect();
        self.unreachable_rules(&status.rule);
        let written = !status.span.is_empty();
        if written && status.rule.last().is_none_or(|rule| rule.when.is_some()) {
            let span = status.rule.last().map_or(&status.span, |rule| &rule.span);
            let message = "the last row of a status table has no `when`: one row must always match";
            self.compiler.findings.add(self.source, span, "no-last-row", message);
        }
        let notes: Vec<Option<(Expression, Mixture)>> = status
            .note
            .iter()
            .map(|note| Some((self.expression(&note.when)?, self.mixture(&note.text)?)))
            .collect();
        Some(StatusTable {
            values: status.values.iter().map(|value| value.value.clone()).collect(),
            initial,
            gone,
            deleting,
            settle_into,
            settle_from,
            rules: rules.into_iter().collect::<Option<_>>()?,
            notes: notes.into_iter().collect::<Option<_>>()?,
        })
    }

    /// A status must be one of the table's values.
    fn status_word(&mut self, text: &Text) -> String {
        let values: Vec<&str> = self.mapping.status.values.iter().map(|value| value.value.as_str()).collect();
        let checkable = !text.is_missing() && !values.is_empty();
        if checkable && !values.contains(&text.value.as_str()) {
            let message = format!("`{}` is not among the values of this table", text.value);
            let help = suggestion(&text.value, &values);
            self.compiler.findings.add_with_help(self.source, &text.span, "unknown-status", message, help);
        }
        text.value.clone()
    }

    fn rule(&mut self, rule: &format::Rule) -> Option<StatusRule> {
        let said = rule.status.as_ref().map(|word| self.status_word(word));
        let says = match (said, rule.keep) {
            (Some(status), false) => Says::Status(status),
            (None, true) => Says::Keep,
            _ => {
                let message = "a row says either a `status` or `keep = true`";
                self.compiler.findings.add(self.source, &rule.span, "status-or-keep", message);
                self.broken = true;
                return None;
            }
        };
        let when = rule.when.as_ref().map(|when| self.expression(when));
        let message = rule.message.as_ref().map(|message| self.mixture(message));
        let (when, message) = (flip(when)?, flip(message)?);
        self.refuse_lookups(when.iter().chain(message.iter().flat_map(Mixture::expressions)), &rule.name);
        Some(StatusRule { name: rule.name.value.clone(), when, says, message })
    }

    /// Rules run at each change of each object, so they read what is watched and never ask the cluster.
    fn refuse_lookups<'e>(&mut self, expressions: impl Iterator<Item = &'e Expression>, at: &Text) {
        let roots: Vec<&str> = expressions.flat_map(Expression::roots).collect();
        for index in self.needed_lookups(roots.into_iter()) {
            let name = &self.mapping.lookup[index].name.value;
            let message = format!("a status rule reads the look-up `{name}`; watch the kind instead");
            self.compiler.findings.add(self.source, &at.span, "lookup-in-rule", message);
        }
    }

    fn view(&mut self) -> Option<ViewRule> {
        let view = self.mapping.view.as_ref()?;
        let (template, source) = self.template(&view.template)?;
        let source = source.clone();
        let written = template.written_paths();
        for name in reserved::ANSWER.into_iter().filter(|name| written.contains(&format!("/{name}"))) {
            let tree = &template.tree;
            let entry = tree.entries().iter().find(|entry| entry.key == name);
            let span = entry.map_or(&tree.span, |entry| &entry.key_span);
            let message = format!("`{name}` is what the engine itself says of an instance");
            let help = "take it out, or give it another name";
            self.compiler.findings.add_with_help(&source, span, "name-taken", message, Some(help));
        }
        Some(ViewRule { written, omit: view.omit.iter().map(|path| path.value.clone()).collect(), template })
    }

    fn update(&mut self, objects: &[ObjectRule]) -> UpdateParts {
        let Some(update) = &self.mapping.update else {
            return (Vec::new(), Vec::new());
        };
        let mut set = Vec::new();
        for (pointer, text) in &update.set.0 {
            set.extend(self.expression(text).map(|expression| (pointer.value.clone(), expression)));
        }
        let mut patches = Vec::new();
        for patch in &update.r#do {
            let index = self.mapping.object.iter().position(|object| object.name.value == patch.object.value);
            let Some(index) = index else {
                self.broken = true;
                if patch.object.is_missing() {
                    continue;
                }
                let known: Vec<&str> =
                    self.mapping.object.iter().map(|object| object.name.value.as_str()).collect();
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
            if let Some((template, source)) = self.template(&patch.template) {
                let source = source.clone();
                if let Some(object) = objects.iter().find(|object| object.name == patch.object.value) {
                    self.fields(&source, &template, &object.kind, false);
                }
                patches.push((index, template));
            }
        }
        (set, patches)
    }
}
