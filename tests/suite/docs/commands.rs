//! Commands in the pages exist, and what they print is what stands behind them.
//!
//! `sh run` is executed at the root of the repository and its output compared with the `text` behind it.
//! Of other `sh` fences each command must exist: sub-commands and flags of `mapwright`, aliases of cargo,
//! collections and bodies of `curl`.

use std::process::Command;

use mapwright::engine::format::Moment;
use mapwright::engine::inputs::{Identity, Inputs};
use mapwright::engine::request::Judged;

use super::super::source::{no_complaints, root, text};
use super::change::{load_mapping, mapping_names};
use super::fences::is_proven_elsewhere;
use super::markdown::{Page, code};
use super::{page, pages};

#[test]
fn commands_that_are_marked_print_what_stands_behind_them() {
    let mut ran = 0;
    for page in pages() {
        for (index, fence) in page.fences.iter().enumerate().filter(|(_, fence)| fence.is("run")) {
            let expected = page.fences.get(index + 1).filter(|next| next.language == "text");
            let expected = expected.unwrap_or_else(|| panic!("{}:{}: no output", page.name, fence.line));
            assert_eq!(run(&fence.text), expected.text, "{}:{}", page.name, fence.line);
            ran += 1;
        }
    }
    assert!(ran > 0, "no page shows a command with its output");
}

/// What a command prints, with the product's own binary as `mapwright`.
fn run(command: &str) -> String {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_mapwright"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.current_dir(root()).env("PATH", path).env("NO_COLOR", "1").args(["-c", command]);
    let output = shell.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_command_of_a_page_exists() {
    let mut complaints = Vec::new();
    let mut count = 0;
    for page in pages().iter().filter(|page| !is_proven_elsewhere(page)) {
        for fence in page.fences.iter().filter(|fence| fence.language == "sh" && !fence.is("run")) {
            for line in command_lines(&fence.text) {
                count += 1;
                let fault = fault(&line);
                complaints.extend(fault.map(|fault| format!("{}:{}: {fault}", page.name, fence.line)));
            }
        }
    }
    no_complaints(complaints);
    assert!(count > 10, "only {count} commands were found");
}

/// A backslash at the end of a line, or an open quote, carries a command on; comments are none.
fn command_lines(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.replace("\\\n", " ").lines() {
        match commands.last_mut() {
            Some(command) if goes_on => command.push_str(line),
            _ if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
            _ => commands.push(line.trim().to_owned()),
        }
        goes_on = commands.last().is_some_and(|command| command.matches('\'').count() % 2 == 1);
    }
    commands
}

fn fault(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
    match words.next()? {
        "mapwright" => mapwright_fault(&words.collect::<Vec<_>>()),
        "cargo" => match line.split_once("--bin mapwright -- ") {
            Some((_, rest)) => mapwright_fault(&rest.split_whitespace().collect::<Vec<_>>()),
            None => cargo_fault(words.next().unwrap_or_default()),
        },
        "curl" => curl_fault(line),
        "git" | "cd" | "export" | "kubectl" | "cp" | "sleep" | "printf" => None,
        path if path.starts_with(".ci/") => (!root().join(path).is_file()).then(|| format!("no file {path}")),
        other => Some(format!("no test knows the command `{other}`")),
    }
}

fn mapwright_fault(words: &[&str]) -> Option<String> {
    let (command, rest) = words.split_first()?;
    let help = match command.starts_with('-') {
        true => run("mapwright --help"),
        false if !sub_commands().iter().any(|own| own == command) => {
            return Some(format!("mapwright has no sub-command `{command}`"));
        }
        false => run(&format!("mapwright {command} --help")),
    };
    let mut flags = rest.iter().chain([command]).filter(|word| word.starts_with('-'));
    let unknown = flags.find(|flag| !help.contains(flag.split('=').next().unwrap()))?;
    Some(format!("mapwright {command} has no flag `{unknown}`"))
}

fn sub_commands() -> Vec<String> {
    let help = run("mapwright --help");
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn cargo_fault(command: &str) -> Option<String> {
    let own = ["bench", "build", "run", "test", "fmt", "clippy", "check", "doc"];
    let is_alias = text(".cargo/config.toml").contains(&format!("\n{command} = "));
    (!own.contains(&command) && !is_alias).then(|| format!("cargo has no command `{command}`"))
}

/// A request must be one that the shipped mappings would take.
fn curl_fault(line: &str) -> Option<String> {
    let Some((_, path)) = line.split_once("/api/v1alpha1/") else {
        return Some("a request outside /api/v1alpha1/".to_owned());
    };
    let collection: String = path.chars().take_while(char::is_ascii_alphanumeric).collect();
    if collection == "openapi" {
        return None;
    }
    let mut services = mapping_names().into_iter().map(|name| load_mapping(&name));
    let Some(service) = services.find(|service| service.collection == collection) else {
        return Some(format!("there is no collection `{collection}`"));
    };
    let body = line.split("-d '").nth(1)?.split('\'').next()?;
    let body = match serde_json::from_str(body) {
        Ok(body) => body,
        Err(error) => return Some(format!("the body is no JSON: {error}")),
    };
    let moment = if line.contains("PATCH") { Moment::Update } else { Moment::Create };
    let request = match moment {
        Moment::Create => service.read_create(body),
        Moment::Update => service.read_update(body),
    };
    let identity = Identity { id: "a".into(), provider: "p".into(), namespace: "n".into(), life: 1 };
    let mut inputs =
        Inputs { spec: request.spec.clone(), patch: Some(request.spec.clone()), ..Inputs::default() };
    // A class that is there; what the first stages refuse, they refuse without it.
    inputs.lookups = vec![Some(serde_json::json!({ "allowVolumeExpansion": true })); service.lookups.len()];
    match service.judge(moment, &request, &identity, &inputs) {
        Ok(Judged::Refused(problem)) if moment == Moment::Create => {
            Some(format!("it would be refused: {problem}"))
        }
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn a_command_that_does_not_exist_is_caught() {
    for command in [
        "mapwright chek",
        "mapwright serve --rot x",
        "cargo demonstrate",
        "cargo run --bin mapwright -- chek",
        "curl localhost:8080/api/v1alpha1/boxes",
        "curl localhost:8080/api/v1alpha1/containers -d '{\"spec\": {}}'",
        "podman ps",
    ] {
        assert!(fault(command).is_some(), "{command}");
    }
    assert_eq!(fault("SP_NAME=x mapwright serve container --root ."), None);
}

#[test]
fn the_readme_lists_the_sub_commands_that_there_are() {
    let rows = page("README.md").rows("Commands");
    let listed: Vec<&str> = rows.iter().map(|row| code(&row[0])).collect();
    let listed: Vec<&str> = listed.iter().filter_map(|row| row.split_whitespace().nth(1)).collect();
    assert_eq!(listed, sub_commands(), "README.md, Commands");
}

#[test]
fn few_fences_are_mere_text() {
    let mut pages = pages();
    pages.retain(|page| !is_proven_elsewhere(page));
    let all: usize = pages.iter().map(|page| page.fences.len()).sum();
    let mere = |page: &Page| {
        let before = |index: usize| index > 0 && page.fences[index - 1].is("run");
        let fences = page.fences.iter().enumerate();
        fences.filter(|(index, fence)| fence.language == "text" && !before(*index)).count()
    };
    let text: usize = pages.iter().map(mere).sum();
    assert!(text * 10 <= all, "{text} of {all} fences are text that nothing proves");
}
