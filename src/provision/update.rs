//! A PATCH: judged against the live objects, written under their versions, re-judged once on a conflict.

use serde_json::Value;

use super::Provisioner;
use super::answer::{broken_rule, problem_of, problem_of_object};
use super::claim::{being_deleted, key_reused};
use crate::cluster::{Refusal, RefusalKind};
use crate::engine::format::Moment;
use crate::engine::json::canonical;
use crate::engine::names::fingerprint;
use crate::engine::problem::Problem;
use crate::engine::request::Request;
use crate::provider::{Instance, Known, Provider};
use crate::record::{InstanceRecord, Method, Pending, PlannedObject, State};

impl Provisioner {
    pub async fn update(&self, id: &str, key: Option<&str>, body: Value) -> Result<Value, Problem> {
        let known = self.resolve(id).await?;
        let digest = fingerprint(&[&canonical(&body)]);
        match known.record.key_use(key, Method::Update) {
            Some(used) if used.digest == digest => return self.show(known),
            Some(_) => return Err(key_reused()),
            None => {}
        }
        let request = self.provider.service.read_update(body);
        match self.try_update(known.clone(), key, &digest, &request).await? {
            Some(known) => self.show(known),
            None => {
                let known = self.reread(&known.record.id).await?;
                let second = self.try_update(known, key, &digest, &request).await?;
                let conflict = "the instance was changed by somebody else at the same time; try again";
                second.ok_or_else(|| Problem::conflict(conflict)).and_then(|known| self.show(known))
            }
        }
    }

    /// One attempt; none where something changed between the look and the write.
    async fn try_update(
        &self,
        known: Known,
        key: Option<&str>,
        digest: &str,
        request: &Request,
    ) -> Result<Option<Known>, Problem> {
        let live = look_live(&self.provider, &known.record).await;
        let live = live.map_err(|refusal| problem_of(&refusal, "reading an object"))?;
        let mut instance = self.provider.instance(known);
        self.refuse_deleted(&instance, &live)?;
        instance.inputs.patch = Some(request.spec.clone());
        self.judge(Moment::Update, request, &instance.identity, &mut instance.inputs).await?;
        let service = &self.provider.service;
        let spec = service
            .updated_spec(&instance.identity, &instance.inputs)
            .map_err(|error| broken_rule(&error))?;
        let under_way = Pending { patch: request.spec.clone(), spec: spec.clone() };
        let pending = InstanceRecord { pending: Some(under_way), ..instance.known.record.clone() };
        let Some(known) = unless_changed(self.update_record(&instance.known, pending).await)? else {
            return Ok(None);
        };
        let mut patched = patch_objects(&self.provider, &instance, &live).await;
        if in_doubt(&patched) {
            patched = self.patch_again(&instance).await;
        }
        match patched {
            Ok(()) => {}
            // What may have been written stays under way: the sweep ends it.
            Err(refusal) if refusal.kind.leaves_doubt() => {
                return Err(problem_of(&refusal, "patching an object"));
            }
            Err(refusal) => {
                // Nothing is under way any more, whatever the reason.
                let record = InstanceRecord { pending: None, ..known.record.clone() };
                unless_changed(self.update_record(&known, record).await)?;
                if refusal.kind == RefusalKind::Conflict {
                    return Ok(None);
                }
                return Err(problem_of_object(&refusal, "patching an object", request, "patch", || {
                    let patches = service.trace_patches(&instance.identity, &instance.inputs)?;
                    Ok(patches.into_iter().flat_map(|(_, fields)| fields).collect())
                }));
            }
        }
        let mut record = InstanceRecord { spec, pending: None, ..known.record.clone() };
        record.use_key(key, Method::Update, digest);
        unless_changed(self.update_record(&known, record).await)
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
    let mut record = InstanceRecord { pending: None, ..known.record.clone() };
    match patch_objects(provider, &instance, &live).await {
        Ok(()) => record.spec = pending.spec,
        Err(refusal) if refusal.kind.is_transient() => return Err(refusal),
        Err(refusal) => tracing::warn!(id = record.id, error = refusal.message, "an update was dropped"),
    }
    provider.update_record(known, record).await.map(|_| ())
}

/// A conflict is no refusal: the caller looks again.
fn unless_changed<T>(answer: Result<T, Refusal>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(refusal) if refusal.kind == RefusalKind::Conflict => Ok(None),
        Err(refusal) => Err(problem_of(&refusal, "updating the instance")),
    }
}
