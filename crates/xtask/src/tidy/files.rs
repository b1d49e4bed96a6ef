//! Which files the top level has, and how every Rust file begins.

use anyhow::{Context, Result};

use super::{Findings, source};
use crate::layout;

/// What the top level must have.
const REQUIRED: &[&str] = &[
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "charmcraft",
    "charms",
    "crates",
    "interfaces",
    "justfile",
    "rust-toolchain.toml",
    "tests",
];

/// What it may have beside that and beside dot-files: the last two are made here and belong to no commit.
const ALLOWED: &[&str] = &["docs", "dist", "target"];

/// A file longer than this does more than one thing.
const MOST_LINES: usize = 500;

pub(super) fn check() -> Result<Findings> {
    let root = layout::root()?;
    let missing = REQUIRED.iter().filter(|name| !root.join(name).exists());
    let mut findings: Findings = missing.map(|name| format!("{name} is missing at the top level")).collect();
    for entry in std::fs::read_dir(&root).with_context(|| format!("could not list {}", root.display()))? {
        findings.extend(stray(&entry?.file_name().to_string_lossy()));
    }
    for directory in ["charms", "crates"] {
        for file in source::read(directory, "rs")? {
            findings.extend(complaints(&file.text).into_iter().map(|complaint| format!("{} {complaint}", file.name)));
        }
    }
    Ok(findings)
}

/// Complains about a name at the top level that has no place there.
fn stray(name: &str) -> Option<String> {
    let expected = name.starts_with('.') || REQUIRED.contains(&name) || ALLOWED.contains(&name);
    (!expected).then(|| format!("{name} has no place at the top level: it belongs into one of its directories"))
}

fn complaints(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push("does not begin with a `//!` comment that says what belongs in it".to_owned());
    }
    let lines = text.lines().count();
    if lines > MOST_LINES {
        complaints.push(format!("has {lines} lines, {MOST_LINES} at most: split it by noun"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_is_fixed() {
        for name in ["Cargo.toml", "docs", ".cargo", "target"] {
            assert_eq!(stray(name), None);
        }
        assert!(stray("scripts").is_some_and(|complaint| complaint.starts_with("scripts has no place")));
    }

    #[test]
    fn a_file_begins_with_what_it_is_for() {
        assert!(complaints("//! Reads x.\n\nuse y;\n").is_empty());
        assert_eq!(complaints("use y;\n//! late\n").len(), 1);
        assert_eq!(complaints(&format!("//! Long.\n{}", "\n".repeat(MOST_LINES))).len(), 1);
    }
}
