//! The mapping format: every table and key that a mapping file may hold.
//!
//! A field's name is the key in the file, the heading in the reference and the word in an error. Strings
//! that hold expressions are compiled in [`crate::service`].

use crate::decode::{Named, Number, Text, document, words};
use crate::source::Tree;

document! {
    /// One service type: `mapping.toml` (or `.yaml`) of its folder.
    pub struct Mapping {
        /// The version of this format.
        format: Format,
        /// The service type as DCM names it.
        service_type: Text,
        /// The last segment of the collection's path.
        collection: Text,
        /// The key of the list in a LIST answer; the collection's name where absent.
        list_key: Option<Text>,
        /// The JSON Schema of the spec, a file in `schemas/`.
        schema: Text,
        /// The version of the schema, as it is registered.
        schema_version: Text,
        /// What DCM may ask for, as it is registered.
        operations: Vec<Operation>,
        /// JSON pointers of the spec that are stored and shown only: nothing else reads them.
        echoed: Vec<Text>,
        /// The form of problem documents.
        problem: Option<ProblemForm>,
        /// Values that the platform sets.
        settings: Named<Setting>,
        /// Expressions that are named once and used everywhere below. Evaluated when read.
        r#let: Named<Text>,
        /// What a JSON Schema cannot say.
        check: Vec<Check>,
        /// Objects that an instance is made of.
        object: Vec<Object>,
        /// Kinds that are observed.
        watch: Vec<Watch>,
        /// Objects that are not the instance's own and that checks and templates read.
        lookup: Vec<Lookup>,
        /// How observed objects become a status.
        status: Status,
        /// Response fields beyond the stored spec.
        view: Option<View>,
        /// What PATCH may change, and how.
        update: Option<Update>,
        /// The way back from objects to a spec, for instances that another program made.
        adopt: Option<Adopt>,
    }

    /// How the problem documents of a type are written.
    pub struct ProblemForm {
        /// Put before the code of a problem to make its `type`; without it the bare code is the type.
        type_prefix: Option<Text>,
    }

    /// One value that the platform sets for this type.
    pub struct Setting {
        /// The environment variable that holds it.
        env: Text,
        /// The type of the value; a string where absent.
        kind: Option<SettingKind>,
        /// The values that are allowed; any where absent.
        r#enum: Vec<Text>,
        /// The value where nothing is set.
        default: Option<Tree>,
        /// Whether the start fails without it.
        required: bool,
        /// Whether its value is kept out of explanations and logs.
        secret: bool,
    }

    /// A rule that an instance must pass before anything is written.
    pub struct Check {
        /// The operations that it guards; `create` where absent.
        on: Vec<Moment>,
        /// Checks of a lower stage fail first, and all of one stage together; 1 where absent.
        stage: Option<i64>,
        /// `name in list`: the check is done for each item.
        for_each: Option<Text>,
        /// The check fails when this holds.
        when: Option<Text>,
        /// The check fails unless this holds.
        unless: Option<Text>,
        /// The HTTP status of the refusal; 400 where absent.
        status: Option<Number>,
        /// The JSON pointer of the field at fault. Text with expressions.
        pointer: Option<Text>,
        /// What is wrong. Text with expressions.
        detail: Text,
    }

    /// One object of an instance.
    pub struct Object {
        /// Its name within the mapping.
        name: Text,
        /// The template of its manifest, a file in the mapping's folder.
        template: Text,
        /// The object exists only where this holds.
        when: Option<Text>,
        /// While a root exists, so does the instance. The first object is one where none is marked.
        root: bool,
        /// The object whose owner reference this one carries: the cluster removes it with its owner.
        owned_by: Option<Text>,
        /// What a deletion does to dependents; in the background where absent.
        propagation: Option<Propagation>,
        /// JSON pointers of the manifest below which a change restarts pods; where absent `/spec/template`,
        /// where Kubernetes' controllers keep the template of their pods.
        restarts: Option<Vec<Text>>,
    }

    /// One kind that is observed for each instance.
    pub struct Watch {
        /// The variable of the object that speaks for the instance: the first after `where` and `order`.
        name: Text,
        /// The variable of all observed objects, before `where`.
        all: Option<Text>,
        api_version: Text,
        kind: Text,
        /// Excludes candidates; `item` is the candidate.
        r#where: Option<Text>,
        /// Orders candidates: true before false, larger before smaller, ties by name.
        order: Vec<Text>,
        /// How an object finds its instance; by label where absent.
        r#match: Option<Match>,
    }

    /// Something of the cluster that is not the instance's own.
    pub struct Lookup {
        name: Text,
        api_version: Text,
        kind: Text,
        /// The name of the one object. Text with expressions; absent or empty means none.
        get: Option<Text>,
        /// Whether all objects of the kind in the instance's namespace are meant.
        list: bool,
        /// The operations in which it is fetched, and the checks that read it are judged; all where absent.
        on: Vec<Moment>,
    }

    /// The status table: first match wins, order is precedence.
    pub struct Status {
        /// Every word that a rule may say.
        values: Vec<Text>,
        /// The status before anything was observed.
        initial: Text,
        /// The word for an instance that is no more.
        gone: Text,
        /// The word for an instance of which objects are left after its deletion; the previous status
        /// stands where there is none.
        deleting: Option<Text>,
        /// Changes into and out of which statuses wait out a window first.
        settle: Option<Settle>,
        rule: Vec<Rule>,
        /// Texts that are appended to every message where their condition holds.
        note: Vec<Note>,
    }

    pub struct Settle {
        /// The statuses that may be a passing fault.
        into: Vec<Text>,
        /// The good ones that are left for them.
        from: Vec<Text>,
    }

    /// One row of the status table.
    pub struct Rule {
        /// Its name in `explain`, logs and coverage.
        name: Text,
        /// The row matches when this holds; always where absent.
        when: Option<Text>,
        /// The status it says.
        status: Option<Text>,
        /// The previous status stands.
        keep: bool,
        /// Says why. Text with expressions.
        message: Option<Text>,
    }

    pub struct Note {
        when: Text,
        text: Text,
    }

    /// The part of an answer that is not the stored spec.
    pub struct View {
        /// A template whose tree is laid over `{ "spec": <stored spec> }`.
        template: Text,
        /// JSON pointers of the stored spec that are not echoed.
        omit: Vec<Text>,
    }

    /// How objects without a record show the spec that they were made from.
    pub struct Adopt {
        /// A template that reads observed objects and gives a spec.
        template: Text,
    }

    /// What PATCH does.
    pub struct Update {
        /// The JSON Schema of the patch, a file in `schemas/`.
        schema: Text,
        /// JSON pointers of the stored spec, and the expressions of their new values.
        set: Named<Text>,
        /// Objects that are patched, and with what.
        r#do: Vec<ObjectPatch>,
    }

    /// A merge patch of one object.
    pub struct ObjectPatch {
        /// The object's name within the mapping.
        object: Text,
        /// The template of the patch, a file in the mapping's folder.
        template: Text,
    }
}

words! {
    pub enum Format {
        V1 = "mapwright/v1",
    }

    /// What DCM may ask of a type.
    pub enum Operation {
        Create = "CREATE",
        Read = "READ",
        Update = "UPDATE",
        Delete = "DELETE",
    }

    /// When a check or look-up takes part.
    pub enum Moment {
        Create = "create",
        Update = "update",
    }

    pub enum SettingKind {
        String = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
    }

    pub enum Propagation {
        Background = "Background",
        Foreground = "Foreground",
        Orphan = "Orphan",
    }

    /// How an observed object finds its instance.
    pub enum Match {
        /// It carries the instance's label.
        Label = "label",
        /// It names an observed object of the instance, by UID, in `involvedObject`.
        InvolvedObject = "involved_object",
    }
}
