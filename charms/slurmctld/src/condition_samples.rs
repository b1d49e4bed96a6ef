//! One example of each condition of a controller unit.

use super::*;

/// The match is there so that a new one needs an example, too.
pub(super) fn samples() -> Vec<Condition> {
    let app = |name: &str| -> AppName { name.parse().unwrap() };
    let unit: UnitName = "slurmctld/1".parse().unwrap();
    let option = OptionProblem::new(names::OPTION_PROCESS_TRACKING, "docker", "use auto, cgroup or linuxproc");
    let problem = StateProblem::NotMounted;
    let rejected = RejectedHost { host: "10.0.0.5".to_owned(), cause: Cause::Clocks };
    let samples = vec![
        Condition::Leaving,
        Condition::Second(unit.clone()),
        Condition::AwaitsCluster,
        Condition::AwaitsListing("juju-c9fc6f-1".parse().unwrap()),
        Condition::OldControllers(Serving::Unknown),
        Condition::UnknownHost(unit),
        Condition::ControllerDeparts("juju-c9fc6f-1".parse().unwrap()),
        Condition::BackupServes(None),
        Condition::ListUnsettled,
        Condition::Undecided,
        Condition::Option(option),
        Condition::Install(InstallCondition::NotHeld),
        Condition::Rejected { source: ConfigSource::Parameters, app: None, reason: "no".to_owned() },
        Condition::TakenBack("no".to_owned()),
        Condition::NoteUnreadable("/etc/slurm/by-hand.json: no".to_owned()),
        Condition::PartitionAtRisk("night".to_owned()),
        Condition::UnusableData { app: app("gpu"), why: "no".to_owned() },
        Condition::PartitionTaken { app: app("b"), partition: "a".to_owned(), owner: app("a") },
        Condition::AwaitsPartition { chosen: "gpu".to_owned(), there: vec!["compute".to_owned()] },
        Condition::SeveralDefaults(vec!["a".to_owned(), "b".to_owned()]),
        Condition::State { problem, mount_related: false },
        Condition::Moving(Moving::AwaitsMount),
        Condition::FenceDown,
        Condition::FenceClosed("no write for 12 s".to_owned()),
        Condition::Store(Warning::Slow { median: 120, worst: 900 }),
        Condition::CannotSave("/var/lib/slurm/checkpoint/state is full".to_owned()),
        Condition::AwaitsKey("authentication key"),
        Condition::NotLeader,
        Condition::Daemon(Daemon::Stopped),
        Condition::Unproven(None),
        Condition::RejectedHost(rejected),
        Condition::GrantPending,
        Condition::StaleRelation(app("compute")),
        Condition::SilentApplication(app("compute")),
        Condition::PartitionsUnsaved,
        Condition::Leaves { app: leaver("compute"), held: PartitionHeld::Running(2) },
        Condition::NodeWithoutUnit { node: node("compute-1"), held: NodeHeld::Pending("17".to_owned()) },
        Condition::Unaccounted(leaver("compute")),
        Condition::Reboots { away: 2, total: 5, waiting: 2 },
        Condition::RebootLate(vec![node("compute-1")]),
        Condition::RebootsStalled(vec![node("compute-1")]),
        Condition::RebootsHeld(vec![node("compute-1")]),
        Condition::RebootRefused { node: node("compute-1"), why: "no".to_owned() },
        Condition::RebootsUnreadable("/etc/slurm/reboots.json: no".to_owned()),
        Condition::Rotating { phase: Phase::Signing, cancelled: false, units: vec!["compute/3".to_owned()] },
        Condition::Rotating { phase: Phase::Known, cancelled: true, units: Vec::new() },
        Condition::RotationUnreadable("/etc/slurm/rotation.json: no".to_owned()),
        Condition::NoMetrics(NoMetrics::NoPlugin("24.11.5".to_owned())),
        Condition::NoMetrics(NoMetrics::SwitchedOff),
        Condition::NoMetrics(NoMetrics::Private),
        Condition::SeveralRuntimes(vec!["apptainer".to_owned(), "other".to_owned()]),
        Condition::AwaitsMailPassword(app("smtp-integrator")),
        Condition::MailConfTaken,
        Condition::MailInstall(Obstacle::Passing("Could not get lock".to_owned())),
        Condition::MailInstall(Obstacle::Failed("no such archive".to_owned())),
        Condition::SlurmdbdHangs("juju-c9fc6f-3".to_owned()),
        Condition::Accounting(Accounting::Several(vec!["one".to_owned(), "two".to_owned()])),
        Condition::Accounting(Accounting::NotReady(app("slurmdbd"))),
        Condition::Accounting(Accounting::Silent(app("slurmdbd"), "juju-c9fc6f-3".parse().unwrap())),
        Condition::Accounting(Accounting::Away(app("slurmdbd"), None)),
        Condition::Accounting(Accounting::Away(app("slurmdbd"), Some(7))),
        Condition::Accounting(Accounting::Behind(app("slurmdbd"), 700)),
    ];
    for sample in &samples {
        match sample {
            Condition::Leaving
            | Condition::Second(_)
            | Condition::AwaitsCluster
            | Condition::AwaitsListing(_)
            | Condition::OldControllers(_)
            | Condition::UnknownHost(_)
            | Condition::ControllerDeparts(_)
            | Condition::BackupServes(_)
            | Condition::ListUnsettled
            | Condition::Undecided
            | Condition::Option(_)
            | Condition::Install(_)
            | Condition::Rejected { .. }
            | Condition::TakenBack(_)
            | Condition::NoteUnreadable(_)
            | Condition::PartitionAtRisk(_)
            | Condition::UnusableData { .. }
            | Condition::PartitionTaken { .. }
            | Condition::AwaitsPartition { .. }
            | Condition::SeveralDefaults(_)
            | Condition::State { .. }
            | Condition::Moving(_)
            | Condition::FenceDown
            | Condition::FenceClosed(_)
            | Condition::Store(_)
            | Condition::CannotSave(_)
            | Condition::AwaitsKey(_)
            | Condition::NotLeader
            | Condition::Daemon(_)
            | Condition::Unproven(_)
            | Condition::RejectedHost(_)
            | Condition::GrantPending
            | Condition::StaleRelation(_)
            | Condition::SilentApplication(_)
            | Condition::PartitionsUnsaved
            | Condition::Leaves { .. }
            | Condition::NodeWithoutUnit { .. }
            | Condition::Reboots { .. }
            | Condition::RebootLate(_)
            | Condition::RebootsStalled(_)
            | Condition::RebootsHeld(_)
            | Condition::RebootRefused { .. }
            | Condition::RebootsUnreadable(_)
            | Condition::Rotating { .. }
            | Condition::RotationUnreadable(_)
            | Condition::NoMetrics(_)
            | Condition::SeveralRuntimes(_)
            | Condition::AwaitsMailPassword(_)
            | Condition::MailConfTaken
            | Condition::MailInstall(_)
            | Condition::Accounting(_)
            | Condition::SlurmdbdHangs(_)
            | Condition::Unaccounted(_) => {}
        }
    }
    samples
}
