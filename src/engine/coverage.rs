//! Which ways of a mapping were gone: rows matched and passed over, checks refused and passed, both ways of
//! every branch of a template.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::expression::{Expression, Place};
use crate::service::Service;
use crate::template::{Directive, Template};

/// A point of a mapping where one of two ways is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A row of the status table, by its position: it matches, or is passed over.
    Rule(usize),
    /// A text that is appended to messages.
    Note(usize),
    /// A check: it refuses, or passes.
    Check(usize),
    /// An object: it is made, or left out.
    Object(usize),
    /// A directive of a template, by file, line and column.
    Branch(String, usize, usize),
}

/// What one or more evaluations reached. Filled while expressions run, so it is shared by reference.
#[derive(Debug, Default)]
pub struct Trace {
    reached: Mutex<BTreeMap<Point, Ways>>,
}

/// Which of the two ways of a point were gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    pub yes: bool,
    pub no: bool,
}

/// A way that nothing went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The point in the words of the mapping: ``the row `pod failed` ``.
    pub what: String,
    /// What never happened there: `never matched`.
    pub missing: &'static str,
    /// `file:line:column` of its condition, where it has one.
    pub place: Option<String>,
}

impl Point {
    pub fn branch(place: &Place) -> Self {
        Self::Branch(place.file.clone(), place.line, place.column)
    }
}

impl Trace {
    pub fn mark(&self, point: Point, yes: bool) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let ways = reached.entry(point).or_default();
        if yes { ways.yes = true } else { ways.no = true }
    }

    pub fn ways(&self, point: &Point) -> Ways {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.get(point).copied().unwrap_or_default()
    }
}

/// One point as it is reported: its name, its place, and the words for each way that is asked for.
struct Listed<'s> {
    point: Point,
    what: String,
    place: Option<&'s Place>,
    yes: &'static str,
    no: Option<&'static str>,
}

impl Service {
    /// Every way of this mapping that the trace has not seen, in the order of the mapping.
    pub fn unreached(&self, trace: &Trace) -> Vec<Unreached> {
        let mut unreached = Vec::new();
        for listed in self.points() {
            let ways = trace.ways(&listed.point);
            let place = listed.place.map(|place| format!("{}:{}:{}", place.file, place.line, place.column));
            let missing = [(!ways.yes).then_some(listed.yes), listed.no.filter(|_| !ways.no)];
            for missing in missing.into_iter().flatten() {
                unreached.push(Unreached { what: listed.what.clone(), missing, place: place.clone() });
            }
        }
        unreached
    }

    /// How many ways there are to go.
    pub fn ways(&self) -> usize {
        self.points().iter().map(|listed| 1 + usize::from(listed.no.is_some())).sum()
    }

    fn points(&self) -> Vec<Listed<'_>> {
        let mut points = Vec::new();
        for (index, check) in self.checks.iter().enumerate() {
            // What is walked says more of a loop than the question that each item is asked.
            let checked = check.each.as_ref().map_or(&check.condition, |each| &each.list);
            points.push(Listed {
                point: Point::Check(index),
                what: format!("the check of `{}`", checked.place.text),
                place: Some(&*checked.place),
                yes: "never refused",
                no: Some("never passed"),
            });
        }
        for (index, object) in self.objects.iter().enumerate() {
            if let Some(when) = &object.when {
                points.push(Listed {
                    point: Point::Object(index),
                    what: format!("the object `{}`", object.name),
                    place: Some(&*when.place),
                    yes: "never made",
                    no: Some("never left out"),
                });
            }
            branches(&object.template, object.when.as_ref(), &mut points);
        }
        for (_, template) in self.update.iter().flat_map(|update| &update.patches) {
            branches(template, None, &mut points);
        }
        self.table_points(&mut points);
        for template in self.view.iter().map(|view| &view.template).chain(&self.adopt) {
            branches(template, None, &mut points);
        }
        points
    }

    fn table_points<'s>(&'s self, points: &mut Vec<Listed<'s>>) {
        for (index, rule) in self.status.rules.iter().enumerate() {
            points.push(Listed {
                point: Point::Rule(index),
                what: format!("the row `{}`", rule.name),
                place: rule.when.as_ref().map(|when| &*when.place),
                yes: "never matched",
                // A row without a condition has nothing to pass it over by.
                no: rule.when.as_ref().map(|_| "never passed over"),
            });
        }
        for (index, (when, _)) in self.status.notes.iter().enumerate() {
            points.push(Listed {
                point: Point::Note(index),
                what: format!("the note of `{}`", when.place.text),
                place: Some(&*when.place),
                yes: "never said",
                no: Some("never left out"),
            });
        }
    }
}

/// The branches of a template. Where the object itself depends on the list that it walks, the list has items.
fn branches<'s>(template: &'s Template, guard: Option<&Expression>, points: &mut Vec<Listed<'s>>) {
    for directive in template.directives() {
        let (what, place, yes, no) = match directive {
            Directive::If(when) => ("$if", &*when.place, "never true", "never false"),
            Directive::For(list) => ("$for", &*list.place, "never with an item", "never without an item"),
        };
        let certain = guard.is_some_and(|guard| guard.place.text == place.text);
        let what = format!("the {what} of `{}`", place.text);
        let no = (!certain).then_some(no);
        points.push(Listed { point: Point::branch(place), what, place: Some(place), yes, no });
    }
}
