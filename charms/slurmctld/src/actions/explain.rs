//! Why a node is not in service or a job waits, and what to do about it, in an administrator's words.

use super::{Act, ActionFailure, ActionResults, lost_jobs, names, nodes, require_daemon};
use charm::AppName;
use charm::text::shown;
use serde::Deserialize;
use slurm_conf::NodeName;
use slurm_ops::journal::{self, Cause};
use slurm_ops::scontrol::{self, JobRecord, NodeLookup, NodeRecord};
use slurm_unit::actions::refused;

#[derive(Debug, Deserialize)]
struct Explain {
    #[serde(default)]
    node: String,
    #[serde(default)]
    job: u64,
}

pub(super) fn explain(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Explain = act.tools.action_get()?;
    let own = &act.view.ctx.unit.app();
    match (request.node.trim(), request.job) {
        ("", 0) => Err(ActionFailure::refused("give a node or a job: `node=compute-0` or `job=12`")),
        (name, 0) => {
            let Ok(name) = name.parse::<NodeName>() else {
                let expected = "expected one name such as `compute-0`";
                return Err(ActionFailure::refused(format!("parameter `node`: `{}`: {expected}", shown(name))));
            };
            require_daemon(act)?;
            match scontrol::node(&act.view.host, &name) {
                NodeLookup::Present(record) => Ok(node(&record, own, act)),
                NodeLookup::Absent => Err(ActionFailure::refused(format!(
                    "Slurm knows no node {name}: its slurmd has not registered, see `juju status` of its unit{}",
                    hint(act)
                ))),
                NodeLookup::Unreachable { why } => Err(ActionFailure::refused(format!("nobody could be asked: {why}"))),
            }
        }
        ("", id) => {
            require_daemon(act)?;
            let jobs = scontrol::jobs(&act.view.host).map_err(|error| refused("could not list the jobs", &error))?;
            match jobs.iter().find(|job| job.id == id) {
                Some(found) => Ok(lost(found, act).unwrap_or_else(|| job(found, own))),
                None => Err(ActionFailure::refused(format!(
                    "no job {id} waits or runs; `scontrol show job {id}` still knows it for a few minutes after its end"
                ))),
            }
        }
        _ => Err(ActionFailure::refused("give either a node or a job, not both")),
    }
}

fn answer(subject: String, state: String, why: String, advice: String) -> ActionResults {
    ActionResults::default().with("subject", subject).with("state", state).with("why", why).with("advice", advice)
}

/// Says what slurmctld has heard of late that may be the cause, where Slurm's own words would hide it.
fn hint(act: &Act<'_>) -> String {
    match journal::cause(&act.view.host, names::SERVICE) {
        None => String::new(),
        Some(Cause::Authentication) => {
            "; slurmctld refuses somebody's messages: keys or clocks of the machines differ".to_owned()
        }
        Some(Cause::Clocks) => "; slurmctld refuses somebody's messages: clocks of the machines differ".to_owned(),
        Some(Cause::NameResolution) => "; slurmctld cannot resolve the name of a host".to_owned(),
    }
}

fn node(record: &NodeRecord, own: &AppName, act: &Act<'_>) -> ActionResults {
    let name = &record.name;
    let unit = nodes::unit_of(record);
    let subject = unit.as_ref().map_or_else(|| format!("node {name}"), |unit| format!("node {name} (unit {unit})"));
    let status = unit.as_ref().map_or_else(|| "juju status".to_owned(), |unit| format!("juju status {unit}"));
    let shown = unit.map_or_else(|| format!("scontrol show node {name}"), |unit| format!("juju run {unit} show-node"));
    let reason = record.reason.trim();
    let given = if reason.is_empty() { "without a reason".to_owned() } else { format!("with the reason \"{reason}\"") };
    let resume = format!("juju run {own}/leader resume nodename={name}");
    let has = |state: &str| record.has(state);
    let (why, advice) = match () {
        () if has("INVALID_REG") => (
            format!("it registered with less than its record says: {reason}"),
            format!("compare `{shown}` with the machine, correct `node-config`, then `{resume}`"),
        ),
        () if has("NOT_RESPONDING") => (
            format!("its slurmd does not answer slurmctld{}", hint(act)),
            format!("see `{status}` and `journalctl -u slurmd` there: machine off, network, name, or clock"),
        ),
        () if has("DOWN") && reason.contains("unexpectedly rebooted") => {
            ("it was rebooted while slurmctld counted on it".to_owned(), format!("if it is sound: `{resume}`"))
        }
        () if has("DOWN") && reason.contains("Not responding") => (
            "its slurmd did not answer for longer than SlurmdTimeout".to_owned(),
            format!("see `{status}`; it returns by itself when slurmd registers again"),
        ),
        () if has("REBOOT_ISSUED") || has("REBOOT_REQUESTED") => {
            ("a reboot was asked for with scontrol".to_owned(), "wait until it is back".to_owned())
        }
        () if has("DOWN") => (format!("it was set down, {given}"), format!("when that is mended: `{resume}`")),
        () if has("DRAIN") && (has("ALLOCATED") || has("MIXED")) => (
            format!("it is draining, {given}; jobs on it still run"),
            format!("wait for them, or `juju run {own}/leader destroy-jobs nodes={name}`; back with `{resume}`"),
        ),
        () if has("DRAIN") => (format!("it is drained, {given}"), format!("when that is mended: `{resume}`")),
        () if has("FAIL") => (format!("it was set to fail, {given}"), format!("when that is mended: `{resume}`")),
        () if has("MAINTENANCE") => {
            ("a maintenance reservation holds it".to_owned(), "see `scontrol show reservation`".to_owned())
        }
        () if has("POWERED_DOWN") || has("POWERING_DOWN") => {
            ("Slurm's power saving switched it off".to_owned(), "a job that needs it switches it on".to_owned())
        }
        () if record.partitions.is_empty() => (
            "it is in no partition, so no job can reach it".to_owned(),
            "its features must contain the name of its application: see `node-config` of its unit".to_owned(),
        ),
        () if has("ALLOCATED") => ("nothing is wrong: jobs use all of it".to_owned(), "nothing".to_owned()),
        () if has("MIXED") => ("nothing is wrong: jobs use a part of it".to_owned(), "nothing".to_owned()),
        () if has("IDLE") => ("nothing is wrong: it waits for jobs".to_owned(), "nothing".to_owned()),
        () => (format!("Slurm calls it {}", record.state_text()), format!("see `scontrol show node {name}`")),
    };
    answer(subject, record.state_text(), why, advice)
}

/// Explains a job that slurmctld takes for running and that its node does not know. None: it is not such a one, or
/// nobody can tell.
fn lost(record: &JobRecord, act: &Act<'_>) -> Option<ActionResults> {
    let node = lost_jobs::lost_on(&act.view.host, record)?;
    let job = record.handle();
    let subject = format!("job {job} ({} of {} in {})", record.name, record.user, record.partition);
    let why = format!(
        "slurmctld takes it for running, but it has no process on {node}: its launch or its end was lost when \
         slurmctld crashed or was reconfigured"
    );
    let advice = format!(
        "have Slurm find out with `systemctl reload slurmd` on {node}, or run it again with `scontrol requeue {job}`"
    );
    Some(answer(subject, record.state.join("+"), why, advice))
}

fn job(record: &JobRecord, own: &AppName) -> ActionResults {
    let id = record.id;
    let state = record.state.join("+");
    let subject = format!("job {id} ({} of {} in {})", record.name, record.user, record.partition);
    if record.has("RUNNING") {
        return answer(subject, state, format!("it runs on {}", record.nodes), "nothing".to_owned());
    }
    if record.has("COMPLETING") {
        let why = format!("it has ended, and its processes on {} are being cleaned up", record.nodes);
        return answer(subject, state, why, "nothing; after minutes, look at that node".to_owned());
    }
    let partition = &record.partition;
    let known: [(&str, &str, String); 14] = [
        ("Resources", "what it asks for is in use", "wait; `squeue --start` estimates".to_owned()),
        ("Priority", "other jobs come first", "wait; `sprio` shows priorities".to_owned()),
        ("Dependency", "it waits for another job", format!("`scontrol show job {id}` names it")),
        ("BeginTime", "it is to begin later", "wait".to_owned()),
        ("JobHeldUser", "its owner holds it", format!("`scontrol release {id}`")),
        ("JobHeldAdmin", "an administrator holds it", format!("`scontrol release {id}`")),
        ("PartitionDown", "its partition is down", format!("`scontrol update partitionname={partition} state=up`")),
        (
            "PartitionInactive",
            "its partition takes no jobs",
            format!("`scontrol update partitionname={partition} state=up`"),
        ),
        (
            "PartitionTimeLimit",
            "it asks for more time than its partition gives",
            "ask for less, or raise MaxTime in `partition-config`".to_owned(),
        ),
        (
            "PartitionNodeLimit",
            "it asks for more nodes than its partition gives",
            "ask for fewer, or raise MaxNodes in `partition-config`".to_owned(),
        ),
        (
            "ReqNodeNotAvail",
            "a node that it needs is not available",
            format!("`juju run {own}/leader show-nodes` shows which are put aside"),
        ),
        ("Reservation", "it waits for its reservation", "see `scontrol show reservation`".to_owned()),
        ("Licenses", "it waits for a licence", "see `scontrol show licenses`".to_owned()),
        (
            "BadConstraints",
            "no node can ever meet what it asks for",
            format!("compare `scontrol show job {id}` with `sinfo -N -l`"),
        ),
    ];
    let reason = record.reason.as_str();
    let found = known.into_iter().find(|(word, ..)| reason.starts_with(word));
    let (why, advice) = found.map_or_else(
        || (format!("Slurm says {reason}"), format!("see `scontrol show job {id}`")),
        |(word, why, advice)| (format!("{why} ({word})"), advice),
    );
    answer(subject, state, why, advice)
}
