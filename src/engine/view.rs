//! The answer for one instance: the stored spec, with what the mapping's view lays over it.

use serde_json::{Map, Value as Json};

use crate::expression::EvalError;
use crate::inputs::{Identity, Inputs};
use crate::service::Service;

/// What the engine itself says of an instance.
#[derive(Clone, Debug)]
pub struct Header {
    pub status: String,
    pub status_message: String,
    pub create_time: String,
}

impl Service {
    pub fn view(&self, identity: &Identity, inputs: &Inputs, header: &Header) -> Result<Json, EvalError> {
        let mut answer = self.bare_view(identity, inputs, header);
        if let Some(view) = &self.view {
            lay_over(&mut answer, view.template.render(&self.scope(identity, inputs)?)?);
        }
        Ok(answer)
    }

    /// The answer without what the mapping's template adds.
    pub fn bare_view(&self, identity: &Identity, inputs: &Inputs, header: &Header) -> Json {
        let mut answer = Map::new();
        answer.insert("id".to_owned(), identity.id.as_str().into());
        answer.insert("path".to_owned(), format!("{}/{}", self.collection, identity.id).into());
        answer.insert("status".to_owned(), header.status.as_str().into());
        answer.insert("status_message".to_owned(), header.status_message.as_str().into());
        answer.insert("create_time".to_owned(), header.create_time.as_str().into());
        answer.insert("update_time".to_owned(), header.create_time.as_str().into());
        answer.insert("spec".to_owned(), inputs.spec.clone());
        let mut answer = Json::Object(answer);
        for pointer in self.view.iter().flat_map(|view| &view.omit) {
            remove(&mut answer, pointer);
        }
        answer
    }
}

/// Lays a tree over another: maps are joined, everything else replaces.
fn lay_over(base: &mut Json, over: Json) {
    match (base, over) {
        (Json::Object(base), Json::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(slot) => lay_over(slot, value),
                    None => {
                        base.insert(key, value);
                    }
                }
            }
        }
        (_, Json::Null) => {}
        (base, over) => *base = over,
    }
}

fn remove(answer: &mut Json, pointer: &str) {
    if let Some((parent, key)) = pointer.rsplit_once('/')
        && let Some(Json::Object(map)) = answer.pointer_mut(parent)
    {
        map.shift_remove(key);
    }
}
