//! The JSON Schema of provider.toml, from the table of settings.

use serde_json::{Map, Value, json};

use super::{SETTINGS, Setting};

/// For editors: what may stand in provider.toml.
pub fn schema() -> Value {
    let mut properties = Map::new();
    for setting in SETTINGS {
        let mut here = &mut properties;
        let mut keys = setting.key.split('.').peekable();
        while let Some(key) = keys.next() {
            if keys.peek().is_none() {
                here.insert(key.to_owned(), leaf(setting));
                break;
            }
            let table = here.entry(key.to_owned()).or_insert_with(|| table(Map::new()));
            match table.get_mut("properties") {
                Some(Value::Object(inner)) => here = inner,
                _ => break,
            }
        }
    }
    properties.insert("provider".to_owned(), json!({ "type": "array", "items": provider() }));
    let mut schema = table(properties);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "provider.toml of Mapwright".into();
    schema
}

fn table(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn leaf(setting: &Setting) -> Value {
    let mut text = format!("{}. Write {}", setting.about, setting.form);
    if let Some(default) = setting.default {
        text = format!("{text}; {default} where absent");
    }
    scalar(&format!("{text}. The variable {} goes before it.", setting.env))
}

fn scalar(description: &str) -> Value {
    json!({ "type": ["string", "number", "boolean"], "description": description })
}

/// One `[[provider]]`.
fn provider() -> Value {
    let mut provider = table(Map::new());
    provider["description"] = "One service type under one provider's name.".into();
    provider["required"] = json!(["service_type"]);
    provider["properties"] = json!({
        "service_type": scalar("The mapping that is provided."),
        "name": scalar("The provider's name in DCM."),
        "display_name": scalar("The provider's name for people."),
        "endpoint": scalar("Where DCM reaches this process."),
        "settings": {
            "type": "object",
            "description": "Values of the settings that the mapping declares.",
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        },
    });
    provider
}
