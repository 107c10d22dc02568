//! Claims and volumes: which go together, what protects them while they are used, what is left afterwards.

use serde_json::{Value, json};

use super::collect::without;
use super::{Cluster, Next};
use crate::sandbox::object::{finalizers, is_deleting, list, map_at, name, namespace, text, uid};
use crate::sandbox::quantity;
use crate::sandbox::store::Key;

const COMPONENT: &str = "persistentvolume-controller";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

pub(super) fn reconcile(cluster: &Cluster, key: &Key) -> Next {
    let Some(claim) = cluster.get("persistentvolumeclaims", key) else { return Next::Done };
    if is_deleting(&claim) {
        if finalizers(&claim).contains(&CLAIM_PROTECTION) && !is_used(cluster, &claim) {
            without(cluster, &claim, CLAIM_PROTECTION);
        }
        return Next::Done;
    }
    let named = text(&claim, "/spec/volumeName");
    let volume = match named {
        "" => find(cluster, &claim),
        named => cluster.get("persistentvolumes", &(String::new(), named.to_owned())),
    };
    let bound = text(&claim, "/metadata/annotations/pv.kubernetes.io~1bind-completed") == "yes";
    match volume {
        Some(volume) if bound && !is_for(&volume, &claim) => {
            lose(cluster, &claim, "Two claims are bound to the same volume, this one is bound incorrectly")
        }
        Some(volume) => bind(cluster, &claim, &volume),
        None if bound => {
            lose(cluster, &claim, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        }
        None if named.is_empty() => explain(cluster, &claim),
        None => {}
    }
    Next::Done
}

pub(super) fn reconcile_volume(cluster: &Cluster, key: &Key) -> Next {
    let Some(volume) = cluster.get("persistentvolumes", key) else { return Next::Done };
    let reference = &volume["spec"]["claimRef"];
    let phase = text(&volume, "/status/phase");
    if is_deleting(&volume) {
        if finalizers(&volume).contains(&VOLUME_PROTECTION) && phase != "Bound" {
            without(cluster, &volume, VOLUME_PROTECTION);
        }
        return Next::Done;
    }
    if !reference.is_object() {
        set_phase(cluster, &volume, "Available");
        return Next::Done;
    }
    let claim = (text(reference, "/namespace").to_owned(), text(reference, "/name").to_owned());
    let claim = cluster.get("persistentvolumeclaims", &claim);
    let wanted = text(reference, "/uid");
    match claim {
        Some(claim) if wanted.is_empty() || uid(&claim) == wanted => {
            if wanted.is_empty() {
                set_phase(cluster, &volume, "Available");
            }
        }
        _ if wanted.is_empty() => set_phase(cluster, &volume, "Available"),
        _ => {
            set_phase(cluster, &volume, "Released");
            if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
                && volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"].is_string()
            {
                cluster.delete(&volume, "Background");
            }
        }
    }
    Next::Done
}

/// The volume that was made for the claim, or the smallest free one that will do.
fn find(cluster: &Cluster, claim: &Value) -> Option<Value> {
    let own = cluster.get("persistentvolumes", &(String::new(), format!("pvc-{}", uid(claim))));
    if own.is_some() {
        return own;
    }
    let mut fitting: Vec<(bool, i128, Value)> = cluster
        .all("persistentvolumes", "")
        .into_iter()
        .filter(|volume| !is_deleting(volume) && fits(volume, claim))
        .map(|volume| {
            let size = quantity::amount(text(&volume, "/spec/capacity/storage"), 0);
            (!volume["spec"]["claimRef"].is_object(), size, volume)
        })
        .collect();
    fitting.sort_by(|a, b| (a.0, a.1, name(&a.2)).cmp(&(b.0, b.1, name(&b.2))));
    let best = fitting.into_iter().next().map(|(_, _, volume)| volume)?;
    let waits =
        class_of(cluster, claim).is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
    (!waits || is_used(cluster, claim)).then_some(best)
}

fn fits(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    if reference.is_object() {
        return is_for(volume, claim);
    }
    let modes = list(volume, "/spec/accessModes");
    let size = |object: &Value, pointer: &str| quantity::amount(text(object, pointer), 0);
    text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && volume["spec"]["volumeMode"] == claim["spec"]["volumeMode"]
        && list(claim, "/spec/accessModes").iter().all(|mode| modes.contains(mode))
        && size(volume, "/spec/capacity/storage") >= size(claim, "/spec/resources/requests/storage")
}

/// Whether a volume names this claim.
fn is_for(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let same = text(reference, "/namespace") == namespace(claim) && text(reference, "/name") == name(claim);
    same && ["", uid(claim)].contains(&text(reference, "/uid"))
}

fn bind(cluster: &Cluster, claim: &Value, volume: &Value) {
    if volume["spec"]["claimRef"].is_object() && !is_for(volume, claim) {
        return;
    }
    if text(volume, "/spec/claimRef/uid").is_empty() {
        let bound = cluster.change(volume, |volume| {
            volume["spec"]["claimRef"] = json!({
                "kind": "PersistentVolumeClaim", "namespace": namespace(claim), "name": name(claim),
                "uid": uid(claim), "apiVersion": "v1",
                "resourceVersion": claim["metadata"]["resourceVersion"],
            });
            map_at(&mut volume["metadata"], "annotations").insert(BY_CONTROLLER.to_owned(), "yes".into());
        });
        if bound.is_err() {
            return;
        }
    }
    set_phase(cluster, volume, "Bound");
    if text(claim, "/metadata/annotations/pv.kubernetes.io~1bind-completed") != "yes" {
        let bound = cluster.change(claim, |claim| {
            let annotations = map_at(&mut claim["metadata"], "annotations");
            annotations.insert(COMPLETED.to_owned(), "yes".into());
            annotations.insert(BY_CONTROLLER.to_owned(), "yes".into());
            claim["spec"]["volumeName"] = name(volume).into();
        });
        if bound.is_err() {
            return;
        }
    }
    if text(claim, "/status/phase") != "Bound" {
        let _ = cluster.change_status(claim, |claim| {
            claim["status"]["phase"] = "Bound".into();
            claim["status"]["accessModes"] = volume["spec"]["accessModes"].clone();
            claim["status"]["capacity"] = volume["spec"]["capacity"].clone();
        });
    }
}

fn lose(cluster: &Cluster, claim: &Value, message: &str) {
    let reason = if message.starts_with("Two") { "ClaimMisbound" } else { "ClaimLost" };
    if text(claim, "/status/phase") != "Lost" {
        let _ = cluster.change_status(claim, |claim| {
            claim["status"] = json!({"phase": "Lost"});
        });
        cluster.event(claim, COMPONENT, "Warning", reason, message);
    }
}

/// Says why a claim is not bound.
fn explain(cluster: &Cluster, claim: &Value) {
    let class_name = text(claim, "/spec/storageClassName");
    let Some(class) = class_of(cluster, claim) else {
        if class_name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            cluster.event(claim, COMPONENT, "Normal", "FailedBinding", message);
        } else {
            let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
            cluster.event(claim, COMPONENT, "Warning", "ProvisioningFailed", &message);
        }
        return;
    };
    let provisioner = text(&class, "/provisioner");
    if class["volumeBindingMode"] == "WaitForFirstConsumer" && !is_used(cluster, claim) {
        let message = "waiting for first consumer to be created before binding";
        cluster.event(claim, COMPONENT, "Normal", "WaitForFirstConsumer", message);
        return;
    }
    if provisioner == "kubernetes.io/no-provisioner" {
        let message = "no persistent volumes available for this claim and no storage class is set";
        cluster.event(claim, COMPONENT, "Normal", "FailedBinding", message);
        return;
    }
    let annotation = text(claim, "/metadata/annotations/volume.kubernetes.io~1storage-provisioner");
    if annotation != provisioner {
        let _ = cluster.change(claim, |claim| {
            let annotations = map_at(&mut claim["metadata"], "annotations");
            for key in
                ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"]
            {
                annotations.insert(key.to_owned(), provisioner.into());
            }
        });
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
         the system administrator. If volume creation is delayed, please verify that the provisioner is running \
         and correctly registered."
    );
    cluster.event(claim, COMPONENT, "Normal", "ExternalProvisioning", &message);
}

fn class_of(cluster: &Cluster, claim: &Value) -> Option<Value> {
    let class = text(claim, "/spec/storageClassName").to_owned();
    cluster.get("storageclasses.storage.k8s.io", &(String::new(), class))
}

/// Whether a pod that has not ended names the claim.
fn is_used(cluster: &Cluster, claim: &Value) -> bool {
    cluster.all("pods", namespace(claim)).iter().any(|pod| {
        let ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
        let names = |volume: &Value| text(volume, "/persistentVolumeClaim/claimName") == name(claim);
        !ended && list(pod, "/spec/volumes").iter().any(names)
    })
}

fn set_phase(cluster: &Cluster, volume: &Value, phase: &str) {
    let key = (String::new(), name(volume).to_owned());
    let known =
        cluster.get("persistentvolumes", &key).is_some_and(|now| text(&now, "/status/phase") == phase);
    if !known {
        let _ = cluster.change_status(volume, |volume| volume["status"] = json!({"phase": phase}));
    }
}
