//! The edges of a charm that follows the controllers, for its process tests: how the real binary, started as Juju
//! starts it among made-up hook tools, takes its last hooks, and an archive with an old Slurm.

#[path = "../../../charm/tests/fake_juju/mod.rs"]
mod fake_juju;

use fake_juju::FakeJuju;

const UNIT_SHOW: &str = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success\nUnitFileState=\n\
                         MainPID=0\nActiveEnterTimestamp=\nNeedDaemonReload=no\n";

/// Which charm it is about.
pub struct Edges {
    pub binary: &'static str,
    pub daemon: &'static str,
    pub unit: &'static str,
}

impl Edges {
    fn machine(&self) -> FakeJuju {
        let mut juju = FakeJuju::new();
        juju.answers("systemctl", "*", "").answers("systemctl", "*show*", UNIT_SHOW);
        let old = |package: &str| format!("{package}:\n  Candidate: 23.11.4-1.2ubuntu5\n");
        let archive = old(self.daemon) + &old("slurm-client");
        juju.answers("apt-cache", "*", &archive).answers("apt-get", "*", "");
        let goal = format!(r#"{{"units":{{"{}":{{"status":"waiting","since":"x"}}}},"relations":{{}}}}"#, self.unit);
        juju.answers("goal-state", "*", &goal);
        juju
    }

    pub fn the_last_hooks_change_nothing_and_never_block(&self) {
        let departing = [
            ("JUJU_RELATION_ID", "slurmctld:3"),
            ("JUJU_REMOTE_APP", "slurmctld"),
            ("JUJU_REMOTE_UNIT", "slurmctld/0"),
            ("JUJU_DEPARTING_UNIT", self.unit),
        ];
        for hook in ["slurmctld-relation-departed", "stop", "remove"] {
            let run = self.machine().dispatch(self.binary, self.unit, &format!("hooks/{hook}"), &departing);
            assert_eq!(run.exit_code, Some(0), "{run:#?}");
            run.called("status-set -- maintenance leaving");
            run.never_called(&["apt-get", "relation-set", "open-port", "systemd-run", "application-version-set"]);
        }
    }

    pub fn an_archive_with_an_old_slurm_is_told_and_nothing_is_installed(&self) {
        let run = self.machine().dispatch(self.binary, self.unit, "hooks/install", &[]);
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        let way_out = "set option slurm-source, e.g. ppa:ubuntu-hpc/slurm-wlm-25.11";
        let daemon = self.daemon;
        run.called(&format!("status-set -- blocked {daemon} 23.11.4 is too old, 24.11 is needed: {way_out}"));
        assert!(!run.of("apt-get").iter().any(|call| call.contains(" install ")), "{run:#?}");
        run.never_called(&["relation-set", "application-version-set", "apt-mark", "systemd-run"]);
    }
}
