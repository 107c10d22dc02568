//! OpenAPI 3.1 of the REST surface, made from the mappings.

use serde_json::{Map, Value, json};

use crate::engine::format::Operation;
use crate::engine::service::Service;

/// The document of these services.
pub fn document<'s>(services: impl Iterator<Item = &'s Service>) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for service in services {
        let name = &service.service_type;
        schemas.insert(format!("{name}-spec"), service.schema.document.clone());
        if let Some(update) = &service.update {
            schemas.insert(format!("{name}-update"), update.schema.document.clone());
        }
        paths.insert(format!("/api/v1alpha1/{}", service.collection), collection(service));
        paths.insert(format!("/api/v1alpha1/{}/{{id}}", service.collection), item(service));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Mapwright service provider", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn collection(service: &Service) -> Value {
    let mut methods = Map::new();
    let name = &service.service_type;
    if service.operations.contains(&Operation::Create) {
        let operation = json!({
            "operationId": format!("create-{name}"),
            "parameters": [{ "name": "id", "in": "query", "schema": { "type": "string" } }],
            "requestBody": body(&format!("{name}-spec")),
            "responses": { "201": { "description": "Created" } },
        });
        methods.insert("post".to_owned(), operation);
    }
    if service.operations.contains(&Operation::Read) {
        methods.insert("get".to_owned(), answer(&format!("list-{name}"), "200", "A page of the list"));
    }
    Value::Object(methods)
}

fn item(service: &Service) -> Value {
    let mut methods = Map::new();
    let name = &service.service_type;
    let id = json!([{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }]);
    methods.insert("parameters".to_owned(), id);
    for operation in &service.operations {
        let (method, document) = match operation {
            Operation::Create => continue,
            Operation::Read => ("get", answer(&format!("get-{name}"), "200", "The instance")),
            Operation::Delete => ("delete", answer(&format!("delete-{name}"), "204", "Deleted")),
            Operation::Update => {
                let mut document = answer(&format!("update-{name}"), "200", "The instance");
                document["requestBody"] = body(&format!("{name}-update"));
                ("patch", document)
            }
        };
        methods.insert(method.to_owned(), document);
    }
    Value::Object(methods)
}

fn body(schema: &str) -> Value {
    let reference = format!("#/components/schemas/{schema}");
    json!({ "content": { "application/json": { "schema": { "$ref": reference } } } })
}

fn answer(operation: &str, status: &str, description: &str) -> Value {
    json!({ "operationId": operation, "responses": { status: { "description": description } } })
}
