//! A bill of materials of the program, in CycloneDX's form, from what cargo says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::failure::{Context, Failure, Result};

/// The document: the same for the same lock file.
pub fn document(root: &Path) -> Result<Value> {
    let metadata = metadata(root)?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let checksums = checksums(&lock);
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let product = packages.values().find(|package| package["name"] == "mapwright");
    let product = *product.ok_or_else(|| Failure::new("cargo names no package mapwright"))?;
    let used = reachable(product["id"].as_str().unwrap_or_default(), &nodes);
    let known = |id: &&str| packages.get(id).copied();
    let parts: Vec<Value> = used
        .iter()
        .filter_map(known)
        .filter(|package| package["name"] != "mapwright")
        .map(|package| component(package, "library", &checksums))
        .collect();
    let dependencies: Vec<Value> = used
        .iter()
        .filter_map(|id| {
            let below: BTreeSet<String> = dependencies(nodes.get(id)?)
                .filter_map(|id| packages.get(id).map(|package| purl(package)))
                .collect();
            Some(json!({ "ref": purl(packages.get(id)?), "dependsOn": below }))
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": serial(&lock),
        "version": 1,
        "metadata": { "component": component(product, "application", &checksums) },
        "components": parts,
        "dependencies": dependencies,
    }))
}

fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["metadata", "--format-version", "1", "--offline", "--locked"]);
    // A static release is built of the same packages as one of this platform.
    let output = command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).output()?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What goes into the program or builds it; not what tests it.
fn dependencies(node: &Value) -> impl Iterator<Item = &str> {
    list(&node["deps"])
        .filter(|dependency| list(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev"))
        .filter_map(|dependency| dependency["pkg"].as_str())
}

fn reachable<'n>(first: &'n str, nodes: &BTreeMap<&'n str, &'n Value>) -> BTreeSet<&'n str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![first]);
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(nodes.get(id).into_iter().flat_map(|node| dependencies(node)));
        }
    }
    seen
}

/// The SHA-256 of each package's archive, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            Some(((value(package, "name")?, value(package, "version")?), value(package, "checksum")?))
        })
        .collect()
}

fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let mut component = Map::new();
    component.insert("type".to_owned(), kind.into());
    component.insert("bom-ref".to_owned(), purl(package).into());
    component.insert("name".to_owned(), text("name").into());
    component.insert("version".to_owned(), text("version").into());
    if let Some(checksum) = checksums.get(&(text("name"), text("version"))) {
        component.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": checksum }]));
    }
    // An older way to write an alternative.
    let licence = text("license").replace('/', " OR ");
    component.insert("licenses".to_owned(), json!([{ "expression": licence }]));
    component.insert("purl".to_owned(), purl(package).into());
    if let Some(repository) = package["repository"].as_str() {
        let reference = json!([{ "type": "vcs", "url": repository }]);
        component.insert("externalReferences".to_owned(), reference);
    }
    Value::Object(component)
}

/// A UUID of the lock file's bytes, in the form that is made of a digest.
fn serial(lock: &str) -> String {
    let digest = Sha256::digest(lock);
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..]);
    format!("urn:uuid:{a}-{b}-8{c}-8{d}-{e}")
}
