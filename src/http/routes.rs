//! The table of routes: method and path as sent in, one route or a problem out.

use hyper::Method;
use mapwright_engine::problem::{Problem, ProblemKind, ProblemStyle};

use super::Collection;
use super::query::percent_decode;
use crate::access::Right;

/// What a request asks for, its path decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Health {
        collection: Option<String>,
    },
    OpenApi,
    Metrics,
    /// Whether the process is alive, and whether it can serve: for whoever starts it and sends it traffic.
    Live,
    Ready,
    /// Which methods a resource has.
    Options {
        allow: Vec<&'static str>,
    },
    Create {
        collection: String,
    },
    List {
        collection: String,
    },
    Get {
        collection: String,
        id: String,
    },
    Update {
        collection: String,
        id: String,
    },
    Delete {
        collection: String,
        id: String,
    },
    Act {
        collection: String,
        id: String,
        action: String,
    },
}

impl Route {
    /// The path with its holes, of which there are few.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Health { collection: None } => "/health".to_owned(),
            Self::Health { collection: Some(collection) } => format!("/api/v1alpha1/{collection}/health"),
            Self::OpenApi => "/api/v1alpha1/openapi.json".to_owned(),
            Self::Metrics => "/metrics".to_owned(),
            Self::Live => "/livez".to_owned(),
            Self::Ready => "/readyz".to_owned(),
            Self::Options { .. } => "*".to_owned(),
            Self::Create { collection } | Self::List { collection } => format!("/api/v1alpha1/{collection}"),
            Self::Get { collection, .. }
            | Self::Update { collection, .. }
            | Self::Delete { collection, .. } => format!("/api/v1alpha1/{collection}/{{id}}"),
            Self::Act { collection, action, .. } => format!("/api/v1alpha1/{collection}/{{id}}:{action}"),
        }
    }

    /// Whether strangers are answered as well.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Health { .. } | Self::Live | Self::Ready)
    }

    /// What a caller must be allowed to do; none for what only tells which methods there are.
    pub(super) fn right(&self, method: &Method) -> Option<Right> {
        let (verb, resource) = match self {
            Self::Create { collection } => ("create", collection.as_str()),
            Self::List { collection } => ("list", collection.as_str()),
            Self::Get { collection, .. } => ("get", collection.as_str()),
            Self::Update { collection, .. } => ("patch", collection.as_str()),
            Self::Delete { collection, .. } => ("delete", collection.as_str()),
            Self::Act { collection, .. } if *method == Method::POST => ("create", collection.as_str()),
            Self::Act { collection, .. } => ("get", collection.as_str()),
            Self::Health { .. } | Self::Live | Self::Ready => ("get", "health"),
            Self::OpenApi => ("get", "openapi"),
            Self::Metrics => ("get", "metrics"),
            Self::Options { .. } => return None,
        };
        let action = match self {
            Self::Act { action, .. } => Some(action.clone()),
            _ => None,
        };
        Some(Right { verb, resource: resource.to_owned(), action })
    }
}

/// Finds the route of a request; HEAD is where GET is, and OPTIONS is everywhere.
pub(super) fn resolve(method: &Method, path: &str, collections: &[Collection]) -> Result<Route, Problem> {
    if method != Method::OPTIONS {
        return find(method, path, collections);
    }
    if path == "*" {
        return Ok(Route::Options { allow: METHODS.to_vec() });
    }
    // No resource declares OPTIONS, so each one refuses it and names the methods that it has.
    match find(method, path, collections) {
        Err(refused) if refused.kind == ProblemKind::MethodNotAllowed => {
            Ok(Route::Options { allow: refused.allow })
        }
        other => other,
    }
}

/// Every method that some resource may have.
pub(super) const METHODS: [&str; 6] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST"];

fn find(method: &Method, path: &str, collections: &[Collection]) -> Result<Route, Problem> {
    let raw: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let decoded = raw.iter().map(|segment| decode(segment)).collect::<Result<Vec<_>, _>>()?;
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["health"] => read_only(method, Route::Health { collection: None }),
        ["metrics"] => read_only(method, Route::Metrics),
        ["livez"] => read_only(method, Route::Live),
        ["readyz"] => read_only(method, Route::Ready),
        ["api", "v1alpha1", "openapi.json"] => read_only(method, Route::OpenApi),
        ["api", "v1alpha1", name, rest @ ..] => match (named(name, collections), rest) {
            (Some(collection), []) => of_collection(method, collection),
            (Some(collection), ["health"]) => {
                read_only(method, Route::Health { collection: Some(collection.name.clone()) })
            }
            (Some(collection), [id]) if !id.is_empty() => of_instance(method, collection, raw[3]),
            _ => Err(unknown(path)),
        },
        _ => Err(unknown(path)),
    }
}

/// How problems under this path are spelt: as its collection does, else as DCM does in general.
pub(super) fn style(path: &str, collections: &[Collection]) -> ProblemStyle {
    of_path(path, collections).map(|collection| collection.problem_style.clone()).unwrap_or_default()
}

/// The collection that a path is about, whether or not it is a route.
pub(super) fn of_path<'a>(path: &str, collections: &'a [Collection]) -> Option<&'a Collection> {
    let name = path.strip_prefix("/api/v1alpha1/")?.split('/').next()?;
    named(&decode(name).ok()?, collections)
}

fn of_collection(method: &Method, collection: &Collection) -> Result<Route, Problem> {
    let name = collection.name.clone();
    let methods = declared(collection, &[Method::GET, Method::POST]);
    match plain(method, &methods)? {
        Method::POST => Ok(Route::Create { collection: name }),
        _ => Ok(Route::List { collection: name }),
    }
}

/// An instance, or an action of one: a colon that was sent as a colon parts them, an encoded one is of the id.
fn of_instance(method: &Method, collection: &Collection, segment: &str) -> Result<Route, Problem> {
    if let Some((id, action)) = segment.rsplit_once(':') {
        return of_action(method, collection, decode(id)?, &decode(action)?);
    }
    let (name, id) = (collection.name.clone(), decode(segment)?);
    let methods = declared(collection, &[Method::GET, Method::PATCH, Method::DELETE]);
    match plain(method, &methods)? {
        Method::PATCH => Ok(Route::Update { collection: name, id }),
        Method::DELETE => Ok(Route::Delete { collection: name, id }),
        _ => Ok(Route::Get { collection: name, id }),
    }
}

fn of_action(method: &Method, collection: &Collection, id: String, name: &str) -> Result<Route, Problem> {
    let Some(action) = collection.actions.iter().find(|action| action.name == name) else {
        let declared: Vec<&str> = collection.actions.iter().map(|action| action.name.as_str()).collect();
        let declared = if declared.is_empty() { "none".to_owned() } else { declared.join(", ") };
        return Err(Problem::not_found(format!(
            "{} have no action {name:?}; declared are: {declared}",
            collection.name
        )));
    };
    plain(method, std::slice::from_ref(&action.method))?;
    Ok(Route::Act { collection: collection.name.clone(), id, action: action.name.clone() })
}

fn read_only(method: &Method, route: Route) -> Result<Route, Problem> {
    plain(method, &[Method::GET]).map(|_| route)
}

/// The methods of `possible` that the collection declares.
fn declared(collection: &Collection, possible: &[Method]) -> Vec<Method> {
    possible.iter().filter(|method| collection.operations.contains(method)).cloned().collect()
}

/// The method with HEAD read as GET, if the resource has it.
fn plain(method: &Method, methods: &[Method]) -> Result<Method, Problem> {
    let plain = if method == Method::HEAD { &Method::GET } else { method };
    if methods.contains(plain) {
        return Ok(plain.clone());
    }
    let has = |name: &&str| match *name {
        "OPTIONS" => true,
        "HEAD" => methods.contains(&Method::GET),
        name => methods.iter().any(|method| method == name),
    };
    let allow: Vec<&'static str> = METHODS.into_iter().filter(has).collect();
    let detail = format!("{method} is not a method of this resource; it has: {}", allow.join(", "));
    Err(Problem::method_not_allowed(detail, allow))
}

fn named<'a>(name: &str, collections: &'a [Collection]) -> Option<&'a Collection> {
    collections.iter().find(|collection| collection.name == name)
}

/// One segment decoded. A slash or a control character in it names nothing, and may fool what is behind.
fn decode(segment: &str) -> Result<String, Problem> {
    percent_decode(segment)
        .filter(|decoded| !decoded.contains(|letter: char| letter == '/' || letter.is_control()))
        .ok_or_else(|| {
            Problem::invalid_argument(format!(
                "the path segment {segment:?} is malformed; an escape is % and two hexadecimal digits, and \
                 stands for neither a slash nor a control character"
            ))
        })
}

fn unknown(path: &str) -> Problem {
    Problem::not_found(format!("there is no route {path:?}; GET /api/v1alpha1/openapi.json lists them"))
}
