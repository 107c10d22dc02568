//! Every fence of every page is run, loaded, compared or parsed, by the words behind its language.
//!
//! - `toml mapping`: a part of a mapping, laid into the reference's small type and loaded.
//! - `toml provider`: a settings file, read. `toml change`: see [`super::change`].
//! - `yaml template`: rendered, and compared with the `json gives` behind it.
//! - `yaml`, `toml` or `json` with `file=`: a file of the reference's small type, loaded with it.
//! - `json`: parsed. `sh`, `text`: see [`super::commands`].

use mapwright::settings::{Settings, Sources};
use serde_json::Value;

use super::super::source::no_complaints;
use super::markdown::{Fence, Page};
use super::sample::Sample;
use super::{page, pages};

/// Pages whose fences are broken on purpose, or walked through in their order, have a test of their own.
const PROVEN_ELSEWHERE: [&str; 3] = ["docs/errors/", "docs/tutorial.md", "docs/cookbook.md"];

pub(super) fn is_proven_elsewhere(page: &Page) -> bool {
    PROVEN_ELSEWHERE.iter().any(|name| page.name.starts_with(name))
}

#[test]
fn every_fence_is_what_its_words_say() {
    let sample = Sample::of(&page("docs/mapping-reference.md"));
    let mut complaints = Vec::new();
    let mut count = 0;
    for page in pages().iter().filter(|page| !is_proven_elsewhere(page)) {
        for (index, fence) in page.fences.iter().enumerate() {
            count += 1;
            let result = prove(&sample, page, index, fence);
            complaints.extend(result.err().map(|why| format!("{}:{}: {why}", page.name, fence.line)));
        }
    }
    no_complaints(complaints);
    assert!(count > 30, "only {count} fences were found");
}

fn prove(sample: &Sample, page: &Page, index: usize, fence: &Fence) -> Result<(), String> {
    match fence.language.as_str() {
        "toml" if fence.is("mapping") => {
            sample.load(&fence.text).map(drop).map_err(|found| found.to_string())
        }
        "toml" if fence.is("provider") => provider_file(&fence.text),
        // Files of the sample are loaded with each of its examples; a change has its own test.
        "toml" | "yaml" if fence.value("file").is_some() || fence.is("change") => Ok(()),
        "yaml" if fence.is("template") => {
            let expected = page.fences.get(index + 1).filter(|next| next.is("gives"));
            let expected = expected.ok_or("a template needs a `json gives` behind it")?;
            let (expected, found) = (json(&expected.text)?, sample.render(fence));
            if expected == found { Ok(()) } else { Err(format!("the template gives {found}")) }
        }
        "json" => json(&fence.text).map(drop),
        // Both are looked at together, for the output stands behind its command.
        "sh" | "text" => Ok(()),
        language => Err(format!("no test knows what a fence `{language} {}` is", fence.words.join(" "))),
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A settings file is read with the shipped mappings' settings, and nothing but secrets in the environment.
fn provider_file(text: &str) -> Result<(), String> {
    let declared = super::change::declared_by_mappings();
    let sources = Sources {
        environment: &|_| None,
        file: Some(("provider.toml", text)),
        service_types: &[],
        declared: &declared,
        complete: true,
    };
    Settings::read(&sources).map(drop).map_err(|faults| faults.to_string())
}

#[test]
fn a_fence_that_is_not_true_is_caught() {
    let sample = Sample::of(&page("docs/mapping-reference.md"));
    let fault = |text: &str| {
        let page = Page::parse("docs/x.md", text);
        prove(&sample, &page, 0, &page.fences[0]).unwrap_err()
    };
    assert!(fault("```toml mapping\n[view]\ntemplat = \"view.yaml\"\n```\n").contains("unknown-key"));
    assert!(fault("```toml mapping\n[let]\na = \"spec.imag\"\n```\n").contains("unknown-path"));
    assert!(fault("```toml provider\nnme = \"x\"\n```\n").contains("is no setting"));
    assert!(
        fault("```yaml template\na: \"{{ spec.image }}\"\n```\n```json gives\n{}\n```\n").contains("gives")
    );
    assert!(fault("```json\n{\n```\n").contains("EOF"));
    assert!(fault("```rust\nfn a() {}\n```\n").contains("no test knows"));
}
