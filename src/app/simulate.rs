//! A case of several steps at work: the whole product against the sandbox, in one thread and in simulated time.
//!
//! The runtime's clock is paused: it moves to the next timer when, and only when, every task waits for one. So
//! nothing here may use a socket, a signal or another thread, and a day passes as fast as what happens in it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use hyper::service::Service as _;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Doors, Loaded, Running, limits, read_settings};
use crate::api::Api;
use crate::bus::{Bus, Message};
use crate::clock::Simulated;
use crate::cluster::Cluster;
use crate::engine::case::steps::{Act, Choice, Expect, Request as Asked};
use crate::engine::case::{Played, Seen, Story};
use crate::engine::diagnostic::Findings;
use crate::engine::service::Service;
use crate::http;
use crate::sandbox::{Sandbox, Stages};

/// Plays cases; what they share is made once.
#[derive(Default)]
pub struct Simulator {
    /// What machines do where a case says nothing else.
    plain: OnceLock<Result<Arc<Stages>, Findings>>,
}

/// A request to the REST surface: the code, and the answer.
type Ask = Box<dyn Fn(&str, &str, Option<&Value>) -> BoxFuture<'static, Result<(u16, Value), String>>>;

/// The product in a cluster of its own.
struct World<'s> {
    story: &'s Story<'s>,
    sandbox: Sandbox,
    ask: Ask,
    collection: String,
    arriving: mpsc::UnboundedReceiver<Message>,
    events: Vec<Value>,
    /// Its tasks end with it.
    _running: Running,
}

/// As little time as there is: when it has passed, everything that follows at once has followed.
const MOMENT: Duration = Duration::from_millis(1);

impl Simulator {
    /// Plays a case.
    ///
    /// # Errors
    /// Mistakes in its stages, and whatever keeps it from beginning.
    pub fn play(&self, service: &Arc<Service>, story: &Story<'_>) -> Result<Played, Findings> {
        let plain = || Stages::load(Vec::new(), true, true).map(Arc::new);
        let plain = self.plain.get_or_init(plain).clone()?;
        let stages = stages(story)?;
        let cannot = |why: String| {
            let mut findings = Findings::default();
            let message = format!("the case cannot be played: {why}");
            findings.add(&story.steps.source, &(0..0), "unplayable", message);
            findings
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|error| cannot(format!("the runtime does not start: {error}")))?;
        let played = runtime.block_on(async {
            let _clock = Simulated::begin();
            let mut world = World::begin(service, story, plain).await?;
            let seen = world.act(&stages).await;
            Ok(Played { seen, events: world.events })
        });
        played.map_err(cannot)
    }
}

impl<'s> World<'s> {
    async fn begin(
        service: &Arc<Service>,
        story: &'s Story<'s>,
        stages: Arc<Stages>,
    ) -> Result<Self, String> {
        let namespace = story.identity.namespace.clone();
        let sandbox = Sandbox::start(Some(stages))?;
        sandbox.furnish()?;
        sandbox.define(&service.definitions)?;
        sandbox.make_namespace(&namespace)?;
        for object in story.objects {
            create(&sandbox, &namespace, object)?;
        }
        let (running, arriving) = start(service, story, &sandbox)?;
        let ask = asking(&running);
        for in_use in running.reload.in_use() {
            let provider = in_use.borrow().clone();
            provider.wait_synced().await;
        }
        let collection = service.collection.clone();
        let mut world =
            Self { story, sandbox, ask, collection, arriving, events: Vec::new(), _running: running };
        world.settle().await;
        Ok(world)
    }

    async fn act(&mut self, stages: &[Option<Arc<Stages>>]) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (step, stages) in self.story.steps.steps.iter().zip(stages) {
            let done = self.step(&step.act, stages.as_ref()).await;
            self.settle().await;
            match done {
                Ok(shown) => seen.push(shown),
                Err(why) => {
                    seen.push(Seen::Refused(why));
                    return seen;
                }
            }
        }
        seen
    }

    async fn step(&mut self, act: &Act, stages: Option<&Arc<Stages>>) -> Result<Seen, String> {
        match act {
            Act::Request(request) => return self.request(request).await,
            Act::Expect(expect) => return self.expect(expect).await,
            Act::After(time) => sleep(*time).await,
            Act::Stages(_) => {
                if let Some(stages) = stages {
                    self.sandbox.play(stages.clone());
                }
            }
            Act::Create(objects) => {
                let namespace = &self.story.identity.namespace;
                objects.iter().try_for_each(|object| create(&self.sandbox, namespace, object))?;
            }
            Act::Patch(choice, change) => {
                let found = self.some(choice)?;
                found.iter().try_for_each(|object| self.sandbox.change(object, change))?;
            }
            Act::Delete(choice) => {
                let found = self.some(choice)?;
                found.iter().try_for_each(|object| self.sandbox.delete(object))?;
            }
        }
        Ok(Seen::Done)
    }

    async fn request(&self, request: &Asked) -> Result<Seen, String> {
        let own = match request.method {
            "POST" => self.story.spec,
            "PATCH" => self.story.patch,
            _ => None,
        };
        let body = request.body.as_ref().or(own);
        let (code, answer) = (self.ask)(request.method, &request.path, body).await?;
        Ok(Seen::Shown(members([("code", code.into()), ("answer", answer)])))
    }

    async fn expect(&mut self, expect: &Expect) -> Result<Seen, String> {
        let id = expect.id.as_ref().unwrap_or(&self.story.identity.id);
        let path = format!("/{}/{id}", self.collection);
        let (_, answer) = (self.ask)("GET", &path, None).await?;
        let own = self.events.iter().filter(|event| event["id"] == id.as_str());
        let mut statuses: Vec<Value> = own.map(|event| event["status"].clone()).collect();
        // Another message is no step of the path.
        statuses.dedup();
        let mut objects = Vec::new();
        for choice in &expect.objects {
            let kind = format!("{}/{}", choice.api_version, choice.kind);
            objects.push(json!({ "kind": kind, "labels": choice.labels, "count": self.find(choice)?.len() }));
        }
        let status = match answer["status"].is_string() {
            true => answer["status"].clone(),
            // The status of a problem is its code.
            false => Value::Null,
        };
        Ok(Seen::Shown(members([
            ("id", id.as_str().into()),
            ("status", status),
            ("message", answer["status_message"].clone()),
            ("path", statuses.into()),
            ("objects", objects.into()),
        ])))
    }

    /// Waits until nothing more follows at once, and hears what was said.
    async fn settle(&mut self) {
        sleep(MOMENT).await;
        while let Ok(message) = self.arriving.try_recv() {
            let event: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
            self.events.push(event["data"].clone());
        }
    }

    fn find(&self, choice: &Choice) -> Result<Vec<Value>, String> {
        let Choice { api_version, kind, name, labels } = choice;
        let mut found = self.sandbox.find(api_version, kind, &self.story.identity.namespace, labels)?;
        found.retain(|object| name.as_ref().is_none_or(|name| object["metadata"]["name"] == name.as_str()));
        Ok(found)
    }

    /// A change of nothing is a mistake of whoever wrote the step.
    fn some(&self, choice: &Choice) -> Result<Vec<Value>, String> {
        let found = self.find(choice)?;
        if found.is_empty() {
            return Err(format!("there is no such {} of {}", choice.kind, choice.api_version));
        }
        Ok(found)
    }
}

/// The product, as `serve` and `dev` start it, with its bus heard here.
fn start(
    service: &Arc<Service>,
    story: &Story<'_>,
    sandbox: &Sandbox,
) -> Result<(Running, mpsc::UnboundedReceiver<Message>), String> {
    let values = story.settings;
    let of_case = |env: &str| {
        let rule = service.settings.iter().find(|rule| rule.env == env)?;
        values.get(&rule.name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let environment = |name: &str| match name {
        "SP_NAME" => Some(story.identity.provider.clone()),
        "SP_K8S_NAMESPACE" => Some(story.identity.namespace.clone()),
        name => of_case(name),
    };
    let services = vec![service.clone()];
    let settings = read_settings(&services, None, &environment, false).map_err(|error| error.to_string())?;
    let cluster =
        Cluster::in_process(sandbox.answerer(), &story.identity.namespace, settings.server.request_timeout);
    let mut bus = Bus::local(None);
    let arriving = bus.listen();
    let same = settings.clone();
    let settings_of = Box::new(move |_: &[Arc<Service>]| Ok(same.clone()));
    let loaded = Loaded::of(services);
    let (doors, identity) = (Doors::default(), &story.identity.provider);
    let running = Running::start(loaded, settings_of, settings, bus, cluster, doors, identity);
    running.map(|running| (running, arriving)).map_err(|error| error.to_string())
}

/// The way to the REST surface: all of it but the socket.
fn asking(running: &Running) -> Ask {
    let (access, limits) = (Arc::default(), limits(&running.settings));
    let service = http::service::<Api, Full<Bytes>>(running.api.clone(), access, &limits);
    Box::new(move |method, path, body| {
        let builder = Request::builder().method(method).uri(format!("/api/v1alpha1{path}"));
        let request = match body {
            None => builder.body(Full::default()),
            Some(body) => builder.header(CONTENT_TYPE, "application/json").body(Full::from(body.to_string())),
        };
        let answering = request.map(|request| service.call(request));
        Box::pin(async move {
            let answering = answering.map_err(|error| format!("the request cannot be made: {error}"))?;
            let Ok(answer) = answering.await;
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
            Ok((code, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
        })
    })
}

/// The stages of each step that has any.
fn stages(story: &Story<'_>) -> Result<Vec<Option<Arc<Stages>>>, Findings> {
    let stages = story.steps.steps.iter().map(|step| match &step.act {
        Act::Stages(parts) => Stages::of_parts(parts, true, true).map(|stages| Some(Arc::new(stages))),
        _ => Ok(None),
    });
    stages.collect()
}

/// Puts an object in, with the status that it brings.
fn create(sandbox: &Sandbox, namespace: &str, object: &Value) -> Result<(), String> {
    let member = |key: &str| object[key].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
    let made = sandbox.create(member("apiVersion"), member("kind"), namespace, object.clone())?;
    match object.get("status") {
        Some(status) => sandbox.change(&made, &json!({ "status": status })),
        None => Ok(()),
    }
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
