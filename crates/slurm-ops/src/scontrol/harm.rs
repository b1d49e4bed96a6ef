//! What slurmctld takes without a word although it costs nodes, jobs or clients: found out before it is tried.
//!
//! Each of these was seen on a real cluster. A reconfigure reads the state anew, and what has no room in the tables of the new
//! configuration is forgotten, with the jobs on it. Plugins that only clients and slurmd load are missed when the next of them starts.

use super::by_hand::show_nodes;
use super::{Candidate, ScontrolError, client, refusal, unreachable};
use crate::command::Command;
use crate::machine::Host;
use crate::packages;
use slurm_conf::{SlurmConf, number};

/// Slurm's own values where a file has none.
const MAX_JOB_COUNT: u64 = 10_000;
const FIRST_JOB_ID: u64 = 1;
const MAX_JOB_ID: u64 = 0x03ff_0000;
const SLURMD_TIMEOUT: u64 = 300;

/// A node is asked three times within `SlurmdTimeout`. In less than this a node that is well may miss the answer.
const LEAST_TIMEOUT: u64 = 10;

/// Keys that name plugins which slurmctld does not load itself, and the kind of plugin.
const PLUGINS: [(&str, &str); 5] = [
    ("CliFilterPlugins", "cli_filter"),
    ("JobContainerType", "job_container"),
    ("MpiDefault", "mpi"),
    ("ProctrackType", "proctrack"),
    ("TaskPlugin", "task"),
];

/// Says whether a running cluster is safe with `new` in place of `old`.
///
/// Only what gets worse counts, and slurmctld is asked only if it matters.
pub fn harm(host: &Host, old: &str, new: &str) -> Candidate {
    let read = |text: &str| SlurmConf::parse(text).ok();
    // What cannot be read is the parser's matter.
    let (Some(before), Some(after)) = (read(old), read(new)) else { return Candidate::Readable };
    if let Some(reason) = missing_plugin(host, &before, &after) {
        return Candidate::Refused { reason };
    }
    if let Some(reason) = hasty(&before, &after) {
        return Candidate::Refused { reason };
    }
    match forgotten_nodes(host, &before, &after).and_then(|nodes| match nodes {
        Some(nodes) => Ok(Some(nodes)),
        None => forgotten_jobs(host, &before, &after),
    }) {
        Ok(None) => Candidate::Readable,
        Ok(Some(reason)) => Candidate::Refused { reason },
        // Beside a file that its parser cannot read no client of Slurm works, and slurmctld will not take it.
        Err(ScontrolError::Refused { reason, .. }) if reason.contains("Unable to process configuration file") => {
            Candidate::Readable
        }
        Err(error) => Candidate::Unknown { why: error.to_string() },
    }
}

fn value(conf: &SlurmConf, key: &str) -> Option<u64> {
    conf.get(key).and_then(number)
}

/// Plugins are looked for on this machine alone: it has the clients too, and what the archive gives one machine it gives all.
fn missing_plugin(host: &Host, before: &SlurmConf, after: &SlurmConf) -> Option<String> {
    if after.get("PluginDir").is_some() {
        return None;
    }
    let names = |conf: &SlurmConf, key: &str, kind: &str| -> Vec<String> {
        let words = conf.get(key).unwrap_or_default().split(',').map(|word| word.trim().to_ascii_lowercase());
        words.map(|word| word.strip_prefix(&format!("{kind}/")).map_or(word.clone(), str::to_owned)).collect()
    };
    PLUGINS.into_iter().find_map(|(key, kind)| {
        let known = names(before, key, kind);
        let new = names(after, key, kind).into_iter().filter(|name| !name.is_empty() && !known.contains(name));
        // No plugin is needed for none.
        let mut missing =
            new.filter(|name| name != "none" && !packages::has_plugin(host, &format!("{kind}_{name}.so")));
        missing.next().map(|name| format!("{key}: there is no plugin {kind}/{name} on this machine"))
    })
}

/// Nodes that answer too late are taken for dead, and their jobs with them.
fn hasty(before: &SlurmConf, after: &SlurmConf) -> Option<String> {
    const KEY: &str = "SlurmdTimeout";
    let seconds = |conf| match value(conf, KEY).unwrap_or(SLURMD_TIMEOUT) {
        // For ever.
        0 => u64::MAX,
        seconds => seconds,
    };
    let now = seconds(after);
    (now < LEAST_TIMEOUT && now < seconds(before))
        .then(|| format!("{KEY}={now}: at least {LEAST_TIMEOUT}, or 0 for never: healthy nodes would be set down"))
}

fn forgotten_nodes(host: &Host, before: &SlurmConf, after: &SlurmConf) -> Result<Option<String>, ScontrolError> {
    const KEY: &str = "MaxNodeCount";
    let Some(room) = value(after, KEY).filter(|room| value(before, KEY).is_none_or(|before| *room < before)) else {
        return Ok(None);
    };
    let nodes = lines(&show_nodes(host))?.filter(|line| line.starts_with("NodeName=")).count() as u64;
    Ok((room < nodes).then(|| format!("{KEY}={room}: at least {nodes}, or slurmctld forgets nodes and their jobs")))
}

fn forgotten_jobs(host: &Host, before: &SlurmConf, after: &SlurmConf) -> Result<Option<String>, ScontrolError> {
    let (key, room) = room_for_jobs(after);
    if room >= room_for_jobs(before).1 {
        return Ok(None);
    }
    // Every task of an array counts, and so do jobs that have ended until MinJobAge is over.
    let arguments = ["--noheader", "--all", "--array", "--states=all", "--format=%A"];
    let squeue = client(host, "squeue").args(arguments);
    let jobs = lines(&squeue)?.filter(|line| !line.trim().is_empty()).count() as u64;
    // More may come before slurmctld has read the file.
    let needed = jobs + (jobs / 10).max(10);
    Ok((room < needed).then(|| format!("{key}: at least {needed}, or slurmctld forgets jobs (it has {jobs})")))
}

/// Returns for how many jobs a configuration has room, and what says so.
fn room_for_jobs(conf: &SlurmConf) -> (String, u64) {
    let count = value(conf, "MaxJobCount");
    let last = value(conf, "MaxJobId").unwrap_or(MAX_JOB_ID);
    let numbers = last.saturating_add(1).saturating_sub(value(conf, "FirstJobId").unwrap_or(FIRST_JOB_ID));
    match (count, count.unwrap_or(MAX_JOB_COUNT)) {
        (_, room) if numbers < room => (format!("MaxJobId={last}"), numbers),
        (Some(_), room) => (format!("MaxJobCount={room}"), room),
        (None, room) => (format!("MaxJobCount={room}, the default"), room),
    }
}

fn lines(command: &Command) -> Result<impl Iterator<Item = String>, ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    match output.success() {
        true => Ok(output.stdout.lines().map(str::to_owned).collect::<Vec<_>>().into_iter()),
        false => Err(refusal(command, &output)),
    }
}
