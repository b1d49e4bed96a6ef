//! Finds the known word that somebody who mistyped probably meant.

/// Words longer than this are nobody's typing mistake.
const LONGEST: usize = 64;

/// Returns the known word nearest to `word`, if one is near enough: a third of its letters may differ, three at most.
pub(crate) fn nearest(word: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let allowed = (word.len() / 3).clamp(1, 3);
    known
        .into_iter()
        // Each letter more or less is a difference, so most words need no closer look.
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed)
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts how many letters have to be added, removed, changed or swapped with their neighbour. Letter case does not
/// count.
fn distance(left: &[u8], right: &[u8]) -> usize {
    let same = |one: usize, other: usize| left[one].eq_ignore_ascii_case(&right[other]);
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = Vec::with_capacity(right.len() + 1);
        current.push(row);
        for column in 1..=right.len() {
            let replaced = above[column - 1] + usize::from(!same(row - 1, column - 1));
            let mut best = replaced.min(above[column] + 1).min(current[column - 1] + 1);
            if row > 1 && column > 1 && same(row - 1, column - 2) && same(row - 2, column - 1) {
                best = best.min(before[column - 2] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_its_word() {
        let known = ["MaxTime", "MaxNodes", "MinNodes", "State"];
        for (word, expected) in [
            ("MaxTim", Some("MaxTime")),
            ("maxtiem", Some("MaxTime")),
            ("MaxNode", Some("MaxNodes")),
            ("Sttae", Some("State")),
            ("Quality", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"MaxTime".repeat(100), known), None);
    }

    #[test]
    fn distances_are_those_of_the_book() {
        for (left, right, expected) in [("", "", 0), ("ab", "ba", 1), ("kitten", "sitting", 3), ("a", "", 1)] {
            assert_eq!(distance(left.as_bytes(), right.as_bytes()), expected, "{left} {right}");
        }
    }
}
