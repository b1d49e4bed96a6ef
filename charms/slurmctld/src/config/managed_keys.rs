//! What the charm itself writes into slurm.conf and the files beside it.
//!
//! What an administrator wrote into the file stays. The charm owns a few keys, the controllers, and the partitions of
//! related applications.

use super::Situation;
use super::files::Files;
use crate::extras::Wish;
use crate::facts::Compute;
use crate::names;
use crate::options::Tracking;
use crate::place::Place;
use slurm_conf::{CgroupConf, NodeSet, OptionValue, Overlaid, Parameters, Partition, PartitionName, Record, SlurmConf};
use std::collections::BTreeMap;

/// Where slurmctld keeps its state.
const STATE_LOCATION: &str = "StateSaveLocation";

/// Keys that the charm depends on. They are put right whenever they are not.
const OWNED: [(&str, &str); 9] = [
    ("SlurmUser", names::SLURM_USER),
    ("AuthType", "auth/slurm"),
    ("CredType", "cred/slurm"),
    // Jobs run under the user of whoever submits, also where the controller does not know that user.
    ("AuthInfo", "use_client_ids"),
    ("AuthAltTypes", "auth/jwt"),
    ("AuthAltParameters", "jwt_key=/etc/slurm/jwt_hs256.key"),
    // Another one where the state is aside.
    (STATE_LOCATION, names::STATE_DIRECTORY),
    // slurmd keeps there what it knows about its jobs, and loses them when it is sent elsewhere.
    ("SlurmdSpoolDir", "/var/lib/slurm/slurmd"),
    // With cons_tres alone nodes may come and go at run time, up to MaxNodeCount.
    ("SelectType", "select/cons_tres"),
];

/// Those of them that are for tokens of users. A Slurm without the plugin would not start with these, and works
/// without.
const TOKENS: [&str; 2] = ["AuthAltTypes", "AuthAltParameters"];

/// One of several parameters in one key; compute nodes fetch their configuration from the controller.
pub const PARAMETERS: &str = "SlurmctldParameters";
const CONFIGLESS: &str = "enable_configless";

/// Keys that have to be there, with whatever value: without the first no node can join.
const NEEDED: [(&str, &str); 1] = [("MaxNodeCount", "65533")];

/// A key that has to be there, with whatever value, where Slurm has the plugin. Other Slurms do not know it.
pub const METRICS: (&str, &str) = ("MetricsType", "metrics/openmetrics");

/// What slurmctld sends mail with, and the domain of addresses without one.
pub const MAIL_PROGRAM: &str = "MailProg";
const MAIL_DOMAIN: &str = "MailDomain";

/// Keys of a new cluster. An administrator may change them afterwards.
const INITIAL: [(&str, &str); 9] = [
    ("SlurmctldPidFile", "/run/slurmctld/slurmctld.pid"),
    ("SlurmdPidFile", "/run/slurm/slurmd.pid"),
    ("SelectTypeParameters", "CR_CPU_Memory"),
    ("TreeWidth", "65533"),
    // 1 keeps down what an administrator set down; 2 would revive it at every reconfigure.
    ("ReturnToService", "1"),
    // Partitions that an administrator drained stay drained when another partition is added.
    ("ReconfigFlags", "KeepPartState"),
    ("MpiDefault", "none"),
    ("GresTypes", "gpu"),
    ("RebootProgram", "/usr/sbin/reboot"),
];

/// Process tracking with control groups, and where they are not to be had.
const WITH_CGROUP: [(&str, &str); 2] =
    [("ProctrackType", "proctrack/cgroup"), ("TaskPlugin", "task/cgroup,task/affinity")];
const WITH_LINUXPROC: [(&str, &str); 2] = [("ProctrackType", "proctrack/linuxproc"), ("TaskPlugin", "task/none")];

/// Returns what a new cluster is given beyond what the charm depends on.
pub(super) fn defaults_of_charm() -> impl Iterator<Item = (&'static str, &'static str)> {
    NEEDED.into_iter().chain([METRICS]).chain(INITIAL).chain(WITH_CGROUP).chain(WITH_LINUXPROC)
}

const HEADER: &str = "\
# Made by the slurmctld charm, which edits single lines of it: keys it depends on, controllers, partitions of related
# applications. Everything else may be changed by hand.
";

/// Says whether a line is one that a new file begins with.
pub(super) fn is_header(line: &str) -> bool {
    HEADER.lines().any(|own| own == line.trim_end())
}

const CGROUP_HEADER: &str = "# Written by the slurmctld charm: options process-tracking and cgroup-parameters.\n";
const CGROUP: &str = "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\n\
    SignalChildrenProcesses=yes\n";
const NO_CGROUP: &str = "CgroupPlugin=disabled\n";

/// The first gres.conf. Nodes find their own GPUs; an administrator may add lines.
pub(super) const GRES_CONF: &str = "\
# Made by the slurmctld charm, and left alone afterwards. Compute nodes find their GPUs by themselves.
AutoDetect=nvidia
";

/// Returns the text of cgroup.conf. Compute nodes receive it from the controller, so it is one for the whole cluster.
pub(super) fn cgroup_conf(tracking: Tracking, parameters: &Parameters) -> String {
    let defaults = if tracking == Tracking::Cgroup { CGROUP } else { NO_CGROUP };
    let text = format!("{CGROUP_HEADER}{defaults}");
    let mut conf = CgroupConf::parse(&text).expect("invariant: our own text is a configuration");
    conf.merge(parameters);
    conf.render()
}

/// Returns a value of `SlurmctldParameters` that has what compute nodes need.
pub fn with_configless(value: &str) -> String {
    if value.split(',').any(|parameter| parameter.trim().eq_ignore_ascii_case(CONFIGLESS)) {
        value.to_owned()
    } else if value.is_empty() {
        CONFIGLESS.to_owned()
    } else {
        format!("{value},{CONFIGLESS}")
    }
}

/// Returns the file of a new cluster, without partitions.
pub(super) fn new_cluster(situation: &Situation<'_>) -> SlurmConf {
    let mut conf = SlurmConf::parse(HEADER).expect("invariant: comments parse");
    set(&mut conf, "ClusterName", situation.identity.name.as_str());
    conf.set_controllers(situation.controllers);
    for (key, value) in owned(situation.takes_tokens(), situation.place).chain(NEEDED).chain(INITIAL) {
        set(&mut conf, key, value);
    }
    metrics(&mut conf, situation.has_metrics());
    let tracking = situation.options.tracking(situation.host.container);
    track(&mut conf, tracking.map_or(Tracking::Linuxproc, |(tracking, _)| tracking), true);
    set(&mut conf, PARAMETERS, CONFIGLESS);
    conf
}

/// Puts everything right in a file that the charm depends on.
pub(super) fn repair(situation: &Situation<'_>, mut conf: SlurmConf) -> SlurmConf {
    if let Some(name) = &situation.identity.given {
        set(&mut conf, "ClusterName", name.as_str());
    }
    for key in TOKENS.into_iter().filter(|_| !situation.takes_tokens()) {
        conf.remove(key);
    }
    for (key, value) in owned(situation.takes_tokens(), situation.place) {
        set(&mut conf, key, value);
    }
    for (key, value) in NEEDED {
        if conf.get(key).is_none() {
            set(&mut conf, key, value);
        }
    }
    metrics(&mut conf, situation.has_metrics());
    let parameters = with_configless(conf.get(PARAMETERS).unwrap_or_default());
    set(&mut conf, PARAMETERS, &parameters);
    // A leader that no line names could not start: it joined while nobody served.
    let named = |line: &&str| line.split('(').next() == Some(situation.host.name.as_str());
    if !conf.controllers().iter().any(named) {
        conf.set_controllers(situation.controllers);
    }
    conf
}

/// Says whether a file lacks so much of what every file of ours has that nobody can have meant it.
pub(super) fn is_gutted(conf: &SlurmConf, takes_tokens: bool) -> bool {
    let missing = owned(takes_tokens, Place::Checkpoint).filter(|(key, _)| conf.get(key).is_none()).count();
    conf.get("ClusterName").is_none() || conf.controllers().is_empty() || missing > 1
}

fn owned(takes_tokens: bool, place: Place) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = move |(key, value)| (key, if key == STATE_LOCATION { place.state_directory() } else { value });
    OWNED.into_iter().map(own).filter(move |(key, _)| takes_tokens || !TOKENS.contains(key))
}

/// Returns where these files have the state.
pub fn state_directory(files: &Files) -> String {
    let conf = files.slurm.as_ref().and_then(|text| SlurmConf::parse(text).ok());
    let found = conf.as_ref().and_then(|conf| conf.get(STATE_LOCATION));
    found.unwrap_or(names::STATE_DIRECTORY).to_owned()
}

/// Returns the files with the state elsewhere: None if they say so already, or say something that is none of ours.
pub fn with_state_at(files: &Files, place: Place) -> Option<Files> {
    let mut read = Overlaid::parse(files.slurm.as_ref()?).ok()?;
    let found = read.below.get(STATE_LOCATION)?;
    let ours = [Place::Checkpoint, Place::Aside].iter().any(|place| place.state_directory() == found);
    if !ours || found == place.state_directory() {
        return None;
    }
    set(&mut read.below, STATE_LOCATION, place.state_directory());
    Some(Files { slurm: Some(Overlaid::render(&read.below, &read.parameters)), ..files.clone() })
}

/// Says how processes are tracked. Unless the operator insists, a value that is not one of the charm's own is an
/// administrator's.
pub(super) fn track(conf: &mut SlurmConf, tracking: Tracking, insists: bool) {
    let cgroup = tracking == Tracking::Cgroup;
    let (wanted, other) = if cgroup { (WITH_CGROUP, WITH_LINUXPROC) } else { (WITH_LINUXPROC, WITH_CGROUP) };
    for ((key, value), (_, other)) in wanted.into_iter().zip(other) {
        if insists || conf.get(key).is_none_or(|found| found == other) {
            set(conf, key, value);
        }
    }
}

/// Takes out of a file what [`track`] writes, so that two files can be compared without it.
pub(super) fn forget_tracking(conf: &mut SlurmConf) {
    for (key, _) in WITH_CGROUP {
        conf.remove(key);
    }
}

fn metrics(conf: &mut SlurmConf, has_plugin: bool) {
    let (key, value) = METRICS;
    if !has_plugin {
        conf.remove(key);
    } else if conf.get(key).is_none() {
        set(conf, key, value);
    }
}

/// Says whether and how slurmctld sends mail. What an administrator wrote goes when a mail integrator comes, and what
/// the charm wrote when it leaves.
pub(super) fn mail(conf: &mut SlurmConf, wish: &Wish<Option<&str>>) {
    let ours = conf.get(MAIL_PROGRAM) == Some(names::MAIL_PROGRAM);
    match wish {
        Wish::Kept => {}
        Wish::Nothing if !ours => {}
        Wish::Nothing => forget_mail(conf),
        Wish::This(domain) => {
            set(conf, MAIL_PROGRAM, names::MAIL_PROGRAM);
            match domain {
                Some(domain) => set(conf, MAIL_DOMAIN, domain),
                None if ours => drop(conf.remove(MAIL_DOMAIN)),
                None => {}
            }
        }
    }
}

/// Takes out of a file what [`mail`] writes.
pub(super) fn forget_mail(conf: &mut SlurmConf) {
    for key in [MAIL_PROGRAM, MAIL_DOMAIN] {
        conf.remove(key);
    }
}

/// Says whether two files send mail in different ways, and one of them in ours.
pub(super) fn mail_differs(old: &SlurmConf, new: &SlurmConf) -> bool {
    let ours = [old, new].iter().any(|conf| conf.get(MAIL_PROGRAM) == Some(names::MAIL_PROGRAM));
    ours && [MAIL_PROGRAM, MAIL_DOMAIN].iter().any(|key| old.get(key) != new.get(key))
}

/// The partition of a related application, and its node set.
pub type Wanted<'f> = (&'f Partition, &'f NodeSet);

/// Returns the partition that each related application wants, by name.
///
/// Of two applications that claim one name, the one related first has it.
pub fn wanted_partitions(computes: &[Compute]) -> BTreeMap<PartitionName, Wanted<'_>> {
    let mut wanted = BTreeMap::new();
    for (partition, nodeset) in computes.iter().filter_map(Compute::partition) {
        wanted.entry(partition.name().clone()).or_insert((partition, nodeset));
    }
    wanted
}

/// Returns the applications that say that theirs is the default partition, in the order in which they were related.
pub fn defaults(computes: &[Compute]) -> Vec<&PartitionName> {
    let partitions = computes.iter().filter_map(Compute::partition).map(|(partition, _)| partition);
    partitions.filter(|partition| says_default(partition)).map(Partition::name).collect()
}

fn says_default(partition: &Partition) -> bool {
    partition.get("Default") == Some(&OptionValue::Boolean(true))
}

fn is_default(record: &Record<'_>) -> bool {
    record.get("Default").is_some_and(|value| value.eq_ignore_ascii_case("yes"))
}

/// Writes the partitions of applications, and makes one partition of the file the default. All at once: a partition
/// whose options only change their order is not written again.
///
/// A partition whose relation is gone stays while jobs and nodes name it: slurmctld fails every job whose partition
/// disappears. When it may go is decided in `plan/leaving.rs`.
pub(super) fn set_partitions(situation: &Situation<'_>, conf: &mut SlurmConf, wanted: &[Wanted<'_>]) {
    let default = default_partition(situation, conf, wanted);
    for (partition, nodeset) in wanted {
        conf.set_partition(&marked((*partition).clone(), default.as_ref()), nodeset);
    }
    let others: Vec<Partition> = conf
        .partitions()
        .filter(|record| default.as_ref().is_some_and(|name| (record.name() == name.as_str()) != is_default(record)))
        .filter_map(|record| Partition::try_from(record).ok())
        .collect();
    for partition in others {
        let nodeset = conf.nodeset(partition.name().as_str());
        let nodeset = nodeset.and_then(|own| NodeSet::new(own.name(), own.get("Feature").unwrap_or(own.name())).ok());
        let nodeset = nodeset.unwrap_or_else(|| partition.nodeset());
        conf.set_partition(&marked(partition, default.as_ref()), &nodeset);
    }
}

/// Says in a partition that it is the default, or no longer.
fn marked(mut partition: Partition, default: Option<&PartitionName>) -> Partition {
    if default == Some(partition.name()) {
        partition.set("Default", "YES").expect("invariant: YES is a value of Default");
    } else if default.is_some() && says_default(&partition) {
        partition.unset("Default");
    }
    partition
}

/// Returns the partition that is to be the default: the operator's choice if it is there, else that of the first
/// application that says so, else a partition of the administrator's own that is it already, else that of the
/// application that was related first, else the one that is it already. Without a default partition Slurm refuses every
/// job that names none.
///
/// While the operator's choice is not there, the default stays where it is, unless that application leaves.
fn default_partition(situation: &Situation<'_>, conf: &SlurmConf, wanted: &[Wanted<'_>]) -> Option<PartitionName> {
    let is_wanted = |name: &PartitionName| wanted.iter().any(|(partition, _)| partition.name() == name);
    let present = |name: &&PartitionName| conf.partition(name.as_str()).is_some() || is_wanted(name);
    let partitions = || situation.computes.iter().filter_map(Compute::partition).map(|(partition, _)| partition);
    let before: Option<PartitionName> =
        conf.partitions().find(is_default).and_then(|record| record.name().parse().ok());
    let staying = || before.as_ref().filter(|before| !situation.applications.is_leaving(before.as_str()));
    let awaited = staying().filter(|_| situation.options.default_partition.is_some());
    let chosen = situation.options.default_partition().filter(present).or(awaited);
    let says_so = || partitions().filter(|partition| says_default(partition)).map(Partition::name).find(present);
    let own = || staying().filter(|before| !partitions().any(|partition| partition.name() == *before));
    // An application that says `Default=NO` has said something.
    let silent = || partitions().filter(|own| own.get("Default").is_none()).map(Partition::name).find(present);
    let leaving = || before.as_ref().filter(|before| situation.applications.is_leaving(before.as_str()));
    chosen.or_else(says_so).or_else(own).or_else(silent).or_else(leaving).cloned()
}

fn set(conf: &mut SlurmConf, key: &str, value: &str) {
    conf.set(key, value).expect("invariant: our own keys and values can be written");
}
