//! Documents that cover a JSON Schema: the smallest, the largest, and each that differs from these in one place.
//!
//! Whether a sample is valid is for the schema to say: what a keyword forbids may be proposed here all the same.

mod hostile;
mod pattern;
mod values;

use serde_json::{Map, Value as Json, json};

pub use hostile::HOSTILE;
use values::{numbers, texts};

/// Levels of a schema that refers to itself; below, only what is required is made.
const DEEPEST: usize = 6;

/// Levels below which nothing is made: a schema that requires itself has no document.
const END: usize = 16;

/// Samples of a schema's documents, each once, the simplest first.
pub fn samples(schema: &Json) -> Vec<Json> {
    let sampler = Sampler { root: schema };
    let mut found: Vec<Json> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for sample in sampler.variants(schema, 0) {
        if seen.insert(sample.to_string()) {
            found.push(sample);
        }
    }
    found
}

struct Sampler<'s> {
    root: &'s Json,
}

impl Sampler<'_> {
    /// The values that may be tried at a place. The first has only what is required, the second everything.
    fn variants(&self, schema: &Json, depth: usize) -> Vec<Json> {
        let mut found = Vec::new();
        if depth >= END {
            return found;
        }
        for node in self.branches(schema, 0) {
            found.extend(self.of_node(&node, depth));
        }
        found
    }

    fn first(&self, schema: &Json, depth: usize) -> Json {
        self.variants(schema, depth).into_iter().next().unwrap_or_default()
    }

    /// A schema without references and branches: one for each way through `oneOf` and `anyOf`.
    fn branches(&self, schema: &Json, depth: usize) -> Vec<Map<String, Json>> {
        let Some(node) = schema.as_object().filter(|_| depth < DEEPEST) else {
            return vec![Map::new()];
        };
        let mut own = node.clone();
        for key in ["$ref", "allOf", "oneOf", "anyOf", "$defs"] {
            own.shift_remove(key);
        }
        let mut ways = vec![own];
        if let Some(target) = node.get("$ref").and_then(Json::as_str)
            && let Some(target) = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
        {
            ways = product(&ways, &self.branches(target, depth + 1));
        }
        for part in node.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            ways = product(&ways, &self.branches(part, depth + 1));
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(parts) = node.get(key).and_then(Json::as_array) {
                let all: Vec<_> = parts.iter().flat_map(|part| self.branches(part, depth + 1)).collect();
                ways = product(&ways, &all);
            }
        }
        ways
    }

    /// The author's own examples first: they also pass the checks, which a schema does not know.
    fn of_node(&self, node: &Map<String, Json>, depth: usize) -> Vec<Json> {
        let examples = node.get("examples").and_then(Json::as_array).cloned().unwrap_or_default();
        examples.into_iter().chain(self.of_type(node, depth)).collect()
    }

    fn of_type(&self, node: &Map<String, Json>, depth: usize) -> Vec<Json> {
        if let Some(value) = node.get("const") {
            return vec![value.clone()];
        }
        if let Some(values) = node.get("enum").and_then(Json::as_array) {
            return values.clone();
        }
        let named: Vec<&str> = match node.get("type") {
            Some(Json::String(name)) => vec![name],
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ if node.contains_key("properties") || node.contains_key("additionalProperties") => {
                vec!["object"]
            }
            _ if node.contains_key("items") => vec!["array"],
            _ if node.contains_key("pattern") => vec!["string"],
            // Anything may stand here.
            _ => {
                return vec![
                    json!("text"),
                    json!(7),
                    json!(true),
                    json!(["item"]),
                    json!({ "key": "value" }),
                ];
            }
        };
        named.into_iter().flat_map(|name| self.named(name, node, depth)).collect()
    }

    fn named(&self, name: &str, node: &Map<String, Json>, depth: usize) -> Vec<Json> {
        match name {
            "string" => texts(node).into_iter().map(Json::String).collect(),
            "integer" => numbers(node, true),
            "number" => numbers(node, false),
            "boolean" => vec![false.into(), true.into()],
            "null" => vec![Json::Null],
            "array" => self.lists(node, depth),
            "object" => self.maps(node, depth),
            _ => Vec::new(),
        }
    }

    fn lists(&self, node: &Map<String, Json>, depth: usize) -> Vec<Json> {
        let least = size(node, "minItems").unwrap_or(0);
        let any = Json::Bool(true);
        let items = self.variants(node.get("items").unwrap_or(&any), depth + 1);
        let Some(first) = items.first().cloned() else {
            return vec![json!([])];
        };
        let several = |count: usize| -> Json { items.iter().cycle().take(count).cloned().collect() };
        let mut found = vec![several(least), several(least.max(1))];
        if depth >= DEEPEST {
            return found;
        }
        found.extend(items.iter().map(|item| {
            // The other items stay simple, so that only one place differs.
            let rest = vec![first.clone(); least.saturating_sub(1)];
            std::iter::once(item.clone()).chain(rest).collect()
        }));
        found.push(several(least.max(2)));
        found.extend(size(node, "maxItems").filter(|most| *most <= 64).map(several));
        found
    }

    fn maps(&self, node: &Map<String, Json>, depth: usize) -> Vec<Json> {
        let required: Vec<&str> = node
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let none = Map::new();
        let properties = node.get("properties").and_then(Json::as_object).unwrap_or(&none);
        let needed = |name: &str| required.contains(&name);
        let any = Json::Bool(true);
        let mut least = Map::new();
        for name in &required {
            let schema = properties.get(*name).unwrap_or(&any);
            least.insert((*name).to_owned(), self.first(schema, depth + 1));
        }
        if depth >= DEEPEST {
            return vec![least.into()];
        }
        let members: Vec<(&String, Vec<Json>)> =
            properties.iter().map(|(name, schema)| (name, self.variants(schema, depth + 1))).collect();
        let mut most = least.clone();
        for (name, values) in &members {
            most.extend(fullest(values).map(|value| ((*name).clone(), value.clone())));
        }
        let mut found: Vec<Json> = vec![least.clone().into(), most.clone().into()];
        for (name, values) in &members {
            // Beside what is required, two of its values; beside everything, all of them.
            found.extend(values.iter().take(2).map(|value| with(&least, name, value)));
            found.extend(values.iter().map(|value| with(&most, name, value)));
            if !needed(name) {
                let mut without = most.clone();
                without.shift_remove(*name);
                found.push(without.into());
            }
        }
        found.extend(self.others(node, &most, depth));
        found
    }

    /// Members that no property names.
    fn others(&self, node: &Map<String, Json>, base: &Map<String, Json>, depth: usize) -> Vec<Json> {
        let values = match node.get("additionalProperties") {
            Some(Json::Bool(false)) => return Vec::new(),
            Some(schema @ Json::Object(_)) => self.variants(schema, depth + 1),
            _ => vec![json!("value"), json!({ "inner": 1 })],
        };
        let names = match node.get("propertyNames").and_then(Json::as_object) {
            Some(names) => texts(names),
            None => vec!["unlisted".to_owned(), "with space".to_owned(), HOSTILE[0].to_owned()],
        };
        let (Some(name), Some(value)) = (names.first(), values.first()) else {
            return Vec::new();
        };
        let values = values.iter().map(|value| with(base, name, value));
        values.chain(names.iter().map(|name| with(base, name, value))).collect()
    }
}

/// The second variant of an object or list has everything, and so has its parent's.
fn fullest(values: &[Json]) -> Option<&Json> {
    match values {
        [Json::Object(_) | Json::Array(_), second, ..] => Some(second),
        _ => values.first(),
    }
}

fn with(base: &Map<String, Json>, name: &str, value: &Json) -> Json {
    let mut map = base.clone();
    map.insert(name.to_owned(), value.clone());
    map.into()
}

fn size(node: &Map<String, Json>, key: &str) -> Option<usize> {
    node.get(key).and_then(Json::as_u64).and_then(|number| usize::try_from(number).ok())
}

/// Each of these schemas together with each of those.
fn product(these: &[Map<String, Json>], those: &[Map<String, Json>]) -> Vec<Map<String, Json>> {
    these.iter().flat_map(|this| those.iter().map(|that| both(this, that))).collect()
}

fn both(this: &Map<String, Json>, that: &Map<String, Json>) -> Map<String, Json> {
    let mut joined = this.clone();
    for (key, value) in that {
        match (joined.get_mut(key), value) {
            (Some(Json::Object(known)), Json::Object(more)) if key == "properties" => {
                known.extend(more.clone());
            }
            (Some(Json::Array(known)), Json::Array(more)) if key == "required" => known.extend(more.clone()),
            (Some(_), _) => {}
            (None, _) => {
                joined.insert(key.clone(), value.clone());
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cover_what_is_required_everything_enums_bounds_and_branches() {
        let schema = json!({
            "type": "object", "required": ["a"],
            "properties": {
                "a": {"enum": ["x", "y"]},
                "n": {"type": "integer", "minimum": 3, "maximum": 9},
                "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                "s": {"type": "string", "pattern": "^[a-z]{2,4}$"},
            },
            "additionalProperties": false,
            "$defs": {"item": {"oneOf": [{"type": "boolean"}, {"const": 5}]}},
        });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let valid: Vec<Json> =
            samples(&schema).into_iter().filter(|sample| validator.is_valid(sample)).collect();
        assert_eq!(valid[0], json!({"a": "x"}));
        assert!(valid[1]["n"].is_i64() && valid[1]["list"].is_array() && valid[1]["s"].is_string());
        let has =
            |pointer: &str, value: Json| valid.iter().any(|sample| sample.pointer(pointer) == Some(&value));
        assert!(
            has("/a", json!("y")) && has("/n", json!(3)) && has("/n", json!(9)) && has("/list", json!([]))
        );
        assert!(has("/list/0", json!(true)) && has("/list/0", json!(5)) && has("/s", json!("aa")));
        assert!(has("/s", json!("aaaa")), "{valid:?}");
    }

    #[test]
    fn a_schema_that_refers_to_itself_has_samples() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let found = samples(&schema).len();
        assert!((4..20_000).contains(&found), "{found}");
    }

    #[test]
    fn a_schema_that_requires_itself_has_no_document_and_ends() {
        for inner in [
            json!({"required": ["next"], "properties": {"next": {"$ref": "#"}}}),
            json!({"type": "array", "minItems": 1, "items": {"$ref": "#"}}),
        ] {
            assert!(samples(&inner).len() < 20_000);
        }
    }
}
