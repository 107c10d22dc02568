//! `mapwright test --report`: each case is a test case, in every format, and what could not be read is an error.

use serde_json::Value;

use super::root::{Root, run};
use crate::check::sarif;

/// One case that passes, one that fails in two leaves, one that is malformed, one that cannot be read.
fn mixed() -> Root {
    let root = super::small();
    let case = |name: &str, file: &str, text: &str| {
        root.write(&format!("testdata/cases/storage/{name}/{file}"), text);
    };
    case("fails", "case.yaml", "operation: create\n");
    case("fails", "spec.yaml", super::SPEC);
    let wrong =
        super::MANIFESTS.replace("storage: 10Gi", "storage: 11Gi").replace("name: data", "name: <odd>");
    case("fails", "manifests.yaml", &wrong);
    case("mistaken", "case.yaml", "operation: craete\n");
    case("unreadable", "case.yaml", "operation: create\n");
    case("unreadable", "spec.yaml/more", "");
    root
}

#[test]
fn every_format_names_each_case_its_diff_and_its_mistakes() {
    let root = mixed();
    let at = |name: &str| root.path(name).display().to_string();
    let targets = ["junit=j.xml", "sarif=s.json", "tap=t.tap", "json=r.json", "github=g.txt"].map(|target| {
        let (format, file) = target.split_once('=').unwrap();
        format!("{format}={}", at(file))
    });
    let mut options: Vec<&str> = targets.iter().flat_map(|target| ["--report", target]).collect();
    let told = root.test(&options);
    assert_eq!(told.code, 2, "{told}");

    let junit = root.read("j.xml");
    assert!(
        junit.contains("<testsuites name=\"mapwright test\" tests=\"4\" failures=\"1\" errors=\"2\">"),
        "{junit}"
    );
    assert!(junit.contains("<testcase classname=\"storage\" name=\"small\"/>"), "{junit}");
    assert!(junit.contains("<failure type=\"value-differs\" message=\"/manifests/claim/metadata/name: the value differs: expected &quot;&lt;odd&gt;&quot;, found &quot;data&quot; (and 1 more)\">"), "{junit}");
    assert!(junit.contains("    expected &quot;11Gi&quot;\n    found    &quot;10Gi&quot;\n"), "{junit}");
    assert!(junit.contains("<error type=\"unknown-word\""), "{junit}");
    assert!(junit.contains("mistaken/case.yaml:1:12"), "{junit}");
    assert!(junit.contains("<error type=\"unreadable-file\""), "{junit}");

    let tap = root.read("t.tap");
    assert!(tap.starts_with("TAP version 14\n1..4\nnot ok 1 - files "), "{tap}");
    assert!(tap.contains("\nok 4 - storage small\n"), "{tap}");
    let json: Value = serde_json::from_str(&root.read("r.json")).unwrap();
    let names: Vec<(&str, bool, bool)> = json["checks"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|check| (check["name"].as_str().unwrap(), check["ok"] == true, check["malformed"] == true))
        .collect();
    assert_eq!(names, [("fails", false, false), ("mistaken", false, true), ("small", true, false)]);
    assert_eq!(json["checks"][1]["findings"][1]["line"], 16);
    let github = root.read("g.txt");
    assert_eq!(github.lines().count(), 4, "{github}");
    assert!(github.contains("fails/manifests.yaml,line=16,col=35,"), "{github}");

    // As GitHub reads it, names of files are below the folder that the command runs in.
    options.clear();
    let here = std::process::Command::new(env!("CARGO_BIN_EXE_mapwright"))
        .args(["test", "--report", "sarif=s.json", "--report", "tap=-"])
        .current_dir(root.path("."))
        .output()
        .unwrap();
    assert!(String::from_utf8(here.stdout).unwrap().contains("1 malformed\nTAP version 14\n"));
    let log: Value = serde_json::from_str(&root.read("s.json")).unwrap();
    sarif(&log, 4);
    assert_eq!(
        log["runs"][0]["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
        "testdata/cases/storage/fails/manifests.yaml"
    );
}

#[test]
fn a_mapping_that_does_not_load_is_an_error_of_its_file() {
    let root = super::small();
    root.replace("mappings/storage/mapping.toml", "not claim", "not claimm");
    let told = root.test(&["--report", "json=-"]);
    assert_eq!(told.code, 1, "{told}");
    let json: Value = serde_json::from_str(told.out.split_once('\n').unwrap().1).unwrap();
    let check = &json["checks"][0];
    assert_eq!((json["total"].as_u64(), check["malformed"].as_bool()), (Some(1), Some(true)));
    assert!(check["name"].as_str().unwrap().ends_with("mappings/storage/mapping.toml"), "{check}");
}

#[test]
fn a_report_that_cannot_be_written_or_is_of_no_format_is_exit_2() {
    let told = super::small().test(&["--report", "junit=no/such/folder.xml"]);
    assert_eq!(told.code, 2);
    assert!(told.err.contains("cannot write no/such/folder.xml"), "{told}");
    let told = run(&["test", "--report", "juint=x"]);
    assert_eq!(told.code, 2);
    assert!(told.err.contains("did you mean `junit`?"), "{told}");
}
