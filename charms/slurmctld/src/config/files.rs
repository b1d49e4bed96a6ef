//! The files that slurmctld reads and hands to the compute nodes, as texts and parsed.

use super::managed_keys;
use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::{EffectiveConf, HostName, Overlaid, PartitionName, RecordKind, SlurmConf};
use slurm_ops::{Host, files};
use slurm_unit::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The texts of the files; None if a file is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    pub slurm: Option<String>,
    pub cgroup: Option<String>,
    pub gres: Option<String>,
    /// Most clusters have none, and notes of before say nothing of it.
    #[serde(default)]
    pub oci: Option<String>,
}

impl Files {
    /// Where each of them is.
    pub const PATHS: [&'static str; 4] = [names::SLURM_CONF, names::CGROUP_CONF, names::GRES_CONF, names::OCI_CONF];

    /// Returns each file with its path. slurm.conf comes last: it names nothing that is not there by then.
    pub fn entries(&self) -> [(&'static str, Option<&str>); 4] {
        let [slurm, cgroup, gres, oci] = Self::PATHS;
        let (first, last) = ((cgroup, self.cgroup.as_deref()), (slurm, self.slurm.as_deref()));
        [first, (gres, self.gres.as_deref()), (oci, self.oci.as_deref()), last]
    }

    fn look(host: &Host, suffix: &str) -> Result<Self, Error> {
        let read = Self::PATHS.map(|path| files::read_text(host, format!("{path}{suffix}")));
        let [slurm, cgroup, gres, oci] = read;
        Ok(Self { slurm: slurm?, cgroup: cgroup?, gres: gres?, oci: oci? })
    }
}

/// The texts of files that a slurm.conf includes, by path as it is written there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Included(BTreeMap<String, String>);

impl Included {
    /// Parses those that can be, by path.
    pub fn parsed(&self) -> impl Iterator<Item = (String, SlurmConf)> {
        self.0.iter().filter_map(|(path, text)| Some((path.clone(), SlurmConf::parse(text).ok()?)))
    }
}

/// Files, with what slurm.conf says.
#[derive(Clone, Default)]
pub struct Config {
    pub files: Files,
    /// slurm.conf without the operator's parameters, and these. None: it cannot be parsed, or is not there.
    pub overlaid: Option<Overlaid>,
    /// slurm.conf as it is. None: it cannot be parsed, or is not there.
    pub conf: Option<SlurmConf>,
    /// What slurm.conf says together with the files that it includes.
    pub effective: EffectiveConf,
}

/// All the rest follows from the texts.
impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(formatter)
    }
}

/// Two are the same if every byte is.
impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Config {
    /// Parses the files.
    pub fn read(files: Files, included: &Included) -> Self {
        Self::read_with(files, |path| included.0.get(path).cloned())
    }

    fn read_with(files: Files, text_of: impl FnMut(&str) -> Option<String>) -> Self {
        let parse = |text: &String| SlurmConf::parse(text).ok();
        let conf = files.slurm.as_ref().and_then(parse);
        let overlaid = files.slurm.as_ref().and_then(|text| Overlaid::parse(text).ok());
        let effective = conf.as_ref().map(|conf| EffectiveConf::read(conf, text_of)).unwrap_or_default();
        Self { files, overlaid, conf, effective }
    }

    /// Says whether slurmctld sends mail with the program of the charm.
    pub fn calls_our_mail_program(&self) -> bool {
        self.effective.get(managed_keys::MAIL_PROGRAM) == Some(names::MAIL_PROGRAM)
    }

    /// Says whether there is a slurm.conf.
    pub fn exists(&self) -> bool {
        self.files.slurm.is_some()
    }

    /// Returns the place of a machine among the controllers.
    pub fn rank_of(&self, host: &HostName) -> Option<usize> {
        let controllers = self.conf.as_ref()?.controllers();
        controllers.iter().position(|line| line.split('(').next() == Some(host.as_str()))
    }

    /// Returns the hosts of the controllers, the primary first.
    pub fn controllers(&self) -> Vec<HostName> {
        let lines = self.conf.iter().flat_map(SlurmConf::controllers);
        lines.filter_map(|line| line.split('(').next()?.parse().ok()).collect()
    }

    /// Returns the names of the partitions.
    pub fn partitions(&self) -> BTreeSet<String> {
        let partitions = self.conf.iter().flat_map(SlurmConf::partitions);
        partitions.map(|partition| partition.name().to_owned()).collect()
    }

    /// Returns the partition that comes first.
    pub fn first_partition(&self) -> Option<PartitionName> {
        self.conf.as_ref()?.records(RecordKind::Partition).find_map(|partition| partition.name().parse().ok())
    }
}

/// The configuration on this machine.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// In place.
    pub live: Config,
    /// The last that slurmctld is known to have accepted.
    pub accepted: Config,
    pub included: Included,
    /// Names of the files beside slurm.conf.
    pub conf_dir_files: BTreeSet<String>,
    /// slurmctld and Slurm's clients run as other users.
    pub world_readable: bool,
}

impl Configuration {
    /// Reads all of it. Starts no process.
    pub fn look(host: &Host) -> Result<Self, Error> {
        let mut included = Included::default();
        let mut read = |files: Files| {
            Config::read_with(files, |path| {
                let text = files::read_text(host, Path::new(names::CONFIGURATION_DIRECTORY).join(path)).ok().flatten();
                included.0.extend(text.clone().map(|text| (path.to_owned(), text)));
                text
            })
        };
        let (live, accepted) = (Files::look(host, "")?, Files::look(host, names::ACCEPTED)?);
        let same = live == accepted;
        let live = read(live);
        let accepted = if same { live.clone() } else { read(accepted) };
        // A directory that cannot be listed has nothing in it that could be read.
        let beside = files::list(host, names::CONFIGURATION_DIRECTORY).ok().flatten().unwrap_or_default();
        let world_readable = Self::is_world_readable(host)?;
        Ok(Self { live, accepted, included, conf_dir_files: beside.into_iter().collect(), world_readable })
    }

    fn is_world_readable(host: &Host) -> Result<bool, Error> {
        for path in Files::PATHS.into_iter().chain([names::CONFIGURATION_DIRECTORY]) {
            if !files::is_open(host, path)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Names the file that the slurm.conf in place includes and that is not there. Every command of Slurm would wait
    /// for it.
    pub fn missing_include(&self) -> Option<String> {
        self.live.conf.as_ref()?.missing_include(&self.conf_dir_files)
    }
}
