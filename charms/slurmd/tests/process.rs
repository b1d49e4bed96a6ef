//! The real binary, started as Juju starts it, among made-up hook tools. What would change this machine is left to the
//! cluster tests; here are the edges: how it is started, how it fails, what it says.

#[path = "../../../crates/charm/tests/fake_juju/mod.rs"]
mod fake_juju;

use fake_juju::FakeJuju;

const BINARY: &str = env!("CARGO_BIN_EXE_slurmd-charm");
const UNIT_SHOW: &str = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success\nUnitFileState=\nMainPID=0\nActiveEnterTimestamp=\nNeedDaemonReload=no\n";

fn machine() -> FakeJuju {
    let mut juju = FakeJuju::new();
    juju.answers("systemctl", "*", "").answers("systemctl", "*show*", UNIT_SHOW);
    juju
}

#[test]
fn outside_of_juju_it_says_what_is_missing() {
    let output = std::process::Command::new(BINARY).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "environment variable JUJU_DISPATCH_PATH is not set: a charm is started by Juju\n");
}

#[test]
fn a_relation_hook_without_its_relation_is_refused_before_anything_is_asked() {
    let run = machine().dispatch(BINARY, "compute/0", "hooks/slurmctld-relation-changed", &[]);
    assert_eq!(run.exit_code, Some(2));
    assert!(run.stderr.contains("JUJU_RELATION_ID is not set"), "{run:?}");
    assert!(run.calls.is_empty(), "{run:?}");
}

#[test]
fn the_last_hooks_change_nothing_and_never_block() {
    let departing = [
        ("JUJU_RELATION_ID", "slurmctld:3"),
        ("JUJU_REMOTE_APP", "slurmctld"),
        ("JUJU_REMOTE_UNIT", "slurmctld/0"),
        ("JUJU_DEPARTING_UNIT", "compute/0"),
    ];
    for hook in ["slurmctld-relation-departed", "stop", "remove"] {
        let run = machine().dispatch(BINARY, "compute/0", &format!("hooks/{hook}"), &departing);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        run.called("status-set -- maintenance leaving");
        run.never_called(&["apt-get", "relation-set", "open-port", "systemd-run", "application-version-set"]);
    }
}

#[test]
fn an_installation_that_fails_fails_the_hook_and_publishes_nothing() {
    let mut juju = machine();
    juju.fails("apt-get", "*", 100, "E: Unable to locate package slurmd")
        .answers("relation-ids", "--format=json slurmctld", r#"["slurmctld:3"]"#)
        .answers("relation-list", "*", r#""slurmctld""#)
        .answers("relation-get", "*", "{}");
    let run = juju.dispatch(BINARY, "compute/0", "hooks/install", &[]);
    assert_eq!(run.exit_code, Some(1), "{run:#?}");
    run.called("status-set -- maintenance installing slurmd");
    let errors = run.of("juju-log").into_iter().filter(|call| call.contains("-l ERROR")).collect::<Vec<_>>();
    assert_eq!(errors.len(), 1, "{run:#?}");
    assert!(errors[0].contains("compute/0 install: could not install slurmd slurm-client"), "{run:#?}");
    assert!(errors[0].contains("Unable to locate package slurmd"), "{run:#?}");
    run.never_called(&["relation-set", "application-version-set"]);
}

#[test]
fn a_broken_relation_is_not_asked_about() {
    let mut juju = machine();
    juju.fails("apt-get", "*", 100, "E: no")
        .answers("relation-ids", "--format=json slurmctld", r#"["slurmctld:3"]"#)
        .fails("relation-get", "*", 2, r#"ERROR invalid value "slurmctld:3" for option -r: relation not found"#);
    let broken = [("JUJU_RELATION_ID", "slurmctld:3"), ("JUJU_REMOTE_APP", ""), ("JUJU_REMOTE_UNIT", "")];
    let run = juju.dispatch(BINARY, "compute/0", "hooks/slurmctld-relation-broken", &broken);
    run.never_called(&["relation-get", "relation-list", "secret-get"]);
    assert_eq!(run.of("goal-state").len(), 1, "{run:#?}");
}

#[test]
fn an_action_it_does_not_have_is_refused_cleanly() {
    let run = machine().dispatch(BINARY, "compute/0", "actions/fly", &[]);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("action-fail -- this charm has no action fly");
}
