//! Objects as rows, the way `kubectl get` asks for them. Which columns a kind has is data.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::kinds::Kind;
use super::list::metadata_of;
use super::object::text;
use crate::engine::diagnostic::Findings;
use crate::engine::expression::{Compiler, Expression, Program};
use crate::engine::read::read;
use crate::engine::reads::Names;
use crate::engine::scope::Scope;
use crate::engine::source::{Kind as Shape, Source, Tree};
use crate::engine::value::{from_json, to_json};

/// The columns of every kind that has its own.
pub(super) struct Tables {
    program: Arc<Program>,
    /// By `apps/v1/Deployment`.
    columns: HashMap<String, Vec<Column>>,
}

struct Column {
    name: String,
    wide: bool,
    value: Expression,
}

const FILE: &str = include_str!("../../sandbox/tables.yaml");

impl Tables {
    /// The tables of the file in the binary, compiled once for all clusters of the process.
    ///
    /// # Errors
    /// When the file has mistakes.
    pub(super) fn shared() -> Result<Arc<Self>, Findings> {
        static TABLES: OnceLock<Result<Arc<Tables>, Findings>> = OnceLock::new();
        TABLES.get_or_init(|| Self::new().map(Arc::new)).clone()
    }

    fn new() -> Result<Self, Findings> {
        let source = Source::new("sandbox/tables.yaml", FILE);
        let mut findings = Findings::default();
        let tree = read(&source, &mut findings);
        let mut names = Names::default();
        for name in ["object", "age"] {
            names.opaque(name);
        }
        let mut columns = HashMap::new();
        let mut compiler = Compiler::new(&mut findings);
        for entry in tree.iter().flat_map(entries) {
            let Shape::List(rows) = &entry.value.kind else { continue };
            let compiled = rows.iter().filter_map(|row| Column::read(row, &source, &mut compiler, &names));
            columns.insert(entry.key.clone(), compiled.collect());
        }
        let program = Arc::new(compiler.finish());
        if findings.is_empty() { Ok(Self { program, columns }) } else { Err(findings) }
    }

    /// A table of objects; a watch repeats the columns only once.
    pub(super) fn table(
        &self,
        kind: &Kind,
        objects: &[Value],
        metadata: Option<&Value>,
        header: bool,
    ) -> Value {
        let columns = self.columns.get(&format!("{}/{}", kind.api_version(), kind.kind));
        let rows: Vec<Value> = objects
            .iter()
            .map(|object| json!({"cells": self.cells(columns, object), "object": metadata_of(object)}))
            .collect();
        let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"});
        table["metadata"] = metadata.cloned().unwrap_or_else(|| {
            let version = objects.first().map(|object| text(object, "/metadata/resourceVersion"));
            json!({"resourceVersion": version})
        });
        table["columnDefinitions"] = if header { definitions(columns) } else { Value::Null };
        table["rows"] = rows.into();
        table
    }

    fn cells(&self, columns: Option<&Vec<Column>>, object: &Value) -> Vec<Value> {
        let age = age(text(object, "/metadata/creationTimestamp"));
        let Some(columns) = columns else {
            return vec![object["metadata"]["name"].clone(), age.into()];
        };
        let values = vec![("object".into(), from_json(object)), ("age".into(), age.into())];
        let scope = Scope::root(self.program.clone(), Arc::new([]), values, None);
        let cell = |column: &Column| {
            let value = self.program.eval(&column.value, &scope).ok();
            let value = value.and_then(|value| to_json(&value).ok().flatten());
            value.unwrap_or_else(|| "<none>".into())
        };
        columns.iter().map(cell).collect()
    }
}

impl Column {
    fn read(row: &Tree, source: &Source, compiler: &mut Compiler<'_>, names: &Names) -> Option<Self> {
        let name = row.get("name")?.as_str()?.to_owned();
        let value = row.get("value")?;
        let value = compiler.expression(source, &value.span, value.as_str()?, names)?;
        Some(Self { name, wide: row.get("wide").is_some(), value })
    }
}

pub(super) fn entries(tree: &Tree) -> &[crate::engine::source::Entry] {
    match &tree.kind {
        Shape::Map(entries) => entries,
        _ => &[],
    }
}

fn definitions(columns: Option<&Vec<Column>>) -> Value {
    let definition = |name: &str, wide: bool| {
        let format = if name == "Name" { "name" } else { "" };
        json!({
            "name": name, "type": "string", "format": format, "description": "",
            "priority": i64::from(wide),
        })
    };
    match columns {
        Some(columns) => columns.iter().map(|column| definition(&column.name, column.wide)).collect(),
        None => json!([definition("Name", false), definition("Age", false)]),
    }
}

/// How long ago a moment is, in the two largest units that still say something.
fn age(moment: &str) -> String {
    let Ok(moment) = moment.parse::<jiff::Timestamp>() else { return "<unknown>".to_owned() };
    let seconds = crate::clock::now().duration_since(moment).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: &str, small: i64, inner: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{inner}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}
