//! Plans of faults, generated from a run without any: whatever goes wrong, the promises hold.
#![allow(clippy::print_stderr, reason = "a replay is for people")]

use std::path::PathBuf;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use mapwright_testbed::faults::{Ground, Outcome, Plan, generate, run, sample};
use mapwright_testbed::secs;

const BINARY: &str = env!("CARGO_BIN_EXE_mapwright");
/// So many runs at once: most of a run is waiting.
const SIDE_BY_SIDE: usize = 8;
const LIMIT: Duration = secs(60);

/// Where plans that fail are written.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults")
}

async fn plans_hold(sandbox: bool, count: usize) {
    let ground = Ground::start(BINARY, sandbox).await.unwrap();
    let recorded = run(&ground, &Plan::none(), "", LIMIT).await.unwrap();
    assert_eq!(recorded.broken, None, "{}", recorded.log);
    let plans = sample(generate(&recorded.trace), count);
    assert_eq!(plans.len(), count, "the recorded run is too short");
    let runs = stream::iter(plans).map(async |plan| {
        let outcome = run(&ground, &plan, "", LIMIT).await.unwrap();
        (plan, outcome)
    });
    let runs: Vec<(Plan, Outcome)> = runs.buffer_unordered(SIDE_BY_SIDE).collect().await;
    let complaints: Vec<String> = runs.iter().filter_map(|(plan, outcome)| complaint(plan, outcome)).collect();
    assert!(complaints.is_empty(), "{} of {count} plans fail:\n{}", complaints.len(), complaints.join("\n\n"));
    let fired = runs.iter().filter(|(_, outcome)| outcome.fired > 0).count();
    assert!(fired * 10 >= count * 9, "only {fired} of {count} plans came to pass");
}

/// Writes down a plan that failed, with the log of its run beside it.
fn complaint(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let broken = outcome.broken.as_ref()?;
    let file = plan.write(&folder()).unwrap();
    std::fs::write(file.with_extension("log"), &outcome.log).unwrap();
    Some(format!("{}\n{broken}\nagain: FAULT_PLAN={} cargo test --test suite -- --ignored faults::replay", plan.name, file.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_faults_hold_on_the_sandbox() {
    plans_hold(true, 164).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_faults_hold_on_the_real_control_plane() {
    plans_hold(false, 40).await;
}

/// `FAULT_PLAN` is the plan; `FAULT_GROUND=real` takes the real control plane; `FAULT_SEEDED` a fault of ours.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "carries out one plan, for whoever looks for the fault"]
async fn replay() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let plan = match of("FAULT_PLAN") {
        file if file.is_empty() => Plan::none(),
        file => Plan::read(&PathBuf::from(file)).unwrap(),
    };
    let ground = Ground::start(BINARY, of("FAULT_GROUND") != "real").await.unwrap();
    let outcome = run(&ground, &plan, &of("FAULT_SEEDED"), LIMIT).await.unwrap();
    for happening in &outcome.trace {
        eprintln!("{} {} {}", happening.at, happening.nth, happening.about);
    }
    eprintln!("{} faults came to pass in {:?}", outcome.fired, outcome.took);
    assert_eq!(outcome.broken, None, "\n{}", outcome.log);
}
