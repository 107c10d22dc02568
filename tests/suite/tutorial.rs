//! docs/tutorial.md is walked through, from the first command to the last.

use super::walk::{Walk, page, settle};

const PAGE: &str = "docs/tutorial.md";

#[test]
fn whoever_follows_the_tutorial_sees_what_it_shows() {
    let page = page(PAGE);
    let mut walk = Walk::new("tutorial");
    walk.follow(PAGE, &page.fences);
    let shown =
        |word: &str| page.fences.iter().any(|fence| fence.text.contains(&format!("mapwright {word}")));
    for command in ["init", "check", "render", "explain", "test", "diff", "dev"] {
        assert!(shown(command), "the tutorial shows `mapwright {command}`");
    }
    settle(PAGE, std::mem::take(&mut walk.wrong));
}
