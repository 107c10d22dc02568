//! Paths into a document, as expressions read them.

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Key(String),
    /// Any item of a list, or any member.
    Any,
}
