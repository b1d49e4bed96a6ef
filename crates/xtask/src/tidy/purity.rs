//! Decisions of a charm touch nothing: neither files, processes, sockets, environment nor a clock.
//!
//! For whole crates that are pure clippy sees to it (`crates/slurm-conf/clippy.toml`), and so it does for processes in
//! all crates (`.clippy.toml`). But it has one list for a package, and the rest of a charm, its tests above all, uses
//! files. So this looks for the words. It is no proof: a plan is handed facts, and nothing with which it could reach
//! out.

use anyhow::Result;

use super::{Findings, source};
use crate::layout;

const OUTSIDE: &[&str] =
    &["std::env", "std::fs", "std::net", "std::process", "std::thread", "Instant::", "SystemTime::"];
/// Modules of a charm that decide.
const DECIDING: &[&str] = &["plan", "status"];

pub(super) fn check() -> Result<Findings> {
    let mut findings = Vec::new();
    for charm in layout::charm_directories()? {
        let directory = format!("charms/{}/src", layout::file_name(&charm));
        for file in source::read(&directory, "rs")? {
            if decides(file.name.strip_prefix(&directory).unwrap_or_default()) {
                findings.extend(
                    outside_uses(&file.text).into_iter().map(|used| format!("{} decides and uses {used}", file.name)),
                );
            }
        }
    }
    Ok(findings)
}

/// Says whether `/plan.rs` or `/plan/leave.rs` belongs to a plan or status. Tests may do what they like.
fn decides(name: &str) -> bool {
    let first = name.trim_start_matches('/').split(['/', '.']).next().unwrap_or_default();
    DECIDING.contains(&first) && !name.ends_with("tests.rs")
}

/// Returns what reaches outside, with its line. Comments and tests do not count.
fn outside_uses(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let words = lines.flat_map(|(number, line)| {
        OUTSIDE.iter().filter(|word| line.contains(**word)).map(move |word| format!("{word} (line {})", number + 1))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_outside_is_seen_with_its_line() {
        assert_eq!(outside_uses("\nlet x = std::env::var(\"A\");"), ["std::env (line 2)"]);
        assert_eq!(outside_uses("let now = Instant::now();"), ["Instant:: (line 1)"]);
    }

    #[test]
    fn comments_are_passed_over() {
        assert_eq!(outside_uses("// std::fs is for others\n"), [""; 0]);
    }

    #[test]
    fn tests_at_the_end_are_passed_over() {
        assert_eq!(outside_uses("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"), [""; 0]);
    }

    #[test]
    fn deciding_files_are_known_by_their_place() {
        for name in ["/plan.rs", "/plan/leave.rs", "/status.rs"] {
            assert!(decides(name), "{name}");
        }
        for name in ["/apply.rs", "/observe/plan.rs", "/plan/tests.rs", "/status_tests.rs"] {
            assert!(!decides(name), "{name}");
        }
    }
}
