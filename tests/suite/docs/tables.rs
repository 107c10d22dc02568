//! Tables of settings are equal to the code; the glossary keeps its form; pages keep their lengths.

use mapwright::settings::SETTINGS;

use super::super::source::{files, no_complaints, text};
use super::change::{load_mapping, mapping_names};
use super::markdown::code;
use super::page;

#[test]
fn the_page_of_settings_is_the_table_of_the_code() {
    let expected: Vec<Vec<String>> = SETTINGS
        .iter()
        .map(|setting| {
            let default = setting.default.map_or_else(String::new, |default| format!("`{default}`"));
            let name = |text: &str| format!("`{text}`");
            vec![
                name(setting.env),
                name(setting.key),
                setting.form.to_owned(),
                default,
                setting.about.to_owned(),
            ]
        })
        .collect();
    let found = page("docs/settings.md").rows("All settings");
    let rows = |rows: &[Vec<String>]| -> Vec<String> {
        rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect()
    };
    let (expected, found) = (rows(&expected), rows(&found));
    let missing: Vec<String> = expected.iter().filter(|row| !found.contains(row)).cloned().collect();
    assert!(missing.is_empty(), "docs/settings.md lacks these rows:\n{}", missing.join("\n"));
    assert_eq!(found, expected, "docs/settings.md, All settings");
}

/// A promise that a setting is not used yet ends when something reads it.
#[test]
fn settings_that_are_said_to_be_unused_are_unused() {
    let rows = page("docs/settings.md").rows("Read, but not used yet");
    assert!(!rows.is_empty(), "remove the heading and this test");
    for row in rows {
        let key = SETTINGS.iter().find(|setting| setting.env == code(&row[0])).unwrap().key;
        let field = format!(".{}", key.rsplit('.').next().unwrap());
        let mut sources =
            files("src", ".rs").into_iter().filter(|file| !file.name.starts_with("src/settings"));
        // The cluster room has a limit of the same name in its client's own settings.
        let used = sources.find(|file| !file.name.starts_with("src/cluster") && file.text.contains(&field));
        assert!(used.is_none(), "{} is used in {}", row[0], used.unwrap().name);
    }
}

#[test]
fn the_readme_of_each_mapping_lists_its_settings() {
    for name in mapping_names() {
        let service = load_mapping(&name);
        let page = page(&format!("mappings/{name}/README.md"));
        let rows = page.rows("Settings");
        let listed: Vec<(&str, &str)> = rows.iter().map(|row| (code(&row[0]), code(&row[1]))).collect();
        let declared: Vec<(&str, &str)> =
            service.settings.iter().map(|rule| (rule.name.as_str(), rule.env.as_str())).collect();
        assert_eq!(listed, declared, "mappings/{name}/README.md");
        for (row, rule) in rows.iter().zip(&service.settings) {
            let values = rule.allowed.iter().chain(rule.default.iter().filter_map(|default| match default {
                serde_json::Value::String(text) => Some(text),
                _ => None,
            }));
            values.for_each(|value| assert!(row[2].contains(value.as_str()), "{name}: {value} in {row:?}"));
            assert_eq!(row[3].contains("required"), rule.required, "{name}: {row:?}");
        }
    }
}

#[test]
fn the_readme_of_each_mapping_lists_its_statuses() {
    for name in mapping_names() {
        let mapping: toml::Table = toml::from_str(&text(&format!("mappings/{name}/mapping.toml"))).unwrap();
        let values = mapping["status"]["values"].as_array().unwrap().clone();
        let rows = page(&format!("mappings/{name}/README.md")).rows("Statuses");
        let listed: Vec<&str> = rows.iter().map(|row| code(&row[0])).collect();
        let values: Vec<&str> = values.iter().map(|value| value.as_str().unwrap()).collect();
        assert_eq!(listed, values, "mappings/{name}/README.md");
    }
}

#[test]
fn the_glossary_gives_each_word_a_sentence_and_a_counter_example() {
    let page = page("docs/glossary.md");
    let rows = page.rows("Glossary");
    assert!((20..=36).contains(&rows.len()), "{} words", rows.len());
    let mut complaints = Vec::new();
    for row in &rows {
        let [word, meaning, counter] = row.as_slice() else { panic!("{row:?}") };
        if !meaning.ends_with('.') || !counter.ends_with('.') || counter.len() < 15 {
            complaints.push(format!("{word}: a sentence and a counter-example, each with a dot"));
        }
    }
    let words: Vec<&String> = rows.iter().map(|row| &row[0]).collect();
    let mut sorted = words.clone();
    sorted.sort_by_key(|word| word.to_lowercase());
    assert_eq!(words, sorted, "the words are in the order of the alphabet");
    no_complaints(complaints);
}

#[test]
fn the_architecture_has_a_row_for_each_room() {
    let page = page("docs/ARCHITECTURE.md");
    let rows: Vec<String> = page.rows("The rooms").iter().map(|row| row[0].clone()).collect();
    let source = text("src/lib.rs");
    let rooms = source.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let missing = rooms.filter(|room| !rows.iter().any(|row| row.contains(&format!("[{room}]("))));
    no_complaints(missing.map(|room| format!("docs/ARCHITECTURE.md, The rooms, lacks {room}")).collect());
}

#[test]
fn the_first_pages_stay_short() {
    assert!(text("CONTRIBUTING.md").lines().count() <= 120, "CONTRIBUTING.md is longer than 120 lines");
    let readme = text("README.md");
    let line = |command: &str| readme.lines().position(|line| line == command);
    let commands = ["cargo run --release -- dev", "cargo test --workspace", "cargo demo"].map(line);
    assert!(commands.is_sorted() && commands[0].is_some_and(|line| line < 15), "{commands:?}");
    assert!(commands[2].is_some_and(|line| line < 70), "README.md shows them before line 70: {commands:?}");
}
