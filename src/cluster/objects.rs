//! The verbs: create, get, list, patch, replace, delete one object, as JSON.

use hyper::Method;
use kube::core::params::ListParams;
use serde_json::{Value, json};

use super::connection::{Cluster, get, unsendable, with_body};
use super::refusal::{Refusal, RefusalKind};
use super::resource::{Resource, ResourceRef};
use super::store::metadata;

/// Who the server's records of field ownership say has written.
const FIELD_MANAGER: &str = "mapwright";

/// Objects a page of a list: the size that the API server's own clients use.
pub(crate) const PAGE: u32 = 500;

/// What became of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// The object is gone.
    Gone,
    /// The server accepted it, and the object is still there: a finalizer or a grace period holds it.
    Terminating(Box<Value>),
    /// There was no such object.
    Missing,
    /// An object of this name is there, but a precondition does not hold: it is another one than was
    /// meant, or it changed. It was not touched.
    NotOurs,
}

/// What happens to the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What must be true of an object for its deletion to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preconditions<'a> {
    pub uid: Option<&'a str>,
    pub resource_version: Option<&'a str>,
}

/// Which objects of a collection are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListOptions {
    pub labels: Option<String>,
    pub fields: Option<String>,
}

impl Cluster {
    /// Creates an object. A field that the server does not know is refused, never dropped in silence.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; `leaves_doubt` tells when it may exist all the same.
    pub async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, Refusal> {
        self.post(resource, namespace, object, "").await
    }

    /// Asks what a creation would answer, defaults and admission included, without creating.
    ///
    /// # Errors
    /// The refusal that the creation would get.
    pub async fn dry_run_create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, Refusal> {
        self.post(resource, namespace, object, "&dryRun=All").await
    }

    /// One object; None when the server says that there is none.
    ///
    /// # Errors
    /// Everything else, a kind that is no longer served among it: that proves no absence.
    pub async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, Refusal> {
        match self.call(get(&resource.path(namespace, name)?)?).await {
            Ok(object) => Ok(Some(without_managed_fields(object))),
            Err(refusal) if refusal.kind == RefusalKind::NotFound => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// All objects of a namespace (of all namespaces, if it is empty) that the options select: one
    /// consistent state, read to its last page or not at all.
    ///
    /// # Errors
    /// When any page is refused. A list whose pages expired under way is begun anew, once.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Vec<Value>, Refusal> {
        match self.list_once(resource, namespace, options).await {
            Err(refusal) if refusal.kind == RefusalKind::Expired => {
                self.list_once(resource, namespace, options).await
            }
            answer => answer,
        }
    }

    /// Changes the members that a JSON merge patch names, if the object still has this resource version.
    ///
    /// # Errors
    /// `Conflict` when the object changed in between.
    pub async fn merge_patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        resource_version: Option<&str>,
        patch: &Value,
    ) -> Result<Value, Refusal> {
        let mut patch = patch.clone();
        if let Some(version) = resource_version {
            set_resource_version(&mut patch, version)?;
        }
        let path = format!("{}?{}", resource.path(namespace, name)?, write_options(""));
        let request = with_body(Method::PATCH, &path, "application/merge-patch+json", &patch)?;
        self.call(request).await.map(without_managed_fields)
    }

    /// Puts a whole object in the place of the one with this resource version.
    ///
    /// # Errors
    /// `Conflict` when the object changed in between.
    pub async fn replace(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        resource_version: &str,
        object: &Value,
    ) -> Result<Value, Refusal> {
        let mut object = object.clone();
        set_resource_version(&mut object, resource_version)?;
        let path = format!("{}?{}", resource.path(namespace, name)?, write_options(""));
        let request = with_body(Method::PUT, &path, "application/json", &object)?;
        self.call(request).await.map(without_managed_fields)
    }

    /// Deletes an object, if the preconditions hold.
    ///
    /// # Errors
    /// Only what is neither success nor absence nor another object of the name.
    pub async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        preconditions: Preconditions<'_>,
        propagation: Propagation,
    ) -> Result<Deleted, Refusal> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation.as_str(),
            "preconditions": {
                "uid": preconditions.uid,
                "resourceVersion": preconditions.resource_version,
            },
        });
        let path = resource.path(namespace, name)?;
        let request = with_body(Method::DELETE, &path, "application/json", &options)?;
        deleted(self.call(request).await)
    }

    /// The uid of a namespace: it tells two clusters, and two lives of one namespace, apart.
    ///
    /// # Errors
    /// When the server refuses or does not answer in time, or has no such namespace.
    pub async fn namespace_uid(&self, name: &str) -> Result<String, Refusal> {
        let resource = self.resource(&ResourceRef::new("v1", "Namespace")).await?;
        let namespace = self.get(&resource, "", name).await?;
        let uid = namespace.as_ref().map(|namespace| metadata(namespace, "uid").to_owned());
        uid.ok_or_else(|| Refusal::new(RefusalKind::NotFound, format!("there is no namespace {name}")))
    }

    /// The text of a subresource, such as a log. The query's values are encoded here.
    ///
    /// # Errors
    /// When the server refuses or does not answer in time.
    pub async fn subresource_text(
        &self,
        resource: &Resource,
        (namespace, name): (&str, &str),
        subresource: &str,
        query: &[(&str, &str)],
    ) -> Result<String, Refusal> {
        let query: Vec<String> =
            query.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect();
        let path = format!("{}/{subresource}?{}", resource.path(namespace, name)?, query.join("&"));
        self.text(get(&path)?).await
    }

    /// One page of a list, as the server sends it.
    pub(crate) async fn list_page(
        &self,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
        token: Option<&str>,
    ) -> Result<Value, Refusal> {
        let params = ListParams {
            label_selector: options.labels.clone(),
            field_selector: options.fields.clone(),
            limit: Some(PAGE),
            continue_token: token.map(str::to_owned),
            ..ListParams::default()
        };
        let request = kube::core::Request::new(resource.collection(namespace)?).list(&params);
        self.call(request.map_err(|error| unsendable(&error))?).await
    }

    async fn list_once(
        &self,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Vec<Value>, Refusal> {
        let mut objects = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut page = self.list_page(resource, namespace, options, token.as_deref()).await?;
            objects.extend(take_items(&mut page).map(|item| typed(item, resource)));
            token = continue_token(&page);
            if token.is_none() {
                return Ok(objects);
            }
        }
    }

    async fn post(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
        more: &str,
    ) -> Result<Value, Refusal> {
        let path = format!("{}?{}", resource.collection(namespace)?, write_options(more));
        let request = with_body(Method::POST, &path, "application/json", object)?;
        self.call(request).await.map(without_managed_fields)
    }
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// An object as a list holds it, with the type that lists leave out.
pub(crate) fn typed(mut item: Value, resource: &Resource) -> Value {
    if let Value::Object(members) = &mut item
        && !members.contains_key("kind")
    {
        members.insert("apiVersion".to_owned(), json!(resource.reference.api_version));
        members.insert("kind".to_owned(), json!(resource.reference.kind));
    }
    without_managed_fields(item)
}

/// The items of a page; a page without any may say null.
pub(crate) fn take_items(page: &mut Value) -> impl Iterator<Item = Value> + use<> {
    let items = match page.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    items.into_iter()
}

/// The token of the next page; None on the last.
pub(crate) fn continue_token(page: &Value) -> Option<String> {
    let token = page.pointer("/metadata/continue")?.as_str()?;
    (!token.is_empty()).then(|| token.to_owned())
}

/// The server's bookkeeping of field owners is larger than most objects, and nobody here reads it.
pub(crate) fn without_managed_fields(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.shift_remove("managedFields");
    }
    object
}

/// The query of every write. Strict, because a field that the server does not know is a mistake that the
/// caller would otherwise never hear of.
fn write_options(more: &str) -> String {
    format!("fieldManager={FIELD_MANAGER}&fieldValidation=Strict{more}")
}

fn set_resource_version(object: &mut Value, version: &str) -> Result<(), Refusal> {
    let metadata = object.as_object_mut().map(|object| object.entry("metadata").or_insert(json!({})));
    let Some(Value::Object(metadata)) = metadata else {
        let text = "a write under a resource version needs an object with an object as metadata";
        return Err(Refusal::new(RefusalKind::Invalid, text));
    };
    metadata.insert("resourceVersion".to_owned(), json!(version));
    Ok(())
}

/// The server answers with a Status when the object is gone, and mostly with the object when it is not;
/// some kinds answer with the object as it last was, which then bears no deletionTimestamp.
fn deleted(answer: Result<Value, Refusal>) -> Result<Deleted, Refusal> {
    match answer {
        Ok(object) if object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string) => {
            Ok(Deleted::Terminating(Box::new(without_managed_fields(object))))
        }
        Ok(_) => Ok(Deleted::Gone),
        Err(refusal) => match refusal.kind {
            RefusalKind::NotFound => Ok(Deleted::Missing),
            RefusalKind::Conflict if refusal.message.contains("precondition") => Ok(Deleted::NotOurs),
            _ => Err(refusal),
        },
    }
}

/// Percent-encodes everything but letters, digits and the marks that mean nothing in a query.
fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}
