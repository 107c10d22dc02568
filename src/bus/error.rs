//! What can go wrong on the bus: a kind to decide by, a sentence to read, and its cause.

use std::error::Error;
use std::fmt;

/// A failure of the bus or of the ledger's store.
#[derive(Debug)]
pub struct BusError {
    kind: BusErrorKind,
    what: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// What a caller can decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusErrorKind {
    /// A URL, a certificate or a credentials file cannot be used.
    Options,
    /// There is no connection at the moment.
    Disconnected,
    /// No answer came in time; the call may have been carried out.
    TimedOut,
    /// The server answered, and refused.
    Refused,
    /// Another replica has written the same key since it was read.
    Conflict,
    /// The state directory cannot be read or written.
    Storage,
}

// === impl BusError ===

impl BusError {
    pub(super) fn new(kind: BusErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            cause: None,
        }
    }

    pub(super) fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub fn kind(&self) -> BusErrorKind {
        self.kind
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)?;
        match &self.cause {
            Some(cause) => write!(formatter, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl Error for BusError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The cause is part of the text already, so a printed chain goes on behind it.
        self.cause.as_ref().and_then(|cause| cause.source())
    }
}
