//! What the operator chose, as far as it can be used. An option that cannot be used leaves the last good value in
//! effect.

use crate::config::managed_keys;
use crate::names;
use charm::tools::Config;
use slurm_conf::{CgroupConf, ClusterName, Parameters, PartitionName, SlurmConf, UnknownKey};
use slurm_ops::source::Source;
use slurm_unit::OptionProblem;
use std::collections::BTreeSet;

/// Keys of slurm.conf that the charm sets itself, beside those that begin a record, name a file or list the
/// controllers.
pub const OWNED_KEYS: [&str; 19] = [
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
    /// As the machine allows.
    Auto,
    Cgroup,
    Linuxproc,
}

/// The options, each with its problem if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// None: a name is made up.
    pub cluster_name: Option<Result<ClusterName, OptionProblem>>,
    /// None: applications choose.
    pub default_partition: Option<Result<PartitionName, OptionProblem>>,
    pub parameters: Result<Parameters, OptionProblem>,
    pub cgroup_parameters: Result<Parameters, OptionProblem>,
    pub tracking: Result<Tracking, OptionProblem>,
    pub network_state: bool,
    /// Once Slurm is installed nothing is done with it. A text that names no place is told all the same.
    pub source: Result<Source, OptionProblem>,
    /// All of them as they were written, to be compared.
    pub texts: Texts,
}

impl Options {
    /// Understands what Juju answers.
    pub fn read(config: &Config) -> Self {
        let word = |option: &str| config.string(option).trim().to_owned();
        let text = |option: &str| config.string(option).to_owned();
        Self::of(Texts {
            cluster_name: word(names::OPTION_CLUSTER_NAME),
            default_partition: word(names::OPTION_DEFAULT_PARTITION),
            parameters: text(names::OPTION_PARAMETERS),
            cgroup_parameters: text(names::OPTION_CGROUP_PARAMETERS),
            process_tracking: word(names::OPTION_PROCESS_TRACKING),
            source: text(names::OPTION_SOURCE),
            network_state: config.boolean(names::OPTION_NETWORK_STATE),
        })
    }

    /// Understands the options as they were written.
    pub fn of(texts: Texts) -> Self {
        let cluster_name = chosen(&texts.cluster_name).map(|text| {
            let expected = "use at most 40 letters, digits, `-`, `_`, `.`";
            text.parse().map_err(|_| OptionProblem::new(names::OPTION_CLUSTER_NAME, text, expected))
        });
        let default_partition = chosen(&texts.default_partition).map(|text| {
            let expected = "use the name of an integrated slurmd application";
            text.parse().map_err(|_| OptionProblem::new(names::OPTION_DEFAULT_PARTITION, text, expected))
        });
        let tracking = match texts.process_tracking.as_str() {
            "cgroup" => Ok(Tracking::Cgroup),
            "linuxproc" => Ok(Tracking::Linuxproc),
            "" | "auto" => Ok(Tracking::Auto),
            other => Err(OptionProblem::new(names::OPTION_PROCESS_TRACKING, other, "use auto, cgroup or linuxproc")),
        };
        let problem = |option: &'static str| move |error: String| OptionProblem::new(option, "", error);
        Self {
            cluster_name,
            default_partition,
            parameters: Parameters::parse(&texts.parameters, &OWNED_KEYS)
                .map_err(|error| problem(names::OPTION_PARAMETERS)(error.to_string())),
            cgroup_parameters: CgroupConf::parameters(&texts.cgroup_parameters)
                .map_err(|error| problem(names::OPTION_CGROUP_PARAMETERS)(error.to_string())),
            tracking,
            network_state: texts.network_state,
            source: texts.source.parse::<Source>().map_err(|error| problem(names::OPTION_SOURCE)(error.to_string())),
            texts,
        }
    }

    /// Returns every option that cannot be used, whatever the cluster is.
    pub fn problems(&self) -> Vec<&OptionProblem> {
        let problems = [
            self.cluster_name.as_ref().and_then(|name| name.as_ref().err()),
            self.default_partition.as_ref().and_then(|name| name.as_ref().err()),
            self.parameters.as_ref().err(),
            self.cgroup_parameters.as_ref().err(),
            self.tracking.as_ref().err(),
            self.source.as_ref().err(),
        ];
        problems.into_iter().flatten().collect()
    }

    /// Returns the partition that is to be the default one.
    pub fn default_partition(&self) -> Option<&PartitionName> {
        self.default_partition.as_ref().and_then(|name| name.as_ref().ok())
    }

    /// Returns keys and values for slurm.conf. `SlurmctldParameters` always has what compute nodes need.
    pub fn pairs(&self) -> Option<Vec<(String, String)>> {
        let pair = |(key, value): (&str, &str)| {
            let needs = key.eq_ignore_ascii_case(managed_keys::PARAMETERS);
            let value = if needs { managed_keys::with_configless(value) } else { value.to_owned() };
            (key.to_owned(), value)
        };
        Some(self.parameters.as_ref().ok()?.iter().map(pair).collect())
    }

    /// Says which file is missing without which the parameters are of no use, given those beside slurm.conf. It may
    /// come later.
    pub fn missing_file(&self, conf_dir_files: &BTreeSet<String>) -> Option<OptionProblem> {
        let mut conf = SlurmConf::new();
        for (key, value) in self.pairs()? {
            // What cannot be set is a problem of its own.
            let _ = conf.set(&key, &value);
        }
        let missing = conf.lacking(conf_dir_files)?;
        Some(OptionProblem::new(names::OPTION_PARAMETERS, "", missing))
    }

    /// Says what Slurm has against the parameters. A key that is not known here either may have been mistyped.
    pub fn objection(&self, reason: &str) -> String {
        let doubts = self.parameters.as_ref().map(Parameters::doubts).unwrap_or_default();
        let doubts: Vec<_> = doubts.into_iter().map(|doubt| (doubt.key.to_ascii_lowercase(), doubt.nearest)).collect();
        let unknown = doubts.iter().map(|(key, nearest)| UnknownKey { key, value: "", nearest: *nearest });
        slurm_unit::options::objection(reason, unknown)
    }

    /// Returns how processes are tracked, and whether the operator insists. None: the option cannot be used.
    pub fn tracking(&self, container: bool) -> Option<(Tracking, bool)> {
        match self.tracking.as_ref().ok()? {
            Tracking::Auto if container => Some((Tracking::Linuxproc, false)),
            Tracking::Auto => Some((Tracking::Cgroup, false)),
            insisted => Some((*insisted, true)),
        }
    }
}

/// The options as the operator wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    pub cluster_name: String,
    pub default_partition: String,
    pub parameters: String,
    pub cgroup_parameters: String,
    pub process_tracking: String,
    pub source: String,
    pub network_state: bool,
}

fn chosen(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
