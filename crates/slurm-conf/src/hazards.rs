//! Changes of slurm.conf that slurmctld takes without a word although they cost nodes, jobs or clients.
//!
//! Each of these was seen on a real cluster. A reconfigure reads the state anew, and what has no room in the tables of
//! the new configuration is forgotten, with the jobs on it; so is a partition that the new files do not have. Plugins
//! that only clients and slurmd load are missed when the next of them starts.

use crate::effective::EffectiveConf;
use crate::setting::number;
use std::collections::BTreeSet;

/// Slurm's own values where a file has none.
const MAX_JOB_COUNT: u64 = 10_000;
const FIRST_JOB_ID: u64 = 1;
const MAX_JOB_ID: u64 = 0x03ff_0000;
const SLURMD_TIMEOUT: u64 = 300;

/// A node is asked three times within `SlurmdTimeout`. In less than this a node that is well may miss the answer.
const LEAST_TIMEOUT: u64 = 10;

/// Keys that name plugins which slurmctld does not load itself, and the kind of plugin.
const PLUGINS: [(&str, &str); 5] = [
    ("CliFilterPlugins", "cli_filter"),
    ("JobContainerType", "job_container"),
    ("MpiDefault", "mpi"),
    ("ProctrackType", "proctrack"),
    ("TaskPlugin", "task"),
];

/// A plugin that a configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plugin {
    /// The key that asks for it.
    pub key: &'static str,
    /// Its kind, such as `task`.
    pub kind: &'static str,
    /// Its name, such as `affinity`.
    pub name: String,
}

impl Plugin {
    /// Returns the name of its file.
    pub fn file(&self) -> String {
        format!("{}_{}.so", self.kind, self.name)
    }
}

/// What has to be known about the running cluster before [`hazards`] can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Questions {
    /// How many nodes slurmctld has.
    pub nodes: bool,
    /// How many jobs slurmctld has.
    pub jobs: bool,
    /// Which of these partitions have no jobs: the old configuration has them, and the new one has not.
    pub partitions: BTreeSet<String>,
    /// Which of these plugins are on the machine.
    pub plugins: BTreeSet<Plugin>,
}

/// Facts about the running cluster. What is not known is no hazard: a question that nobody could answer has to stop the
/// caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// How many nodes slurmctld has.
    pub nodes: Option<u64>,
    /// How many jobs slurmctld has. Every task of an array counts, and so do jobs that have ended until `MinJobAge` is
    /// over.
    pub jobs: Option<u64>,
    /// The partitions that slurmctld has.
    pub partitions: Option<BTreeSet<String>>,
    /// Those of them that have no jobs, as far as somebody has asked.
    pub idle_partitions: BTreeSet<String>,
    /// The plugins that are not on the machine, as far as somebody has looked.
    pub missing_plugins: BTreeSet<Plugin>,
}

/// A reason not to give a configuration to the running cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Hazard {
    /// Clients and slurmd would look for a plugin in vain.
    #[error("{}: there is no plugin {}/{} on this machine", .0.key, .0.kind, .0.name)]
    MissingPlugin(Plugin),
    /// Healthy nodes would be taken for dead, and their jobs with them.
    #[error("SlurmdTimeout={seconds}: at least {LEAST_TIMEOUT}, or 0 for never: healthy nodes would be set down")]
    HastyTimeout {
        /// `SlurmdTimeout`, in seconds.
        seconds: u64,
    },
    /// slurmctld would forget a partition with its jobs.
    #[error("partition {name} {}", match only_at_runtime {
        true => "exists only at runtime: slurmctld would forget it and its jobs",
        false => "has jobs: slurmctld would forget it and them",
    })]
    LostPartition {
        /// Its name.
        name: String,
        /// No file has had it: it was made with scontrol.
        only_at_runtime: bool,
    },
    /// slurmctld would forget nodes with their jobs.
    #[error("MaxNodeCount={room}: at least {needed}, or slurmctld forgets nodes and their jobs")]
    TooFewNodes {
        /// `MaxNodeCount`.
        room: u64,
        /// How many there are.
        needed: u64,
    },
    /// slurmctld would forget jobs.
    #[error("{limit}: at least {needed}, or slurmctld forgets jobs (it has {jobs})")]
    TooFewJobs {
        /// What leaves too little room.
        limit: JobLimit,
        /// How much room there has to be.
        needed: u64,
        /// How many jobs there are.
        jobs: u64,
    },
}

/// What says for how many jobs there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JobLimit {
    /// `MaxJobCount`, as the file has it.
    #[error("MaxJobCount={0}")]
    Count(u64),
    /// `MaxJobCount`, about which the file says nothing.
    #[error("MaxJobCount={0}, the default")]
    DefaultCount(u64),
    /// `MaxJobId`: there are not enough numbers from `FirstJobId` on.
    #[error("MaxJobId={0}")]
    LastId(u64),
}

/// Says what has to be known before a running cluster gets `new` in place of `old`. Nothing is asked about what does
/// not get worse.
pub fn questions(old: &EffectiveConf, new: &EffectiveConf) -> Questions {
    let gone = old.partitions().filter(|name| !new.has_partition(name));
    Questions {
        nodes: room_for_nodes(old, new).is_some(),
        jobs: room_for_jobs(new).0 < room_for_jobs(old).0,
        partitions: gone.map(str::to_owned).collect(),
        plugins: new_plugins(old, new),
    }
}

/// Says what a running cluster would pay for `new` in place of `old`. Only what gets worse counts.
pub fn hazards(running: &Running, old: &EffectiveConf, new: &EffectiveConf) -> Vec<Hazard> {
    let asked = questions(old, new);
    let plugins = asked.plugins.into_iter().filter(|plugin| running.missing_plugins.contains(plugin));
    let partitions = running.partitions.iter().flatten().filter(|name| !new.has_partition(name));
    let partitions = partitions.filter_map(|name| {
        let only_at_runtime = !old.has_partition(name);
        let lost = only_at_runtime || !running.idle_partitions.contains(name);
        lost.then(|| Hazard::LostPartition { name: name.clone(), only_at_runtime })
    });
    let nodes = room_for_nodes(old, new).zip(running.nodes).filter(|(room, needed)| room < needed);
    let jobs = running.jobs.filter(|_| asked.jobs).and_then(|jobs| {
        // More may come before slurmctld has read the file.
        let needed = jobs + (jobs / 10).max(10);
        let (room, limit) = room_for_jobs(new);
        (room < needed).then_some(Hazard::TooFewJobs { limit, needed, jobs })
    });
    plugins
        .map(Hazard::MissingPlugin)
        .chain(hasty_timeout(old, new))
        .chain(partitions)
        .chain(nodes.map(|(room, needed)| Hazard::TooFewNodes { room, needed }))
        .chain(jobs)
        .collect()
}

fn value(conf: &EffectiveConf, key: &str) -> Option<u64> {
    conf.get(key).and_then(number)
}

/// Returns the plugins that are asked for anew.
fn new_plugins(old: &EffectiveConf, new: &EffectiveConf) -> BTreeSet<Plugin> {
    // Where the plugins of another directory are is the operator's to know.
    if new.get("PluginDir").is_some() {
        return BTreeSet::new();
    }
    let names = |conf: &EffectiveConf, key: &str, kind: &str| -> BTreeSet<String> {
        let words = conf.get(key).unwrap_or_default().split(',').map(|word| word.trim().to_ascii_lowercase());
        let names = words.map(|word| word.strip_prefix(&format!("{kind}/")).map_or(word.clone(), str::to_owned));
        // No plugin is needed for none.
        names.filter(|name| !name.is_empty() && name != "none").collect()
    };
    let new_ones = |(key, kind)| {
        let known = names(old, key, kind);
        let asked = names(new, key, kind).into_iter().filter(move |name| !known.contains(name));
        asked.map(move |name| Plugin { key, kind, name })
    };
    PLUGINS.into_iter().flat_map(new_ones).collect()
}

fn hasty_timeout(old: &EffectiveConf, new: &EffectiveConf) -> Option<Hazard> {
    let timeout = |conf| match value(conf, "SlurmdTimeout").unwrap_or(SLURMD_TIMEOUT) {
        // For ever.
        0 => u64::MAX,
        seconds => seconds,
    };
    let seconds = timeout(new);
    (seconds < LEAST_TIMEOUT && seconds < timeout(old)).then_some(Hazard::HastyTimeout { seconds })
}

/// Returns for how many nodes there is room, if there is less than before.
fn room_for_nodes(old: &EffectiveConf, new: &EffectiveConf) -> Option<u64> {
    let room = |conf| value(conf, "MaxNodeCount");
    room(new).filter(|less| room(old).is_none_or(|before| *less < before))
}

/// Returns for how many jobs a configuration has room, and what says so.
fn room_for_jobs(conf: &EffectiveConf) -> (u64, JobLimit) {
    let last = value(conf, "MaxJobId").unwrap_or(MAX_JOB_ID);
    let numbers = last.saturating_add(1).saturating_sub(value(conf, "FirstJobId").unwrap_or(FIRST_JOB_ID));
    let count = value(conf, "MaxJobCount");
    let room = count.unwrap_or(MAX_JOB_COUNT);
    if numbers < room {
        (numbers, JobLimit::LastId(last))
    } else {
        (room, count.map_or(JobLimit::DefaultCount(room), JobLimit::Count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::SlurmConf;

    const OLD: &str = "ClusterName=lab\nMaxNodeCount=65533\nTaskPlugin=task/none\n";

    fn conf(text: &str) -> EffectiveConf {
        EffectiveConf::of(&SlurmConf::parse(text).unwrap())
    }

    /// A cluster with two nodes and some jobs.
    fn cluster(jobs: u64) -> Running {
        Running { nodes: Some(2), jobs: Some(jobs), ..Running::default() }
    }

    fn found(running: &Running, old: &str, new: &str) -> Vec<String> {
        hazards(running, &conf(old), &conf(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tables_that_have_no_room_for_what_is_there_are_hazards() {
        for (line, culprit) in [
            ("MaxNodeCount=0", Some("MaxNodeCount=0: at least 2, ")),
            ("MaxNodeCount=1", Some("MaxNodeCount=1: at least 2, ")),
            ("maxnodecount=0x1", Some("MaxNodeCount=1: ")),
            ("MaxNodeCount=2", None),
            ("MaxJobCount=1", Some("MaxJobCount=1: at least 15, or slurmctld forgets jobs (it has 5)")),
            ("MaxJobCount=14", Some("at least 15, ")),
            ("MaxJobCount=15", None),
            ("MaxJobCount=100000", None),
            ("MaxJobId=2", Some("MaxJobId=2: at least 15, ")),
            ("MaxJobId=unlimited", None),
            ("FirstJobId=100", None),
            ("FirstJobId=0x03fefffe", Some("MaxJobId=67043328: at least 15, ")),
        ] {
            let found = found(&cluster(5), OLD, &format!("{OLD}{line}\n"));
            assert_eq!(found.len(), usize::from(culprit.is_some()), "{line}: {found:?}");
            assert!(found.concat().contains(culprit.unwrap_or_default()), "{line}: {found:?}");
        }
    }

    #[test]
    fn an_option_that_is_taken_back_may_leave_too_little_room_as_well() {
        let large = format!("{OLD}MaxJobCount=50000\n");
        let found = found(&cluster(12_000), &large, OLD);
        assert!(found[0].starts_with("MaxJobCount=10000, the default: at least 13200, "), "{found:?}");
    }

    #[test]
    fn nothing_is_asked_about_what_does_not_shrink() {
        let new = format!("{OLD}KillWait=60\nMaxJobCount=10000\n");
        assert_eq!(questions(&conf(OLD), &conf(&new)), Questions::default());
        assert_eq!(found(&cluster(12_000), OLD, &new), Vec::<String>::new());
    }

    #[test]
    fn each_thing_that_shrinks_has_its_question() {
        let ask = |line: &str| questions(&conf(OLD), &conf(&format!("{OLD}{line}\n")));
        assert_eq!(ask("MaxNodeCount=5"), Questions { nodes: true, ..Questions::default() });
        assert_eq!(ask("MaxJobCount=5"), Questions { jobs: true, ..Questions::default() });
        let gone = questions(&conf("PartitionName=a\nPartitionName=b\n"), &conf("PartitionName=b\n"));
        assert_eq!(gone, Questions { partitions: ["a".to_owned()].into(), ..Questions::default() });
    }

    #[test]
    fn healthy_nodes_get_time_to_answer() {
        for (value, fits) in [("1", false), ("9", false), ("10", true), ("0", true), ("300", true)] {
            let found = found(&cluster(0), OLD, &format!("{OLD}SlurmdTimeout={value}\n"));
            assert_eq!(found.is_empty(), fits, "{value}: {found:?}");
        }
        let from_never = found(&cluster(0), "SlurmdTimeout=0\n", "SlurmdTimeout=2\n");
        assert!(from_never[0].starts_with("SlurmdTimeout=2: "), "{from_never:?}");
        // A cluster that lives with little lives better with more.
        assert_eq!(found(&cluster(0), "SlurmdTimeout=2\n", "SlurmdTimeout=5\n"), Vec::<String>::new());
    }

    #[test]
    fn plugins_that_are_asked_for_anew_are_looked_for() {
        for (line, files) in [
            ("TaskPlugin=task/affinity", &["task_affinity.so"][..]),
            ("TaskPlugin=Affinity", &["task_affinity.so"]),
            ("TaskPlugin=task/affinity,task/bogus", &["task_affinity.so", "task_bogus.so"]),
            ("TaskPlugin=task/none", &[]),
            ("MpiDefault=none", &[]),
            ("MpiDefault=pmix", &["mpi_pmix.so"]),
            ("CliFilterPlugins=cli_filter/lua", &["cli_filter_lua.so"]),
            ("ProctrackType=proctrack/bogus", &["proctrack_bogus.so"]),
            ("JobContainerType=job_container/bogus", &["job_container_bogus.so"]),
            ("PluginDir=/opt/slurm\nMpiDefault=bogus", &[]),
        ] {
            let asked = questions(&conf(OLD), &conf(&format!("{OLD}{line}\n")));
            assert_eq!(asked.plugins.iter().map(Plugin::file).collect::<Vec<_>>(), files, "{line}");
        }
        // What was taken before stays.
        let (old, new) = (conf("MpiDefault=bogus\n"), conf("MpiDefault=bogus\nKillWait=60\n"));
        assert_eq!(questions(&old, &new), Questions::default());
    }

    #[test]
    fn a_plugin_that_is_not_there_is_named() {
        let bogus = Plugin { key: "MpiDefault", kind: "mpi", name: "bogus".to_owned() };
        let running = Running { missing_plugins: [bogus].into(), ..Running::default() };
        let new = format!("{OLD}MpiDefault=bogus\nTaskPlugin=task/affinity\n");
        assert_eq!(found(&running, OLD, &new), ["MpiDefault: there is no plugin mpi/bogus on this machine"]);
        assert_eq!(found(&running, &new, &new), Vec::<String>::new());
    }

    #[test]
    fn a_partition_may_go_if_a_file_had_it_and_it_has_no_jobs() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let old = "PartitionName=busy\nPartitionName=idle\nPartitionName=stays\n";
        let running = Running {
            partitions: Some(names(&["busy", "idle", "stays", "made"])),
            idle_partitions: names(&["idle", "made"]),
            ..Running::default()
        };
        let lost = |name: &str, only_at_runtime| Hazard::LostPartition { name: name.to_owned(), only_at_runtime };
        let new = "PartitionName=stays \\\n State=DOWN\n";
        assert_eq!(hazards(&running, &conf(old), &conf(new)), [lost("busy", false), lost("made", true)]);
    }
}
