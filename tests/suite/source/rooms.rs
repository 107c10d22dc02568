//! Which room may use what: the engine is pure, cluster and bus know no sibling, only `app` wires.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::rust::{begins_with, paths, product};
use super::{SourceFile, no_complaints, product_files};

/// What the files of a room may not use, and why.
struct Rule {
    /// Beginnings of file names.
    room: &'static [&'static str],
    forbidden: &'static [&'static str],
    why: &'static str,
}

const TRANSPORTS: [&str; 5] = ["kube", "tokio", "warp", "async_nats", "hyper"];

const RULES: &[Rule] = &[
    Rule {
        room: &["src/engine/", "src/ledger", "src/cloudevent.rs", "src/record.rs"],
        forbidden: &TRANSPORTS,
        why: "a pure room talks to nobody",
    },
    Rule {
        room: &["src/engine/", "src/ledger", "src/cloudevent.rs", "src/record.rs"],
        forbidden: &[
            "std::fs",
            "std::env",
            "std::net",
            "std::process",
            "std::thread",
            "std::time::SystemTime",
            "std::time::Instant",
            "SystemTime",
            "Instant",
            "jiff::Timestamp::now",
            "Uuid::new_v4",
        ],
        why: "a pure room has no file, environment, clock or chance: they are arguments",
    },
    Rule {
        room: &["src/cluster/", "src/bus"],
        forbidden: &["crate", "mapwright_engine", "mapwright", "super::super"],
        why: "cluster and bus know no sibling: whoever needs both stands above them",
    },
    // One step up from these two is the crate's root already.
    Rule { room: &["src/cluster/mod.rs", "src/bus.rs"], forbidden: &["super"], why: "as above" },
    Rule {
        room: &["src/"],
        forbidden: &["crate::cli", "mapwright::app", "super::cli"],
        why: "only main starts the command line, and only the command line starts the app",
    },
];

fn complaints(file: &SourceFile, rules: &[Rule]) -> Vec<String> {
    let mut complaints = Vec::new();
    let found = paths(&product(&file.text));
    for rule in rules.iter().filter(|rule| rule.room.iter().any(|room| file.name.starts_with(room))) {
        for (line, path) in &found {
            if rule.forbidden.iter().any(|forbidden| begins_with(path, forbidden)) {
                complaints.push(format!("{}:{line}: uses {path}; {}", file.name, rule.why));
            }
        }
    }
    complaints
}

/// Only the command line may name the wiring.
fn wiring(file: &SourceFile) -> Vec<String> {
    if file.name.starts_with("src/cli/") || file.name == "src/app.rs" {
        return Vec::new();
    }
    let wires = |path: &str| begins_with(path, "crate::app") || begins_with(path, "super::app");
    let found = paths(&product(&file.text)).into_iter().filter(|(_, path)| wires(path));
    found.map(|(line, path)| format!("{}:{line}: uses {path}; only src/cli does", file.name)).collect()
}

#[test]
fn each_room_uses_only_what_it_may() {
    let mut found = Vec::new();
    for file in product_files() {
        found.extend(complaints(&file, RULES));
        found.extend(wiring(&file));
    }
    no_complaints(found);
}

#[test]
fn every_rule_about_rooms_has_files_to_watch() {
    let files = product_files();
    for room in RULES.iter().flat_map(|rule| rule.room) {
        assert!(files.iter().any(|file| file.name.starts_with(room)), "there is no {room} any more");
    }
}

#[test]
fn a_room_that_uses_too_much_is_caught() {
    let bad = |name: &str, text: &str| {
        let file = SourceFile { name: name.to_owned(), text: text.to_owned() };
        complaints(&file, RULES).len() + wiring(&file).len()
    };
    assert_eq!(bad("src/engine/load.rs", "use std::{fs, io};"), 1);
    assert_eq!(bad("src/engine/load.rs", "fn a() { std::time::SystemTime::now(); }"), 1);
    assert_eq!(bad("src/ledger.rs", "use tokio::time::sleep;"), 1);
    assert_eq!(bad("src/cluster/watch.rs", "use crate::engine::service::Service;"), 1);
    assert_eq!(bad("src/cluster/watch.rs", "use super::super::provider::Provider;"), 1);
    assert_eq!(bad("src/bus.rs", "use super::provider::Provider;"), 1);
    assert_eq!(bad("src/provider.rs", "use crate::app::serve;"), 1);
    assert_eq!(bad("src/app.rs", "use crate::cli::run;"), 1);
    assert_eq!(bad("src/engine/load.rs", "// use std::fs;\nuse std::sync::Arc;"), 0);
}

#[test]
fn nothing_in_the_tree_of_the_engine_can_do_io() {
    let tree = dependency_tree("mapwright-engine");
    assert!(tree.contains("minijinja") && tree.contains("jsonschema"), "the tree was not read: {tree:?}");
    let can_do_io = ["kube", "kube-client", "tokio", "warp", "async-nats", "hyper", "reqwest", "mio"];
    let found: Vec<&str> = can_do_io.into_iter().filter(|name| tree.contains(*name)).collect();
    assert!(found.is_empty(), "the engine depends on {found:?}");
    // The same look at the product finds them, so it is able to.
    let product = dependency_tree("mapwright");
    assert!(
        ["kube", "tokio", "warp", "async-nats"].iter().all(|name| product.contains(*name)),
        "{product:?}"
    );
}

/// The names of everything that a package of the workspace is built from.
fn dependency_tree(package: &str) -> BTreeSet<String> {
    let metadata = metadata();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().map(|node| (node["id"].as_str().unwrap(), node)).collect();
    let packages = metadata["packages"].as_array().unwrap();
    let name_of: BTreeMap<&str, &str> = packages
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let mut open: Vec<&str> =
        name_of.iter().filter(|(_, name)| **name == package).map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            // A null kind is a plain dependency; tests and build scripts have others.
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                open.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }
    seen.into_iter().map(|id| name_of[id].to_owned()).collect()
}

/// Of this platform: packages of others have not been fetched by a build.
pub(super) fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(super::root()).args(["metadata", "--format-version", "1", "--offline", "--locked"]);
    command.args(["--filter-platform", &host()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}
