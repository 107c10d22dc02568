//! Lists: one consistent state, whole or in pages, in whichever form the client wants.

use std::sync::Arc;

use serde_json::{Value, json};

use super::api::Api;
use super::kinds::Kind;
use super::refusal::Refusal;
use super::reply::{self, Form, Reply};
use super::routes::{Place, Query};
use super::selector::Selector;
use super::store::Stored;
use super::table::Tables;

/// Where a page goes on: the version of the list, and the last key that was given.
struct Token {
    version: u64,
    after: (String, String),
}

pub(super) fn list(
    api: &Api,
    tables: &Tables,
    kind: &Arc<Kind>,
    place: &Place,
    query: &Query,
    form: Form,
) -> Result<Reply, Refusal> {
    let selector = selector(kind, place, query)?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    let token = match query.get("continue") {
        "" => None,
        text => Some(Token::read(text)?),
    };
    let (version, objects) = read(api, kind, place, query, token.as_ref())?;
    let after = token.map(|token| token.after);
    let mut selected = objects
        .into_iter()
        .filter(|stored| after.as_ref().is_none_or(|after| stored.key > *after) && selector.matches(stored));
    let mut page: Vec<Arc<Stored>> = Vec::new();
    let mut next = None;
    let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    for stored in selected.by_ref() {
        page.push(stored);
        if page.len() == most {
            break;
        }
    }
    let rest = selected.count();
    if rest > 0
        && let Some(last) = page.last()
    {
        next = Some(Token { version, after: last.key.clone() }.to_string());
    }
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(next) = next {
        metadata["continue"] = next.into();
        if selector.is_empty() {
            metadata["remainingItemCount"] = rest.into();
        }
    }
    Ok(in_form(api, tables, kind, &page, &metadata, form))
}

/// The selector of a request. A single object is listed by its name.
pub(super) fn selector(kind: &Kind, place: &Place, query: &Query) -> Result<Selector, Refusal> {
    let mut fields = query.get("fieldSelector").to_owned();
    if !place.name.is_empty() {
        fields = format!("metadata.name={}{}{fields}", place.name, if fields.is_empty() { "" } else { "," });
    }
    Selector::read(kind, query.get("labelSelector"), &fields)
}

fn read(
    api: &Api,
    kind: &Kind,
    place: &Place,
    query: &Query,
    token: Option<&Token>,
) -> Result<(u64, Vec<Arc<Stored>>), Refusal> {
    let asked = query.number("resourceVersion")?.filter(|version| *version > 0);
    let store = api.store();
    let now = store.version().max(1);
    if let Some(asked) = asked.filter(|asked| *asked > now) {
        return Err(too_large(asked, now));
    }
    let storage = kind.resource_name();
    let exact = asked.filter(|_| query.get("resourceVersionMatch") == "Exact");
    match token.map(|token| token.version).or(exact) {
        Some(version) => Ok((version, store.all_at(&storage, &place.namespace, version)?)),
        None => Ok((now, store.all(&storage, &place.namespace).cloned().collect())),
    }
}

/// A version that has not come yet; waiting for it would not bring it.
fn too_large(asked: u64, now: u64) -> Refusal {
    let mut refusal =
        Refusal::new(504, "Timeout", format!("Timeout: Too large resource version: {asked}, current: {now}"));
    refusal.details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    });
    refusal
}

fn in_form(
    api: &Api,
    tables: &Tables,
    kind: &Kind,
    page: &[Arc<Stored>],
    metadata: &Value,
    form: Form,
) -> Reply {
    if form == Form::Table {
        let objects: Vec<Value> = page.iter().map(|stored| api.shown(kind, stored)).collect();
        return reply::json(200, &tables.table(kind, &objects, Some(metadata), true));
    }
    if form == Form::Metadata {
        let items: Vec<Value> = page.iter().map(|stored| metadata_of(&stored.object())).collect();
        let kind = "PartialObjectMetadataList";
        let list =
            json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
        return reply::json(200, &list);
    }
    let mut text = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.kind,
        kind.api_version()
    );
    // The items of built-in kinds do not repeat their type.
    let repeated = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", kind.kind, kind.api_version());
    for (index, stored) in page.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if kind.custom {
            text.push_str(&api.shown(kind, stored).to_string());
            continue;
        }
        let whole = stored.text.unpack();
        let whole = String::from_utf8_lossy(&whole);
        match whole.strip_prefix(&repeated) {
            Some(rest) => {
                text.push('{');
                text.push_str(rest);
            }
            None => text.push_str(&whole),
        }
    }
    text.push_str("]}");
    reply::text(200, "application/json", text)
}

/// An object of which only the metadata is wanted.
pub(super) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

impl Token {
    fn read(text: &str) -> Result<Self, Refusal> {
        let malformed = || Refusal::bad_request("continue key is not valid: it was not made by this server");
        let mut parts = text.splitn(3, '~');
        let (Some(version), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed());
        };
        let version = version.parse().map_err(|_| malformed())?;
        Ok(Self { version, after: (namespace.to_owned(), name.to_owned()) })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}~{}~{}", self.version, self.after.0, self.after.1)
    }
}
