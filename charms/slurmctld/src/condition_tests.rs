//! What an operator reads in each situation.

use super::*;
use crate::config::files::Files;
use crate::config::rejections::Rejections;
use crate::facts::{MountEndpoint, StateDirectory, StoreMount};
use crate::plan::situations::World;
use crate::step::{Luggage, Step};
use charm::runtime::Condition as _;
use slurm_ops::packages::Obstacle;
use slurm_unit::note::Noted;

/// The text a unit shows, with Juju's word in front.
#[path = "condition_samples.rs"]
mod samples;
use samples::samples;

fn shown(world: &World) -> String {
    world.shown()
}

fn leaver(name: &str) -> PartitionName {
    name.parse().unwrap()
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

const FENCE: &str = r#"{"directory":"","state_directory":"","marker":"","patience_seconds":1,"service":""}"#;
const REFERENCE: &str = include_str!("../../../docs/reference.md");

/// Every text that a unit can show: of one condition there may be several.
fn statuses() -> Vec<Status> {
    let text = |text: &str| text.to_owned();
    let mut conditions = samples();
    let option = |value| OptionProblem::new(names::OPTION_PARAMETERS, value, "no");
    conditions.extend([Condition::Option(option("x")), Condition::Option(option(""))]);
    conditions.push(Condition::Store(Warning::NearlyFull { free: 40 << 20, total: 1 << 30 }));
    conditions.push(Condition::OldControllers(Serving::Host("juju-c9fc6f-1".parse().unwrap())));
    conditions.push(Condition::OldControllers(Serving::Nobody));
    conditions.push(Condition::BackupServes(Some("juju-c9fc6f-1".parse().unwrap())));
    conditions.push(Condition::AwaitsKey(crate::keys::Key::Jwt.name()));
    conditions.push(Condition::Unproven(Some(text("no"))));
    let partition = ConfigSource::Partition(text("a"));
    conditions.push(Condition::Rejected { source: partition, app: Some("a".parse().unwrap()), reason: text("no") });
    let problems = [
        StateProblem::NotMounted,
        StateProblem::ReadOnly,
        StateProblem::Lost,
        StateProblem::Foreign(text("lab x/y")),
        StateProblem::Unmarked,
        StateProblem::Unreadable(text("no")),
    ];
    conditions.extend(problems.map(|problem| Condition::State { problem, mount_related: true }));
    let foreign = StateProblem::Foreign(text("lab x/y"));
    conditions.push(Condition::State { problem: foreign, mount_related: false });
    let units = || vec!["slurmctld/1".parse().unwrap(), "slurmctld/2".parse().unwrap()];
    let moving = [
        Moving::OtherUnits { to_store: true, units: units() },
        Moving::OtherUnits { to_store: false, units: units() },
        Moving::NoClient,
        Moving::Occupied,
        Moving::Unusable(StateProblem::Unmarked),
        Moving::Failed(text("no")),
    ];
    conditions.extend(moving.map(Condition::Moving));
    let daemons = [
        Daemon::Failing { reason: text("no") },
        Daemon::Silent { reason: None },
        Daemon::Silent { reason: Some(text("no")) },
        Daemon::SteppedAside,
        Daemon::ShutOut,
    ];
    conditions.extend(daemons.map(Condition::Daemon));
    let old = || Obstacle::TooOld { package: text("slurmctld"), found: text("23.11.4") };
    let failed = |obstacle, archive| Condition::Install(InstallCondition::Failed { obstacle, archive });
    conditions.extend([
        failed(Obstacle::Passing(text("locked")), true),
        failed(Obstacle::Failed(text("no space")), true),
        failed(Obstacle::Failed(text("no space")), false),
        failed(old(), true),
        failed(Obstacle::Unknown { package: text("slurmctld") }, true),
        failed(Obstacle::Lacking { plugin: "auth_slurm.so" }, true),
        Condition::Install(InstallCondition::InUse(old())),
    ]);
    let causes = [Cause::Clocks, Cause::Authentication, Cause::NameResolution];
    let rejected = |cause| Condition::RejectedHost(RejectedHost { host: text("10.0.0.5"), cause });
    conditions.extend(causes.map(rejected));
    let held_nodes = || {
        let held = [NodeHeld::Job(text("12")), NodeHeld::Pending(text("17")), NodeHeld::Reservation(text("maint"))];
        held.into_iter().chain([NodeHeld::Slurmctld(text("no"))])
    };
    conditions.extend(held_nodes().map(|held| Condition::NodeWithoutUnit { node: node("compute-1"), held }));
    let held = [
        PartitionHeld::Pending(vec![text("17")]),
        PartitionHeld::Pending(vec![text("17"), text("18")]),
        PartitionHeld::Running(1),
        PartitionHeld::Running(2),
        PartitionHeld::Ended(1),
        PartitionHeld::Ended(3),
        PartitionHeld::Nodes(vec![text("compute-0"), text("compute-1")]),
        PartitionHeld::Slurmctld(text("no")),
    ];
    let held = held.into_iter().chain(held_nodes().map(|held| PartitionHeld::Node(node("compute-0"), held)));
    conditions.extend(held.map(|held| Condition::Leaves { app: leaver("compute"), held }));
    let shown = |one: &Condition| status(&Facts::default(), std::slice::from_ref(one));
    let mut statuses: Vec<Status> = conditions.iter().map(shown).collect();
    // Said while a step is taken, and by what all charms share.
    let hand_over = Step::HandOver { rank: 1, host: text("juju-c9fc6f-1") };
    let fence = || slurm_ops::fence::Settings::parse(FENCE).unwrap();
    let luggage = || Luggage {
        note: text("lab x/y"),
        files: Files::default(),
        stamp: text("1"),
        drop_in: text(""),
        fence: fence(),
    };
    let moves = [Step::MoveToStore(luggage()), Step::MoveToDisk(luggage())];
    let mail = Step::Mail(crate::mail::MailStep::Install);
    let steps = [Step::StartDaemon, Step::RestartDaemon, hand_over, mail].into_iter().chain(moves).collect::<Vec<_>>();
    statuses.extend(steps.iter().filter_map(crate::apply::announce));
    statuses.extend([Status::maintenance("installing slurmctld"), Status::waiting("retrying after error: no")]);
    statuses
}

#[test]
fn every_status_is_documented() {
    let differences = charm_testing::status_differences(REFERENCE, "## Statuses of slurmctld", &statuses());
    assert_eq!(differences, Vec::<String>::new());
}

/// A condition that only the timer can end sets it; one without a bad status is of interest to the timer alone.
#[test]
fn a_condition_without_a_bad_status_is_looked_at_again() {
    for sample in samples() {
        let bad = !matches!(sample.status(), Status::Active(_));
        // Who has to upgrade Slurm or change an option knows it, and Juju tells of it.
        let told = matches!(sample, Condition::NoMetrics(_));
        assert!(bad || told || sample.needs_retry(), "{sample:?}");
    }
}

#[test]
fn a_serving_controller_says_what_it_is() {
    assert_eq!(shown(&World::serving()), "active: primary - UP");
    assert_eq!(shown(&World::serving().with_compute("compute", "").settled()), "active: primary - UP");
}

#[test]
fn a_second_unit_is_told_how_to_go() {
    let world = World::fresh().not_leading().with_sibling("slurmctld/1");
    assert_eq!(shown(&world), "blocked: one controller only without use-network-state: `juju remove-unit slurmctld/0`");
}

#[test]
fn a_leaving_unit_is_never_blocked() {
    let mut world = World::fresh().not_leading().with_sibling("slurmctld/1");
    world.leaving = true;
    assert_eq!(shown(&world), "maintenance: leaving");
}

#[test]
fn what_was_refused_is_named_while_it_is_wanted() {
    let refusing = |text: &str, _| text.contains("bogus").then_some("Invalid QOS");
    let mut world = World::serving().with_compute("compute", "QOS=bogus").settled_where(&refusing);
    assert_eq!(shown(&world), "blocked: compute: partition refused: Invalid QOS");
    world.computes.clear();
    assert_eq!(shown(&world), "active: primary - UP");
    world.options.parameters = "SchedulerType=sched/bogus".to_owned();
    let world = world.settled_where(&refusing);
    assert_eq!(shown(&world), "blocked: option slurm-conf-parameters refused: Invalid QOS");
}

#[test]
fn a_key_that_slurm_refused_and_nobody_knows_is_named_with_its_neighbour() {
    let mut world = World::serving();
    world.options.parameters = "KillWait=1\nMaxJobCont=5".to_owned();
    let world = world.settled_where(&|text, parser| {
        (parser && text.contains("MaxJobCont")).then_some("Parsing error at unrecognized key: MaxJobCont")
    });
    assert_eq!(
        shown(&world),
        "blocked: option slurm-conf-parameters refused: unknown key `maxjobcont`, did you mean MaxJobCount?"
    );
}

#[test]
fn a_file_that_was_put_back_is_told() {
    let mut world = World::serving();
    let taken_back = Some((world.now, "unrecognized key: BogusKey".to_owned()));
    world.rejections = Noted::Known(Rejections { taken_back, ..Rejections::default() });
    assert_eq!(shown(&world), "blocked: /etc/slurm/slurm.conf was refused and put back: unrecognized key: BogusKey");
}

#[test]
fn every_bad_option_is_named_with_value_and_fix() {
    type Set = fn(&mut World, &str);
    let table: [(Set, &str, &str); 8] = [
        (
            |world, value| world.options.cluster_name = value.to_owned(),
            "other",
            "option cluster-name `other`: the cluster is charmed-hpc-aB3_ for good, reset the option",
        ),
        (
            |world, value| world.options.default_partition = value.to_owned(),
            "a b",
            "option default-partition `a b`: use the name of an integrated slurmd application",
        ),
        (
            |world, value| world.options.default_partition = value.to_owned(),
            "DEFAULT",
            "option default-partition `DEFAULT`: use the name of an integrated slurmd application",
        ),
        (
            |world, value| world.options.parameters = value.to_owned(),
            "AuthType=auth/munge",
            "option slurm-conf-parameters: line 1: key `AuthType` is set by the charm",
        ),
        (
            |world, value| world.options.parameters = value.to_owned(),
            "KillWait=x\u{1b}",
            "option slurm-conf-parameters: line 1: value `x\\u{1b}` of KillWait: expected text in which a control character is not al…",
        ),
        (
            |world, value| world.options.cgroup_parameters = value.to_owned(),
            "ConstrainCores=maybe",
            "option cgroup-parameters: line 1: value `maybe` of ConstrainCores: expected YES or NO",
        ),
        (
            |world, value| world.options.process_tracking = value.to_owned(),
            "docker\n",
            "option process-tracking `docker\\n`: use auto, cgroup or linuxproc",
        ),
        (
            |world, value| {
                world.installation.version = None;
                world.options.source = value.to_owned();
            },
            "ppa:x",
            "option slurm-source: expected nothing, `ppa:owner/name` or a deb822 source with its key: `x` is no name of a PPA",
        ),
    ];
    for (set, value, expected) in table {
        let mut world = World::serving();
        set(&mut world, value);
        assert_eq!(shown(&world), format!("blocked: {expected}"), "{value}");
        assert_eq!(world.steps(), [""; 0], "{value}");
    }
}

#[test]
fn an_application_with_unusable_data_is_named() {
    let world = World::serving().with_unusable("compute", "key partition: unknown option `MaxTim`");
    assert_eq!(shown(&world), "blocked: compute: key partition: unknown option `MaxTim`");
}

#[test]
fn of_two_claims_to_a_partition_the_second_is_named() {
    let mut world = World::serving().with_compute("compute", "").settled();
    world = world.with_compute("other", "");
    world.computes[1].data = world.computes[0].data.clone();
    assert_eq!(shown(&world), "blocked: other: partition compute belongs to compute");
}

#[test]
fn a_default_partition_that_is_not_there_is_awaited() {
    let mut world = World::serving();
    world.options.default_partition = "gpu".to_owned();
    assert_eq!(shown(&world), "waiting: for partition gpu (option default-partition); there: none yet");
    let world = world.with_compute("a", "").with_compute("b", "").settled();
    assert_eq!(shown(&world), "waiting: for partition gpu (option default-partition); there: a, b");
}

#[test]
fn two_defaults_are_named_until_the_operator_chooses() {
    let mut world = World::serving().with_compute("a", "Default=YES").with_compute("b", "Default=YES").settled();
    assert_eq!(shown(&world), "blocked: a, b all say Default=YES: choose with option default-partition");
    world.options.default_partition = "b".to_owned();
    assert_eq!(shown(&world.settled()), "active: primary - UP");
}

#[test]
fn a_cluster_name_that_cannot_be_one_is_named_with_its_option() {
    let mut world = World::fresh();
    world.options.cluster_name = "two words".to_owned();
    assert_eq!(
        shown(&world),
        "blocked: option cluster-name `two words`: use at most 40 letters, digits, `-`, `_`, `.`"
    );
}

#[test]
fn a_daemon_that_does_not_serve_is_told_as_it_is() {
    let with = |daemon: Daemon| {
        let mut world = World::serving();
        world.daemon = daemon;
        // Called by the failure itself, the charm starts nothing.
        world.trigger = slurm_unit::Trigger::DaemonFailure;
        shown(&world)
    };
    assert_eq!(with(Daemon::Stopped), "waiting: for slurmctld to start");
    assert_eq!(with(Daemon::Silent { reason: None }), "waiting: for slurmctld to answer");
    let mute = Daemon::Silent { reason: Some("Protocol authentication error".to_owned()) };
    assert_eq!(
        with(mute),
        "waiting: for slurmctld to answer: keys or clocks of the machines differ (Protocol authentication error)"
    );
    let failing = |reason: &str| Daemon::Failing { reason: reason.to_owned() };
    assert_eq!(with(failing("systemd: exit-code")), "waiting: for slurmctld, which fails: systemd: exit-code");
    assert_eq!(
        with(failing("This host (x/x) not a valid controller")),
        "waiting: for slurmctld, which fails: this host's name is not in slurm.conf (This host (x/x) not a valid controller)"
    );
}

#[test]
fn a_machine_that_is_refused_is_named() {
    let mut world = World::serving();
    let with = |cause| Some(RejectedHost { host: "juju-1".to_owned(), cause });
    world.rejected_host = with(Cause::Clocks);
    assert_eq!(shown(&world), "active: primary - UP; refuses juju-1: its clock differs");
    world.rejected_host = with(Cause::Authentication);
    assert_eq!(shown(&world), "active: primary - UP; refuses juju-1: its key or clock differs");
}

#[test]
fn whatever_stands_between_slurmctld_and_its_state_blocks() {
    let with = |change: fn(&mut World)| {
        let mut world = World::serving();
        world.daemon = Daemon::Stopped;
        change(&mut world);
        shown(&world)
    };
    assert_eq!(
        with(|world| world.store.state = StateDirectory::Absent),
        "blocked: /var/lib/slurm/checkpoint/state is not this cluster's any more: restore it, or jobs are lost"
    );
    assert_eq!(
        with(|world| world.store.state = StateDirectory::Of("lab x/y".to_owned())),
        "blocked: /var/lib/slurm/checkpoint/state belongs to lab x/y: check the mount"
    );
    assert_eq!(
        with(|world| world.store.state = StateDirectory::Unreadable("`cat` did not end within 10 s".to_owned())),
        "blocked: /var/lib/slurm/checkpoint/state cannot be read: `cat` did not end within 10 s"
    );
    assert_eq!(
        with(|world| {
            world.options.network_state = true;
            world.store.state = StateDirectory::Absent;
        }),
        "blocked: nothing is mounted at /var/lib/slurm/checkpoint: integrate a file system client with `mount`"
    );
    assert_eq!(
        with(|world| {
            world.options.network_state = true;
            world.store.state = StateDirectory::Absent;
            world.mount = Some(MountEndpoint { relation: "mount:1".parse().unwrap(), published: Default::default() });
        }),
        "blocked: nothing is mounted at /var/lib/slurm/checkpoint: see the unit on `mount`"
    );
    assert_eq!(
        with(|world| world.store.mount = StoreMount::Mounted { read_only: true }),
        "blocked: /var/lib/slurm/checkpoint is read-only: slurmctld has to write there"
    );
}

#[test]
fn packages_that_cannot_be_had_are_the_operators_to_mend() {
    let mut world = World::fresh();
    let failing = |world: &World, problem: Obstacle| {
        let mut world = world.clone();
        world.apt = Some(problem);
        shown(&world)
    };
    let failed = Obstacle::Failed("no such archive".to_owned());
    assert_eq!(failing(&world, failed.clone()), "blocked: installing slurmctld failed: no such archive");
    let busy = Obstacle::Passing("Could not get lock".to_owned());
    assert_eq!(failing(&world, busy), "waiting: for apt: Could not get lock");
    let way_out = "set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
    let old = Obstacle::TooOld { package: "slurmctld".to_owned(), found: "23.11.4".to_owned() };
    let expected = format!("blocked: slurmctld 23.11.4 is too old, 24.11 is needed: {way_out}");
    assert_eq!(failing(&world, old.clone()), expected);
    world.options.source = "ppa:a/b".to_owned();
    assert_eq!(failing(&world, failed), "blocked: option slurm-source: installing failed: no such archive");
    world.installation.unfit = Some(old);
    world.daemon = Daemon::Silent { reason: None };
    let expected = "blocked: slurmctld 23.11.4 is too old, 24.11 is needed, and it runs: stop slurmctld, then set option slurm-source";
    assert_eq!(shown(&world), expected);
}

#[test]
fn a_controller_that_lost_leadership_serves_and_says_so() {
    assert_eq!(shown(&World::serving().not_leading()), "waiting: for Juju to make this unit the leader again");
}

#[test]
fn every_text_fits_a_line() {
    for sample in samples() {
        let status = sample.status();
        assert!(status.message().chars().count() <= 110, "{}", status.message());
    }
}
