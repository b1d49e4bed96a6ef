//! Puts the files together that slurmctld should have, out of changes that are independent of each other, and tells two versions apart
//! by the changes between them. So what is refused can be found by leaving things out.

use super::options;
use super::slurm_conf::{self, GRES_CONF};
use crate::configuration::{Change, Files, Suspect};
use crate::observe::Observed;
use ::slurm_conf::{Overlaid, Record, RecordKind, SlurmConf};
use std::collections::BTreeSet;

/// Returns the files that slurmctld should have: every change that was not refused for itself.
pub(super) fn wanted(seen: &Observed) -> Files {
    compose(seen, None)
}

/// Returns the files that slurmctld has accepted with one change on top.
pub(super) fn with_only(seen: &Observed, change: &Change) -> Files {
    compose(seen, Some(change))
}

/// Returns what to fall back on: the accepted files, or those of a new cluster without anything that came from outside.
pub(super) fn ground(seen: &Observed) -> Files {
    let accepted = &seen.machine.accepted;
    match accepted.slurm {
        Some(_) => accepted.clone(),
        None => {
            let slurm = Some(slurm_conf::new_cluster(seen).render());
            let tracking = options::tracking(seen).map_or(options::Tracking::Linuxproc, |(tracking, _)| tracking);
            let none = ::slurm_conf::CgroupConf::parameters("").expect("invariant: nothing is wrong with no text");
            Files { slurm, cgroup: Some(slurm_conf::cgroup_conf(tracking, &none)), gres: Some(GRES_CONF.to_owned()) }
        }
    }
}

/// Says whether the slurm.conf in place has everything that the charm depends on.
pub(super) fn is_sound(seen: &Observed) -> bool {
    let live = seen.machine.live.slurm.as_ref();
    slurm_conf::overlaid(live).is_some_and(|read| {
        let repaired = slurm_conf::repair(seen, read.below);
        live == Some(&Overlaid::render(&repaired, &read.parameters))
    })
}

/// Says which file the slurm.conf in place newly needs and does not find.
pub(super) fn lacking(seen: &Observed) -> Option<String> {
    let lacking = |files: &Files| SlurmConf::parse(files.slurm.as_ref()?).ok()?.lacking(&seen.machine.beside);
    lacking(&seen.machine.live).filter(|_| lacking(&seen.machine.accepted).is_none())
}

/// Says whether the slurm.conf in place was cut short, by a full disk or a killed editor. One that cannot be read is for Slurm to judge.
pub(super) fn is_damaged(seen: &Observed) -> bool {
    let (Some(live), Some(accepted)) = (&seen.machine.live.slurm, &seen.machine.accepted.slurm) else { return false };
    let torn = live.len() < accepted.len() && accepted.starts_with(live.as_str()) && !live.ends_with('\n');
    torn || slurm_conf::overlaid(Some(live)).is_some_and(|read| slurm_conf::is_gutted(seen, &read.below))
}

fn compose(seen: &Observed, only: Option<&Change>) -> Files {
    let takes = |change: &Change| only.is_none_or(|only| only == change) && refusal(seen, change).is_none();
    let ground = ground(seen);
    let base = slurm_conf::overlaid(ground.slurm.as_ref()).unwrap_or_default();
    let mut conf = match takes(&Change::File) {
        true => slurm_conf::repair(seen, in_place(seen).unwrap_or_else(|| base.below.clone())),
        false => base.below,
    };
    let mut cgroup = ground.cgroup.clone();
    if takes(&Change::Tracking)
        && let Some((tracking, insists)) = options::tracking(seen)
    {
        slurm_conf::track(&mut conf, tracking, insists);
        if let Ok(parameters) = options::cgroup_parameters(seen) {
            cgroup = Some(slurm_conf::cgroup_conf(tracking, &parameters));
        }
    }
    let default = slurm_conf::default_of(&conf);
    for (name, (partition, nodeset)) in slurm_conf::offered(seen) {
        if takes(&Change::Partition(name.to_string())) {
            conf.set_partition(partition, nodeset);
        }
    }
    slurm_conf::choose_default(seen, &mut conf, default);
    let parameters = match options::parameters(seen) {
        Ok(parameters) if takes(&Change::Parameters) && options::lacking(seen).is_none() => parameters,
        _ => base.parameters,
    };
    let gres = match takes(&Change::File) {
        true => seen.machine.live.gres.clone().or(ground.gres),
        false => ground.gres,
    };
    Files { slurm: Some(Overlaid::render(&conf, &parameters)), cgroup, gres: gres.or(Some(GRES_CONF.to_owned())) }
}

/// Returns the file in place without its parameters, unless it was refused or cannot be read.
fn in_place(seen: &Observed) -> Option<SlurmConf> {
    let refused = seen.machine.refusals.last.as_ref().is_some_and(|last| last.files.slurm == seen.machine.live.slurm);
    let live = seen.machine.live.slurm.as_ref().filter(|_| !refused);
    slurm_conf::overlaid(live).map(|read| read.below)
}

/// Returns the changes that lead from the accepted files to `files`.
pub(super) fn suspects(seen: &Observed, files: &Files) -> Vec<Suspect> {
    let offered = slurm_conf::offered(seen);
    // A partition that no application offers is an administrator's.
    let by_hand = |change: Change| match change {
        Change::Partition(name) if !offered.keys().any(|own| own.as_str() == name) => Change::File,
        other => other,
    };
    let changes: BTreeSet<Change> = difference(&ground(seen), files).into_iter().map(by_hand).collect();
    changes.into_iter().map(|change| suspect(seen, change)).collect()
}

/// Returns why a change, as it would be made now, was refused for itself.
pub(super) fn refusal<'seen>(seen: &'seen Observed, change: &Change) -> Option<&'seen str> {
    // Most of the time there is nothing to compare with.
    let known = seen.machine.refusals.changes.contains_key(&change.to_string());
    known.then(|| seen.machine.refusals.reason(&suspect(seen, change.clone()))).flatten()
}

/// Returns a change as it would be made now.
pub(super) fn suspect(seen: &Observed, change: Change) -> Suspect {
    let wish = match &change {
        Change::File => {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}{}", text(&seen.machine.live.slurm), text(&seen.machine.live.gres))
        }
        Change::Parameters => seen.options.parameters.clone(),
        Change::Tracking => format!("{} {}", seen.options.process_tracking, seen.options.cgroup_parameters),
        Change::Partition(name) => {
            let offered = slurm_conf::offered(seen);
            let own = offered.iter().find(|(own, _)| own.as_str() == name);
            own.map(|(_, (partition, _))| partition.to_json().to_string()).unwrap_or_default()
        }
    };
    let parameters = slurm_conf::overlaid(seen.machine.accepted.slurm.as_ref()).unwrap_or_default().parameters;
    let lines: Vec<String> = match change {
        Change::Partition(_) => parameters.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        _ => Vec::new(),
    };
    let version = seen.machine.version.as_deref().unwrap_or_default();
    Suspect { change, wish, basis: format!("{version} {}", lines.join(" ")) }
}

fn difference(before: &Files, after: &Files) -> BTreeSet<Change> {
    let mut changes = BTreeSet::new();
    let read = |files: &Files| slurm_conf::overlaid(files.slurm.as_ref()).unwrap_or_default();
    let (mut old, mut new) = (read(before), read(after));
    if old.parameters != new.parameters {
        changes.insert(Change::Parameters);
    }
    let value = |conf: &SlurmConf, key: &str| conf.get(key).map(str::to_owned);
    if before.cgroup != after.cgroup
        || ["ProctrackType", "TaskPlugin"].iter().any(|key| value(&old.below, key) != value(&new.below, key))
    {
        changes.insert(Change::Tracking);
    }
    let names: BTreeSet<String> =
        [&old.below, &new.below].iter().flat_map(|conf| conf.partitions()).map(|one| one.name().to_owned()).collect();
    for name in names {
        let line = |conf: &SlurmConf| {
            let text = |record: Option<Record<'_>>| record.map(|record| record.options().map(pair).collect::<Vec<_>>());
            (text(conf.partition(&name)), text(conf.nodeset(&name)))
        };
        if line(&old.below) != line(&new.below) {
            changes.insert(Change::Partition(name.clone()));
        }
        old.below.remove_partition(&name);
        new.below.remove_partition(&name);
    }
    slurm_conf::forget_tracking(&mut old.below);
    slurm_conf::forget_tracking(&mut new.below);
    if old.below != new.below || before.gres != after.gres || changes.is_empty() {
        changes.insert(Change::File);
    }
    changes
}

fn pair((key, value): (&str, &str)) -> String {
    format!("{key}={value}")
}

/// Returns a partition that a configuration has, whichever comes first.
pub(super) fn first_partition(files: &Files) -> Option<::slurm_conf::PartitionName> {
    let conf = SlurmConf::parse(files.slurm.as_ref()?).ok()?;
    conf.records(RecordKind::Partition).find_map(|partition| partition.name().parse().ok())
}
