//! The files of deployment: equal to what the program prints, to each other, and to what a real cluster takes.

mod image;
mod manifests;

use std::path::{Path, PathBuf};

use super::offline::{mapping_files, mapwright, text};
use super::source::{no_complaints, root};

/// Compares a file with what it is made from; `UPDATE_GOLDENS=1` writes it.
fn is_generated(name: &str, expected: &str) -> Option<String> {
    let path = root().join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    (found != expected)
        .then(|| format!("{name} is old: write it anew with UPDATE_GOLDENS=1, and read what changed"))
}

/// The data of a ConfigMap that holds the shipped mappings: a key cannot hold a slash.
fn mappings() -> String {
    let mut data = "data:\n".to_owned();
    for file in mapping_files() {
        let block: String = file
            .text
            .lines()
            .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
            .collect();
        data.push_str(&format!("  {}: |\n{block}", file.name.replace('/', ".")));
    }
    data
}

#[test]
fn roles_and_mappings_of_the_deployments_are_those_of_the_program() {
    let rights = |namespace: &str, name: &str| {
        let printed = mapwright(&["rbac", "--namespace", namespace, "--name", name]);
        assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
        text(&printed.stdout)
    };
    let data = mappings();
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mapwright-mappings\n{data}");
    let complaints = [
        is_generated("deploy/kustomize/rbac.yaml", &rights("dcm", "mapwright")),
        is_generated("deploy/helm/mapwright/files/rbac.yaml", &rights("RELEASE-NAMESPACE", "RELEASE-NAME")),
        is_generated("deploy/kustomize/mappings.yaml", &map),
        is_generated("deploy/helm/mapwright/files/mappings.yaml", &data),
    ];
    no_complaints(complaints.into_iter().flatten().collect());
    let map: serde_json::Value = serde_yaml::from_str(&map).unwrap();
    for file in mapping_files() {
        assert_eq!(map["data"][file.name.replace('/', ".")], file.text, "{}", file.name);
    }
}

/// A program of somebody else's, where it is installed.
fn program(name: &str, places: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = installed.chain(places.iter().cloned()).find(|path| path.is_file());
    if found.is_none() {
        mapwright_testbed::ground::leave_out_tool(name);
    }
    found
}

/// Where .ci/helm puts it.
fn helm() -> Option<PathBuf> {
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let script = super::source::text(".ci/helm");
    let version = script.lines().find_map(|line| line.strip_prefix("version=")).unwrap();
    program("helm", &[home.join(format!("mapwright/helm/{version}/helm"))])
}
