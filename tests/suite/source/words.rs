//! No file of the product knows a service type, a kind of Kubernetes or a condition by name.

use std::collections::BTreeMap;

use super::rust::{Kind, product};
use super::{SourceFile, files, no_complaints, product_files};

/// Kinds that mappings may name one day, beside those that they name today.
const WELL_KNOWN_KINDS: &[&str] = &[
    "Pod",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "Service",
    "Endpoints",
    "EndpointSlice",
    "Ingress",
    "NetworkPolicy",
    "ConfigMap",
    "Secret",
    "Namespace",
    "Node",
    "Event",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "VolumeSnapshot",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Lease",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "CustomResourceDefinition",
    "PriorityClass",
    "DeleteOptions",
    "ExecCredential",
];

/// Types and reasons of conditions, phases, and reasons of waiting, as Kubernetes writes them.
const WELL_KNOWN_CONDITIONS: &[&str] = &[
    "Available",
    "Progressing",
    "ReplicaFailure",
    "Ready",
    "ContainersReady",
    "Initialized",
    "PodScheduled",
    "Complete",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
    "ImagePullBackOff",
    "ErrImagePull",
    "CrashLoopBackOff",
    "OOMKilled",
    "Evicted",
    "NodeLost",
    "Unschedulable",
    "ProgressDeadlineExceeded",
    "FailedCreate",
    "FailedScheduling",
    "ProvisioningFailed",
    "WaitForFirstConsumer",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Bound",
    "Lost",
    "Released",
];

/// A word that stands in the source all the same: the word, where, and why that is right.
struct Exception {
    word: &'static str,
    /// The beginning of a file's name.
    at: &'static str,
    why: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    // Protocols of our own.
    Exception { word: "ConfigMap", at: "src/cluster/record.rs", why: "a record is kept in one" },
    Exception { word: "Namespace", at: "src/cluster/objects.rs", why: "its uid tells clusters apart" },
    Exception {
        word: "namespaces",
        at: "src/cluster/missing.rs",
        why: "the segment that parts a path in two",
    },
    Exception { word: "Lease", at: "src/", why: "of several replicas the one that holds it speaks" },
    Exception { word: "lease", at: "src/", why: "a variable that holds one" },
    // Protocols of Kubernetes.
    Exception { word: "DELETED", at: "src/cluster/feed.rs", why: "the word of a watch for an object's end" },
    Exception {
        word: "resourcequotas",
        at: "src/cluster/refusal.rs",
        why: "the API server's refusal names it",
    },
    Exception { word: "DeleteOptions", at: "src/cluster/objects.rs", why: "the body of a deletion" },
    Exception {
        word: "ExecCredential",
        at: "src/cluster/credential.rs",
        why: "what a sign-in plugin answers",
    },
    Exception { word: "namespace", at: "src/", why: "a member of the metadata of every object" },
    // Words of ours, or of a library, that mean something else.
    Exception { word: "Service", at: "src/", why: "a mapping, compiled; hyper's and kube's word as well" },
    Exception { word: "service", at: "src/", why: "a variable that holds a compiled mapping" },
    Exception { word: "jobs", at: "src/cases.rs", why: "how many cases run at a time" },
    Exception { word: "jobs", at: "src/cli/test.rs", why: "the option that says so" },
    Exception { word: "services", at: "src/", why: "several of them" },
    Exception { word: "Secret", at: "src/", why: "a text of the settings that no log shows" },
    Exception { word: "secret", at: "src/", why: "the form of such a text" },
    Exception { word: "Event", at: "src/engine/read/yaml.rs", why: "of the YAML parser" },
    Exception { word: "Event", at: "src/bus.rs", why: "of the NATS client" },
    Exception { word: "event", at: "src/", why: "what we publish, or what a parser or watch tells" },
    Exception { word: "events", at: "src/", why: "several of them" },
    Exception { word: "Node", at: "src/engine/template", why: "of a template's tree" },
    Exception { word: "node", at: "src/", why: "of a tree" },
    Exception { word: "nodes", at: "src/engine/template", why: "of a template's tree" },
    Exception { word: "Role", at: "src/cli/rbac.rs", why: "the document that it prints" },
    Exception { word: "ClusterRole", at: "src/cli/rbac.rs", why: "the document that it prints" },
    Exception { word: "role", at: "src/cli/rbac.rs", why: "a variable that holds one" },
    Exception { word: "roles", at: "src/cli/rbac.rs", why: "several of them" },
    Exception { word: "ConfigMap", at: "src/cluster/rights.rs", why: "the rights that records need" },
    Exception {
        word: "Namespace",
        at: "src/cluster/rights.rs",
        why: "the right that the ledger's scope needs",
    },
    Exception { word: "secrets", at: "src/engine/explain.rs", why: "texts that are not shown" },
    Exception {
        word: "CrashLoopBackOff",
        at: "src/engine/infer/tests.rs",
        why: "the example of a unit test",
    },
    Exception { word: "storage", at: "src/bus/ledger_store.rs", why: "a disk that refuses" },
];

/// Words and where they come from: kinds and types are looked for as identifiers too.
struct Words {
    everywhere: BTreeMap<String, String>,
    in_texts: BTreeMap<String, String>,
}

impl Words {
    fn new() -> Self {
        Self { everywhere: BTreeMap::new(), in_texts: BTreeMap::new() }
    }

    fn kind(&mut self, kind: &str, from: &str) {
        for word in [kind.to_owned(), kind.to_lowercase(), plural(kind)] {
            self.everywhere.entry(word).or_insert_with(|| from.to_owned());
        }
    }

    fn add(&mut self, word: &str, from: &str) {
        self.everywhere.entry(word.to_owned()).or_insert_with(|| from.to_owned());
    }

    fn text(&mut self, word: &str, from: &str) {
        self.in_texts.entry(word.to_owned()).or_insert_with(|| from.to_owned());
    }

    /// Everything that the mappings of this repository name, and what is well known.
    fn of_mappings() -> Self {
        let mut words = Self::new();
        WELL_KNOWN_KINDS.iter().for_each(|kind| words.kind(kind, "a kind of Kubernetes"));
        WELL_KNOWN_CONDITIONS.iter().for_each(|word| words.text(word, "a condition, phase or reason"));
        let mappings = files("mappings", "mapping.toml");
        assert!(mappings.len() >= 2, "the mappings were not found");
        mappings.iter().for_each(|file| words.mapping(file));
        for template in files("mappings", ".yaml") {
            let kinds = template.text.lines().filter_map(|line| line.strip_prefix("kind: "));
            kinds.for_each(|kind| words.kind(kind.trim(), &template.name));
        }
        words
    }

    fn mapping(&mut self, file: &SourceFile) {
        let table: toml::Table = toml::from_str(&file.text).unwrap();
        for key in ["service_type", "collection", "list_key"] {
            let word = table.get(key).and_then(toml::Value::as_str);
            word.into_iter().for_each(|word| self.add(word, &file.name));
        }
        for key in ["watch", "lookup"] {
            let tables = table.get(key).and_then(toml::Value::as_array);
            for kind in tables.into_iter().flatten().filter_map(|table| table["kind"].as_str()) {
                self.kind(kind, &file.name);
            }
        }
        for value in table["status"]["values"].as_array().unwrap() {
            self.add(value.as_str().unwrap(), &file.name);
        }
        // What an expression compares with: 'ReplicaFailure', but not 'True' or 'pod'.
        for word in file.text.split('\'').skip(1).step_by(2).filter(|word| is_camel_case(word)) {
            self.text(word, &file.name);
        }
    }

    fn found_in(&self, file: &SourceFile) -> Vec<(usize, String, String)> {
        let mut found = Vec::new();
        for token in product(&file.text) {
            let (word, from) = match token.kind {
                Kind::Word(word) => (word.clone(), self.everywhere.get(&word)),
                Kind::Text(text) => (text.clone(), self.everywhere.get(&text).or(self.in_texts.get(&text))),
                Kind::Mark(_) => continue,
            };
            found.extend(from.map(|from| (token.line, word, from.clone())));
        }
        found
    }
}

fn is_camel_case(word: &str) -> bool {
    let capitals = word.chars().filter(char::is_ascii_uppercase).count();
    word.chars().all(|c| c.is_ascii_alphabetic())
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && (2..word.len()).contains(&capitals)
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with("ss") => format!("{lower}es"),
        None if lower.ends_with('s') => lower,
        None => format!("{lower}s"),
    }
}

fn excepted<'e>(exceptions: &'e [Exception], file: &str, word: &str) -> Option<&'e Exception> {
    exceptions.iter().find(|exception| exception.word == word && file.starts_with(exception.at))
}

fn complaints(words: &Words, file: &SourceFile, exceptions: &[Exception]) -> Vec<String> {
    let found = words.found_in(file).into_iter();
    let found = found.filter(|(_, word, _)| excepted(exceptions, &file.name, word).is_none());
    let way_out = "let the mapping say it, or add it to the exceptions with a reason";
    found
        .map(|(line, word, from)| format!("{}:{line}: names `{word}` (from {from}); {way_out}", file.name))
        .collect()
}

#[test]
fn the_source_names_no_service_type_no_kind_and_no_condition() {
    let words = Words::of_mappings();
    // The sandbox pretends to be Kubernetes, so it is the one room that speaks of its kinds.
    let files: Vec<SourceFile> =
        product_files().into_iter().filter(|file| !file.name.starts_with("src/sandbox")).collect();
    no_complaints(files.iter().flat_map(|file| complaints(&words, file, EXCEPTIONS)).collect());
}

#[test]
fn every_exception_is_needed_and_has_a_reason() {
    let words = Words::of_mappings();
    let files = product_files();
    for exception in EXCEPTIONS {
        let mut inside = files.iter().filter(|file| file.name.starts_with(exception.at));
        let used = inside.any(|file| words.found_in(file).iter().any(|(_, word, _)| word == exception.word));
        assert!(used, "`{}` does not stand in {} any more: remove it", exception.word, exception.at);
        assert!(exception.why.len() > 8, "`{}` needs a reason", exception.word);
    }
}

#[test]
fn a_word_of_a_mapping_in_the_source_is_caught() {
    let words = Words::of_mappings();
    let count = |text: &str| {
        let file = SourceFile { name: "src/provider.rs".to_owned(), text: text.to_owned() };
        complaints(&words, &file, EXCEPTIONS).len()
    };
    assert_eq!(count("let a = \"Deployment\";"), 1);
    assert_eq!(count("struct PersistentVolumeClaim;"), 1);
    assert_eq!(count("fn persistentvolumeclaims() {}"), 1);
    assert_eq!(count("if kind == \"containers\" {}"), 1);
    assert_eq!(count("status == \"RUNNING\""), 1);
    assert_eq!(count("reason == \"ReplicaFailure\""), 1);
    assert_eq!(count("// Deployment\nlet running = \"a Deployment is running\";"), 0);
}
