//! An instance without a cluster: a mapping, a spec, settings and look-ups from the command line.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::End;
use crate::engine::diagnostic::{Findings, nearest};
use crate::engine::format::{Moment, SettingKind};
use crate::engine::inputs::{Identity, Inputs};
use crate::engine::json::read_body;
use crate::engine::names::{DNS_LABEL, dns_label};
use crate::engine::problem::Problem;
use crate::engine::read;
use crate::engine::request::{Judged, Request};
use crate::engine::service::{Files, LookupRule, Service, SettingRule};
use crate::engine::source::Source;
use crate::files::MappingRoot;
use crate::kinds;

/// What a provider would know from its settings and its cluster.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Offline {
    /// A setting of the type; an unset one that is required takes the first value it may have.
    #[arg(long = "setting", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// A file with what a look-up finds; what is not given is taken to be there.
    #[arg(long = "lookup", value_name = "NAME=FILE")]
    lookups: Vec<String>,
    /// The id of the instance; the name in the spec where absent.
    #[arg(long)]
    id: Option<String>,
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The name of the provider.
    #[arg(long, default_value = "mapwright")]
    name: String,
    /// What was said of assumptions: once is enough.
    #[arg(skip)]
    told: RefCell<BTreeSet<String>>,
}

/// Why a command ends before it has a result.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) text: String,
    pub(super) end: End,
}

/// A request that passed, ready to be rendered.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) identity: Identity,
    pub(super) inputs: Inputs,
}

impl Stop {
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), end: End::Usage }
    }

    pub(super) fn finding(text: impl Into<String>) -> Self {
        Self { text: text.into(), end: End::Findings }
    }

    /// Says why, on standard error.
    pub(super) fn tell(self) -> End {
        eprintln!("{}", self.text);
        self.end
    }
}

/// Every file of a mapping root, and the names of its types.
pub(super) fn open(root: &Path) -> Result<(Files, Vec<String>), Stop> {
    let root = MappingRoot::at(root);
    let read = root.types().and_then(|types| Ok((root.read()?, types)));
    read.map_err(|unreadable| Stop::usage(unreadable.to_string()))
}

/// The mapping of one type.
pub(super) fn load(root: &Path, name: &str) -> Result<Service, Stop> {
    let (files, known) = open(root)?;
    if !known.iter().any(|known| known == name) {
        let known = known.join(", ");
        return Err(Stop::usage(format!("there is no mapping for `{name}`; there are: {known}")));
    }
    compile(&files, name)
}

pub(super) fn compile(files: &Files, name: &str) -> Result<Service, Stop> {
    let mut findings = Findings::default();
    let kinds = kinds::of(files, &mut findings);
    let loaded = Service::load(files, name, &kinds);
    match loaded {
        Ok(service) if findings.is_empty() => Ok(service),
        Ok(_) => Err(Stop::finding(findings.to_string())),
        Err(found) => {
            findings.append(found);
            Err(Stop::finding(findings.to_string()))
        }
    }
}

/// A file in JSON or YAML; `-` is standard input.
pub(super) fn read_document(path: &Path) -> Result<Value, Stop> {
    let unreadable = |error| Stop::usage(format!("cannot read {}: {error}", path.display()));
    let bytes = match path.to_str() {
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(unreadable)?;
            bytes
        }
        _ => std::fs::read(path).map_err(unreadable)?,
    };
    parse(&path.display().to_string(), &bytes)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Value, Stop> {
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    if bytes.trim_ascii_start().starts_with(b"{") || bytes.trim_ascii_start().starts_with(b"[") {
        match read_body(bytes) {
            Ok(body) => return Ok(body),
            // Braces are YAML as well.
            Err(_) if is_yaml => {}
            Err(problem) => return Err(Stop::usage(format!("{name}: {}", problem.detail))),
        }
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Stop::usage(format!("{name}: {error}")))?;
    let mut findings = Findings::default();
    // The ending decides how a file is read, and what comes from a pipe has none.
    let source = Source::new(format!("{}.yaml", name.trim_end_matches(".yaml")), text);
    match read::read(&source, &mut findings) {
        Some(tree) if findings.is_empty() => Ok(tree.to_json()),
        _ => Err(Stop::usage(findings.to_string())),
    }
}

/// The objects of a document: a list, what kubectl calls a list, or one object.
pub(super) fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Array(items) => items,
        Value::Object(mut members) => match members.remove("items") {
            Some(Value::Array(items)) => items,
            _ => vec![Value::Object(members)],
        },
        _ => Vec::new(),
    }
}

impl Offline {
    /// Judges a spec as a create would be judged.
    pub(super) fn prepare(&self, service: &Service, body: Value) -> Result<Prepared, Stop> {
        self.check()?;
        self.check_lookups(service)?;
        let request = service.read_create(body);
        let identity = self.identity(&request.spec);
        let settings = self.settings(service)?;
        let mut inputs = Inputs { spec: request.spec.clone(), settings, ..Inputs::default() };
        inputs.lookups.resize(service.lookups.len(), None);
        loop {
            match judge(service, &request, &identity, &inputs)? {
                Judged::Passed => return Ok(Prepared { identity, inputs }),
                Judged::Refused(problem) => return Err(Stop::finding(refused(&problem))),
                Judged::Needs(positions) => {
                    for position in positions {
                        let rule = &service.lookups[position];
                        inputs.lookups[position] = Some(self.look_up(rule, service, &identity, &inputs)?);
                    }
                }
            }
        }
    }

    /// An instance of which no spec is known.
    pub(super) fn observed(&self, service: &Service) -> Result<Prepared, Stop> {
        self.check()?;
        self.check_lookups(service)?;
        let settings = self.settings(service)?;
        let inputs = Inputs { spec: Value::Object(Map::new()), settings, ..Inputs::default() };
        Ok(Prepared { identity: self.identity(&Value::Null), inputs })
    }

    /// The id, the namespace and the names of look-ups are judged as a create and a start judge them.
    fn check(&self) -> Result<(), Stop> {
        let given = [("--id", self.id.as_deref()), ("--namespace", Some(&*self.namespace))];
        for (option, text) in given.into_iter().filter_map(|(option, text)| Some((option, text?))) {
            if !DNS_LABEL.accepts(text) {
                let form = "an RFC 1123 label: at most 63 of a-z, 0-9 and `-`";
                return Err(Stop::usage(format!("{option} {text}: write {form}")));
            }
        }
        Ok(())
    }

    fn check_lookups(&self, service: &Service) -> Result<(), Stop> {
        let known: Vec<&str> = service.lookups.iter().map(|rule| rule.name.as_str()).collect();
        for pair in &self.lookups {
            let name = pair.split_once('=').map(|(name, _)| name);
            if !name.is_some_and(|name| known.contains(&name)) {
                let help = match nearest(name.unwrap_or(pair), known.iter().copied()) {
                    Some(near) if name.is_some() => format!("did you mean `{near}`?"),
                    _ if known.is_empty() => "this mapping has no look-up".to_owned(),
                    _ => format!("write NAME=FILE; the look-ups are: {}", known.join(", ")),
                };
                return Err(Stop::usage(format!("--lookup {pair}: {help}")));
            }
        }
        Ok(())
    }

    fn assume(&self, what: String) {
        if self.told.borrow_mut().insert(what.clone()) {
            eprintln!("assumed: {what}");
        }
    }

    fn identity(&self, spec: &Value) -> Identity {
        let name = spec.pointer("/metadata/name").and_then(Value::as_str).map(dns_label);
        let name = name.filter(|name| DNS_LABEL.accepts(name)).unwrap_or_else(|| "example".to_owned());
        Identity {
            id: self.id.clone().unwrap_or(name),
            provider: self.name.clone(),
            namespace: self.namespace.clone(),
            life: 1,
        }
    }

    fn settings(&self, service: &Service) -> Result<Map<String, Value>, Stop> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for pair in &self.settings {
            let known = |name: &str| service.settings.iter().any(|rule| rule.name == name);
            match pair.split_once('=') {
                Some((name, value)) if known(name) => given.push((name, value)),
                _ => {
                    let known: Vec<&str> = service.settings.iter().map(|rule| rule.name.as_str()).collect();
                    let known = known.join(", ");
                    return Err(Stop::usage(format!(
                        "--setting {pair}: write NAME=VALUE; the settings are: {known}"
                    )));
                }
            }
        }
        let mut settings = Map::new();
        for rule in &service.settings {
            let value = match given.iter().rev().find(|(name, _)| *name == rule.name) {
                Some((_, value)) => Some(typed(rule, value)?),
                None => self.unset(rule)?,
            };
            settings.extend(value.map(|value| (rule.name.clone(), value)));
        }
        Ok(settings)
    }

    fn unset(&self, rule: &SettingRule) -> Result<Option<Value>, Stop> {
        match (&rule.default, rule.required, rule.allowed.first()) {
            (Some(value), ..) => Ok(Some(value.clone())),
            (None, false, _) => Ok(None),
            (None, true, Some(first)) => {
                self.assume(format!("--setting {}={first}", rule.name));
                Ok(Some(first.as_str().into()))
            }
            (None, true, None) => {
                Err(Stop::usage(format!("the setting `{}` is required; add --setting {0}=VALUE", rule.name)))
            }
        }
    }

    fn look_up(
        &self,
        rule: &LookupRule,
        service: &Service,
        identity: &Identity,
        inputs: &Inputs,
    ) -> Result<Value, Stop> {
        let prefix = format!("{}=", rule.name);
        if let Some(file) = self.lookups.iter().find_map(|pair| pair.strip_prefix(&prefix)) {
            return read_document(Path::new(file));
        }
        let Some(get) = &rule.get else { return Ok(json!([])) };
        let scope = service.scope(identity, inputs).map_err(|error| Stop::finding(error.to_string()))?;
        let name = service.program.text(get, &scope).map_err(|error| Stop::finding(error.to_string()))?;
        if name.is_empty() {
            return Ok(Value::Null);
        }
        let (kind, look_up) = (&rule.kind.kind, &rule.name);
        self.assume(format!("{kind} `{name}` is there; --lookup {look_up}=FILE says what it is"));
        Ok(json!({ "apiVersion": rule.kind.api_version, "kind": kind, "metadata": { "name": name } }))
    }
}

fn judge(service: &Service, request: &Request, identity: &Identity, inputs: &Inputs) -> Result<Judged, Stop> {
    let judged = service.judge(Moment::Create, request, identity, inputs);
    judged.map_err(|error| Stop::finding(error.to_string()))
}

fn typed(rule: &SettingRule, text: &str) -> Result<Value, Stop> {
    let wrong = |what: &str| Stop::usage(format!("--setting {}={text}: the value is {what}", rule.name));
    if !rule.allowed.is_empty() && !rule.allowed.iter().any(|word| word == text) {
        return Err(wrong(&format!("none of {}", rule.allowed.join(", "))));
    }
    match rule.kind {
        SettingKind::String => Ok(text.into()),
        SettingKind::Integer => text.parse::<i64>().map(Value::from).map_err(|_| wrong("no integer")),
        SettingKind::Number => text.parse::<f64>().map(Value::from).map_err(|_| wrong("no number")),
        SettingKind::Boolean => text.parse::<bool>().map(Value::from).map_err(|_| wrong("not true or false")),
    }
}

/// A refusal with each of its faults on a line.
fn refused(problem: &Problem) -> String {
    let mut lines = vec![format!("the spec is refused with {}", problem.status())];
    for fault in &problem.faults {
        lines.push(format!("  {}: {}", fault.pointer.as_deref().unwrap_or("the request"), fault.detail));
    }
    if problem.faults.is_empty() {
        lines.push(format!("  {}", problem.detail));
    }
    lines.join("\n")
}

/// The root folder, as every command takes it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Root {
    /// The folder that holds `mappings` and `schemas`.
    #[arg(long, default_value = ".")]
    pub(super) root: PathBuf,
}
