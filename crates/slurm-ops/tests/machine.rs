//! Units and slurmd's options on a machine of directories and small programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod support;

use slurm_conf::{Node, NodeName};
use slurm_ops::slurmd::{self, SlurmdOptions};
use slurm_ops::systemd;
use slurm_ops::timer::{self, Rhythm};
use std::time::{Duration, Instant};
use support::Sandbox;

const SHOWN: &str = "\
MainPID=412
Result=success
NeedDaemonReload=no
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
ActiveEnterTimestamp=@1794826238
KillMode=process

MainPID=0
Result=success
NeedDaemonReload=yes
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
ActiveEnterTimestamp=
";

#[test]
fn units_are_asked_for_with_one_process() {
    let sandbox = Sandbox::new();
    sandbox.answer("systemctl", SHOWN, "", 0);
    let states = systemd::states(&sandbox.machine().host(), &["slurmctld.service", "slurmd.service"]).unwrap();
    assert!(states[0].is_active() && states[0].exists() && !states[0].needs_daemon_reload);
    assert_eq!(states[0].main_pid, Some(412));
    assert_eq!(states[0].kill_mode, "process");
    assert!(!states[1].is_active() && !states[1].exists() && states[1].needs_daemon_reload);
    assert_eq!(states[1].main_pid, None);
    assert_eq!(sandbox.calls().len(), 1);
    assert!(systemd::state(&sandbox.machine().host(), "slurmctld.service").is_err(), "two answers to one question");
}

#[test]
fn a_drop_in_is_written_and_read_once() {
    let sandbox = Sandbox::new();
    sandbox.program("systemctl", "");
    let ensure = || {
        systemd::ensure_drop_in(
            &sandbox.machine().writer(),
            "slurmd.service",
            "10-charm",
            "[Service]\nRestart=on-failure\n",
        )
        .unwrap()
    };
    assert!(ensure());
    assert!(!ensure());
    assert_eq!(sandbox.calls(), ["systemctl --no-pager --no-ask-password daemon-reload"]);
    assert!(sandbox.read("/etc/systemd/system/slurmd.service.d/10-charm.conf").contains("on-failure"));
}

#[test]
fn a_running_daemon_is_known_by_its_command_line() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "/proc/412/cmdline",
        "/usr/sbin/slurmd\0--systemd\0-Z\0-N\0compute-0\0--conf\0Feature=compute\0--conf-server\0c1:6817\0",
    );
    let line = systemd::command_line(&sandbox.machine().host(), 412).unwrap().unwrap();
    assert_eq!(SlurmdOptions::from_arguments(&line).unwrap().name.as_str(), "compute-0");
    assert_eq!(systemd::command_line(&sandbox.machine().host(), 413).unwrap(), None);
}

#[test]
fn slurmd_is_asked_for_the_hardware() {
    let sandbox = Sandbox::new();
    let stdout = "NodeName=n1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24103\nUpTime=0-00:12:04";
    sandbox.answer(
        "slurmd",
        stdout,
        "hwloc/linux: failed to find sysfs cpu topology directory, aborting linux discovery.\n",
        0,
    );
    assert_eq!(slurmd::machine_info(&sandbox.machine().host()).unwrap().get("RealMemory"), Some("24103"));
    sandbox.answer("slurmd", "", "slurmd: fatal: no\n", 1);
    assert!(slurmd::machine_info(&sandbox.machine().host()).is_err());
}

#[test]
fn slurmds_options_are_written_once_and_read_back() {
    let sandbox = Sandbox::new();
    sandbox.file("/etc/default/slurmd", "# Additional options\n#SLURMD_OPTIONS=\"\"\n");
    assert_eq!(slurmd::read_options(&sandbox.machine().host()).unwrap(), None);
    let options = SlurmdOptions {
        name: NodeName::new("compute-0").unwrap(),
        conf: Node::from_config("Feature=compute").unwrap(),
        controllers: vec!["c1".parse().unwrap()],
    };
    assert!(slurmd::ensure_options(&sandbox.machine().writer(), &options).unwrap());
    assert!(!slurmd::ensure_options(&sandbox.machine().writer(), &options).unwrap());
    assert_eq!(slurmd::read_options(&sandbox.machine().host()).unwrap(), Some(options));
    assert!(sandbox.read("/etc/default/slurmd").starts_with("# Additional options\n"));
}

#[test]
fn a_timer_is_set_once_bounded_begun_anew_and_ended() {
    let name = "compute-0-look-again";
    let command = ["/usr/bin/juju-exec", "-u", "compute/0"].map(str::to_owned);
    let rhythm = Rhythm {
        first: &[Duration::from_secs(5), Duration::from_secs(15)],
        repeat: Duration::from_secs(60),
        limit: Duration::from_secs(600),
    };
    let sandbox = Sandbox::new();
    let file = "run/systemd/transient/compute-0-look-again.timer";
    sandbox.file("run/systemd/transient/other", "");
    let end = format!("case \"$*\" in *stop*) rm $ROOT/{file};; esac");
    sandbox.program("systemd-run", &format!("touch $ROOT/{file}")).program("systemctl", &end);
    let (host, writer) = (sandbox.machine().host(), sandbox.machine().writer());
    assert!(!timer::ensure_ended(&writer, name).unwrap());
    timer::restart(&writer, name, &command, &rhythm).unwrap();
    assert!(!timer::ensure_set(&writer, name, &command, &rhythm).unwrap());
    assert!(timer::is_set(&host, name));
    timer::restart(&writer, name, &command, &rhythm).unwrap();
    assert!(timer::ensure_ended(&writer, name).unwrap());
    assert!(timer::ensure_set(&writer, name, &command, &rhythm).unwrap());
    let service = sandbox.read("run/systemd/system/compute-0-look-again.service");
    assert!(
        service.contains("Type=oneshot\nTimeoutStartSec=600\nExecStart=\"/usr/bin/juju-exec\" \"-u\" \"compute/0\"\n")
    );
    // The service is a file of its own: a command here would be a second, transient one, which may be at work still.
    let set = "systemd-run --unit=compute-0-look-again.service --quiet --timer-property=AccuracySec=100ms --timer-property=StartLimitIntervalSec=0 \
                --on-active=5 \
               --on-active=15 --on-unit-inactive=60";
    let calls = sandbox.calls();
    let expected =
        ["daemon-reload", set, "restart -- compute-0-look-again.timer", "stop -- compute-0-look-again.timer", set];
    assert_eq!(calls.len(), expected.len(), "{calls:?}");
    assert!(calls.iter().zip(expected).all(|(call, expected)| call.ends_with(expected)), "{calls:?}");
}

/// A unit of slurmd with two processes of its own and one of a job, in a state that a program decides about.
fn unit_in_state(state: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    for (pid, program) in [(41, "slurmd"), (42, "slurmd"), (43, "slurmstepd")] {
        sandbox.file(&format!("/proc/{pid}/cgroup"), "0::/system.slice/slurmd.service\n");
        std::os::unix::fs::symlink(format!("/usr/sbin/{program}"), sandbox.path(&format!("/proc/{pid}/exe"))).unwrap();
    }
    sandbox.program("systemctl", &format!("state={state}; echo LoadState=loaded; echo ActiveState=$state"));
    sandbox.program("kill", "touch $ROOT/killed");
    sandbox.answer("scontrol", include_str!("recorded/node-idle.json"), "", 0);
    sandbox
}

fn await_start(sandbox: &Sandbox, patience: Duration) -> Vec<u32> {
    let node = NodeName::new("compute-0").unwrap();
    slurmd::remnants::await_start(&sandbox.machine().writer(), "slurmd.service", &node, patience).unwrap()
}

const MOMENT: Duration = Duration::from_millis(30);

#[test]
fn a_slurmd_that_does_not_go_is_killed_after_a_moment_and_jobs_are_not() {
    let sandbox = unit_in_state("$(test -e $ROOT/killed && echo active || echo deactivating)");
    let began = Instant::now();
    let ended = await_start(&sandbox, MOMENT);
    assert!(began.elapsed() >= MOMENT, "it is given its time");
    assert_eq!(ended, [41, 42]);
    let calls = sandbox.calls();
    assert!(calls.contains(&"kill -KILL 41 42".to_owned()), "{calls:?}");
    let after = calls.rsplit(|call| call.starts_with("kill")).next().unwrap();
    assert!(after[0].starts_with("systemctl"), "its successor is looked at: {calls:?}");
}

#[test]
fn a_slurmd_that_looks_for_its_controllers_or_has_failed_is_left_alone() {
    for state in ["activating", "active", "failed", "inactive"] {
        let sandbox = unit_in_state(state);
        sandbox.answer("scontrol", include_str!("recorded/node-absent.json"), "", 0);
        let ended = await_start(&sandbox, MOMENT);
        assert!(ended.is_empty() && !sandbox.path("/killed").exists(), "{state}");
    }
}

#[test]
fn nobody_waits_longer_than_until_slurmd_is_known() {
    let sandbox = unit_in_state("active");
    let began = Instant::now();
    await_start(&sandbox, Duration::from_secs(60));
    assert!(began.elapsed() < Duration::from_secs(30));
}
