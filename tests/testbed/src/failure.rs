//! One error for the whole test bed: a sentence, with its causes after colons.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// It is no `std::error::Error`, so that every such error converts into it with `?`.
pub struct Failure(String);

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

// `unwrap` in a test prints Debug: it must read like a message, not like a structure.
impl Debug for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors print their cause themselves.
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self(text)
    }
}

/// Says what was being done when an error came.
pub trait Context<T> {
    fn context(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{doing}: {}", error.into())))
    }
}
