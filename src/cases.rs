//! A suite of cases: reads their folders, runs them side by side, and writes golden files anew.
//!
//! What a case means is the engine's; this room knows files and threads only.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::cluster::Prune;
use crate::engine::case::{
    Case, CaseFolder, CaseResult, Defaults, Judgement, Outcome, Played, Rewrite, Story,
};
use crate::engine::coverage::{Trace, Unreached};
use crate::engine::diagnostic::{Findings, suggestion};
use crate::engine::kinds::Kinds;
use crate::engine::service::{Files, Service, WatchRule};
use crate::engine::source::Source;
use crate::files::{MappingRoot, Unreadable, entries};
use crate::kinds;
use crate::provider::prune;

/// Where the cases of a mapping root are, below it.
pub const CASES: &str = "testdata/cases";

/// What a type shares with all of its cases.
const DEFAULTS: &str = "defaults.yaml";

/// The mappings of a root, each compiled when a suite first needs it: while only cases change, the next suite
/// takes it as it is.
#[derive(Debug)]
pub struct Mappings {
    root: PathBuf,
    files: Files,
    types: Vec<String>,
    kinds: Kinds,
    findings: Findings,
    compiled: BTreeMap<String, Result<Arc<Service>, Findings>>,
}

impl Mappings {
    pub fn read(root: &Path) -> Result<Self, Unreadable> {
        let mapping_root = MappingRoot::at(root);
        let (files, types) = (mapping_root.read()?, mapping_root.types()?);
        let mut findings = Findings::default();
        let kinds = kinds::of(&files, &mut findings);
        Ok(Self { root: root.to_owned(), files, types, kinds, findings, compiled: BTreeMap::new() })
    }

    fn service(&mut self, name: &str) -> Result<Arc<Service>, Findings> {
        let compiled = self.compiled.entry(name.to_owned());
        compiled.or_insert_with(|| Service::load(&self.files, name, &self.kinds).map(Arc::new)).clone()
    }
}

/// The cases of a root, and the mappings that they test.
#[derive(Debug)]
pub struct Suite {
    root: PathBuf,
    tested: Vec<Tested>,
    cases: Vec<(usize, String)>,
    /// Mistakes of mappings and of shared files: their cases do not run.
    pub findings: Findings,
    pub unreadable: Vec<Unreadable>,
}

/// One mapping, compiled once for all of its cases.
#[derive(Debug)]
struct Tested {
    name: String,
    service: Arc<Service>,
    defaults: Defaults,
    kept: BTreeMap<String, Prune>,
    trace: Option<Arc<Trace>>,
}

/// Who plays the cases of several steps: that takes the whole product, which is not for this room to wire.
pub type Play<'p> = &'p (dyn Fn(&Arc<Service>, &Story<'_>) -> Result<Played, Findings> + Sync);

/// What came of a suite, in the order of the cases' names however many threads there were.
#[derive(Debug, Default)]
pub struct Run {
    pub results: Vec<CaseResult>,
    pub rewrites: Vec<Rewrite>,
    pub unreadable: Vec<Unreadable>,
}

impl Run {
    pub fn count(&self, outcome: Outcome) -> usize {
        self.results.iter().filter(|result| result.outcome == outcome).count()
    }
}

impl Suite {
    /// Finds the cases whose name holds `filter`, with their mappings.
    pub fn open(mappings: &mut Mappings, filter: &str, coverage: bool) -> Result<Self, Unreadable> {
        let root = mappings.root.clone();
        let mut suite = Self {
            root: root.clone(),
            tested: Vec::new(),
            cases: Vec::new(),
            findings: mappings.findings.clone(),
            unreadable: Vec::new(),
        };
        for folder in folders(&root.join(CASES))? {
            let name = name_of(&folder);
            let cases = folders(&folder)?.into_iter().map(|case| format!("{name}/{}", name_of(&case)));
            let cases: Vec<String> = cases.filter(|case| case.contains(filter)).collect();
            if cases.is_empty() {
                continue;
            }
            if !mappings.types.contains(&name) {
                suite.unknown_type(&name, &mappings.types);
                continue;
            }
            match mappings.service(&name) {
                Ok(service) => suite.add(name, service, cases, coverage),
                Err(findings) => suite.findings.append(findings),
            }
        }
        Ok(suite)
    }

    /// How many cases there are to run.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Runs every case, on so many threads.
    pub fn run(&self, jobs: usize, play: Play<'_>) -> Run {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(case) = self.cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((case, self.judge(case, play)));
            }
            done
        };
        let mut done = std::thread::scope(|scope| {
            let others: Vec<_> = (1..jobs.min(self.cases.len())).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for other in others {
                // A thread that panicked has said so; its cases are missing from the count.
                done.extend(other.join().unwrap_or_default());
            }
            done
        });
        done.sort_by_key(|(case, _)| *case);
        let mut run = Run::default();
        for (_, judged) in done {
            match judged {
                Ok(Judgement { result, rewrites }) => {
                    run.results.push(result);
                    run.rewrites.extend(rewrites);
                }
                Err(unreadable) => run.unreadable.push(unreadable),
            }
        }
        run
    }

    /// What no case has reached, by type. Empty unless the suite was opened for coverage.
    pub fn unreached(&self) -> Vec<(&str, usize, Vec<Unreached>)> {
        let traced = self.tested.iter().filter_map(|tested| Some((tested, tested.trace.as_ref()?)));
        traced
            .map(|(tested, trace)| {
                (tested.name.as_str(), tested.service.ways(), tested.service.unreached(trace))
            })
            .collect()
    }

    /// Writes golden files as the mappings have it now.
    pub fn write(&self, rewrites: &[Rewrite]) -> Result<(), Unreadable> {
        for rewrite in rewrites {
            let path = self.root.join(&rewrite.file);
            let written = match &rewrite.text {
                Some(text) => fs::write(&path, text),
                None => fs::remove_file(&path),
            };
            written.map_err(|error| Unreadable { path, error })?;
        }
        Ok(())
    }

    fn add(&mut self, name: String, service: Arc<Service>, cases: Vec<String>, coverage: bool) {
        let defaults = match self.defaults(&name, &service) {
            Ok(Some(defaults)) => defaults,
            Ok(None) => return,
            Err(unreadable) => return self.unreadable.push(unreadable),
        };
        let kept = service.watches.iter().map(|watch| (watch.name.clone(), prune(watch))).collect();
        let trace = coverage.then(|| Arc::new(Trace::default()));
        let index = self.tested.len();
        self.tested.push(Tested { name, service, defaults, kept, trace });
        self.cases.extend(cases.into_iter().map(|case| (index, case)));
    }

    /// None where the file is mistaken; a type without the file has no defaults.
    fn defaults(&mut self, name: &str, service: &Service) -> Result<Option<Defaults>, Unreadable> {
        let file = format!("{CASES}/{name}/{DEFAULTS}");
        let path = self.root.join(&file);
        if !path.exists() {
            return Ok(Some(Defaults::default()));
        }
        let text = fs::read_to_string(&path).map_err(|error| Unreadable { path, error })?;
        Ok(Defaults::load(&Source::new(file, text), service, &mut self.findings))
    }

    fn unknown_type(&mut self, name: &str, known: &[String]) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let place = Source::new(format!("{CASES}/{name}"), "");
        let message = format!("there is no mapping `{name}` for these cases");
        let help = suggestion(name, &known);
        self.findings.add_with_help(&place, &(0..0), "unknown-mapping", message, help);
    }

    fn judge(&self, (index, name): &(usize, String), play: Play<'_>) -> Result<Judgement, Unreadable> {
        let tested = &self.tested[*index];
        let path = format!("{CASES}/{name}");
        let files = read_files(&self.root.join(&path))?;
        let folder = CaseFolder { name: name.clone(), path, files };
        let mut findings = Findings::default();
        let case = Case::load(&folder, &tested.service, &tested.defaults, &mut findings);
        let mut played = Ok(None);
        if let Some(story) = case.as_ref().and_then(Case::story) {
            played = play(&tested.service, &story).map(Some);
        }
        match (case, played) {
            (Some(case), Ok(Some(played))) => Ok(case.judge_played(&played)),
            (Some(case), Ok(None)) => {
                let keep = |watch: &WatchRule, object: Value| match tested.kept.get(&watch.name) {
                    Some(prune) => prune.apply(object),
                    None => object,
                };
                Ok(case.judge(&tested.service, &keep, tested.trace.as_ref()))
            }
            (_, played) => {
                findings.append(played.err().unwrap_or_default());
                let result = CaseResult::malformed(name, &folder.file(), findings.sorted());
                Ok(Judgement { result, rewrites: Vec::new() })
            }
        }
    }
}

fn folders(parent: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let all = entries(parent)?.into_iter();
    Ok(all.filter(|path| path.is_dir() && !name_of(path).starts_with('.')).collect())
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The files of one folder; what editors leave beside them is passed over.
fn read_files(folder: &Path) -> Result<BTreeMap<String, String>, Unreadable> {
    let mut files = BTreeMap::new();
    for path in entries(folder)? {
        let name = name_of(&path);
        if name.starts_with('.') || name.ends_with('~') {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| Unreadable { path: path.clone(), error })?;
        files.insert(name, text);
    }
    Ok(files)
}
