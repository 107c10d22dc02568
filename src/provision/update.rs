//! A PATCH: judged against the live objects, written under their versions, re-judged on a conflict.
//!
//! Updates of one instance take turns in this process; those of other processes are seen in the record.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Provisioner;
use super::answer::{broken_rule, problem_of, problem_of_object};
use super::claim::{being_deleted, key_reused};
use super::delete::is_overtaken;
use crate::cluster::{Refusal, RefusalKind};
use crate::engine::format::Moment;
use crate::engine::json::canonical;
use crate::engine::names::fingerprint;
use crate::engine::problem::Problem;
use crate::engine::request::Request;
use crate::provider::{Instance, Known, Provider};
use crate::record::{InstanceRecord, KeyUse, Method, Pending, PlannedObject, State};

/// How often an update is tried where objects change again and again without another wish for them.
const ATTEMPTS: usize = 8;

/// How long an update of another process is waited for before it is taken for dead and ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a waiting update looks whether the other one is done.
const WAIT: Duration = Duration::from_millis(100);

impl Provisioner {
    /// Updates an instance. A body that could not be read is judged in its turn: an unknown id comes first.
    pub async fn update(
        &self,
        id: &str,
        key: Option<&str>,
        body: Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        let known = self.resolve(id).await?;
        let body = match body {
            Ok(body) => body,
            Err(problem) => {
                self.look_at_the_living(known).await?;
                return Err(problem);
            }
        };
        let digest = fingerprint(&[&canonical(&body)]);
        let key = key.map(|key| KeyUse { key: key.to_owned(), method: Method::Update, digest });
        let request = self.provider.service.read_update(body);
        let id = known.record.id;
        let turn = tokio::time::timeout(self.provider.request_timeout, self.provider.turn(&id));
        let busy = |_| Problem::unavailable("other updates of the instance are under way; try again", 1);
        let _turn = turn.await.map_err(busy)?;
        self.update_in_turn(&id, key, &request).await
    }

    /// Judges and writes until nothing comes in between. Another wish for the instance or its objects is met
    /// once; a status that a controller wrote meanwhile is judged too, but is nobody's wish.
    async fn update_in_turn(
        &self,
        id: &str,
        key: Option<KeyUse>,
        request: &Request,
    ) -> Result<Value, Problem> {
        // What came before in this process has put its outcome into memory.
        let mut known = self.resolve(id).await?;
        let mut wishes: Vec<Value> = Vec::new();
        for _ in 0..ATTEMPTS {
            known = self.undisturbed(known).await?;
            let used = key.as_ref().and_then(|new| known.record.key_use(Some(&new.key), Method::Update));
            match used {
                Some(used) if Some(used) == key.as_ref() => return self.show(known),
                Some(_) => return Err(key_reused()),
                None => {}
            }
            let (instance, live) = self.look_at_the_living(known).await?;
            let wish = wish(&instance.known.record, &live);
            if !wishes.contains(&wish) {
                wishes.push(wish);
            }
            if wishes.len() > 2 {
                break;
            }
            if let Some(known) = self.try_update(instance, &live, key.clone(), request).await? {
                return self.show(known);
            }
            known = self.reread(id).await?;
        }
        Err(Problem::conflict("the instance was changed by somebody else at the same time; try again"))
    }

    /// The instance without an update under way: one of another process is waited for, and ended where that
    /// process has died.
    async fn undisturbed(&self, mut known: Known) -> Result<Known, Problem> {
        let begun = Instant::now();
        while known.record.pending.is_some() && known.record.state == State::Ready {
            if begun.elapsed() < PATIENCE {
                sleep(WAIT).await;
            } else {
                unless_changed(resume(&self.provider, &known).await)?;
            }
            known = self.reread(&known.record.id).await?;
        }
        Ok(known)
    }

    /// An instance and its objects as the cluster has them now, if it is not being deleted.
    async fn look_at_the_living(
        &self,
        known: Known,
    ) -> Result<(Instance, Vec<(PlannedObject, Value)>), Problem> {
        let live = look_live(&self.provider, &known.record).await;
        let live = live.map_err(|refusal| problem_of(&refusal, "reading an object"))?;
        let instance = self.provider.instance(known);
        self.refuse_deleted(&instance, &live)?;
        Ok((instance, live))
    }

    /// One attempt; none where something changed between the look and the write.
    async fn try_update(
        &self,
        mut instance: Instance,
        live: &[(PlannedObject, Value)],
        key: Option<KeyUse>,
        request: &Request,
    ) -> Result<Option<Known>, Problem> {
        instance.inputs.patch = Some(request.spec.clone());
        self.judge(Moment::Update, request, &instance.identity, &mut instance.inputs).await?;
        let service = &self.provider.service;
        let spec = service
            .updated_spec(&instance.identity, &instance.inputs)
            .map_err(|error| broken_rule(&error))?;
        let under_way = Pending { patch: request.spec.clone(), spec, key };
        let pending = InstanceRecord { pending: Some(under_way), ..instance.known.record.clone() };
        let Some(known) = unless_changed(self.update_record(&instance.known, pending).await)? else {
            return Ok(None);
        };
        let mut patched = patch_objects(&self.provider, &instance, live).await;
        if in_doubt(&patched) {
            patched = self.patch_again(&instance).await;
        }
        let Err(refusal) = patched else { return self.conclude(known, true).await };
        if refusal.kind.leaves_doubt() {
            // What may have been written stays under way: the sweep ends it.
            return Err(problem_of(&refusal, "patching an object"));
        }
        // Nothing is under way any more, whatever the reason.
        self.conclude(known, false).await?;
        if refusal.kind == RefusalKind::Conflict {
            return Ok(None);
        }
        Err(problem_of_object(&refusal, "patching an object", request, "patch", || {
            let patches = service.trace_patches(&instance.identity, &instance.inputs)?;
            Ok(patches.into_iter().flat_map(|(_, fields)| fields).collect())
        }))
    }

    /// The record tells the outcome. Whatever else was written into it meanwhile changes nothing of that,
    /// unless somebody has ended this update already.
    async fn conclude(&self, mut known: Known, done: bool) -> Result<Option<Known>, Problem> {
        let pending = known.record.pending.clone();
        for _ in 0..ATTEMPTS {
            let mut record = known.record.clone();
            record.end_update(done);
            if let Some(known) = unless_changed(self.update_record(&known, record).await)? {
                return Ok(Some(known));
            }
            known = self.reread(&known.record.id).await?;
            if known.record.pending != pending {
                let same = pending.as_ref().is_some_and(|pending| pending.spec == known.record.spec);
                return Ok((known.record.pending.is_none() && same).then_some(known));
            }
        }
        Ok(None)
    }

    /// An answer was lost: patched once more, an object is as it should be whether it was so before or not.
    async fn patch_again(&self, instance: &Instance) -> Result<(), Refusal> {
        let live = look_live(&self.provider, &instance.known.record).await?;
        patch_objects(&self.provider, instance, &live).await
    }

    fn refuse_deleted(&self, instance: &Instance, live: &[(PlannedObject, Value)]) -> Result<(), Problem> {
        let id = &instance.known.record.id;
        let mut roots = live.iter().filter(|(planned, _)| planned.root).peekable();
        if roots.peek().is_none() {
            return Err(Problem::not_found(format!("there is no instance `{id}`")));
        }
        let terminating = roots.any(|(_, object)| object.pointer("/metadata/deletionTimestamp").is_some());
        if terminating || instance.known.record.state == State::Deleting {
            return Err(being_deleted(id));
        }
        Ok(())
    }
}

/// What is wanted of an instance and its objects, without what controllers say of them.
fn wish(record: &InstanceRecord, live: &[(PlannedObject, Value)]) -> Value {
    let specs = live.iter().map(|(planned, object)| (planned.name.clone(), object.get("spec").cloned()));
    json!({ "spec": record.spec, "objects": specs.collect::<Vec<_>>() })
}

/// The planned objects as the cluster has them now; memory learns of them.
pub(super) async fn look_live(
    provider: &Provider,
    record: &InstanceRecord,
) -> Result<Vec<(PlannedObject, Value)>, Refusal> {
    let mut live = Vec::new();
    for planned in &record.plan {
        let kind = planned.kind_ref();
        let resource = provider.resource(&kind).await?;
        let there = provider.cluster.get(&resource, &provider.namespace, &planned.name).await?;
        if let Some(object) = there.filter(|object| provider.is_planned(object, &record.id, planned)) {
            provider.saw(&kind, &object);
            live.push((planned.clone(), object));
        }
    }
    Ok(live)
}

fn in_doubt(patched: &Result<(), Refusal>) -> bool {
    patched.as_ref().is_err_and(|refusal| refusal.kind.leaves_doubt())
}

/// Patches each object under the version that was judged.
async fn patch_objects(
    provider: &Provider,
    instance: &Instance,
    live: &[(PlannedObject, Value)],
) -> Result<(), Refusal> {
    let patches = provider.service.patches(&instance.identity, &instance.inputs);
    for (index, patch) in patches.map_err(|error| Refusal::new(RefusalKind::Other, error.to_string()))? {
        let rule = &provider.service.objects[index];
        let Some((planned, object)) = live.iter().find(|(planned, _)| planned.object == rule.name) else {
            let what = format!("the object `{}` that is to be patched is not there", rule.name);
            return Err(Refusal::new(RefusalKind::Conflict, what));
        };
        let resource = provider.resource(&rule.kind).await?;
        let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let patched = provider
            .cluster
            .merge_patch(&resource, &provider.namespace, &planned.name, version, &patch)
            .await?;
        provider.saw(&rule.kind, &patched);
    }
    Ok(())
}

/// Ends an update that died: its objects are patched once more, which changes nothing where they were, and
/// the record tells the outcome.
pub async fn resume(provider: &Provider, known: &Known) -> Result<(), Refusal> {
    let Some(pending) = known.record.pending.clone() else { return Ok(()) };
    let live = look_live(provider, &known.record).await?;
    let mut instance = provider.instance(known.clone());
    instance.inputs.patch = Some(pending.patch);
    let mut record = known.record.clone();
    match patch_objects(provider, &instance, &live).await {
        Ok(()) => record.end_update(true),
        Err(refusal) if refusal.kind.is_transient() => return Err(refusal),
        Err(refusal) => {
            tracing::warn!(id = record.id, error = refusal.message, "an update was dropped");
            record.end_update(false);
        }
    }
    provider.update_record(known, record).await.map(|_| ())
}

/// A conflict is no refusal: the caller looks again.
fn unless_changed<T>(answer: Result<T, Refusal>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(refusal) if is_overtaken(&refusal) => Ok(None),
        Err(refusal) => Err(problem_of(&refusal, "updating the instance")),
    }
}
