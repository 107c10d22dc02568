//! docs/cookbook.md: each recipe is laid over the mapping that the page begins with, checked and run.

use super::docs::markdown::Fence;
use super::walk::{Walk, page, settle};

const PAGE: &str = "docs/cookbook.md";

/// The section with the files that every recipe begins with.
const BEGINNING: &str = "What the recipes begin with";

#[test]
fn each_recipe_gives_what_it_shows_and_leaves_a_sound_mapping() {
    let page = page(PAGE);
    let of = |title: &str| -> Vec<Fence> {
        page.fences.iter().filter(|fence| fence.section == title).cloned().collect()
    };
    let beginning = of(BEGINNING);
    let titles = page.headings.iter().skip(1).map(|heading| heading.title.as_str());
    let mut wrong = Vec::new();
    let (mut recipes, mut unsound) = (0, Vec::new());
    for title in titles.filter(|title| *title != BEGINNING) {
        let own = of(title);
        assert!(own.iter().any(|fence| fence.language == "sh"), "`{title}` shows what comes out");
        let mut walk = Walk::new("cookbook");
        walk.follow(PAGE, &beginning);
        walk.follow(PAGE, &own);
        let said = walk.printed("mapwright check");
        if !said.contains(", no mistakes") {
            unsound.push(format!("`{title}` leaves a mapping with mistakes\n{said}"));
        }
        wrong.append(&mut walk.wrong);
        recipes += 1;
    }
    assert_eq!(recipes, 20, "the page promises twenty");
    assert!(unsound.is_empty(), "{}", unsound.join("\n"));
    settle(PAGE, wrong);
}
