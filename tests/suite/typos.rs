//! One-letter typos in the shipped mappings: nearly all of them are answered by the word that was meant.

use std::ops::Range;

use mapwright::engine::diagnostic::Findings;
use mapwright::engine::service::{Files, Service};
use mapwright::files::MappingRoot;
use mapwright::kinds::embedded;

use super::broken::root;

const TYPES: [&str; 2] = ["container", "storage"];
const EACH: usize = 150;

/// A word of a mapping that can be misspelt: its file, its place, and what it is.
struct Word {
    file: String,
    place: Range<usize>,
    what: &'static str,
}

/// Repeats itself: a linear congruential generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    /// The word with one letter dropped, added, swapped with its neighbour, or replaced.
    fn misspell(&mut self, word: &str) -> String {
        let mut letters: Vec<char> = word.chars().collect();
        let at = self.roll(letters.len());
        let upper = word.chars().all(|c| !c.is_lowercase());
        let other = char::from(b'a' + u8::try_from(self.roll(26)).unwrap());
        let other = if upper { other.to_ascii_uppercase() } else { other };
        match self.roll(4) {
            0 => drop(letters.remove(at)),
            1 => letters.insert(at, other),
            2 if at > 0 => letters.swap(at - 1, at),
            _ => letters[at] = other,
        }
        letters.into_iter().collect()
    }
}

/// The words of one file, found by what stands around them.
fn words(file: &str, text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut table = "";
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let mut add = |what, place: Range<usize>| {
            let place = start + place.start..start + place.end;
            words.push(Word { file: file.to_owned(), place, what });
        };
        if !line.trim_start().starts_with('#') {
            if line.starts_with('[') {
                table = line.trim();
            }
            match file.ends_with(".toml") {
                true => toml_words(table, line, &mut add),
                false => template_words(line, &mut add),
            }
            expression_words(line, &mut add);
        }
        start += line.len();
    }
    words
}

fn toml_words(table: &str, line: &str, add: &mut impl FnMut(&'static str, Range<usize>)) {
    if line.starts_with('[') {
        let start = line.find(|c| c != '[').unwrap();
        let end = line.find([']', '.']).unwrap();
        add("table", start..end);
        return;
    }
    let Some((key, value)) = line.split_once('=') else { return };
    let key = key.trim_end();
    let written = line.find('"').zip(line.rfind('"')).filter(|(a, b)| a < b).map(|(a, b)| a + 1..b);
    if key.is_empty() || key.contains(|c: char| !c.is_ascii_lowercase() && c != '_') || table == "[let]" {
        return;
    }
    add("key", 0..key.len());
    let Some(written) = written else { return };
    match key {
        "status" | "initial" | "gone" | "deleting" | "match" | "default" => add("word", written),
        "template" | "schema" => add("file", written),
        "owned_by" | "object" => add("object", written),
        "on" | "operations" => {
            let first = value.find('"').unwrap() + line.len() - value.len() + 1;
            add("word", first..first + line[first..].find('"').unwrap());
        }
        _ => {}
    }
}

fn template_words(line: &str, add: &mut impl FnMut(&'static str, Range<usize>)) {
    for directive in ["$for", "$if", "$let", "$value"] {
        if let Some(at) = line.find(&format!("{directive}:")) {
            add("directive", at + 1..at + directive.len());
        }
    }
}

/// Paths of shapes that a mapping itself gives, filters and tests.
fn expression_words(line: &str, add: &mut impl FnMut(&'static str, Range<usize>)) {
    let mut before = String::new();
    let mut at = 0;
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    while let Some(offset) = line[at..].find(letter) {
        let start = at + offset;
        let end = start + line[start..].find(|c| !letter(c)).unwrap_or(line.len() - start);
        let token = &line[start..end];
        let gap = &line[at..start];
        let mut steps = token.split('.');
        let head = steps.next().unwrap_or_default();
        if ["spec", "patch", "settings", "dcm"].contains(&head)
            && token.len() > head.len()
            && !gap.ends_with('.')
        {
            add("variable", start..start + head.len());
            let mut from = start + head.len() + 1;
            for step in steps.take_while(|step| !step.is_empty()) {
                // What labels and hints hold is the caller's own.
                if !(line[start..from].contains("dcm.labels.")) {
                    add("path", from..from + step.len());
                }
                from += step.len() + 1;
            }
        } else if gap.trim_end().ends_with('|') && !token.contains('.') {
            add("filter", start..end);
        } else if before == "is"
            && !token.contains('.')
            && !["message", "detail"].iter().any(|key| line.starts_with(key))
        {
            add("test", start..end);
        }
        before = token.to_owned();
        at = end;
    }
}

/// Whether a mistake of the line is answered by the word that was meant.
fn answered(found: &Findings, file: &str, line: usize, word: &str) -> bool {
    let means =
        |help: &str| help == format!("did you mean `{word}`?") || help == format!("did you mean `${word}`?");
    found.iter().any(|item| {
        item.file == file && item.position.line == line && item.help.as_deref().is_some_and(means)
    })
}

#[test]
fn of_one_letter_typos_at_least_95_in_100_are_answered_by_the_right_word() {
    let files: Files = MappingRoot::at(root()).read().unwrap();
    let workers: Vec<_> = TYPES
        .map(|name| {
            let files = files.clone();
            std::thread::spawn(move || misses(&files, name))
        })
        .into_iter()
        .collect();
    let mut missed = Vec::new();
    for worker in workers {
        missed.extend(worker.join().unwrap());
    }
    let all = TYPES.len() * EACH;
    assert!(
        missed.len() * 100 <= all * 5,
        "{} of {all} are not answered:\n{}",
        missed.len(),
        missed.join("\n")
    );
}

/// The typos of one mapping that are not answered.
fn misses(files: &Files, name: &str) -> Vec<String> {
    let folder = format!("mappings/{name}/");
    let own = files.iter().filter(|(path, _)| path.starts_with(&folder) && !path.ends_with(".md"));
    let words: Vec<Word> = own.flat_map(|(path, text)| words(path, text)).collect();
    for what in ["table", "key", "word", "file", "path", "filter", "variable"] {
        assert!(words.iter().any(|word| word.what == what), "no {what} in {name}");
    }
    let mut dice = Dice(7);
    let mut missed = Vec::new();
    let mut done = 0;
    while done < EACH {
        let word = &words[dice.roll(words.len())];
        let right = &files[&word.file][word.place.clone()];
        let wrong = dice.misspell(right);
        if wrong == right || wrong.is_empty() {
            continue;
        }
        done += 1;
        let mut broken = files.clone();
        broken.get_mut(&word.file).unwrap().replace_range(word.place.clone(), &wrong);
        let found = Service::load(&broken, name, embedded()).err().unwrap_or_default();
        let line = files[&word.file][..word.place.start].matches('\n').count() + 1;
        if !answered(&found, &word.file, line, right) {
            missed.push(format!("{} {right} -> {wrong} in {}:{line}\n{found}", word.what, word.file));
        }
    }
    missed
}
