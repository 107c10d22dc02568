//! Figures for Prometheus, in its text format. Knows the form, and not what is counted.
//!
//! Every figure is read where it is kept, at the moment somebody asks: nothing is counted twice.

use std::fmt::{Display, Write as _};

/// What a family's figures do over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rises and falls.
    Gauge,
    /// Only rises, until the process starts again.
    Counter,
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
        self.text.push_str(self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
