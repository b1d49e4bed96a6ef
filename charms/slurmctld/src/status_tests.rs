//! What an operator reads in each situation.

use super::*;
use crate::observe::{MountEndpoint, StateDirectory, Store};
use crate::plan::plan;
use slurm_ops::journal::Stranger;

/// The text a unit shows, with Juju's word in front.
fn shown(seen: &Observed) -> String {
    let status = status(seen);
    format!("{}: {}", status.word(), status.message())
}

#[test]
fn a_serving_controller_says_what_it_is() {
    assert_eq!(shown(&Observed::serving()), "active: primary - UP");
    assert_eq!(shown(&Observed::serving().with_compute("compute", "").settled()), "active: primary - UP");
}

#[test]
fn a_second_unit_is_told_how_to_go() {
    let seen = Observed::fresh().not_leading().with_sibling("slurmctld/1");
    assert_eq!(shown(&seen), "blocked: one controller only without use-network-state: `juju remove-unit slurmctld/0`");
    let mut seen = seen;
    seen.options.network_state = true;
    assert_eq!(shown(&seen), "blocked: several controllers are not supported yet: `juju remove-unit slurmctld/0`");
}

#[test]
fn a_leaving_unit_is_never_blocked() {
    let mut seen = Observed::fresh().not_leading().with_sibling("slurmctld/1");
    seen.leaving = true;
    assert_eq!(shown(&seen), "maintenance: leaving");
}

#[test]
fn what_was_refused_is_named_while_it_is_wanted() {
    let refusing = |text: &str, _| text.contains("bogus").then_some("Invalid QOS");
    let mut seen = Observed::serving().with_compute("compute", "QOS=bogus").settled_where(refusing);
    assert_eq!(shown(&seen), "blocked: compute: partition refused: Invalid QOS");
    seen.computes.clear();
    assert_eq!(shown(&seen), "active: primary - UP");
    seen.options.parameters = "SchedulerType=sched/bogus".to_owned();
    let seen = seen.settled_where(refusing);
    assert_eq!(shown(&seen), "blocked: option slurm-conf-parameters refused: Invalid QOS");
}

#[test]
fn a_key_that_slurm_refused_and_nobody_knows_is_named_with_its_neighbour() {
    let mut seen = Observed::serving();
    seen.options.parameters = "KillWait=1\nMaxJobCont=5".to_owned();
    let seen = seen.settled_where(|text, parser| (parser && text.contains("MaxJobCont")).then_some("Parsing error"));
    assert_eq!(
        shown(&seen),
        "blocked: option slurm-conf-parameters refused: line 2: key `MaxJobCont` is not known here, the nearest known one is `MaxJobCount`"
    );
}

#[test]
fn a_file_that_was_put_back_is_told() {
    let mut seen = Observed::serving();
    seen.machine.taken_back = Some("unrecognized key: BogusKey".to_owned());
    assert_eq!(shown(&seen), "blocked: /etc/slurm/slurm.conf was refused and put back: unrecognized key: BogusKey");
}

#[test]
fn every_bad_option_is_named_with_value_and_fix() {
    type Set = fn(&mut Observed, &str);
    let table: [(Set, &str, &str); 8] = [
        (
            |seen, value| seen.options.cluster_name = value.to_owned(),
            "other",
            "option cluster-name: `other`: the cluster is charmed-hpc-aB3_ for good, reset the option",
        ),
        (
            |seen, value| seen.options.default_partition = value.to_owned(),
            "a b",
            "option default-partition: `a b`: use the name of an integrated slurmd application",
        ),
        (
            |seen, value| seen.options.default_partition = value.to_owned(),
            "DEFAULT",
            "option default-partition: `DEFAULT`: use the name of an integrated slurmd application",
        ),
        (
            |seen, value| seen.options.parameters = value.to_owned(),
            "AuthType=auth/munge",
            "option slurm-conf-parameters: line 1: key `AuthType` is set by the charm",
        ),
        (
            |seen, value| seen.options.parameters = value.to_owned(),
            "KillWait=x\u{1b}",
            "option slurm-conf-parameters: line 1: value `x\\u{1b}` of KillWait: expected text in which a control character is not al…",
        ),
        (
            |seen, value| seen.options.cgroup_parameters = value.to_owned(),
            "ConstrainCores=maybe",
            "option cgroup-parameters: line 1: value `maybe` of ConstrainCores: expected YES or NO",
        ),
        (
            |seen, value| seen.options.process_tracking = value.to_owned(),
            "docker\n",
            "option process-tracking: `docker\\n`: use auto, cgroup or linuxproc",
        ),
        (
            |seen, value| {
                seen.machine.version = None;
                seen.options.source = value.to_owned();
            },
            "ppa:x",
            "option slurm-source: expected nothing, `ppa:owner/name` or a deb822 source with its key: `x` is no name of a PPA",
        ),
    ];
    for (set, value, expected) in table {
        let mut seen = Observed::serving();
        set(&mut seen, value);
        assert_eq!(shown(&seen), format!("blocked: {expected}"), "{value}");
        assert!(plan(&seen).steps.is_empty(), "{value}: {:?}", plan(&seen).steps);
    }
}

#[test]
fn an_application_with_unusable_data_is_named() {
    let seen = Observed::serving().with_unusable("compute", "key partition: unknown option `MaxTim`");
    assert_eq!(shown(&seen), "blocked: compute: key partition: unknown option `MaxTim`");
}

#[test]
fn of_two_claims_to_a_partition_the_second_is_named() {
    let mut seen = Observed::serving().with_compute("compute", "").settled();
    seen = seen.with_compute("other", "");
    seen.computes[1].offer = seen.computes[0].offer.clone();
    assert_eq!(shown(&seen), "blocked: other: partition compute belongs to compute");
}

#[test]
fn a_default_partition_that_is_not_there_is_awaited() {
    let mut seen = Observed::serving();
    seen.options.default_partition = "gpu".to_owned();
    assert_eq!(shown(&seen), "waiting: for partition gpu (option default-partition); there: none yet");
    let seen = seen.with_compute("a", "").with_compute("b", "").settled();
    assert_eq!(shown(&seen), "waiting: for partition gpu (option default-partition); there: a, b");
}

#[test]
fn two_defaults_are_named_until_the_operator_chooses() {
    let mut seen = Observed::serving().with_compute("a", "Default=YES").with_compute("b", "Default=YES").settled();
    assert_eq!(shown(&seen), "blocked: a, b all say Default=YES: choose with option default-partition");
    seen.options.default_partition = "b".to_owned();
    assert_eq!(shown(&seen.settled()), "active: primary - UP");
}

#[test]
fn a_cluster_name_that_cannot_be_one_is_named_with_its_option() {
    let mut seen = Observed::fresh();
    seen.options.cluster_name = "two words".to_owned();
    assert_eq!(
        shown(&seen),
        "blocked: option cluster-name: `two words`: use at most 40 letters, digits, `-`, `_`, `.`"
    );
}

#[test]
fn a_daemon_that_does_not_serve_is_told_as_it_is() {
    let with = |daemon: Daemon| {
        let mut seen = Observed::serving();
        seen.machine.daemon = daemon;
        shown(&seen)
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
    let mut seen = Observed::serving();
    let with = |cause| Some(Stranger { host: "juju-1".to_owned(), cause });
    seen.machine.stranger = with(Cause::Clocks);
    assert_eq!(shown(&seen), "active: primary - UP; refuses juju-1: its clock differs");
    seen.machine.stranger = with(Cause::Authentication);
    assert_eq!(shown(&seen), "active: primary - UP; refuses juju-1: its key or clock differs");
}

#[test]
fn whatever_stands_between_slurmctld_and_its_state_blocks() {
    let with = |change: fn(&mut Observed)| {
        let mut seen = Observed::serving();
        seen.machine.daemon = Daemon::Stopped;
        change(&mut seen);
        shown(&seen)
    };
    assert_eq!(
        with(|seen| seen.machine.state = StateDirectory::Absent),
        "blocked: /var/lib/slurm/checkpoint/state is not this cluster's any more: restore it, or jobs are lost"
    );
    assert_eq!(
        with(|seen| seen.machine.state = StateDirectory::Of("lab x/y".to_owned())),
        "blocked: /var/lib/slurm/checkpoint/state belongs to lab x/y: mount or empty the right one"
    );
    assert_eq!(
        with(|seen| seen.machine.state = StateDirectory::Unreadable("`cat` did not end within 10 s".to_owned())),
        "blocked: /var/lib/slurm/checkpoint/state cannot be read: `cat` did not end within 10 s"
    );
    assert_eq!(
        with(|seen| {
            seen.options.network_state = true;
            seen.machine.state = StateDirectory::Absent;
        }),
        "blocked: nothing is mounted at /var/lib/slurm/checkpoint: integrate a file system client with `mount`"
    );
    assert_eq!(
        with(|seen| {
            seen.options.network_state = true;
            seen.machine.state = StateDirectory::Absent;
            seen.mount = Some(MountEndpoint { relation: "mount:1".parse().unwrap(), published: Default::default() });
        }),
        "blocked: nothing is mounted at /var/lib/slurm/checkpoint: see the unit on `mount`"
    );
    assert_eq!(
        with(|seen| seen.machine.store = Store::Mounted { read_only: true }),
        "blocked: /var/lib/slurm/checkpoint is read-only: slurmctld has to write there"
    );
}

#[test]
fn a_file_system_that_is_wanted_too_late_is_told_so() {
    let mut seen = Observed::serving();
    seen.options.network_state = true;
    assert_eq!(
        shown(&seen),
        "blocked: option use-network-state: true: the cluster has its state on the local disk, and nothing moves it yet: reset the option"
    );
}

#[test]
fn packages_that_cannot_be_had_are_the_operators_to_mend() {
    let mut seen = Observed::fresh();
    assert_eq!(shown(&seen), "maintenance: installing slurmctld");
    seen.options.source = "ppa:a/b".to_owned();
    seen.tried.install = Some(Packages::Failed("no such archive".to_owned()));
    assert_eq!(shown(&seen), "blocked: option slurm-source: installing failed: no such archive");
    seen.options.source.clear();
    assert_eq!(shown(&seen), "blocked: installing slurmctld failed: no such archive");
    seen.tried.install = Some(Packages::Passing("Could not get lock".to_owned()));
    assert_eq!(shown(&seen), "waiting: for apt: Could not get lock");
    let way_out = "set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
    let old = Packages::TooOld { package: "slurmctld".to_owned(), found: "23.11.4".to_owned() };
    seen.tried.install = Some(old.clone());
    assert_eq!(shown(&seen), format!("blocked: slurmctld 23.11.4 is too old, 24.11 is needed: {way_out}"));
    seen.tried.install = None;
    seen.machine.unfit = Some(old);
    seen.machine.daemon = Daemon::Silent { reason: None };
    let expected = "blocked: slurmctld 23.11.4 is too old, 24.11 is needed, and it runs: stop slurmctld, then set option slurm-source";
    assert_eq!(shown(&seen), expected);
}

#[test]
fn a_controller_that_lost_leadership_serves_and_says_so() {
    assert_eq!(shown(&Observed::serving().not_leading()), "waiting: for Juju to make this unit the leader again");
}

#[test]
fn every_text_fits_a_line() {
    for seen in [Observed::fresh(), Observed::serving(), Observed::serving().not_leading()] {
        assert!(status(&seen).message().chars().count() <= 80);
    }
}
