//! Plans of faults, generated from a run without any: whatever goes wrong, the promises hold.
#![allow(clippy::print_stderr, reason = "a replay is for people")]

use std::path::PathBuf;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use mapwright_testbed::faults::{Ground, Outcome, Plan, generate, run, sample};
use mapwright_testbed::secs;

const BINARY: &str = env!("CARGO_BIN_EXE_mapwright");
/// So many runs at once: most of a run is waiting, but a promise to answer within two seconds needs a core.
const SIDE_BY_SIDE: usize = 5;
const LIMIT: Duration = secs(45);

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
        let failed = complaint(&plan, &outcome).is_some();
        (plan, failed, outcome.fired > 0)
    });
    let runs: Vec<(Plan, bool, bool)> = runs.buffer_unordered(SIDE_BY_SIDE).collect().await;
    // Promises speak of seconds. What fails among others is tried again with the machine to itself.
    let mut complaints = Vec::new();
    for (plan, _, _) in runs.iter().filter(|(_, failed, _)| *failed) {
        let outcome = run(&ground, plan, "", LIMIT).await.unwrap();
        complaints.extend(complaint(plan, &outcome));
    }
    assert!(complaints.is_empty(), "{} of {count} plans fail", complaints.len());
    let fired = runs.iter().filter(|(_, _, fired)| *fired).count();
    assert!(fired * 10 >= count * 9, "only {fired} of {count} plans came to pass");
}

/// Writes down a plan that failed, with the log of its run beside it.
fn complaint(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let broken = outcome.broken.as_ref()?;
    let file = plan.write(&folder()).unwrap();
    std::fs::write(file.with_extension("log"), &outcome.log).unwrap();
    let again = "cargo test --test suite -- --ignored --nocapture faults::replay";
    let complaint = format!("{}: {broken}\nagain: FAULT_PLAN={} {again}", plan.name, file.display());
    // At once, and not when all others are through.
    eprintln!("{complaint}");
    Some(complaint)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and the machine to itself: .ci/faults"]
async fn plans_of_faults_hold_on_the_sandbox() {
    plans_hold(true, 164).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and the machine to itself: .ci/faults"]
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

/// A fault of our own, and the plans of which one must break a promise because of it.
pub(crate) struct Seed {
    pub(crate) fault: &'static str,
    /// Places, numbers and acts, as a plan file has them.
    plans: &'static [&'static str],
    /// The promise that is broken, as the harness words it.
    promise: &'static str,
}

const NOTHING: &str = "[]";

pub(crate) const SEEDS: &[Seed] = &[
    Seed {
        fault: "no-uid-check",
        plans: &[r#"[{"at": "DELETE deployments", "nth": 1, "do": "swap"}]"#],
        promise: "no delete of a foreign object",
    },
    Seed {
        fault: "name-is-enough",
        plans: &[r#"[{"at": "POST deployments", "nth": 1, "do": "squat"}]"#],
        promise: "",
    },
    Seed {
        fault: "drop-on-publish-failure",
        plans: &[r#"[{"at": "PUBLISH", "nth": 1, "do": {"answer": {"status": 0, "times": 5}}}]"#],
        promise: "the last event is the last status",
    },
    Seed {
        fault: "note-before-delivery",
        plans: &[
            r#"[{"at": "PUBLISH", "nth": 6, "do": "kill_before"}]"#,
            r#"[{"at": "PUBLISH", "nth": 7, "do": "kill_before"}]"#,
            r#"[{"at": "PUBLISH", "nth": 8, "do": "kill_before"}]"#,
            r#"[{"at": "PUBLISH", "nth": 5, "do": "kill_before"}]"#,
            r#"[{"at": "PUBLISH", "nth": 4, "do": "kill_before"}]"#,
        ],
        promise: "the last event is the last status",
    },
    Seed {
        fault: "no-ledger",
        plans: &[r#"[{"at": "DELETE persistentvolumeclaims", "nth": 1, "do": "kill_after"}]"#],
        promise: "no event without a change",
    },
    Seed {
        fault: "chance-ids",
        plans: &[r#"[{"at": "PUBLISH", "nth": 2, "do": "swallow_ack"},
            {"at": "PUBLISH", "nth": 3, "do": "swallow_ack"}, {"at": "PUBLISH", "nth": 6, "do": "swallow_ack"}]"#],
        promise: "no event without a change",
    },
    Seed {
        fault: "no-note-of-attempts",
        plans: &[
            r#"[{"at": "LEDGER", "nth": 12, "do": "kill_before"}]"#,
            r#"[{"at": "LEDGER", "nth": 11, "do": "kill_before"}]"#,
            r#"[{"at": "LEDGER", "nth": 13, "do": "kill_before"}]"#,
            r#"[{"at": "LEDGER", "nth": 10, "do": "kill_before"}]"#,
        ],
        promise: "",
    },
    Seed { fault: "no-comparison", plans: &[NOTHING], promise: "no event without a change" },
    Seed { fault: "forget-owed-end", plans: &[NOTHING], promise: "" },
    Seed { fault: "never-settled", plans: &[NOTHING], promise: "" },
    Seed {
        fault: "ignore-410",
        plans: &[
            r#"[{"at": "EVENT pods", "nth": 2, "do": "gone"}]"#,
            r#"[{"at": "EVENT pods", "nth": 3, "do": "gone"}]"#,
        ],
        promise: "the last event is the last status",
    },
    Seed { fault: "skip-deletions", plans: &[NOTHING], promise: "the last event is the last status" },
    Seed {
        fault: "memory-proves-absence",
        plans: &[r#"[{"at": "POST deployments", "nth": 3, "do": "kill_after"},
            {"at": "LIST persistentvolumeclaims", "nth": 2, "do": "stale"},
            {"at": "EVENT persistentvolumeclaims", "nth": 6, "do": {"delay": 2000}}]"#],
        promise: "an acknowledged create exists",
    },
    Seed {
        fault: "endless-silence",
        plans: &[r#"[{"at": "EVENT pods", "nth": 2, "do": "black_hole"}]"#],
        promise: "the last event is the last status",
    },
    Seed {
        fault: "no-completion",
        plans: &[r#"[{"at": "POST deployments", "nth": 4, "do": "kill_after"}]"#],
        promise: "a create is whole or nothing",
    },
    Seed {
        fault: "no-rollback",
        plans: &[r#"[{"at": "POST services", "nth": 3, "do": {"answer": {"status": 403, "times": 1}}}]"#],
        promise: "a create is whole or nothing",
    },
    Seed {
        fault: "no-removal",
        plans: &[r#"[{"at": "DELETE deployments", "nth": 1, "do": "kill_before"}]"#],
        promise: "",
    },
    Seed {
        fault: "no-resume",
        plans: &[r#"[{"at": "PATCH persistentvolumeclaims", "nth": 1, "do": "kill_before"}]"#],
        promise: "an update is whole or nothing",
    },
    Seed {
        fault: "forget-the-answered",
        // The caller has its answer for certain, and the record never learned of it.
        plans: &[r#"[{"at": "PATCH configmaps", "nth": 1, "do": {"answer": {"status": 503, "times": 2}}},
            {"at": "POST deployments", "nth": 2, "do": "kill_before"}]"#],
        promise: "an acknowledged create exists",
    },
    Seed {
        fault: "blind-to-own-writes",
        plans: &[r#"[{"at": "EVENT deployments", "nth": 1, "do": {"delay": 1500}}]"#],
        promise: "an acknowledged create exists",
    },
    Seed { fault: "keys-ignored", plans: &[NOTHING], promise: "a repeat answers as the first" },
    Seed { fault: "claim-ignored", plans: &[NOTHING], promise: "of two creates of one id one wins" },
    Seed {
        fault: "foreign-is-ours",
        plans: &[NOTHING],
        promise: "a provider shows its own and nothing else",
    },
];

/// So often a plan is given its chance.
const ATTEMPTS: usize = 4;

/// Long enough for a silent watch to be noticed, where that is done.
const SEEDED_LIMIT: Duration = secs(25);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and the machine to itself: .ci/faults"]
async fn each_seeded_fault_of_our_own_is_caught_by_a_plan() {
    let ground = Ground::start(BINARY, true).await.unwrap();
    let judged = stream::iter(SEEDS).map(async |seed| {
        let mut seen = Vec::new();
        // What happens side by side has no fixed order, so a plan may miss its moment.
        for faults in seed.plans.iter().cycle().take(seed.plans.len().max(ATTEMPTS)) {
            let plan = Plan::new(seed.fault, serde_json::from_str(faults).unwrap());
            let outcome = run(&ground, &plan, seed.fault, SEEDED_LIMIT).await.unwrap();
            match outcome.broken {
                Some(broken) if broken.contains(seed.promise) => {
                    eprintln!("{} is caught by {faults} in {:?}: {broken}", seed.fault, outcome.took);
                    return None;
                }
                other => seen.push(format!("{faults}: {other:?}")),
            }
        }
        Some(format!("{} is not caught as \"{}\": {seen:#?}", seed.fault, seed.promise))
    });
    let missed: Vec<Option<String>> = judged.buffer_unordered(SIDE_BY_SIDE).collect().await;
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(SEEDS.len() >= 20 && missed.is_empty(), "{}", missed.join("\n"));
}
