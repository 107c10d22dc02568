//! A request against its mapping: the body's form, schema faults and checks, all faults at once.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value as Json};

use crate::coverage::Point;
use crate::expression::EvalError;
use crate::format::Moment;
use crate::inputs::{Identity, Inputs};
use crate::json::{child, sort_by_document};
use crate::problem::{Fault, Problem, ProblemKind};
use crate::reads::Read;
use crate::schema::SchemaFault;
use crate::scope::Scope;
use crate::service::{CheckRule, Service};
use crate::shape::Step;

/// A body, with the spec found in it.
#[derive(Clone, Debug)]
pub struct Request {
    pub body: Json,
    /// The pointer of the spec in the body: `/spec`, or nothing for a bare one.
    pub root: &'static str,
    pub spec: Json,
    faults: Vec<Fault>,
    schema_faults: Vec<SchemaFault>,
}

/// The next step of judging a request.
#[derive(Debug)]
pub enum Judged {
    /// These look-ups must be fetched first, by their positions.
    Needs(Vec<usize>),
    Passed,
    Refused(Problem),
}

/// Members of an answer that no request may set.
const READ_ONLY: [&str; 6] = ["id", "path", "status", "status_message", "create_time", "update_time"];

impl Service {
    /// Reads the body of a create: bare, or wrapped in `spec`.
    pub fn read_create(&self, body: Json) -> Request {
        let mut request = unwrap(body);
        request.schema_faults = self.schema.faults(&request.spec);
        self.refuse_read_only(&mut request);
        request.refuse_strangers();
        request
    }

    /// Reads the body of a patch, in the same two forms.
    pub fn read_update(&self, body: Json) -> Request {
        let mut request = unwrap(body);
        if let Some(update) = &self.update {
            request.schema_faults = update.schema.faults(&request.spec);
        }
        request.refuse_strangers();
        request
    }

    fn refuse_read_only(&self, request: &mut Request) {
        let written = self.view.iter().flat_map(|view| &view.written);
        let in_spec: Vec<&str> = written.clone().filter_map(|path| path.strip_prefix("/spec")).collect();
        let beside =
            written.filter_map(|path| path.strip_prefix('/')).filter(|path| !path.starts_with("spec/"));
        let top: Vec<String> =
            READ_ONLY.iter().map(|name| (*name).to_owned()).chain(beside.map(str::to_owned)).collect();
        let mut faults = Vec::new();
        let mut add = |pointer: String, name: &str| {
            let detail = format!("`{name}` is set by the service and cannot be sent");
            let fault = Fault { pointer: Some(pointer), detail };
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        };
        for name in &top {
            let pointer = child("", name);
            if request.body.pointer(&pointer).is_some() {
                add(pointer, name);
            }
        }
        for path in in_spec {
            if request.spec.pointer(path).is_some() {
                add(format!("{}{path}", request.root), path.rsplit('/').next().unwrap_or(path));
            }
        }
        request.faults.extend(faults);
    }

    /// Judges a request: the faults of its form and schema first, with the checks of the lowest failing
    /// stage beside them; then stage by stage.
    pub fn judge(
        &self,
        moment: Moment,
        request: &Request,
        identity: &Identity,
        inputs: &Inputs,
    ) -> Result<Judged, EvalError> {
        let mut faults: Vec<(u16, Fault)> = Vec::new();
        faults.extend(request.faults.iter().map(|fault| (400, fault.clone())));
        faults.extend(request.shown_schema_faults().map(|fault| (400, fault)));
        let broken = !faults.is_empty();
        let (spoilt, blamed) = (request.places(), request.blamed());
        let scope = self.scope(identity, inputs)?;
        let mut stages: Vec<i64> = self.checks.iter().map(|check| check.stage).collect();
        stages.sort_unstable();
        stages.dedup();
        for (index, stage) in stages.iter().enumerate() {
            if broken && index > 0 {
                break;
            }
            let checks = self.checks.iter().enumerate();
            let checks = checks.filter(|(_, check)| check.stage == *stage && check.on.contains(&moment));
            let checks: Vec<(usize, &CheckRule)> =
                checks.filter(|(_, check)| !spoils(&spoilt, check)).collect();
            // A set: two checks that read the same thing cause one fetch.
            let needs: BTreeSet<usize> = checks
                .iter()
                .flat_map(|(_, check)| &check.lookups)
                .copied()
                .filter(|lookup| inputs.lookups.get(*lookup).is_none_or(Option::is_none))
                .collect();
            if !needs.is_empty() && !broken {
                return Ok(Judged::Needs(needs.into_iter().collect()));
            }
            for (index, check) in checks.into_iter().filter(|(_, check)| !broken || check.lookups.is_empty())
            {
                match self.run(check, &scope, request) {
                    Ok(found) => {
                        scope.mark(|| Point::Check(index), !found.is_empty());
                        faults.extend(found.into_iter().filter(|(_, fault)| {
                            !fault.pointer.as_ref().is_some_and(|place| blamed.contains(place))
                        }));
                    }
                    // A rule need not understand what the schema has refused.
                    Err(_) if broken => {}
                    Err(error) => return Err(error),
                }
            }
            if !faults.is_empty() {
                break;
            }
        }
        Ok(refusal(faults, &request.body))
    }

    fn run(
        &self,
        check: &CheckRule,
        scope: &Scope,
        request: &Request,
    ) -> Result<Vec<(u16, Fault)>, EvalError> {
        let mut faults = Vec::new();
        let scopes = match &check.each {
            Some(each) => each.scopes(scope)?,
            None => vec![scope.clone()],
        };
        for scope in scopes {
            if self.program.holds(&check.condition, &scope)? != check.fails_when {
                continue;
            }
            let pointer = match &check.pointer {
                None => None,
                Some(pointer) => {
                    let pointer = self.program.text(pointer, &scope)?;
                    Some(match pointer.strip_prefix("/spec") {
                        Some(rest) => format!("{}{rest}", request.root),
                        None => pointer,
                    })
                }
            };
            faults.push((check.status, Fault { pointer, detail: self.program.text(&check.detail, &scope)? }));
        }
        Ok(faults)
    }
}

impl Request {
    /// What is wrong with its form and with what the schema says of it, if anything is.
    pub fn malformed(&self) -> Option<Problem> {
        let mut faults = self.faults.clone();
        faults.extend(self.shown_schema_faults());
        sort_by_document(&self.body, &mut faults);
        (!faults.is_empty()).then(|| Problem::invalid(faults))
    }

    /// What is no object at all is not told which members it lacks.
    fn shown_schema_faults(&self) -> impl Iterator<Item = Fault> {
        self.schema_faults.iter().filter(|_| self.body.is_object()).map(|fault| fault.rooted(self.root))
    }

    /// Beside a wrapped spec nothing else stands; a member that is refused already is not named twice.
    fn refuse_strangers(&mut self) {
        let Some(members) = self.body.as_object().filter(|_| self.root == "/spec") else { return };
        let named = |pointer: &str| self.faults.iter().any(|fault| fault.pointer.as_deref() == Some(pointer));
        let strangers = members.keys().filter(|key| *key != "spec").map(|key| (key, child("", key)));
        let faults: Vec<Fault> = strangers
            .filter(|(_, pointer)| !named(pointer))
            .map(|(key, pointer)| {
                let detail = format!("`{}` is not a member of this body: it stands beside `spec`", clip(key));
                Fault { pointer: Some(pointer), detail }
            })
            .collect();
        self.faults.extend(faults);
    }

    /// The pointers of the places that the schema has named already.
    fn blamed(&self) -> HashSet<String> {
        self.schema_faults.iter().map(|fault| format!("{}{}", self.root, fault.place)).collect()
    }

    /// The places that the schema has found faults at, each as its keys.
    fn places(&self) -> Vec<Vec<String>> {
        self.schema_faults.iter().map(|fault| keys(&fault.place)).collect()
    }
}

/// Whether a path that the check reads has a schema fault already: its answer would be noise. Of a list
/// that is walked, a bad item spoils none of its siblings.
fn spoils(places: &[Vec<String>], check: &CheckRule) -> bool {
    let sent = |read: &&Read| read.root == "spec" || read.root == "patch";
    let walked = check.each.iter().flat_map(|each| each.list.reads.iter()).filter(sent);
    let read = check.condition.reads.iter().filter(sent);
    places.iter().any(|place| {
        walked.clone().any(|read| {
            let list = read.path.split(|step| *step == Step::Any).next().unwrap_or_default();
            place.len() <= list.len() && touches(place, list)
        }) || (check.each.is_none() && read.clone().any(|read| touches(place, &read.path)))
    })
}

/// Whether a fault stands on the way to what is read, or below it.
fn touches(place: &[String], read: &[Step]) -> bool {
    place.iter().zip(read).all(|(key, step)| match step {
        Step::Key(name) => key == name,
        Step::Any => true,
    })
}

fn keys(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
}

/// Finds the spec: wrapped means that `spec` is an object and there is no top-level `service_type`.
fn unwrap(body: Json) -> Request {
    let empty =
        |body: Json, root, spec, faults| Request { body, root, spec, faults, schema_faults: Vec::new() };
    let Some(members) = body.as_object() else {
        let fault =
            Fault { pointer: Some(String::new()), detail: "the body is not a JSON object".to_owned() };
        return empty(body, "", Json::Object(Map::new()), vec![fault]);
    };
    match members.get("spec") {
        Some(spec @ Json::Object(_)) if !members.contains_key("service_type") => {
            let spec = spec.clone();
            empty(body, "/spec", spec, Vec::new())
        }
        _ => {
            let spec = body.clone();
            empty(body, "", spec, Vec::new())
        }
    }
}

fn clip(key: &str) -> String {
    key.chars().take(64).collect()
}

/// One status a stage; the faults in the order of the body as it was sent.
fn refusal(faults: Vec<(u16, Fault)>, body: &Json) -> Judged {
    let Some(status) = faults.iter().map(|(status, _)| *status).min() else {
        return Judged::Passed;
    };
    let mut faults: Vec<Fault> =
        faults.into_iter().filter(|(code, _)| *code == status).map(|(_, fault)| fault).collect();
    sort_by_document(body, &mut faults);
    let kind = match status {
        404 => ProblemKind::NotFound,
        409 => ProblemKind::FailedPreconditionConflict,
        422 => ProblemKind::FailedPrecondition,
        _ => ProblemKind::InvalidArgument,
    };
    Judged::Refused(Problem { kind, ..Problem::invalid(faults) })
}
