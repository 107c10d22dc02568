//! The variables of an evaluation: frames in frames, with the mapping's `[let]` evaluated when read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, Value};

use crate::coverage::{Point, Trace};
use crate::expression::{EvalError, Expression, Place, Program};
use crate::template::{MAX_BYTES, MAX_ITEMS};

/// A frame of variables. Cheap to clone, and to put another frame on.
#[derive(Clone)]
pub struct Scope(Arc<Frame>);

/// The expressions of `[let]`, in the order of the file.
pub type Lets = Arc<[(String, Expression)]>;

struct Frame {
    parent: Option<Scope>,
    values: Vec<(Arc<str>, Value)>,
    program: Arc<Program>,
    /// The mapping's; none but the outermost frame has any.
    lets: Option<Lets>,
    /// Each `let` is evaluated once in a scope.
    memo: Vec<OnceLock<Value>>,
    /// Where somebody asks for coverage.
    trace: Option<Arc<Trace>>,
}

impl Scope {
    /// The outermost frame: given variables, and `[let]`.
    pub fn root(
        program: Arc<Program>,
        lets: Lets,
        values: Vec<(Arc<str>, Value)>,
        trace: Option<Arc<Trace>>,
    ) -> Self {
        let memo = (0..lets.len()).map(|_| OnceLock::new()).collect();
        Self(Arc::new(Frame { parent: None, values, program, lets: Some(lets), memo, trace }))
    }

    /// A frame of its own for a loop or a `$let`.
    #[must_use]
    pub fn with(&self, values: Vec<(Arc<str>, Value)>) -> Self {
        Self(Arc::new(Frame {
            parent: Some(self.clone()),
            values,
            program: self.0.program.clone(),
            lets: None,
            memo: Vec::new(),
            trace: self.0.trace.clone(),
        }))
    }

    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// Notes which way was gone at a point of the mapping.
    pub fn mark(&self, point: impl FnOnce() -> Point, yes: bool) {
        if let Some(trace) = &self.0.trace {
            trace.mark(point(), yes);
        }
    }

    pub fn value(&self) -> Value {
        Value::from_dyn_object(self.0.clone())
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        let frame = &self.0;
        if let Some((_, value)) = frame.values.iter().rev().find(|(key, _)| **key == *name) {
            return Some(value.clone());
        }
        let lets = frame.lets.as_deref().unwrap_or_default();
        if let Some(index) = lets.iter().position(|(key, _)| key == name) {
            let value = frame.memo.get(index)?.get_or_init(|| {
                let expression = &lets[index].1;
                let value = frame.program.eval(expression, self);
                value.and_then(|value| bounded(value, &expression.place)).unwrap_or_else(|error| {
                    // An error travels as a value and is raised where the name is read.
                    Value::from(Error::new(ErrorKind::InvalidOperation, format!("`{name}`: {error}")))
                })
            });
            return Some(value.clone());
        }
        frame.parent.as_ref().and_then(|parent| parent.get(name))
    }
}

/// A name may double the one before it, so none may be larger than what a document can hold.
fn bounded(value: Value, place: &Arc<Place>) -> Result<Value, EvalError> {
    let long = value.as_str().is_some_and(|text| text.len() > MAX_BYTES);
    let many = value.as_object().and_then(|_| value.len()).is_some_and(|length| length > MAX_ITEMS);
    if long || many {
        let message = format!("a value of more than {MAX_BYTES} bytes or {MAX_ITEMS} members");
        return Err(EvalError::too_large(message, place));
    }
    Ok(value)
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.iter().map(|(name, _)| name)).finish()
    }
}

impl Object for Frame {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        Scope(self.clone()).get(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Empty
    }
}
