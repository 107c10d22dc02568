//! "Did you mean": the nearest of the right names.

use super::Help;

/// The nearest of the right names, if one is near enough to be meant.
///
/// Of names that are equally near, the one with the same letters comes first (two were swapped), then the
/// one that begins alike.
pub fn nearest<'a>(wrong: &str, right: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let limit = (wrong.chars().count() / 3).max(1);
    let mut best: Option<((usize, bool, i64), &str)> = None;
    for name in right {
        let lower = name.to_lowercase();
        let distance = strsim::damerau_levenshtein(&wrong, &lower);
        if distance > limit {
            continue;
        }
        let likeness = (strsim::jaro_winkler(&wrong, &lower) * 1e6) as i64;
        let rank = (distance, letters(&wrong) != letters(&lower), -likeness);
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, name));
        }
    }
    best.map(|(_, name)| name)
}

fn letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// The help of a wrong name: the nearest right one, else all of them when they are few.
pub fn suggestion(wrong: &str, right: &[&str]) -> Option<Help> {
    match nearest(wrong, right.iter().copied()) {
        Some(name) => Some(Help::name(format!("did you mean `{name}`?"), wrong, name)),
        None if right.is_empty() || right.len() > 24 => None,
        None => Some(format!("expected one of: {}", right.join(", ")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn swapped_letters_win_over_replaced_ones_and_far_names_are_not_meant() {
        assert_eq!(nearest("qe", ["ge", "eq", "le"]), Some("eq"));
        assert_eq!(nearest("runing", ["RUNNING", "PENDING"]), Some("RUNNING"));
        assert_eq!(nearest("colour", ["name", "image"]), None);
    }
}
