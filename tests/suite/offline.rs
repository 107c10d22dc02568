//! The commands that need no cluster: what they print, and how they end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::source::{SourceFile, files, root};

/// A container with a label, an environment and two ports, of which the second is exposed.
pub(crate) fn container() -> Value {
    json!({
        "service_type": "container",
        "metadata": { "name": "web", "labels": { "app": "shop" } },
        "image": { "reference": "registry.example/web:1" },
        "resources": { "cpu": { "min": 1, "max": 2 }, "memory": { "min": "1GB", "max": "2GB" } },
        "process": { "env": [{ "name": "MODE", "value": "yes" }] },
        "network": { "ports": [
            { "container_port": 1, "visibility": "none" },
            { "container_port": 80, "visibility": "external" },
        ] },
    })
}

/// A folder of the test's own, gone with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mapwright-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The shipped mappings and schemas.
    pub(crate) fn with_mappings(self) -> Self {
        for file in mapping_files() {
            self.write(&file.name, &file.text);
        }
        self
    }

    /// Replaces a text that one of its files holds.
    pub(crate) fn change(&self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.0.join(name)).unwrap();
        assert!(text.contains(from), "{name} holds no {from}");
        self.write(name, &text.replace(from, to));
    }
}

/// The shipped mappings and schemas.
pub(crate) fn mapping_files() -> Vec<SourceFile> {
    let parts = [("mappings", ".toml"), ("mappings", ".yaml"), ("schemas", ".json")];
    parts.into_iter().flat_map(|(folder, ending)| files(folder, ending)).collect()
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the product in the root of the repository.
pub(crate) fn mapwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mapwright")).current_dir(root()).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn explain_names_line_expression_and_input_of_a_field_inside_a_loop_through_a_let_and_a_filter() {
    let folder = Folder::new("explain");
    let spec = folder.write("spec.json", &container().to_string());
    let output = mapwright(&["explain", "container", path(&spec), "spec.ports[0].port"]);
    assert_eq!(output.status.code(), Some(0));
    let expected = "  /spec/ports/0/port = 80
      mappings/container/service.yaml:12:17: port.container_port
      from /network/ports/1/container_port
      decided by /network/ports/*/visibility
";
    assert!(text(&output.stdout).ends_with(expected), "{}", text(&output.stdout));
}

#[test]
fn explain_from_tells_what_an_input_reaches_and_that_it_reaches_nothing() {
    let folder = Folder::new("explain-from");
    let spec = folder.write("spec.json", &container().to_string());
    let output = mapwright(&["explain", "container", path(&spec), "--from", "/image/reference"]);
    assert_eq!(output.status.code(), Some(0));
    let fields: Vec<String> =
        text(&output.stdout).lines().filter(|line| line.starts_with("  /")).map(str::to_owned).collect();
    assert_eq!(fields, ["  /spec/template/spec/containers/0/image = \"registry.example/web:1\""]);
    let nothing = mapwright(&["explain", "container", path(&spec), "--from", "/provider_hints"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("no field of an object comes from /provider_hints"));
    assert!(nothing.stdout.is_empty());
    let wrong = |arguments: &[&str]| {
        let given = [&["explain", "container", path(&spec)], arguments].concat();
        text(&mapwright(&given).stderr)
    };
    let meant = wrong(&["--from", "/image/refrence"]);
    assert!(meant.contains("did you mean /image/reference?"), "{meant}");
    let meant = wrong(&["spec.template.spec.containers[0].imge"]);
    assert!(meant.contains("did you mean /spec/template/spec/containers/0/image?"), "{meant}");
}

#[test]
fn what_is_given_on_the_command_line_is_judged_as_a_create_judges_it() {
    let folder = Folder::new("judged");
    let spec = folder.write("spec.json", &container().to_string());
    let objects = folder.write("objects.yaml", "[]");
    let (spec, objects) = (path(&spec), path(&objects));
    for (arguments, words) in [
        (["render", "container", spec, "--id", "Not An Id"], "--id Not An Id: write an RFC 1123 label"),
        (["render", "container", spec, "--namespace", "a.b"], "--namespace a.b: write an RFC 1123 label"),
        (["render", "container", spec, "--lookup", "foo=x"], "--lookup foo=x: "),
    ] {
        let output = mapwright(&arguments);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    let status = ["explain", "container", "--status", objects];
    let output = mapwright(&[&status[..], &["--previous", "RUNING"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `RUNNING`?"), "{}", text(&output.stderr));
    let output = mapwright(&status);
    assert!(text(&output.stderr).contains("no object of a watched kind"), "{}", text(&output.stderr));
}

#[test]
fn explain_hides_the_values_that_come_from_a_secret_setting() {
    let folder = Folder::new("explain-secret").with_mappings();
    let setting = "[settings.crash_loop_status]";
    let secret = format!("[settings.token]\nenv = \"SP_TOKEN\"\nsecret = true\n\n{setting}");
    folder.change("mappings/container/mapping.toml", setting, &secret);
    let name = "          image:";
    folder.change(
        "mappings/container/deployment.yaml",
        name,
        &format!("          workingDir: \"{{{{ settings.token }}}}\"\n{name}"),
    );
    let spec = folder.write("spec.json", &container().to_string());
    let field = "spec.template.spec.containers[0].workingDir";
    let set = ["--root", path(&folder.0), "--setting", "token=hush"];
    let output = mapwright(&[&["explain", "container", path(&spec), field], &set[..]].concat());
    let told = text(&output.stdout);
    assert!(told.contains("workingDir = <secret>") && told.contains("from settings.token"), "{told}");
    assert!(!told.contains("hush") && !text(&output.stderr).contains("hush"));
}

#[test]
fn explain_status_tells_each_row_and_what_it_read() {
    let folder = Folder::new("explain-status");
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-1" },
        "status": { "phase": "Failed", "reason": "Evicted", "message": "short of memory" } });
    let objects = folder.write("objects.json", &json!({ "kind": "List", "items": [pod] }).to_string());
    let output = mapwright(&["explain", "container", "--status", path(&objects)]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(told.starts_with("FAILED: Evicted: short of memory\nby the row `pod failed`\n"), "{told}");
    assert!(told.contains("\nno  gone  (mappings/container/mapping.toml:"), "{told}");
    assert!(told.contains("\nyes pod failed  (") && told.contains("\n      pod.status.phase = \"Failed\"\n"));
    assert!(told.ends_with("\n-   waiting for a pod\n"), "{told}");
}

#[test]
fn a_spec_that_is_refused_ends_with_1_and_its_faults_a_wrong_file_with_2() {
    let folder = Folder::new("render-refused");
    let mut spec = container();
    spec["resources"]["cpu"]["min"] = 4.into();
    let spec = folder.write("spec.json", &spec.to_string());
    for command in ["render", "explain"] {
        let output = mapwright(&[command, "container", path(&spec)]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("/resources/cpu/min: cpu.min (4) must not exceed cpu.max (2)"));
        assert!(output.stdout.is_empty());
        let missing = mapwright(&[command, "container", "no-such-file.yaml"]);
        assert_eq!(missing.status.code(), Some(2));
        let unknown = mapwright(&[command, "contaner", path(&spec)]);
        assert_eq!(unknown.status.code(), Some(2));
        assert!(text(&unknown.stderr).contains("there are: container, storage"));
    }
}

#[test]
fn diff_ends_with_0_for_the_same_1_for_a_difference_and_2_for_an_error() {
    let (old, new) = (Folder::new("diff-old").with_mappings(), Folder::new("diff-new").with_mappings());
    let spec = new.write("spec.json", &container().to_string());
    let run = |specs: &[&str]| mapwright(&[&["diff", path(&old.0), path(&new.0)], specs].concat());
    let same = run(&[path(&spec)]);
    assert_eq!((same.status.code(), text(&same.stdout).as_str()), (Some(0), ""));
    // Without a spec, those that cover the schema are rendered.
    let samples = run(&[]);
    assert_eq!(samples.status.code(), Some(0), "{}", text(&samples.stderr));
    assert!(text(&samples.stderr).contains("specs rendered, 0 differ"));

    new.change("mappings/container/deployment.yaml", "replicas: 1", "replicas: 2");
    new.change(
        "mappings/container/deployment.yaml",
        "          image:",
        "          imagePullPolicy: Always\n          image:",
    );
    let changed = run(&[path(&spec)]);
    assert_eq!(changed.status.code(), Some(1), "{}", text(&changed.stderr));
    let told = text(&changed.stdout);
    assert!(told.contains("      ~ /spec/replicas: 1 -> 2\n"), "{told}");
    let pull = "/spec/template/spec/containers/0/imagePullPolicy";
    assert!(told.contains(&format!("      + {pull}: \"Always\"  (restarts pods)\n")), "{told}");

    new.change("mappings/container/deployment.yaml", "replicas: 2", "replicas: \"{{ spec.nothing }}\"");
    let broken = run(&[path(&spec)]);
    assert_eq!((broken.status.code(), text(&broken.stdout).as_str()), (Some(2), ""));
    assert!(text(&broken.stderr).contains("deployment.yaml:7"), "{}", text(&broken.stderr));
}

#[test]
fn diff_renders_the_specs_of_records_and_where_restarts_come_from_is_data() {
    let (old, new) = (Folder::new("records-old").with_mappings(), Folder::new("records-new").with_mappings());
    let record = json!({ "id": "my-app", "service_type": "container", "provider": "p", "life": 3,
        "state": "ready", "claim": "c", "revision": "r", "create_time": "t", "spec": container(), "plan": [] });
    let map = json!({ "kind": "ConfigMap", "data": { "record.json": record.to_string() } });
    let records = new.write("records.json", &json!({ "kind": "List", "items": [map] }).to_string());
    new.change("mappings/container/deployment.yaml", "replicas: 1", "replicas: 2");
    let marked = "template = \"deployment.yaml\"";
    new.change("mappings/container/mapping.toml", marked, &format!("{marked}\nrestarts = [\"/spec\"]"));
    let output = mapwright(&["diff", path(&old.0), path(&new.0), path(&records)]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(told.contains("records.json: my-app\n"), "{told}");
    assert!(told.contains("~ /spec/replicas: 1 -> 2  (restarts pods)"), "{told}");
}

#[test]
fn shells_and_readers_get_every_command_and_the_version_names_the_commit() {
    let help = text(&mapwright(&["--help"]).stdout);
    let commands = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "));
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 10, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&mapwright(&["completions", shell]).stdout);
        let missing: Vec<&&str> = commands.iter().filter(|command| !script.contains(**command)).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
    let script = mapwright(&["completions", "bash"]).stdout;
    let folder = Folder::new("completions");
    let file = folder.write("mapwright.bash", &text(&script));
    let read = Command::new("bash").arg("-n").arg(file).output().unwrap();
    assert!(read.status.success(), "{}", text(&read.stderr));
    assert_eq!(mapwright(&["completions", "basch"]).status.code(), Some(2));

    let page = text(&mapwright(&["man"]).stdout);
    assert!(page.contains(".TH mapwright 1"), "{page}");
    for command in &commands {
        let page = text(&mapwright(&["man", command]).stdout);
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH NAME"), "{command}: {page}");
    }
    let unknown = mapwright(&["man", "serv"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert_eq!(text(&unknown.stderr), "there is no command `serv`; did you mean `serve`?\n");

    // A build for development says so: it would else be compiled anew at each commit.
    let version = text(&mapwright(&["--version"]).stdout);
    let commit = version.trim().strip_prefix("mapwright 0.1.0 (").and_then(|rest| rest.strip_suffix(')'));
    assert!(
        commit.is_some_and(|commit| commit.bytes().all(|byte| byte.is_ascii_alphanumeric())),
        "{version}"
    );
}
