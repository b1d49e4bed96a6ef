//! Puts the files together that slurmctld should have, out of changes that are independent of each other, and tells two
//! versions apart by the changes between them. So a change that is refused can be found by leaving changes out.

use super::files::{Config, Files};
use super::managed_keys::{self, GRES_CONF};
use super::sources::{ChangeFingerprint, ConfigSource};
use super::{Situation, managed_keys::wanted_partitions};
use crate::extras::{Extras, Wish, is_our_oci_conf};
use crate::options::Tracking;
use slurm_conf::{CgroupConf, Overlaid, Record, SlurmConf};
use std::collections::BTreeSet;

impl Situation<'_> {
    /// Returns the files that slurmctld should have: every change that was not refused for itself.
    pub fn desired(&self) -> Files {
        self.compose(None)
    }

    /// Returns the files that slurmctld has accepted with one change on top.
    pub fn with_only(&self, source: &ConfigSource) -> Files {
        self.compose(Some(source))
    }

    /// Returns what to fall back on: the accepted files, or those of a new cluster without anything that came from
    /// outside.
    pub fn baseline(&self) -> Files {
        if self.accepted().exists() {
            return self.accepted().files.clone();
        }
        let tracking = self.options.tracking(self.host.container);
        let tracking = tracking.map_or(Tracking::Linuxproc, |(tracking, _)| tracking);
        let none = CgroupConf::parameters("").expect("invariant: nothing is wrong with no text");
        Files {
            slurm: Some(managed_keys::new_cluster(self).render()),
            cgroup: Some(managed_keys::cgroup_conf(tracking, &none)),
            gres: Some(GRES_CONF.to_owned()),
            oci: None,
        }
    }

    /// Says whether the files in place are the desired ones, and accepted.
    pub fn is_at_rest(&self) -> bool {
        self.live() == self.accepted() && self.desired() == self.live().files
    }

    /// Says whether the slurm.conf in place has everything that the charm depends on.
    pub fn is_sound(&self) -> bool {
        // What stands where does not count: whoever adds a line behind the parameters has taken nothing away.
        let sound = |read: &Overlaid| managed_keys::repair(self, read.below.clone()) == read.below;
        self.live().overlaid.as_ref().is_some_and(sound)
    }

    /// Says which file the slurm.conf in place newly needs and does not find.
    pub fn missing_file(&self) -> Option<String> {
        let missing = |config: &Config| config.conf.as_ref()?.lacking(&self.configuration.conf_dir_files);
        missing(self.live()).filter(|_| missing(self.accepted()).is_none())
    }

    /// Says whether the slurm.conf in place was cut short, by a full disk or a killed editor. A file that cannot be
    /// parsed is for Slurm to judge.
    pub fn is_damaged(&self) -> bool {
        let (Some(live), Some(accepted)) = (&self.live().files.slurm, &self.accepted().files.slurm) else {
            return false;
        };
        let torn = live.len() < accepted.len() && accepted.starts_with(live.as_str()) && !live.ends_with('\n');
        let gutted = |read: &Overlaid| managed_keys::is_gutted(&read.below, self.takes_tokens());
        torn || self.live().overlaid.as_ref().is_some_and(gutted)
    }

    fn compose(&self, only: Option<&ConfigSource>) -> Files {
        let takes = |source: &ConfigSource| only.is_none_or(|only| only == source) && self.rejection(source).is_none();
        let baseline = self.baseline();
        let base = self.parsed(&baseline).overlaid.clone().unwrap_or_default();
        let mut conf = if takes(&ConfigSource::File) {
            managed_keys::repair(self, self.in_place().unwrap_or_else(|| base.below.clone()))
        } else {
            base.below
        };
        if takes(&ConfigSource::Controllers) {
            conf.set_controllers(self.controllers);
        }
        if takes(&ConfigSource::Accounting) {
            managed_keys::account(&mut conf, self.accounting, self.noted_accounting);
        }
        if takes(&ConfigSource::Mail) {
            managed_keys::mail(&mut conf, &self.extras.map_or(Wish::Kept, Extras::mail));
        }
        let oci = self.oci_conf(baseline.oci, takes(&ConfigSource::File), takes(&ConfigSource::Oci));
        let mut cgroup = baseline.cgroup;
        if takes(&ConfigSource::Tracking)
            && let Some((tracking, insists)) = self.options.tracking(self.host.container)
        {
            managed_keys::track(&mut conf, tracking, insists);
            if let Ok(parameters) = &self.options.cgroup_parameters {
                cgroup = Some(managed_keys::cgroup_conf(tracking, parameters));
            }
        }
        let mut wanted: Vec<_> = wanted_partitions(self.computes).into_values().collect();
        wanted.retain(|(partition, _)| {
            let name = partition.name().as_str();
            // One that is on its way out is gone before it comes again.
            takes(&ConfigSource::Partition(name.to_owned())) && !self.applications.is_removing(name)
        });
        for name in self.applications.removing() {
            if takes(&ConfigSource::Partition(name.to_string())) {
                conf.remove_partition(name.as_str());
            }
        }
        managed_keys::set_partitions(self, &mut conf, &wanted);
        let usable = || self.options.missing_file(&self.configuration.conf_dir_files).is_none();
        let parameters = self.options.pairs().filter(|_| takes(&ConfigSource::Parameters) && usable());
        let hand_written = self.live().files.gres.clone().filter(|_| takes(&ConfigSource::File));
        let gres = hand_written.or(baseline.gres).or(Some(GRES_CONF.to_owned()));
        let slurm = Overlaid::render(&conf, &parameters.unwrap_or(base.parameters));
        Files { slurm: Some(slurm), cgroup, gres, oci }
    }

    /// Returns oci.conf: what the runtime wants, or else what an administrator wrote.
    fn oci_conf(&self, baseline: Option<String>, takes_file: bool, takes_runtime: bool) -> Option<String> {
        let live = self.live().files.oci.clone();
        let ours = live.as_deref().is_some_and(is_our_oci_conf);
        let before = if takes_file && (takes_runtime || !ours) { live } else { baseline };
        match self.extras.map_or(Wish::Kept, Extras::oci_conf) {
            Wish::This(text) if takes_runtime => Some(text),
            Wish::Nothing if takes_runtime => before.filter(|text| !is_our_oci_conf(text)),
            _ => before,
        }
    }

    /// Says whether a change is asked for that nobody has looked at, so that nothing is known against it.
    pub fn is_kept(&self, source: &ConfigSource) -> bool {
        match source {
            ConfigSource::Oci | ConfigSource::Mail => self.extras.is_none(),
            ConfigSource::Accounting => self.accounting == Wish::Kept,
            _ => false,
        }
    }

    /// Returns the file in place without its parameters, unless it was refused or cannot be read.
    fn in_place(&self) -> Option<SlurmConf> {
        let rejected = self.rejections.last.as_ref().is_some_and(|last| last.files.slurm == self.live().files.slurm);
        self.live().overlaid.as_ref().filter(|_| !rejected).map(|read| read.below.clone())
    }

    /// Returns the changes that lead from the accepted files to `files`.
    pub fn changes(&self, files: &Files) -> Vec<ChangeFingerprint> {
        let wanted = wanted_partitions(self.computes);
        // A partition that no application wants, and none leaves behind, is an administrator's.
        let ours = |name: &str| wanted.keys().any(|own| own.as_str() == name) || self.applications.is_leaving(name);
        let by_hand = |source: ConfigSource| match source {
            ConfigSource::Partition(name) if !ours(&name) => ConfigSource::File,
            ConfigSource::Accounting if !self.is_our_accounting(files) => ConfigSource::File,
            other => other,
        };
        let sources = difference(&self.parsed(&self.baseline()), &self.parsed(files));
        let sources: BTreeSet<ConfigSource> = sources.into_iter().map(by_hand).collect();
        sources.into_iter().map(|source| self.fingerprint(source)).collect()
    }

    /// Says whether what files say about accounting comes from the relation, or goes with it.
    fn is_our_accounting(&self, files: &Files) -> bool {
        let host = |config: &Config| managed_keys::accounting_host(config).map(str::to_owned);
        let (before, after) = (host(&self.parsed(&self.baseline())), host(&self.parsed(files)));
        let wanted = matches!(self.accounting, Wish::This(host) if after.as_deref() == Some(host.as_str()));
        wanted || (before.is_some() && before.as_deref() == self.noted_accounting)
    }

    /// Returns why a change, as it would be made now, was refused for itself.
    pub fn rejection(&self, source: &ConfigSource) -> Option<&str> {
        // Most of the time there is nothing to compare with.
        let known = self.rejections.changes.contains_key(&source.to_string());
        known.then(|| self.rejections.reason(&self.fingerprint(source.clone()))).flatten()
    }

    /// Returns a change as it would be made now.
    pub fn fingerprint(&self, source: ConfigSource) -> ChangeFingerprint {
        let requested = match &source {
            ConfigSource::File => {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                format!("{}{}", text(&self.live().files.slurm), text(&self.live().files.gres))
            }
            ConfigSource::Parameters => self.options.texts.parameters.clone(),
            ConfigSource::Tracking => {
                format!("{} {}", self.options.texts.process_tracking, self.options.texts.cgroup_parameters)
            }
            ConfigSource::Controllers => self.controllers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            ConfigSource::Accounting => format!("{:?}", self.accounting),
            ConfigSource::Oci => format!("{:?}", self.extras.map_or(Wish::Kept, Extras::oci_conf)),
            ConfigSource::Mail => format!("{:?}", self.extras.map_or(Wish::Kept, Extras::mail)),
            ConfigSource::Partition(name) if self.applications.is_removing(name) => "none".to_owned(),
            ConfigSource::Partition(name) => {
                let wanted = wanted_partitions(self.computes);
                let own = wanted.iter().find(|(own, _)| own.as_str() == name);
                own.map(|(_, (partition, _))| partition.to_json().to_string()).unwrap_or_default()
            }
        };
        let mut lines = Vec::new();
        if let (ConfigSource::Partition(_), Some(read)) = (&source, &self.accepted().overlaid) {
            lines.extend(read.parameters.iter().map(|(key, value)| format!("{key}={value}")));
        }
        ChangeFingerprint { source, requested, context: format!("{} {}", self.version, lines.join(" ")) }
    }
}

fn difference(before: &Config, after: &Config) -> BTreeSet<ConfigSource> {
    let mut changes = BTreeSet::new();
    let read = |config: &Config| config.overlaid.clone().unwrap_or_default();
    let (mut old, mut new) = (read(before), read(after));
    if old.parameters != new.parameters {
        changes.insert(ConfigSource::Parameters);
    }
    let value = |conf: &SlurmConf, key: &str| conf.get(key).map(str::to_owned);
    if before.files.cgroup != after.files.cgroup
        || ["ProctrackType", "TaskPlugin"].iter().any(|key| value(&old.below, key) != value(&new.below, key))
    {
        changes.insert(ConfigSource::Tracking);
    }
    let names: BTreeSet<String> =
        [&old.below, &new.below].iter().flat_map(|conf| conf.partitions()).map(|one| one.name().to_owned()).collect();
    for name in names {
        let line = |conf: &SlurmConf| {
            let text = |record: Option<Record<'_>>| record.map(|record| record.options().map(pair).collect::<Vec<_>>());
            (text(conf.partition(&name)), text(conf.nodeset(&name)))
        };
        if line(&old.below) != line(&new.below) {
            changes.insert(ConfigSource::Partition(name.clone()));
        }
        old.below.remove_partition(&name);
        new.below.remove_partition(&name);
    }
    if before.controllers() != after.controllers() {
        changes.insert(ConfigSource::Controllers);
        new.below.set_controllers(&before.controllers());
    }
    if managed_keys::forget_accounting(&mut old.below) != managed_keys::forget_accounting(&mut new.below) {
        changes.insert(ConfigSource::Accounting);
    }
    if managed_keys::mail_differs(&old.below, &new.below) {
        changes.insert(ConfigSource::Mail);
        managed_keys::forget_mail(&mut old.below);
        managed_keys::forget_mail(&mut new.below);
    }
    let ours = |config: &Config| config.files.oci.as_deref().is_some_and(is_our_oci_conf);
    let mut by_hand = before.files.gres != after.files.gres;
    if before.files.oci != after.files.oci {
        if ours(before) || ours(after) {
            changes.insert(ConfigSource::Oci);
        } else {
            by_hand = true;
        }
    }
    managed_keys::forget_tracking(&mut old.below);
    managed_keys::forget_tracking(&mut new.below);
    if old.below != new.below || by_hand || changes.is_empty() {
        changes.insert(ConfigSource::File);
    }
    changes
}

fn pair((key, value): (&str, &str)) -> String {
    format!("{key}={value}")
}
