//! `mapwright check` and `mapwright schema` as programs: what they print where, and how they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mapwright::engine::describe;
use serde_json::Value;

use super::broken::{base, root};

/// A folder of its own for a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// With the sound mapping `web`.
    fn sound(name: &str) -> Self {
        let folder = Self::new(name);
        for (path, text) in base() {
            folder.write(&path, &text);
        }
        folder
    }

    /// With a mapping that has a mistake in each of its three files.
    fn broken(name: &str) -> Self {
        let folder = Self::sound(name);
        folder.change("mappings/web/mapping.toml", "\"CREATE\"", "\"CRAETE\"");
        folder.change("mappings/web/deployment.yaml", "spec.image", "spec.imgae");
        folder.change("schemas/web.json", "\"maxLength\": 63", "\"maxlenght\": 63");
        folder
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn change(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.join(path)).unwrap();
        assert!(text.contains(from));
        self.write(path, &text.replacen(from, to, 1));
    }

    fn check(&self, arguments: &[&str]) -> Output {
        mapwright(&self.0, &[&["check"], arguments].concat())
    }
}

fn mapwright(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mapwright")).args(arguments).current_dir(folder).output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_sound_mapping_is_said_so_on_standard_output() {
    let ran = Folder::sound("sound").check(&[]);
    assert_eq!(ran.status.code(), Some(0), "{}", err(&ran));
    assert!(
        out(&ran).starts_with("web: revision ") && out(&ran).contains(", no mistakes ("),
        "{}",
        out(&ran)
    );
    assert_eq!(err(&ran), "");
}

#[test]
fn the_shipped_mappings_have_no_mistakes() {
    let ran = mapwright(root(), &["check"]);
    assert_eq!((ran.status.code(), err(&ran)), (Some(0), ""));
}

#[test]
fn all_mistakes_of_a_folder_come_in_one_run_with_a_way_out_and_without_colour() {
    let ran = Folder::broken("several").check(&[]);
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(out(&ran), "");
    for place in
        ["mappings/web/mapping.toml:6:20", "mappings/web/deployment.yaml:15:27", "schemas/web.json:11:27"]
    {
        assert!(err(&ran).contains(&format!("--> {place}\n")), "{place} is not in\n{}", err(&ran));
    }
    for word in ["CREATE", "image", "maxLength"] {
        assert!(err(&ran).contains(&format!("did you mean `{word}`?")), "{}", err(&ran));
    }
    assert!(err(&ran).ends_with("3 mistakes; docs/errors/ has a page for each name in brackets\n"));
    assert!(!err(&ran).contains('\x1b'));
}

#[test]
fn a_mistake_of_one_mapping_does_not_hide_those_of_another() {
    let folder = Folder::broken("two-types");
    for (path, text) in base() {
        folder.write(&path.replace("/web/", "/shop/").replace("schemas/web", "schemas/shop"), &text);
    }
    folder.change("mappings/shop/mapping.toml", "not deployment", "not deploymnet");
    let ran = folder.check(&[]);
    assert!(
        err(&ran).contains("mappings/shop/mapping.toml:24:16")
            && err(&ran).contains("mappings/web/mapping.toml:6:20")
    );
}

#[test]
fn where_nothing_is_checked_the_exit_code_is_2_and_standard_error_says_why() {
    let empty = Folder::new("empty");
    empty.write("schemas/web.json", "{}");
    empty.write("mappings/README.md", "nothing yet");
    let readme = Folder::new("readme");
    readme.write("schemas/web.json", "{}");
    readme.write("mappings/web/README.md", "nothing yet");
    let text = Folder::sound("not-text");
    fs::write(text.0.join("mappings/web/deployment.yaml"), b"kind: \xff\xfe").unwrap();
    for (ran, words) in [
        (empty.check(&[]), "there is no mapping in"),
        (readme.check(&[]), "there is no mapping in"),
        (empty.check(&["nowhere"]), "cannot read nowhere/mappings"),
        (empty.check(&["schemas/web.json"]), "cannot read schemas/web.json/mappings"),
        (text.check(&[]), "cannot read ./mappings/web/deployment.yaml"),
        (empty.check(&["--no-such-option"]), "unexpected argument"),
        (empty.check(&["--report", "juint=x"]), "did you mean `junit`?"),
        (empty.check(&["--report", "junit"]), "expected FORMAT=FILE"),
    ] {
        assert_eq!(ran.status.code(), Some(2), "{words}: {}", err(&ran));
        assert!(err(&ran).contains(words), "{words}: {}", err(&ran));
        assert_eq!(out(&ran), "");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_no_success() {
    let ran = Folder::sound("no-report").check(&["--report", "json=no/such/folder.json"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(err(&ran).starts_with("cannot write no/such/folder.json: "), "{}", err(&ran));
}

#[test]
fn help_shows_an_example_for_each_command() {
    for command in
        ["serve", "check", "render", "explain", "diff", "rbac", "test", "init", "openapi", "schema"]
    {
        let ran = mapwright(root(), &[command, "--help"]);
        assert_eq!(ran.status.code(), Some(0));
        assert!(out(&ran).contains(&format!("Example: mapwright {command}")), "{}", out(&ran));
    }
}

#[test]
fn every_format_is_written_in_one_run_and_says_the_same() {
    let folder = Folder::broken("reports");
    let names = ["junit=j.xml", "sarif=s.json", "tap=t.tap", "json=r.json", "github=-"];
    let ran = folder.check(&names.iter().flat_map(|name| ["--report", name]).collect::<Vec<_>>());
    assert_eq!(ran.status.code(), Some(1));
    let read = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap();
    assert!(read("j.xml").starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"mapwright check\" tests=\"3\" failures=\"3\" errors=\"0\">"));
    assert!(read("j.xml").contains("<failure type=\"unknown-path\" message=\"`spec.imgae` does not exist"));
    assert!(
        read("t.tap")
            .starts_with("TAP version 14\n1..3\nnot ok 1 - web mappings/web/deployment.yaml\n  ---\n")
    );
    let notes: Vec<&str> = out(&ran).lines().collect();
    assert_eq!(notes.len(), 3);
    assert!(notes[0].starts_with(
        "::error file=mappings/web/deployment.yaml,line=15,col=27,endColumn=32,title=unknown-path::`spec.imgae`"
    ));
    assert!(notes[0].ends_with("%0Adid you mean `image`?"), "{}", notes[0]);
    let json: Value = serde_json::from_str(&read("r.json")).unwrap();
    assert_eq!((json["total"].as_u64(), json["failed"].as_u64()), (Some(3), Some(3)));
    assert_eq!(json["checks"][0]["findings"][0]["fix"]["added"][0], "          image: \"{{ spec.image }}\"");
    sarif(&serde_json::from_str(&read("s.json")).unwrap(), 3);
}

#[test]
fn a_sound_mapping_has_its_checks_in_every_report() {
    let folder = Folder::sound("sound-reports");
    let ran = folder.check(&["--report", "sarif=s.json", "--report", "junit=j.xml", "--report", "tap=-"]);
    assert_eq!(ran.status.code(), Some(0));
    assert!(
        out(&ran).ends_with(
            "1..2\nok 1 - web mappings/web/deployment.yaml\nok 2 - web mappings/web/mapping.toml\n"
        )
    );
    let junit = fs::read_to_string(folder.0.join("j.xml")).unwrap();
    assert!(junit.contains("<testcase classname=\"web\" name=\"mappings/web/mapping.toml\"/>"), "{junit}");
    sarif(&serde_json::from_str(&fs::read_to_string(folder.0.join("s.json")).unwrap()).unwrap(), 0);
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// What SARIF 2.1.0 demands of the members that are written, by hand: its schema may not be copied here.
pub(crate) fn sarif(log: &Value, count: usize) {
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(keys(log), ["$schema", "version", "runs"]);
    let run = &log["runs"][0];
    assert_eq!(keys(run), ["tool", "columnKind", "results"]);
    assert!(["utf16CodeUnits", "unicodeCodePoints"].contains(&run["columnKind"].as_str().unwrap()));
    let driver = &run["tool"]["driver"];
    assert!(driver["name"].is_string() && driver["semanticVersion"].is_string());
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        assert!(
            rule["id"].is_string()
                && rule["help"]["text"].is_string()
                && rule["shortDescription"]["text"].is_string()
        );
    }
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), count);
    for result in results {
        assert_eq!(
            rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()]["id"],
            result["ruleId"]
        );
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.starts_with('/') && !uri.contains([' ', '\\', ':']), "{uri}");
        let number = |key: &str| place["region"][key].as_u64().unwrap();
        assert!(
            number("startLine") >= 1
                && number("startColumn") >= 1
                && number("endColumn") > number("startColumn")
        );
        for fix in result["fixes"].as_array().into_iter().flatten() {
            let change = &fix["artifactChanges"][0];
            assert!(fix["description"]["text"].is_string() && change["artifactLocation"]["uri"].is_string());
            let replacement = &change["replacements"][0];
            assert!(replacement["deletedRegion"]["startLine"].as_u64().is_some_and(|line| line >= 1));
            assert!(replacement["insertedContent"]["text"].is_string());
        }
    }
}

#[test]
fn text_from_files_cannot_break_a_report() {
    let folder = Folder::sound("hostile");
    let odd = "\"<&>'::error%0A,\u{e9}\u{1f600}\"";
    folder.change("mappings/web/mapping.toml", "\"CREATE\"", odd);
    let ran = folder.check(&["--report", "junit=j.xml", "--report", "github=-", "--report", "json=r.json"]);
    assert_eq!(ran.status.code(), Some(1));
    let junit = fs::read_to_string(folder.0.join("j.xml")).unwrap();
    assert!(junit.contains("&lt;&amp;&gt;") && !junit.contains("<&>"), "{junit}");
    assert_eq!(out(&ran).lines().count(), 1, "{}", out(&ran));
    assert!(out(&ran).contains("%250A"), "{}", out(&ran));
    let json: Value = serde_json::from_str(&fs::read_to_string(folder.0.join("r.json")).unwrap()).unwrap();
    assert_eq!(json["checks"][1]["findings"][0]["width"], 19);
}

// === schema ===

fn tree(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    match path.extension().is_some_and(|ending| ending == "toml") {
        true => toml::from_str(&text).unwrap(),
        false => serde_yaml::from_str(&text).unwrap(),
    }
}

fn shipped() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in fs::read_dir(root().join("mappings")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            files.push(file.unwrap().path());
        }
    }
    files.retain(|path| path.extension().is_none_or(|ending| ending != "md"));
    files.push(root().join("testdata/broken/_base/mappings/web/mapping.toml"));
    files.push(root().join("testdata/broken/_base/mappings/web/deployment.yaml"));
    files
}

#[test]
fn the_shipped_files_are_what_their_schemas_describe() {
    for path in shipped() {
        let mapping = path.file_stem().is_some_and(|name| name == "mapping");
        let schema = if mapping { describe::mapping() } else { describe::template() };
        let validator = jsonschema::validator_for(&schema).unwrap();
        let document = tree(&path);
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{}: {faults:?}", path.display());
    }
}

#[test]
fn the_schema_of_mappings_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&describe::mapping()).unwrap();
    let sound = tree(&root().join("testdata/broken/_base/mappings/web/mapping.toml"));
    for (pointer, value) in [
        ("/format", Value::from("mapwright/v2")),
        ("/operations/0", Value::from("CRAETE")),
        ("/object", Value::from("deployment")),
        ("/watch/0/kind", Value::from(7)),
        ("/status/rule/0", serde_json::json!({ "wehn": "true" })),
    ] {
        let mut broken = sound.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&broken), "{pointer}");
    }
    assert!(validator.is_valid(&sound));
}

#[test]
fn every_key_of_a_mapping_that_is_not_plain_has_a_description() {
    let schema = describe::mapping();
    let mapping = &schema["definitions"]["Mapping"]["properties"];
    for (key, property) in mapping.as_object().unwrap() {
        assert!(
            property["description"].as_str().is_some_and(|text| text.ends_with('.')),
            "{key}: {property}"
        );
    }
}

#[test]
fn each_schema_is_printed_as_json_and_an_unknown_one_is_refused() {
    for document in ["mapping", "template", "case", "steps", "provider"] {
        let ran = mapwright(root(), &["schema", document]);
        assert_eq!((ran.status.code(), err(&ran)), (Some(0), ""));
        let schema: Value = serde_json::from_str(out(&ran)).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{document}");
        assert!(schema["title"].is_string());
    }
    assert_eq!(out(&mapwright(root(), &["schema"])), out(&mapwright(root(), &["schema", "mapping"])));
    let ran = mapwright(root(), &["schema", "maping"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(err(&ran).contains("'mapping'"), "{}", err(&ran));
}

#[test]
fn the_page_on_editors_names_every_schema() {
    let page = fs::read_to_string(root().join("docs/editors.md")).unwrap();
    for document in ["mapping", "template", "case", "steps", "provider"] {
        assert!(page.contains(&format!("mapwright schema {document} > ")), "{document}");
    }
    assert!(page.contains("#:schema ") && page.contains("# yaml-language-server: $schema="));
}
