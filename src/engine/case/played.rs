//! What was seen while the steps of a case were played, beside what the steps expect.

use serde_json::{Map, Value as Json};

use super::compare::{Bench, Judgement};
use super::run::Produced;
use super::steps::{Act, Steps};
use super::{Case, Failure};
use crate::inputs::Identity;
use crate::json::child;
use crate::source::{Kind, Source, Tree};

/// A case of several steps, for whoever plays it.
#[derive(Clone, Copy, Debug)]
pub struct Story<'s> {
    pub steps: &'s Steps,
    pub identity: &'s Identity,
    pub settings: &'s Map<String, Json>,
    /// What is in the cluster before the first step.
    pub objects: &'s [Json],
    /// The spec of the case, for a POST without a body.
    pub spec: Option<&'s Json>,
    /// The patch of the case, for a PATCH without a body.
    pub patch: Option<&'s Json>,
}

/// What came of the steps.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// One for each step, as far as it came.
    pub seen: Vec<Seen>,
    /// The data of all events, in their order.
    pub events: Vec<Json>,
}

/// What came of one step.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It was done, and shows nothing.
    Done,
    /// It could not be done, for this reason; no further step was.
    Refused(String),
    /// What is compared, by the names of the expectations.
    Shown(Map<String, Json>),
}

impl Case {
    /// The steps, if the case has several.
    pub fn story(&self) -> Option<Story<'_>> {
        let steps = self.steps.as_ref()?;
        Some(Story {
            steps,
            identity: &self.identity,
            settings: &self.settings,
            objects: &self.objects,
            spec: self.spec.as_ref().and_then(|spec| spec.as_ref().ok()),
            patch: self.patch.as_ref().and_then(|patch| patch.as_ref().ok()),
        })
    }

    /// Compares what the steps came to with what they expect.
    pub fn judge_played(&self, played: &Played) -> Judgement {
        let mut bench = Bench::of(self);
        for (index, (step, seen)) in
            self.steps.iter().flat_map(|steps| &steps.steps).zip(&played.seen).enumerate()
        {
            let Some(Steps { source, .. }) = &self.steps else { continue };
            let path = format!("/steps/{index}");
            match (seen, &step.act) {
                (Seen::Done, _) => {}
                (Seen::Refused(why), _) => bench.failures.push(Failure {
                    position: Some(source.position(step.span.start)),
                    ..Failure::of("step-refused", format!("the step is refused: {why}"), &source.name)
                }),
                (Seen::Shown(shown), Act::Request(request)) => {
                    for (name, tree) in request.expected() {
                        subset(tree, shown.get(name), &child(&path, name), source, &mut bench.failures);
                    }
                }
                (Seen::Shown(shown), Act::Expect(expect)) => {
                    for (name, tree) in expect.expected() {
                        subset(tree, shown.get(name), &child(&path, name), source, &mut bench.failures);
                    }
                }
                (Seen::Shown(_), _) => {}
            }
        }
        let produced = Produced { events: Some(played.events.clone().into()), ..Produced::default() };
        let rewrites = bench.compare(&produced);
        bench.judgement(rewrites)
    }
}

/// Each leaf that is expected and is another one. What is not expected may be anything.
fn subset(expected: &Tree, found: Option<&Json>, path: &str, source: &Source, failures: &mut Vec<Failure>) {
    match (&expected.kind, found) {
        (Kind::Map(entries), Some(Json::Object(members))) => {
            for entry in entries {
                let path = child(path, &entry.key);
                subset(&entry.value, members.get(&entry.key), &path, source, failures);
            }
        }
        (Kind::List(items), Some(Json::Array(values))) if items.len() == values.len() => {
            for (index, (item, value)) in items.iter().zip(values).enumerate() {
                subset(item, Some(value), &child(path, &index.to_string()), source, failures);
            }
        }
        (Kind::Null, None | Some(Json::Null)) => {}
        (_, Some(found)) if *found == expected.to_json() => {}
        _ => failures.push(Failure {
            position: Some(source.position(expected.span.start)),
            path: Some(path.to_owned()),
            expected: Some(expected.to_json().to_string()),
            found: found.map(Json::to_string),
            ..Failure::of("differs", "the value differs", &source.name)
        }),
    }
}
