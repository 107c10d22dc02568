//! What the process that holds a sandbox may do to it without a socket: ask, write, and say what happens next.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use hyper::{Request, Response};
use serde_json::{Value, json};

use super::api::{DeleteOptions, Target, WriteOptions};
use super::kinds::Kind;
use super::object::{name, namespace};
use super::patch;
use super::selector::Selector;
use super::{Sandbox, Stages};

/// An answer that is on its way.
type Answering = BoxFuture<'static, Response<BoxBody<Bytes, Infallible>>>;

impl Sandbox {
    /// What answers requests as the server does.
    #[must_use]
    pub fn answerer(&self) -> Arc<dyn Fn(Request<Vec<u8>>) -> Answering + Send + Sync> {
        let server = self.server.clone();
        Arc::new(move |request| {
            let server = server.clone();
            Box::pin(async move { server.answer(request.map(|body| Full::new(Bytes::from(body)))).await })
        })
    }

    /// From now on these stages happen, and no others.
    pub fn play(&self, stages: Arc<Stages>) {
        if let Some(playing) = &self.stages {
            playing.send_replace(stages);
        }
    }

    /// Makes a namespace.
    ///
    /// # Errors
    /// When its name is none.
    pub fn make_namespace(&self, name: &str) -> Result<(), String> {
        self.create("v1", "Namespace", "", json!({ "metadata": { "name": name } })).map(|_| ())
    }

    /// Puts an object in, as a client would.
    ///
    /// # Errors
    /// The refusal that a client would get.
    pub fn create(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Value, String> {
        let kind = self.kind(api_version, kind)?;
        let namespace = if kind.namespaced { namespace } else { "" };
        let target = Target::new(kind, namespace, "");
        let written = self.server.api.create(&target, object, &WriteOptions::default());
        written.map(|written| written.object).map_err(|refusal| refusal.message)
    }

    /// Puts in documents that define kinds, and changes those that are there already.
    ///
    /// # Errors
    /// The refusal that a client would get.
    pub fn define(&self, definitions: &[Value]) -> Result<(), String> {
        for definition in definitions {
            let member = |key: &str| definition[key].as_str().unwrap_or_default();
            let there = self.find(member("apiVersion"), member("kind"), "", "")?;
            if there.iter().any(|object| name(object) == name(definition)) {
                self.change(definition, definition)?;
            } else {
                self.create(member("apiVersion"), member("kind"), "", definition.clone())?;
            }
        }
        Ok(())
    }

    /// The objects of a kind that these labels select.
    ///
    /// # Errors
    /// When there is no such kind, or the selector is none.
    pub fn find(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, String> {
        let kind = self.kind(api_version, kind)?;
        let selector = Selector::read(&kind, labels, "").map_err(|refusal| refusal.message)?;
        let store = self.server.api.store();
        let inside = if kind.namespaced { namespace } else { "" };
        let storage = kind.resource_name();
        let all = store.all(&storage, inside).filter(|stored| selector.matches(stored));
        Ok(all.map(|stored| stored.object()).collect())
    }

    /// Changes an object by a merge patch; what it says of the status goes where a status is written.
    ///
    /// # Errors
    /// The refusal that a client would get.
    pub fn change(&self, object: &Value, change: &Value) -> Result<(), String> {
        let target = self.target(object)?;
        let mut rest = change.clone();
        let status = match &mut rest {
            Value::Object(members) if target.kind.has("status") => members.shift_remove("status"),
            _ => None,
        };
        let write = |target: &Target, part: &Value| {
            let patched = |old: &Value| {
                let mut new = old.clone();
                patch::merge(&mut new, part);
                Ok(new)
            };
            let written = self.server.api.update(target, &WriteOptions::default(), &patched);
            written.map(|_| ()).map_err(|refusal| refusal.message)
        };
        if rest.as_object().is_none_or(|rest| !rest.is_empty()) {
            write(&target, &rest)?;
        }
        status.map_or(Ok(()), |status| write(&target.below("status"), &json!({ "status": status })))
    }

    /// Deletes an object, as a client would that leaves its dependents to the collector.
    ///
    /// # Errors
    /// The refusal that a client would get.
    pub fn delete(&self, object: &Value) -> Result<(), String> {
        let options = DeleteOptions { propagation: "Background".to_owned(), ..DeleteOptions::default() };
        let deleted = self.server.api.delete(&self.target(object)?, &options);
        deleted.map(|_| ()).map_err(|refusal| refusal.message)
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<Arc<Kind>, String> {
        let found = self.server.api.kinds.by_kind(api_version, kind);
        found.ok_or_else(|| format!("there is no {kind} in {api_version}"))
    }

    fn target(&self, object: &Value) -> Result<Target, String> {
        let member = |key: &str| object[key].as_str().unwrap_or_default();
        let kind = self.kind(member("apiVersion"), member("kind"))?;
        Ok(Target::new(kind, namespace(object), name(object)))
    }
}
