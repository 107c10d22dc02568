//! `mapwright test`: the shipped cases, exit codes, what is printed, and what each option promises.

mod page;
mod report;
pub(crate) mod root;
mod steps;
mod watch;

use std::path::Path;

use mapwright::app::Simulator;
use mapwright::cases::{Mappings, Suite};
use mapwright::engine::case::Outcome;

use root::{Root, Told};

/// One case that passes, in a root of its own.
fn small() -> Root {
    let root = Root::new();
    root.write("testdata/cases/storage/small/case.yaml", "operation: create\n");
    root.write("testdata/cases/storage/small/spec.yaml", SPEC);
    root.write("testdata/cases/storage/small/manifests.yaml", MANIFESTS);
    root
}

const SPEC: &str = "service_type: storage\ncapacity: 10Gi\nmetadata:\n  name: data\n";

const MANIFESTS: &str = r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  namespace: example
  labels:
    dcm.project/managed-by: dcm
    dcm.project/dcm-instance-id: example
    dcm.project/dcm-service-type: storage
  annotations:
    mapwright.dcm.project/provider: example-provider
    mapwright.dcm.project/life: "1"
    mapwright.dcm.project/object: claim
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 10Gi}}
"#;

#[test]
fn the_shipped_cases_pass_and_leave_no_way_of_their_mappings_untested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let suite = Suite::open(&mut Mappings::read(root).unwrap(), "", true).unwrap();
    assert!(suite.findings.is_empty(), "{}", suite.findings);
    let simulator = Simulator::default();
    let ran = suite.run(2, &|service, story| simulator.play(service, story));
    assert!(ran.unreadable.is_empty(), "{:?}", ran.unreadable);
    let wrong: Vec<_> = ran.results.iter().filter(|result| result.outcome != Outcome::Passed).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(ran.results.len(), suite.len());
    for name in ["container", "storage"] {
        let prefix = format!("{name}/");
        let own: Vec<_> = ran.results.iter().filter(|result| result.name.starts_with(&prefix)).collect();
        let bad = |file: &str| {
            let refused = file.replace("case.yaml", "problem.json");
            let status = std::fs::read_to_string(root.join(file.replace("case.yaml", "status.yaml")));
            root.join(refused).exists() || status.is_ok_and(|text| text.contains("status: FAILED"))
        };
        let bad = own.iter().filter(|result| bad(&result.file)).count();
        assert!(own.len() >= 100, "{name}: {}", own.len());
        assert!(bad * 3 >= own.len(), "{name}: {bad} of {} are refusals or failures", own.len());
    }
    let unreached: Vec<_> = suite.unreached().into_iter().flat_map(|(_, _, ways)| ways).collect();
    assert!(unreached.is_empty(), "{unreached:#?}");
}

#[test]
fn a_case_that_passes_is_exit_0() {
    let told = small().test(&[]);
    assert_eq!(told, Told::new(0, "1 case: 1 passed, 0 failed, 0 malformed\n", ""));
}

#[test]
fn no_case_found_is_exit_2() {
    let root = Root::new();
    assert_eq!(root.test(&[]).code, 2);
    std::fs::create_dir_all(root.path("testdata/cases")).unwrap();
    let told = root.test(&[]);
    assert_eq!((told.code, told.out.as_str()), (2, ""));
    assert!(told.err.contains("there is no case in"), "{told}");
    let told = small().test(&["--filter", "nowhere"]);
    assert_eq!(told.code, 2);
    assert!(told.err.contains("holds `nowhere`"), "{told}");
}

#[test]
fn a_missing_golden_is_exit_1_and_update_writes_it_once() {
    let root = small();
    root.remove("testdata/cases/storage/small/manifests.yaml");
    let told = root.test(&[]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("small/manifests.yaml: the golden file is missing"), "{told}");
    let told = root.test(&["--update"]);
    assert_eq!(told.code, 0);
    assert!(told.out.starts_with("wrote testdata/cases/storage/small/manifests.yaml\n"), "{told}");
    assert!(
        told.out.contains("  /manifests/claim/spec/accessModes/0: nothing -> \"ReadWriteOnce\"\n"),
        "{told}"
    );
    assert_eq!(root.test(&["--update"]).out, "1 case: 1 passed, 0 failed, 0 malformed\n");
}

#[test]
fn an_unused_golden_is_exit_1_and_update_removes_it() {
    let root = small();
    root.write("testdata/cases/storage/small/view.json", "{}");
    let told = root.test(&[]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("small/view.json: nothing expects view.json"), "{told}");
    let told = root.test(&["--update"]);
    assert!(told.out.starts_with("removed testdata/cases/storage/small/view.json\n"), "{told}");
    assert!(!root.path("testdata/cases/storage/small/view.json").exists());
}

#[test]
fn a_case_that_expects_nothing_is_exit_1() {
    let root = small();
    root.remove("testdata/cases/storage/small/manifests.yaml");
    root.write("testdata/cases/storage/small/case.yaml", "operation: create\nexpect: []\n");
    let told = root.test(&["--update"]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("the case expects nothing"), "{told}");
}

#[test]
fn what_cannot_be_read_is_exit_2_and_named() {
    let spec = "testdata/cases/storage/small/spec.yaml";
    let not_utf8 = small();
    std::fs::write(not_utf8.path(spec), b"capacity: \xff\n").unwrap();
    let folder = small();
    folder.remove(spec);
    std::fs::create_dir(folder.path(spec)).unwrap();
    let dangling = small();
    dangling.remove(spec);
    std::os::unix::fs::symlink("nowhere.yaml", dangling.path(spec)).unwrap();
    for root in [not_utf8, folder, dangling] {
        let told = root.test(&[]);
        assert_eq!(told.code, 2, "{told}");
        assert!(told.err.contains("cannot read") && told.err.contains("small/spec.yaml"), "{told}");
    }
}

const CASE: &str = "storage/small/case.yaml";

/// A file of a case, a text that is put there, and what is said of it: name, place and the way out.
const MISTAKES: [(&str, &str, &str, &str, &str); 16] = [
    (CASE, "operation: create\nreferenses: [a]\n", "error[unknown-key]", ":2:1\n", "`references`"),
    (CASE, "operation: craete\n", "error[unknown-word]", ":1:12\n", "`create`"),
    (CASE, "life: 1\n", "error[missing-key]", ":1:1\n", "`operation`"),
    (CASE, "operation: create\n\tlife: 1\n", "error[tab-in-yaml]", "case.yaml:2:1", ""),
    (CASE, "operation: create\nlife: 0\n", "error[malformed-life]", ":2:7\n", "write 1"),
    (
        CASE,
        "operation: create\nsettings:\n  default_acess_mode: a\n",
        "error[unknown-setting]",
        ":3:3\n",
        "`default_access_mode`",
    ),
    (
        CASE,
        "operation: create\nsettings:\n  default_access_mode: Often\n",
        "error[wrong-setting]",
        ":3:24\n",
        "ReadOnlyMany",
    ),
    (
        CASE,
        "operation: create\nassert:\n  - path: /manifest/claim\n    absent: true\n",
        "error[malformed-assertion]",
        ":3:11\n",
        "/manifests",
    ),
    (
        CASE,
        "operation: create\nassert:\n  - path: /view/id\n",
        "error[malformed-assertion]",
        ":3:5\n",
        "`contains`",
    ),
    (CASE, "operation: update\n", "error[missing-body]", ":1:12\n", "patch.yaml"),
    ("storage/small/objekts.yaml", "", "error[unknown-file]", ":1:1\n", "`objects.yaml`"),
    ("storage/small/spec.json", "{}", "error[file-twice]", "", ""),
    ("storage/small/patch.json", "{}", "error[unused-body]", "", ""),
    ("storage/small/objects.yaml", "- kind: Pod\n", "error[no-kind]", ":1:3\n", ""),
    (
        "storage/small/objects.yaml",
        "- apiVersion: v1\n  kind: Evnt\n",
        "error[unwatched-kind]",
        ":2:9\n",
        "`v1 Event`",
    ),
    ("storage/small/manifests.yaml", "a: [\n", "error[malformed-yaml]", "manifests.yaml:", ""),
];

#[test]
fn each_mistake_of_a_case_is_told_at_its_place() {
    let told = |file: &str, text: &str| {
        let root = small();
        root.write(&format!("testdata/cases/{file}"), text);
        let told = root.test(&[]);
        assert_eq!(told.code, 2, "{told}");
        assert!(told.out.contains("MALFORMED storage/small\n"), "{told}");
        told.err
    };
    for (file, text, code, place, help) in MISTAKES {
        let err = told(file, text);
        assert!(err.contains(code) && err.contains(place) && err.contains(help), "{text}\n{err}");
    }
}

#[test]
fn a_folder_without_a_mapping_or_without_a_case_file_is_no_silent_success() {
    let root = small();
    root.write("testdata/cases/storag/other/case.yaml", "operation: create\n");
    let told = root.test(&[]);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("error[unknown-mapping]") && told.err.contains("`storage`"), "{told}");
    let root = small();
    std::fs::create_dir(root.path("testdata/cases/storage/empty")).unwrap();
    let told = root.test(&[]);
    assert_eq!(told.code, 2);
    assert!(told.err.contains("error[missing-case]"), "{told}");
    let root = small();
    root.replace("mappings/storage/mapping.toml", "not claim", "not claimm");
    let told = root.test(&[]);
    assert_eq!(told.code, 1);
    assert!(told.err.contains("did you mean `claim`?"), "{told}");
}

#[test]
fn each_leaf_that_differs_is_shown_with_its_place_and_both_values() {
    let root = small();
    root.replace("testdata/cases/storage/small/manifests.yaml", "storage: 10Gi", "storage: 11Gi");
    root.replace("testdata/cases/storage/small/manifests.yaml", "  name: data\n", "  name: data\n  uid: x\n");
    let told = root.test(&[]);
    let expected = "\
FAIL storage/small
  testdata/cases/storage/small/manifests.yaml:5:8: /manifests/claim/metadata/uid: the value differs
    expected \"x\"
    found    nothing
  testdata/cases/storage/small/manifests.yaml:17:35: /manifests/claim/spec/resources/requests/storage: the value differs
    expected \"11Gi\"
    found    \"10Gi\"
1 case: 0 passed, 1 failed, 0 malformed
";
    assert_eq!(told, Told::new(1, expected, ""));
}

#[test]
fn an_assertion_that_does_not_hold_is_shown_with_its_place() {
    let root = small();
    root.remove("testdata/cases/storage/small/manifests.yaml");
    let case = "operation: create\nassert:\n  - path: /status/status\n    value: RUNNING\n  - path: /view/id\n    absent: true\n  - path: /status/message\n    contains: bound\n";
    root.write("testdata/cases/storage/small/case.yaml", case);
    let told = root.test(&["--update"]);
    assert_eq!(told.code, 1);
    for text in
        ["case.yaml:3:11: /status/status", "case.yaml:5:11: /view/id", "case.yaml:7:11: /status/message"]
    {
        assert!(told.out.contains(text), "{told}");
    }
    assert!(told.out.contains("expected \"RUNNING\"\n    found    \"PROVISIONING\""), "{told}");
}

#[test]
fn named_golden_files_keep_update_from_turning_a_success_into_a_refusal() {
    let root = small();
    root.write("testdata/cases/storage/small/case.yaml", "operation: create\nexpect: [manifests]\n");
    root.replace("testdata/cases/storage/small/spec.yaml", "10Gi", "ten");
    let told = root.test(&["--update"]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("`manifests` is expected, but the request is refused"), "{told}");
    root.write("testdata/cases/storage/small/case.yaml", "operation: create\n");
    let told = root.test(&["--update"]);
    assert_eq!(told.code, 0, "{told}");
    assert!(root.path("testdata/cases/storage/small/problem.json").exists());
    assert!(!root.path("testdata/cases/storage/small/manifests.yaml").exists());
}

#[test]
fn an_update_prints_each_leaf_that_changes_and_touches_goldens_of_that_mapping_only() {
    let root = Root::shipped();
    root.replace("mappings/storage/claim.yaml", "hints.volume_mode", "hints.volume_mode or 'Filesystem'");
    assert_eq!(root.test(&[]).code, 1);
    let told = root.test(&["--update", "--filter", "a-name-that-reads"]);
    assert_eq!(told.code, 0, "{told}");
    let changes: Vec<&str> = told.out.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(!changes.is_empty());
    for change in changes {
        assert_eq!(change, "  /manifests/claim/spec/volumeMode: nothing -> \"Filesystem\"");
    }
    let wrote: Vec<&str> = told.out.lines().filter_map(|line| line.strip_prefix("wrote ")).collect();
    assert_eq!(wrote.len(), 4, "{told}");
    assert!(wrote.iter().all(|file| file.starts_with("testdata/cases/storage/")), "{told}");
    assert!(told.out.ends_with("\n10 cases: 10 passed, 0 failed, 0 malformed\n"), "{told}");
}

#[test]
fn a_filter_runs_the_cases_whose_name_holds_it() {
    let root = Root::shipped();
    let told = root.test(&["--filter", "storage/a-status-of-"]);
    assert_eq!(told, Told::new(0, "4 cases: 4 passed, 0 failed, 0 malformed\n", ""));
}

#[test]
fn the_output_is_the_same_for_any_number_of_jobs() {
    let root = Root::shipped();
    root.replace("mappings/container/deployment.yaml", "replicas: 1", "replicas: 2");
    root.replace("mappings/storage/mapping.toml", "resizing to", "growing to");
    root.write("testdata/cases/storage/zzz/case.yaml", "operation: nothing\n");
    let one = root.test(&["--jobs", "1", "--coverage"]);
    assert_eq!(one.code, 2);
    assert!(one.out.contains("FAIL container/") && one.out.contains("FAIL storage/"), "{one}");
    for jobs in ["2", "3", "16"] {
        assert_eq!(root.test(&["--jobs", jobs, "--coverage"]), one, "{jobs}");
    }
}

#[test]
fn coverage_names_what_no_case_reaches_and_fails() {
    let root = Root::shipped();
    assert_eq!(root.test(&["--coverage"]).code, 0);
    root.replace(
        "mappings/storage/mapping.toml",
        "[[status.rule]]\nname    = \"lost\"",
        "[[status.rule]]\nname    = \"odd\"\nwhen    = \"claim.metadata.name == 'odd'\"\nstatus  = \"FAILED\"\nmessage = \"odd\"\n\n[[status.rule]]\nname    = \"lost\"",
    );
    root.replace(
        "mappings/storage/claim.yaml",
        "metadata:",
        "metadata:\n  annotations:\n    $if: \"spec.capacity == '7Pi'\"\n    tier: \"yes\"",
    );
    let told = root.test(&["--coverage"]);
    assert_eq!(told.code, 1);
    let unreached: Vec<&str> = told.out.lines().filter(|line| line.contains("never")).collect();
    assert_eq!(unreached.len(), 2, "{told}");
    assert!(
        unreached[0].starts_with("  mappings/storage/claim.yaml:5:") && unreached[0].ends_with("never true")
    );
    assert!(unreached[1].contains("mapping.toml:") && unreached[1].ends_with("the row `odd` never matched"));
    assert_eq!(root.test(&[]).code, 0, "without --coverage it is no matter");
    let told = root.test(&["--coverage", "--filter", "the-smallest-spec"]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("the row `lost` never matched"), "{told}");
}

#[test]
fn a_case_sees_no_more_of_an_object_than_the_provider_keeps() {
    let root = small();
    root.remove("testdata/cases/storage/small/manifests.yaml");
    root.write("testdata/cases/storage/small/case.yaml", "operation: status\n");
    let claim = "- apiVersion: v1\n  kind: PersistentVolumeClaim\n  metadata: {name: data, uid: a}\n  status: {phase: Pending}\n";
    let event = |uid: &str| {
        format!(
            "- apiVersion: v1\n  kind: Event\n  metadata: {{name: e}}\n  involvedObject: {{uid: {uid}}}\n  reason: WaitForFirstConsumer\n"
        )
    };
    for (uid, rule) in [("a", "waiting for the first consumer"), ("b", "being provisioned")] {
        root.write("testdata/cases/storage/small/objects.yaml", &format!("{claim}{}", event(uid)));
        root.test(&["--update"]);
        let status = root.read("testdata/cases/storage/small/status.yaml");
        assert!(status.contains(&format!("rule: {rule}\n")), "{status}");
    }
}

#[test]
fn help_is_printed_with_an_example() {
    let told = root::run(&["test", "--help"]);
    assert_eq!(told.code, 0);
    assert!(told.out.contains("Example: mapwright test") && told.err.is_empty(), "{told}");
    let told = root::run(&["test", "--jobs", "many"]);
    assert_eq!((told.code, told.out.as_str()), (2, ""));
}
