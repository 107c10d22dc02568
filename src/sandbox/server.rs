//! Requests: each is bounded, read, routed to its verb and answered in the form that the client accepts.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::{Method, Request};
use serde_json::{Value, json};

use super::api::{Api, DeleteOptions, Deleted, Target, WriteOptions};
use super::discovery;
use super::kinds::Kind;
use super::list::{list, metadata_of};
use super::object::{metadata, name, namespace, text};
use super::patch;
use super::refusal::Refusal;
use super::reply::{self, Form, Reply};
use super::routes::{Place, Query, Route};
use super::schema::FieldValidation;
use super::subresource;
use super::table::Tables;
use super::watching::watch;
use crate::engine::diagnostic::Findings;
use crate::engine::read::read;
use crate::engine::source::Source;

/// What every request is answered from.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) api: Arc<Api>,
    pub(super) tables: Arc<Tables>,
}

/// One request, its body read.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) query: Query,
    pub(super) form: Form,
    pub(super) media_type: String,
    pub(super) body: Bytes,
}

/// The API server's own limit of a body.
const LARGEST_BODY: usize = 3 << 20;

/// From the end of the header to the end of the body.
const BODY_TIME: Duration = Duration::from_secs(15);

impl Server {
    pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(&self, request: Request<B>) -> Reply {
        let head = request.method() == Method::HEAD;
        let answered = self.try_answer(request).await;
        let reply = answered.unwrap_or_else(|refusal| reply::refusal(&refusal));
        if head { reply.map(|_| http_body_util::Full::new(Bytes::new()).boxed()) } else { reply }
    }

    async fn try_answer<B: Body<Data = Bytes> + Unpin>(&self, request: Request<B>) -> Result<Reply, Refusal> {
        let (head, body) = request.into_parts();
        let route = Route::of(head.uri.path());
        let query = Query::of(head.uri.query())?;
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !header(CONTENT_ENCODING).is_empty() {
            return Err(Refusal::unsupported_media_type(&["application/json"]));
        }
        let media_type = header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
        let method = if head.method == Method::HEAD { Method::GET } else { head.method };
        let form = if route == Route::Health { Form::Objects } else { Form::accepted(&head.headers)? };
        let body = read_body(body).await?;
        let call = Call { method, query, form, media_type, body };
        match route {
            Route::Objects(place) => self.objects(&place, &call),
            Route::Nowhere => Err(Refusal::no_such_path()),
            _ if call.method != Method::GET => Err(Refusal::method_not_allowed()),
            route => self.describe(&route, form),
        }
    }

    fn describe(&self, route: &Route, form: Form) -> Result<Reply, Refusal> {
        let kinds = &self.api.kinds;
        let found = match route {
            Route::Version => Some(discovery::version(kinds)),
            Route::Health => return Ok(reply::text(200, "text/plain; charset=utf-8", "ok")),
            Route::CoreVersions if form == Form::Discovery => {
                return Ok(reply::discovery(&discovery::aggregated(kinds, true)));
            }
            Route::Groups if form == Form::Discovery => {
                return Ok(reply::discovery(&discovery::aggregated(kinds, false)));
            }
            Route::CoreVersions => Some(discovery::core_versions()),
            Route::Groups => Some(discovery::groups(kinds)),
            Route::Group(group) => discovery::group(kinds, group),
            Route::GroupVersion(group, version) => discovery::group_version(kinds, group, version),
            Route::OpenApi => Some(discovery::openapi(kinds)),
            Route::OpenApiOf(root) => discovery::openapi_of(kinds, root),
            Route::Objects(_) | Route::Nowhere => None,
        };
        Ok(match found {
            Some(document) => reply::json(200, &document),
            None => reply::text(404, "text/plain; charset=utf-8", "404 page not found\n"),
        })
    }

    fn objects(&self, place: &Place, call: &Call) -> Result<Reply, Refusal> {
        let kind = self.api.kinds.by_path(&place.group, &place.version, &place.plural);
        let kind = kind.ok_or_else(Refusal::no_such_path)?;
        if !kind.namespaced && !place.namespace.is_empty() {
            return Err(Refusal::no_such_path());
        }
        if kind.namespaced && !place.name.is_empty() && place.namespace.is_empty() {
            return Err(Refusal::no_such_path());
        }
        let target = Target::new(kind.clone(), &place.namespace, &place.name).below(&place.subresource);
        if !place.subresource.is_empty() {
            return subresource::answer(self, &target, call);
        }
        match (&call.method, place.name.is_empty()) {
            (&Method::GET, true) => self.collection(&kind, place, call),
            (&Method::GET, false) if call.query.is_set("watch") => {
                watch(&self.api, &self.tables, &kind, place, &call.query, call.form)
            }
            (&Method::GET, false) => Ok(self.shown(&target, 200, self.api.get(&target)?, call.form)),
            (&Method::POST, true) if !kind.allows("get") => review(&kind, call),
            (&Method::POST, true) => self.create(&target, call),
            (&Method::PUT, false) => self.replace(&target, call),
            (&Method::PATCH, false) => self.patch(&target, call),
            (&Method::DELETE, false) => self.delete(&target, call),
            (&Method::DELETE, true) if kind.allows("deletecollection") => self.delete_all(&kind, place, call),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn collection(&self, kind: &Arc<Kind>, place: &Place, call: &Call) -> Result<Reply, Refusal> {
        if call.query.is_set("watch") {
            return watch(&self.api, &self.tables, kind, place, &call.query, call.form);
        }
        list(&self.api, &self.tables, kind, place, &call.query, call.form)
    }

    pub(super) fn create(&self, target: &Target, call: &Call) -> Result<Reply, Refusal> {
        if target.kind.namespaced && target.namespace.is_empty() {
            return Err(Refusal::method_not_allowed());
        }
        let written = self.api.create(target, call.document()?, &call.write_options()?)?;
        Ok(reply::warn(self.shown(target, 201, written.object, call.form), &written.warnings))
    }

    pub(super) fn replace(&self, target: &Target, call: &Call) -> Result<Reply, Refusal> {
        let mut sent = call.document()?;
        target.check_name(&sent)?;
        match self.api.update(target, &call.write_options()?, &|_| Ok(sent.clone())) {
            Err(refusal) if refusal.code == 404 && !target.may_be_put() => {
                self.api.check_readable(&target.kind, &sent, &call.write_options()?)?;
                Err(refusal)
            }
            // A few kinds may be made by their name, whatever version they were thought to have.
            Err(refusal) if refusal.code == 404 => {
                metadata(&mut sent).shift_remove("resourceVersion");
                let written = self.api.create(target, sent, &call.write_options()?)?;
                Ok(reply::warn(self.shown(target, 201, written.object, call.form), &written.warnings))
            }
            written => {
                let written = written?;
                Ok(reply::warn(self.shown(target, 200, written.object, call.form), &written.warnings))
            }
        }
    }

    pub(super) fn patch(&self, target: &Target, call: &Call) -> Result<Reply, Refusal> {
        const KNOWN: [&str; 4] = [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ];
        let (kinds, kind) = (&self.api.kinds, &target.kind);
        let options = call.write_options()?;
        if call.media_type == KNOWN[3] {
            return self.apply(target, call, &options);
        }
        if !KNOWN.contains(&call.media_type.as_str()) {
            let mut refusal = Refusal::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            refusal.details = json!({});
            return Err(refusal);
        }
        let sent = call.document()?;
        let change = |old: &Value| {
            let mut new = old.clone();
            // What a patch does not name is not a version that its sender knows.
            match call.media_type.as_str() {
                "application/merge-patch+json" => patch::merge(&mut new, &sent),
                "application/json-patch+json" => patch::json_patch(&mut new, &sent)?,
                _ => patch::strategic(kinds, kind, &mut new, &sent)?,
            }
            Ok(new)
        };
        let written = self.api.update(target, &options, &change);
        let written = written.map_err(|refusal| of_patch(refusal, &sent))?;
        Ok(reply::warn(self.shown(target, 200, written.object, call.form), &written.warnings))
    }

    /// Server-side apply, as far as one owner of fields goes: what is sent is merged by the definitions' keys.
    fn apply(&self, target: &Target, call: &Call, options: &WriteOptions) -> Result<Reply, Refusal> {
        if call.query.get("fieldManager").is_empty() {
            return Err(Refusal::bad_request(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        let mut sent = call.document()?;
        if !name(&sent).is_empty() && name(&sent) != target.name {
            return Err(Refusal::bad_request("the name of the object does not match the name on the URL"));
        }
        let (kinds, kind) = (&self.api.kinds, &target.kind);
        let change = |old: &Value| {
            let mut new = old.clone();
            if kind.custom {
                patch::merge(&mut new, &sent);
            } else {
                patch::strategic(kinds, kind, &mut new, &sent)?;
            }
            Ok(new)
        };
        match self.api.update(target, options, &change) {
            Err(refusal) if refusal.code == 404 && target.subresource.is_empty() => {
                sent["metadata"]["name"] = target.name.clone().into();
                let written = self.api.create(target, sent, options)?;
                Ok(reply::warn(self.shown(target, 201, written.object, call.form), &written.warnings))
            }
            written => {
                let written = written?;
                Ok(reply::warn(self.shown(target, 200, written.object, call.form), &written.warnings))
            }
        }
    }

    fn delete(&self, target: &Target, call: &Call) -> Result<Reply, Refusal> {
        let kind = &target.kind;
        match self.api.delete(target, &call.delete_options()?)? {
            Deleted::Held(object) => Ok(self.shown(target, 200, object, call.form)),
            Deleted::Gone(object) if shows_the_deceased(kind) => {
                Ok(self.shown(target, 200, object, call.form))
            }
            Deleted::Gone(object) => {
                let mut details = json!({"name": name(&object), "group": kind.group, "kind": kind.plural, "uid": text(&object, "/metadata/uid")});
                if kind.group.is_empty()
                    && let Value::Object(details) = &mut details
                {
                    details.shift_remove("group");
                }
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
                Ok(reply::json(200, &status))
            }
        }
    }

    fn delete_all(&self, kind: &Arc<Kind>, place: &Place, call: &Call) -> Result<Reply, Refusal> {
        let selector = super::list::selector(kind, place, &call.query)?;
        let options = call.delete_options()?;
        let found: Vec<Value> = {
            let (store, storage) = (self.api.store(), kind.resource_name());
            let all = store.all(&storage, &place.namespace).filter(|stored| selector.matches(stored));
            all.map(|stored| stored.object()).collect()
        };
        for object in &found {
            let target = Target::new(kind.clone(), namespace(object), name(object));
            match self.api.delete(&target, &options) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                _ => {}
            }
        }
        let version = self.api.store().version().to_string();
        let list = json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": version}, "items": found});
        Ok(reply::json(200, &list))
    }

    pub(super) fn shown(&self, target: &Target, code: u16, object: Value, form: Form) -> Reply {
        let shown = match form {
            Form::Table => self.tables.table(&target.kind, &[object], None, true),
            Form::Metadata => metadata_of(&object),
            Form::Objects | Form::Discovery => object,
        };
        reply::json(code, &shown)
    }
}

impl Call {
    /// The document of the body: JSON, or YAML where it is not.
    pub(super) fn document(&self) -> Result<Value, Refusal> {
        const READ: [&str; 8] = [
            "",
            "application/json",
            "application/yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
            "application/x-www-form-urlencoded",
        ];
        if !READ.contains(&self.media_type.as_str()) {
            return Err(Refusal::unsupported_media_type(&["application/json", "application/yaml"]));
        }
        let error = match serde_json::from_slice(&self.body) {
            Ok(document) => return Ok(document),
            Err(error) => error,
        };
        if !self.media_type.ends_with("yaml") {
            let text = format!("couldn't get version/kind; json parse error: {error}");
            return Err(Refusal::bad_request(text));
        }
        let source = Source::new("body.yaml", String::from_utf8_lossy(&self.body).into_owned());
        let mut findings = Findings::default();
        let tree = read(&source, &mut findings).filter(|_| findings.is_empty());
        tree.map(|tree| tree.to_json())
            .ok_or_else(|| Refusal::bad_request(format!("error decoding YAML: {findings}")))
    }

    pub(super) fn write_options(&self) -> Result<WriteOptions, Refusal> {
        let validation = match self.query.get("fieldValidation") {
            "Strict" => FieldValidation::Strict,
            "Warn" | "" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            other => {
                let (value, known) = (format!("{other:?}"), "\"Ignore\", \"Strict\", \"Warn\"");
                return Err(options_refused("CreateOptions", "fieldValidation", &value, known));
            }
        };
        Ok(WriteOptions { dry_run: self.is_dry()?, validation })
    }

    fn is_dry(&self) -> Result<bool, Refusal> {
        match self.query.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(options_refused("CreateOptions", "dryRun", &format!("[{other:?}]"), "\"All\"")),
        }
    }

    fn delete_options(&self) -> Result<DeleteOptions, Refusal> {
        let sent = if self.body.is_empty() { Value::Null } else { self.document()? };
        let text = |pointer: &str| sent.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let either = |own: Option<String>, name: &str| match own {
            Some(own) => own,
            None => self.query.get(name).to_owned(),
        };
        let propagation = either(text("/propagationPolicy"), "propagationPolicy");
        let known = ["", "Background", "Foreground", "Orphan"].contains(&propagation.as_str());
        if !known {
            let known = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            let value = format!("{propagation:?}");
            return Err(options_refused("DeleteOptions", "propagationPolicy", &value, known));
        }
        let grace = sent["gracePeriodSeconds"].as_i64();
        let grace = match grace {
            Some(grace) => Some(grace),
            None => self.query.number("gracePeriodSeconds")?.and_then(|grace| i64::try_from(grace).ok()),
        };
        let dry = sent["dryRun"].as_array().is_some_and(|dry| !dry.is_empty());
        Ok(DeleteOptions {
            dry_run: dry || self.is_dry()?,
            propagation,
            grace,
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
        })
    }
}

/// An option of a request that has no such value.
fn options_refused(options: &str, field: &str, value: &str, known: &str) -> Refusal {
    let message = format!("Unsupported value: {value}: supported values: {known}");
    let text = format!("{options}.meta.k8s.io \"\" is invalid: {field}: {message}");
    let mut refusal = Refusal::new(422, "Invalid", text);
    let cause = json!({"reason": "FieldValueNotSupported", "message": message, "field": field});
    refusal.details = json!({"group": "meta.k8s.io", "kind": options, "causes": [cause]});
    refusal
}

/// What a definition does not know, or cannot hold, is a mistake of the patch, and not of its form.
fn of_patch(refusal: Refusal, sent: &Value) -> Refusal {
    let mistakes = ["strict decoding error", "json: cannot unmarshal"];
    let mut places = mistakes.iter().filter_map(|mistake| refusal.message.find(mistake));
    let Some(at) = places.next() else { return refusal };
    let message = format!("Invalid value: {:?}: {}", sent.to_string(), &refusal.message[at..]);
    let mut invalid = Refusal::new(422, "Invalid", format!(" \"\" is invalid: patch: {message}"));
    let cause = json!({"reason": "FieldValueInvalid", "message": message, "field": "patch"});
    invalid.details = json!({"causes": [cause]});
    invalid
}

/// Kinds of which a deletion answers with the object as it last was.
fn shows_the_deceased(kind: &Kind) -> bool {
    const KINDS: [&str; 7] = [
        "Pod",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ResourceQuota",
        "ServiceAccount",
        "PodTemplate",
        "Service",
    ];
    kind.group.is_empty() && KINDS.contains(&kind.kind.as_str())
}

/// A question about rights: nobody is refused anything here.
fn review(kind: &Kind, call: &Call) -> Result<Reply, Refusal> {
    let mut asked = call.document()?;
    if !asked.is_object() {
        return Err(Refusal::bad_request("the body is no object"));
    }
    asked["kind"] = kind.kind.clone().into();
    asked["apiVersion"] = kind.api_version().into();
    asked["status"] = match kind.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": {"username": "admin", "groups": ["system:masters"]}}),
        "TokenReview" => json!({"authenticated": true, "user": {"username": "admin"}}),
        _ => json!({"allowed": true}),
    };
    Ok(reply::json(201, &asked))
}

async fn read_body(mut body: impl Body<Data = Bytes> + Unpin) -> Result<Bytes, Refusal> {
    let reading = async {
        let mut collected = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::bad_request("the body ended before it was complete"))?;
            if let Ok(data) = frame.into_data() {
                if collected.len() + data.len() > LARGEST_BODY {
                    return Err(Refusal::too_large(LARGEST_BODY));
                }
                collected.extend_from_slice(&data);
            }
        }
        Ok(collected.freeze())
    };
    let timed = tokio::time::timeout(BODY_TIME, reading).await;
    timed.unwrap_or_else(|_| Err(Refusal::new(408, "Timeout", "the body did not arrive in time")))
}
