//! The verbs: what each does to the store, between the request's form and the rules of its kind.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::addresses::Addresses;
use super::admit;
use super::kinds::{Kind, Kinds};
use super::names;
use super::object::{finalizers, is_deleting, metadata, name, namespace, now, set, text, uid};
use super::refusal::Refusal;
use super::schema::{FieldValidation, Walk};
use super::store::{Key, Storage, Store, Stored};

/// The API: kinds, and their objects.
pub(super) struct Api {
    pub(super) kinds: Kinds,
    pub(super) defaults: Map<String, Value>,
    pub(super) addresses: Mutex<Addresses>,
    store: Mutex<Store>,
}

/// What a request is about.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) kind: Arc<Kind>,
    pub(super) namespace: String,
    pub(super) name: String,
    /// `status`, `scale`; empty for the object itself.
    pub(super) subresource: String,
}

/// How a write is to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteOptions {
    /// Everything but the writing.
    pub(super) dry_run: bool,
    pub(super) validation: FieldValidation,
}

/// What a deletion asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    pub(super) dry_run: bool,
    /// `Background`, `Foreground` or `Orphan`; empty is what the kind does by itself.
    pub(super) propagation: String,
    pub(super) grace: Option<i64>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

/// What a write answers.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) object: Value,
    /// What the server says beside its answer: members that it dropped.
    pub(super) warnings: Vec<String>,
}

/// What became of a deletion.
#[derive(Debug)]
pub(super) enum Deleted {
    Gone(Value),
    /// Something holds it; this is how it stands now.
    Held(Value),
}

/// The largest object, as etcd's own limit has it.
const LARGEST: usize = 1_572_864;

impl Api {
    pub(super) fn new(kinds: Kinds, defaults: Map<String, Value>) -> Self {
        Self { kinds, defaults, addresses: Mutex::default(), store: Mutex::new(Store::new()) }
    }

    /// The store, for one question or one write.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, target: &Target) -> Result<Value, Refusal> {
        let store = self.store();
        let stored = store.get(&target.storage(), &target.key());
        let stored = stored.ok_or_else(|| Refusal::not_found(&target.kind, &target.name))?;
        Ok(self.shown(&target.kind, stored))
    }

    /// An object in the version that is asked for.
    pub(super) fn shown(&self, kind: &Kind, stored: &Stored) -> Value {
        let mut object = stored.object();
        if kind.custom {
            object["apiVersion"] = kind.api_version().into();
        }
        object
    }

    pub(super) fn create(
        &self,
        target: &Target,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Refusal> {
        let kind = &target.kind;
        check_envelope(target, &mut object)?;
        if name(&object).is_empty() && !text(&object, "/metadata/generateName").is_empty() {
            let generated = names::generate(text(&object, "/metadata/generateName"));
            metadata(&mut object).insert("name".to_owned(), generated.into());
        }
        let mut store = self.store();
        self.check_namespace(&store, kind, &object)?;
        let versioned = !text(&object, "/metadata/resourceVersion").is_empty();
        fresh(kind, &mut object);
        admit::prepare(self, &store, kind, &mut object, None)?;
        let warnings = self.judge(kind, &mut object, None, options.validation)?;
        if versioned {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::new(500, "", why));
        }
        let object = ordered(kind, object);
        check_size(&object)?;
        if let Some(existing) = store.get(&target.storage(), &key_of(&object)) {
            return Err(Refusal::already_exists(kind, name(&object), is_deleting(&existing.object())));
        }
        admit::charge(&mut store, kind, None, &object, options.dry_run)?;
        if options.dry_run {
            return Ok(Written { object, warnings });
        }
        let object = store.put(&target.storage(), object)?;
        admit::after_write(self, kind, None, &object);
        Ok(Written { object, warnings })
    }

    /// Puts what `change` makes of an object in its place, under the rules of its kind.
    pub(super) fn update(
        &self,
        target: &Target,
        options: &WriteOptions,
        change: &dyn Fn(&Value) -> Result<Value, Refusal>,
    ) -> Result<Written, Refusal> {
        let kind = &target.kind;
        let mut store = self.store();
        let stored = store.get(&target.storage(), &target.key()).cloned();
        let stored = stored.ok_or_else(|| Refusal::not_found(kind, &target.name))?;
        let old = self.shown(kind, &stored);
        let mut new = change(&old)?;
        check_envelope(target, &mut new)?;
        target.check_name(&new)?;
        if let Err(stale) = check_versions(kind, &old, &new) {
            self.check_readable(kind, &new, options)?;
            return Err(stale);
        }
        restrict(target, &old, &mut new);
        admit::prepare(self, &store, kind, &mut new, Some(&old))?;
        let warnings = self.judge(kind, &mut new, Some(&old), options.validation)?;
        count_generation(kind, &old, &mut new);
        let new = ordered(kind, new);
        check_size(&new)?;
        if new == old {
            return Ok(Written { object: old, warnings });
        }
        admit::charge(&mut store, kind, Some(&old), &new, options.dry_run)?;
        if options.dry_run {
            return Ok(Written { object: new, warnings });
        }
        // With its last finalizer an object is gone: nobody sees it without.
        if is_over(kind, &new) {
            self.take_away(&mut store, target, &new);
            return Ok(Written { object: new, warnings });
        }
        let object = store.put(&target.storage(), new)?;
        admit::after_write(self, kind, Some(&old), &object);
        Ok(Written { object, warnings })
    }

    pub(super) fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, Refusal> {
        let kind = &target.kind;
        let mut store = self.store();
        let stored = store.get(&target.storage(), &target.key()).cloned();
        let stored = stored.ok_or_else(|| Refusal::not_found(kind, &target.name))?;
        let mut object = self.shown(kind, &stored);
        check_preconditions(kind, &object, options)?;
        let grace = grace(kind, &object, options);
        hold(&mut object, &options.propagation);
        let held = !finalizers(&object).is_empty() || grace > 0 || has_own_finalizers(kind, &object);
        if options.dry_run {
            return Ok(Deleted::Gone(object));
        }
        if !held {
            self.take_away(&mut store, target, &object);
            if kind.is("", "Pod") {
                begin_deletion(kind, &mut object, 0);
            }
            return Ok(Deleted::Gone(object));
        }
        let known = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        if !is_deleting(&object) || known.is_some_and(|known| grace < known) {
            begin_deletion(kind, &mut object, grace);
        }
        let object = ordered(kind, object);
        if object == self.shown(kind, &stored) {
            return Ok(Deleted::Held(object));
        }
        let object = store.put(&target.storage(), object)?;
        if is_over(kind, &object) {
            self.take_away(&mut store, target, &object);
            return Ok(Deleted::Gone(object));
        }
        Ok(Deleted::Held(object))
    }

    /// What cannot be read at all is refused before anything else is looked at.
    pub(super) fn check_readable(
        &self,
        kind: &Kind,
        object: &Value,
        options: &WriteOptions,
    ) -> Result<(), Refusal> {
        Walk::new(&self.kinds, &self.defaults).object(kind, &mut object.clone(), options.validation)
    }

    /// The definition's own judgement, then the kind's rules.
    fn judge(
        &self,
        kind: &Kind,
        object: &mut Value,
        old: Option<&Value>,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Refusal> {
        let mut walk = Walk::new(&self.kinds, &self.defaults);
        walk.object(kind, object, validation)?;
        let (unknown, missing) = (walk.unknown, walk.causes);
        admit::complete(kind, object);
        let mut causes = Vec::new();
        admit::judge(kind, object, old, &mut causes);
        causes.extend(missing);
        if !causes.is_empty() {
            return Err(Refusal::invalid(kind, name(object), &causes));
        }
        let warn = validation == FieldValidation::Warn;
        let warnings = unknown.into_iter().filter(|_| warn);
        Ok(warnings.map(|path| format!("unknown field {path:?}")).collect())
    }

    fn check_namespace(&self, store: &Store, kind: &Kind, object: &Value) -> Result<(), Refusal> {
        if !kind.namespaced {
            return Ok(());
        }
        let name = namespace(object);
        let found = store.get("namespaces", &(String::new(), name.to_owned()));
        match found {
            None => Err(Refusal::namespace_not_found(name)),
            // The last word on what happens in a namespace may still be said.
            Some(_) if kind.kind == "Event" => Ok(()),
            Some(found) if is_deleting(&found.object()) => {
                Err(Refusal::terminating(kind, self::name(object), name))
            }
            Some(_) => Ok(()),
        }
    }

    pub(super) fn take_away(&self, store: &mut Store, target: &Target, object: &Value) {
        store.remove(&target.storage(), &target.key());
        admit::after_removal(self, &target.kind, object);
    }
}

impl Target {
    pub(super) fn new(kind: Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned(), subresource: String::new() }
    }

    pub(super) fn below(mut self, subresource: &str) -> Self {
        self.subresource = subresource.to_owned();
        self
    }

    pub(super) fn check_name(&self, object: &Value) -> Result<(), Refusal> {
        let (sent, meant) = (name(object), self.name.as_str());
        if sent != meant {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({sent}) does not match the name on the URL ({meant})"
            )));
        }
        Ok(())
    }

    /// Whether a PUT makes it where it is not there.
    pub(super) fn may_be_put(&self) -> bool {
        let kind = &self.kind;
        let known = match kind.group.as_str() {
            "" => ["Service", "Endpoints", "Event", "LimitRange"].contains(&kind.kind.as_str()),
            "coordination.k8s.io" | "rbac.authorization.k8s.io" => true,
            _ => false,
        };
        known && self.subresource.is_empty()
    }

    pub(super) fn storage(&self) -> Storage {
        self.kind.resource_name().into()
    }

    pub(super) fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }
}

fn key_of(object: &Value) -> Key {
    (namespace(object).to_owned(), name(object).to_owned())
}

/// Type and namespace of what was sent fit the path, or are filled in from it.
fn check_envelope(target: &Target, object: &mut Value) -> Result<(), Refusal> {
    let kind = &target.kind;
    let misfit = || {
        Refusal::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal into Go value",
            kind.kind, kind.version, kind.kind
        ))
    };
    let Value::Object(members) = &mut *object else { return Err(misfit()) };
    if members.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err(misfit());
    }
    for (key, expected) in [("kind", kind.kind.clone()), ("apiVersion", kind.api_version())] {
        match members.get(key).and_then(Value::as_str) {
            None | Some("") => {
                members.insert(key.to_owned(), expected.into());
            }
            Some(sent) if *sent != expected => {
                let text = format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: no kind {sent:?} is registered",
                    kind = kind.kind,
                    version = kind.version,
                    sent = format!("{}, {}", text(object, "/apiVersion"), text(object, "/kind")),
                );
                return Err(Refusal::bad_request(text));
            }
            Some(_) => {}
        }
    }
    let sent = namespace(object).to_owned();
    if !sent.is_empty() && sent != target.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let namespace = kind.namespaced.then(|| target.namespace.clone().into());
    set(metadata(object), "namespace", namespace);
    Ok(())
}

/// What the server alone decides of a new object.
fn fresh(kind: &Kind, object: &mut Value) {
    let members = metadata(object);
    for key in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink", "managedFields"]
    {
        members.shift_remove(key);
    }
    let named = members.get("name").and_then(Value::as_str).unwrap_or_default();
    let purpose = format!("{} {named}", kind.kind);
    members.insert("uid".to_owned(), crate::clock::unique(&purpose).to_string().into());
    members.insert("creationTimestamp".to_owned(), now().into());
    let generation = counts_generations(kind).then(|| json!(1));
    set(members, "generation", generation);
    if kind.has("status")
        && let Value::Object(members) = object
    {
        members.shift_remove("status");
    }
}

/// Kinds of which a change of the spec is counted.
fn counts_generations(kind: &Kind) -> bool {
    if kind.custom {
        return true;
    }
    match kind.group.as_str() {
        "" => ["Pod", "ReplicationController"].contains(&kind.kind.as_str()),
        "apps" => kind.kind != "ControllerRevision",
        "batch"
        | "policy"
        | "networking.k8s.io"
        | "apiextensions.k8s.io"
        | "flowcontrol.apiserver.k8s.io" => true,
        "admissionregistration.k8s.io" => true,
        _ => false,
    }
}

fn count_generation(kind: &Kind, old: &Value, new: &mut Value) {
    if !counts_generations(kind) {
        return;
    }
    let rest = |object: &Value| {
        let mut rest = object.clone();
        if let Value::Object(members) = &mut rest {
            members.retain(|key, _| key != "metadata" && key != "status");
        }
        rest
    };
    let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(1);
    // Of this kind, notes count as well: its controller reads some of them.
    let noted = kind.is("apps", "Deployment")
        && old.pointer("/metadata/annotations") != new.pointer("/metadata/annotations");
    let changed = noted || rest(old) != rest(new);
    metadata(new).insert("generation".to_owned(), (generation + i64::from(changed)).into());
}

/// A write under a version, or of an identity, that is no longer the present one is refused.
fn check_versions(kind: &Kind, old: &Value, new: &Value) -> Result<(), Refusal> {
    let sent = text(new, "/metadata/resourceVersion");
    if !sent.is_empty() && sent != text(old, "/metadata/resourceVersion") {
        return Err(Refusal::stale(kind, name(old)));
    }
    let sent = uid(new);
    if !sent.is_empty() && sent != uid(old) {
        let why =
            format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {}", uid(old));
        return Err(Refusal::conflict(kind, name(old), &why));
    }
    Ok(())
}

/// Keeps of a change what the path may change: a status changes below `/status` only, all else elsewhere.
fn restrict(target: &Target, old: &Value, new: &mut Value) {
    if target.subresource == "status" {
        let status = new.get("status").cloned();
        let annotations = new.pointer("/metadata/annotations").cloned();
        *new = old.clone();
        set(metadata(new), "annotations", annotations);
        if let Value::Object(members) = new {
            set(members, "status", status);
        }
    } else if target.kind.has("status")
        && let Value::Object(members) = new
    {
        set(members, "status", old.get("status").cloned());
    }
    let members = metadata(new);
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "generateName",
    ] {
        set(members, key, old.pointer(&format!("/metadata/{key}")).cloned());
    }
    for key in ["selfLink", "managedFields"] {
        members.shift_remove(key);
    }
}

fn check_preconditions(kind: &Kind, object: &Value, options: &DeleteOptions) -> Result<(), Refusal> {
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid(object)) {
        let found = uid(object);
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might \
             have been deleted and then recreated"
        );
        return Err(Refusal::precondition(kind, name(object), &why));
    }
    let version = text(object, "/metadata/resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(Refusal::precondition(kind, name(object), &why));
    }
    Ok(())
}

/// How long a pod that runs somewhere may take to end; everything else ends at once.
fn grace(kind: &Kind, object: &Value, options: &DeleteOptions) -> i64 {
    if !kind.is("", "Pod") {
        return 0;
    }
    let ended = ["Succeeded", "Failed"].contains(&text(object, "/status/phase"));
    if text(object, "/spec/nodeName").is_empty() || ended {
        return 0;
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    options.grace.or(own).unwrap_or(30).max(0)
}

/// Puts the finalizer in by which a propagation waits for the dependents.
fn hold(object: &mut Value, propagation: &str) {
    let wanted = match propagation {
        "Foreground" => "foregroundDeletion",
        "Orphan" => "orphan",
        _ => return,
    };
    let mut all: Vec<Value> = finalizers(object).into_iter().map(Value::from).collect();
    if !all.iter().any(|known| known == wanted) {
        all.push(wanted.into());
    }
    metadata(object).insert("finalizers".to_owned(), all.into());
}

fn begin_deletion(kind: &Kind, object: &mut Value, grace: i64) {
    let end = crate::clock::now() + jiff::SignedDuration::from_secs(grace);
    let counts = counts_generations(kind);
    let members = metadata(object);
    let end = end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    members.insert("deletionTimestamp".to_owned(), end.into());
    // A namespace ends when it is empty, and not after a time.
    if !kind.is("", "Namespace") {
        members.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
    if counts {
        let generation = members.get("generation").and_then(Value::as_i64).unwrap_or(1);
        members.insert("generation".to_owned(), (generation + 1).into());
    }
    if kind.is("", "Namespace") {
        object["status"]["phase"] = "Terminating".into();
    }
}

/// A namespace has finalizers of its own, in its spec.
fn has_own_finalizers(kind: &Kind, object: &Value) -> bool {
    kind.is("", "Namespace") && !super::object::list(object, "/spec/finalizers").is_empty()
}

/// Whether nothing holds an object any more that is being deleted.
fn is_over(kind: &Kind, object: &Value) -> bool {
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    is_deleting(object)
        && finalizers(object).is_empty()
        && grace.unwrap_or_default() == 0
        && !has_own_finalizers(kind, object)
}

fn check_size(object: &Value) -> Result<(), Refusal> {
    if object.to_string().len() > LARGEST {
        return Err(Refusal::too_large(LARGEST));
    }
    Ok(())
}

/// The members in the order in which the API server writes them; empty metadata is left out.
fn ordered(kind: &Kind, object: Value) -> Value {
    let Value::Object(mut members) = object else { return object };
    let mut ordered = Map::new();
    ordered.insert("kind".to_owned(), kind.kind.clone().into());
    ordered.insert("apiVersion".to_owned(), kind.api_version().into());
    if let Some(Value::Object(mut inner)) = members.shift_remove("metadata") {
        inner.retain(|_, value| {
            let empty = value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_str() == Some("");
            !empty
        });
        let mut metadata = Map::new();
        const ORDER: [&str; 14] = [
            "name",
            "generateName",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "labels",
            "annotations",
            "ownerReferences",
            "finalizers",
            "managedFields",
        ];
        for key in ORDER {
            if let Some(value) = inner.shift_remove(key) {
                metadata.insert(key.to_owned(), value);
            }
        }
        metadata.extend(inner);
        ordered.insert("metadata".to_owned(), metadata.into());
    }
    let status = members.shift_remove("status");
    members.retain(|key, _| key != "kind" && key != "apiVersion");
    ordered.extend(members);
    if let Some(status) = status {
        ordered.insert("status".to_owned(), status);
    }
    Value::Object(ordered)
}
