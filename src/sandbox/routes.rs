//! From a path and a query to what is meant by them.

use super::refusal::Refusal;
use crate::http::{form_decode, percent_decode};

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Version,
    Health,
    /// `/api` and `/apis`: the groups.
    CoreVersions,
    Groups,
    Group(String),
    /// A group version; the group is empty for the first of all.
    GroupVersion(String, String),
    OpenApi,
    OpenApiOf(String),
    Objects(Place),
    Nowhere,
}

/// A collection, an object or what is below one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: String,
    pub(super) plural: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

/// The pairs of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Route {
    pub(super) fn of(path: &str) -> Self {
        let decoded: Option<Vec<String>> =
            path.split('/').filter(|step| !step.is_empty()).map(percent_decode).collect();
        let Some(steps) = decoded else { return Self::Nowhere };
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        match steps.as_slice() {
            ["version"] => Self::Version,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["openapi", "v3"] => Self::OpenApi,
            ["openapi", "v3", rest @ ..] => Self::OpenApiOf(rest.join("/")),
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => Self::GroupVersion((*group).to_owned(), (*version).to_owned()),
            ["api", version, rest @ ..] => Self::objects("", version, rest),
            ["apis", group, version, rest @ ..] => Self::objects(group, version, rest),
            _ => Self::Nowhere,
        }
    }

    fn objects(group: &str, version: &str, rest: &[&str]) -> Self {
        let mut place = Place { group: group.to_owned(), version: version.to_owned(), ..Place::default() };
        let rest = match rest {
            // Below a namespace there are its objects, and what is the namespace's own.
            ["namespaces", namespace, below, inner @ ..]
                if !(group.is_empty() && ["status", "finalize"].contains(below) && inner.is_empty()) =>
            {
                place.namespace = (*namespace).to_owned();
                &rest[2..]
            }
            _ => rest,
        };
        match rest {
            [plural] => place.plural = (*plural).to_owned(),
            [plural, name] => (place.plural, place.name) = ((*plural).to_owned(), (*name).to_owned()),
            [plural, name, subresource @ ..] => {
                (place.plural, place.name) = ((*plural).to_owned(), (*name).to_owned());
                place.subresource = subresource.join("/");
            }
            [] => return Self::Nowhere,
        }
        Self::Objects(place)
    }
}

impl Query {
    pub(super) fn of(query: Option<&str>) -> Result<Self, Refusal> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pairs: Option<Vec<(String, String)>> = pairs
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((form_decode(key)?, form_decode(value)?))
            })
            .collect();
        pairs.map(Self).ok_or_else(|| Refusal::bad_request("invalid URL escape in the query"))
    }

    /// The value of a parameter; empty where it is not given.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Whether a parameter says yes, in any of the ways that Go reads.
    pub(super) fn is_set(&self, name: &str) -> bool {
        ["1", "t", "T", "true", "TRUE", "True"].contains(&self.get(name))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Refusal::bad_request(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
            }),
        }
    }
}
