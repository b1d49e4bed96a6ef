//! Copies of directories, and what they keep.

use super::*;
use crate::machine::Machine;
use std::fs::File;

fn machine() -> (tempfile::TempDir, Machine) {
    let directory = tempfile::tempdir().unwrap();
    for made in ["from/hash.0/job.7", "from/empty"] {
        fs::create_dir_all(directory.path().join(made)).unwrap();
    }
    for (path, text) in [("from/.cluster", "lab"), ("from/job_state", "one"), ("from/hash.0/job.7/script", "sleep")] {
        fs::write(directory.path().join(path), text).unwrap();
    }
    symlink("job_state", directory.path().join("from/latest")).unwrap();
    let machine = Machine::at(directory.path());
    (directory, machine)
}

/// Makes a file one that nobody has touched for a while, in the eyes of a copy.
fn copied_long_ago(copy: &mut Copy, machine: &Machine, path: &str) {
    copy.seen.insert(path.into(), Some(found(&machine.path("/from").join(path)).unwrap()));
}

fn begin(machine: &Machine) -> Copy {
    Copy::begin(&machine.writer(), "/from", "/to/in", &[".cluster"]).unwrap()
}

#[test]
fn a_copy_has_all_but_what_is_left_out() {
    let (root, machine) = machine();
    let at = |path: &str| root.path().join("to/in").join(path);
    let script = root.path().join("from/hash.0/job.7/script");
    fs::set_permissions(&script, Permissions::from_mode(0o640)).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_794_850_942);
    File::options().write(true).open(&script).unwrap().set_modified(time).unwrap();
    fs::create_dir_all(at("of-an-earlier-one")).unwrap();
    assert_eq!(begin(&machine).pass(&machine.writer(), None).unwrap(), 3);
    assert!(!at(".cluster").exists() && !at("of-an-earlier-one").exists() && at("empty").is_dir());
    assert_eq!(fs::read_to_string(at("hash.0/job.7/script")).unwrap(), "sleep");
    let seen = fs::metadata(at("hash.0/job.7/script")).unwrap();
    assert_eq!((seen.mode() & 0o7777, seen.modified().unwrap()), (0o640, time));
    assert_eq!(fs::read_link(at("latest")).unwrap(), Path::new("job_state"));
}

#[test]
fn a_later_pass_copies_what_changed_and_removes_what_is_gone() {
    let (root, machine) = machine();
    let mut copy = begin(&machine);
    copy.pass(&machine.writer(), None).unwrap();
    let long_ago = |copy: &mut Copy| {
        for path in ["hash.0/job.7/script", "job_state", "latest"] {
            copied_long_ago(copy, &machine, path);
        }
    };
    long_ago(&mut copy);
    assert_eq!(copy.pass(&machine.writer(), None).unwrap(), 0);
    long_ago(&mut copy);
    fs::write(root.path().join("from/hash.0/job.7/script"), "other").unwrap();
    fs::create_dir(root.path().join("from/hash.0/job.8")).unwrap();
    fs::write(root.path().join("from/hash.0/job.8/script"), "new").unwrap();
    assert_eq!(copy.pass(&machine.writer(), None).unwrap(), 2);
    assert_eq!(fs::read_to_string(root.path().join("to/in/hash.0/job.7/script")).unwrap(), "other");
    fs::remove_dir_all(root.path().join("from/hash.0")).unwrap();
    copy.pass(&machine.writer(), None).unwrap();
    assert!(!root.path().join("to/in/hash.0").exists());
    assert_eq!(fs::read_dir(root.path().join("to/in")).unwrap().count(), 3);
}

#[test]
fn a_file_that_was_changed_a_moment_ago_is_copied_once_more() {
    let (_root, machine) = machine();
    let mut copy = begin(&machine);
    copy.pass(&machine.writer(), None).unwrap();
    assert_eq!(copy.seen[Path::new("hash.0/job.7/script")], None);
    assert_eq!(copy.pass(&machine.writer(), None).unwrap(), 3);
}

#[test]
fn a_copy_gives_up_in_time_and_says_what_is_missing() {
    let (root, machine) = machine();
    let error = begin(&machine).pass(&machine.writer(), Some(Duration::ZERO)).unwrap_err();
    assert!(error.to_string().starts_with("could not copy in time"), "{error}");
    fs::remove_dir_all(root.path().join("from")).unwrap();
    assert!(begin(&machine).pass(&machine.writer(), None).is_err());
}

#[test]
fn nothing_is_renamed_over_something() {
    let (root, machine) = machine();
    fs::create_dir(root.path().join("there")).unwrap();
    assert!(rename(&machine.writer(), "/from", "/there").is_err());
    rename(&machine.writer(), "/from", "/there/from").unwrap();
    assert!(root.path().join("there/from/job_state").exists() && !root.path().join("from").exists());
    remove_tree(&machine.writer(), "/there").unwrap();
    assert!(!root.path().join("there").exists());
    remove_tree(&machine.writer(), "/there").unwrap();
}
