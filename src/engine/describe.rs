//! JSON Schemas of the files that people write, for their editors: from the same description that reads them.
//!
//! Draft 7, because that is what the language servers of TOML and YAML know.

use serde_json::{Map, Value as Json, json};

use crate::case::form::CaseForm;
use crate::case::steps::StepForm;
use crate::decode::Decode;
use crate::format::Mapping;

/// The JSON Schema of `mapping.toml` and `mapping.yaml`.
pub fn mapping() -> Json {
    of::<Mapping>("A mapping of Mapwright")
}

/// The JSON Schema of `case.yaml` and `case.toml`.
pub fn case() -> Json {
    of::<CaseForm>("A test case of Mapwright")
}

/// The JSON Schema of `steps.yaml`.
pub fn steps() -> Json {
    of::<Vec<StepForm>>("The steps of a test case of Mapwright")
}

/// The JSON Schema of any document of the format.
pub fn of<T: Decode>(title: &str) -> Json {
    let mut definitions = Definitions::default();
    let mut schema = T::schema(&mut definitions);
    schema["$schema"] = DRAFT.into();
    schema["title"] = title.into();
    schema["definitions"] = Json::Object(definitions.0);
    schema
}

/// The JSON Schema of template files: any YAML document, with the directives of [`crate::template`].
pub fn template() -> Json {
    let directive = |text: &str| json!({ "type": "string", "description": text });
    json!({
        "$schema": DRAFT,
        "title": "A template of Mapwright",
        "description": "A YAML document whose scalars may hold {{ expressions }}.",
        "allOf": [{ "$ref": "#/definitions/map" }],
        "definitions": {
            "map": {
                "type": "object",
                "properties": {
                    "$for": directive("`name in list`, or `key, value in map | items`: this map once for each item."),
                    "$if": directive("An expression: this map is there only where it holds."),
                    "$let": {
                        "type": "object",
                        "description": "Names for expressions, known to everything in this map.",
                        "additionalProperties": { "type": "string" },
                    },
                    "$value": {
                        "description": "What stands here instead of a map; beside it there are directives only.",
                        "allOf": [{ "$ref": "#/definitions/node" }],
                    },
                },
                "patternProperties": { "^[^$]": { "$ref": "#/definitions/node" }, "^$": { "$ref": "#/definitions/node" } },
                "additionalProperties": false,
            },
            "node": {
                "anyOf": [
                    { "type": ["string", "number", "boolean", "null"] },
                    { "type": "array", "items": { "$ref": "#/definitions/node" } },
                    { "$ref": "#/definitions/map" },
                ],
            },
        },
    })
}

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// The schemas of tables, each once, under its name.
#[derive(Debug, Default)]
pub struct Definitions(Map<String, Json>);

/// One key of a table.
pub struct Member {
    pub key: &'static str,
    pub required: bool,
    /// Its description, as the lines of a comment.
    pub lines: &'static [&'static str],
    pub schema: Json,
}

impl Definitions {
    /// Describes a table where it is met first, and refers to it.
    pub fn table(
        &mut self,
        name: &str,
        lines: &[&str],
        members: impl FnOnce(&mut Self) -> Vec<Member>,
    ) -> Json {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Json::Null);
            let members = members(self);
            let required: Vec<&str> =
                members.iter().filter(|member| member.required).map(|member| member.key).collect();
            let mut schema = json!({ "type": "object", "additionalProperties": false });
            if !required.is_empty() {
                schema["required"] = required.into();
            }
            schema["properties"] = members
                .into_iter()
                .map(|member| (member.key.to_owned(), described(member.schema, &sentence(member.lines))))
                .collect::<Map<String, Json>>()
                .into();
            self.0.insert(name.to_owned(), described(schema, &sentence(lines)));
        }
        json!({ "$ref": format!("#/definitions/{name}") })
    }
}

/// A closed set of words; what each means stands in the description.
pub fn words(lines: &[&str], words: &[(&str, &[&str])]) -> Json {
    let mut text = sentence(lines);
    for (word, lines) in words.iter().filter(|(_, lines)| !lines.is_empty()) {
        text = format!("{text}\n\n`{word}`: {}", sentence(lines));
    }
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    described(json!({ "enum": all }), text.trim_start())
}

/// Adds a description: its own comes first, then that of its type. Beside `$ref` draft 7 reads nothing else.
fn described(schema: Json, text: &str) -> Json {
    if text.is_empty() {
        return schema;
    }
    if schema.get("$ref").is_some() {
        return json!({ "description": text, "allOf": [schema] });
    }
    let mut schema = schema;
    let whole = match schema.get("description").and_then(Json::as_str) {
        Some(own) => format!("{text}\n\n{own}"),
        None => text.to_owned(),
    };
    schema["description"] = whole.into();
    schema
}

fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
