//! What comes of a case: the same functions that serve requests, on a cluster that the case describes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::form::{Document, Doing};
use super::{Body, Case};
use crate::coverage::Trace;
use crate::expression::EvalError;
use crate::format::{Match, Moment};
use crate::inputs::{
    Identity, Inputs, LIFE_ANNOTATION, OBJECT_ANNOTATION, PROVIDER_ANNOTATION, annotation, instance_of,
    name_of, uid_of,
};
use crate::problem::Problem;
use crate::request::{Judged, Request};
use crate::service::{KindRef, LookupRule, Service, WatchRule};
use crate::view::Header;

/// When the instance of every case was made.
const CREATE_TIME: &str = "2026-01-21T10:00:00Z";

/// What a cache keeps of an object that a watch observes: a case sees no more than the provider would.
pub type Keep<'k> = &'k (dyn Fn(&WatchRule, Json) -> Json + Sync);

/// The documents that a case made. None was not asked for, or not made because of a refusal.
#[derive(Clone, Debug, Default)]
pub struct Produced {
    /// Each with the name of its object within the mapping.
    pub manifests: Option<Vec<(String, Json)>>,
    pub view: Option<Json>,
    pub status: Option<Json>,
    pub problem: Option<Json>,
    pub events: Option<Json>,
}

impl Produced {
    /// One document that holds them all, for paths of assertions.
    pub fn whole(&self) -> Json {
        let manifests = self.manifests.as_ref().map(|made| Json::Object(made.iter().cloned().collect()));
        let all = [
            (Document::Manifests, manifests),
            (Document::View, self.view.clone()),
            (Document::Status, self.status.clone()),
            (Document::Problem, self.problem.clone()),
            (Document::Events, self.events.clone()),
        ];
        all.into_iter()
            .filter_map(|(document, made)| Some((document.word().to_owned(), made?)))
            .collect::<Map<_, _>>()
            .into()
    }
}

/// Why a case came to nothing.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// A rule of the mapping could not be evaluated: a caller would get a 500.
    Broken(EvalError),
    /// The stored spec of the case is one that the mapping would never have let in.
    UnlikelySpec(Problem),
}

impl From<EvalError> for Stopped {
    fn from(error: EvalError) -> Self {
        Self::Broken(error)
    }
}

impl Case {
    /// The documents that are compared or asserted.
    pub fn wanted(&self) -> BTreeSet<Document> {
        let mut wanted: BTreeSet<Document> = self.expected().into_iter().collect();
        for assertion in &self.assertions {
            let named = |document: &Document| {
                let rest = assertion.path.value.strip_prefix('/');
                rest.and_then(|rest| rest.split('/').next()) == Some(document.word())
            };
            wanted.extend(Document::ALL.into_iter().find(named));
        }
        wanted
    }

    /// Runs the case against its mapping.
    pub fn run(
        &self,
        service: &Service,
        keep: Keep<'_>,
        trace: Option<&Arc<Trace>>,
    ) -> Result<Produced, Stopped> {
        let mut run = Run {
            case: self,
            service,
            keep,
            wanted: self.wanted(),
            inputs: Inputs {
                settings: self.settings.clone(),
                previous: self.previous.clone(),
                lookups: vec![None; service.lookups.len()],
                trace: trace.cloned(),
                ..Inputs::default()
            },
            produced: Produced::default(),
        };
        match self.operation {
            Doing::Create => run.create()?,
            Doing::Update => run.update()?,
            // What steps come to is seen by whoever plays them.
            Doing::Steps => {}
            Doing::Status => {
                run.stored_spec()?;
                run.observe_objects();
                run.adopt()?;
                run.look()?;
            }
        }
        Ok(run.produced)
    }
}

/// One case on its way.
struct Run<'r> {
    case: &'r Case,
    service: &'r Service,
    keep: Keep<'r>,
    wanted: BTreeSet<Document>,
    inputs: Inputs,
    produced: Produced,
}

impl Run<'_> {
    fn identity(&self) -> &Identity {
        &self.case.identity
    }

    fn create(&mut self) -> Result<(), Stopped> {
        let Some(body) = self.body(&self.case.spec) else { return Ok(()) };
        let request = self.service.read_create(body);
        self.inputs.spec = request.spec.clone();
        if !self.admit(Moment::Create, &request)? {
            return Ok(());
        }
        let manifests = self.service.render(self.identity(), &self.inputs, 0)?;
        self.observe_objects();
        // What was made is there, unless the case says what else is.
        if self.inputs.observed.iter().all(Vec::is_empty) {
            let made = manifests.iter().map(|manifest| (manifest.kind.clone(), manifest.body.clone()));
            self.observe(made.collect());
        }
        self.produced.manifests =
            Some(manifests.into_iter().map(|manifest| (manifest.object, manifest.body)).collect());
        self.look()
    }

    fn update(&mut self) -> Result<(), Stopped> {
        self.stored_spec()?;
        self.observe_objects();
        let Some(body) = self.body(&self.case.patch) else { return Ok(()) };
        let request = self.service.read_update(body);
        self.inputs.patch = Some(request.spec.clone());
        if !self.admit(Moment::Update, &request)? {
            return Ok(());
        }
        let spec = self.service.updated_spec(self.identity(), &self.inputs)?;
        let mut patches = Vec::new();
        for (index, patch) in self.service.patches(self.identity(), &self.inputs)? {
            let rule = &self.service.objects[index];
            self.apply(&rule.kind, &rule.name, &patch);
            let mut shown = Map::new();
            shown.insert("apiVersion".to_owned(), rule.kind.api_version.as_str().into());
            shown.insert("kind".to_owned(), rule.kind.kind.as_str().into());
            shown.extend(patch.as_object().cloned().unwrap_or_default());
            patches.push((rule.name.clone(), Json::Object(shown)));
        }
        self.produced.manifests = Some(patches);
        self.inputs.spec = spec;
        self.look()
    }

    /// The body of a request; none where it cannot be read and is refused.
    fn body(&mut self, body: &Option<Body>) -> Option<Json> {
        match body.as_ref()? {
            Ok(body) => Some(body.clone()),
            Err(problem) => {
                self.refuse(problem);
                None
            }
        }
    }

    fn refuse(&mut self, problem: &Problem) {
        let Identity { id, .. } = &self.case.identity;
        let collection = &self.service.collection;
        let instance = match self.case.operation {
            Doing::Create => format!("/api/v1alpha1/{collection}?id={id}"),
            Doing::Update | Doing::Status | Doing::Steps => format!("/api/v1alpha1/{collection}/{id}"),
        };
        self.produced.problem = Some(problem.to_json(&self.service.problem_style, &instance));
    }

    /// The spec that the instance was made from, if the case gives one.
    fn stored_spec(&mut self) -> Result<(), Stopped> {
        let body = match &self.case.spec {
            None => return Ok(()),
            Some(Err(problem)) => return Err(Stopped::UnlikelySpec(problem.clone())),
            Some(Ok(body)) => body.clone(),
        };
        let request = self.service.read_create(body);
        if let Some(problem) = request.malformed() {
            return Err(Stopped::UnlikelySpec(problem));
        }
        self.inputs.spec = request.spec;
        Ok(())
    }

    /// Without a spec the instance is one that another program made: its objects show what it was.
    fn adopt(&mut self) -> Result<(), Stopped> {
        let mut watches = self.service.watches.iter().zip(&self.inputs.observed);
        let is_root =
            |kind: &KindRef| self.service.objects.iter().any(|rule| rule.root && rule.kind == *kind);
        let rooted = watches.any(|(watch, objects)| is_root(&watch.kind) && !objects.is_empty());
        if let (None, Some(adopt), true) = (&self.case.spec, &self.service.adopt, rooted) {
            self.inputs.spec = adopt.render(&self.service.scope(self.identity(), &self.inputs)?)?;
        }
        Ok(())
    }

    /// Judges a request as the provider does, look-ups in between. False means refused.
    fn admit(&mut self, moment: Moment, request: &Request) -> Result<bool, Stopped> {
        loop {
            match self.service.judge(moment, request, self.identity(), &self.inputs)? {
                Judged::Passed => return Ok(true),
                Judged::Refused(problem) => {
                    self.refuse(&problem);
                    return Ok(false);
                }
                Judged::Needs(positions) => {
                    for position in positions {
                        let found = self.look_up(&self.service.lookups[position])?;
                        self.inputs.lookups[position] = Some(found);
                    }
                }
            }
        }
    }

    fn look_up(&self, rule: &LookupRule) -> Result<Json, EvalError> {
        let mut there = self.case.objects.iter().filter(|object| is_of(object, &rule.kind));
        let Some(get) = &rule.get else {
            return Ok(there.cloned().collect());
        };
        let scope = self.service.scope(self.identity(), &self.inputs)?;
        let Some(name) = self.service.program.name(get, &scope)? else { return Ok(Json::Null) };
        Ok(there.find(|object| name_of(object) == name).cloned().unwrap_or(Json::Null))
    }

    fn observe_objects(&mut self) {
        let kind = |object: &Json, key| object.get(key).and_then(Json::as_str).unwrap_or("").to_owned();
        let objects = self.case.objects.iter().map(|object| {
            (KindRef { api_version: kind(object, "apiVersion"), kind: kind(object, "kind") }, object.clone())
        });
        self.observe(objects.collect());
    }

    /// Gives each watch its objects: by kind, and only what belongs to this life of the instance.
    fn observe(&mut self, objects: Vec<(KindRef, Json)>) {
        let own = |watch: &WatchRule, (kind, object): &(KindRef, Json)| {
            *kind == watch.kind && belongs(object, &self.case.identity)
        };
        let by_label: Vec<&(KindRef, Json)> = objects
            .iter()
            .filter(|object| {
                self.service.watches.iter().any(|watch| watch.matching == Match::Label && own(watch, object))
            })
            .collect();
        let involved = |object: &Json| {
            let uid = object.pointer("/involvedObject/uid").and_then(Json::as_str).unwrap_or("");
            !uid.is_empty() && by_label.iter().any(|(_, observed)| uid_of(observed) == uid)
        };
        let seen = |watch: &WatchRule, object: &(KindRef, Json)| match watch.matching {
            Match::Label => own(watch, object),
            Match::InvolvedObject => object.0 == watch.kind && involved(&object.1),
        };
        let kept = |watch: &WatchRule| {
            let objects = objects.iter().filter(|object| seen(watch, object));
            objects.map(|(_, object)| Arc::new((self.keep)(watch, object.clone()))).collect()
        };
        self.inputs.observed = self.service.watches.iter().map(kept).collect();
    }

    /// The observed object of the mapping, as it is after a merge patch.
    fn apply(&mut self, kind: &KindRef, name: &str, patch: &Json) {
        for (watch, objects) in self.service.watches.iter().zip(&mut self.inputs.observed) {
            let mine = |object: &Json| annotation(object, OBJECT_ANNOTATION).is_none_or(|own| own == name);
            if watch.kind == *kind
                && let Some(object) = objects.iter_mut().find(|object| mine(object))
            {
                merge(Arc::make_mut(object), patch);
            }
        }
    }

    /// Status and view, as far as the case asks for them.
    fn look(&mut self) -> Result<(), Stopped> {
        let asks = |document| self.wanted.contains(&document);
        if !asks(Document::Status) && !asks(Document::View) {
            return Ok(());
        }
        let seen = self.service.observe(self.identity(), &self.inputs)?;
        if asks(Document::View) {
            let header = Header {
                status: seen.status.clone(),
                status_message: seen.message.clone(),
                create_time: CREATE_TIME.to_owned(),
            };
            self.produced.view = Some(self.service.view(self.identity(), &self.inputs, &header)?);
        }
        self.produced.status =
            Some(json!({ "status": seen.status, "message": seen.message, "rule": seen.rule }));
        Ok(())
    }
}

fn is_of(object: &Json, kind: &KindRef) -> bool {
    let text = |key| object.get(key).and_then(Json::as_str);
    text("apiVersion") == Some(&kind.api_version) && text("kind") == Some(&kind.kind)
}

/// Whether an object is this instance's, as far as its labels and annotations say whose it is.
fn belongs(object: &Json, identity: &Identity) -> bool {
    instance_of(object).is_none_or(|id| id == identity.id)
        && annotation(object, PROVIDER_ANNOTATION).is_none_or(|name| name == identity.provider)
        && annotation(object, LIFE_ANNOTATION).is_none_or(|life| life == identity.life.to_string())
}

/// A JSON merge patch (RFC 7386): null removes, maps are joined, everything else replaces.
fn merge(target: &mut Json, patch: &Json) {
    let Json::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Json::Object(Map::new());
    }
    if let Json::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.shift_remove(key);
            } else {
                merge(target.entry(key.clone()).or_insert(Json::Null), value);
            }
        }
    }
}
