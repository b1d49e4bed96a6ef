//! The real binary, started as Juju starts it, among made-up hook tools. What would change this machine is left to the
//! cluster tests; here are the edges: how it is started, how it fails, what it says.

#[path = "../../../crates/charm/tests/fake_juju/mod.rs"]
mod fake_juju;

use fake_juju::FakeJuju;

const BINARY: &str = env!("CARGO_BIN_EXE_slurmrestd-charm");
const UNIT_SHOW: &str = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success\nUnitFileState=\nMainPID=0\nActiveEnterTimestamp=\nNeedDaemonReload=no\n";

fn machine() -> FakeJuju {
    let mut juju = FakeJuju::new();
    juju.answers("systemctl", "*", "").answers("systemctl", "*show*", UNIT_SHOW);
    let old = "slurmrestd:\n  Candidate: 23.11.4-1.2ubuntu5\n";
    juju.answers("apt-cache", "*", old).answers("apt-get", "*", "");
    juju
}

#[test]
fn the_last_hooks_change_nothing_and_never_block() {
    let departing = [
        ("JUJU_RELATION_ID", "slurmctld:3"),
        ("JUJU_REMOTE_APP", "slurmctld"),
        ("JUJU_REMOTE_UNIT", "slurmctld/0"),
        ("JUJU_DEPARTING_UNIT", "rest/0"),
    ];
    for hook in ["slurmctld-relation-departed", "stop", "remove"] {
        let run = machine().dispatch(BINARY, "rest/0", &format!("hooks/{hook}"), &departing);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        run.called("status-set -- maintenance leaving");
        run.never_called(&["apt-get", "relation-set", "open-port", "systemd-run", "application-version-set"]);
    }
}

#[test]
fn an_archive_with_an_old_slurm_is_told_and_nothing_is_installed() {
    let run = machine().dispatch(BINARY, "rest/0", "hooks/install", &[]);
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    run.called("status-set -- blocked slurmrestd 23.11.4 is too old, 24.11 is needed: set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11");
    assert!(!run.of("apt-get").iter().any(|call| call.contains(" install ")), "{run:#?}");
    run.never_called(&["relation-set", "application-version-set", "apt-mark", "systemd-run"]);
}
