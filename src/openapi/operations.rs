//! Paths and their operations: those of each service type, and those of the provider itself.

use serde_json::{Map, Value, json};

use super::responses::{self, Problems};
use super::{Parts, pascal, reference, schemas};
use crate::engine::format::Operation;
use crate::engine::problem::ProblemStyle;
use crate::engine::service::Service;

const BASE: &str = "/api/v1alpha1";
const PROVIDER: &str = "provider";

/// What the starter of a process and the router of traffic ask.
const PROBES: [(&str, &str, &str, &str); 2] = [
    ("/livez", "GetLive", "Whether the process is alive", "No answer means that it must be started anew."),
    (
        "/readyz",
        "GetReady",
        "Whether the process can serve",
        "503 while a watch has not read a complete list, and from the moment that the process is asked to end.",
    ),
];

/// The paths that belong to no service type.
pub(super) fn common(services: &[&Service], parts: &mut Parts) {
    let style = ProblemStyle::default();
    let problems = Problems { owner: PROVIDER, style: &style };
    parts.tags.push(
        json!({ "name": PROVIDER, "description": "The provider itself: health, figures and this document" }),
    );
    let health = read(Read {
        id: "GetHealth",
        tag: PROVIDER,
        summary: "Health of the provider",
        description: "Always 200 while the process serves; `status` is the worst of all service types.",
        parameters: &[],
        schema: reference("schemas", "provider-health"),
        problems: &problems,
        statuses: &[405, 406, 500, 503],
    });
    parts.paths.insert("/health".to_owned(), health);
    probes(parts, &problems);
    let mut metrics = read(Read {
        id: "GetMetrics",
        tag: PROVIDER,
        summary: "Figures of the provider",
        description: "In the text format of Prometheus, version 0.0.4.",
        parameters: &[],
        schema: json!({ "type": "string" }),
        problems: &problems,
        statuses: &[401, 403, 405, 406, 500, 503],
    });
    metrics["get"]["responses"]["200"]["content"] =
        json!({ "text/plain": { "schema": { "type": "string" } } });
    parts.paths.insert("/metrics".to_owned(), metrics);
    let document = read(Read {
        id: "GetOpenApi",
        tag: PROVIDER,
        summary: "This document",
        description: "OpenAPI 3.1 of every service type that is served; `mapwright openapi` prints the same bytes.",
        parameters: &[],
        schema: json!({ "type": "object", "required": ["openapi", "info", "paths"] }),
        problems: &problems,
        statuses: &[401, 403, 405, 406, 500, 503],
    });
    parts.paths.insert(format!("{BASE}/openapi.json"), document);
    parts.schemas.insert("provider-health".to_owned(), schemas::provider_health(services));
    problems.describe(parts);
}

fn probes(parts: &mut Parts, problems: &Problems<'_>) {
    for (path, id, summary, description) in PROBES {
        let parameters = &[];
        let (schema, statuses) = (
            json!({ "type": "object", "required": ["status"], "properties": { "status": { "const": "ok" } } }),
            &[405, 406, 500, 503],
        );
        let probe =
            read(Read { id, tag: PROVIDER, summary, description, parameters, schema, problems, statuses });
        parts.paths.insert(path.to_owned(), probe);
    }
}

/// The paths of one service type.
pub(super) fn of_type(service: &Service, parts: &mut Parts) {
    let (name, collection) = (&service.service_type, &service.collection);
    let problems = Problems { owner: name, style: &service.problem_style };
    let tag = json!({ "name": collection, "description": format!("Instances of the service type {name}") });
    parts.tags.push(tag);
    let typed = Typed { service, problems: &problems };
    parts.paths.insert(format!("{BASE}/{collection}"), typed.collection());
    parts.paths.insert(format!("{BASE}/{collection}/{{id}}"), typed.instance());
    parts.paths.insert(format!("{BASE}/{collection}/health"), typed.health());
    schemas::of_type(service, &mut parts.schemas);
    problems.describe(parts);
}

/// Parameters that several operations share.
pub(super) fn parameters() -> Value {
    json!({
        "id": {
            "name": "id", "in": "path", "required": true, "schema": id_schema(),
            "description": "The instance's id; where no instance has it, the `metadata.name` of the only one that has.",
        },
        "new-id": {
            "name": "id", "in": "query", "schema": new_id_schema(),
            "description": "The id of the new instance; a UUID where it is left out.",
        },
        "max_page_size": {
            "name": "max_page_size", "in": "query",
            "schema": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 50 },
            "description": "The most items on the page.",
        },
        "page_token": {
            "name": "page_token", "in": "query", "schema": { "type": "string" },
            "description": "The `next_page_token` of the page before; empty or absent for the first page.",
        },
        "idempotency-key": {
            "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
            "description": "A repeat with the same key and body answers as the first did, and does nothing again.",
        },
        "request-id": {
            "name": "X-Request-Id", "in": "header", "schema": { "type": "string" },
            "description": "Comes back in the answer and stands in the log; one that is not 1 to 128 visible ASCII characters is replaced.",
        },
    })
}

/// An RFC 1123 label.
fn id_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    })
}

/// A label that names nothing else below a collection.
fn new_id_schema() -> Value {
    let mut schema = id_schema();
    schema["not"] = json!({ "const": "health" });
    schema
}

/// A GET that answers with one JSON document, and the HEAD beside it.
struct Read<'r> {
    id: &'r str,
    tag: &'r str,
    summary: &'r str,
    description: &'r str,
    parameters: &'r [&'r str],
    schema: Value,
    problems: &'r Problems<'r>,
    statuses: &'r [u16],
}

fn read(read: Read<'_>) -> Value {
    let mut answers = Map::new();
    answers.insert("200".to_owned(), responses::json("The document", &read.schema));
    answers.extend(read.problems.refer(read.statuses));
    let mut bare = Map::new();
    bare.insert("200".to_owned(), responses::empty("The headers of GET", &[]));
    bare.extend(read.statuses.iter().map(|status| {
        (status.to_string(), responses::empty("The headers of GET's problem", responses::headers_of(*status)))
    }));
    let noun = read.id.trim_start_matches("Get");
    let head = Described {
        id: format!("Head{noun}"),
        tag: read.tag,
        summary: format!("{}, headers only", read.summary),
        description: "As GET, without a body.",
    };
    let (id, summary) = (read.id.to_owned(), read.summary.to_owned());
    let get = Described { id, tag: read.tag, summary, description: read.description };
    json!({
        "get": get.operation(read.parameters, None, answers),
        "head": head.operation(read.parameters, None, bare),
    })
}

/// What people read of an operation.
struct Described<'d> {
    id: String,
    tag: &'d str,
    summary: String,
    description: &'d str,
}

impl Described<'_> {
    fn operation(&self, parameters: &[&str], body: Option<Value>, answers: Map<String, Value>) -> Value {
        let mut operation = Map::new();
        operation.insert("operationId".to_owned(), self.id.as_str().into());
        operation.insert("tags".to_owned(), json!([self.tag]));
        operation.insert("summary".to_owned(), self.summary.as_str().into());
        operation.insert("description".to_owned(), self.description.into());
        let shared = parameters.iter().chain(&["request-id"]);
        let parameters = shared.map(|name| reference("parameters", name)).collect();
        operation.insert("parameters".to_owned(), parameters);
        operation.extend(body.map(|body| ("requestBody".to_owned(), body)));
        operation.insert("responses".to_owned(), answers.into());
        operation.into()
    }
}

/// The operations of one service type.
struct Typed<'t> {
    service: &'t Service,
    problems: &'t Problems<'t>,
}

impl Typed<'_> {
    fn collection(&self) -> Value {
        let collection = &self.service.collection;
        let mut methods = Map::new();
        if self.declares(Operation::Read) {
            let list = self.read(
                &format!("Get{}", pascal(collection)),
                &format!("List {collection}"),
                "A page of the list, in the order of ids. What is added or deleted between pages neither skips nor \
                 repeats an item that was there throughout.",
                &["max_page_size", "page_token"],
                "list",
            );
            extend(&mut methods, list);
            methods["get"]["operationId"] = format!("List{}", pascal(collection)).into();
        }
        if self.declares(Operation::Create) {
            methods.insert("post".to_owned(), self.create());
        }
        methods.into()
    }

    fn instance(&self) -> Value {
        let name = &self.service.service_type;
        let mut methods = Map::new();
        if self.declares(Operation::Read) {
            let get = self.read(
                &format!("Get{}", pascal(name)),
                &format!("Read a {name}"),
                "The instance as it is now: its spec as it was sent, and its status.",
                &["id"],
                "",
            );
            extend(&mut methods, get);
        }
        if self.declares(Operation::Update) && self.service.update.is_some() {
            methods.insert("patch".to_owned(), self.update());
        }
        if self.declares(Operation::Delete) {
            methods.insert("delete".to_owned(), self.delete());
        }
        methods.into()
    }

    fn health(&self) -> Value {
        let name = &self.service.service_type;
        let id = format!("Get{}Health", pascal(name));
        let (summary, description) = (
            format!("Health of the service type {name}"),
            "Always 200 while the process serves: of the cluster, the watches, the events and the registration.",
        );
        self.read(&id, &summary, description, &[], "health")
    }

    fn create(&self) -> Value {
        let name = &self.service.service_type;
        let described = self.described(
            "Create",
            "Create",
            "The body is `{\"spec\": ...}` or the spec itself. All faults of it are answered at once.",
        );
        let mut answers = Map::new();
        let mut created = responses::json("The new instance", &reference("schemas", name));
        created["links"] = self.links();
        answers.insert("201".to_owned(), created);
        answers.extend(self.problems.refer(&[400, 401, 403, 405, 406, 409, 413, 415, 422, 500, 503]));
        let body = body(&format!("{name}-create"), &["application/json"]);
        described.operation(&["new-id", "idempotency-key"], Some(body), answers)
    }

    /// What may be done with a new instance by its id.
    fn links(&self) -> Value {
        let methods = [
            (Operation::Read, "Get", "Reads the new instance"),
            (Operation::Update, "Update", "Changes the new instance"),
            (Operation::Delete, "Delete", "Deletes the new instance"),
        ];
        let declared = methods.into_iter().filter(|(operation, ..)| self.declares(*operation));
        let links = declared.map(|(_, method, description)| {
            let id = format!("{method}{}", pascal(&self.service.service_type));
            let parameters = json!({ "id": "$response.body#/id" });
            (
                method.to_owned(),
                json!({ "operationId": id, "parameters": parameters, "description": description }),
            )
        });
        Value::Object(links.collect())
    }

    fn update(&self) -> Value {
        let name = &self.service.service_type;
        let described = self.described(
            "Update",
            "Change",
            "The body is `{\"spec\": ...}` or the change itself; what it leaves out stays.",
        );
        let mut answers = Map::new();
        answers
            .insert("200".to_owned(), responses::json("The changed instance", &reference("schemas", name)));
        answers.extend(self.problems.refer(&[400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 500, 503]));
        let body = body(&format!("{name}-update"), &["application/json", "application/merge-patch+json"]);
        described.operation(&["id", "idempotency-key"], Some(body), answers)
    }

    fn delete(&self) -> Value {
        let described = self.described(
            "Delete",
            "Delete",
            "Everything of the instance goes. It may be seen for as long as a finalizer holds it.",
        );
        let mut answers = Map::new();
        answers.insert("204".to_owned(), responses::empty("It is deleted, or being deleted", &[]));
        answers.extend(self.problems.refer(&[400, 401, 403, 404, 405, 409, 422, 500, 503]));
        described.operation(&["id", "idempotency-key"], None, answers)
    }

    fn read(&self, id: &str, summary: &str, description: &str, parameters: &[&str], part: &str) -> Value {
        let name = &self.service.service_type;
        let schema = if part.is_empty() { name.clone() } else { format!("{name}-{part}") };
        let statuses: &[u16] = match part {
            "" => &[400, 401, 403, 404, 405, 406, 500, 503],
            "list" => &[400, 401, 403, 405, 406, 500, 503],
            _ => &[405, 406, 500, 503],
        };
        let tag = &self.service.collection;
        let (schema, problems) = (reference("schemas", &schema), self.problems);
        read(Read { id, tag, summary, description, parameters, schema, problems, statuses })
    }

    fn described<'d>(&'d self, method: &str, verb: &str, description: &'d str) -> Described<'d> {
        let name = &self.service.service_type;
        Described {
            id: format!("{method}{}", pascal(name)),
            tag: &self.service.collection,
            summary: format!("{verb} a {name}"),
            description,
        }
    }

    fn declares(&self, operation: Operation) -> bool {
        self.service.operations.contains(&operation)
    }
}

fn body(schema: &str, media_types: &[&str]) -> Value {
    let content: Map<String, Value> = media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({ "schema": reference("schemas", schema) })))
        .collect();
    json!({ "required": true, "content": content })
}

fn extend(methods: &mut Map<String, Value>, more: Value) {
    if let Value::Object(more) = more {
        methods.extend(more);
    }
}
