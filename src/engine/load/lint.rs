//! Mistakes that no single value shows: names that clash, lists that are empty, pointers that lead nowhere.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::decode::Text;
use crate::diagnostic::{Findings, Help, nearest, suggestion};
use crate::format::{Mapping, Moment, Operation, Setting, SettingKind};
use crate::reserved;
use crate::source::{Kind, Source, Tree};
use crate::template::is_identifier;
use crate::types::{Member, Type};

/// Variables that the engine itself gives.
pub(super) const GIVEN: [&str; 7] = ["spec", "patch", "settings", "dcm", "previous", "item", "index"];

/// Looks over a mapping as a whole.
pub(super) struct Lint<'l> {
    pub(super) source: &'l Source,
    pub(super) mapping: &'l Mapping,
    pub(super) findings: &'l mut Findings,
}

impl Lint<'_> {
    pub(super) fn run(&mut self, spec: &Json) {
        self.texts();
        self.collection();
        self.environment();
        self.variables();
        self.names();
        self.settings();
        self.operations();
        self.status();
        self.pointers(spec);
    }

    fn mistake(&mut self, text: &Text, code: &'static str, message: String, help: Option<impl Into<Help>>) {
        if !text.is_missing() {
            self.findings.add_with_help(self.source, &text.span, code, message, help);
        }
    }

    fn texts(&mut self) {
        let mapping = self.mapping;
        let texts = [
            ("service_type", &mapping.service_type),
            ("collection", &mapping.collection),
            ("schema", &mapping.schema),
            ("schema_version", &mapping.schema_version),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| text.value.is_empty()) {
            self.mistake(text, "empty-text", format!("`{key}` is empty"), None::<Help>);
        }
    }

    /// A collection is one segment of a path.
    fn collection(&mut self) {
        let mapping = self.mapping;
        let name = &mapping.collection;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if !name.value.chars().all(plain) {
            let message = format!("`{}` cannot be one segment of a path", name.value);
            let word = name.value.replace(|c: char| !plain(c), "-");
            let help = Help::replace(format!("write `{word}`"), &word);
            self.mistake(name, "malformed-name", message, Some(help));
        } else if name.value == reserved::COLLECTION {
            let message = format!("`{}` is a path of the engine itself", name.value);
            self.mistake(name, "name-taken", message, Some("give the collection another name"));
        }
    }

    /// What sets up the provider cannot set a mapping as well.
    fn environment(&mut self) {
        let mapping = self.mapping;
        for (_, setting) in &mapping.settings.0 {
            let name = &setting.env;
            if !is_identifier(&name.value) {
                let message = format!("`{}` is not the name of an environment variable", name.value);
                let word = name.value.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                let help = is_identifier(&word).then(|| Help::replace(format!("write `{word}`"), &word));
                self.mistake(name, "malformed-name", message, help);
            } else if reserved::VARIABLES.contains(&&*name.value) {
                let message = format!("`{}` sets up the provider itself", name.value);
                self.mistake(name, "name-taken", message, Some("give the variable another name"));
            }
        }
    }

    /// Names that expressions use must be words, and each must mean one thing.
    fn variables(&mut self) {
        let mapping = self.mapping;
        let settings = mapping.settings.0.iter().map(|(name, _)| name);
        let lets = mapping.r#let.0.iter().map(|(name, _)| name);
        let watches = mapping.watch.iter().flat_map(|watch| [Some(&watch.name), watch.all.as_ref()]);
        let observed: Vec<&Text> =
            watches.flatten().chain(mapping.lookup.iter().map(|lookup| &lookup.name)).collect();
        for name in settings.chain(lets).chain(observed.iter().copied()) {
            if !is_identifier(&name.value) {
                let message =
                    format!("`{}` cannot name a variable: it takes letters, digits and `_`", name.value);
                let word = name.value.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                let help = is_identifier(&word).then(|| Help::replace(format!("write `{word}`"), &word));
                self.mistake(name, "malformed-name", message, help);
            }
        }
        for (index, name) in observed.iter().enumerate() {
            let given = GIVEN.contains(&name.value.as_str());
            if given || observed[..index].iter().any(|other| other.value == name.value) {
                let message = format!("`{}` is the name of another variable", name.value);
                self.mistake(name, "name-taken", message, None::<Help>);
            }
        }
    }

    fn names(&mut self) {
        let mapping = self.mapping;
        let objects: Vec<&Text> = mapping.object.iter().map(|object| &object.name).collect();
        let rules: Vec<&Text> = mapping.status.rule.iter().map(|rule| &rule.name).collect();
        let values: Vec<&Text> = mapping.status.values.iter().collect();
        let variables: Vec<&Text> = mapping.settings.0.iter().map(|(_, setting)| &setting.env).collect();
        for (what, all) in
            [("object", objects), ("row", rules), ("status", values), ("environment variable", variables)]
        {
            for (index, name) in all.iter().enumerate() {
                if all[..index].iter().any(|other| other.value == name.value) {
                    let message = format!("another {what} is called `{}` already", name.value);
                    self.mistake(name, "duplicate-name", message, None::<Help>);
                }
            }
        }
        if mapping.object.is_empty() && !self.said("wrong-type") {
            let message = "a mapping has at least one [[object]]: what an instance is made of";
            self.findings.add(self.source, &mapping.span, "no-object", message);
        }
    }

    fn settings(&mut self) {
        for (name, setting) in &self.mapping.settings.0 {
            let Some(default) = setting.default.as_ref().filter(|tree| !matches!(tree.kind, Kind::Null))
            else {
                continue;
            };
            if setting.required {
                let message = format!("`{}` is required and has a default, which is never used", name.value);
                self.mistake(name, "required-with-default", message, None::<Help>);
            }
            self.default(setting, default);
        }
    }

    fn default(&mut self, setting: &Setting, default: &Tree) {
        let (fits, expected) = match setting.kind.unwrap_or(SettingKind::String) {
            SettingKind::String => (default.as_str().is_some(), "a string"),
            SettingKind::Integer => (matches!(default.kind, Kind::Integer(_)), "an integer"),
            SettingKind::Number => (matches!(default.kind, Kind::Integer(_) | Kind::Float(_)), "a number"),
            SettingKind::Boolean => (matches!(default.kind, Kind::Bool(_)), "true or false"),
        };
        let allowed: Vec<&str> = setting.r#enum.iter().map(|word| word.value.as_str()).collect();
        if !fits {
            let message = format!("expected {expected}, found {}", default.noun());
            self.findings.add(self.source, &default.span, "wrong-type", message);
        } else if let Some(word) = default.as_str()
            && !allowed.is_empty()
            && !allowed.contains(&word)
        {
            let message = format!("the default `{word}` is not among the allowed values");
            let help = suggestion(word, &allowed);
            self.findings.add_with_help(self.source, &default.span, "unknown-default", message, help);
        }
    }

    /// What is registered with DCM and what PATCH does must agree.
    fn operations(&mut self) {
        let mapping = self.mapping;
        let listed = mapping.operations.contains(&Operation::Update);
        match &mapping.update {
            None if listed => {
                let message = "UPDATE is among the operations, and no [update] says what it does";
                self.findings.add(self.source, &mapping.span, "update-not-described", message);
            }
            Some(update) if !listed && !mapping.operations.is_empty() => {
                let message = "there is an [update], and UPDATE is not among the operations";
                self.findings.add(self.source, &update.span, "update-not-listed", message);
            }
            _ => {}
        }
        for (index, operation) in mapping.operations.iter().enumerate() {
            if mapping.operations[..index].contains(operation) {
                let message = format!("`operations` lists {} twice", operation.word());
                self.findings.add(self.source, &mapping.span, "duplicate-name", message);
            }
        }
        if mapping.operations.is_empty() && !self.said("unknown-word") && !self.said("wrong-type") {
            let message = "`operations` names what DCM may ask for, and is empty";
            let help = format!("some of: {}", Operation::WORDS.join(", "));
            self.findings.add_with_help(self.source, &mapping.span, "no-operation", message, Some(help));
        }
    }

    fn said(&self, code: &str) -> bool {
        self.findings.iter().any(|item| item.code == code && item.file == self.source.name)
    }

    fn status(&mut self) {
        let status = &self.mapping.status;
        if status.values.is_empty() && !status.span.is_empty() {
            let message = "`values` names every status that a row may say, and is empty";
            self.findings.add(self.source, &status.span, "no-status", message);
        }
    }

    fn pointers(&mut self, spec: &Json) {
        let mapping = self.mapping;
        for check in &mapping.check {
            if let Some(stage) = check.stage.filter(|stage| *stage < 1) {
                let message = format!("stage {stage}: the first stage is 1");
                self.findings.add(self.source, &check.span, "number-out-of-range", message);
            }
            let Some(pointer) = &check.pointer else { continue };
            let updates = check.on.contains(&Moment::Update);
            match pointer.value.strip_prefix("/spec") {
                // A patch has members of its own.
                Some(rest) if rest.starts_with('/') && !updates => self.pointer_below(pointer, "/spec", spec),
                Some(_) => {}
                None if pointer.value.starts_with('{') => {}
                None if pointer.value.starts_with('/') => self.not_of_the_spec(pointer),
                None => self.malformed_pointer(pointer),
            }
        }
        for (pointer, _) in mapping.update.iter().flat_map(|update| &update.set.0) {
            self.pointer(pointer, spec);
        }
        for pointer in mapping.view.iter().flat_map(|view| &view.omit) {
            match pointer.value.starts_with("/spec/") {
                true => self.pointer_below(pointer, "/spec", spec),
                false => self.not_omitted(pointer),
            }
        }
    }

    fn pointer(&mut self, text: &Text, spec: &Json) {
        self.pointer_below(text, "", spec);
    }

    fn pointer_below(&mut self, text: &Text, prefix: &str, spec: &Json) {
        let Some(rest) = text.value[prefix.len()..].strip_prefix('/') else {
            return self.malformed_pointer(text);
        };
        let mut place = Type::schema(Arc::new(spec.clone()));
        let mut missed = None;
        for (at, key) in steps(rest).into_iter().enumerate() {
            // What an expression gives is any item of a list, or any member of a map.
            if key.contains("{{") {
                let Some(items) = place.items() else { return };
                place = items;
                continue;
            }
            let name = key.replace("~1", "/").replace("~0", "~");
            match place.member(&name) {
                Member::Found(member) => place = member,
                // The position of an item in a list.
                Member::NoMap(_) if name.parse::<usize>().is_ok() => {
                    place = place.items().unwrap_or_default()
                }
                Member::Missing(known) => missed = Some((at, name, known)),
                Member::NoMap(_) => missed = Some((at, name, Vec::new())),
            }
            if missed.is_some() {
                break;
            }
        }
        let Some((at, name, known)) = missed else { return };
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = format!("`{}` leads to no property of the schema", text.value);
        let right = nearest(&name, known.iter().copied()).map(|near| {
            let mut keys: Vec<&str> = rest.split('/').collect();
            keys[at] = near;
            let whole = format!("{prefix}/{}", keys.join("/"));
            Help::replace(format!("did you mean `{whole}`?"), whole)
        });
        let help = right.or_else(|| suggestion(&name, &known));
        self.mistake(text, "unknown-pointer", message, help);
    }

    /// What the engine itself says of an instance is read by callers of every type.
    fn not_omitted(&mut self, text: &Text) {
        if !text.value.starts_with('/') {
            return self.malformed_pointer(text);
        }
        let message = format!("`{}` is always answered: a view omits members of the spec", text.value);
        let right = format!("/spec{}", text.value);
        let help = Help::replace(format!("of the spec it is `{right}`"), right);
        self.mistake(text, "unknown-pointer", message, Some(help));
    }

    fn not_of_the_spec(&mut self, text: &Text) {
        let message =
            format!("`{}` is no field of the spec: a check points at one from the body on", text.value);
        let right = format!("/spec{}", text.value);
        let help = Help::replace(format!("of the spec it is `{right}`"), right);
        self.mistake(text, "unknown-pointer", message, Some(help));
    }

    fn malformed_pointer(&mut self, text: &Text) {
        let message = "a JSON pointer begins with `/`".to_owned();
        let right = format!("/{}", text.value.replace('.', "/"));
        let help = Help::replace(format!("write `{right}`"), right);
        self.mistake(text, "malformed-pointer", message, Some(help));
    }
}

/// The steps of a pointer; what stands in braces is of one step.
fn steps(pointer: &str) -> Vec<&str> {
    let (mut steps, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in pointer.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '/' if depth == 0 => {
                steps.push(&pointer[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    steps.push(&pointer[start..]);
    steps
}
