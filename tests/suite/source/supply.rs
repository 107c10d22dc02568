//! What the program is built from is what deny.toml allows, and its bill of materials is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::json;

use super::rooms::metadata;
use super::{no_complaints, root, text};

/// Whether an expression of licences can be met by what is allowed. `AND` binds closer than `OR`.
fn is_met(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, allowed);
    met && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut met = every(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= every(words, at, allowed);
    }
    met
}

fn every(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let met = any(words, at, allowed);
        *at += 1;
        return met;
    }
    if words.get(*at) == Some(&"WITH") {
        let whole = format!("{word} WITH {}", words.get(*at + 1).copied().unwrap_or_default());
        *at += 2;
        return allowed.contains(whole.as_str());
    }
    allowed.contains(word)
}

/// What the workspace is built from, as `name version`: cargo's metadata name features that nobody asks for as well.
fn built() -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["tree", "--workspace", "--edges", "all", "--prefix", "none"]);
    let output = command.args(["--format", "{p}", "--offline", "--locked"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let named = said.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name} {}", rest.split(' ').next()?))
    });
    named.collect()
}

#[test]
fn licences_versions_and_sources_are_those_that_deny_toml_allows() {
    let rules: toml::Table = toml::from_str(&text("deny.toml")).unwrap();
    let allowed: BTreeSet<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
    let skipped: BTreeSet<String> = rules["bans"]["skip"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skip| {
            assert!(skip["reason"].as_str().is_some_and(|reason| reason.len() > 5), "{skip:?} has no reason");
            skip["crate"].as_str().unwrap().to_owned()
        })
        .collect();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let (mut complaints, mut used) = (Vec::new(), BTreeSet::new());
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let built = built();
    assert!(built.len() > 100, "{built:?}");
    for package in packages {
        let part = |name: &str| package[name].as_str().unwrap_or_default();
        if !built.contains(&format!("{} {}", part("name"), part("version"))) {
            continue;
        }
        if !is_met(part("license"), &allowed) {
            complaints.push(format!("{}: the licence {:?} is not allowed", part("name"), part("license")));
        }
        versions.entry(part("name")).or_default().push(part("version"));
    }
    // Ours have no source, and all others come from one registry.
    let sources: BTreeSet<&str> = packages.iter().filter_map(|package| package["source"].as_str()).collect();
    assert!(
        sources.len() == 1 && sources.iter().all(|source| source.starts_with("registry+")),
        "{sources:?}"
    );
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let is_skipped = |version: &&&str| {
            let found = skipped.iter().find(|skip| {
                let (skipped, of) = skip.split_once('@').unwrap();
                skipped == *name && (**version == of || version.starts_with(&format!("{of}.")))
            });
            used.extend(found.cloned());
            found.is_none()
        };
        if versions.iter().filter(is_skipped).count() > 1 {
            complaints.push(format!("{name}: {versions:?}, and deny.toml does not say why"));
        }
    }
    complaints.extend(
        skipped.difference(&used).map(|skip| format!("deny.toml skips {skip}, and there is one version")),
    );
    no_complaints(complaints);
}

#[test]
fn an_expression_of_licences_is_read_as_it_binds() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0 OR MIT AND BSL-1.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn the_bill_of_materials_names_every_package_once() {
    let document = mapwright_testbed::sbom::document(root()).unwrap();
    assert_eq!(document, mapwright_testbed::sbom::document(root()).unwrap());
    // The parts of CycloneDX 1.5 that it uses, as its schema has them.
    let component = json!({ "type": "object", "required": ["type", "name", "version", "bom-ref", "purl", "licenses"],
        "properties": {
            "type": { "enum": ["application", "library"] }, "name": { "type": "string", "minLength": 1 },
            "bom-ref": { "type": "string", "minLength": 1 }, "purl": { "type": "string", "pattern": "^pkg:cargo/[^@ ]+@[^@ ]+$" },
            "licenses": { "type": "array", "minItems": 1, "maxItems": 1, "items": { "type": "object",
                "required": ["expression"], "additionalProperties": false,
                "properties": { "expression": { "type": "string", "pattern": "^[A-Za-z0-9.() +-]+$" } } } },
            "hashes": { "type": "array", "items": { "type": "object", "required": ["alg", "content"], "properties": {
                "alg": { "const": "SHA-256" }, "content": { "type": "string", "pattern": "^[a-f0-9]{64}$" } } } },
        } });
    let form = json!({ "type": "object", "required": ["bomFormat", "specVersion", "components", "dependencies"],
        "properties": {
            "bomFormat": { "const": "CycloneDX" }, "specVersion": { "const": "1.5" }, "version": { "type": "integer", "minimum": 1 },
            "serialNumber": { "type": "string",
                "pattern": "^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" },
            "metadata": { "type": "object", "properties": { "component": component } },
            "components": { "type": "array", "uniqueItems": true, "items": component },
            "dependencies": { "type": "array", "items": { "type": "object", "required": ["ref"], "properties": {
                "ref": { "type": "string" }, "dependsOn": { "type": "array", "uniqueItems": true } } } },
        } });
    let form = jsonschema::validator_for(&form).unwrap();
    let faults: Vec<String> =
        form.iter_errors(&document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    no_complaints(faults);
    let parts = document["components"].as_array().unwrap();
    let references: BTreeSet<&str> = parts.iter().map(|part| part["bom-ref"].as_str().unwrap()).collect();
    assert_eq!(references.len(), parts.len());
    assert!(references.iter().any(|reference| reference.starts_with("pkg:cargo/tokio@")));
    assert!(
        !references.iter().any(|reference| reference.starts_with("pkg:cargo/serde_yaml@")),
        "only tests use it"
    );
    let product = document["metadata"]["component"]["bom-ref"].as_str().unwrap();
    for entry in document["dependencies"].as_array().unwrap() {
        let below = entry["dependsOn"].as_array().unwrap().iter().map(|one| one.as_str().unwrap());
        for reference in below.chain([entry["ref"].as_str().unwrap()]) {
            assert!(references.contains(reference) || reference == product, "{reference}");
        }
    }
}
