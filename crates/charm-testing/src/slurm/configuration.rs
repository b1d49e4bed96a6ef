//! slurm.conf as slurmctld reads it, and the state that it saves and finds again.

use super::{FakeJob, Memory, Settings, Slurm};
use crate::store::{Fault, MOUNT_POINT, within};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const NODES: &str = "node_state";
const JOBS: &str = "job_state";
const PARTITIONS: &str = "part_state";
const RESERVATIONS: &str = "resv_state";

/// Returns the slurm.conf of a machine.
pub(super) fn text(root: &Path) -> Option<String> {
    fs::read_to_string(within(root, "/etc/slurm/slurm.conf")).ok()
}

/// Returns a value of the slurm.conf of a machine.
pub(super) fn value(root: &Path, key: &str) -> Option<String> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix('=').map(|value| value.trim().to_owned());
    text(root).unwrap_or_default().lines().find_map(value)
}

/// Returns the controllers that a machine knows of, in their order.
pub(super) fn hosts(root: &Path) -> Vec<String> {
    listed(&text(root).unwrap_or_default())
}

/// Returns the controllers in a slurm.conf, in their order.
pub(super) fn listed(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("SlurmctldHost="));
    lines.map(|host| host.split(['(', ' ']).next().unwrap_or_default().to_owned()).collect()
}

/// Returns where a controller keeps its state.
pub(super) fn state_directory(root: &Path) -> PathBuf {
    let named = value(root, "StateSaveLocation");
    within(root, named.as_deref().unwrap_or("/var/lib/slurm/checkpoint/state"))
}

/// Says whether a controller keeps its state where a store may be mounted. What cannot be read is there, too.
pub(crate) fn is_on_mount(root: &Path) -> bool {
    state_directory(root).starts_with(within(root, MOUNT_POINT))
}

/// Says whether nobody can write there. That there is nothing is another matter.
pub(super) fn is_read_only(root: &Path) -> bool {
    fs::metadata(state_directory(root)).is_ok_and(|found| found.permissions().mode() & 0o200 == 0)
}

/// What slurm.conf says.
pub(super) struct Configuration {
    partitions: BTreeMap<String, Settings>,
    node_sets: BTreeMap<String, String>,
    keeps_states: bool,
}

impl Configuration {
    /// Reads it as slurmctld does when it starts, or says what it would refuse.
    pub(super) fn read(slurm: &Slurm, root: &Path) -> Result<Self, String> {
        let text = text(root).unwrap_or_default();
        if let Some((_, journal)) = slurm.whims.objections.iter().find(|(word, _)| text.contains(word)) {
            return Err(format!("{journal}\n"));
        }
        let mut read = Self {
            partitions: BTreeMap::new(),
            node_sets: BTreeMap::new(),
            keeps_states: text.contains("KeepPartState"),
        };
        for line in text.lines() {
            let pairs = || line.split(' ').filter_map(|word| word.split_once('='));
            let lower = |(key, value): (&str, &str)| (key.to_ascii_lowercase(), value.to_owned());
            if let Some(rest) = line.strip_prefix("NodeSet=") {
                let feature =
                    pairs().find(|(key, _)| key.eq_ignore_ascii_case("Feature")).map_or("", |(_, value)| value);
                let name = rest.split(' ').next().unwrap_or_default();
                read.node_sets.insert(name.to_owned(), feature.to_owned());
            }
            let Some(rest) = line.strip_prefix("PartitionName=") else { continue };
            let name = rest.split(' ').next().unwrap_or_default();
            let usual = [("lln", "NO"), ("maxtime", "UNLIMITED"), ("prioritytier", "1"), ("state", "UP")];
            let mut settings: Settings = usual.map(|(key, value)| (key.into(), value.into())).into();
            settings.extend(pairs().skip(1).map(lower));
            if read.partitions.insert(name.to_owned(), settings).is_some() {
                let fatal = "fatal: _build_single_partitionline_info: duplicate entry for partition";
                return Err(format!("{fatal} {name}\n"));
            }
        }
        Ok(read)
    }
}

impl Slurm {
    /// Says on which record of an ended job slurmctld would end: one whose partition is neither in the file nor among
    /// those it believes in besides.
    pub(super) fn stumbles(
        jobs: &BTreeMap<u64, FakeJob>,
        read: &Configuration,
        more: &[&String],
    ) -> Result<(), String> {
        let mut ended = jobs.iter().filter(|(_, job)| !job.is_active());
        let placed = |name: &String| read.partitions.contains_key(name) || more.contains(&name);
        match ended.find(|(_, job)| !placed(&job.partition)) {
            Some((id, job)) => Err(format!("fatal: Invalid partition ({}) for JobId={id}\n", job.partition)),
            None => Ok(()),
        }
    }

    /// Takes up a configuration. Of a partition that was known slurmctld keeps the state, if it is told to. What else
    /// was set by hand is lost; jobs that have no place any more fail.
    pub(super) fn take_up(&mut self, read: Configuration) {
        let mut partitions = read.partitions;
        for (name, settings) in &mut partitions {
            let known = self.memory.partitions.get(name).and_then(|known| known.get("state"));
            if let Some(known) = known.filter(|_| read.keeps_states) {
                settings.insert("state".to_owned(), known.clone());
            }
        }
        self.memory.partitions = partitions;
        self.memory.node_sets = read.node_sets;
        self.memory.nodes.values_mut().for_each(super::Node::forget_what_was_set);
        self.fail_jobs();
    }

    /// A backup that takes over believes what was saved about partitions more than the file. What has no nodes is
    /// fatal.
    pub(super) fn take_over_partitions(&mut self, saved: BTreeMap<String, Settings>) -> Result<(), String> {
        for (name, settings) in saved {
            let nodes = settings.get("nodes").map(String::as_str).unwrap_or_default();
            let places = |set: &str| set == "ALL" || set.is_empty() || self.memory.node_sets.contains_key(set);
            if !nodes.split(',').all(places) {
                return Err(format!("fatal: Invalid node names in partition {name}\n"));
            }
            self.memory.partitions.insert(name, settings);
        }
        Ok(())
    }

    pub(super) fn save_nodes(&self) {
        self.save(NODES, &self.memory.nodes);
    }

    pub(super) fn save_jobs(&mut self) {
        // The start and the end of a job save the nodes as well.
        self.save(JOBS, &self.memory.jobs);
        self.save_nodes();
        self.unsaved_jobs = false;
    }

    /// Saves jobs that came or went, as slurmctld did when that happened.
    pub(super) fn catch_up(&mut self) {
        if self.unsaved_jobs && !self.whims.saves_late {
            self.save_jobs();
        }
    }

    pub(super) fn save_partitions(&self) {
        self.save(PARTITIONS, &self.memory.partitions);
    }

    pub(super) fn save_reservations(&self) {
        self.save(RESERVATIONS, &self.memory.reservations);
    }

    pub(super) fn save_all(&mut self) {
        self.save_jobs();
        self.save_partitions();
    }

    /// Saves all that the old process has when a reconfigure begins, which is some time before it ends.
    pub(super) fn save_before_reconfigure(&mut self) {
        const AGO: Duration = Duration::from_millis(60);
        self.save_all();
        let Some(controller) = &self.controller else { return };
        let saved = fs::File::options().write(true).open(state_directory(&controller.root).join(PARTITIONS));
        let _ = saved.and_then(|file| file.set_modified(SystemTime::now() - AGO));
    }

    /// slurmctld goes on without a word when it cannot save its state.
    fn save<T: Serialize>(&self, name: &str, content: &T) {
        let Some(controller) = &self.controller else { return };
        let path = state_directory(&controller.root).join(name);
        match self.fault(&controller.root) {
            None if !is_read_only(&controller.root) => {
                if let Ok(text) = serde_json::to_string(content) {
                    let _ = write_later(&path, &text);
                }
            }
            // The file is made anew and stays empty. What it held is kept beside it.
            Some(Fault::Full) if fs::metadata(&path).is_ok_and(|found| found.len() > 0) => {
                let _ = fs::rename(&path, old(&path)).and_then(|()| fs::write(&path, ""));
            }
            _ => {}
        }
    }
}

/// Writes a file that is newer than it was: a clock ticks too slowly for whoever waits for a new time.
fn write_later(path: &Path, text: &str) -> std::io::Result<()> {
    let before = fs::metadata(path).and_then(|found| found.modified()).ok();
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    match before {
        Some(before) if file.metadata()?.modified()? <= before => file.set_modified(before + Duration::from_micros(1)),
        _ => Ok(()),
    }
}

/// Returns what was saved. A directory that is missing is made, and nothing is in it.
pub(super) fn load(root: &Path) -> Memory {
    let directory = state_directory(root);
    let _ = fs::create_dir_all(&directory);
    Memory {
        jobs: saved(&directory, JOBS),
        nodes: saved(&directory, NODES),
        partitions: saved(&directory, PARTITIONS),
        node_sets: BTreeMap::new(),
        reservations: saved(&directory, RESERVATIONS),
    }
}

/// Where the content of a file is that could not be written any more.
fn old(path: &Path) -> PathBuf {
    path.with_extension("old")
}

fn saved<T: DeserializeOwned + Default>(directory: &Path, name: &str) -> T {
    let path = directory.join(name);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let text = if text.is_empty() { fs::read_to_string(old(&path)).unwrap_or_default() } else { text };
    serde_json::from_str(&text).unwrap_or_default()
}
