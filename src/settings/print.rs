//! The settings as they hold, written as a provider.toml that says where each comes from.

use std::fmt::Write as _;

use serde_json::Value;

use super::form::without_user;
use super::reader::Reader;
use super::{ProviderSettings, SETTINGS, Setting};

/// Variables whose values are shown to nobody.
const SECRETS: [&str; 2] = ["SP_NATS_TOKEN", "SP_NATS_PASSWORD"];

/// Variables whose URLs may hold a password.
const URLS: [&str; 1] = ["SP_NATS_URL"];

pub(super) fn print(reader: &Reader<'_>, providers: &[ProviderSettings]) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    for setting in SETTINGS {
        let _ = match reader.raw(setting) {
            Some((value, place)) => {
                let from = match (reader.variable(setting.env), place) {
                    (Some(_), _) => setting.env.to_owned(),
                    (None, Some(place)) => place,
                    (None, None) => "default".to_owned(),
                };
                writeln!(text, "{} = {} # {from}", setting.key, quoted(&masked(setting, &value)))
            }
            None => writeln!(text, "# {} is not set ({})", setting.key, setting.env),
        };
    }
    for provider in providers {
        let _ = writeln!(text, "\n[[provider]]");
        let members = [
            ("service_type", Some(&provider.service_type)),
            ("name", Some(&provider.name)),
            ("display_name", provider.display_name.as_ref()),
            ("endpoint", Some(&provider.endpoint)),
        ];
        for (key, value) in members {
            let _ = value.map_or(Ok(()), |value| writeln!(text, "{key} = {}", quoted(value)));
        }
        for (name, value) in &provider.values {
            let _ = writeln!(text, "settings.{name} = {value}");
        }
    }
    text
}

fn masked(setting: &Setting, value: &str) -> String {
    if SECRETS.contains(&setting.env) {
        return "***".to_owned();
    }
    if URLS.contains(&setting.env) {
        return value.split(',').map(str::trim).map(without_user).collect::<Vec<_>>().join(",");
    }
    value.to_owned()
}

/// Texts are written alike in JSON and TOML.
fn quoted(text: &str) -> Value {
    Value::from(text)
}
