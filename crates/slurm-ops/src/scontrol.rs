//! Talk with slurmctld through `scontrol`. Words of Slurm's answers are matched here and nowhere else.
//!
//! Slurm's clients exit with 1 both when slurmctld says no and when nobody could be asked. The two are told apart by
//! the text, and whatever is not surely an answer counts as "could not ask".

mod by_hand;
mod glance;
mod jobs;
mod judge;
mod node;
mod partition;
mod processes;
mod reboot;
mod reconfigure;
mod reservation;
mod settings;
mod smoke;
mod token;

pub use by_hand::{job_count, node_count, node_settings, partition_settings, update};
pub use glance::{Glance, glance};
pub use jobs::{
    JobPhase, JobRecord, LocalJobs, cancel_jobs, job_records, jobs, jobs_at_work, jobs_on, jobs_waiting_for, local_jobs,
};
pub use judge::{judge_node, judge_partition};
pub use node::{
    NodeLookup, NodeNotes, NodeRecord, NodeWord, Nodes, await_contact, delete_node, drain_nodes, fail_node, node,
    nodes, resume_nodes, save_node, set_node_comment, set_node_features, set_node_notes, set_node_reason,
    set_node_weight, set_nodes_state,
};
pub use partition::{
    PartitionRecord, PartitionState, delete_partition, partitions, save_partitions, set_partition_state,
};
pub use processes::{JobProcesses, job_processes, longest_prolog};
pub use reboot::{AfterReboot, cancel_reboot, reboot_node};
pub(crate) use reconfigure::with_candidate;
pub use reconfigure::{Candidate, Reconfigure, can_reconfigure, check, check_and_ask, is_shut_out, reconfigure};
pub use reservation::{ReservationRecord, reservations, reservations_naming};
pub use settings::{ControllerSettings, settings};
pub use smoke::{Smoke, smoke};
pub use token::{Token, UserName, token};

use crate::command::{Command, CommandError, Output};
use crate::machine::{Host, HostWriter};
use crate::systemd;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Name resolution and silent controllers cost scontrol up to 20 s before it gives up; no hook should wait longer than
/// that.
const DEADLINE: Duration = Duration::from_secs(25);
/// The JSON dialect that both 24.11 and 26.05 speak.
const JSON: &str = "--json=v0.0.42";

/// Something that slurmctld was asked to do and that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScontrolError {
    /// Nobody could be asked; whether it was done is not known.
    #[error("could not reach slurmctld: {why}")]
    Unreachable {
        /// The last thing that was said about it.
        why: String,
    },
    /// slurmctld said no.
    #[error("`{command}` was refused: {reason}")]
    Refused {
        /// The whole command line.
        command: String,
        /// What slurmctld said.
        reason: String,
    },
}

/// What slurmctld says no to, as far as somebody may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A node that is named is not there. Members of a list that are there were changed all the same.
    NoSuchNode,
    /// A node is in a state from which the wanted one cannot be reached: most often it is there already.
    NodeState,
    /// Jobs are on the node, or are just leaving it.
    NodesBusy,
    /// Draining and downing want a reason.
    ReasonMissing,
    /// There is no such partition.
    NoSuchPartition,
    /// Jobs name the partition.
    PartitionBusy,
    /// The user may not do this.
    NotAllowed,
    /// Something else; the text says what.
    Other,
}

impl ScontrolError {
    /// Tells whether the client could not read the configuration in place. Then none works, and slurmctld was not
    /// asked.
    pub fn is_unparsable(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason.contains("Unable to process configuration file"))
    }

    /// Returns what was refused. `None`: nobody could be asked.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Refused { reason, .. } = self else { return None };
        let known = [
            ("Invalid node name", Refusal::NoSuchNode),
            ("Invalid node state specified", Refusal::NodeState),
            // 26.05 has other words for it.
            ("Invalid node state transition", Refusal::NodeState),
            ("Requested nodes are busy", Refusal::NodesBusy),
            ("You must specify a reason", Refusal::ReasonMissing),
            ("Invalid partition name specified", Refusal::NoSuchPartition),
            ("Partition is in use", Refusal::PartitionBusy),
            ("Access/permission denied", Refusal::NotAllowed),
        ];
        Some(known.iter().find(|(words, _)| reason.contains(words)).map_or(Refusal::Other, |(_, refusal)| *refusal))
    }
}

/// One configured controller and whether it answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ControllerPing {
    /// Host name, as slurm.conf has it.
    pub hostname: String,
    /// Whether it answered.
    pub responding: bool,
}

/// Asks every configured controller whether it is there: the primary first, then the backups by rank. That is the
/// configured one, and does not tell who is active.
pub fn ping(host: &Host) -> Result<Vec<ControllerPing>, ScontrolError> {
    #[derive(Deserialize)]
    struct Pings {
        pings: Vec<ControllerPing>,
    }
    // The exit status says nothing: with JSON it is 0 even if all are down.
    let (_, output) = run_json(|json| scontrol(host).args(["ping", json]))?;
    let answer: Result<Pings, _> = serde_json::from_str(&output.stdout);
    answer.map(|answer| answer.pings).map_err(|_| ScontrolError::Unreachable { why: output.complaint().to_owned() })
}

/// Has the controller of this rank take over. The one that serves saves its state and ends, which is no failure of it.
pub fn take_over(writer: &HostWriter, rank: usize) -> Result<(), ScontrolError> {
    change(&scontrol(writer.host()).args(["takeover", &rank.to_string()]))
}

/// Starts slurmctld and waits a moment for it to answer: it says that it is ready before it serves. That it does not
/// answer is no failure of this call.
pub fn start_controller(writer: &HostWriter, service: &str, patience: Duration) -> Result<(), CommandError> {
    systemd::enable(writer, service)?;
    start_again(writer, service, patience)
}

/// Does the same with one that was stopped for a moment, and so starts with the machine already.
pub fn start_again(writer: &HostWriter, service: &str, patience: Duration) -> Result<(), CommandError> {
    const PAUSE: Duration = Duration::from_millis(100);
    // A unit that failed too often in a short time is else refused for a while.
    systemd::reset_failed(writer, service)?;
    systemd::start_no_block(writer, service)?;
    let end = Instant::now() + patience;
    while Instant::now() < end {
        let unit = systemd::state(writer.host(), service)?;
        let answers = || ping(writer.host()).is_ok_and(|answers| answers.iter().any(|answer| answer.responding));
        if unit.active == "failed" || unit.sub == "auto-restart" || (unit.is_active() && answers()) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Asks the slurmctld that serves what time it is, in seconds since 1970. `None`: nobody could be asked.
///
/// What Slurm's machines say to each other is good for a minute by the clock of whoever hears it.
pub fn controller_clock(host: &Host) -> Option<u64> {
    let output = client(host, "sdiag").run().ok()?;
    clock(&output.stdout)
}

/// Asks slurmctld how many records it keeps for slurmdbd. `None`: it could not be asked.
pub fn queued_records(host: &Host) -> Option<u64> {
    let output = client(host, "sdiag").run().ok()?;
    let line = output.stdout.lines().find_map(|line| line.trim().strip_prefix("DBD Agent queue size:"))?;
    line.trim().parse().ok()
}

/// The line is `sdiag output at <date> (1794850942)`.
fn clock(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("sdiag output at"))?;
    line.rsplit_once('(')?.1.trim_end().strip_suffix(')')?.parse().ok()
}

/// Runs a question with the pinned dialect, and with the default one of a Slurm that no longer has it.
fn run_json(command: impl Fn(&'static str) -> Command) -> Result<(Command, Output), ScontrolError> {
    let pinned = command(JSON);
    let output = pinned.output().map_err(|error| unreachable(&error))?;
    if output.success() || !output.stderr.contains("unable to find plugin: data_parser/") {
        return Ok((pinned, output));
    }
    tracing::debug!("this Slurm does not speak {JSON} any more");
    let default = command("--json");
    let output = default.output().map_err(|error| unreachable(&error))?;
    Ok((default, output))
}

/// Asks a question and decodes the answer.
fn ask<T: DeserializeOwned>(command: impl Fn(&'static str) -> Command) -> Result<T, ScontrolError> {
    let (command, output) = run_json(command)?;
    if !output.success() {
        return Err(refusal(&command, &output));
    }
    serde_json::from_str(&output.stdout)
        .map_err(|error| ScontrolError::Unreachable { why: command.unreadable(error).to_string() })
}

/// Prepares a client of Slurm. What this process was told about where the configuration is does not count.
fn client(host: &Host, program: &str) -> Command {
    let command = host.command(program).env_remove("SLURM_CONF").deadline(DEADLINE);
    match host.fetched_conf() {
        Some(path) => command.env("SLURM_CONF", path),
        None => command,
    }
}

fn scontrol(host: &Host) -> Command {
    client(host, "scontrol")
}

/// Runs a command that changes something.
fn change(command: &Command) -> Result<(), ScontrolError> {
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(()) } else { Err(refusal(command, &output)) }
}

fn refusal(command: &Command, output: &Output) -> ScontrolError {
    if could_not_ask(output) {
        ScontrolError::Unreachable { why: output.complaint().to_owned() }
    } else {
        ScontrolError::Refused { command: command.to_string(), reason: output.complaint().to_owned() }
    }
}

fn unreachable(error: &CommandError) -> ScontrolError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    ScontrolError::Unreachable { why: format!("{error}{cause}") }
}

/// A number that Slurm may leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
struct MaybeNumber {
    set: bool,
    infinite: bool,
    number: u64,
}

impl MaybeNumber {
    fn finite(self) -> Option<u64> {
        (self.set && !self.infinite).then_some(self.number)
    }
}

/// Text that goes into tables and logs of Slurm stays on its line.
fn one_line(reason: &str) -> String {
    let line: String = reason.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    let line = line.trim();
    if line.is_empty() { "unspecified".to_owned() } else { line.to_owned() }
}

/// What Slurm's clients say when slurmctld did not decide anything.
fn could_not_ask(output: &Output) -> bool {
    [
        "Unable to contact slurm controller",
        "Socket timed out",
        "connect failure",
        "authentication error",
        "Could not establish a configuration source",
        "standby mode",
        "Zero Bytes were transmitted",
        "Communication connection failure",
        "Unexpected message received",
        "failed to connect to any sack sockets",
        "failed to initialize auth plugin",
    ]
    .iter()
    .any(|sign| output.stderr.contains(sign) || output.stdout.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn the_time_of_slurmctld_is_read() {
        let text = "****\nsdiag output at Mon Nov 16 17:42:22 2026 (1794850942)\nData since      Mon Nov 16 17:20:03 2026 (1794849603)\n";
        assert_eq!(clock(text), Some(1_794_850_942));
        assert_eq!(clock("sdiag output at (x)\n"), None);
        assert_eq!(clock(""), None);
    }

    #[test]
    fn clients_read_what_the_daemon_fetched_while_there_is_one() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("scontrol");
        std::fs::write(&program, "#!/bin/sh\necho \"${SLURM_CONF-none}\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", root.path().display());
        let machine = Machine::at(root.path()).with_search_path(path).with_fetched_conf("/run/slurm/conf/slurm.conf");
        let told = || scontrol(&machine.host()).run().unwrap().stdout.trim().to_owned();
        assert_eq!(told(), "none");
        let conf = root.path().join("run/slurm/conf/slurm.conf");
        std::fs::create_dir_all(conf.parent().unwrap()).unwrap();
        std::fs::write(&conf, "").unwrap();
        assert_eq!(told(), conf.display().to_string());
    }
}
