//! What machines see of a store that they share, and of what is wrong with it.

use crate::{FakeMachine, FakeStore, Fault};
use slurm_ops::files::{self, Access};
use slurm_ops::mounts::{Mount, mount_at};
use std::fs;
use std::io::ErrorKind;

const NOTE: &str = "/var/lib/slurm/checkpoint/note";

fn machines() -> (FakeStore, [FakeMachine; 2]) {
    let store = FakeStore::new();
    let machine = |unit: &str| {
        let machine = FakeMachine::of(&unit.parse().unwrap());
        machine.mount(&store);
        machine
    };
    let machines = [machine("slurmctld/0"), machine("slurmctld/1")];
    (store, machines)
}

fn mounted(machine: &FakeMachine) -> Mount {
    mount_at(&machine.machine().host(), "/var/lib/slurm/checkpoint").unwrap()
}

#[test]
fn what_one_machine_writes_another_one_reads() {
    let (store, [one, other]) = machines();
    one.write(NOTE, "1");
    assert_eq!((other.read(NOTE).as_deref(), store.read("note").as_deref()), (Some("1"), Some("1")));
    store.write("etc-slurm/slurm.conf", "2");
    one.link("/etc/slurm", "/var/lib/slurm/checkpoint/etc-slurm");
    assert_eq!(one.read("/etc/slurm/slurm.conf").as_deref(), Some("2"));
    assert_eq!(one.link_target("/etc/slurm").as_deref(), Some("/var/lib/slurm/checkpoint/etc-slurm"));
    assert_eq!(other.read("/etc/slurm/slurm.conf"), None);
}

#[test]
fn a_link_to_a_path_of_the_machine_leads_below_its_root() {
    let (store, [one, _]) = machines();
    store.write("etc-slurm/slurm.conf", "1");
    let link = one.machine().path("/etc/slurm");
    fs::remove_dir(&link).unwrap();
    std::os::unix::fs::symlink("/var/lib/slurm/checkpoint/etc-slurm", &link).unwrap();
    assert_eq!(one.read("/etc/slurm/slurm.conf").as_deref(), Some("1"));
    one.unmount();
    assert_eq!(one.read("/etc/slurm/slurm.conf"), None);
}

#[test]
fn what_a_machine_has_itself_is_hidden_while_the_store_is_mounted() {
    let machine = FakeMachine::of(&"slurmctld/0".parse().unwrap());
    machine.write(NOTE, "own");
    let store = FakeStore::new();
    machine.mount(&store);
    assert_eq!(machine.read(NOTE), None);
    machine.write(NOTE, "shared");
    machine.unmount();
    assert_eq!(machine.read(NOTE).as_deref(), Some("own"));
    machine.mount(&store);
    assert_eq!(machine.read(NOTE).as_deref(), Some("shared"));
}

#[test]
fn the_kernels_table_tells_what_is_mounted() {
    let (store, [one, other]) = machines();
    let read_only = |machine| matches!(mounted(machine), Mount::Mounted { read_only: true, .. });
    let works = |machine| matches!(mounted(machine), Mount::Mounted { read_only: false, .. });
    assert!(works(&one) && works(&other));
    store.fails(Some(Fault::ReadOnly));
    assert!(read_only(&one) && read_only(&other));
    store.fails(None);
    one.store_fails(Some(Fault::Gone));
    assert!(mounted(&one) == Mount::Trigger && works(&other) && !one.has_mounted());
    one.store_fails(Some(Fault::Silent));
    assert!(works(&one), "the kernel does not know that nobody answers");
    one.unmount();
    assert_eq!(mounted(&one), Mount::Nothing);
}

#[test]
fn a_store_that_does_not_answer_gives_no_answer_to_whoever_did_not_ask() {
    let (store, [one, other]) = machines();
    one.write(NOTE, "1");
    one.store_fails(Some(Fault::Silent));
    let error = fs::read(one.machine().path(NOTE)).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::NotFound, "that would be an answer");
    assert_eq!((one.read(NOTE), other.read(NOTE).as_deref()), (None, Some("1")));
    one.store_fails(None);
    assert_eq!(one.read(NOTE).as_deref(), Some("1"));
    store.fails(Some(Fault::Gone));
    assert_eq!(fs::read(one.machine().path(NOTE)).unwrap_err().kind(), ErrorKind::NotFound);
    store.fails(None);
    assert_eq!(one.read(NOTE).as_deref(), Some("1"));
}

#[test]
fn the_programs_of_a_charm_are_told_what_is_wrong() {
    let (store, [one, _]) = machines();
    store.write("etc-slurm/slurm.conf", "1");
    one.link("/etc/slurm", "/var/lib/slurm/checkpoint/etc-slurm");
    let (machine, access) = (one.machine(), Access::own(0o644));
    let read = || files::read_text(&machine.host(), "/etc/slurm/slurm.conf");
    let write = |text: &str| files::replace(&machine.writer(), "/etc/slurm/slurm.conf", text.as_bytes(), &access);
    assert!(write("2").unwrap());
    for (fault, writable, room) in [(Fault::ReadOnly, false, true), (Fault::Full, true, false)] {
        store.fails(Some(fault));
        assert!(!write("2").unwrap(), "nothing has to change");
        assert!(write("3").is_err() && !files::read_text(&machine.host(), NOTE).is_ok_and(|note| note.is_some()));
        assert_eq!(read().unwrap().as_deref(), Some("2"));
        assert_eq!(
            slurm_ops::store::is_writable(&machine.host(), "/var/lib/slurm/checkpoint", "slurm").unwrap(),
            writable
        );
        assert_eq!(slurm_ops::room::is_enough(&machine.host(), "/var/lib/slurm/checkpoint"), room);
        assert!(files::replace(&machine.writer(), "/etc/note", b"own", &Access::own(0o644)).is_ok());
    }
    store.fails(Some(Fault::Silent));
    assert!(read().unwrap_err().is_silent() && write("3").unwrap_err().is_silent());
    store.fails(Some(Fault::Gone));
    assert!(read().unwrap().is_none() && write("3").is_err());
    store.fails(None);
    assert!(write("3").unwrap());
}
