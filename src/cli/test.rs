//! `mapwright test`: runs cases and shows each leaf that differs.

use std::path::PathBuf;
use std::thread;

use super::End;
use super::report::{Target, cases};
use crate::app::Simulator;
use crate::cases::{CASES, Mappings, Run, Suite};
use crate::engine::case::{CaseResult, Outcome, Rewrite};
use crate::files::change::{Look, PAUSE};

/// Run the cases of mappings, and show each leaf that differs.
///
/// Cases are the folders of testdata/cases/<type>/; docs/testing-mappings.md says how to write one. The exit
/// code is 0 where all pass, 1 where one fails, 2 where none is found or one cannot be read.
///
/// Example: mapwright test --filter container/ --coverage
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder that holds `mappings`, `schemas` and `testdata/cases`.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Only the cases whose name, `<type>/<case>`, holds this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Write golden files anew, and print each leaf that changes.
    #[arg(long)]
    update: bool,
    /// Print the rows, checks and branches that no case reached, and fail if there are any.
    #[arg(long)]
    coverage: bool,
    /// Run again whenever a file is saved, until interrupted.
    #[arg(long)]
    watch: bool,
    /// How many cases run at a time; as many as there are processors where absent.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write a report as well: github, json, junit, sarif or tap; `-` is standard output.
    #[arg(long, value_name = "FORMAT=FILE")]
    report: Vec<Target>,
}

pub(super) fn run(arguments: &Arguments) -> End {
    if arguments.watch {
        watch(arguments);
    }
    match Mappings::read(&arguments.root) {
        Ok(mut mappings) => once(arguments, &mut mappings),
        Err(unreadable) => {
            eprintln!("{unreadable}");
            End::Usage
        }
    }
}

/// Until somebody interrupts it. Mappings are compiled anew only when one of their own files changes.
fn watch(arguments: &Arguments) -> ! {
    let mapping_folders = ["mappings", "schemas"].map(|folder| arguments.root.join(folder));
    let case_folder = [arguments.root.join(CASES)];
    // Looked at before the run, so that a save during the run is noticed after it.
    let look = || (Look::at(&mapping_folders), Look::at(&case_folder));
    let mut seen = look();
    loop {
        let mut mappings = Mappings::read(&arguments.root);
        let compiled_from = seen.0.clone();
        while seen.0 == compiled_from {
            match &mut mappings {
                Ok(mappings) => drop(once(arguments, mappings)),
                Err(unreadable) => eprintln!("{unreadable}"),
            }
            eprintln!("waiting for a change");
            let before = seen;
            seen = look();
            while seen == before {
                thread::sleep(PAUSE);
                seen = look();
            }
        }
    }
}

fn once(arguments: &Arguments, mappings: &mut Mappings) -> End {
    let suite = match Suite::open(mappings, &arguments.filter, arguments.coverage) {
        Ok(suite) => suite,
        Err(unreadable) => {
            eprintln!("{unreadable}");
            return End::Usage;
        }
    };
    eprint!("{}", suite.findings);
    for unreadable in &suite.unreadable {
        eprintln!("{unreadable}");
    }
    if suite.is_empty() && suite.findings.is_empty() && suite.unreadable.is_empty() {
        return nothing_found(arguments);
    }
    let jobs = arguments.jobs.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let simulator = Simulator::default();
    let run = || suite.run(jobs, &|service, story| simulator.play(service, story));
    let mut ran = run();
    if arguments.update {
        if let Err(unreadable) = suite.write(&ran.rewrites) {
            eprintln!("{unreadable}");
            return End::Usage;
        }
        ran.rewrites.iter().for_each(print_rewrite);
        // What is still wrong after it is no matter of golden files.
        ran = run();
    }
    summary(&ran);
    let unreached = arguments.coverage && coverage(&suite);
    if let Err(message) = cases::report(&arguments.root, &suite, &ran).write(&arguments.report) {
        eprintln!("{message}");
        return End::Usage;
    }
    let unreadable = ran.unreadable.is_empty() && suite.unreadable.is_empty();
    if !unreadable || ran.count(Outcome::Malformed) > 0 {
        return End::Usage;
    }
    match unreached || ran.count(Outcome::Failed) > 0 || !suite.findings.is_empty() {
        true => End::Findings,
        false => End::Success,
    }
}

fn nothing_found(arguments: &Arguments) -> End {
    let folder = arguments.root.join(CASES);
    match arguments.filter.as_str() {
        "" => eprintln!("there is no case in {}", folder.display()),
        text => eprintln!("the name of no case in {} holds `{text}`", folder.display()),
    }
    End::Usage
}

fn print_rewrite(rewrite: &Rewrite) {
    let verb = if rewrite.text.is_some() { "wrote" } else { "removed" };
    println!("{verb} {}", rewrite.file);
    for change in &rewrite.changes {
        let (expected, found) = cases::beside(change);
        println!("  {}: {expected} -> {found}", change.path.as_deref().unwrap_or_default());
    }
}

fn summary(ran: &Run) {
    for result in &ran.results {
        print_result(result);
    }
    for unreadable in &ran.unreadable {
        eprintln!("{unreadable}");
    }
    let [passed, failed, malformed] =
        [Outcome::Passed, Outcome::Failed, Outcome::Malformed].map(|outcome| ran.count(outcome));
    let cases =
        if ran.results.len() == 1 { "1 case".to_owned() } else { format!("{} cases", ran.results.len()) };
    println!("{cases}: {passed} passed, {failed} failed, {malformed} malformed");
}

fn print_result(result: &CaseResult) {
    match result.outcome {
        Outcome::Passed => {}
        Outcome::Failed => println!("FAIL {}", result.name),
        Outcome::Malformed => {
            println!("MALFORMED {}", result.name);
            eprint!("{}", result.mistakes);
        }
    }
    for failure in &result.failures {
        print!("{}", cases::told(failure));
    }
}

/// Prints what no case reached; true if there is anything.
fn coverage(suite: &Suite) -> bool {
    let mut any = false;
    for (name, ways, unreached) in suite.unreached() {
        println!("{name}: {} of {ways} ways of the mapping are tested", ways - unreached.len());
        for way in &unreached {
            let place = way.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            println!("  {place}{} {}", way.what, way.missing);
        }
        any |= !unreached.is_empty();
    }
    any
}
