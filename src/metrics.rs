//! Figures for Prometheus, in its text format. Knows the form, and not what is counted.
//!
//! Every figure is read where it is kept, at the moment somebody asks: nothing is counted twice.

use std::fmt::{Display, Write as _};
use std::time::Duration;

/// What a family's figures do over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rises and falls.
    Gauge,
    /// Only rises, until the process starts again.
    Counter,
    /// How often a measure was at most so much: see [`Histogram`].
    Histogram,
}

/// A page of figures that is being written.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// The figures of one name.
pub struct Family<'e> {
    text: &'e mut String,
    name: &'static str,
}

impl Exposition {
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        // Writing to a text cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.text, name }
    }

    pub fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    pub fn figure(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    /// All lines of a histogram: Prometheus wants each bucket to hold what the smaller ones hold.
    pub fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut so_far = 0;
        let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(histogram.counts) {
            so_far += count;
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.line("_bucket", &labels, so_far);
        }
        self.line("_sum", labels, histogram.sum);
        self.line("_count", labels, so_far);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

/// Upper bounds of durations, in seconds: from an answer out of memory to a request that ran out of time.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Durations, sorted into buckets.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// How many lay between a bound and the one before; the last, how many lay above all.
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Histogram {
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum += seconds;
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
