//! How wide lines are. rustfmt wraps code; comments, text literals, Python and prose are left to us.

use anyhow::Result;

use super::{Findings, source};

const WIDEST: usize = 120;

/// Directories and files that are not wrapped yet. Nothing may be added.
const EXEMPT: &[&str] = &[
    "ARCHITECTURE.md",
    "charms/",
    "crates/charm-testing/",
    "crates/charm/",
    "crates/slurm-conf/",
    "crates/slurm-ops/",
];

pub(super) fn check() -> Result<Findings> {
    let mut findings = Vec::new();
    for (directory, extension) in [("charms", "rs"), ("crates", "rs"), ("tests", "py"), ("", "md")] {
        for file in source::read(directory, extension)? {
            if EXEMPT.iter().any(|start| file.name.starts_with(start)) {
                continue;
            }
            let lines = if extension == "md" { wide_prose(&file.text) } else { wide_lines(&file.text) };
            findings.extend(
                lines.into_iter().map(|line| format!("{}:{line} is wider than {WIDEST} characters", file.name)),
            );
        }
    }
    Ok(findings)
}

fn wide_lines(text: &str) -> Vec<usize> {
    wide(text.lines().enumerate())
}

/// Passes over what cannot be wrapped: tables, code, and lines of one long link.
fn wide_prose(text: &str) -> Vec<usize> {
    let mut in_code = false;
    wide(text.lines().enumerate().filter(|(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence && !line.starts_with("    ") && !line.starts_with('|') && !is_link(line)
    }))
}

fn is_link(line: &str) -> bool {
    let words = line.split_whitespace();
    words.filter(|word| !word.contains("](") && !word.contains("://")).count() <= 1
}

fn wide<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<usize> {
    lines.filter(|(_, line)| line.chars().count() > WIDEST).map(|(number, _)| number + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(start: &str) -> String {
        format!("{start}{}\n", "word ".repeat(WIDEST / 4))
    }

    #[test]
    fn a_wide_line_is_found() {
        assert_eq!(wide_lines(&format!("//! Short.\n{}", long("// "))), [2]);
        assert_eq!(wide_prose(&format!("# Title\n\n{}", long(""))), [3]);
    }

    #[test]
    fn the_limit_counts_characters() {
        assert_eq!(wide_lines(&"ä".repeat(WIDEST)), [0; 0]);
        assert_eq!(wide_lines(&"ä".repeat(WIDEST + 1)), [1]);
    }

    #[test]
    fn tables_are_not_wrapped() {
        assert_eq!(wide_prose(&long("| ")), [0; 0]);
    }

    #[test]
    fn code_is_not_wrapped() {
        assert_eq!(wide_prose(&format!("{}```\n{}```\n", long("    "), long(""))), [0; 0]);
        assert_eq!(wide_prose(&format!("```\n```\n{}", long(""))), [3]);
    }

    #[test]
    fn a_line_of_one_link_is_not_wrapped() {
        assert_eq!(wide_prose(&format!("* [text](https://example.com/{})\n", "x".repeat(WIDEST))), [0; 0]);
    }
}
