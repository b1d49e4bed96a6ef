//! Which code may touch the world: decisions and values may not, and what starts processes does so in one place.

use std::path::PathBuf;

use anyhow::Result;

use super::{Findings, rust_source};
use crate::layout;

/// Modules of the standard library that reach outside.
const OUTSIDE: &[&str] = &["env", "fs", "net", "process"];
/// Types that read a clock.
const CLOCKS: &[&str] = &["Instant", "OffsetDateTime", "SystemTime", "UtcDateTime"];
/// Files of a charm that decide, and so must be pure.
const DECIDING: &[&str] = &["plan", "status"];

/// Checks that values and decisions use neither files, processes, sockets, environment nor a clock.
pub(super) fn check_pure_modules() -> Result<Findings> {
    let root = layout::root()?;
    let mut files = Vec::new();
    for name in ["slurm-conf", "slurm-interface"] {
        files.extend(rust_source::files(&root.join("crates").join(name).join("src"))?);
    }
    for charm in layout::charm_directories()? {
        files.extend(
            rust_source::files(&charm.join("src"))?.into_iter().filter(|path| decides(&charm.join("src"), path)),
        );
    }
    let mut findings = Vec::new();
    for path in files.iter().filter(|path| !rust_source::is_test_file(path)) {
        let code = rust_source::read(path)?.without_tests();
        let shown = path.strip_prefix(&root).unwrap_or(path).display();
        findings.extend(outside_uses(&code).into_iter().map(|used| format!("{shown} is pure and uses {used}")));
    }
    Ok(findings)
}

/// Says whether a charm's file belongs to its plan or status: `plan.rs`, or anything below `plan/`.
fn decides(source: &std::path::Path, path: &std::path::Path) -> bool {
    let relative = path.strip_prefix(source).unwrap_or(path);
    let first = relative.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    first.is_some_and(|first| DECIDING.contains(&first.trim_end_matches(".rs")))
}

/// Returns what reaches outside in this code, with its line.
fn outside_uses(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (position, _) in code.match_indices("std::") {
        if code[..position].ends_with(|sign: char| sign.is_alphanumeric() || sign == '_') {
            continue;
        }
        let line = code[..position].matches('\n').count() + 1;
        let roots = path_roots(&code[position + "std::".len()..]);
        found.extend(
            roots.into_iter().filter(|root| OUTSIDE.contains(root)).map(|root| format!("std::{root} (line {line})")),
        );
    }
    for (number, line) in code.lines().enumerate() {
        let words = line.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
        found.extend(words.filter(|word| CLOCKS.contains(word)).map(|word| format!("{word} (line {})", number + 1)));
    }
    found
}

/// Returns the first names after `std::`: one, or one for each part of a group in braces.
fn path_roots(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else { return vec![first_word(rest)] };
    let mut roots = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (position, sign) in group.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                roots.push(first_word(&group[start..position]));
                start = position + 1;
            }
            _ => {}
        }
        if sign == '}' && depth == 0 && start == position + 1 {
            break;
        }
    }
    roots
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(text.len());
    &text[..end]
}

/// Checks that each library with effects starts processes in one place, and that the charms start none themselves.
pub(super) fn check_process_sites() -> Result<Findings> {
    let root = layout::root()?;
    let mut scopes: Vec<(PathBuf, usize)> =
        ["charm", "slurm-ops"].iter().map(|name| (root.join("crates").join(name).join("src"), 1)).collect();
    scopes.extend(layout::charm_directories()?.into_iter().map(|charm| (charm.join("src"), 0)));
    let mut findings = Vec::new();
    for (directory, allowed) in scopes {
        let mut sites = Vec::new();
        for path in rust_source::files(&directory)?.iter().filter(|path| !rust_source::is_test_file(path)) {
            let code = rust_source::read(path)?.without_tests();
            let shown = path.strip_prefix(&root).unwrap_or(path).display().to_string();
            sites.extend(process_sites(&code).into_iter().map(|line| format!("{shown}:{line}")));
        }
        if sites.len() > allowed {
            let shown = directory.strip_prefix(&root).unwrap_or(&directory).display().to_string();
            findings.push(format!(
                "{shown} starts processes in {} places, {allowed} allowed: {}",
                sites.len(),
                sites.join(", ")
            ));
        }
    }
    Ok(findings)
}

/// Returns the lines that prepare a process with the standard library. A crate's own type called `Command` does not count.
fn process_sites(code: &str) -> Vec<usize> {
    const NEW: &str = "Command::new";
    let groups = code.match_indices("process::{").map(|(position, opening)| {
        let group = &code[position + opening.len()..];
        &group[..group.find('}').unwrap_or(group.len())]
    });
    let mut imported = groups.flat_map(|group| group.split(|sign: char| !sign.is_alphanumeric()));
    let is_imported = imported.any(|word| word == "Command") || code.contains("std::process::Command;");
    let sites = code.match_indices(NEW).map(|(position, _)| &code[..position]);
    sites
        .filter(|before| if before.ends_with("::") { before.ends_with("process::") } else { is_imported })
        .map(|before| before.matches('\n').count() + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn paths_and_groups_are_seen() {
        assert_eq!(outside_uses("use std::fs;"), ["std::fs (line 1)"]);
        assert_eq!(outside_uses("\nlet x = std::env::var(\"A\");"), ["std::env (line 2)"]);
        assert_eq!(
            outside_uses("use std::{collections::{BTreeMap, BTreeSet}, process::Command, fmt};"),
            ["std::process (line 1)"]
        );
        assert_eq!(outside_uses("use std::{fmt,\n  net};"), ["std::net (line 1)"]);
    }

    #[test]
    fn clocks_are_seen() {
        assert_eq!(outside_uses("use std::time::{Duration, Instant};"), ["Instant (line 1)"]);
    }

    #[test]
    fn what_only_looks_alike_is_not() {
        assert_eq!(
            outside_uses("use std::fmt; use std::{str::FromStr, error}; fn processed() { my_std::fs() }"),
            [""; 0]
        );
        assert_eq!(outside_uses("use std::{fmt}; mod x { use y::{fs, net}; }"), [""; 0]);
    }

    #[test]
    fn processes_of_the_standard_library_are_seen_however_it_is_imported() {
        assert_eq!(process_sites("use std::process::Command;\nfn f() { Command::new(a); }"), [2]);
        assert_eq!(process_sites("use std::process::{Child, Command};\n\nfn f() { Command::new(a); }"), [3]);
        assert_eq!(process_sites("fn f() { std::process::Command::new(a); process::Command::new(b); }"), [1, 1]);
        assert_eq!(
            process_sites("use crate::command::Command;\nfn f() { Command::new(a); own::Command::new(b); }"),
            [0; 0]
        );
    }

    #[test]
    fn deciding_files_are_known_by_their_place() {
        let source = Path::new("charms/slurmd/src");
        assert!(decides(source, &source.join("plan.rs")));
        assert!(decides(source, &source.join("plan/leave.rs")));
        assert!(decides(source, &source.join("status.rs")));
        assert!(!decides(source, &source.join("apply.rs")));
    }
}
