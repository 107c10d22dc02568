//! provider.toml as leaves with their lines; what is no setting is a fault.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Fault, SETTINGS};

/// The file, read but not yet understood. The default is no file at all.
#[derive(Debug, Default)]
pub(super) struct ProviderFile {
    name: String,
    /// The settings of the process by dotted key.
    pub(super) process: BTreeMap<String, Leaf>,
    pub(super) providers: Vec<ProviderTable>,
}

/// One `[[provider]]`.
#[derive(Debug)]
pub(super) struct ProviderTable {
    pub(super) line: usize,
    /// `service_type`, `name` and so on.
    pub(super) own: BTreeMap<String, Leaf>,
    /// What stands under `settings`.
    pub(super) settings: BTreeMap<String, Leaf>,
}

#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) line: usize,
}

const PROVIDER_KEYS: [&str; 4] = ["service_type", "name", "display_name", "endpoint"];

// === impl ProviderFile ===

impl ProviderFile {
    pub(super) fn parse(name: &str, text: &str, faults: &mut Vec<Fault>) -> Self {
        let mut file = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let line = line_of(text, error.span().map_or(0, |span| span.start));
                let fault = Fault::new(
                    "provider.toml",
                    format!("is not TOML: {}", error.message()),
                    "mend this line",
                );
                faults.push(fault.at(Some(file.place(line))));
                return file;
            }
        };
        let mut walk = Walk {
            text,
            file: &file,
            faults,
        };
        let (mut process, mut providers) = (BTreeMap::new(), Vec::new());
        for (key, value) in &table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("provider", DeValue::Array(tables)) => {
                    providers.extend(tables.iter().filter_map(|table| walk.provider(table)));
                }
                (key, _) => walk.leaves(key, value, &mut process),
            }
        }
        let known = SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>();
        walk.refuse_unknown("", &process, &known);
        file.process = process;
        file.providers = providers;
        file
    }

    pub(super) fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.name)
    }
}

// === impl Leaf ===

impl Leaf {
    /// As it would stand in an environment variable.
    pub(super) fn text(&self) -> String {
        self.value
            .as_str()
            .map_or_else(|| self.value.to_string(), |text| text.trim().to_owned())
    }
}

struct Walk<'a> {
    text: &'a str,
    file: &'a ProviderFile,
    faults: &'a mut Vec<Fault>,
}

impl Walk<'_> {
    fn provider(&mut self, table: &Spanned<DeValue<'_>>) -> Option<ProviderTable> {
        let line = line_of(self.text, table.span().start);
        let DeValue::Table(members) = table.get_ref() else {
            self.fault(
                "provider",
                line,
                "is not a table",
                "write [[provider]] above its keys",
            );
            return None;
        };
        let (mut own, mut settings) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in members {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("settings", DeValue::Table(members)) => {
                    for (key, value) in members {
                        self.leaves(key.get_ref(), value, &mut settings);
                    }
                }
                (key, _) => self.leaves(key, value, &mut own),
            }
        }
        self.refuse_unknown("provider.", &own, &PROVIDER_KEYS);
        Some(ProviderTable { line, own, settings })
    }

    /// Collects the leaves under a key, by dotted path.
    fn leaves(&mut self, key: &str, value: &Spanned<DeValue<'_>>, into: &mut BTreeMap<String, Leaf>) {
        let line = line_of(self.text, value.span().start);
        let leaf = match value.get_ref() {
            DeValue::Table(members) => {
                for (inner, value) in members {
                    self.leaves(&format!("{key}.{}", inner.get_ref()), value, into);
                }
                return;
            }
            DeValue::String(text) => Some(Value::from(text.as_ref())),
            DeValue::Boolean(flag) => Some(Value::from(*flag)),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(Value::from),
            DeValue::Float(number) => number
                .as_str()
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .map(Value::from),
            DeValue::Array(_) | DeValue::Datetime(_) => None,
        };
        match leaf {
            Some(value) => drop(into.insert(key.to_owned(), Leaf { value, line })),
            None => self.fault(
                key,
                line,
                "has a value of no use here",
                "write a text, a number, true or false",
            ),
        }
    }

    fn refuse_unknown(&mut self, prefix: &str, leaves: &BTreeMap<String, Leaf>, known: &[&str]) {
        for (key, leaf) in leaves.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let help = nearest(key, known.iter().copied()).map_or_else(
                || "remove it".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            self.fault(&format!("{prefix}{key}"), leaf.line, "is no setting", &help);
        }
    }

    fn fault(&mut self, name: &str, line: usize, what: &str, help: &str) {
        let place = self.file.place(line);
        self.faults.push(Fault::new(name, what, help).at(Some(place)));
    }
}

/// The known word that a misspelt one is likely to mean.
pub(super) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let near = known
        .map(|candidate| (distance(word, candidate), candidate))
        .min()?;
    (near.0 <= word.len().div_ceil(3)).then_some(near.1)
}

/// How many letters have to be changed, added or removed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row = (0..=other.chars().count()).collect::<Vec<_>>();
    for (above, left) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (column, up) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(left != up);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
