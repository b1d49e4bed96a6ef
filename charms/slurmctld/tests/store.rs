//! The real binary as the child that touches a store: what it does is what is done without it, and a store that never
//! answers holds nobody else.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use nix::sys::stat::Mode;
use slurm_ops::files::{self, Access};
use slurm_ops::sentinel::{self, Sentinel};
use slurm_ops::{Machine, keys, room, store};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

const BINARY: &str = env!("CARGO_BIN_EXE_slurmctld-charm");
const NOTE: &str = "run/slurm-charm/store-child";

/// A machine on which `/state` is on a disk, or comes over the network; `/etc/slurm` is a link into it.
fn machine(file_system: &str) -> (tempfile::TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    for directory in ["proc/self", "etc", "state/etc-slurm"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    let table = format!("1 0 0:1 / / rw - ext4 /dev/vda1 rw\n2 1 0:2 / /state rw - {file_system} rw\n");
    fs::write(root.path().join("proc/self/mountinfo"), table).unwrap();
    let (user, group) = (nix::unistd::Uid::effective(), nix::unistd::Gid::effective());
    fs::write(root.path().join("etc/passwd"), format!("slurm:x:{user}:{group}::/:/bin/false\n")).unwrap();
    let machine = Machine::at(root.path()).with_program(BINARY);
    files::ensure_link(&machine.writer(), "/etc/slurm", "/state/etc-slurm", "1").unwrap();
    (root, machine)
}

const DISK: &str = "ext4 /dev/vdb1";
const NETWORK: &str = "nfs4 10.0.0.9:/srv";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// How many processes run a program. One that has ended has none.
fn running(program: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program)).count()
}

#[test]
fn a_child_does_what_is_done_without_it() {
    for (root, machine) in [machine(DISK), machine(NETWORK)] {
        let (host, writer) = (machine.host(), machine.writer());
        let state = root.path().join("state");
        fs::write(state.join("a b\nc"), [0, 255, 10, 13]).unwrap();
        fs::write(state.join(".d"), "").unwrap();
        assert_eq!(files::read(&host, "/state/a b\nc").unwrap().unwrap(), [0, 255, 10, 13]);
        assert_eq!(files::read(&host, "/state/none").unwrap(), None);
        assert!(files::exists(&host, "/state/.d") && !files::exists(&host, "/state/none"));
        let written = state.join(".d").metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(files::modified(&host, "/state/.d").unwrap(), Some(written), "to the nanosecond");
        let mut found = store::list(&host, "/state").unwrap().unwrap();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, [".d", "a b\nc", "etc-slurm"]);
        assert_eq!(found[0].modified, written);
        assert_eq!(files::list(&host, "/state/etc-slurm").unwrap().unwrap(), [""; 0]);
        assert_eq!(files::list(&host, "/state/none").unwrap(), None);
        assert!(files::list(&host, "/state/.d/x").unwrap_err().to_string().starts_with("could not list "));

        // What is written below /etc/slurm is written on the store, link or not.
        let conf = state.join("etc-slurm/slurm.conf");
        assert!(files::replace(&writer, "/etc/slurm/slurm.conf", b"one", &Access::slurm(0o640)).unwrap());
        assert!(!files::replace(&writer, "/etc/slurm/slurm.conf", b"one", &Access::slurm(0o640)).unwrap());
        assert_eq!((fs::read(&conf).unwrap().as_slice(), mode(&conf)), (b"one".as_slice(), 0o640));
        assert!(files::has_access(&host, "/etc/slurm/slurm.conf", &Access::slurm(0o640)).unwrap());
        assert!(!files::is_open(&host, "/etc/slurm/slurm.conf").unwrap());
        assert!(files::ensure_open(&writer, "/etc/slurm/slurm.conf").unwrap());
        assert_eq!(mode(&conf), 0o644);
        assert!(files::remove(&writer, "/etc/slurm/slurm.conf").unwrap());
        assert!(!files::remove(&writer, "/etc/slurm/slurm.conf").unwrap());
        assert!(files::ensure_directory(&writer, "/state/x/y", &Access::slurm(0o700)).unwrap());
        assert!(!files::ensure_directory(&writer, "/state/x/y", &Access::slurm(0o700)).unwrap());
        assert_eq!(mode(&state.join("x/y")), 0o700);
        let error = files::replace(&writer, "/state/none/x", b"", &Access::own(0o600)).unwrap_err();
        assert!(error.to_string().starts_with("could not create") && !error.is_silent(), "{error}");

        let key = keys::JwtKey::generate().unwrap();
        assert!(keys::ensure_jwt_key(&writer, &key, "slurm").unwrap());
        assert_eq!(keys::read_jwt_key(&host).unwrap(), Some(key));
        assert!(keys::are_private(&host, "slurm").unwrap());
        assert_eq!(mode(&state.join("etc-slurm/jwt_hs256.key")), 0o600);

        assert_eq!(sentinel::verify(&host, "/state", "lab"), Sentinel::Absent);
        assert_eq!(sentinel::write_once(&writer, "/state", "lab").unwrap(), Sentinel::Ours);
        let other = sentinel::write_once(&writer, "/state", "other").unwrap();
        assert_eq!(other, Sentinel::Other { found: "lab".to_owned() });
        let writable = |path: &str| store::is_writable(&host, path, "slurm").unwrap();
        assert!(writable("/state") && !writable("/state/.d") && !writable("/state/none"));
        assert!(room::is_enough(&host, "/state"));
        assert!(store::space(&host, "/state").unwrap().total > 0);
    }
}

#[test]
fn one_child_serves_all_threads_and_ends_with_the_machine() {
    let (root, machine) = machine(NETWORK);
    fs::write(root.path().join("state/x"), "x".repeat(300_000)).unwrap();
    // A program of this test alone, to tell its processes from those of others.
    let program = root.path().join("program");
    fs::copy(BINARY, &program).unwrap();
    let machine = machine.with_program(&program);
    assert_eq!(running(&program), 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(files::read(&machine.host(), "/state/x").unwrap().unwrap().len(), 300_000);
                }
            });
        }
    });
    files::replace(&machine.writer(), "/state/y", &vec![b'y'; 300_000], &Access::own(0o600)).unwrap();
    assert_eq!(fs::metadata(root.path().join("state/y")).unwrap().len(), 300_000);
    assert_eq!(running(&program), 1);
    drop(machine);
    assert_eq!(running(&program), 0);
    assert!(!root.path().join(NOTE).exists());
}

#[test]
fn what_is_on_this_machine_needs_no_child() {
    let (root, machine) = machine(DISK);
    let machine = machine.with_program("/nonexistent");
    fs::write(root.path().join("state/x"), "x").unwrap();
    assert!(files::exists(&machine.host(), "/state/x"));
    assert!(files::read(&machine.host(), "/etc/passwd").unwrap().is_some());
}

#[test]
fn a_child_that_cannot_be_started_or_ends_is_an_error_and_not_silence() {
    let (root, machine) = machine(NETWORK);
    fs::write(root.path().join("state/x"), "x").unwrap();
    for program in ["/nonexistent", "/bin/true"] {
        let machine = machine.clone().with_program(program);
        let error = files::read(&machine.host(), "/state/x").unwrap_err();
        assert!(error.to_string().starts_with("could not have a child use") && !error.is_silent(), "{error}");
    }
    assert!(!root.path().join(NOTE).exists());
}

/// Nobody writes into this pipe, so whoever opens it waits, as for a server that is gone. A signal ends that here, and
/// would not there: so the child that is left behind is played by a program that is not ours to end.
#[test]
fn a_store_that_does_not_answer_holds_nobody() {
    let (root, machine) = machine(NETWORK);
    let machine = machine.with_store_deadline(Duration::from_secs(1));
    nix::unistd::mkfifo(&root.path().join("state/x"), Mode::S_IRUSR).unwrap();
    fs::write(root.path().join("state/y"), "y").unwrap();
    let (host, began) = (machine.host(), Instant::now());
    assert_eq!(files::read(&host, "/state/y").unwrap().unwrap(), b"y");
    let error = files::read(&host, "/state/x").unwrap_err();
    assert!(error.is_silent(), "{error}");
    assert!(error.to_string().starts_with("no answer within 1 s from "), "{error}");
    assert!(began.elapsed() >= Duration::from_secs(1));
    // From now on nobody waits, not even for what could be read.
    let again = Instant::now();
    for _ in 0..10 {
        assert!(files::read(&host, "/state/y").unwrap_err().is_silent());
        assert!(files::replace(&machine.writer(), "/etc/slurm/z", b"", &Access::own(0o600)).unwrap_err().is_silent());
        assert!(matches!(sentinel::verify(&host, "/state", "lab"), Sentinel::Unreadable { .. }));
    }
    assert!(again.elapsed() < Duration::from_millis(500), "{:?}", again.elapsed());
    // What is on this machine is read as ever.
    assert!(files::read(&host, "/etc/passwd").unwrap().is_some());
}

#[test]
fn while_one_waits_for_a_store_no_second_one_is_started() {
    let (root, machine) = machine(NETWORK);
    fs::write(root.path().join("state/y"), "y").unwrap();
    // This very process plays the one that was left behind.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    let note = root.path().join(NOTE);
    fs::create_dir_all(note.parent().unwrap()).unwrap();
    fs::write(&note, format!("{{\"pid\":{},\"started\":{started}}}", std::process::id())).unwrap();
    // A program that would leave a trace if it were started.
    let trap = root.path().join("trap");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}/sprung\n", root.path().display())).unwrap();
    fs::set_permissions(&trap, PermissionsExt::from_mode(0o755)).unwrap();
    let began = Instant::now();
    let second = machine.clone().with_program(&trap);
    assert!(files::read(&second.host(), "/state/y").unwrap_err().is_silent());
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(!root.path().join("sprung").exists());
    // It is gone: another process has its number.
    fs::write(&note, format!("{{\"pid\":{},\"started\":7}}", std::process::id())).unwrap();
    let (_other, third) = (second, Machine::at(root.path()).with_program(BINARY));
    assert_eq!(files::read(&third.host(), "/state/y").unwrap().unwrap(), b"y");
    assert!(!note.exists());
}
