//! What must hold after every run, whatever the plan did.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::stage::{CONTAINERS, MADE, Stage};
use crate::failure::{Failure, Result};
use crate::objects::{Kind, Objects};
use crate::wait::eventually;

/// After this long without anything new, nothing new is expected.
const QUIET: Duration = Duration::from_millis(400);

/// What an instance may say; another word was never its status.
const WORDS: [(&str, &[&str]); 4] = [
    ("c1", &["PENDING", "RUNNING", "FAILED", "DELETED"]),
    ("c2", &["PENDING", "RUNNING", "FAILED", "DELETED"]),
    ("c3", &["PENDING", "DELETED"]),
    ("v1", &["PROVISIONING", "RUNNING", "DELETING", "DELETED"]),
];

/// Waits until the run has come to rest, and looks at what is left of it.
pub(super) async fn hold(stage: &Stage) -> Result<()> {
    for (id, pods) in [("c2", 0), ("v1", 0), ("c1", 1)] {
        one_set_of_objects(stage, id, pods).await?;
    }
    whole_or_nothing(stage).await?;
    stage.agrees("c1", "RUNNING").await?;
    nothing_is_owed(stage).await?;
    tokio::time::sleep(QUIET).await;
    for (id, words) in WORDS {
        judge(id, &events(stage, id), words, stage.board.messages_in_doubt())?;
    }
    listed(stage).await?;
    foreign_objects_stand(stage).await
}

/// Of an instance that is there exactly one set of objects, of one that is gone nothing.
async fn one_set_of_objects(stage: &Stage, id: &str, want: usize) -> Result<()> {
    let mut seen = String::new();
    let right = async || {
        let mut counts = Vec::new();
        for kind in MADE {
            counts.push(stage.of(&kind, id).await?.len());
        }
        seen = format!("{counts:?} of {:?}", MADE.map(|kind| kind.plural));
        // A container of the script has a Deployment and a Service, and no claim.
        (counts == [want, want, 0]).then_some(())
    };
    let right = eventually(&format!("{id} has {want} set of objects"), stage.limit, right).await;
    let promise =
        if want == 0 { "no orphan after the end of an instance" } else { "one set of objects an id" };
    right.map_err(|error| Failure::new(format!("{promise}: {error}; there are {seen}")))
}

/// The create that nobody repeated.
async fn whole_or_nothing(stage: &Stage) -> Result<()> {
    let mut seen = String::new();
    let settled = async || {
        let shown = stage.get("c3").await?.status;
        let (deployments, services) =
            (stage.of(&Kind::DEPLOYMENT, "c3").await?.len(), stage.of(&Kind::SERVICE, "c3").await?.len());
        seen = format!("GET says {shown}, and there are {deployments} Deployments and {services} Services");
        let told = stage.events.of("c3").pop().unwrap_or_default()["data"]["status"].clone();
        match (shown, deployments, services) {
            (200, 1, 1) => (told == "PENDING").then_some(()),
            (404, 0, 0) => (told.is_null() || told == "DELETED").then_some(()),
            _ => None,
        }
    };
    let settled = eventually("c3 is whole or nothing", stage.limit, settled).await;
    settled.map_err(|error| Failure::new(format!("a create is whole or nothing: {error}; {seen}")))
}

async fn nothing_is_owed(stage: &Stage) -> Result<()> {
    let mut seen = String::new();
    let settled = async || {
        let mut records = Vec::new();
        for id in ["c1", "c2", "c3", "v1"] {
            records.extend(stage.of(&Kind::CONFIG_MAP, id).await?);
        }
        seen = records.iter().map(|record| record["data"].to_string()).collect::<Vec<_>>().join("\n");
        let unfinished = |record: &&Value| {
            let text = record["data"].to_string();
            [r#"\"owed_end\""#, r#"\"pending\""#, r#"\"deleting\""#, r#"\"creating\""#]
                .iter()
                .any(|word| text.contains(word))
        };
        (!records.iter().any(|record| unfinished(&record))).then_some(())
    };
    let settled = eventually("no record is unfinished", stage.limit, settled).await;
    settled.map_err(|error| Failure::new(format!("what is begun is ended: {error}; the records are {seen}")))
}

/// The events of an instance; a repeat that carries its id is no second event.
fn events(stage: &Stage, id: &str) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut events = stage.events.of(id);
    events.retain(|event| seen.insert(event["id"].to_string()));
    events
}

/// What the events of one instance may be, in themselves.
fn judge(id: &str, events: &[Value], words: &[&str], repeats: usize) -> Result<()> {
    let said: Vec<(&str, &str)> =
        events.iter().map(|event| (text(event, "status"), text(event, "message"))).collect();
    let wrong = |promise: &str| Err(Failure::new(format!("{promise}: {id} said {said:#?}")));
    if said.iter().any(|(status, _)| !words.contains(status)) {
        return wrong("only what was the case is said");
    }
    if said.windows(2).filter(|pair| pair[0] == pair[1]).count() > repeats {
        return wrong("no event without a change");
    }
    let ends = said.iter().filter(|(status, _)| *status == "DELETED").count();
    let ended = said.last().is_some_and(|(status, _)| *status == "DELETED");
    let right = match id {
        "c1" => ends == 1 && !ended,
        "c3" => ends <= 1 && (ends == 0 || ended),
        _ => ends == 1 && ended,
    };
    if !right {
        return wrong("nothing but a new life comes after DELETED, once");
    }
    let steps: Vec<u32> = said.iter().filter_map(|(_, message)| step(message)).collect();
    if !steps.is_sorted() {
        return wrong("no older status after a newer one");
    }
    Ok(())
}

fn text<'e>(event: &'e Value, member: &str) -> &'e str {
    event["data"][member].as_str().unwrap_or_default()
}

fn step(message: &str) -> Option<u32> {
    let (_, rest) = message.split_once("step ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// LIST shows what GET shows, and nothing of anybody else.
async fn listed(stage: &Stage) -> Result<()> {
    let answer = stage.http.get(CONTAINERS).await?.json();
    let items = answer["containers"].as_array().cloned().unwrap_or_default();
    let ids: BTreeSet<&str> = items.iter().filter_map(|item| item["id"].as_str()).collect();
    let strangers: Vec<&&str> = ids.iter().filter(|id| !["c1", "c3"].contains(*id)).collect();
    if !strangers.is_empty() || !ids.contains("c1") || !stage.events.of("foreign").is_empty() {
        return Err(Failure::new(format!("a provider shows its own and nothing else: LIST says {ids:?}")));
    }
    Ok(())
}

async fn foreign_objects_stand(stage: &Stage) -> Result<()> {
    let objects: &Objects = &stage.objects;
    for [plural, name, uid] in stage.board.foreign() {
        let kind = MADE.into_iter().find(|kind| kind.plural == plural).unwrap_or(Kind::DEPLOYMENT);
        let there = objects.get(&kind, &name).await?;
        if there.is_none_or(|object| object["metadata"]["uid"] != uid.as_str()) {
            return Err(Failure::new(format!("no delete of a foreign object: {plural}/{name} is gone")));
        }
    }
    Ok(())
}
