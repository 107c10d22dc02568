//! The life that is disturbed: containers and a volume, made, changed, lost and deleted.
//!
//! Messages of pods carry the number of the step that wrote them, so that an older status after a newer one
//! is seen.

use serde_json::{Value, json};

use super::stage::{CLASS, CONTAINERS, Stage, VOLUMES};
use crate::failure::{Failure, Result};
use crate::objects::Kind;
use crate::wait::eventually;

/// Plays the whole script. Only one create is not insisted on: `c3`, which may be whole or nothing.
pub(super) async fn play(stage: &Stage) -> Result<()> {
    stage.create("c1", "key-c1", &web(&["internal"])).await?;
    let first = stage.rolls_out("c1").await?;
    stage.phase(&first, "Running", "step 1").await?;
    stage.agrees("c1", "RUNNING").await?;
    one_of_two_wins(stage).await?;
    a_repeat_makes_nothing(stage).await?;

    stage.create("v1", "key-v1", &disk()).await?;
    stage.binds("v1").await?;
    stage.agrees("v1", "RUNNING").await?;

    let second = stage.rolls_out("c2").await?;
    stage.phase(&second, "Failed", "step 2").await?;
    stage.agrees("c2", "FAILED").await?;
    // What happens in between is overwritten before anybody may have looked.
    for (phase, step) in [("Running", 3), ("Failed", 4), ("Running", 5)] {
        stage.phase(&second, phase, &format!("step {step}")).await?;
    }
    stage.phase(&first, "Failed", "step 6").await?;
    stage.agrees("c1", "FAILED").await?;
    stage.phase(&first, "Running", "step 7").await?;
    stage.agrees("c2", "RUNNING").await?;
    stage.agrees("c1", "RUNNING").await?;

    grows(stage).await?;
    stage.alive.remove("c2");
    let lost = stage.made(&Kind::DEPLOYMENT, "c2").await?;
    stage.objects.delete(&Kind::DEPLOYMENT, super::stage::name_of(&lost)).await?;
    stage.collects("c2").await?;
    stage.agrees("c2", "DELETED").await?;

    stage.delete("c1").await?;
    stage.collects("c1").await?;
    stage.create("c1", "key-c1-again", &web(&["internal"])).await?;
    let next = stage.rolls_out("c1").await?;
    stage.phase(&next, "Running", "step 8").await?;
    stage.agrees("c1", "RUNNING").await?;

    let body = json!({ "spec": web(&["internal"]) });
    let answer = stage.send("POST", &format!("{CONTAINERS}?id=c3"), "", &body).await;
    if answer.is_some_and(|answer| answer.status == 201) {
        stage.alive.add("c3");
    }
    futures::future::try_join(stage.delete("v1"), stage.releases("v1")).await?;
    stage.agrees("v1", "DELETED").await
}

/// Two callers want one id at once, with different specs.
async fn one_of_two_wins(stage: &Stage) -> Result<()> {
    let path = format!("{CONTAINERS}?id=c2");
    let bodies = [json!({ "spec": web(&[]) }), json!({ "spec": web(&["none"]) })];
    let calls = futures::future::join(
        stage.send("POST", &path, "", &bodies[0]),
        stage.send("POST", &path, "", &bodies[1]),
    );
    let (one, other) = calls.await;
    let won = [&one, &other].into_iter().flatten().filter(|answer| answer.status == 201).count();
    if won > 1 {
        return Err(Failure::new("of two creates of one id one wins: both answered 201"));
    }
    if won == 1 {
        return stage.exists("c2").await;
    }
    let taken = async || {
        let answer = stage.send("POST", &path, "", &bodies[0]).await?;
        match answer.status {
            201 => Some(()),
            409 => stage.get("c2").await.filter(|answer| answer.status == 200).map(|_| ()),
            _ => None,
        }
    };
    eventually("c2 is made by either", stage.limit, taken).await
}

/// The same request with the same key, long after it was answered.
async fn a_repeat_makes_nothing(stage: &Stage) -> Result<()> {
    let body = json!({ "spec": web(&["internal"]) });
    let path = format!("{CONTAINERS}?id=c1");
    let answer = stage.insist("POST", &path, "key-c1", &body, 201).await;
    let answer = answer.map_err(|error| Failure::new(format!("a repeat answers as the first: {error}")))?;
    if answer.json()["id"] != "c1" {
        return Err(Failure::new(format!("a repeat answers as the first: {}", answer.text())));
    }
    Ok(())
}

/// The volume grows. The caller does not insist: what the record says must come true by itself.
async fn grows(stage: &Stage) -> Result<()> {
    let path = format!("{VOLUMES}/v1");
    let answer = stage.send("PATCH", &path, "", &json!({ "capacity": "2Gi" })).await;
    if answer.is_none_or(|answer| answer.status != 200) {
        // Whether it took effect or not: claim and answer agree before anybody asks again.
        consistent(stage).await?;
        let asked = async || {
            let shown = stage.get("v1").await?.json();
            if shown["spec"]["capacity"] == "2Gi" {
                return Some(());
            }
            stage.send("PATCH", &path, "", &json!({ "capacity": "2Gi" })).await;
            None
        };
        eventually("the volume grows", stage.limit, asked).await?;
    }
    consistent(stage).await?;
    stage.binds("v1").await?;
    stage.agrees("v1", "RUNNING").await
}

async fn consistent(stage: &Stage) -> Result<()> {
    let mut seen = String::new();
    let same = async || {
        let claim = stage.of(&Kind::CLAIM, "v1").await?.pop()?;
        let asked = claim["spec"]["resources"]["requests"]["storage"].clone();
        let shown = stage.get("v1").await?.json()["spec"]["capacity"].clone();
        let records = stage.of(&Kind::CONFIG_MAP, "v1").await?;
        let pending = records.iter().any(|record| record["data"].to_string().contains(r#"\"pending\""#));
        seen = format!("GET says {shown}, the claim says {asked}, pending: {pending}");
        (asked == shown && !pending).then_some(())
    };
    let same = eventually("GET and the claim say one capacity", stage.limit, same).await;
    same.map_err(|error| Failure::new(format!("an update is whole or nothing: {error}; {seen}")))
}

/// A container with one port for each of these visibilities.
fn web(visibilities: &[&str]) -> Value {
    let ports: Vec<Value> = visibilities
        .iter()
        .map(|visibility| json!({ "container_port": 80, "visibility": visibility }))
        .collect();
    json!({
        "service_type": "container",
        "metadata": { "name": "web" },
        "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": "1", "max": "1" }, "memory": { "min": "1GB", "max": "1GB" } },
        "network": { "ports": ports },
    })
}

fn disk() -> Value {
    json!({
        "service_type": "storage",
        "capacity": "1Gi",
        "metadata": { "name": "data" },
        "provider_hints": { "kubernetes": { "storage_class": CLASS } },
    })
}
