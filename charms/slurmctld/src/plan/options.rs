//! What the operator's options mean, and which of them mean nothing. Every use of an option goes through here.

use super::identity;
use crate::names;
use crate::observe::Observed;
use ::slurm_conf::{CgroupConf, ClusterName, ParameterError, Parameters, PartitionName, SlurmConf};
use slurm_ops::source::Source;

/// Keys of slurm.conf that the charm sets itself, beside those that begin a record, name a file or list the controllers.
pub(super) const OWNED_KEYS: [&str; 19] = [
    "ClusterName",
    "SlurmUser",
    "AuthType",
    "AuthInfo",
    "AuthAltTypes",
    "AuthAltParameters",
    "CredType",
    // An older name of the same.
    "CryptoType",
    "StateSaveLocation",
    "SelectType",
    // Older names of the controllers, and another address for all of them.
    "ControlMachine",
    "ControlAddr",
    "BackupController",
    "BackupAddr",
    "SlurmctldAddr",
    // Published to the compute nodes, and opened in Juju.
    "SlurmctldPort",
    "SlurmdPort",
    // Jobs on a node are found through it, and lost with it.
    "SlurmdSpoolDir",
    "SlurmdUser",
];

/// How Slurm keeps track of the processes of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    Cgroup,
    Linuxproc,
}

/// An option that cannot be used, and why. The message names the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption {
    pub option: &'static str,
    pub problem: String,
}

/// Returns every option that cannot be used as it is.
pub fn bad_options(seen: &Observed) -> Vec<BadOption> {
    let mut bad = Vec::new();
    let mut add = |option, problem: Option<String>| bad.extend(problem.map(|problem| BadOption { option, problem }));
    add(names::OPTION_CLUSTER_NAME, bad_cluster_name(seen));
    add(names::OPTION_DEFAULT_PARTITION, bad_default_partition(seen));
    add(names::OPTION_PARAMETERS, parameters(seen).err().map(|error| error.to_string()).or_else(|| lacking(seen)));
    add(names::OPTION_CGROUP_PARAMETERS, cgroup_parameters(seen).err().map(|error| error.to_string()));
    add(names::OPTION_PROCESS_TRACKING, bad_tracking(seen));
    add(names::OPTION_NETWORK_STATE, late_network_state(seen));
    add(names::OPTION_SOURCE, bad_source(seen));
    bad
}

/// An operator's text, shown without what could break a line.
fn shown(text: &str) -> String {
    const LONGEST: usize = 40;
    let escaped: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST { format!("{escaped}…") } else { escaped }
}

fn bad_cluster_name(seen: &Observed) -> Option<String> {
    let chosen = seen.options.cluster_name.as_str();
    match identity::cluster_name(seen) {
        _ if chosen.is_empty() => None,
        Some(name) if name.as_str() == chosen => None,
        Some(name) => Some(format!("`{}`: the cluster is {name} for good, reset the option", shown(chosen))),
        None => chosen
            .parse::<ClusterName>()
            .is_err()
            .then(|| format!("`{}`: use at most 40 letters, digits, `-`, `_`, `.`", shown(chosen))),
    }
}

/// Says whether a cluster that is still to be made cannot be: its name is unfit.
pub fn holds_back(seen: &Observed) -> bool {
    identity::cluster_name(seen).is_none() && bad_cluster_name(seen).is_some()
}

fn bad_default_partition(seen: &Observed) -> Option<String> {
    let chosen = seen.options.default_partition.as_str();
    let unfit = !chosen.is_empty() && chosen.parse::<PartitionName>().is_err();
    unfit.then(|| format!("`{}`: use the name of an integrated slurmd application", shown(chosen)))
}

/// Returns the partition that the operator wants to be the default, if that is a name at all.
pub(super) fn default_partition(seen: &Observed) -> Option<PartitionName> {
    seen.options.default_partition.parse().ok()
}

/// Returns keys and values for slurm.conf. `SlurmctldParameters` always has what compute nodes need.
pub(super) fn parameters(seen: &Observed) -> Result<Vec<(String, String)>, ParameterError> {
    let parameters = Parameters::parse(&seen.options.parameters, &OWNED_KEYS)?;
    let pair = |(key, value): (&str, &str)| {
        let value = match key.eq_ignore_ascii_case(super::slurm_conf::PARAMETERS) {
            true => super::slurm_conf::with_configless(value),
            false => value.to_owned(),
        };
        (key.to_owned(), value)
    };
    Ok(parameters.iter().map(pair).collect())
}

/// Says which file is missing without which the parameters are of no use. It may come later.
pub(super) fn lacking(seen: &Observed) -> Option<String> {
    let mut conf = SlurmConf::new();
    for (key, value) in parameters(seen).ok()? {
        // What cannot be set is told elsewhere.
        let _ = conf.set(&key, &value);
    }
    conf.lacking(&seen.machine.beside)
}

/// Returns what may be wrong with parameters that Slurm refused: keys that are not known here.
pub(super) fn doubt(seen: &Observed) -> Option<String> {
    let parameters = Parameters::parse(&seen.options.parameters, &OWNED_KEYS).ok()?;
    parameters.doubts().first().map(ToString::to_string)
}

pub(super) fn cgroup_parameters(seen: &Observed) -> Result<Parameters, ParameterError> {
    CgroupConf::parameters(&seen.options.cgroup_parameters)
}

fn bad_tracking(seen: &Observed) -> Option<String> {
    let chosen = seen.options.process_tracking.as_str();
    let known = matches!(chosen, "" | "auto" | "cgroup" | "linuxproc");
    (!known).then(|| format!("`{}`: use auto, cgroup or linuxproc", shown(chosen)))
}

/// Returns how processes are tracked, and whether the operator insists. None: the option cannot be used.
pub(super) fn tracking(seen: &Observed) -> Option<(Tracking, bool)> {
    match seen.options.process_tracking.as_str() {
        "cgroup" => Some((Tracking::Cgroup, true)),
        "linuxproc" => Some((Tracking::Linuxproc, true)),
        "" | "auto" if seen.machine.container => Some((Tracking::Linuxproc, false)),
        "" | "auto" => Some((Tracking::Cgroup, false)),
        _ => None,
    }
}

fn late_network_state(seen: &Observed) -> Option<String> {
    let late = seen.options.network_state && identity::is_local(seen);
    late.then(|| {
        "true: the cluster has its state on the local disk, and nothing moves it yet: reset the option".to_owned()
    })
}

fn bad_source(seen: &Observed) -> Option<String> {
    source(seen).err()
}

/// Returns where packages come from. Once they are installed nothing is done with it; a text that names no place is still told.
pub(super) fn source(seen: &Observed) -> Result<Source, String> {
    seen.options.source.parse::<Source>().map_err(|error| error.to_string())
}
