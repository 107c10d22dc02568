//! Cases of several steps: what is shown where one fails, which mistakes are told, and that time is simulated.

use std::time::{Duration, Instant};

use super::root::{Root, Told};

const FOLDER: &str = "testdata/cases/storage/told";

const SPEC: &str = "service_type: storage\ncapacity: 10Gi\nmetadata:\n  name: data\n";

/// A case with these steps, whose events do not matter.
fn told(steps: &str) -> Told {
    root(steps).test(&[])
}

fn root(steps: &str) -> Root {
    let root = Root::new();
    root.write(&format!("{FOLDER}/case.yaml"), "operation: steps\nexpect: []\n");
    root.write(&format!("{FOLDER}/spec.yaml"), SPEC);
    root.write(&format!("{FOLDER}/steps.yaml"), steps);
    root
}

#[test]
fn each_expectation_that_is_not_met_is_shown_with_its_place() {
    let told = told(
        "- request: { method: POST, path: /volumes?id=example, code: 200, answer: { status: RUNNING, id: example } }
- after: 5s
- expect:
    status: FAILED
    path: [PROVISIONING]
    objects:
      - { kind: v1/PersistentVolume, count: 2 }
- request: { method: GET, path: /volumes/nowhere, answer: { status: 404, code: null } }
",
    );
    let expected = "\
FAIL storage/told
  testdata/cases/storage/told/steps.yaml:1:61: /steps/0/code: the value differs
    expected 200
    found    201
  testdata/cases/storage/told/steps.yaml:1:84: /steps/0/answer/status: the value differs
    expected \"RUNNING\"
    found    \"PROVISIONING\"
  testdata/cases/storage/told/steps.yaml:4:13: /steps/2/status: the value differs
    expected \"FAILED\"
    found    \"RUNNING\"
  testdata/cases/storage/told/steps.yaml:5:11: /steps/2/path: the value differs
    expected [\"PROVISIONING\"]
    found    [\"PROVISIONING\",\"RUNNING\"]
  testdata/cases/storage/told/steps.yaml:7:45: /steps/2/objects/0/count: the value differs
    expected 2
    found    1
1 case: 0 passed, 1 failed, 0 malformed
";
    assert_eq!(told, Told::new(1, expected, ""));
}

#[test]
fn a_step_that_cannot_be_done_fails_the_case_and_ends_it() {
    for (step, why) in [
        ("- delete: { kind: v1/Pod }\n", "there is no such Pod of v1"),
        ("- patch: { kind: v1/Pot, change: {} }\n", "there is no Pot in v1"),
        ("- create: { apiVersion: v1, kind: Pod, metadata: { name: A } }\n", "is invalid"),
        ("- delete: { kind: v1/Pod, labels: '((' }\n", "unable to parse requirement"),
    ] {
        let told = told(&format!("- after: 1s\n{step}- expect: {{ status: RUNNING }}\n"));
        assert_eq!(told.code, 1, "{told}");
        assert!(
            told.out.contains("steps.yaml:2:3: the step is refused: ") && told.out.contains(why),
            "{told}"
        );
        assert!(!told.out.contains("/steps/2"), "{told}");
    }
}

/// Steps, the name of the mistake, and what shows its place or the way out.
const MISTAKES: [(&str, &str, &str); 12] = [
    ("after: 1s\n", "error[wrong-type]", "a list of steps"),
    ("[]\n", "error[malformed-step]", "there is no step"),
    ("- after: 1s\n  expect: { status: RUNNING }\n", "error[malformed-step]", ":1:3\n"),
    ("- after: soon\n", "error[malformed-step]", ":1:10\n"),
    ("- after: 25h\n", "error[malformed-step]", "up to 24h"),
    ("- aftr: 1s\n", "error[unknown-key]", "did you mean `after`?"),
    ("- request: { method: PUT, path: /volumes }\n", "error[unknown-word]", ":1:22\n"),
    ("- request: { method: GET, path: volumes }\n", "error[malformed-step]", "a slash"),
    ("- delete: { kind: Pod }\n", "error[malformed-step]", "write it as v1/Pod"),
    ("- create: { kind: Pod }\n", "error[no-kind]", ":1:11\n"),
    ("- expect: { objects: [{ kind: v1/Pod }] }\n", "error[missing-key]", "`count`"),
    (
        "- stages:\n    - for: v1/Pod\n      stages: [{ name: a, when: objct.status }]\n",
        "error[unknown-variable]",
        "steps.yaml:3:33",
    ),
];

#[test]
fn each_mistake_of_a_step_is_told_at_its_place() {
    for (steps, code, place) in MISTAKES {
        let told = told(steps);
        assert_eq!(told.code, 2, "{steps}{told}");
        assert!(told.out.contains("MALFORMED storage/told\n"), "{told}");
        assert!(told.err.contains(code) && told.err.contains(place), "{steps}{told}");
    }
    let root = root("- after: 1s\n");
    root.remove(&format!("{FOLDER}/steps.yaml"));
    assert!(root.test(&[]).err.contains("error[missing-steps]"));
    root.write(&format!("{FOLDER}/steps.yaml"), "- after: 1s\n");
    assert!(root.test(&[]).out.contains("the case expects nothing"));
    root.write(&format!("{FOLDER}/case.yaml"), "operation: create\n");
    assert!(root.test(&[]).err.contains("error[unused-steps]"));
}

#[test]
fn a_day_passes_in_less_than_a_day() {
    let begin = Instant::now();
    let told = told(
        "- request: { method: POST, path: /volumes?id=example, code: 201 }
- after: 3h
- request: { method: GET, path: /volumes/example, answer: { create_time: \"2026-01-21T10:00:00Z\" } }
- request: { method: POST, path: /volumes?id=late, code: 201, body: { service_type: storage, capacity: 1Gi, metadata: { name: late } }, answer: { create_time: \"2026-01-21T13:00:00Z\" } }
",
    );
    assert_eq!(told, Told::new(0, "1 case: 1 passed, 0 failed, 0 malformed\n", ""));
    assert!(begin.elapsed() < Duration::from_secs(3 * 3600));
}
