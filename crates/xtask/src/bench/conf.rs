//! slurm.conf: load it, add one partition, write it, by our library and by the one of the Python charms, over the size
//! of the file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::SLURMUTILS;
use super::plot::{self, Curve};
use super::table::{median, milliseconds};
use crate::console::say;
use crate::{layout, program, setup};

const SIZES: &[usize] = &[10, 100, 1_000, 10_000];
const GOAL: &str = "10,000 partitions within 50 ms, and no worse than linear";
const TIMES: &str = "51";
/// A library that has not added a partition by then is not asked about a larger file.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one library took for one size; nothing if it did not end in time.
type Samples = Option<Vec<Duration>>;

pub(super) fn measure() -> Result<(String, String)> {
    let ours = build_ours()?;
    let scratch = tempfile::tempdir().context("no scratch directory")?;
    let file = scratch.path().join("slurm.conf");
    let script = layout::root()?.join("tests/slurmutils/add_partition.py");
    let mut libraries: Vec<(String, Vec<Samples>)> = vec![("slurm-conf".to_owned(), Vec::new())];
    libraries.extend(SLURMUTILS.iter().map(|version| (format!("slurmutils {version}"), Vec::new())));
    let interpreters = SLURMUTILS.iter().map(|version| environment(version)).collect::<Result<Vec<_>>>()?;
    for size in SIZES {
        for (number, (name, samples)) in libraries.iter_mut().enumerate() {
            fs::write(&file, configuration(*size)).context("could not write a slurm.conf")?;
            let found = match number.checked_sub(1) {
                None => Some(run(&ours, &[], &file, TIMES)?),
                Some(_) if samples.iter().any(Option::is_none) => None,
                Some(index) => {
                    let script = script.to_string_lossy();
                    let times = if *size < 100 { "5" } else { "1" };
                    run(&interpreters[index], &[&script], &file, times)
                        .or_else(|error| gave_up(&error))
                        .map(non_empty)?
                }
            };
            say(&format!("{name}, {size} partitions: {}", shown(&found)));
            samples.push(found);
        }
    }
    Ok((text(&libraries), drawing(&libraries)))
}

fn non_empty(samples: Vec<Duration>) -> Samples {
    Some(samples).filter(|samples| !samples.is_empty())
}

/// Not ending in time is a result, not a failure of the benchmark.
fn gave_up(error: &anyhow::Error) -> Result<Vec<Duration>> {
    let message = format!("{error:#}");
    if message.contains("did not end within") { Ok(Vec::new()) } else { Err(anyhow::anyhow!(message)) }
}

fn build_ours() -> Result<PathBuf> {
    let arguments =
        ["build", "--quiet", "--release", "--locked", "--package", "slurm-conf", "--example", "add_partition"];
    program::run(program::cargo()?.args(arguments))?;
    layout::release_binary("examples/add_partition")
}

/// Returns the interpreter of an environment with one version of slurmutils, which the comparison tests use as well.
fn environment(version: &str) -> Result<PathBuf> {
    setup::python()?;
    let directory = layout::target_directory()?.join(format!("slurmutils-{version}"));
    let interpreter = directory.join("bin/python");
    if !directory.join("complete").exists() {
        let patience = Duration::from_secs(300);
        program::capture(program::program("python3")?.args(["-m", "venv", "--clear"]).arg(&directory), patience)?;
        let package = format!("slurmutils=={version}");
        let mut install = program::program(&interpreter)?;
        program::capture(install.args(["-m", "pip", "install", "--quiet", &package]), patience)?;
        fs::write(directory.join("complete"), "").context("could not finish an environment")?;
    }
    Ok(interpreter)
}

/// Runs a program that prints nanoseconds.
fn run(interpreter: &Path, before: &[&str], file: &Path, times: &str) -> Result<Vec<Duration>> {
    let mut command = program::program(interpreter)?;
    let text = program::capture(command.args(before).arg(file).arg(times), PATIENCE)?;
    let nanos = |line: &str| line.trim().parse().map(Duration::from_nanos);
    text.lines().map(nanos).collect::<Result<_, _>>().with_context(|| format!("expected nanoseconds, found {text:?}"))
}

/// Returns a file as the charms write it, with that many partitions.
fn configuration(partitions: usize) -> String {
    let mut text =
        String::from("ClusterName=lab\nSlurmctldHost=c1\nAuthType=auth/slurm\nKillWait=30\nReturnToService=1\n");
    for number in 0..partitions {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "NodeSet=p{number} Feature=p{number}");
        let _ = writeln!(text, "PartitionName=p{number} Nodes=p{number} MaxTime=60 State=up");
    }
    text
}

fn shown(samples: &Samples) -> String {
    match samples {
        Some(samples) => {
            let fastest = samples.iter().min().copied().unwrap_or_default();
            format!("{} ({})", milliseconds(median(samples)), milliseconds(fastest))
        }
        None => format!("not within {} s", PATIENCE.as_secs()),
    }
}

fn text(libraries: &[(String, Vec<Samples>)]) -> String {
    let mut text = format!(
        "Reads a slurm.conf, adds one partition with its node set, writes the file. Median, and in brackets the \
         fastest: of 51 times, of slurmutils 5 times, and once from 100 partitions on. The start of the programs does \
         not count. Goal: {GOAL}.\n\n| partitions |"
    );
    let names: Vec<&str> = libraries.iter().map(|(name, _)| name.as_str()).collect();
    let _ = write!(text, " {} |\n| --- |{}\n", names.join(" | "), " --- |".repeat(names.len()));
    for (row, size) in SIZES.iter().enumerate() {
        let cells: Vec<String> = libraries.iter().map(|(_, samples)| shown(&samples[row])).collect();
        let _ = writeln!(text, "| {size} | {} |", cells.join(" | "));
    }
    text.push_str("\n![time over the number of partitions](conf.svg)\n");
    text
}

#[expect(clippy::cast_precision_loss, reason = "for a drawing")]
fn drawing(libraries: &[(String, Vec<Samples>)]) -> String {
    let curves: Vec<Curve> = libraries
        .iter()
        .map(|(name, samples)| {
            let measured = SIZES.iter().zip(samples).filter_map(|(size, samples)| Some((size, samples.as_ref()?)));
            let points = measured.map(|(size, samples)| (*size as f64, median(samples).as_secs_f64() * 1e3)).collect();
            Curve { name: name.clone(), points }
        })
        .collect();
    plot::render("Add one partition to slurm.conf", "partitions in the file", &curves, |power| format!("{power} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_end_has_a_cell_and_no_point() {
        let fast = Some(vec![Duration::from_millis(1); 3]);
        let libraries = [
            ("ours".to_owned(), vec![fast.clone(), fast.clone(), fast.clone(), fast.clone()]),
            ("theirs".to_owned(), vec![fast, Some(vec![Duration::from_secs(9)]), None, None]),
        ];
        assert!(text(&libraries).contains("| 1000 | 1.00 ms (1.00 ms) | not within 60 s |\n"), "{}", text(&libraries));
        assert_eq!(drawing(&libraries).matches("<circle").count(), 6);
    }

    #[test]
    fn the_file_has_as_many_partitions_as_wanted() {
        assert_eq!(configuration(7).matches("PartitionName=").count(), 7);
    }
}
