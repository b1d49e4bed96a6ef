//! Controllers that fail, on our charms and on bare Slurm side by side: how long nobody was served, and which jobs were
//! harmed. The stories are in `tests/stories.py`, told by `tests/bench_ha.py`; this file starts them and makes the
//! table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::console::say;
use crate::image::Building;
use crate::{layout, pack, program, setup};

const SIDES: [&str; 2] = ["bare", "ours"];

/// The stories, in the order of the table, and what is said of them there.
const STORIES: &[(&str, &str)] = &[
    ("killed", "slurmctld of the primary is killed"),
    ("stopped", "it is stopped in order"),
    ("rebooted", "its machine is rebooted in order"),
    ("powered_off", "its machine loses power"),
    ("cut_off", "its machine loses network and store"),
    ("frozen", "its machine stands still for 30 s"),
    ("store_frozen", "the store stands still for 30 s"),
    ("store_killed", "the machine of the store loses power for 30 s"),
];

const ABOUT: &str = "
Both sides bear each failure at the same time, on one host. \
A client on a node submits a job each second, and *without control* is the longest time in which none was accepted: \
first in the failure, then on the way back, when Slurm takes half a minute to hand control to a primary that returns. \
Bare Slurm is set up by hand on the same kind of store (MooseFS, autofs), with the units of its packages; an operator \
starts what died as soon as the failure is over. `SlurmctldTimeout` is 10 s.

*Lost* jobs were accepted and never ran, *doubled* ones ran twice, *forgotten* ones ran and nobody knows of them. \
Slurm writes jobs down some seconds after they change, so those of the last seconds before a crash may be any of \
these: *unsaved* says how many of the harmed ones they are. \
*Undone* is what was cancelled, held and drained on the backup while the primary was cut off or stood still, and was \
not so after it came back.

A machine that stands still here takes connections all the same, in its kernel. So clients wait for it although the \
backup serves after some 25 s. When it goes on, a bare primary does so from its memory: the jobs that it had not \
written down are there, and what the backup did meanwhile is undone. Ours is ended, so that nothing of the backup is.
";

/// What one story on one side came to.
#[derive(Debug, Default, Deserialize)]
struct Sample {
    story: String,
    side: String,
    #[serde(default)]
    gaps: BTreeMap<String, f64>,
    #[serde(default)]
    lost: usize,
    #[serde(default)]
    doubled: usize,
    #[serde(default)]
    forgotten: usize,
    /// Of all these, what Slurm had not written down before a crash.
    #[serde(default)]
    unsaved: usize,
    #[serde(default)]
    undone: usize,
    /// Why there are no figures.
    failed: Option<String>,
}

pub(super) fn measure(rounds: usize) -> Result<String> {
    setup::machines()?;
    pack::juju_local()?;
    let image = Building::start(None)?;
    pack::all_charms()?;
    let python = setup::python()?;
    image.finish()?;
    let scratch = tempfile::tempdir().context("no scratch directory")?;
    let results = scratch.path().join("ha.jsonl");
    let mut command = program::program(&python)?;
    command.args(["-m", "pytest", "--verbose", "--capture=no", "-p", "no:cacheprovider", "tests/bench_ha.py"]);
    command.env("HA_RESULTS", &results).env("HA_ROUNDS", rounds.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut path = vec![layout::dist_bin()?];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    command.env("PATH", std::env::join_paths(path)?);
    say(&format!("each story {rounds} times on each side: some minutes for each"));
    let finished = program::tee(&mut command)?;
    ensure!(finished.status.success(), "the stories could not be told, {}", finished.status);
    let text = fs::read_to_string(&results).with_context(|| format!("could not read {}", results.display()))?;
    render(&parse(&text)?)
}

fn parse(text: &str) -> Result<Vec<Sample>> {
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("not a sample: {line}"))).collect()
}

fn render(samples: &[Sample]) -> Result<String> {
    let mut text = String::from(
        "| the primary | side | times | without control | on the way back | lost | doubled | forgotten | unsaved \
         | undone |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (story, words) in STORIES {
        for side in SIDES {
            let of_both = samples.iter().filter(|sample| sample.story == *story && sample.side == side);
            let told: Vec<&Sample> = of_both.filter(|sample| sample.failed.is_none()).collect();
            if told.is_empty() {
                continue;
            }
            let gap = |phase: &str| seconds(told.iter().filter_map(|sample| sample.gaps.get(phase).copied()).collect());
            let sum = |count: fn(&Sample) -> usize| told.iter().map(|sample| count(sample)).sum::<usize>();
            writeln!(
                text,
                "| {words} | {side} | {} | {} | {} | {} | {} | {} | {} | {} |",
                told.len(),
                gap("fault"),
                gap("return"),
                sum(|sample| sample.lost),
                sum(|sample| sample.doubled),
                sum(|sample| sample.forgotten),
                sum(|sample| sample.unsaved),
                sum(|sample| sample.undone),
            )?;
        }
    }
    text.push_str("\nTimes are medians, with the shortest and the longest; jobs are sums over all times.\n");
    text.push_str(ABOUT);
    let failed: Vec<&Sample> = samples.iter().filter(|sample| sample.failed.is_some()).collect();
    if !failed.is_empty() {
        text.push_str("\nThese did not come to their end:\n\n");
    }
    for sample in failed {
        let why = sample.failed.as_deref().unwrap_or_default().replace('\n', " ");
        writeln!(text, "* {}, {}: {why}", sample.story, sample.side)?;
    }
    Ok(text)
}

/// The one in the middle, and both ends.
fn seconds(mut samples: Vec<f64>) -> String {
    samples.sort_by(f64::total_cmp);
    match (samples.first(), samples.get(samples.len() / 2), samples.last()) {
        (Some(least), Some(_), Some(most)) if least == most => format!("{least:.1} s"),
        (Some(least), Some(median), Some(most)) => format!("{median:.1} s ({least:.1} to {most:.1})"),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = concat!(
        r#"{"story":"cut_off","side":"bare","round":0,"gaps":{"fault":13.5,"return":3.0},"lost":32,"doubled":2,"#,
        r#""forgotten":37,"undone":3}"#,
        "\n",
        r#"{"story":"cut_off","side":"ours","round":0,"gaps":{"fault":13.8,"return":29.9},"lost":1,"unsaved":1}"#,
        "\n",
        r#"{"story":"cut_off","side":"ours","round":1,"gaps":{"fault":12.0,"return":28.0},"lost":1}"#,
        "\n",
        r#"{"story":"killed","side":"ours","round":1,"failed":"AssertionError: nobody\nserves"}"#,
        "\n",
    );

    #[test]
    fn both_sides_stand_below_each_other() {
        let text = render(&parse(LINES).unwrap()).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("network and store")).collect();
        assert_eq!(
            rows,
            [
                "| its machine loses network and store | bare | 1 | 13.5 s | 3.0 s | 32 | 2 | 37 | 0 | 3 |",
                "| its machine loses network and store | ours | 2 | 13.8 s (12.0 to 13.8) | 29.9 s (28.0 to 29.9) | 2 \
                 | 0 | 0 | 1 | 0 |",
            ]
        );
    }

    #[test]
    fn a_story_without_an_end_is_named() {
        let text = render(&parse(LINES).unwrap()).unwrap();
        assert!(text.ends_with("\n* killed, ours: AssertionError: nobody serves\n"), "{text}");
        assert!(!text.contains("is killed"));
    }

    #[test]
    fn what_is_no_sample_is_an_error() {
        assert!(parse("ok\n").is_err());
    }
}
