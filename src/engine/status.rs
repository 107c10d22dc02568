//! From observed objects to a status: one function for REST and for events, so the two never disagree.

use crate::coverage::Point;
use crate::expression::EvalError;
use crate::inputs::{Identity, Inputs};
use crate::scope::Scope;
use crate::service::{Says, Service};

/// What the table says of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub status: String,
    pub message: String,
    /// The row that matched.
    pub rule: String,
    /// The row keeps what was said before, so nothing is to be said now.
    pub kept: bool,
}

impl Service {
    /// The first matching row of the status table.
    pub fn observe(&self, identity: &Identity, inputs: &Inputs) -> Result<Observation, EvalError> {
        let scope = self.scope(identity, inputs)?;
        for (index, rule) in self.status.rules.iter().enumerate() {
            let matches = match &rule.when {
                Some(when) => self.program.holds(when, &scope)?,
                None => true,
            };
            scope.mark(|| Point::Rule(index), matches);
            if !matches {
                continue;
            }
            let mut message = match &rule.message {
                Some(text) => self.program.text(text, &scope)?,
                None => String::new(),
            };
            let status = match (&rule.says, &inputs.previous) {
                (Says::Status(status), _) => status.clone(),
                (Says::Keep, Some(previous)) => {
                    message.clone_from(&previous.message);
                    previous.status.clone()
                }
                (Says::Keep, None) => self.status.initial.clone(),
            };
            let kept = rule.says == Says::Keep;
            if !kept {
                self.add_notes(&mut message, &scope, identity, inputs)?;
            }
            return Ok(Observation { status, message, rule: rule.name.clone(), kept });
        }
        // A table without a last row does not load, so this is not reached.
        let status = self.status.initial.clone();
        Ok(Observation { status, message: String::new(), rule: String::new(), kept: false })
    }

    /// Puts the notes that hold behind a message. Between an update's two writes, of object and of record, what
    /// was observed fits one spec or the other: only what holds of both is told.
    fn add_notes(
        &self,
        message: &mut String,
        scope: &Scope,
        identity: &Identity,
        inputs: &Inputs,
    ) -> Result<(), EvalError> {
        let later = inputs.coming.clone().map(|spec| Inputs { spec, coming: None, ..inputs.clone() });
        let later = later.map(|inputs| self.scope(identity, &inputs)).transpose()?;
        for (index, (when, text)) in self.status.notes.iter().enumerate() {
            let mut holds = self.program.holds(when, scope)?;
            if let Some(later) = later.as_ref().filter(|_| holds) {
                holds = self.program.holds(when, later)?;
            }
            scope.mark(|| Point::Note(index), holds);
            if holds {
                let note = self.program.text(text, scope)?;
                *message = if message.is_empty() { note } else { format!("{message}; {note}") };
            }
        }
        Ok(())
    }

    /// Whether a change from one status to another waits out a window first.
    pub fn settles(&self, from: Option<&str>, into: &str) -> bool {
        let table = &self.status;
        table.settle_into.iter().any(|word| word == into)
            && from.is_some_and(|from| table.settle_from.iter().any(|word| word == from))
    }
}
