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
    juju.answers(
        "apt-cache",
        "*",
        "slurmd:\n  Candidate: 23.11.4-1.2ubuntu5\nslurm-client:\n  Candidate: 23.11.4-1.2ubuntu5\n",
    );
    juju.answers("apt-get", "*", "");
    juju
}

#[test]
#[expect(clippy::disallowed_methods, reason = "starts the charm as Juju never does")]
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
fn an_archive_with_an_old_slurm_is_told_and_nothing_is_installed_or_published() {
    let mut juju = machine();
    juju.answers("relation-ids", "--format=json slurmctld", r#"["slurmctld:3"]"#)
        .answers("relation-list", "*", r#"["slurmctld/0"]"#)
        .answers("relation-get", "*", "{}");
    let run = juju.dispatch(BINARY, "compute/0", "hooks/install", &[]);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("status-set -- blocked slurmd 23.11.4 is too old, 24.11 is needed: set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11");
    assert!(!run.of("apt-get").iter().any(|call| call.contains(" install ")), "{run:#?}");
    run.never_called(&["relation-set", "application-version-set", "apt-mark", "systemd-run"]);
}

#[test]
fn a_broken_relation_is_not_asked_about() {
    let mut juju = machine();
    juju.answers("relation-ids", "--format=json slurmctld", r#"["slurmctld:3"]"#).fails(
        "relation-get",
        "*",
        2,
        r#"ERROR invalid value "slurmctld:3" for option -r: relation not found"#,
    );
    let broken = [("JUJU_RELATION_ID", "slurmctld:3"), ("JUJU_REMOTE_APP", ""), ("JUJU_REMOTE_UNIT", "")];
    let run = juju.dispatch(BINARY, "compute/0", "hooks/slurmctld-relation-broken", &broken);
    run.never_called(&["relation-get", "relation-list", "secret-get"]);
    assert_eq!(run.of("goal-state").len(), 1, "{run:#?}");
}

#[test]
fn a_node_that_begins_to_leave_notes_it_below_the_root_of_its_own_machine() {
    let juju = machine();
    let options = "SLURMD_OPTIONS=\"-Z -N compute-0 --conf 'Feature=compute' --conf-server ctl:6817\"\n";
    juju.write("/etc/default/slurmd", options);
    let run = juju.dispatch(BINARY, "compute/0", "hooks/update-status", &[]);
    let note = std::fs::read_to_string(juju.file("/var/lib/slurmd-charm/node.json")).unwrap_or_default();
    assert!(note.contains("leaving"), "{note} {run:#?}");
}

#[test]
fn an_action_it_does_not_have_is_refused_cleanly() {
    let run = machine().dispatch(BINARY, "compute/0", "actions/fly", &[]);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("action-fail -- this charm has no action fly");
}

const UNREACHABLE: &str = "slurm_load_node error: Unable to contact slurm controller (connect failure)";

/// An action of the real binary, with parameters as Juju passes them.
fn action(name: &str, parameters: &str) -> fake_juju::Run {
    let mut juju = machine();
    juju.answers("action-get", "*", parameters).fails("scontrol", "*", 1, UNREACHABLE).fails(
        "squeue",
        "*",
        1,
        UNREACHABLE,
    );
    juju.dispatch(BINARY, "compute/0", &format!("actions/{name}"), &[("JUJU_ACTION_NAME", name)])
}

#[test]
fn parameters_that_make_no_sense_are_refused_before_slurm_is_asked() {
    for (name, parameters, expected) in [
        ("drain", r#"{"reason": "a\nb"}"#, "parameter `reason`: `a\\nb`: expected one line of printable text"),
        ("drain", r#"{"reason": 7}"#, "parameter `reason`: invalid type"),
        ("drain", r#"{}"#, "missing field `reason`"),
        ("resume", r#"{"nodename": "other"}"#, "parameter `nodename`: unknown field"),
        ("destroy-jobs", r#"{"dry-run": "no"}"#, "parameter `dry-run`: invalid type"),
        ("node-config", r#"{"parameters": "State=DOWN"}"#, "State is set by the charm"),
        ("node-config", r#"{"parameters": "Weight=1\nNodeName=evil"}"#, "NodeName is set by the charm"),
        ("node-config", r#"{"parameters": "Weight=1 # x"}"#, "expected no comment"),
    ] {
        let run = action(name, parameters);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        let refusals = run.of("action-fail");
        assert!(refusals.len() == 1 && refusals[0].contains(expected), "{name} {parameters}: {refusals:?}");
        run.never_called(&["scancel", "action-set", "relation-set", "status-set"]);
        assert!(!run.calls.iter().any(|call| call.starts_with("scontrol update")), "{run:#?}");
    }
}

#[test]
fn what_slurm_cannot_be_asked_is_refused_in_words() {
    for (name, parameters) in
        [("resume", "{}"), ("show-node", "{}"), ("destroy-jobs", "{}"), ("drain", r#"{"reason": "disk"}"#)]
    {
        let run = action(name, parameters);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        let refusals = run.of("action-fail");
        assert!(refusals.len() == 1 && refusals[0].contains("slurmctld does not answer"), "{name}: {refusals:?}");
        run.never_called(&["scancel"]);
    }
}

#[test]
fn scripts_for_the_python_charm_are_told_false_as_well() {
    let run = action("set-node-config", r#"{"parameters": "NodeAddr=10.0.0.1"}"#);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("action-set -- accepted=False");
    assert!(run.of("action-fail")[0].contains("Overrides charm-managed configuration parameter."), "{run:#?}");
}

#[test]
fn the_alarm_of_systemd_is_an_event_of_its_own() {
    let run = machine().dispatch(BINARY, "compute/0", "hooks/daemon-failed", &[]);
    assert!(!run.calls.iter().any(|call| call.contains("start")), "it starts nothing: {run:#?}");
}
