//! Mistakes in JSON Schemas that a validator passes over: to it a misspelt keyword is no keyword at all.

use jsonschema::PatternOptions;
use serde_json::{Value, json};

use crate::diagnostic::{Findings, nearest, suggestion};
use crate::source::{Entry, Kind, Source, Tree};

/// Keywords whose value is a schema, a list of schemas, or a map of them.
const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAP: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// All other keywords: assertions first, then what only describes.
const REST: [&str; 40] = [
    "$ref",
    "type",
    "enum",
    "const",
    "required",
    "dependentRequired",
    "dependencies",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "contentEncoding",
    "contentMediaType",
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "$comment",
    "title",
    "description",
    "default",
    "deprecated",
    "examples",
];
const ACCESS: [&str; 2] = ["readOnly", "writeOnly"];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// The lower and the upper bound that must leave something between them.
const BOUNDS: [(&str, &str); 4] = [
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
];

/// Reports what is wrong in a schema and in all schemas within it.
pub(super) fn lint(source: &Source, root: &Tree, findings: &mut Findings) {
    Lint { source, root, findings }.schema(root);
}

struct Lint<'l> {
    source: &'l Source,
    root: &'l Tree,
    findings: &'l mut Findings,
}

impl Lint<'_> {
    fn schema(&mut self, tree: &Tree) {
        let Kind::Map(entries) = &tree.kind else { return };
        for entry in entries {
            let inner = &entry.value;
            match entry.key.as_str() {
                "type" => self.types(inner),
                "pattern" => self.pattern(inner),
                "$ref" => self.reference(inner),
                "required" => self.required(entry, tree),
                "enum" if matches!(&inner.kind, Kind::List(items) if items.is_empty()) => {
                    let message = "no value is in an empty list";
                    self.findings.add(self.source, &inner.span, "empty-range", message);
                }
                key if ONE.contains(&key) => match &inner.kind {
                    Kind::List(items) => items.iter().for_each(|item| self.schema(item)),
                    _ => self.schema(inner),
                },
                key if LIST.contains(&key) => {
                    if let Kind::List(items) = &inner.kind {
                        items.iter().for_each(|item| self.schema(item));
                    }
                }
                key if MAP.contains(&key) => {
                    if let Kind::Map(members) = &inner.kind {
                        members.iter().for_each(|member| self.schema(&member.value));
                    }
                }
                key if REST.contains(&key) || ACCESS.contains(&key) || key.starts_with("x-") => {}
                _ => self.unknown_keyword(entry),
            }
        }
        self.bounds(tree);
    }

    fn unknown_keyword(&mut self, entry: &Entry) {
        let known: Vec<&str> =
            ONE.iter().chain(&LIST).chain(&MAP).chain(&REST).chain(&ACCESS).copied().collect();
        let message = format!("`{}` is not a keyword of JSON Schema", entry.key);
        let help = suggestion(&entry.key, &known);
        self.findings.add_with_help(self.source, &entry.key_span, "unknown-keyword", message, help);
    }

    fn types(&mut self, tree: &Tree) {
        let items = match &tree.kind {
            Kind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(tree),
        };
        for item in items {
            if let Some(word) = item.as_str().filter(|word| !TYPES.contains(word)) {
                let message = format!("`{word}` is not a type of JSON Schema");
                let help = suggestion(word, &TYPES);
                self.findings.add_with_help(self.source, &item.span, "unknown-type", message, help);
            }
        }
    }

    /// Patterns run in linear time whatever a caller sends, so look-around and back-references are refused.
    fn pattern(&mut self, tree: &Tree) {
        let Some(pattern) = tree.as_str() else { return };
        let around = ["(?=", "(?!", "(?<=", "(?<!"].into_iter().find(|mark| pattern.contains(mark));
        if let Some(mark) = around {
            let offsets = self.source.offsets(&tree.span, mark);
            let place = offsets.first().zip(offsets.last()).map_or(tree.span.clone(), |(a, b)| *a..*b);
            let message = "look-around is not allowed in a pattern: it may take for ever";
            let help = "say it with two patterns in allOf, or with a [[check]] of the mapping";
            return self.findings.add_with_help(self.source, &place, "look-around", message, Some(help));
        }
        let schema = json!({ "pattern": pattern });
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
        if options.build(&schema).is_err() {
            let message = "the pattern is not a regular expression";
            self.findings.add(self.source, &tree.span, "malformed-pattern", message);
        }
    }

    fn reference(&mut self, tree: &Tree) {
        let Some(pointer) = tree.as_str().and_then(|text| text.strip_prefix("#/")) else { return };
        let mut here = self.root;
        for key in pointer.split('/') {
            let name = key.replace("~1", "/").replace("~0", "~");
            let next = match &here.kind {
                Kind::List(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
                _ => here.get(&name),
            };
            match next {
                Some(next) => here = next,
                None => return self.nothing_there(tree, key, here),
            }
        }
    }

    fn nothing_there(&mut self, tree: &Tree, key: &str, here: &Tree) {
        let known: Vec<&str> = match &here.kind {
            Kind::Map(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
            _ => Vec::new(),
        };
        let offsets = self.source.offsets(&tree.span, key);
        let place = offsets.first().zip(offsets.last()).map_or(tree.span.clone(), |(a, b)| *a..*b);
        let message = format!("there is no `{key}` in this file");
        let help = suggestion(key, &known);
        self.findings.add_with_help(self.source, &place, "unknown-reference", message, help);
    }

    /// A required member that the schema beside it does not describe is most often misspelt.
    fn required(&mut self, entry: &Entry, schema: &Tree) {
        let (Kind::List(names), Some(Kind::Map(properties))) =
            (&entry.value.kind, schema.get("properties").map(|tree| &tree.kind))
        else {
            return;
        };
        let known: Vec<&str> = properties.iter().map(|property| property.key.as_str()).collect();
        for item in names {
            let Some(name) = item.as_str().filter(|name| !known.contains(name)) else { continue };
            if nearest(name, known.iter().copied()).is_some() {
                let message = format!("`{name}` is required, and no property is called so");
                let help = suggestion(name, &known);
                self.findings.add_with_help(self.source, &item.span, "unknown-property", message, help);
            }
        }
    }

    fn bounds(&mut self, tree: &Tree) {
        let number = |key: &str| tree.get(key).map(Tree::to_json).as_ref().and_then(Value::as_f64);
        for (lower, upper) in BOUNDS {
            if let (Some(low), Some(high), Some(place)) = (number(lower), number(upper), tree.get(upper))
                && low > high
            {
                let message = format!("no value is at least {low} and at most {high}");
                self.findings.add(self.source, &place.span, "empty-range", message);
            }
        }
    }
}
