//! Which service types are provided under which names, and what their mappings are told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::file::{Leaf, ProviderTable, nearest};
use super::{DeclaredSetting, Fault, Kind, ProviderSettings, Reader, form};

/// The tables of the file in their order, then the types of the command line that have none.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<ProviderSettings> {
    let file = reader.file;
    let mut providers = Vec::new();
    let mut seen = BTreeSet::new();
    for table in &file.providers {
        let place = Some(file.place(table.line));
        let Some(service_type) = table.own.get("service_type").map(Leaf::text) else {
            let fault = Fault::new(
                "provider.service_type",
                "is not set",
                "name the mapping that is provided",
            );
            reader.faults.push(fault.at(place));
            continue;
        };
        if !seen.insert(service_type.clone()) {
            let what = format!("is `{service_type}` a second time");
            reader
                .faults
                .push(Fault::new("provider.service_type", what, "keep one of the tables").at(place));
        }
        providers.push(provider(reader, service_type, Some(table)));
    }
    let types = reader.sources.service_types;
    for service_type in types
        .iter()
        .filter(|service_type| seen.insert((*service_type).clone()))
    {
        providers.push(provider(reader, service_type.clone(), None));
    }
    require_one(reader, &providers);
    providers
}

/// A process without a provider still names what it lacks, so that the first attempt tells everything.
fn require_one(reader: &mut Reader<'_>, providers: &[ProviderSettings]) {
    if !providers.is_empty() || !reader.sources.complete {
        return;
    }
    reader.faults.push(Fault::new(
        "service_type",
        "is not given",
        "name a service type, or give a file by --config",
    ));
    named(reader, "SP_NAME", None, "name", form::dns_label);
    named(reader, "SP_ENDPOINT", None, "endpoint", form::http_url);
}

fn provider(
    reader: &mut Reader<'_>,
    service_type: String,
    table: Option<&ProviderTable>,
) -> ProviderSettings {
    let name = named(reader, "SP_NAME", table, "name", form::dns_label);
    let endpoint = named(reader, "SP_ENDPOINT", table, "endpoint", form::http_url);
    let display_name = table
        .and_then(|table| table.own.get("display_name"))
        .map(Leaf::text);
    let display_name = display_name.or_else(|| reader.get("SP_DISPLAY_NAME", form::text));
    let values = values(reader, &service_type, table);
    ProviderSettings {
        // `dev` needs no name of its own; what it makes is told apart by this one.
        name: name.unwrap_or_else(|| "mapwright-dev".to_owned()),
        endpoint: endpoint.unwrap_or_default(),
        service_type,
        display_name,
        values,
    }
}

/// What a provider's own table says goes before what is said for the whole process.
fn named(
    reader: &mut Reader<'_>,
    env: &str,
    table: Option<&ProviderTable>,
    key: &str,
    form: fn(&str) -> Result<String, String>,
) -> Option<String> {
    match table.and_then(|table| table.own.get(key)) {
        Some(leaf) => match form(&leaf.text()) {
            Ok(text) => Some(text),
            Err(what) => {
                let help = format!("set it to {}", super::table::row(env).form);
                let place = Some(reader.file.place(leaf.line));
                reader
                    .faults
                    .push(Fault::new(format!("provider.{key}"), what, help).at(place));
                None
            }
        },
        None if reader.sources.complete => reader.require(env, form),
        None => reader.get(env, form),
    }
}

// === what the mappings declare ===

fn values(
    reader: &mut Reader<'_>,
    service_type: &str,
    table: Option<&ProviderTable>,
) -> BTreeMap<String, Value> {
    let all = reader.sources.declared;
    let declared = all
        .iter()
        .filter(|declared| declared.service_type == service_type)
        .collect::<Vec<_>>();
    if let Some(table) = table {
        refuse_undeclared(reader, table, &declared);
    }
    let leaf_of = |declared: &DeclaredSetting| table.and_then(|table| table.settings.get(&declared.name));
    let values = declared.iter().filter_map(|declared| {
        let value = value(reader, declared, leaf_of(declared))?;
        Some((declared.name.clone(), value))
    });
    values.collect()
}

/// The environment goes before the file, the file before the mapping's own default.
fn value(reader: &mut Reader<'_>, declared: &DeclaredSetting, leaf: Option<&Leaf>) -> Option<Value> {
    let (read, place) = match (reader.variable(&declared.env), leaf) {
        (Some(text), _) => (from_text(declared.kind, &text), None),
        (None, Some(leaf)) => (
            from_file(declared.kind, &leaf.value),
            Some(reader.file.place(leaf.line)),
        ),
        (None, None) => {
            if declared.required && declared.default.is_none() {
                let help = format!("set it to {}", wanted(declared));
                reader.faults.push(Fault::new(&declared.env, "is not set", help));
            }
            return declared.default.clone();
        }
    };
    let read = read.and_then(|value| match is_allowed(declared, &value) {
        true => Ok(value),
        false => Err(format!("is {value}")),
    });
    match read {
        Ok(value) => Some(value),
        Err(what) => {
            let help = format!("set it to {}", wanted(declared));
            reader
                .faults
                .push(Fault::new(&declared.env, what, help).at(place));
            None
        }
    }
}

fn from_text(kind: Kind, text: &str) -> Result<Value, String> {
    let wrong = || format!("is `{text}`");
    match kind {
        Kind::String => Ok(Value::from(text)),
        Kind::Boolean => form::boolean(text).map(Value::from).map_err(|_| wrong()),
        Kind::Integer => text.parse::<i64>().map(Value::from).map_err(|_| wrong()),
        Kind::Number => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                Ok(text.parse::<i64>().map_or(Value::from(number), Value::from))
            }
            _ => Err(wrong()),
        },
    }
}

fn from_file(kind: Kind, value: &Value) -> Result<Value, String> {
    let fits = match kind {
        Kind::String => value.is_string(),
        Kind::Boolean => value.is_boolean(),
        Kind::Integer => value.is_i64(),
        Kind::Number => value.is_number(),
    };
    if fits {
        Ok(value.clone())
    } else {
        Err(format!("is {value}"))
    }
}

fn is_allowed(declared: &DeclaredSetting, value: &Value) -> bool {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    declared.allowed.is_empty() || declared.allowed.contains(&text)
}

fn wanted(declared: &DeclaredSetting) -> String {
    if !declared.allowed.is_empty() {
        return declared.allowed.join(" or ");
    }
    let form = match declared.kind {
        Kind::String => "a text",
        Kind::Integer => "a whole number",
        Kind::Boolean => "true or false",
        Kind::Number => "a number",
    };
    form.to_owned()
}

fn refuse_undeclared(reader: &mut Reader<'_>, table: &ProviderTable, declared: &[&DeclaredSetting]) {
    let names = || declared.iter().map(|declared| declared.name.as_str());
    for (key, leaf) in table
        .settings
        .iter()
        .filter(|(key, _)| !names().any(|name| name == *key))
    {
        let help = match nearest(key, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "remove it, or declare it in the mapping".to_owned(),
        };
        let place = Some(reader.file.place(leaf.line));
        let what = "is no setting that this mapping declares";
        reader
            .faults
            .push(Fault::new(format!("provider.settings.{key}"), what, help).at(place));
    }
}
