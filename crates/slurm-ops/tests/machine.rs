//! Packages, units and slurmd's options on a machine of directories and small programs.

mod support;

use slurm_conf::{Node, NodeName};
use slurm_ops::slurmd::{self, SlurmdOptions};
use slurm_ops::source::Source;
use slurm_ops::timer::{self, TransientTimer};
use slurm_ops::{packages, systemd};
use std::time::Duration;
use support::Sandbox;

const STATUS: &str = "\
Package: munge
Status: install ok installed
Version: 0.5.16-1.1

Package: slurmctld
Status: hold ok installed
Priority: optional
Description: controller
 Package: slurmd
Version: 1:24.11.5-4+deb13u1

Package: slurmd
Status: install ok half-configured
Version: 24.11.5-4+deb13u1
";

#[test]
fn only_what_is_completely_installed_counts() {
    let sandbox = Sandbox::new();
    sandbox.file("/var/lib/dpkg/status", STATUS);
    let found = packages::installed(&sandbox.machine(), &["slurmctld", "slurmd", "nothing"]).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["slurmctld"]);
    assert_eq!(found["slurmctld"].upstream_version(), "24.11.5");
    assert!(found["slurmctld"].held);
    assert!(sandbox.calls().is_empty(), "no process is needed to look");
    let journal = "Package: slurmd\nStatus: install ok installed\nVersion: 24.11.5-4\n";
    sandbox.file("/var/lib/dpkg/updates/0001", journal).file("/var/lib/dpkg/updates/tmp.i", "Package: slurmctld\n");
    assert_eq!(packages::version(&sandbox.machine(), "slurmd").unwrap().unwrap().version, "24.11.5-4");
}

#[test]
fn a_source_is_known_and_its_lists_are_fetched_before_anything_comes_from_it() {
    let text = "Types: deb\nURIs: https://x.example/\nSuites: noble\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n -----END PGP PUBLIC KEY BLOCK-----\n";
    let source: Source = text.parse().unwrap();
    let sandbox = installing();
    sandbox.file("/etc/apt/sources.list.d/keep", "");
    assert!(packages::ensure_installed_from(&sandbox.machine(), &source, &["slurmd"], &[]).unwrap());
    assert_eq!(verbs(&sandbox), ["apt-get update", "apt-get install slurmd"]);
    assert_eq!(std::fs::read_to_string(sandbox.path("etc/apt/sources.list.d/slurm-charm.sources")).unwrap(), text);
    // What is installed stays, wherever it came from.
    let other: Source = "ppa:somebody/slurm".parse().unwrap();
    assert!(!packages::ensure_installed_from(&sandbox.machine(), &other, &["slurmd"], &[]).unwrap());
    assert_eq!(verbs(&sandbox).len(), 2);
}

#[test]
fn a_source_that_is_taken_back_stands_in_nobodys_way_and_one_that_fails_says_why() {
    let sandbox = installing();
    sandbox.file("/etc/apt/sources.list.d/slurm-charm.sources", "Types: deb\n");
    assert!(packages::ensure_installed_from(&sandbox.machine(), &Source::Archive, &["slurmd"], &[]).unwrap());
    assert!(!sandbox.path("etc/apt/sources.list.d/slurm-charm.sources").exists());
    let sandbox = installing();
    sandbox.program("add-apt-repository", "").program(
        "apt-get",
        "printf 'W: slow\nE: The repository has no Release file.\nE: Sub-process failed\n' >&2; exit 100",
    );
    let source: Source = "ppa:somebody/slurm".parse().unwrap();
    let error = packages::ensure_installed_from(&sandbox.machine(), &source, &["slurmd"], &[]).unwrap_err();
    assert_eq!(error.reason(), "The repository has no Release file.");
}

#[test]
fn a_ppa_is_added_with_ubuntus_own_program() {
    let sandbox = installing();
    sandbox.program("add-apt-repository", "");
    let source: Source = "ppa:somebody/slurm".parse().unwrap();
    assert!(packages::ensure_installed_from(&sandbox.machine(), &source, &["slurmd"], &[]).unwrap());
    let added = "add-apt-repository ppa:somebody/slurm";
    assert_eq!(verbs(&sandbox), [added, added, "apt-get update", "apt-get install slurmd"]);
}

#[test]
fn a_machine_without_dpkg_has_no_packages() {
    assert_eq!(packages::version(&Sandbox::new().machine(), "slurmd").unwrap(), None);
}

/// systemctl that masks and unmasks for real, apt-get that installs a unit.
fn installing() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("/var/lib/dpkg/status", "").file("/run/systemd/system/keep", "");
    sandbox.program(
        "systemctl",
        "verb=none; units=; for word in \"$@\"; do case $word in mask|unmask|disable) verb=$word;; *.service) units=\"$units $word\";; esac; done
         for unit in $units; do case $verb in
           mask) ln -s /dev/null $ROOT/run/systemd/system/$unit;;
           unmask) rm $ROOT/run/systemd/system/$unit;;
         esac; done",
    );
    sandbox.program(
        "apt-get",
        "mkdir -p $ROOT/usr/lib/systemd/system; touch $ROOT/usr/lib/systemd/system/slurmd.service
         printf 'Package: slurmd\\nStatus: install ok installed\\nVersion: 24.11.5-4\\n' > $ROOT/var/lib/dpkg/status",
    );
    sandbox
}

/// The calls without the options that are the same every time.
fn verbs(sandbox: &Sandbox) -> Vec<String> {
    let short = |call: String| call.split(' ').filter(|word| !word.starts_with("--")).collect::<Vec<_>>().join(" ");
    sandbox.calls().into_iter().map(short).collect()
}

#[test]
fn a_new_daemon_is_masked_before_and_disabled_after_its_installation() {
    let sandbox = installing();
    let units = ["slurmd.service", "munge.service"];
    assert!(packages::ensure_installed(&sandbox.machine(), &["slurmd"], &units).unwrap());
    let expected = [
        "systemctl mask slurmd.service munge.service",
        "apt-get install slurmd",
        "systemctl disable slurmd.service",
        "systemctl unmask slurmd.service munge.service",
    ];
    assert_eq!(verbs(&sandbox), expected);
    assert!(!packages::ensure_installed(&sandbox.machine(), &["slurmd"], &units).unwrap());
    assert_eq!(sandbox.calls().len(), expected.len(), "the second time starts nothing");
}

#[test]
fn an_installation_that_was_killed_before_its_end_is_finished() {
    let sandbox = installing();
    sandbox.program("apt-get", "touch $ROOT/never");
    sandbox.file("/var/lib/dpkg/status", "Package: slurmd\nStatus: install ok installed\nVersion: 24.11.5-4\n");
    sandbox.file("/usr/lib/systemd/system/slurmd.service", "");
    std::os::unix::fs::symlink("/dev/null", sandbox.path("/run/systemd/system/slurmd.service")).unwrap();
    assert!(packages::ensure_installed(&sandbox.machine(), &["slurmd"], &["slurmd.service"]).unwrap());
    assert_eq!(verbs(&sandbox), ["systemctl disable slurmd.service", "systemctl unmask slurmd.service"]);
}

#[test]
fn a_unit_that_is_there_already_is_not_touched() {
    let sandbox = installing();
    sandbox.file("/usr/lib/systemd/system/slurmd.service", "");
    assert!(packages::ensure_installed(&sandbox.machine(), &["slurmd"], &["slurmd.service"]).unwrap());
    assert_eq!(verbs(&sandbox), ["apt-get install slurmd"]);
}

#[test]
fn lists_are_fetched_and_dpkg_is_repaired_only_when_an_installation_fails() {
    let sandbox = installing();
    sandbox.program("dpkg", "touch $ROOT/repaired");
    sandbox.program(
        "apt-get",
        "case \"$*\" in *update*) touch $ROOT/updated;; *) test -e $ROOT/updated || { echo \"E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.\" >&2; exit 100; };; esac",
    );
    packages::ensure_installed(&sandbox.machine(), &["slurmd"], &[]).unwrap();
    assert_eq!(verbs(&sandbox), ["apt-get install slurmd", "dpkg -a", "apt-get update", "apt-get install slurmd"]);
}

#[test]
fn packages_are_held_once() {
    let sandbox = Sandbox::new();
    sandbox.file("/var/lib/dpkg/status", STATUS).program("apt-mark", "");
    assert!(packages::ensure_held(&sandbox.machine(), &["munge", "slurmctld", "absent"]).unwrap());
    assert!(!packages::ensure_held(&sandbox.machine(), &["slurmctld"]).unwrap());
    assert_eq!(sandbox.calls(), ["apt-mark hold munge"]);
}

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
    let states = systemd::states(&sandbox.machine(), &["slurmctld.service", "slurmd.service"]).unwrap();
    assert!(states[0].is_active() && states[0].is_enabled() && states[0].exists() && !states[0].needs_daemon_reload);
    assert_eq!((states[0].main_pid, states[0].active_since), (Some(412), Some(1_794_826_238)));
    assert_eq!(states[0].kill_mode, "process");
    assert!(!states[1].is_active() && !states[1].exists() && states[1].needs_daemon_reload);
    assert_eq!((states[1].main_pid, states[1].active_since), (None, None));
    assert_eq!(sandbox.calls().len(), 1);
    assert!(systemd::state(&sandbox.machine(), "slurmctld.service").is_err(), "two answers to one question");
}

#[test]
fn a_drop_in_is_written_and_read_once() {
    let sandbox = Sandbox::new();
    sandbox.program("systemctl", "");
    let ensure = || {
        systemd::ensure_drop_in(&sandbox.machine(), "slurmd.service", "10-charm", "[Service]\nRestart=on-failure\n")
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
    let line = systemd::command_line(&sandbox.machine(), 412).unwrap().unwrap();
    assert_eq!(SlurmdOptions::from_arguments(&line).unwrap().name.as_str(), "compute-0");
    assert_eq!(systemd::command_line(&sandbox.machine(), 413).unwrap(), None);
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
    assert_eq!(slurmd::machine_info(&sandbox.machine()).unwrap().get("RealMemory"), Some("24103"));
    sandbox.answer("slurmd", "", "slurmd: fatal: no\n", 1);
    assert!(slurmd::machine_info(&sandbox.machine()).is_err());
}

#[test]
fn slurmds_options_are_written_once_and_read_back() {
    let sandbox = Sandbox::new();
    sandbox.file("/etc/default/slurmd", "# Additional options\n#SLURMD_OPTIONS=\"\"\n");
    assert_eq!(slurmd::read_options(&sandbox.machine()).unwrap(), None);
    let options = SlurmdOptions {
        name: NodeName::new("compute-0").unwrap(),
        conf: Node::from_config("Feature=compute").unwrap(),
        controllers: vec!["c1".parse().unwrap()],
    };
    assert!(slurmd::ensure_options(&sandbox.machine(), &options).unwrap());
    assert!(!slurmd::ensure_options(&sandbox.machine(), &options).unwrap());
    assert_eq!(slurmd::read_options(&sandbox.machine()).unwrap(), Some(options));
    assert!(sandbox.read("/etc/default/slurmd").starts_with("# Additional options\n"));
}

#[test]
fn a_transient_timer_is_set_once_bounded_and_ended() {
    let timer = TransientTimer {
        name: "compute-0-look-again".to_owned(),
        description: "Calls again".to_owned(),
        first: vec![Duration::from_secs(5), Duration::from_secs(15)],
        repeat: Duration::from_secs(60),
        limit: Duration::from_secs(600),
        command: vec!["/usr/bin/juju-exec".to_owned(), "-u".to_owned(), "compute/0".to_owned()],
    };
    let sandbox = Sandbox::new();
    let file = "run/systemd/transient/compute-0-look-again.timer";
    sandbox.file("run/systemd/transient/other", "");
    sandbox.program("systemd-run", &format!("touch $ROOT/{file}")).program("systemctl", &format!("rm $ROOT/{file}"));
    let machine = sandbox.machine();
    assert!(!timer::ensure_ended(&machine, &timer.name).unwrap());
    assert!(timer::ensure_set(&machine, &timer).unwrap());
    assert!(!timer::ensure_set(&machine, &timer).unwrap());
    assert!(timer::is_set(&machine, &timer.name));
    assert!(timer::ensure_ended(&machine, &timer.name).unwrap());
    let calls = sandbox.calls();
    let expected = "systemd-run --unit=compute-0-look-again --description=Calls again --collect --quiet \
                    --property=RuntimeMaxSec=600 --timer-property=AccuracySec=100ms --on-active=5 --on-active=15 \
                    --on-unit-inactive=60 -- /usr/bin/juju-exec -u compute/0";
    assert_eq!(calls[0], expected);
    assert!(calls[1].ends_with("stop -- compute-0-look-again.timer"), "{calls:?}");
    assert_eq!(calls.len(), 2);
}
