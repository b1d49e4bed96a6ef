//! The real binary, started as Juju starts it, among made-up hook tools. What would change this machine is left to the
//! cluster tests; here are the edges: how it is started, how it fails, what it says.

#[path = "../../../crates/charm/tests/fake_juju/mod.rs"]
mod fake_juju;

use fake_juju::{FakeJuju, Run};

const BINARY: &str = env!("CARGO_BIN_EXE_slurmctld-charm");
/// Whatever changes something, in the model or on the machine.
const WRITES: [&str; 9] = [
    "application-version-set",
    "apt-get",
    "open-port",
    "relation-set",
    "secret-add",
    "secret-grant",
    "state-set",
    "systemd-run",
    "scontrol",
];
const UNIT_SHOW: &str = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success\nUnitFileState=\nMainPID=0\nActiveEnterTimestamp=\nNeedDaemonReload=no\n";
/// The same of a slurmctld that runs.
const UNIT_RUNS: &str = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nUnitFileState=enabled\nMainPID=7\nActiveEnterTimestamp=@1794830922\nNeedDaemonReload=no\n";
const SECOND: &str = r#"{"units":{"slurmctld/0":{"status":"active","since":"x"},"slurmctld/1":{"status":"waiting","since":"x"}},"relations":{}}"#;

fn machine() -> FakeJuju {
    let mut juju = FakeJuju::new();
    juju.answers("systemctl", "*show*", UNIT_SHOW);
    for tool in ["secret-info-get", "secret-get"] {
        juju.fails(tool, "*", 1, r#"ERROR secret "slurm-auth-key" not found"#);
    }
    juju
}

/// The second unit of an application: it installs Slurm and does nothing more. With a source that cannot be used it
/// does nothing at all, so its whole life can be shown here.
fn second_unit() -> FakeJuju {
    let mut juju = machine();
    juju.answers("is-leader", "*", "false").answers("goal-state", "*", SECOND);
    juju.answers("config-get", "*", r#"{"slurm-source":"deb http://example.com ./"}"#);
    juju
}

fn second(juju: &FakeJuju, hook: &str) -> Run {
    juju.dispatch(BINARY, "slurmctld/1", &format!("hooks/{hook}"), &[])
}

/// What Slurm knows, as far as it matters here: compute-0 and compute-1.
const TWO_NODES: &str = r#"{"nodes":[
    {"name":"compute-0","state":["IDLE"],"reason":"","hostname":"a","partitions":[],"features":[],"real_memory":1,"cpus":1},
    {"name":"compute-1","state":["IDLE"],"reason":"","hostname":"b","partitions":[],"features":[],"real_memory":1,"cpus":1}]}"#;

fn resume(juju: &mut FakeJuju, nodename: &str) -> Run {
    juju.answers("systemctl", "*show*", UNIT_RUNS).answers("scontrol", "show node*", TWO_NODES);
    juju.answers("action-get", "*", &format!("{{\"nodename\":{nodename:?}}}"));
    juju.dispatch(BINARY, "slurmctld/0", "actions/resume", &[])
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
fn a_dispatch_path_of_no_known_kind_is_refused_before_anything_is_asked() {
    let run = machine().dispatch(BINARY, "slurmctld/0", "charm/install", &[]);
    assert_eq!(run.exit_code, Some(2));
    assert!(run.stderr.contains("found `charm/install`"), "{run:?}");
    assert!(run.calls.is_empty(), "{run:?}");
}

#[test]
fn a_second_unit_is_blocked_and_changes_nothing() {
    for hook in ["install", "config-changed", "start", "update-status", "retry", "leader-settings-changed"] {
        let run = second(&second_unit(), hook);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        run.called(
            "status-set -- blocked one controller only without use-network-state: `juju remove-unit slurmctld/1`",
        );
        run.never_called(&WRITES);
    }
}

#[test]
fn a_settled_hook_logs_nothing_and_sets_no_status_again() {
    let mut juju = second_unit();
    juju.answers(
        "status-get",
        "*",
        r#"{"message":"one controller only without use-network-state: `juju remove-unit slurmctld/1`","status":"blocked"}"#,
    );
    let run = second(&juju, "update-status");
    run.never_called(&["status-set", "juju-log"]);
    // What is said at debug level goes out by standard output, which costs no process.
    assert!(run.stdout.contains("is-leader exit=0"), "{run:#?}");
    assert!(run.stdout.contains("slurmctld/1 update-status: nothing to do"), "{run:#?}");
    assert_eq!(run.stderr, "");
}

#[test]
fn the_last_hooks_change_nothing_and_never_block() {
    for hook in ["stop", "remove"] {
        let run = machine().dispatch(BINARY, "slurmctld/0", &format!("hooks/{hook}"), &[]);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        run.called("status-set -- maintenance leaving");
        run.never_called(&WRITES);
    }
}

#[test]
fn a_tool_that_fails_fails_the_hook_with_its_whole_command_line() {
    let mut juju = second_unit();
    juju.fails("config-get", "*", 1, "ERROR permission denied (unauthorized access)");
    let run = second(&juju, "config-changed");
    assert_eq!(run.exit_code, Some(1));
    let text = "juju-log -l ERROR -- slurmctld/1 config-changed: could not look at Options: \
                `config-get --format=json` exited with 1: ERROR permission denied (unauthorized access)";
    run.called(text);
    // What was there before says nothing of it, and Juju shows the status of the hook's end.
    let told = run.of("status-set");
    assert!(
        told.iter().any(|call| call.contains("waiting retrying after error: could not look at Options")),
        "{run:#?}"
    );
}

#[test]
fn resume_opens_nodes_and_answers() {
    let mut juju = machine();
    juju.answers("scontrol", "update*", "");
    let run = resume(&mut juju, "compute-[0-1]");
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("scontrol update nodename=compute-[0-1] state=resume");
    run.called("action-set -- status=resuming nodes=compute-[0-1]");
    run.never_called(&["action-fail"]);
    // In an action standard output becomes part of the result, so nothing of ours may be on it.
    assert_eq!(run.stdout, "");
    assert_eq!(run.of("juju-log"), ["juju-log -l INFO -- slurmctld/0 action resume: done"]);
}

#[test]
fn resume_of_a_node_in_service_is_fine() {
    let mut juju = machine();
    juju.fails("scontrol", "update*", 1, "slurm_update error: Invalid node state specified");
    resume(&mut juju, "compute-0").called("action-set -- status=resuming nodes=compute-0");
}

#[test]
fn resume_of_an_unknown_node_fails_cleanly_and_names_it() {
    let run = resume(&mut machine(), "compute-[0,9]");
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("action-fail -- Error resuming compute-[0,9]: Slurm knows no node compute-9");
    assert_eq!(run.of("scontrol").len(), 1, "{run:#?}");
    run.never_called(&["action-set"]);
}

#[test]
fn resume_takes_no_more_than_nodes() {
    let run = resume(&mut machine(), "compute-0 state=down");
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    assert_eq!(run.of("action-fail").len(), 1);
    run.never_called(&["scontrol", "action-set"]);
}

/// Recorded answers of a real Slurm.
const NODES: &str = include_str!("../../../crates/slurm-ops/tests/recorded/node-drained.json");
const JOBS: &str = include_str!("../../../crates/slurm-ops/tests/recorded/jobs.json");

fn act(juju: &mut FakeJuju, action: &str, parameters: &str) -> Run {
    juju.answers("systemctl", "*show*", UNIT_RUNS).answers("action-get", "*", parameters);
    juju.dispatch(BINARY, "slurmctld/0", &format!("actions/{action}"), &[])
}

#[test]
fn a_node_is_explained_from_what_a_real_slurm_says() {
    let mut juju = machine();
    juju.answers("scontrol", "show node*", NODES);
    let run = act(&mut juju, "explain", r#"{"node":"compute-0","job":0}"#);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    let answer = run.of("action-set").join("\n");
    assert!(answer.contains("why=it is drained, with the reason \"charm: a b\""), "{answer}");
    assert!(answer.contains("resume nodename=compute-0"), "{answer}");
}

#[test]
fn jobs_are_only_counted_in_a_dry_run() {
    let mut juju = machine();
    juju.answers("scontrol", "show node*", NODES).answers("squeue", "*", JOBS);
    let run = act(&mut juju, "destroy-jobs", r#"{"nodes":"compute-0","dry-run":true}"#);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    let answer = run.of("action-set").join("\n");
    assert!(
        answer.starts_with("action-set -- status=dry run nodes=compute-0 jobs=1 pending=2 3 details=1 "),
        "{answer}"
    );
    run.never_called(&["scancel", "action-fail"]);
}

#[test]
fn a_state_is_set_with_exactly_these_arguments() {
    let mut juju = machine();
    juju.answers("scontrol", "show node*", TWO_NODES).answers("scontrol", "update*", "");
    let run =
        act(&mut juju, "set-node-state", r#"{"nodes":"compute-[0-1]","state":"down","reason":"new 'disk' $(x)"}"#);
    run.called("scontrol update nodename=compute-[0-1] state=down reason=new 'disk' $(x)");
    run.called("action-set -- state=down nodes=compute-[0-1]");
}

#[test]
fn an_action_on_a_unit_without_slurmctld_says_so_and_asks_nobody_else() {
    let mut juju = second_unit();
    juju.answers("action-get", "*", r#"{"nodes":""}"#);
    let run = juju.dispatch(BINARY, "slurmctld/1", "actions/show-nodes", &[]);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("action-fail -- slurmctld does not run on slurmctld/1: run this action on slurmctld/0");
    run.never_called(&["scontrol", "action-set"]);
}

#[test]
fn a_source_that_cannot_be_used_is_named_and_nothing_is_installed() {
    let mut juju = machine();
    juju.answers("config-get", "*", r#"{"slurm-source":"deb http://example.com ./"}"#);
    let run = juju.dispatch(BINARY, "slurmctld/0", "hooks/install", &[]);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    assert!(run.of("status-set").join("").contains("blocked option slurm-source"), "{run:#?}");
    run.never_called(&WRITES);
}
