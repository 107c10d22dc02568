//! Reads an object as its kind's definition says: unknown members are found, values of another form refused,
//! defaults put in, quantities written in their one canonical form.

use serde_json::{Map, Value};

use super::kinds::{Kind, Kinds};
use super::quantity;
use super::refusal::{Cause, Refusal};

/// One walk through one object.
pub(super) struct Walk<'w> {
    kinds: &'w Kinds,
    defaults: &'w Map<String, Value>,
    /// Paths of members that the definition does not know; they are dropped.
    pub(super) unknown: Vec<String>,
    /// Fields that are missing or hold a word that is not among the possible ones.
    pub(super) causes: Vec<Cause>,
    wrong: Option<String>,
    /// The definition that is being walked, by which Go names a field of the wrong type.
    owner: String,
}

/// How a request wants unknown members to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

const DEFS: &str = "#/$defs/";

/// Members that are structs in Go and so are there even when a manifest leaves them out: what they need is
/// missing, not they.
const ALWAYS_THERE: [&str; 3] = ["spec", "template", "metadata"];

impl<'w> Walk<'w> {
    pub(super) fn new(kinds: &'w Kinds, defaults: &'w Map<String, Value>) -> Self {
        Self { kinds, defaults, unknown: Vec::new(), causes: Vec::new(), wrong: None, owner: String::new() }
    }

    /// Walks a whole object. What it finds of missing and impossible values stays in `causes`.
    pub(super) fn object(
        &mut self,
        kind: &Kind,
        object: &mut Value,
        validation: FieldValidation,
    ) -> Result<(), Refusal> {
        let Some(schema) = self.kinds.schema(kind) else { return Ok(()) };
        // In Go a spec is always there, so what it needs is missing, not it.
        if let Value::Object(members) = &mut *object
            && !kind.custom
            && schema["properties"]["spec"].is_object()
        {
            members.entry("spec").or_insert_with(|| Value::Object(Map::new()));
        }
        self.definition(&schema, kind.definition(), object, "");
        let handled = |what: &str| {
            let text = format!(
                "{kind} in version {:?} cannot be handled as a {kind}: {what}",
                kind.version,
                kind = kind.kind
            );
            Refusal::bad_request(text)
        };
        if let Some(wrong) = self.wrong.take() {
            return Err(handled(&wrong));
        }
        if validation == FieldValidation::Strict && !self.unknown.is_empty() {
            let unknown: Vec<String> =
                self.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
            return Err(handled(&format!("strict decoding error: {}", unknown.join(", "))));
        }
        Ok(())
    }

    fn value(&mut self, schema: &Value, value: &mut Value, path: &str) {
        let reference = schema["$ref"].as_str().and_then(|target| target.strip_prefix(DEFS));
        match reference {
            Some(name) => self.referred(name, value, path),
            None => self.inline(schema, value, path),
        }
    }

    fn referred(&mut self, name: &str, value: &mut Value, path: &str) {
        let short = name.rsplit('.').next().unwrap_or(name);
        match short {
            "Quantity" => self.quantity(value, path),
            "IntOrString" if value.is_string() || value.is_i64() => {}
            "IntOrString" => self.mismatch(value, path, "intstr.IntOrString"),
            "Time" | "MicroTime" => self.time(value, path),
            "RawExtension"
            | "FieldsV1"
            | "JSON"
            | "JSONSchemaProps"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrStringArray" => {}
            _ => {
                if let Some(definition) = self.kinds.definition(name) {
                    self.definition(&definition, name, value, path);
                }
            }
        }
    }

    fn definition(&mut self, schema: &Value, name: &str, value: &mut Value, path: &str) {
        if let (Value::Object(members), Some(Value::Object(defaults))) =
            (&mut *value, self.defaults.get(name))
        {
            for (key, default) in defaults {
                if members.get(key).is_none_or(Value::is_null) {
                    members.insert(key.clone(), default.clone());
                }
            }
        }
        let outer =
            std::mem::replace(&mut self.owner, name.rsplit('.').next().unwrap_or_default().to_owned());
        self.inline(schema, value, path);
        self.owner = outer;
    }

    fn inline(&mut self, schema: &Value, value: &mut Value, path: &str) {
        if schema["x-kubernetes-int-or-string"] == true {
            return;
        }
        match (schema["type"].as_str(), &mut *value) {
            (Some("object"), Value::Object(members)) => self.members(schema, members, path),
            (Some("array"), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(&schema["items"], item, &format!("{path}[{index}]"));
                }
            }
            (Some("string"), Value::String(_)) => self.word(schema, value, path),
            (Some("boolean"), Value::Bool(_)) | (Some("number"), Value::Number(_)) | (None, _) => {}
            (Some("integer"), Value::Number(number)) => match number.as_i64() {
                Some(whole) => self.bounds(schema, whole, path),
                None => self.mismatch(value, path, "int64"),
            },
            (Some(_), Value::Null) => {}
            (Some(kind), _) => {
                let go = match (kind, schema["format"].as_str()) {
                    ("integer", Some(format)) => format,
                    ("integer", None) => "int",
                    ("boolean", _) => "bool",
                    ("array", _) => "[]interface {}",
                    ("object", _) => "map[string]interface {}",
                    (other, _) => other,
                };
                self.mismatch(value, path, go);
            }
        }
    }

    fn members(&mut self, schema: &Value, members: &mut Map<String, Value>, path: &str) {
        let properties = schema["properties"].as_object();
        let rest = &schema["additionalProperties"];
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true
            || (properties.is_none() && rest.is_null());
        members.retain(|key, value| {
            let inner = join(path, key);
            match properties.and_then(|properties| properties.get(key)) {
                // In Go a null is a member that is not there, but of a map of texts, where it is an empty one.
                None if value.is_null() && rest["type"] == "string" => *value = "".into(),
                _ if value.is_null() && !open => return false,
                Some(property) => self.value(property, value, &inner),
                // Go names the map, and not its member, where a plain value has the wrong type.
                None if rest["type"].is_string() => self.value(rest, value, path),
                None if rest.is_object() => self.value(rest, value, &inner),
                None if open || *rest == Value::Bool(true) => {}
                None => {
                    self.unknown.push(inner);
                    return false;
                }
            }
            true
        });
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.required(schema, members, required, path);
        }
    }

    fn required(&mut self, schema: &Value, members: &Map<String, Value>, key: &str, path: &str) {
        // What controllers write is not judged.
        if path.starts_with("status") {
            return;
        }
        let inner = join(path, key);
        let missing = match members.get(key) {
            None => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        };
        if missing && ALWAYS_THERE.contains(&key) {
            self.value(&schema["properties"][key], &mut Value::Object(Map::new()), &inner);
        } else if missing {
            self.causes.push(Cause::required(inner, ""));
        }
    }

    fn word(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(words) = schema["enum"].as_array() else { return };
        if !words.contains(value) && value != "" && !path.starts_with("status") {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            self.causes.push(Cause::unsupported(path, value, &words));
        }
    }

    fn bounds(&mut self, schema: &Value, whole: i64, path: &str) {
        if schema["format"] == "int32" && i32::try_from(whole).is_err() {
            let text = format!(
                "json: cannot unmarshal number {whole} into Go struct field {}.{path} of type int32",
                self.owner
            );
            self.wrong.get_or_insert(text);
        }
        let least = schema["minimum"].as_i64().filter(|least| whole < *least);
        if let Some(least) = least {
            let detail = format!("{path} in body should be greater than or equal to {least}");
            self.causes.push(Cause::invalid(path, &whole.into(), &detail));
        }
        let most = schema["maximum"].as_i64().filter(|most| whole > *most);
        if let Some(most) = most {
            let detail = format!("{path} in body should be less than or equal to {most}");
            self.causes.push(Cause::invalid(path, &whole.into(), &detail));
        }
    }

    fn quantity(&mut self, value: &mut Value, path: &str) {
        let text = match &*value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return self.mismatch(value, path, "resource.Quantity"),
        };
        match quantity::canonical(&text) {
            Some(canonical) => *value = canonical.into(),
            None => {
                self.wrong.get_or_insert(
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                        .to_owned(),
                );
            }
        }
    }

    fn time(&mut self, value: &mut Value, path: &str) {
        match &*value {
            Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => {}
            Value::Null => {}
            Value::String(text) => {
                let wrong =
                    format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse it");
                self.wrong.get_or_insert(wrong);
            }
            _ => self.mismatch(value, path, "time.Time"),
        }
    }

    fn mismatch(&mut self, value: &Value, path: &str, go: &str) {
        let found = match value {
            Value::Null => return,
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.wrong.get_or_insert(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{path} of type {go}",
            self.owner
        ));
    }
}

/// What a member's definition says: references followed, items and free maps entered.
pub(super) fn below(kinds: &Kinds, schema: &Value, key: &str) -> Value {
    let schema = resolved(kinds, schema);
    let member = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
    member.cloned().unwrap_or_default()
}

/// A schema with the definition that it refers to laid under what it says itself.
pub(super) fn resolved(kinds: &Kinds, schema: &Value) -> Value {
    let name = schema["$ref"].as_str().and_then(|target| target.strip_prefix(DEFS));
    match name.and_then(|name| kinds.definition(name)) {
        Some(definition) => (*definition).clone(),
        None => schema.clone(),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
