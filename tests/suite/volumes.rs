//! Volumes over REST: the claim that is made, its states, and how it grows.

use mapwright_testbed::{Kind, Objects, eventually, secs};
use serde_json::{Value, json};

use crate::dcm::{
    Dcm, FIXED, GROWING, SOON, VOLUMES, created, disk, faults, labels, make_classes, name_of, problem, with,
    without,
};

/// A provider where the classes are there and nobody binds a claim but the test.
async fn quiet(name: &str) -> Dcm {
    let dcm = Dcm::start_quietly(name, |launch| launch).await;
    make_classes(&dcm.objects).await;
    dcm
}

async fn live(name: &str) -> Dcm {
    let dcm = Dcm::start(name).await;
    make_classes(&dcm.objects).await;
    dcm
}

impl Dcm {
    /// Says of the claim of an instance what a binder would.
    pub(crate) async fn claim_is_bound(&self, id: &str) -> Value {
        let claim = self.only(&Kind::CLAIM, id).await;
        let volume = format!("pv-{}", name_of(&claim));
        let bound = json!({ "spec": { "volumeName": volume } });
        self.objects.patch(&Kind::CLAIM, name_of(&claim), bound).await.unwrap();
        let capacity = &claim["spec"]["resources"]["requests"]["storage"];
        let status = json!({ "phase": "Bound", "capacity": { "storage": capacity } });
        self.claim_becomes(id, status).await;
        self.says(VOLUMES, id, "RUNNING", &["PVC is bound to volume", &volume]).await
    }

    pub(crate) async fn claim_becomes(&self, id: &str, status: Value) {
        let claim = self.only(&Kind::CLAIM, id).await;
        self.becomes(&Kind::CLAIM, &claim, status).await;
    }
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!([{ "type": kind, "status": status, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z" }])
}

#[tokio::test]
async fn a_volume_is_a_claim_of_the_callers_name() {
    let dcm = live("s01").await;
    for (name, wrapped) in [("app-data", false), ("other-data", true)] {
        let spec = disk(name, "100Gi");
        let body = if wrapped { json!({ "spec": spec }) } else { spec.clone() };
        let answer = created(&dcm.post(VOLUMES, &body).await);
        let id = answer["id"].as_str().unwrap();
        assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
        let added = json!({ "name": name, "namespace": dcm.objects.namespace(), "storage_class": GROWING });
        let expected = json!({
            "id": id,
            "path": format!("volumes/{id}"),
            "status": "PROVISIONING",
            "status_message": answer["status_message"],
            "create_time": answer["create_time"],
            "update_time": answer["create_time"],
            "spec": with(spec, "/metadata", added),
        });
        assert_eq!(answer, expected);
        let claim = dcm.objects.get(&Kind::CLAIM, name).await.unwrap().unwrap();
        assert_eq!(claim["metadata"]["labels"], labels("storage", id));
        assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
        assert_eq!(claim["spec"]["storageClassName"], GROWING);
        assert_eq!(claim["spec"]["resources"], json!({ "requests": { "storage": "100Gi" } }));
    }
}

#[tokio::test]
async fn hints_are_mapped_and_those_of_others_are_echoed() {
    let dcm = live("s06").await;
    let hints = json!({
        "kubernetes": { "storage_class": FIXED, "volume_mode": "Block", "access_mode": "ReadWriteMany" },
        "vmware": { "datastore": "gold" },
    });
    let labelled = with(
        with(disk("hinted", "1Gi"), "/provider_hints", hints.clone()),
        "/metadata/labels",
        json!({ "a": "b" }),
    );
    let answer = dcm.volume("hinted-1", labelled).await;
    assert_eq!(answer["spec"]["provider_hints"], hints);
    let claim = dcm.only(&Kind::CLAIM, "hinted-1").await;
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(claim["spec"]["volumeMode"], "Block");
    assert_eq!(claim["spec"]["storageClassName"], FIXED);
    assert_eq!(claim["metadata"]["labels"], with(labels("storage", "hinted-1"), "/a", json!("b")));
    // The empty class is Kubernetes' word for none, and stays.
    dcm.volume(
        "classless",
        with(disk("classless", "1Gi"), "/provider_hints/kubernetes/storage_class", json!("")),
    )
    .await;
    assert_eq!(dcm.only(&Kind::CLAIM, "classless").await["spec"]["storageClassName"], "");
    dcm.volume("plain", without(disk("plain", "1Gi"), "/provider_hints")).await;
    assert_eq!(dcm.only(&Kind::CLAIM, "plain").await["spec"].get("storageClassName"), None);
}

#[tokio::test]
async fn defaults_stand_where_no_hint_does() {
    let dcm = Dcm::start_with("s07", |launch| {
        let launch = launch.env("SP_K8S_DEFAULT_STORAGE_CLASS", FIXED);
        launch.env("SP_K8S_DEFAULT_ACCESS_MODE", "ReadOnlyMany")
    })
    .await;
    make_classes(&dcm.objects).await;
    let plain = dcm.volume("plain", without(disk("plain", "1Gi"), "/provider_hints")).await;
    assert_eq!(plain["spec"]["metadata"]["storage_class"], FIXED);
    let claim = dcm.only(&Kind::CLAIM, "plain").await;
    assert_eq!(claim["spec"]["storageClassName"], FIXED);
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadOnlyMany"]));
    dcm.volume("hinted", disk("hinted", "1Gi")).await;
    assert_eq!(dcm.only(&Kind::CLAIM, "hinted").await["spec"]["storageClassName"], GROWING);
}

#[tokio::test]
async fn an_unknown_class_is_refused_before_anything_is_made() {
    let dcm = live("s04").await;
    let spec =
        with(disk("app-data", "1Gi"), "/provider_hints/kubernetes/storage_class", json!("no-such-class"));
    let answer = dcm.post(&format!("{VOLUMES}?id=a"), &spec).await;
    let document = problem(&answer, 422, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("no-such-class"), "{document}");
    assert_eq!(document["pointer"], "#/provider_hints/kubernetes/storage_class");
    assert_eq!(dcm.objects.list(&Kind::CLAIM, "").await.unwrap(), Vec::<Value>::new());
    problem(&dcm.get(&format!("{VOLUMES}/a")).await, 404, "not-found");
}

#[tokio::test]
async fn a_wrong_value_is_refused_with_its_pointer() {
    let dcm = live("s08").await;
    problem(&dcm.post(&format!("{VOLUMES}?id=health"), &disk("a", "1Gi")).await, 400, "invalid-argument");
    for capacity in ["ten", "10K", "0", "-1Gi", "", " 1Gi", "1Gi ", "1e", "Gi", "0.0Mi"] {
        let answer = dcm.post(VOLUMES, &disk("a", capacity)).await;
        assert_eq!(faults(&answer), ["#/capacity"], "{capacity}: {}", answer.text());
    }
    for member in ["/service_type", "/capacity", "/metadata", "/metadata/name"] {
        let (parent, name) = member.rsplit_once('/').unwrap();
        let answer = dcm.post(VOLUMES, &without(disk("a", "1Gi"), member)).await;
        // Without a service_type it is no bare spec of this type all the same.
        assert_eq!(faults(&answer), [format!("#{parent}")], "{member}: {}", answer.text());
        assert!(answer.json()["detail"].as_str().unwrap().contains(name), "{}", answer.text());
    }
    for (member, value) in [
        ("/service_type", json!("container")),
        ("/metadata/name", json!("Data")),
        ("/metadata/namespace", json!("x")),
        ("/metadata/volume_name", json!("x")),
        ("/metadata/storage_class", json!("x")),
        ("/provider_hints/kubernetes/access_mode", json!("ReadWriteOncePod")),
        ("/provider_hints/kubernetes/volume_mode", json!("block")),
        ("/provider_hints/kubernetes/size", json!(1)),
        ("/provider_hints/kubernetes", json!([])),
    ] {
        let answer = dcm.post(VOLUMES, &json!({ "spec": with(disk("a", "1Gi"), member, value) })).await;
        assert_eq!(faults(&answer), [format!("#/spec{member}")], "{}", answer.text());
    }
    assert_eq!(dcm.objects.list(&Kind::CLAIM, "").await.unwrap(), Vec::<Value>::new());
    dcm.volume("ten", disk("ten", "10")).await;
    dcm.volume("half", disk("half", "1.5Gi")).await;
    let requested = &dcm.only(&Kind::CLAIM, "half").await["spec"]["resources"]["requests"]["storage"];
    assert_eq!(requested, "1536Mi");
    assert_eq!(dcm.read(VOLUMES, "half").await["spec"]["capacity"], "1.5Gi");
}

#[tokio::test]
async fn a_name_is_given_once_and_its_owner_keeps_it() {
    let dcm = live("s10").await;
    dcm.volume("first", disk("data", "1Gi")).await;
    let before = dcm.only(&Kind::CLAIM, "first").await;
    for id in ["second", "first"] {
        let answer = dcm.post(&format!("{VOLUMES}?id={id}"), &disk("data", "1Gi")).await;
        problem(&answer, 409, "already-exists");
    }
    problem(&dcm.get(&format!("{VOLUMES}/second")).await, 404, "not-found");
    let after = dcm.only(&Kind::CLAIM, "first").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    // A claim that is not ours has its name too, and is never taken away.
    let stranger = json!({ "metadata": { "name": "theirs" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    dcm.objects.create(&Kind::CLAIM, stranger).await.unwrap();
    problem(&dcm.post(VOLUMES, &disk("theirs", "1Gi")).await, 409, "already-exists");
    assert!(dcm.objects.get(&Kind::CLAIM, "theirs").await.unwrap().is_some());
}

#[tokio::test]
async fn the_phase_and_the_conditions_of_a_claim_are_its_status() {
    let dcm = quiet("s12").await;
    dcm.volume("vol", disk("vol", "10Gi")).await;
    dcm.says(VOLUMES, "vol", "PROVISIONING", &[]).await;
    let shown = dcm.claim_is_bound("vol").await;
    assert_eq!(shown["spec"]["metadata"]["volume_name"], "pv-vol");
    dcm.claim_becomes("vol", json!({ "conditions": condition("Resizing", "True", "") })).await;
    let shown = dcm.says(VOLUMES, "vol", "PROVISIONING", &["resizing"]).await;
    assert_eq!(shown["update_time"], "2026-01-02T03:04:05Z");
    dcm.claim_becomes("vol", json!({ "conditions": condition("Resizing", "False", "") })).await;
    dcm.says(VOLUMES, "vol", "RUNNING", &[]).await;
    let pending = condition("FileSystemResizePending", "True", "waiting for a node");
    dcm.claim_becomes("vol", json!({ "conditions": pending })).await;
    dcm.says(VOLUMES, "vol", "PROVISIONING", &["pod", "waiting for a node"]).await;
    dcm.claim_becomes("vol", json!({ "phase": "Lost" })).await;
    dcm.says(VOLUMES, "vol", "FAILED", &["lost"]).await;
    let hold = json!({ "metadata": { "finalizers": ["test.example/hold"] } });
    dcm.objects.patch(&Kind::CLAIM, "vol", hold).await.unwrap();
    for _ in 0..2 {
        assert_eq!(dcm.delete(VOLUMES, "vol").await.status, 204);
    }
    dcm.says(VOLUMES, "vol", "DELETING", &["deleted"]).await;
    problem(&dcm.patch("vol", json!({ "capacity": "20Gi" })).await, 409, "failed-precondition");
    let again = dcm.post(&format!("{VOLUMES}?id=other"), &disk("vol", "1Gi")).await;
    let document = problem(&again, 409, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("is being deleted"), "{document}");
    dcm.objects.patch(&Kind::CLAIM, "vol", json!({ "metadata": { "finalizers": [] } })).await.unwrap();
    dcm.is_gone(VOLUMES, "vol").await;
    dcm.events.wait_for("vol", "DELETED", SOON).await.unwrap();
}

#[tokio::test]
async fn a_patch_makes_a_volume_larger() {
    let dcm = quiet("s15").await;
    dcm.volume("vol", disk("vol", "100Gi")).await;
    problem(&dcm.patch("vol", json!({ "capacity": "200Gi" })).await, 422, "failed-precondition");
    dcm.claim_is_bound("vol").await;
    let answer = dcm.patch("vol", json!({ "capacity": "200Gi" })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let shown = answer.json();
    assert_eq!((&shown["status"], &shown["spec"]["capacity"]), (&json!("PROVISIONING"), &json!("200Gi")));
    let claim = dcm.only(&Kind::CLAIM, "vol").await;
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "200Gi");
    let resizing = condition("Resizing", "True", "");
    dcm.claim_becomes("vol", json!({ "conditions": resizing })).await;
    dcm.says(VOLUMES, "vol", "PROVISIONING", &["200Gi"]).await;
    dcm.claim_becomes("vol", json!({ "conditions": null, "capacity": { "storage": "200Gi" } })).await;
    let shown = dcm.says(VOLUMES, "vol", "RUNNING", &["pv-vol"]).await;
    assert_eq!(shown["spec"]["capacity"], "200Gi");
}

#[tokio::test]
async fn a_patch_is_judged_in_the_order_of_the_contract() {
    let dcm = quiet("s16").await;
    problem(&dcm.patch("nobody", json!({ "capacity": "1Gi" })).await, 404, "not-found");
    dcm.volume("vol", disk("vol", "100Gi")).await;
    dcm.claim_is_bound("vol").await;
    for capacity in ["100Gi", "50Gi", "102400Mi", "ten", "0"] {
        assert_eq!(faults(&dcm.patch("vol", json!({ "capacity": capacity })).await), ["#/capacity"]);
        let wrapped = dcm.patch("vol", json!({ "spec": { "capacity": capacity } })).await;
        assert_eq!(faults(&wrapped), ["#/spec/capacity"]);
    }
    let both = json!({ "capacity": "200Gi", "metadata": { "name": "x" }, "colour": 1 });
    assert_eq!(faults(&dcm.patch("vol", both.clone()).await), ["#/metadata", "#/colour"]);
    assert_eq!(
        faults(&dcm.patch("vol", json!({ "spec": both })).await),
        ["#/spec/metadata", "#/spec/colour"]
    );
    assert_eq!(faults(&dcm.patch("vol", json!({})).await), ["#"]);
    assert_eq!(dcm.read(VOLUMES, "vol").await["spec"]["capacity"], "100Gi");

    let fixed = with(disk("rigid", "1Gi"), "/provider_hints/kubernetes/storage_class", json!(FIXED));
    dcm.volume("rigid", fixed).await;
    let none = with(disk("none", "1Gi"), "/provider_hints/kubernetes/storage_class", json!(""));
    dcm.volume("none", none).await;
    for id in ["rigid", "none"] {
        // Neither larger nor smaller nor bound matters where the class does not allow it.
        for capacity in ["2Gi", "1Mi"] {
            problem(&dcm.patch(id, json!({ "capacity": capacity })).await, 422, "failed-precondition");
        }
    }
    // Compared as numbers: 2.2Ti reads back in milli-bytes.
    let merge = [("content-type", "application/merge-patch+json")];
    for (id, from, to) in [("exact", "2048Gi", "2.2Ti"), ("twice", "2Ti", "2049Gi")] {
        dcm.volume(id, disk(id, from)).await;
        dcm.claim_is_bound(id).await;
        problem(&dcm.patch(id, json!({ "capacity": "2Ti" })).await, 400, "invalid-argument");
        let body = json!({ "capacity": to }).to_string();
        let answer = dcm.http.request("PATCH", &format!("{VOLUMES}/{id}"), &merge, body).await.unwrap();
        assert_eq!(
            (answer.status, &answer.json()["spec"]["capacity"]),
            (200, &json!(to)),
            "{}",
            answer.text()
        );
        problem(&dcm.patch(id, json!({ "capacity": to })).await, 400, "invalid-argument");
    }
}

#[tokio::test]
async fn a_quota_bounds_what_a_patch_may_ask() {
    let dcm = live("s18").await;
    dcm.volume("vol", disk("vol", "1Gi")).await;
    dcm.claim_is_bound_by_hand("vol").await;
    assert_eq!(dcm.patch("vol", json!({ "capacity": "2Gi" })).await.status, 200);
    let total = json!({ "requests.storage": "5Gi" });
    quota(&dcm, "total", total).await;
    let answer = dcm.patch("vol", json!({ "capacity": "6Gi" })).await;
    let document = problem(&answer, 409, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("total"), "{document}");
    assert_eq!(dcm.read(VOLUMES, "vol").await["spec"]["capacity"], "2Gi");
    assert_eq!(dcm.patch("vol", json!({ "capacity": "3Gi" })).await.status, 200);
    let of_class = json!({ format!("{GROWING}.storageclass.storage.k8s.io/requests.storage"): "4Gi" });
    quota(&dcm, "of-class", of_class).await;
    let answer = dcm.patch("vol", json!({ "capacity": "5Gi" })).await;
    let document = problem(&answer, 409, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("of-class"), "{document}");
    // A create meets the API server's own refusal, and leaves nothing.
    let answer = dcm.post(&format!("{VOLUMES}?id=more"), &disk("more", "10Gi")).await;
    let document = problem(&answer, 409, "failed-precondition");
    assert!(document["detail"].as_str().unwrap().contains("exceeded quota"), "{document}");
    assert_eq!(dcm.of(&Kind::CLAIM, "more").await, Vec::<Value>::new());
    assert_eq!(dcm.of(&Kind::CONFIG_MAP, "more").await, Vec::<Value>::new());
}

impl Dcm {
    /// Where a binder is at work: it has no volume for the claim, so the test says that there is one.
    pub(crate) async fn claim_is_bound_by_hand(&self, id: &str) {
        let claim = self.only(&Kind::CLAIM, id).await;
        let class = claim["spec"]["storageClassName"].as_str().unwrap();
        bind(&self.objects, &format!("{}-{id}", self.objects.namespace()), &claim, class, "1Gi").await;
        self.says(VOLUMES, id, "RUNNING", &["bound"]).await;
    }
}

async fn quota(dcm: &Dcm, name: &str, hard: Value) {
    let quota = json!({ "metadata": { "name": name }, "spec": { "hard": hard } });
    dcm.objects.create(&Kind::QUOTA, quota).await.unwrap();
    let counted = async || {
        let quota = dcm.objects.get(&Kind::QUOTA, name).await.ok()??;
        quota["status"]["used"]
            .as_object()
            .is_some_and(|used| used.values().all(|used| used != "0"))
            .then_some(())
    };
    eventually("the quota counts", SOON, counted).await.unwrap();
}

/// Makes a volume that is meant for one claim.
pub(crate) async fn bind(objects: &Objects, name: &str, claim: &Value, class: &str, capacity: &str) {
    let volume = json!({ "metadata": { "name": name }, "spec": {
        "storageClassName": class, "capacity": { "storage": capacity }, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": format!("/nowhere/{name}") },
        "claimRef": { "namespace": objects.namespace(), "name": name_of(claim), "uid": claim["metadata"]["uid"] },
    } });
    Objects::cluster(objects.client().clone()).create(&Kind::VOLUME, volume).await.unwrap();
}

#[tokio::test]
async fn a_real_binder_binds_a_static_volume() {
    let dcm = live("s20").await;
    dcm.volume("vol", disk("vol", "1Gi")).await;
    dcm.events.wait_for("vol", "PROVISIONING", SOON).await.unwrap();
    let claim = dcm.only(&Kind::CLAIM, "vol").await;
    let name = format!("{}-static", dcm.objects.namespace());
    bind(&dcm.objects, &name, &claim, GROWING, "1Gi").await;
    let shown = dcm.says(VOLUMES, "vol", "RUNNING", &[&format!("PVC is bound to volume {name}")]).await;
    assert_eq!(shown["spec"]["metadata"]["volume_name"], name.as_str());
    assert_eq!(dcm.events.statuses("vol"), ["PROVISIONING", "RUNNING"]);
    assert_eq!(dcm.get(VOLUMES).await.json(), json!({ "volumes": [shown] }));
    assert_eq!(dcm.delete(VOLUMES, "vol").await.status, 204);
    dcm.is_gone(VOLUMES, "vol").await;
    dcm.events.wait_for("vol", "DELETED", SOON).await.unwrap();
}

#[tokio::test]
async fn an_infeasible_resize_is_corrected_by_a_smaller_one() {
    let dcm = quiet("s22").await;
    dcm.volume("vol", disk("vol", "10Gi")).await;
    dcm.claim_is_bound("vol").await;
    assert_eq!(dcm.patch("vol", json!({ "capacity": "900Ti" })).await.status, 200);
    let infeasible = json!({
        "allocatedResourceStatuses": { "storage": "ControllerResizeInfeasible" },
        "allocatedResources": { "storage": "900Ti" },
    });
    dcm.claim_becomes("vol", infeasible).await;
    dcm.says(VOLUMES, "vol", "FAILED", &["ControllerResizeInfeasible", "900Ti"]).await;
    for capacity in ["10Gi", "5Gi"] {
        assert_eq!(faults(&dcm.patch("vol", json!({ "capacity": capacity })).await), ["#/capacity"]);
    }
    let answer = dcm.patch("vol", json!({ "capacity": "20Gi" })).await;
    assert_eq!(
        (answer.status, &answer.json()["spec"]["capacity"]),
        (200, &json!("20Gi")),
        "{}",
        answer.text()
    );
    let mended = json!({
        "allocatedResourceStatuses": null, "allocatedResources": null, "capacity": { "storage": "20Gi" },
    });
    dcm.claim_becomes("vol", mended).await;
    dcm.says(VOLUMES, "vol", "RUNNING", &["pv-vol"]).await;
}

#[tokio::test]
async fn only_a_current_warning_of_the_claim_makes_it_fail() {
    let dcm = quiet("m06").await;
    dcm.volume("vol", disk("vol", "10Gi")).await;
    dcm.says(VOLUMES, "vol", "PROVISIONING", &[]).await;
    let claim = dcm.only(&Kind::CLAIM, "vol").await;
    // Neither a normal event, nor another reason, nor the one of a claim that had the name before.
    event(&dcm, &claim, "normal", "Normal", "ProvisioningFailed", "not at all").await;
    event(&dcm, &claim, "other", "Warning", "BackOff", "something else").await;
    let former = with(claim.clone(), "/metadata/uid", json!("00000000-0000-0000-0000-000000000000"));
    event(&dcm, &former, "former", "Warning", "ProvisioningFailed", "long ago").await;
    dcm.events.quiet("vol", secs(2)).await.unwrap();
    assert_eq!(dcm.read(VOLUMES, "vol").await["status"], "PROVISIONING");
    event(&dcm, &claim, "warning", "Warning", "ProvisioningFailed", "pool gold is full").await;
    dcm.says(VOLUMES, "vol", "FAILED", &["ProvisioningFailed", "pool gold is full"]).await;
    // A volume that recovered is not failed again by an old event.
    dcm.claim_is_bound("vol").await;
    dcm.events.quiet("vol", secs(1)).await.unwrap();
}

/// An event about a claim, as a provisioner would record it.
pub(crate) async fn event(dcm: &Dcm, claim: &Value, name: &str, kind: &str, reason: &str, message: &str) {
    let event = json!({
        "metadata": { "name": format!("{}.{name}", name_of(claim)) },
        "involvedObject": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name_of(claim),
            "namespace": dcm.objects.namespace(), "uid": claim["metadata"]["uid"],
        },
        "type": kind, "reason": reason, "message": message, "action": "Provision",
        "reportingComponent": "test.example/provisioner", "reportingInstance": "one",
        "firstTimestamp": now(), "lastTimestamp": now(), "count": 1,
    });
    dcm.objects.create(&Kind::EVENT, event).await.unwrap();
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
