//! Objects of a plan: made side by side, and taken away again.

use futures::future::join_all;
use serde_json::{Value, json};

use super::Provisioner;
use crate::cluster::{Deleted, Preconditions, Propagation, Refusal, RefusalKind};
use crate::engine::format;
use crate::engine::inputs::uid_of;
use crate::engine::manifest::Manifest;
use crate::engine::service::KindRef;
use crate::provider::{Known, Provider};
use crate::record::{InstanceRecord, Method, PlannedObject, State};

/// Why the objects of a plan are not there.
#[derive(Debug)]
pub(super) enum NotApplied {
    /// A generated name belongs to somebody else's object: another name may do.
    NameInUse,
    /// The object, by its name within the mapping, and why it was refused.
    Refused(String, Refusal),
}

/// The objects of manifests, as a record plans them.
pub(super) fn plan(manifests: &[Manifest], life: u64) -> Vec<PlannedObject> {
    let planned = manifests.iter().map(|manifest| PlannedObject {
        object: manifest.object.clone(),
        api_version: manifest.kind.api_version.clone(),
        kind: manifest.kind.kind.clone(),
        name: manifest.name.clone(),
        life,
        root: manifest.root,
        uid: None,
    });
    planned.collect()
}

impl Provisioner {
    /// Makes every object: first those that nothing owns, side by side, then those that they own.
    pub(super) async fn apply(
        &self,
        record: &InstanceRecord,
        manifests: &[Manifest],
    ) -> Result<Vec<Value>, NotApplied> {
        let mut made: Vec<Option<Value>> = vec![None; manifests.len()];
        while made.iter().any(Option::is_none) {
            let ready: Vec<(usize, Value)> = (0..manifests.len())
                .filter(|index| made[*index].is_none())
                .filter_map(|index| Some((index, owned_body(index, manifests, &made)?)))
                .collect();
            let calls = ready.iter().map(|(index, body)| self.make(record, &manifests[*index], body));
            for ((index, _), answer) in ready.iter().zip(join_all(calls).await) {
                made[*index] = Some(answer?);
            }
        }
        Ok(made.into_iter().flatten().collect())
    }

    /// Makes one object. An object of ours that is there already is success: a reply may have been lost.
    async fn make(
        &self,
        record: &InstanceRecord,
        manifest: &Manifest,
        body: &Value,
    ) -> Result<Value, NotApplied> {
        let provider = &self.provider;
        let refused = |refusal| NotApplied::Refused(manifest.object.clone(), refusal);
        let resource = provider.resource(&manifest.kind).await.map_err(refused)?;
        let refusal = match provider.cluster.create(&resource, &provider.namespace, body).await {
            Ok(object) => return Ok(object),
            Err(refusal) => refusal,
        };
        let taken = matches!(refusal.kind, RefusalKind::AlreadyExists | RefusalKind::BeingDeleted);
        if !taken && !refusal.kind.leaves_doubt() {
            return Err(refused(refusal));
        }
        let planned = record.plan.iter().find(|planned| planned.object == manifest.object);
        let there = provider.cluster.get(&resource, &provider.namespace, &manifest.name).await;
        match (there, planned) {
            (Ok(Some(object)), Some(planned)) if provider.is_planned(&object, &record.id, planned) => {
                Ok(object)
            }
            (Ok(_), _) if taken && manifest.renamable => Err(NotApplied::NameInUse),
            _ => Err(refused(refusal)),
        }
    }
}

/// The record learns that its objects are there, and their uids.
pub(super) async fn promote(provider: &Provider, known: &Known, objects: &[Value]) -> Result<(), Refusal> {
    let mut record = InstanceRecord { state: State::Ready, ..known.record.clone() };
    for (planned, object) in record.plan.iter_mut().zip(objects) {
        planned.uid = Some(uid_of(object).to_owned());
    }
    provider.update_record(known, record).await?;
    provider.record_says_so(&known.record.id);
    Ok(())
}

/// Takes back a create that was refused or has died: the objects, then the claim.
pub(super) async fn abandon(provider: &Provider, known: &Known) -> Result<(), Refusal> {
    if seeded!("no-rollback") {
        return Ok(());
    }
    remove_objects(provider, &known.record.id, known.record.plan.iter()).await?;
    let first = known.record.life == 1 && known.record.owed_end.is_none();
    if first {
        return provider.drop_record(known).await;
    }
    let mut record = InstanceRecord { state: State::Deleting, ..known.record.clone() };
    // A failed attempt is not replayed: its key makes the next one.
    record.keys.retain(|used| used.method != Method::Create);
    provider.update_record(known, record).await.map(|_| ())
}

/// Ends a create that died half-way: everything is there and it is ready, or nothing of it stays.
pub async fn complete(provider: &Provider, known: &Known) -> Result<(), Refusal> {
    let mut objects = Vec::new();
    for planned in &known.record.plan {
        let kind = planned.kind_ref();
        let resource = provider.resource(&kind).await?;
        let there = provider.cluster.get(&resource, &provider.namespace, &planned.name).await?;
        objects.extend(there.filter(|object| provider.is_planned(object, &known.record.id, planned)));
    }
    if objects.len() == known.record.plan.len() {
        promote(provider, known, &objects).await
    } else {
        abandon(provider, known).await
    }
}

/// The body of a manifest with its owner reference; none while its owner is not there yet.
fn owned_body(index: usize, manifests: &[Manifest], made: &[Option<Value>]) -> Option<Value> {
    let manifest = &manifests[index];
    let mut body = manifest.body.clone();
    let Some(owner) = &manifest.owned_by else { return Some(body) };
    // An owner that `when` left out owns nothing.
    let Some(position) = manifests.iter().position(|other| other.object == *owner) else { return Some(body) };
    let owner = made[position].as_ref()?;
    let KindRef { api_version, kind } = &manifests[position].kind;
    body["metadata"]["ownerReferences"] = json!([{
        "apiVersion": api_version,
        "kind": kind,
        "name": manifests[position].name,
        "uid": uid_of(owner),
    }]);
    Some(body)
}

/// Deletes planned objects, each only if it is the one that was planned. What is missing is success.
pub async fn remove_objects<'p>(
    provider: &Provider,
    id: &str,
    planned: impl Iterator<Item = &'p PlannedObject>,
) -> Result<(), Refusal> {
    let removals = planned.map(|planned| remove(provider, id, planned));
    join_all(removals).await.into_iter().collect()
}

async fn remove(provider: &Provider, id: &str, planned: &PlannedObject) -> Result<(), Refusal> {
    let kind = planned.kind_ref();
    let resource = provider.resource(&kind).await?;
    let there = provider.cluster.get(&resource, &provider.namespace, &planned.name).await?;
    let Some(object) = there.filter(|object| provider.is_planned(object, id, planned)) else {
        if let Some(uid) = &planned.uid {
            provider.saw_gone(&kind, &planned.name, uid);
        }
        return Ok(());
    };
    let uid = (!seeded!("no-uid-check")).then(|| uid_of(&object));
    let uid = Preconditions { uid, resource_version: None };
    let deletion = provider.cluster.delete(
        &resource,
        &provider.namespace,
        &planned.name,
        uid,
        propagation(provider, planned),
    );
    match deletion.await? {
        Deleted::Terminating(object) => provider.saw(&kind, &object),
        Deleted::Gone | Deleted::Missing => provider.saw_gone(&kind, &planned.name, uid_of(&object)),
        // Another object has the name by now: ours is gone.
        Deleted::NotOurs => {}
    }
    Ok(())
}

fn propagation(provider: &Provider, planned: &PlannedObject) -> Propagation {
    match provider.service.object(&planned.object).map(|rule| rule.propagation) {
        Some(format::Propagation::Foreground) => Propagation::Foreground,
        Some(format::Propagation::Orphan) => Propagation::Orphan,
        Some(format::Propagation::Background) | None => Propagation::Background,
    }
}

/// Whether the cluster itself says that no root of a record's lives is left.
pub async fn confirm_gone(provider: &Provider, record: &InstanceRecord) -> Result<bool, Refusal> {
    for planned in record.all_planned().filter(|planned| planned.root) {
        let kind = planned.kind_ref();
        let resource = provider.resource(&kind).await?;
        let there = provider.cluster.get(&resource, &provider.namespace, &planned.name).await?;
        if there.is_some_and(|object| provider.is_planned(&object, &record.id, planned)) {
            return Ok(false);
        }
    }
    Ok(true)
}
