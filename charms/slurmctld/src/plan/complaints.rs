//! What is wrong with what others want of the cluster, and with the charm's own notes.

use super::Controller;
use crate::condition::Condition;
use crate::config::Situation;
use crate::config::managed_keys::{self, wanted_partitions};
use crate::config::sources::ConfigSource;
use crate::facts::{Ask, Compute, RemoteData};
use slurm_conf::PartitionName;
use slurm_unit::options::objection;
use std::collections::BTreeSet;

impl Controller<'_> {
    /// A note that cannot be read is never "none": what it is about may be half done.
    pub(super) fn notes(&mut self) -> Result<(), Ask> {
        let facts = self.facts;
        let problems = [facts.rejections()?.problem(), facts.overrides()?.problem(), facts.applications()?.problem()];
        self.conditions.extend(problems.into_iter().flatten().map(|why| Condition::NoteUnreadable(why.to_owned())));
        self.conditions.extend(facts.reboots()?.problem().map(|why| Condition::RebootsUnreadable(why.to_owned())));
        Ok(())
    }

    /// What Slurm did not take of what is desired now.
    pub(super) fn rejections(&mut self, situation: &Situation<'_>) -> Result<(), Ask> {
        let missing = situation.options.missing_file(&situation.configuration.conf_dir_files);
        self.conditions.extend(missing.map(Condition::Option));
        let wanted = wanted_partitions(situation.computes);
        let partitions: BTreeSet<&PartitionName> = wanted.keys().chain(situation.applications.removing()).collect();
        let partitions = partitions.into_iter().map(|name| ConfigSource::Partition(name.to_string()));
        use ConfigSource::{Accounting, File, Mail, Oci, Parameters, Tracking};
        let sources = [File, Parameters, Tracking, Accounting, Oci, Mail];
        for source in sources.into_iter().chain(partitions) {
            let Some(reason) = situation.rejection(&source) else { continue };
            let partition = match &source {
                ConfigSource::Partition(name) => wanted.iter().find(|(own, _)| own.as_str() == name),
                _ => None,
            };
            let reason = match (&source, partition) {
                (ConfigSource::Parameters, _) => situation.options.objection(reason),
                (_, Some((_, (partition, _)))) => objection(reason, partition.unknown()),
                _ => reason.to_owned(),
            };
            let app = partition.and_then(|(name, _)| situation.owner(name)).map(|owner| owner.app.clone());
            self.conditions.push(Condition::Rejected { source, app, reason });
        }
        if situation.rejections.taken_back.is_some()
            && let Some(why) = situation.rejections.news(*self.facts.now()?)
        {
            self.conditions.push(Condition::TakenBack(why.to_owned()));
        }
        Ok(())
    }

    /// What other applications want, and how it fits together.
    pub(super) fn partitions(&mut self, situation: &Situation<'_>) {
        for compute in situation.computes {
            let Compute { app, data, relation, stale, .. } = compute;
            match data {
                RemoteData::Unusable(why) => {
                    self.conditions.push(Condition::UnusableData { app: app.clone(), why: why.clone() });
                }
                RemoteData::Partition(partition, _) => {
                    let owner = situation.owner(partition.name());
                    self.conditions.extend(owner.filter(|owner| owner.relation != *relation).map(|owner| {
                        let (partition, owner) = (partition.name().to_string(), owner.app.clone());
                        Condition::PartitionTaken { app: app.clone(), partition, owner }
                    }));
                }
                RemoteData::Nothing => self.conditions.push(Condition::SilentApplication(app.clone())),
            }
            if *stale {
                self.conditions.push(Condition::StaleRelation(app.clone()));
            }
        }
        let served = situation.accepted().partitions();
        let chosen = situation.options.default_partition();
        let there = chosen.is_some_and(|chosen| served.contains(chosen.as_str()));
        if let Some(chosen) = chosen.filter(|_| !there) {
            let there = served.into_iter().collect();
            self.conditions.push(Condition::AwaitsPartition { chosen: chosen.to_string(), there });
        }
        let defaults = managed_keys::defaults(situation.computes);
        if defaults.len() > 1 && !there {
            self.conditions.push(Condition::SeveralDefaults(defaults.into_iter().map(ToString::to_string).collect()));
        }
    }
}
