//! What becomes of the files beside slurm.conf, on a made-up machine whose scontrol answers as told.

use super::*;
use crate::observe::Tried;
use slurm_ops::files::read_text;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tempfile::TempDir;

/// Slurm that is content with everything, and has nothing in memory.
const CONTENT: &str = "exit 0";
const PARSER: &str = "scontrol: error: _parse_next_key: Parsing error at unrecognized key: BogusKey\nscontrol: fatal: Unable to process configuration file";

fn files(slurm: &str) -> Files {
    Files { slurm: Some(slurm.to_owned()), cgroup: Some("cgroup".to_owned()), gres: Some("gres".to_owned()) }
}

fn suspect() -> Suspect {
    Suspect { change: Change::Parameters, wish: "BogusKey=1".to_owned(), basis: String::new() }
}

struct Stage {
    directory: TempDir,
    machine: Machine,
}

impl Stage {
    /// A machine with an accepted configuration `old`, a configuration `new` in place, and an scontrol that runs `script`.
    fn new(script: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path();
        let owner = root.metadata().unwrap();
        fs::create_dir_all(root.join("etc/slurm")).unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("var/lib/slurm/checkpoint/state")).unwrap();
        let passwd = format!("slurm:x:{}:{}:Slurm:/nonexistent:/bin/false\n", owner.uid(), owner.gid());
        fs::write(root.join("etc/passwd"), passwd).unwrap();
        let programs = [
            ("scontrol", script),
            ("journalctl", "exit 0"),
            ("test", "exec /usr/bin/test \"$@\""),
            ("runuser", "shift 3; exec \"$@\""),
        ];
        for (program, text) in programs {
            let path = root.join("bin").join(program);
            fs::write(&path, format!("#!/bin/sh\necho \"$*\" >> {}/calls\n{text}\n", root.display())).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(root.join("etc/slurm/slurm.conf"), "new").unwrap();
        fs::write(root.join("etc/slurm/slurm.conf.accepted"), "old").unwrap();
        let machine = Machine::at(root).with_search_path(root.join("bin"));
        Self { directory, machine }
    }

    fn text(&self, path: &str) -> Option<String> {
        read_text(&self.machine.host(), path).unwrap()
    }

    fn accepted(&self) -> Option<String> {
        self.text("/etc/slurm/slurm.conf.accepted")
    }

    fn refusals(&self) -> Option<Refusals> {
        self.text(names::REFUSALS).map(|text| serde_json::from_str(&text).unwrap())
    }

    /// Has slurmctld load what is in place, and returns what is remembered of it.
    fn reconfigure(&self) -> Tried {
        let mut memory = Memory::default();
        reconfigure(&self.machine, &mut memory, "24.11.5", &[suspect()], &files("old")).unwrap();
        memory.tried
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.directory.path().join("calls")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn an_accepted_configuration_is_kept() {
    let stage = Stage::new(CONTENT);
    assert_eq!(stage.reconfigure().reconfigure, None);
    assert_eq!(stage.accepted().as_deref(), Some("new"));
    assert_eq!(stage.refusals(), None);
}

#[test]
fn a_refused_configuration_is_taken_back_with_its_reason() {
    let stage = Stage::new(&format!("echo '{PARSER}' >&2; exit 1"));
    stage.reconfigure();
    assert_eq!(stage.text(names::SLURM_CONF).as_deref(), Some("old"));
    let refusals = stage.refusals().unwrap();
    assert_eq!(refusals.last.as_ref().unwrap().files.slurm.as_deref(), Some("new"));
    assert!(refusals.reason(&suspect()).unwrap().contains("unrecognized key: BogusKey"), "{refusals:?}");
    assert_eq!(refusals.taken_back, None);
}

#[test]
fn whoever_changed_the_file_by_hand_is_told_that_it_was_taken_back() {
    let stage = Stage::new(&format!("echo '{PARSER}' >&2; exit 1"));
    let mut memory = Memory::default();
    let by_hand = Suspect { change: Change::File, ..suspect() };
    reconfigure(&stage.machine, &mut memory, "24.11.5", &[by_hand], &files("old")).unwrap();
    assert!(stage.refusals().unwrap().taken_back.is_some_and(|(_, why)| why.contains("BogusKey")));
}

#[test]
fn an_unanswered_reconfigure_changes_no_file() {
    let stage =
        Stage::new("echo 'slurm_reconfigure error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
    assert!(stage.reconfigure().reconfigure.is_some());
    assert_eq!(stage.text(names::SLURM_CONF).as_deref(), Some("new"));
    assert_eq!(stage.accepted().as_deref(), Some("old"));
    assert_eq!(stage.refusals(), None);
}

#[test]
fn a_candidate_that_the_parser_refuses_never_comes_into_place() {
    let stage = Stage::new(&format!("echo '{PARSER}' >&2; exit 1"));
    offer(&stage.machine, &mut Memory::default(), &files("BogusKey=1\n"), "24.11.5", &[suspect()]).unwrap();
    assert_eq!(stage.text(names::SLURM_CONF).as_deref(), Some("new"));
    assert_eq!(stage.text(names::CGROUP_CONF), None);
    let refusals = stage.refusals().unwrap();
    assert_eq!(refusals.last.as_ref().unwrap().files, files("BogusKey=1\n"));
    assert!(refusals.reason(&suspect()).is_some());
    assert_eq!(stage.text(names::CANDIDATE_CONF), None);
}

#[test]
fn a_readable_candidate_comes_into_place_whole() {
    let stage = Stage::new(CONTENT);
    offer(&stage.machine, &mut Memory::default(), &files("ClusterName=lab\n"), "24.11.5", &[]).unwrap();
    assert_eq!(stage.text(names::SLURM_CONF).as_deref(), Some("ClusterName=lab\n"));
    assert_eq!(stage.text(names::GRES_CONF).as_deref(), Some("gres"));
    assert_eq!(stage.refusals(), None);
    let mode = stage.machine.path(names::SLURM_CONF).metadata().unwrap().mode();
    assert_eq!(mode & 0o7777, 0o644);
}

#[test]
fn slurmctld_is_not_asked_while_its_state_cannot_be_written() {
    let stage = Stage::new(CONTENT);
    fs::remove_dir(stage.directory.path().join("var/lib/slurm/checkpoint/state")).unwrap();
    let why = stage.reconfigure().reconfigure.unwrap();
    assert_eq!(why, "/var/lib/slurm/checkpoint/state cannot be written by slurm");
    assert!(stage.calls().iter().all(|call| !call.contains("reconfigure")), "{:?}", stage.calls());
    // What somebody sets meanwhile has to be seen by the next look.
    assert_eq!(stage.text(names::BY_HAND), None);
    assert_eq!(stage.accepted().as_deref(), Some("old"));
}
