//! `cargo xtask tidy`: everything about the tree that a machine can check. All checks run, and the failed ones are
//! named at the end. The rules themselves are told in ARCHITECTURE.md.

mod charms;
mod dependencies;
mod files;
mod names;
mod purity;
mod source;
mod width;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::console::say;
use crate::program;

/// A finding: one sentence that names the place and what is wrong there.
type Findings = Vec<String>;

/// A check: finds what is wrong, or fails to look.
type Check = fn() -> Result<Findings>;

pub(crate) fn run() -> Result<()> {
    let checks: &[(&str, Check)] = &[
        ("format", || cargo(&["fmt", "--all", "--check"])),
        ("format of the fuzz targets", || cargo(&["fmt", "--manifest-path", "crates/fuzz/Cargo.toml", "--check"])),
        ("clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])),
        // A workspace of its own, which nothing else builds by default: a dependency that came would go unnoticed.
        ("lock file of the fuzz targets", || {
            let arguments =
                ["metadata", "--locked", "--format-version", "1", "--manifest-path", "crates/fuzz/Cargo.toml"];
            program::capture(program::cargo()?.args(arguments), Duration::from_secs(300)).map(|_| Vec::new())
        }),
        ("dependency direction", dependencies::check),
        ("files", files::check),
        ("width of lines", width::check),
        ("purity of decisions", purity::check),
        ("charm descriptions", charms::check),
        ("names", names::check),
    ];
    // It takes minutes to build, so nobody is made to have it. Advisories need the network: they are asked for by hand.
    let deny: &[(&str, Check)] = match program::find_on_path("cargo-deny") {
        Some(_) => &[("licences", || cargo(&["deny", "--locked", "check", "licenses", "bans", "sources"]))],
        None => &[],
    };
    let mut failed = Vec::new();
    for (name, check) in checks.iter().chain(deny) {
        let findings = check().unwrap_or_else(|error| vec![format!("{error:#}")]);
        say(&format!("{name}: {}", if findings.is_empty() { "ok" } else { "FAILED" }));
        for finding in &findings {
            say(&format!("  {finding}"));
        }
        if !findings.is_empty() {
            failed.push(*name);
        }
    }
    if deny.is_empty() {
        say("licences: not looked at, cargo-deny is not installed");
    }
    if !failed.is_empty() {
        bail!("not tidy: {}", failed.join(", "));
    }
    Ok(())
}

fn cargo(arguments: &[&str]) -> Result<Findings> {
    program::run(program::cargo()?.args(arguments)).map(|()| Vec::new())
}

/// Returns what cargo knows about the packages of this workspace.
pub(crate) fn cargo_metadata() -> Result<Value> {
    let mut command = program::cargo()?;
    command.args(["metadata", "--no-deps", "--locked", "--format-version", "1"]);
    let text = program::capture(&mut command, Duration::from_secs(120))?;
    serde_json::from_str(&text).context("`cargo metadata` did not print JSON")
}
