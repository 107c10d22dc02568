//! The format of case files: every table and key that one may hold.

use crate::decode::{Named, Text, document, words};
use crate::source::Tree;

document! {
    /// One case: `case.yaml` (or `.toml`) of its folder.
    pub struct CaseForm {
        /// What is asked.
        operation: Doing,
        /// Why the case exists, for people.
        why: Option<Text>,
        /// Where it comes from: issues, sections of a contract. For people.
        references: Vec<Text>,
        /// The instance's id; `example` where absent.
        id: Option<Text>,
        /// How often the id was created; 1 where absent.
        life: Option<i64>,
        /// The mapping's settings, laid over those of `defaults.yaml`.
        settings: Named<Tree>,
        /// The status that was last said of the instance.
        previous: Option<PreviousForm>,
        /// The golden files that there must be. Where absent: what the operation makes, or the problem.
        expect: Option<Vec<Document>>,
        /// Single values, where a whole golden file would say too much.
        assert: Vec<Assertion>,
    }

    /// The status that was last said of an instance.
    pub struct PreviousForm {
        status: Text,
        message: Option<Text>,
    }

    /// One value of what comes of a case. Says one of `value`, `contains` and `absent`.
    pub struct Assertion {
        /// A JSON pointer that begins with a document: `/status/message`, `/manifests/service/spec/type`.
        path: Text,
        /// The value that stands there.
        value: Option<Tree>,
        /// Text that the string there holds.
        contains: Option<Text>,
        /// Nothing stands there.
        absent: bool,
    }

    /// What every case of a type is given unless it says otherwise: `defaults.yaml` beside the cases.
    pub struct Defaults {
        /// The mapping's settings.
        settings: Named<Tree>,
    }
}

words! {
    /// What a case asks.
    pub enum Doing {
        /// A POST of `spec`.
        Create = "create",
        /// A PATCH with `patch` of an instance that was made from `spec`.
        Update = "update",
        /// What is said of an instance whose objects are these.
        Status = "status",
        /// What `steps.yaml` says, one after the other, in a cluster in memory.
        Steps = "steps",
    }

    /// What comes of a case, and the golden file that holds it.
    pub enum Document {
        /// The objects that are made, or the patches of an update.
        Manifests = "manifests",
        /// The answer of GET.
        View = "view",
        /// Status, message, and the row of the table that matched.
        Status = "status",
        /// The refusal.
        Problem = "problem",
        /// The data of the events that are sent, in their order.
        Events = "events",
    }
}

impl Document {
    /// The names that its golden file may have; the first is the one that is written.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::Manifests => &["manifests.yaml"],
            Self::View => &["view.json", "view.yaml"],
            Self::Status => &["status.yaml"],
            Self::Problem => &["problem.json"],
            Self::Events => &["events.yaml"],
        }
    }

    pub const ALL: [Self; 5] = [Self::Manifests, Self::View, Self::Status, Self::Problem, Self::Events];
}

impl Default for Defaults {
    fn default() -> Self {
        Self { span: 0..0, settings: Named(Vec::new()) }
    }
}
