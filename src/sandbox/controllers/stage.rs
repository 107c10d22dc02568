//! The stages at work: which one an object is in, whether its time has come, and what it writes.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Cluster, Next};
use crate::engine::expression::{EvalError, Leaf};
use crate::engine::scope::Scope;
use crate::sandbox::object::{map_at, name, namespace, text};
use crate::sandbox::patch;
use crate::sandbox::stages::{Effect, Stage, Stages};
use crate::sandbox::store::{Key, Storage};

/// Which stage each object is in, and when it takes effect.
#[derive(Default)]
pub(super) struct Waiting(HashMap<(Storage, Key), (usize, Instant)>);

/// A stage that still holds after it took effect is not applied again at once.
const REST: Duration = Duration::from_secs(1);

impl Waiting {
    pub(super) fn forget(&mut self, storage: &Storage, key: &Key) {
        self.0.remove(&(storage.clone(), key.clone()));
    }
}

pub(super) fn step(
    cluster: &Cluster,
    stages: &Stages,
    waiting: &mut Waiting,
    storage: &Storage,
    key: &Key,
) -> Next {
    let Some(object) = cluster.get(storage, key) else { return Next::Done };
    let Some((index, stage, scope)) = current(cluster, stages, &object) else {
        waiting.forget(storage, key);
        return Next::Done;
    };
    let place = (storage.clone(), key.clone());
    let now = Instant::now();
    let due = match waiting.0.get(&place) {
        Some((known, due)) if *known == index => *due,
        _ => now + stages.delay(stage),
    };
    waiting.0.insert(place.clone(), (index, due));
    if due > now {
        return Next::Again(due - now);
    }
    waiting.0.insert(place, (index, now + REST));
    match stage.effect(&scope) {
        Ok(effect) => apply(cluster, &object, effect),
        Err(error) => complain(&object, &error),
    }
    Next::Done
}

/// The first stage that holds.
fn current<'s>(cluster: &Cluster, stages: &'s Stages, object: &Value) -> Option<(usize, &'s Stage, Scope)> {
    let of_kind = stages.of(object);
    if of_kind.is_empty() {
        return None;
    }
    let bare = stages.scope(object);
    for (index, stage) in of_kind.iter().enumerate() {
        let found: Vec<Option<Value>> = stage
            .lookups()
            .iter()
            .map(|lookup| {
                let named = match &lookup.named {
                    Leaf::Literal(text) => text.clone(),
                    Leaf::Lone(expression) => bare.program().eval(expression, &bare).ok()?.to_string(),
                    Leaf::Mixture(mixture) => bare.program().text(mixture, &bare).ok()?,
                };
                cluster.look_up(&lookup.kind, namespace(object), &named)
            })
            .collect();
        let scope = if found.is_empty() { bare.clone() } else { stage.with(&bare, &found) };
        match stage.holds(&scope) {
            Ok(true) => return Some((index, stage, scope)),
            Ok(false) => {}
            Err(error) => complain(object, &error),
        }
    }
    None
}

fn apply(cluster: &Cluster, object: &Value, effect: Effect) {
    if effect.delete {
        cluster.delete_now(object);
    }
    if let Some(event) = &effect.event {
        let from = event["from"].as_str().unwrap_or("sandbox");
        cluster.event(object, from, text(event, "/type"), text(event, "/reason"), text(event, "/message"));
    }
    if let Some(made) = effect.create
        && let Err(refusal) = cluster.create(text(&made, "/metadata/namespace"), made.clone())
    {
        tracing::warn!(
            object = name(object),
            reason = refusal.message,
            "a stage could not create its object"
        );
    }
    let patched = match &effect.patch {
        Some(change) => cluster.change(object, |object| patch::merge(object, change)),
        None => Ok(object.clone()),
    };
    let written = patched.and_then(|object| match &effect.status {
        Some(status) => cluster.change_status(&object, |object| {
            map_at(object, "status");
            patch::merge(object, &json!({"status": status}));
        }),
        None => Ok(object),
    });
    // What is refused now (a conflict, an end) is looked at again by the change that caused it.
    if let Err(refusal) = written {
        tracing::debug!(object = name(object), reason = refusal.message, "a stage was refused");
    }
}

fn complain(object: &Value, error: &EvalError) {
    tracing::warn!(object = name(object), %error, "an expression of a stage failed");
}
