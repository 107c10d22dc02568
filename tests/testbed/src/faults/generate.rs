//! Plans from what a run without faults did.

use std::collections::BTreeMap;

use super::board::Happening;
use super::plan::{Act, Fault, Plan};

/// Every plan that a recorded run suggests, in the order of kinds of faults.
pub fn generate(trace: &[Happening]) -> Vec<Plan> {
    let mut plans = vec![Plan::none()];
    for happening in trace {
        let Happening { at, nth, .. } = happening;
        let verb = at.split(' ').next().unwrap_or_default();
        let acts = match verb {
            "POST" | "PUT" | "PATCH" | "DELETE" => at_a_write(at),
            "EVENT" => at_an_event(happening, trace),
            "LIST" => vec![Act::Answer { status: 500, times: 2 }, Act::CutReply],
            "WATCH" => vec![Act::Expired, Act::Reset],
            "PUBLISH" | "LEDGER" => vec![
                Act::KillBefore,
                Act::KillAfter,
                Act::Reset,
                Act::CutReply,
                Act::SwallowAck,
                Act::Delay(300),
            ],
            _ => Vec::new(),
        };
        for act in acts {
            plans.push(Plan::new(sentence(at, *nth, &act), vec![Fault::new(at, *nth, act)]));
        }
    }
    plans.extend(after_a_restart(trace));
    plans
}

/// A spread of so many plans: of each kind of fault at each kind of place about the same share.
pub fn sample(plans: Vec<Plan>, count: usize) -> Vec<Plan> {
    let mut groups: BTreeMap<String, Vec<Plan>> = BTreeMap::new();
    for plan in plans {
        let acts = plan.faults.iter().map(|fault| format!("{} {:?}", fault.at, fault.act));
        groups.entry(acts.collect::<Vec<_>>().join("; ")).or_default().push(plan);
    }
    // The places of one group are taken from its middle outwards, so that all parts of the script come up.
    for group in groups.values_mut() {
        let middle = group.len() / 2;
        group.rotate_left(middle);
    }
    let mut chosen = Vec::new();
    while chosen.len() < count && groups.values().any(|group| !group.is_empty()) {
        for group in groups.values_mut().filter(|group| !group.is_empty()) {
            if chosen.len() < count {
                chosen.push(group.remove(0));
            }
        }
    }
    chosen
}

fn sentence(at: &str, nth: usize, act: &Act) -> String {
    format!("{act:?} at {at} {nth}")
}

/// Each write leaves the cluster in a state between two others.
fn at_a_write(at: &str) -> Vec<Act> {
    let mut acts = vec![
        Act::KillBefore,
        Act::KillAfter,
        Act::CutReply,
        Act::Reset,
        Act::Answer { status: 429, times: 1 },
        Act::Answer { status: 500, times: 1 },
        Act::Answer { status: 503, times: 3 },
        Act::Delay(400),
        Act::BlackHole,
    ];
    if matches!(at, "DELETE deployments" | "DELETE services") {
        acts.push(Act::Swap);
    }
    if matches!(at, "POST deployments" | "POST services") {
        acts.push(Act::Squat);
    }
    if at == "PATCH configmaps" {
        acts.push(Act::Answer { status: 409, times: 1 });
    }
    acts
}

/// An event that a later one of its object overwrites is a state that nobody may have seen.
fn at_an_event(happening: &Happening, trace: &[Happening]) -> Vec<Act> {
    let overwritten = trace
        .iter()
        .any(|later| later.at == happening.at && later.about == happening.about && later.nth > happening.nth);
    let mut acts = vec![Act::KillBefore, Act::KillAfter, Act::Gone, Act::Reset, Act::Delay(500)];
    if overwritten {
        acts.push(Act::Coalesce);
    }
    acts
}

/// After a restart each store begins with a list, and that may be an old one; or the socket falls silent.
fn after_a_restart(trace: &[Happening]) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut lists: BTreeMap<&str, usize> = BTreeMap::new();
    for happening in trace.iter().filter(|happening| happening.at.starts_with("LIST ")) {
        *lists.entry(&happening.at).or_default() += 1;
    }
    let writes: Vec<&Happening> = trace
        .iter()
        .filter(|happening| {
            matches!(happening.at.as_str(), "PATCH configmaps" | "POST deployments" | "DELETE deployments")
        })
        .collect();
    for write in writes {
        for (list, count) in &lists {
            let kill = Fault::new(&write.at, write.nth, Act::KillAfter);
            let stale = (count + 1..=2 * count).map(|nth| Fault::new(*list, nth, Act::Stale));
            let name = format!("Stale {list} after a death at {} {}", write.at, write.nth);
            plans.push(Plan::new(name, std::iter::once(kill).chain(stale).collect()));
        }
    }
    let silent =
        trace.iter().filter(|happening| happening.at.starts_with("EVENT ") && happening.nth % 3 == 2);
    for happening in silent {
        let fault = Fault::new(&happening.at, happening.nth, Act::BlackHole);
        plans.push(Plan::new(sentence(&happening.at, happening.nth, &Act::BlackHole), vec![fault]));
    }
    plans
}
