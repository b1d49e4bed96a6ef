//! One dispatch of each charm in a cluster that has settled, beside the smallest charm written with ops. Hook tools
//! repeat what Juju answered the first time, so they cost the start of a small program and nothing more; Slurm and
//! systemd are real.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::lab::{self, Lab, is_active};
use super::table::{median, milliseconds};
use super::{hello, plot};
use crate::console::say;
use crate::image::Building;
use crate::{layout, pack, program, setup};

const SETTLED_WITHIN: Duration = Duration::from_secs(300);
/// Each is measured this often, in turns, so that a busy moment of the machine hits all alike.
const ROUNDS: usize = 5;
const TIMES_IN_A_ROUND: usize = 10;
const CHANGES: usize = 7;
const SETTLED: &str = "settled";
/// A charm of the tests that speaks `mysql_client`.
const DATABASE: &str = "mariadb";
/// The smallest charm with ops, and its unit.
const PEER: (&str, &str) = ("ops hello-world", "hello/0");
const IN_MACHINE: &str = "/var/tmp/bench_tool";
const DIRECTORY: &str = "/var/tmp/bench";

/// The smallest charm with ops takes at least so many times as long as a settled dispatch of ours.
const SETTLED_RATIO: f64 = 6.0;
/// How many processes each dispatch may start.
const PROCESSES: [(&str, usize); 3] =
    [("slurmctld, settled", 18), ("slurmd, settled", 12), ("slurmctld, a partition changes", 12)];

/// What the figures do not show by themselves.
const ABOUT_CHANGES: &str = "
Processes are those that a dispatch starts, itself not counted. A settled dispatch waits for them nearly all its \
time. Looks that do not depend on each other run side by side, so it waits for the longest chain, on two cores. slurmd \
sees an idle node in one line of `sinfo`, with the state of its partition: 5 ms of processor time, where \
`scontrol show node` takes 12 with `--json` and 10 without, and the partition 5 more. slurmctld asks Slurm, systemd \
and the journal beside its hook tools. Of processor time a settled slurmctld has about 38 ms: 7 of its own, 5 each for \
`scontrol`, `systemctl` and `journalctl`, 1 for each hook tool. Half of that is what two cores need at least.

Of what a changed partition starts, seven are hook tools: who leads, the options, the relations, what the application \
says and what it was told, the status, the log. Each further application costs three more: its name and the same two \
bags. Five are `scontrol`: whether slurmctld answers, and with what settings of partitions; the candidate read by \
Slurm's parser, and with it the settings of nodes; the reconfigure; what that took away of what administrators had \
set; the saving of the partitions. What was set by hand costs one more for each partition to put it back, and with \
weights of nodes one more look. A new application costs the look for its secret, the grant and three writes of bags \
besides. While the charm waits for anything it looks at everything, as in `update-status`.
";

/// What was found about one kind of dispatch.
#[derive(Default)]
struct Figures {
    name: String,
    times: Vec<Duration>,
    /// The median of the charm with ops, which was measured in turns with this one.
    reference: Duration,
    /// Peak memory in KiB and processor time of the dispatch itself, without the programs that it started.
    own: Vec<(u64, Duration)>,
    /// Programs that were started, hook tools among them.
    started: Vec<String>,
}

pub(super) fn measure() -> Result<(String, String)> {
    setup::run()?;
    pack::juju_local()?;
    let image = Building::start(None)?;
    pack::all_charms()?;
    pack::test_charm(DATABASE)?;
    image.finish()?;
    let tool = build_tool()?;
    let figures = lab::with(|lab, scratch| {
        let file = scratch.join("hello.charm");
        hello::pack(&file, scratch)?;
        deploy(lab, &file.to_string_lossy())?;
        all(lab, &tool.to_string_lossy())
    })?;
    let bars: Vec<(String, f64)> =
        figures.iter().map(|one| (one.name.clone(), median(&one.times).as_secs_f64() * 1e3)).collect();
    Ok((text(&figures)?, plot::bars("Median of one dispatch", &bars, |value| format!("{value:.1} ms"))))
}

fn build_tool() -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--release", "--locked", "--package", "xtask", "--example", "bench_tool"];
    program::run(program::cargo()?.args(arguments))?;
    layout::release_binary("examples/bench_tool")
}

fn deploy(lab: &Lab<'_>, hello: &str) -> Result<()> {
    for (charm, name) in [("slurmctld", "slurmctld"), ("slurmd", "compute")] {
        lab.juju(&["deploy", &layout::charm_file(charm)?.to_string_lossy(), name])?;
    }
    lab.juju(&["deploy", hello])?;
    lab.juju(&["integrate", "slurmctld", "compute"])?;
    say("waiting for the cluster to settle");
    await_calm(lab, 3, &["slurmctld/0", "compute/0"])
}

/// Waits until so many units are well, and none of these calls itself any more: a unit that still looks again by itself
/// would be measured beside its own calls.
fn await_calm(lab: &Lab<'_>, count: usize, units: &[&str]) -> Result<()> {
    lab.until(SETTLED_WITHIN, |units| {
        units.len() == count
            && units.iter().all(is_active)
            && units.iter().all(|(_, unit)| unit["juju-status"]["current"] == "idle")
    })?;
    let calls = |unit: &&str| -> Result<bool> {
        Ok(lab.juju(&["exec", "--unit", unit, "ls /run/systemd/transient"])?.contains("-retry.timer"))
    };
    lab.eventually(SETTLED_WITHIN, || Ok(!units.iter().map(calls).collect::<Result<Vec<_>>>()?.contains(&true)))
}

/// What follows the controllers comes after the pair was measured: the controllers look at it as well.
fn followers(lab: &Lab<'_>, tool: &str) -> Result<Vec<Figures>> {
    lab.juju(&["deploy", &layout::charm_file(DATABASE)?.to_string_lossy(), "mysql"])?;
    for (charm, name) in [("sackd", "login"), ("slurmrestd", "rest"), ("slurmdbd", "slurmdbd")] {
        lab.juju(&["deploy", &layout::charm_file(charm)?.to_string_lossy(), name])?;
        lab.juju(&["integrate", name, "slurmctld"])?;
    }
    lab.juju(&["integrate", "slurmdbd", "mysql"])?;
    say("waiting for the login node, accounting and the REST API to settle");
    await_calm(lab, 7, &["slurmctld/0", "login/0", "rest/0", "slurmdbd/0"])?;
    let units = [PEER, ("sackd", "login/0"), ("slurmrestd", "rest/0"), ("slurmdbd", "slurmdbd/0")];
    // The peer is in the table already. Here it is measured beside these, which may be a busier time.
    Ok(settled(lab, tool, &units)?.split_off(1))
}

fn all(lab: &Lab<'_>, tool: &str) -> Result<Vec<Figures>> {
    let mut figures = settled(lab, tool, &[PEER, ("slurmctld", "slurmctld/0"), ("slurmd", "compute/0")])?;
    figures.push(changed_partition(lab)?);
    figures.extend(followers(lab, tool)?);
    Ok(figures)
}

/// Measures an `update-status` of each of these units, in turns. The first one is what the others are held against.
fn settled(lab: &Lab<'_>, tool: &str, units: &[(&str, &str)]) -> Result<Vec<Figures>> {
    for (_, unit) in units {
        lab.juju(&["scp", tool, &format!("{unit}:{IN_MACHINE}")])?;
        lab.juju(&["exec", "--unit", unit, &format!("chmod 755 {IN_MACHINE}")])?;
        // The first time Juju is asked, and Python compiles.
        update_status(lab, unit, "time", 3)?;
    }
    let mut figures: Vec<Figures> =
        units.iter().map(|(name, _)| Figures { name: format!("{name}, {SETTLED}"), ..Figures::default() }).collect();
    for _ in 0..ROUNDS {
        for (one, (_, unit)) in figures.iter_mut().zip(units) {
            one.times.extend(durations(&update_status(lab, unit, "time", TIMES_IN_A_ROUND)?)?);
        }
    }
    let reference = figures.first().map(|peer| median(&peer.times)).unwrap_or_default();
    for (one, (_, unit)) in figures.iter_mut().zip(units) {
        one.reference = reference;
        one.own = own(&update_status(lab, unit, "own", TIMES_IN_A_ROUND)?);
        one.started = words(&update_status(lab, unit, "count", 1)?);
    }
    Ok(figures)
}

/// A partition that changes: the compute application's bag says something else each time.
fn changed_partition(lab: &Lab<'_>) -> Result<Figures> {
    let mut figures = Figures { name: "slurmctld, a partition changes".to_owned(), ..Figures::default() };
    let relation = lab.juju(&["exec", "--unit", "slurmctld/0", "relation-ids slurmd"])?;
    let mut minutes = 60;
    let mut change = |what: &str| {
        minutes += 1;
        let variables = format!(
            "JUJU_DISPATCH_PATH=hooks/slurmd-relation-changed JUJU_HOOK_NAME=slurmd-relation-changed \
             JUJU_RELATION=slurmd JUJU_RELATION_ID={} JUJU_REMOTE_APP=compute JUJU_REMOTE_UNIT= \
             BENCH_REPLACE='{{\\\"partitionname\\\"|{{\\\"maxtime\\\":{minutes},\\\"partitionname\\\"'",
            relation.trim()
        );
        dispatch(lab, "slurmctld/0", &variables, what, 1)
    };
    for _ in 0..CHANGES {
        figures.times.extend(durations(&change("time")?)?);
    }
    for _ in 0..CHANGES {
        figures.own.extend(own(&change("own")?));
    }
    figures.started = words(&change("count")?);
    let written = lab.juju(&["exec", "--unit", "slurmctld/0", "cat /etc/slurm/slurm.conf"])?;
    anyhow::ensure!(written.contains(&format!("MaxTime={minutes}")), "the partition was not changed:\n{written}");
    Ok(figures)
}

fn update_status(lab: &Lab<'_>, unit: &str, what: &str, times: usize) -> Result<String> {
    dispatch(lab, unit, "JUJU_DISPATCH_PATH=hooks/update-status JUJU_HOOK_NAME=update-status", what, times)
}

fn dispatch(lab: &Lab<'_>, unit: &str, variables: &str, what: &str, times: usize) -> Result<String> {
    let script =
        format!("cd \"$JUJU_CHARM_DIR\" && env {variables} {IN_MACHINE} {DIRECTORY} {what} {times} \"$PWD/dispatch\"");
    lab.juju(&["exec", "--unit", unit, &script])
}

fn durations(text: &str) -> Result<Vec<Duration>> {
    let nanos = |line: &str| line.trim().parse().map(Duration::from_nanos);
    text.lines().map(nanos).collect::<Result<_, _>>().with_context(|| format!("expected nanoseconds, found {text:?}"))
}

fn own(text: &str) -> Vec<(u64, Duration)> {
    let pair = |line: &str| {
        let (peak, nanos) = line.trim().split_once(' ')?;
        Some((peak.parse().ok()?, Duration::from_nanos(nanos.parse().ok()?)))
    };
    text.lines().filter_map(pair).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn text(figures: &[Figures]) -> Result<String> {
    let mut text = format!(
        "`update-status` in a cluster that has settled, and a `slurmd-relation-changed` that changes a partition, with \
         a reconfigure of the real slurmctld. Hook tools repeat recorded answers and cost the start of a small program \
         each; systemd and Slurm are real. Beside them, in the same run, the smallest charm written with ops {}.\n\n\
         | dispatch | median | fastest | slowest | beside ops | own processor time | own peak memory | processes |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        hello::version()?
    );
    for one in figures {
        let middle = median(&one.times);
        let processor: Vec<Duration> = one.own.iter().map(|(_, spent)| *spent).collect();
        // A hook that changes something is not the same as one that does not.
        let beside = match one.name.ends_with(SETTLED) {
            true => format!("1/{:.1}", ratio(one)),
            false => "–".to_owned(),
        };
        let edge = |edge: Option<&Duration>| edge.map_or_else(|| "–".to_owned(), |edge| milliseconds(*edge));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {beside} | {} | {:.1} MiB | {} |",
            one.name,
            milliseconds(middle),
            edge(one.times.iter().min()),
            edge(one.times.iter().max()),
            milliseconds(median(&processor)),
            one.own.iter().map(|(peak, _)| *peak).max().unwrap_or_default() as f64 / 1024.0,
            one.started.len()
        );
    }
    text.push_str(&goals(figures)?);
    text.push_str("\n![median of each dispatch](dispatch.svg)\n\nPrograms that were started, in order:\n\n");
    for one in figures {
        let _ = writeln!(text, "* {}: {}", one.name, one.started.join(", "));
    }
    text.push_str(ABOUT_CHANGES);
    Ok(text)
}

/// How many dispatches take as long as one of the charm with ops.
fn ratio(one: &Figures) -> f64 {
    one.reference.as_secs_f64() / median(&one.times).as_secs_f64()
}

/// Holds the figures against what we owe.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn goals(figures: &[Figures]) -> Result<String> {
    let mut text = "\n| goal | wanted | measured | |\n| --- | --- | --- | --- |\n".to_owned();
    let mut row = |goal: &str, wanted: &str, measured: &str, met: bool| {
        let verdict = if met { "met" } else { "**missed**" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {goal} | {wanted} | {measured} | {verdict} |");
    };
    for one in figures.iter().skip(1) {
        if one.name.ends_with(SETTLED) {
            let ratio = ratio(one);
            let wanted = format!("1/{SETTLED_RATIO:.0} of ops at most");
            row(&one.name, &wanted, &format!("1/{ratio:.1}"), ratio >= SETTLED_RATIO);
        }
        if let Some((_, most)) = PROCESSES.iter().find(|(name, _)| *name == one.name) {
            let (wanted, started) = (format!("{most} processes at most"), one.started.len());
            row(&one.name, &wanted, &started.to_string(), started <= *most);
        }
        let peak = one.own.iter().map(|(peak, _)| *peak).max().unwrap_or_default() as f64 / 1024.0;
        row(&one.name, "8 MiB at most", &format!("{peak:.1} MiB"), peak <= 8.0);
    }
    for charm in ["sackd", "slurmctld", "slurmd", "slurmdbd", "slurmrestd"] {
        let file = layout::charm_file(charm)?;
        let size = fs::metadata(&file).with_context(|| format!("there is no {}", file.display()))?.len() as f64 / 1e6;
        row(&layout::file_name(&file), "2 MB at most", &format!("{size:.2} MB"), size <= 2.0);
    }
    Ok(text)
}
