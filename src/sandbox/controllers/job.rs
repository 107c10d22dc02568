//! A Job runs pods until enough of them have succeeded, or too many have failed.

use std::time::Duration;

use serde_json::{Value, json};

use super::replica_set::{active_pods, is_ready, make_pod};
use super::{Cluster, Next};
use crate::sandbox::object::{condition, is_deleting, map_at, name, now, number, text};
use crate::sandbox::store::Key;

const COMPONENT: &str = "job-controller";
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What has become of the pods of a Job.
struct Tally {
    active: Vec<Value>,
    ready: usize,
    succeeded: usize,
    failed: usize,
}

pub(super) fn reconcile(cluster: &Cluster, key: &Key) -> Next {
    let Some(job) = cluster.get("jobs.batch", key) else { return Next::Done };
    if is_deleting(&job) {
        return Next::Done;
    }
    if let Some(end) = condition(&job, "Complete").or_else(|| condition(&job, "Failed")) {
        return expire(cluster, &job, end);
    }
    let mut tally = Tally::of(cluster, &job);
    let verdict = verdict(&job, &tally);
    let mut next = Next::Done;
    if verdict.is_some() || job["spec"]["suspend"] == true {
        for pod in &tally.active {
            cluster.delete(pod, "Background");
        }
    } else if !fill(cluster, &job, &mut tally) {
        next = Next::Again(TRY_AGAIN);
    }
    tell(cluster, &job, &tally, verdict.as_ref());
    match left(&job) {
        Some(left) if verdict.is_none() && matches!(next, Next::Done) => Next::Again(left),
        _ => next,
    }
}

impl Tally {
    fn of(cluster: &Cluster, job: &Value) -> Self {
        let active = active_pods(cluster, job);
        let pods = cluster.controlled(job, "pods");
        let ended = |phase: &str| pods.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
        let ready = active.iter().filter(|pod| is_ready(pod)).count();
        Self { ready, succeeded: ended("Succeeded"), failed: ended("Failed"), active }
    }
}

/// How the Job has ended, if it has: a condition, its reason and its message.
fn verdict(job: &Value, tally: &Tally) -> Option<(&'static str, &'static str, String)> {
    let wanted = number(job, "/spec/completions").and_then(|wanted| usize::try_from(wanted).ok());
    let enough = match wanted {
        Some(wanted) => tally.succeeded >= wanted,
        None => tally.succeeded > 0 && tally.active.is_empty(),
    };
    let limit = number(job, "/spec/backoffLimit").unwrap_or(6);
    if enough {
        let message = "Reached expected number of succeeded pods".to_owned();
        return Some(("Complete", "CompletionsReached", message));
    }
    if i64::try_from(tally.failed).unwrap_or(i64::MAX) > limit {
        let message = "Job has reached the specified backoff limit".to_owned();
        return Some(("Failed", "BackoffLimitExceeded", message));
    }
    if left(job) == Some(Duration::ZERO) {
        let message = "Job was active longer than specified deadline".to_owned();
        return Some(("Failed", "DeadlineExceeded", message));
    }
    None
}

/// How long the Job may still be active; None where there is no limit.
fn left(job: &Value) -> Option<Duration> {
    let limit = number(job, "/spec/activeDeadlineSeconds")?;
    let since = text(job, "/status/startTime").parse::<jiff::Timestamp>().ok();
    let passed = since.map_or(0, |since| crate::clock::now().duration_since(since).as_secs());
    Some(Duration::from_secs(u64::try_from(limit - passed).unwrap_or_default()))
}

/// Makes the pods that are missing; false if one was refused.
fn fill(cluster: &Cluster, job: &Value, tally: &mut Tally) -> bool {
    let parallel = usize::try_from(number(job, "/spec/parallelism").unwrap_or(1)).unwrap_or_default();
    let wanted = match number(job, "/spec/completions").and_then(|wanted| usize::try_from(wanted).ok()) {
        Some(completions) => parallel.min(completions.saturating_sub(tally.succeeded)),
        None if tally.succeeded > 0 => tally.active.len(),
        None => parallel,
    };
    while tally.active.len() < wanted {
        match make_pod(cluster, job) {
            Ok(pod) => {
                let message = format!("Created pod: {}", name(&pod));
                cluster.event(job, COMPONENT, "Normal", "SuccessfulCreate", &message);
                tally.active.push(pod);
            }
            Err(refusal) => {
                let message = format!("Error creating: {}", refusal.message);
                cluster.event(job, COMPONENT, "Warning", "FailedCreate", &message);
                return false;
            }
        }
    }
    true
}

fn tell(
    cluster: &Cluster,
    job: &Value,
    tally: &Tally,
    verdict: Option<&(&'static str, &'static str, String)>,
) {
    let active = if verdict.is_some() { 0 } else { tally.active.len() };
    let told = cluster.change_status(job, |job| {
        let suspended = job["spec"]["suspend"] == true;
        let status = map_at(job, "status");
        for (member, count) in [("active", active), ("succeeded", tally.succeeded), ("failed", tally.failed)]
        {
            if count > 0 {
                status.insert(member.to_owned(), count.into());
            } else {
                status.shift_remove(member);
            }
        }
        status.insert("ready".to_owned(), if verdict.is_some() { 0 } else { tally.ready }.into());
        status.insert("terminating".to_owned(), 0.into());
        status.insert("uncountedTerminatedPods".to_owned(), json!({}));
        if !suspended {
            status.entry("startTime").or_insert_with(|| now().into());
        }
        if let Some((kind, reason, message)) = verdict {
            let criterion = if *kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
            let condition = |kind: &str| {
                json!({
                    "type": kind, "status": "True", "lastProbeTime": now(), "lastTransitionTime": now(),
                    "reason": reason, "message": message,
                })
            };
            status.insert("conditions".to_owned(), json!([condition(criterion), condition(kind)]));
            if *kind == "Complete" {
                status.insert("completionTime".to_owned(), now().into());
            }
        }
    });
    if let (Ok(_), Some((kind, reason, message))) = (told, verdict) {
        match *kind {
            "Complete" => cluster.event(job, COMPONENT, "Normal", "Completed", "Job completed"),
            _ => cluster.event(job, COMPONENT, "Warning", reason, message),
        }
    }
}

/// A Job that has ended may ask to be removed after a while.
fn expire(cluster: &Cluster, job: &Value, end: &Value) -> Next {
    let Some(limit) = number(job, "/spec/ttlSecondsAfterFinished") else { return Next::Done };
    let since = text(end, "/lastTransitionTime").parse::<jiff::Timestamp>().ok();
    let passed = since.map_or(0, |since| crate::clock::now().duration_since(since).as_secs());
    match u64::try_from(limit - passed) {
        Ok(left) if left > 0 => Next::Again(Duration::from_secs(left)),
        _ => {
            cluster.delete(job, "Background");
            Next::Done
        }
    }
}
