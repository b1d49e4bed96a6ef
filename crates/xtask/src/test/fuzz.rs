//! The fuzz tier: builds the targets of `crates/fuzz` with coverage and gives each some seconds. What a target checks
//! is in its own file; how one fuzzes for longer is in that crate's README.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::counts::Counts;
use super::tiers::Outcome;
use crate::console::say;
use crate::{layout, program, setup};

/// Seconds for each target, unless the command line says otherwise.
const SECONDS: &str = "-max_total_time=5";

/// Longer inputs find the same faults more slowly.
const LONGEST_INPUT: &str = "-max_len=512";

/// What libFuzzer counts coverage by. The stable compiler has these flags, and libFuzzer links against them.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

pub(super) fn run(rest: &[String]) -> Result<Outcome> {
    setup::fuzzing()?;
    let directory = layout::root()?.join("crates/fuzz");
    let target_directory = layout::target_directory()?.join("fuzz");
    build(&directory, &target_directory)?;
    let mut counts = Counts::default();
    for target in targets(&directory)? {
        let corpus = target_directory.join("corpus").join(&target);
        plant(&target, &corpus)?;
        match fuzz(&directory, &target_directory, &target, &corpus, rest) {
            Ok(line) => {
                say(&format!("{target}: {line}"));
                counts.passed += 1;
            }
            Err(error) => {
                say(&format!("{target}: {error:#}"));
                counts.failed += 1;
            }
        }
    }
    Ok(Outcome { counts, succeeded: counts.failed == 0 })
}

fn build(directory: &Path, target_directory: &Path) -> Result<()> {
    let mut command = program::cargo()?;
    command.current_dir(directory).env("CARGO_TARGET_DIR", target_directory);
    command.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    program::run(command.args(["build", "--quiet", "--release", "--locked", "--target", layout::TARGET]))
}

/// Returns the names of the targets: one file each.
fn targets(directory: &Path) -> Result<Vec<String>> {
    let sources = directory.join("fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&sources).with_context(|| format!("could not list {}", sources.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Runs one target, and returns how far it came in a few words.
fn fuzz(directory: &Path, target_directory: &Path, target: &str, corpus: &Path, rest: &[String]) -> Result<String> {
    let findings = target_directory.join("findings");
    fs::create_dir_all(&findings).with_context(|| format!("could not make {}", findings.display()))?;
    let mut command = program::program(target_directory.join(layout::TARGET).join("release").join(target))?;
    command.args([SECONDS, LONGEST_INPUT, "-print_final_stats=1", "-verbosity=0"]).args(rest);
    command.arg(format!("-artifact_prefix={}/{target}-", findings.display())).arg(corpus);
    let seeds = directory.join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    let before = processor_seconds();
    let finished = program::collect(&mut command, Duration::from_secs(3600))?;
    if !finished.status.success() {
        bail!("an input broke it; {}", finished.stderr.trim());
    }
    let executions = statistic(&finished.stderr, "number_of_executed_units").unwrap_or_default();
    let seconds = processor_seconds().saturating_sub(before);
    Ok(format!("{executions} executions in {seconds} s of processor time, no crash"))
}

fn statistic(output: &str, name: &str) -> Option<u64> {
    let prefix = format!("stat::{name}:");
    output.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok())
}

/// Returns how many seconds of processor time all ended child processes took.
fn processor_seconds() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything: cutime and cstime, in hundredths of a second.
    let fields = text.rsplit(')').next().unwrap_or_default().split(' ');
    fields.skip(14).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() / 100
}

/// Puts into a corpus what the tree already has of the kind; libFuzzer grows it from there.
fn plant(target: &str, corpus: &Path) -> Result<()> {
    fs::create_dir_all(corpus).with_context(|| format!("could not make {}", corpus.display()))?;
    let root = layout::root()?;
    let seeds = match target {
        "slurm_conf" => configurations(&read(&root.join("crates/slurm-conf/tests/verdicts/table.jsonl"))?)?,
        "databag" => databags(&root.join("interfaces"))?,
        _ => Vec::new(),
    };
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), seed).context("could not write a seed")?;
    }
    Ok(())
}

/// Returns the texts of the verdict table.
fn configurations(table: &str) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for line in table.lines() {
        let case: Value = serde_json::from_str(line).context("the verdict table is not JSON lines")?;
        texts.extend(case["text"].as_str().map(str::to_owned));
    }
    Ok(texts)
}

/// Returns the examples of every interface, one `key=value` per line as the target takes them.
fn databags(interfaces: &Path) -> Result<Vec<String>> {
    let mut bags = Vec::new();
    for interface in fs::read_dir(interfaces).with_context(|| format!("could not list {}", interfaces.display()))? {
        let examples = interface?.path().join("examples");
        for example in fs::read_dir(&examples).with_context(|| format!("could not list {}", examples.display()))? {
            let path: PathBuf = example?.path();
            let bag: Value =
                serde_json::from_str(&read(&path)?).with_context(|| format!("{} is not JSON", path.display()))?;
            let lines = bag.as_object().into_iter().flatten();
            bags.push(lines.map(|(key, value)| format!("{key}={}\n", value.as_str().unwrap_or_default())).collect());
        }
    }
    Ok(bags)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_libfuzzers_words() {
        let output = "INFO: seed\nstat::number_of_executed_units: 4711\nstat::peak_rss_mb:    40\n";
        assert_eq!(statistic(output, "number_of_executed_units"), Some(4711));
        assert_eq!(statistic("", "number_of_executed_units"), None);
    }

    #[test]
    fn the_tree_has_seeds() {
        let root = layout::root().unwrap();
        let table = read(&root.join("crates/slurm-conf/tests/verdicts/table.jsonl")).unwrap();
        assert!(configurations(&table).unwrap().len() >= 100);
        let bags = databags(&root.join("interfaces")).unwrap();
        assert!(bags.iter().any(|bag| bag.contains("auth_secret_id=\"secret:")), "{bags:?}");
    }
}
