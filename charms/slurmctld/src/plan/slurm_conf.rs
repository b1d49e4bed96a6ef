//! What the charm itself writes into slurm.conf and the files beside it.
//!
//! What an administrator wrote into the file stays. The charm owns a few keys, the controllers, and the partitions of
//! related applications.

use super::identity;
use super::options::{self, Tracking};
use crate::names;
use crate::observe::{Observed, Offer};
use ::slurm_conf::{
    CgroupConf, NodeSet, OptionValue, Overlaid, Parameters, Partition, PartitionName, Record, SlurmConf,
};
use std::collections::BTreeMap;

/// Keys that the charm depends on. They are put right whenever they are not.
const OWNED: [(&str, &str); 9] = [
    ("SlurmUser", names::SLURM_USER),
    ("AuthType", "auth/slurm"),
    ("CredType", "cred/slurm"),
    // Jobs run under the user of whoever submits, also where the controller does not know that user.
    ("AuthInfo", "use_client_ids"),
    ("AuthAltTypes", "auth/jwt"),
    ("AuthAltParameters", "jwt_key=/etc/slurm/jwt_hs256.key"),
    ("StateSaveLocation", names::STATE_DIRECTORY),
    // slurmd keeps there what it knows about its jobs, and loses them when it is sent elsewhere.
    ("SlurmdSpoolDir", "/var/lib/slurm/slurmd"),
    // With cons_tres alone nodes may come and go at run time, up to MaxNodeCount.
    ("SelectType", "select/cons_tres"),
];

/// Those of them that are for tokens of users. A Slurm without the plugin would not start with these, and works without.
const TOKENS: [&str; 2] = ["AuthAltTypes", "AuthAltParameters"];

/// One of several parameters in one key; compute nodes fetch their configuration from the controller.
pub(super) const PARAMETERS: &str = "SlurmctldParameters";
const CONFIGLESS: &str = "enable_configless";

/// Keys that have to be there, with whatever value: without the first no node can join.
const NEEDED: [(&str, &str); 1] = [("MaxNodeCount", "65533")];

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
    NEEDED.into_iter().chain(INITIAL).chain(WITH_CGROUP).chain(WITH_LINUXPROC)
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
const CGROUP: &str = "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nSignalChildrenProcesses=yes\n";
const NO_CGROUP: &str = "CgroupPlugin=disabled\n";

/// The first gres.conf. Nodes find their own GPUs; an administrator may add lines.
pub(super) const GRES_CONF: &str = "\
# Made by the slurmctld charm, and left alone afterwards. Compute nodes find their GPUs by themselves.
AutoDetect=nvidia
";

/// Returns the text of cgroup.conf. Compute nodes receive it from the controller, so it is one for the whole cluster.
pub(super) fn cgroup_conf(tracking: Tracking, parameters: &Parameters) -> String {
    let defaults = match tracking {
        Tracking::Cgroup => CGROUP,
        Tracking::Linuxproc => NO_CGROUP,
    };
    let text = format!("{CGROUP_HEADER}{defaults}");
    let mut conf = CgroupConf::parse(&text).expect("invariant: our own text is a configuration");
    conf.merge(parameters);
    conf.render()
}

/// Returns a value of `SlurmctldParameters` that has what compute nodes need.
pub(super) fn with_configless(value: &str) -> String {
    match value.split(',').any(|parameter| parameter.trim().eq_ignore_ascii_case(CONFIGLESS)) {
        true => value.to_owned(),
        false if value.is_empty() => CONFIGLESS.to_owned(),
        false => format!("{value},{CONFIGLESS}"),
    }
}

/// Returns the file of a new cluster, without partitions.
pub(super) fn new_cluster(seen: &Observed) -> SlurmConf {
    let mut conf = SlurmConf::parse(HEADER).expect("invariant: comments parse");
    set(&mut conf, "ClusterName", identity::cluster_name_or_new(seen).as_str());
    conf.set_controllers(std::slice::from_ref(&seen.machine.host));
    for (key, value) in owned(seen).chain(NEEDED).chain(INITIAL) {
        set(&mut conf, key, value);
    }
    let tracking = options::tracking(seen).map_or(Tracking::Linuxproc, |(tracking, _)| tracking);
    track(&mut conf, tracking, true);
    set(&mut conf, PARAMETERS, CONFIGLESS);
    conf
}

/// Puts everything right in a file that the charm depends on.
pub(super) fn repair(seen: &Observed, mut conf: SlurmConf) -> SlurmConf {
    if let Some(name) = identity::cluster_name(seen) {
        set(&mut conf, "ClusterName", name.as_str());
    }
    for key in TOKENS.into_iter().filter(|_| !seen.machine.takes_tokens) {
        conf.remove(key);
    }
    for (key, value) in owned(seen) {
        set(&mut conf, key, value);
    }
    for (key, value) in NEEDED {
        if conf.get(key).is_none() {
            set(&mut conf, key, value);
        }
    }
    let parameters = with_configless(conf.get(PARAMETERS).unwrap_or_default());
    set(&mut conf, PARAMETERS, &parameters);
    if conf.controllers().is_empty() {
        conf.set_controllers(std::slice::from_ref(&seen.machine.host));
    }
    conf
}

/// Says whether a file lacks so much of what every file of ours has that nobody can have meant it.
pub(super) fn is_gutted(seen: &Observed, conf: &SlurmConf) -> bool {
    let missing = owned(seen).filter(|(key, _)| conf.get(key).is_none()).count();
    conf.get("ClusterName").is_none() || conf.controllers().is_empty() || missing > 1
}

fn owned(seen: &Observed) -> impl Iterator<Item = (&'static str, &'static str)> {
    let takes_tokens = seen.machine.takes_tokens;
    OWNED.into_iter().filter(move |(key, _)| takes_tokens || !TOKENS.contains(key))
}

/// Says how processes are tracked. Unless the operator insists, a value that is not one of the charm's own is an administrator's.
pub(super) fn track(conf: &mut SlurmConf, tracking: Tracking, insists: bool) {
    let (wanted, other) = match tracking {
        Tracking::Cgroup => (WITH_CGROUP, WITH_LINUXPROC),
        Tracking::Linuxproc => (WITH_LINUXPROC, WITH_CGROUP),
    };
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

/// Returns the partition of every related application as it was offered, by name.
///
/// Of two applications that claim one name, the one related first has it.
pub fn offered(seen: &Observed) -> BTreeMap<PartitionName, (&Partition, &NodeSet)> {
    let mut offered = BTreeMap::new();
    for compute in &seen.computes {
        if let Offer::Partition(partition, nodeset) = &compute.offer {
            offered.entry(partition.name().clone()).or_insert((partition, nodeset));
        }
    }
    offered
}

/// Returns the applications that say that theirs is the default partition, in the order in which they were related.
pub fn defaults(seen: &Observed) -> Vec<&PartitionName> {
    let offers = seen.computes.iter().filter_map(|compute| match &compute.offer {
        Offer::Partition(partition, _) => Some(partition),
        Offer::Nothing | Offer::Unusable(_) => None,
    });
    offers.filter(|partition| says_default(partition)).map(Partition::name).collect()
}

fn says_default(partition: &Partition) -> bool {
    partition.get("Default") == Some(&OptionValue::Boolean(true))
}

/// Returns the partition that a file makes the default.
pub(super) fn default_of(conf: &SlurmConf) -> Option<PartitionName> {
    let default = |record: &Record<'_>| record.get("Default").is_some_and(|value| value.eq_ignore_ascii_case("yes"));
    conf.partitions().find(default).and_then(|record| record.name().parse().ok())
}

/// Makes at most one partition of the file the default: the operator's choice if it is there, else the first application that says so.
///
/// A partition whose relation is gone stays: jobs may run or wait in it, and slurmctld fails every job whose partition
/// disappears. Taking one out needs its jobs to have ended first, and that is not a matter of one hook.
///
/// While the operator's choice is not there, `before` goes on being the default.
pub(super) fn choose_default(seen: &Observed, conf: &mut SlurmConf, before: Option<PartitionName>) {
    let present = |name: &PartitionName| conf.partition(name.as_str()).is_some();
    let awaited = !seen.options.default_partition.is_empty();
    let chosen = options::default_partition(seen).filter(present).or(before.filter(|name| awaited && present(name)));
    let Some(default) = chosen.or_else(|| defaults(seen).into_iter().find(|name| present(name)).cloned()) else {
        return;
    };
    let records: Vec<Partition> = conf
        .partitions()
        .filter(|record| (record.name() == default.as_str()) != record.get("Default").is_some())
        .filter_map(|record| Partition::try_from(record).ok())
        .collect();
    for mut partition in records {
        let nodeset = conf
            .nodeset(partition.name().as_str())
            .and_then(|record| NodeSet::new(record.name(), record.get("Feature").unwrap_or(record.name())).ok());
        match *partition.name() == default {
            true => partition.set("Default", "YES").expect("invariant: YES is a value of Default"),
            false => partition.unset("Default"),
        }
        let nodeset = nodeset.unwrap_or_else(|| partition.nodeset());
        conf.set_partition(&partition, &nodeset);
    }
}

/// Reads a file with its parameters taken off. One that cannot be read counts as none.
pub(super) fn overlaid(text: Option<&String>) -> Option<Overlaid> {
    text.and_then(|text| Overlaid::parse(text).ok())
}

fn set(conf: &mut SlurmConf, key: &str, value: &str) {
    conf.set(key, value).expect("invariant: our own keys and values can be written");
}
