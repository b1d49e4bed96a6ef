//! The slurm.conf that a controller should have: the one it has, with as few edits as possible.
//!
//! What an administrator wrote into the file stays. The charm owns a few keys, the controllers, and the partitions of
//! related applications.

use crate::names;
use crate::observe::{Configuration, Observed, Offer};
use ::slurm_conf::{ClusterName, NodeSet, Partition, SlurmConf};
use std::collections::BTreeSet;

/// The prefix of a cluster's name when the operator gives none.
const CLUSTER_PREFIX: &str = "charmed-hpc-";

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
    // With cons_tres alone nodes may come and go at run time, up to MaxNodeCount.
    ("SelectType", "select/cons_tres"),
    ("MaxNodeCount", "65533"),
];

/// One of several parameters in one key; compute nodes fetch their configuration from the controller.
const PARAMETERS: &str = "SlurmctldParameters";
const CONFIGLESS: &str = "enable_configless";

/// Keys of a new cluster. An administrator may change them afterwards.
const INITIAL: [(&str, &str); 10] = [
    ("SlurmdSpoolDir", "/var/lib/slurm/slurmd"),
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

/// Process tracking on machines, and in containers, where control groups are not to be had.
const ON_MACHINE: [(&str, &str); 2] =
    [("ProctrackType", "proctrack/cgroup"), ("TaskPlugin", "task/cgroup,task/affinity")];
const IN_CONTAINER: [(&str, &str); 2] = [("ProctrackType", "proctrack/linuxproc"), ("TaskPlugin", "task/none")];

const HEADER: &str = "\
# Made by the slurmctld charm, which edits single lines of it: keys it depends on, controllers, partitions of related
# applications. Everything else may be changed by hand.
";

/// Returns the text of cgroup.conf. Compute nodes receive it from the controller, so it is one for the whole cluster.
pub(super) fn cgroup_conf(container: bool) -> &'static str {
    match container {
        true => "# Written by the slurmctld charm.\nCgroupPlugin=disabled\n",
        false => {
            "# Written by the slurmctld charm.\nConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nSignalChildrenProcesses=yes\n"
        }
    }
}

/// Returns the configuration that slurmctld should have.
pub(super) fn wanted(seen: &Observed) -> SlurmConf {
    let mut conf = repaired(seen);
    partitions(seen, &mut conf);
    conf
}

/// Returns the configuration in place with everything put right that the charm depends on.
pub(super) fn repaired(seen: &Observed) -> SlurmConf {
    let mut conf = base(&seen.machine.configuration).unwrap_or_else(|| new_cluster(seen));
    if let Some(name) = settled_cluster_name(seen) {
        set(&mut conf, "ClusterName", name.as_str());
    }
    for (key, value) in OWNED {
        set(&mut conf, key, value);
    }
    let parameters = conf.get(PARAMETERS).unwrap_or_default();
    if !parameters.split(',').any(|parameter| parameter.trim().eq_ignore_ascii_case(CONFIGLESS)) {
        let separator = if parameters.is_empty() { "" } else { "," };
        let parameters = format!("{parameters}{separator}{CONFIGLESS}");
        set(&mut conf, PARAMETERS, &parameters);
    }
    if conf.controllers().is_empty() {
        conf.set_controllers(std::slice::from_ref(&seen.machine.host));
    }
    conf
}

/// Returns the configuration to edit: the one in place, unless it was refused or cannot be read.
fn base(configuration: &Configuration) -> Option<SlurmConf> {
    let refused = configuration.refused.as_ref().map(|refused| &refused.candidate);
    let live = configuration.live.as_ref().filter(|live| Some(*live) != refused);
    live.and_then(|text| SlurmConf::parse(text).ok())
        .or_else(|| configuration.accepted.as_ref().and_then(|text| SlurmConf::parse(text).ok()))
}

fn new_cluster(seen: &Observed) -> SlurmConf {
    let mut conf = SlurmConf::parse(HEADER).expect("invariant: comments parse");
    set(&mut conf, "ClusterName", new_cluster_name(seen).as_str());
    conf.set_controllers(std::slice::from_ref(&seen.machine.host));
    let tracking = if seen.machine.container { IN_CONTAINER } else { ON_MACHINE };
    for (key, value) in OWNED.into_iter().chain(INITIAL).chain(tracking) {
        set(&mut conf, key, value);
    }
    conf
}

/// Returns the name that the cluster was given for good: its saved state belongs to that name.
fn settled_cluster_name(seen: &Observed) -> Option<ClusterName> {
    let accepted = seen.machine.configuration.accepted.as_ref().and_then(|text| SlurmConf::parse(text).ok());
    let served = accepted.and_then(|conf| conf.get("ClusterName").and_then(|name| name.parse().ok()));
    served.or_else(|| seen.peer.as_ref().and_then(|peer| peer.cluster_name.clone()))
}

/// An unusable option is caught before this is asked for.
fn new_cluster_name(seen: &Observed) -> ClusterName {
    let chosen = || seen.options.cluster_name.parse().ok();
    let made = || format!("{CLUSTER_PREFIX}{}", seen.machine.suffix).parse().ok();
    settled_cluster_name(seen).or_else(chosen).or_else(made).unwrap_or_else(|| {
        CLUSTER_PREFIX.trim_end_matches('-').parse().expect("invariant: the prefix is a cluster name")
    })
}

/// Writes the partition of every related application.
///
/// A partition whose relation is gone stays: jobs may run or wait in it, and slurmctld fails every job whose partition
/// disappears. Taking one out needs its jobs to have ended first, and that is not a matter of one hook.
fn partitions(seen: &Observed, conf: &mut SlurmConf) {
    let mut written = BTreeSet::new();
    for compute in &seen.computes {
        let Offer::Partition(partition, nodeset) = &compute.offer else { continue };
        // Of two applications that claim one name, the one related first has it.
        if written.insert(partition.name().clone()) {
            conf.set_partition(&with_default(partition, seen), nodeset);
        }
    }
    if !seen.options.default_partition.is_empty() {
        retire_other_defaults(seen, conf);
    }
}

/// The option of this charm outweighs what the compute application says about being the default.
fn with_default(partition: &Partition, seen: &Observed) -> Partition {
    let mut partition = partition.clone();
    let chosen = seen.options.default_partition.as_str();
    if chosen == partition.name().as_str() {
        partition.set("Default", "YES").expect("invariant: YES is a value of Default");
    } else if !chosen.is_empty() {
        partition.unset("Default");
    }
    partition
}

/// Partitions without a relation are in the file alone, and one of them may have been the default.
fn retire_other_defaults(seen: &Observed, conf: &mut SlurmConf) {
    let defaults: Vec<Partition> = conf
        .partitions()
        .filter(|record| record.get("Default").is_some() && record.name() != seen.options.default_partition)
        .filter_map(|record| Partition::try_from(record).ok())
        .collect();
    for mut partition in defaults {
        let nodeset = conf
            .nodeset(partition.name().as_str())
            .and_then(|record| NodeSet::new(record.name(), record.get("Feature").unwrap_or(record.name())).ok());
        partition.unset("Default");
        let nodeset = nodeset.unwrap_or_else(|| partition.nodeset());
        conf.set_partition(&partition, &nodeset);
    }
}

fn set(conf: &mut SlurmConf, key: &str, value: &str) {
    conf.set(key, value).expect("invariant: our own keys and values can be written");
}
