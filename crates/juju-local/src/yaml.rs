//! YAML text as Go's decoder reads it: the same values, and its sentence when the text is none.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Problem, its line, and what was being read since which line. Lines count from 1; what is not said is line 1.
static PROBLEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(.*?)(?: at line (\d+) column \d+)?(?:, (while .*?)(?: at line (\d+) column \d+)?)?$")
        .expect("invariant: the pattern is well-formed")
});

/// Parses text into a JSON value; the error has Go's words.
pub fn parse(text: &str) -> Result<Value, String> {
    serde_yaml::from_str(text).map_err(|error| go_sentence(&error.to_string()))
}

/// Go names one line, counted from 0 by its parser and from 1 by its scanner, and none for the first.
fn go_sentence(message: &str) -> String {
    let Some(parts) = PROBLEM.captures(message) else { return format!("yaml: {message}") };
    let line = |group: usize| parts.get(group).and_then(|found| found.as_str().parse::<u64>().ok());
    let problem = parts.get(1).map_or(message, |found| found.as_str());
    let begun = parts.get(3).map(|found| found.as_str());
    // Without a context of its own, what began stands where the problem is.
    let context = begun.map(|_| line(4).or(line(2)).unwrap_or(1));
    let scanned = begun.is_some_and(|begun| begun.starts_with("while scanning"))
        || problem.contains("not allowed in this context");
    let from_zero = [context, line(2)].into_iter().flatten().map(|line| line.saturating_sub(1)).find(|line| *line > 0);
    match from_zero {
        Some(line) => format!("yaml: line {}: {problem}", line + u64::from(scanned)),
        None => format!("yaml: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_text_is_refused_in_gos_words() {
        assert_eq!(parse("name: [broken\n").unwrap_err(), "yaml: line 1: did not find expected ',' or ']'");
        assert_eq!(parse("a: b: c\n").unwrap_err(), "yaml: mapping values are not allowed in this context");
        assert_eq!(
            parse("a: 1\nb: c: d\n").unwrap_err(),
            "yaml: line 2: mapping values are not allowed in this context"
        );
    }

    #[test]
    fn whole_texts_are_values() {
        assert_eq!(parse("a: [1, two]").unwrap(), serde_json::json!({"a": [1, "two"]}));
        assert_eq!(parse("").unwrap(), Value::Null);
    }
}
