//! The provider's own OpenAPI document, held against everything that it answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::http::Answer;

/// A document, and the schemas of it that were needed so far.
#[derive(Debug)]
pub struct Contract {
    document: Value,
    validators: Mutex<BTreeMap<String, Arc<Validator>>>,
}

impl Contract {
    /// `document` is what `GET /api/v1alpha1/openapi.json` answers.
    pub fn new(document: Value) -> Self {
        Self { document, validators: Mutex::default() }
    }

    /// Fails where an answer is not what the document promises for its request.
    pub fn check(&self, method: &str, path: &str, answer: &Answer) -> Result<()> {
        self.faults(method, path, answer).map_err(|fault| {
            Failure::new(format!(
                "{method} {path} answers what openapi.json does not promise: {fault}\n{} {}",
                answer.status,
                answer.text()
            ))
        })
    }

    fn faults(&self, method: &str, path: &str, answer: &Answer) -> Result<(), String> {
        let path = path.split('?').next().unwrap_or_default();
        let Some(item) = self.item(path) else { return refused(answer) };
        if method == "OPTIONS" {
            let told = answer.status == 204 && !answer.header("allow").is_empty();
            return told.then_some(()).ok_or_else(|| "OPTIONS is 204 with Allow".to_owned());
        }
        let Some(operation) = item.get(method.to_ascii_lowercase()) else {
            let told = answer.status == 405 && !answer.header("allow").is_empty();
            return told.then_some(()).ok_or_else(|| "an undeclared method is 405 with Allow".to_owned());
        };
        let response = &operation["responses"][answer.status.to_string()];
        let response = self.resolve(response).ok_or("its status is not documented")?;
        for name in response["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
            if answer.header(name).is_empty() {
                return Err(format!("the header {name} is missing"));
            }
        }
        let Some(content) = response["content"].as_object() else {
            return answer.body.is_empty().then_some(()).ok_or_else(|| "a body is not documented".to_owned());
        };
        let media_type = answer.header("content-type").split(';').next().unwrap_or_default();
        let schema =
            content.get(media_type).ok_or(format!("the media type {media_type:?} is not documented"))?;
        let validator = self.validator(&schema["schema"])?;
        let faults: Vec<String> = validator
            .iter_errors(&answer.json())
            .map(|error| format!("{} {error}", error.instance_path()))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// The operations of a path: the path itself before one with a parameter.
    fn item(&self, path: &str) -> Option<&Value> {
        let paths = self.document["paths"].as_object()?;
        let fits = |template: &str| {
            let pairs = template.split('/').zip(path.split('/'));
            template.split('/').count() == path.split('/').count()
                && pairs.clone().all(|(want, have)| want == have || want == "{id}" && !have.is_empty())
        };
        paths.get(path).or_else(|| paths.iter().find(|(template, _)| fits(template)).map(|(_, item)| item))
    }

    fn resolve<'d>(&'d self, value: &'d Value) -> Option<&'d Value> {
        match value["$ref"].as_str() {
            Some(reference) => self.document.pointer(reference.trim_start_matches('#')),
            None => (!value.is_null()).then_some(value),
        }
    }

    fn validator(&self, schema: &Value) -> Result<Arc<Validator>, String> {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let key = schema.to_string();
        if let Some(validator) = validators.get(&key) {
            return Ok(validator.clone());
        }
        let whole = json!({ "allOf": [schema], "components": self.document["components"] });
        let built = jsonschema::draft202012::options().should_validate_formats(true).build(&whole);
        let built = Arc::new(built.map_err(|error| format!("its schema is malformed: {error}"))?);
        validators.insert(key, built.clone());
        Ok(built)
    }
}

/// What stands in no path of the document: it is refused, with a problem document. An id in capital letters
/// or with escapes may stand for one that does.
fn refused(answer: &Answer) -> Result<(), String> {
    let problem = answer.header("content-type") == "application/problem+json" || answer.body.is_empty();
    match answer.status {
        400 | 404 | 405 if problem => Ok(()),
        _ => Err("its path is not documented".to_owned()),
    }
}
