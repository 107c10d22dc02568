//! A PATCH: judged against the live objects, written under their versions, re-judged once on a conflict.

use serde_json::Value;

use super::Provisioner;
use super::answer::{broken_rule, problem_of};
use super::claim::{being_deleted, contradiction, key_reused};
use crate::cluster::{Refusal, RefusalKind};
use crate::engine::format::Moment;
use crate::engine::json::canonical;
use crate::engine::names::fingerprint;
use crate::engine::problem::Problem;
use crate::engine::request::Request;
use crate::engine::service::KindRef;
use crate::provider::{Instance, Known};
use crate::record::{InstanceRecord, Method, PlannedObject, State};

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
        let live = self.look_live(&known.record).await?;
        let mut instance = self.provider.instance(known);
        self.refuse_deleted(&instance, &live)?;
        instance.inputs.patch = Some(request.spec.clone());
        self.judge(Moment::Update, request, &instance.identity, &mut instance.inputs).await?;
        let service = &self.provider.service;
        let spec = service
            .updated_spec(&instance.identity, &instance.inputs)
            .map_err(|error| broken_rule(&error))?;
        let pending = InstanceRecord { pending: Some(spec.clone()), ..instance.known.record.clone() };
        let Some(known) = unless_changed(self.update_record(&instance.known, pending).await)? else {
            return Ok(None);
        };
        if !self.patch_objects(&instance, &live).await? {
            return Ok(None);
        }
        let mut record = InstanceRecord { spec, pending: None, ..known.record.clone() };
        record.use_key(key, Method::Update, digest);
        unless_changed(self.update_record(&known, record).await)
    }

    /// The planned objects as the cluster has them now; memory learns of them.
    async fn look_live(&self, record: &InstanceRecord) -> Result<Vec<(PlannedObject, Value)>, Problem> {
        let provider = &self.provider;
        let refused = |refusal: Refusal| problem_of(&refusal, "reading an object");
        let mut live = Vec::new();
        for planned in &record.plan {
            let kind = KindRef { api_version: planned.api_version.clone(), kind: planned.kind.clone() };
            let resource = provider.resource(&kind).await.map_err(refused)?;
            let there =
                provider.cluster.get(&resource, &provider.namespace, &planned.name).await.map_err(refused)?;
            if let Some(object) = there.filter(|object| provider.is_planned(object, &record.id, planned)) {
                provider.saw(&kind, &object);
                live.push((planned.clone(), object));
            }
        }
        Ok(live)
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

    /// Patches each object under the version that was judged; false where one changed in between.
    async fn patch_objects(
        &self,
        instance: &Instance,
        live: &[(PlannedObject, Value)],
    ) -> Result<bool, Problem> {
        let provider = &self.provider;
        let patches = provider.service.patches(&instance.identity, &instance.inputs);
        for (index, patch) in patches.map_err(|error| broken_rule(&error))? {
            let rule = &provider.service.objects[index];
            let Some((planned, object)) = live.iter().find(|(planned, _)| planned.object == rule.name) else {
                return Err(contradiction("an object that is to be patched is not there"));
            };
            let refused = |refusal: Refusal| problem_of(&refusal, "patching an object");
            let resource = provider.resource(&rule.kind).await.map_err(refused)?;
            let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            let patched = provider
                .cluster
                .merge_patch(&resource, &provider.namespace, &planned.name, version, &patch)
                .await;
            match unless_changed(patched)? {
                Some(object) => provider.saw(&rule.kind, &object),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// A conflict is no refusal: the caller looks again.
fn unless_changed<T>(answer: Result<T, Refusal>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(refusal) if refusal.kind == RefusalKind::Conflict => Ok(None),
        Err(refusal) => Err(problem_of(&refusal, "updating the instance")),
    }
}
