//! `mapwright rbac`: the exact rights of the loaded mappings, each verb with what needs it.

use std::fmt::Write as _;

use super::offline::{Root, Stop, compile, open};
use super::{End, result};
use crate::cluster::{own_rights, review_rights};
use crate::engine::diagnostic::Findings;
use crate::engine::kinds::Kinds;
use crate::engine::rights::Right;
use crate::engine::service::KindRef;
use crate::kinds;

/// Print the exact rights of the mappings.
///
/// A Role for the provider's namespace, and a ClusterRole for what lives in no namespace.
///
/// Example: mapwright rbac container storage --namespace dcm | kubectl apply -f -
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The service types; all mappings where none is named.
    types: Vec<String>,
    #[command(flatten)]
    root: Root,
    /// The provider's namespace.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The name of the Role; the ClusterRole's begins with it.
    #[arg(long, default_value = "mapwright")]
    name: String,
    /// Add what `SP_SERVER_TOKEN_REVIEW=true` needs.
    #[arg(long)]
    token_review: bool,
}

pub(super) fn run(arguments: &Arguments) -> End {
    match roles(arguments) {
        Ok(text) => {
            result(&text);
            End::Success
        }
        Err(stop) => stop.tell(),
    }
}

/// The verbs on one resource, each with every reason.
struct Row {
    group: String,
    plural: String,
    namespaced: bool,
    /// The only object that is meant.
    object: Option<String>,
    verbs: Vec<(&'static str, Vec<String>)>,
}

fn roles(arguments: &Arguments) -> Result<String, Stop> {
    let (files, known) = open(&arguments.root.root)?;
    let wanted = if arguments.types.is_empty() { &known } else { &arguments.types };
    let mut findings = Findings::default();
    let kinds = kinds::of(&files, &mut findings);
    let mut rows: Vec<Row> = Vec::new();
    for name in wanted {
        if !known.contains(name) {
            let known = known.join(", ");
            return Err(Stop::usage(format!("there is no mapping for `{name}`; there are: {known}")));
        }
        for right in compile(&files, name)?.rights() {
            add(&mut rows, &kinds, right, None)?;
        }
    }
    if rows.is_empty() {
        return Err(Stop::usage(format!("there is no mapping in {}", arguments.root.root.display())));
    }
    let reviews = if arguments.token_review { review_rights() } else { Vec::new() };
    for own in own_rights().into_iter().chain(reviews) {
        let kind = KindRef { api_version: own.resource.api_version, kind: own.resource.kind };
        let right = Right { kind, verb: own.verb, because: own.because.to_owned() };
        add(&mut rows, &kinds, right, own.own_namespace.then(|| arguments.namespace.clone()))?;
    }
    let (inside, outside): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.namespaced);
    let mut text = String::new();
    role(&mut text, "Role", &arguments.name, Some(&arguments.namespace), &inside);
    if !outside.is_empty() {
        text.push_str("---\n");
        let name = format!("{}-{}", arguments.name, arguments.namespace);
        role(&mut text, "ClusterRole", &name, None, &outside);
    }
    Ok(text)
}

fn add(rows: &mut Vec<Row>, kinds: &Kinds, right: Right, object: Option<String>) -> Result<(), Stop> {
    let KindRef { api_version, kind } = &right.kind;
    let Some(known) = kinds.get(&right.kind) else {
        return Err(Stop::finding(format!(
            "{}: the kind {kind} of {api_version} is not known, so neither is its name in a Role; put its \
             CustomResourceDefinition into schemas/",
            right.because
        )));
    };
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let same = |row: &&mut Row| row.group == group && row.plural == known.plural && row.object == object;
    let row = match rows.iter_mut().find(same) {
        Some(row) => row,
        None => {
            let (group, plural) = (group.to_owned(), known.plural.clone());
            rows.push(Row { group, plural, namespaced: known.namespaced, object, verbs: Vec::new() });
            let last = rows.len() - 1;
            &mut rows[last]
        }
    };
    match row.verbs.iter_mut().find(|(verb, _)| *verb == right.verb) {
        Some((_, reasons)) if reasons.contains(&right.because) => {}
        Some((_, reasons)) => reasons.push(right.because),
        None => row.verbs.push((right.verb, vec![right.because])),
    }
    Ok(())
}

/// Written by hand for the sake of its comments; every value is a name of Kubernetes.
fn role(text: &mut String, kind: &str, name: &str, namespace: Option<&str>, rows: &[Row]) {
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name:?}");
    if let Some(namespace) = namespace {
        let _ = writeln!(text, "  namespace: {namespace:?}");
    }
    text.push_str("rules:\n");
    for row in rows {
        let _ = writeln!(text, "  - apiGroups: [{:?}]\n    resources: [{:?}]", row.group, row.plural);
        if let Some(object) = &row.object {
            let _ = writeln!(text, "    resourceNames: [{object:?}]");
        }
        text.push_str("    verbs:\n");
        for (verb, reasons) in &row.verbs {
            let _ = writeln!(text, "      - {verb} # {}", reasons.join("; "));
        }
    }
}
