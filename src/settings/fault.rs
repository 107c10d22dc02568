//! What is wrong with a setting: its name, its place, what to do.

use std::fmt;

use super::table;

/// One fault of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The environment variable, or the key of the file where there is no variable for it.
    pub name: String,
    /// File and line, where the value came from a file.
    pub place: Option<String>,
    pub what: String,
    pub help: String,
}

/// All faults of one start. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

// === impl Fault ===

impl Fault {
    pub(super) fn new(name: impl Into<String>, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            place: None,
            what: what.into(),
            help: help.into(),
        }
    }

    /// A setting of the table that has to be set, and is not.
    pub(super) fn missing(env: &str) -> Self {
        Self::new(env, "is not set", format!("set it to {}", table::row(env).form))
    }

    pub(super) fn at(mut self, place: Option<String>) -> Self {
        self.place = place;
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            place,
            what,
            help,
        } = self;
        match place {
            Some(place) => write!(formatter, "{place}: {name} {what}; {help}"),
            None => write!(formatter, "{name} {what}; {help}"),
        }
    }
}

// === impl Faults ===

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().map(ToString::to_string).collect::<Vec<_>>();
        formatter.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Faults {}
