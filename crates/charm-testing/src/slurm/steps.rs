//! What of Slurm is on machines beside its daemons: the processes of jobs, which outlive every daemon, and the machines
//! themselves, which can be given back or fall silent.

use super::Slurm;
use slurm_conf::HostList;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The first job's process; the others follow.
const FIRST_PID: u64 = 20_000;

/// The program of the first job, a child of that process; the others follow.
const FIRST_CHILD: u64 = 30_000;

fn process(root: &Path, job: u64) -> PathBuf {
    root.join(format!("proc/{}", FIRST_PID + job))
}

fn child(root: &Path, job: u64) -> PathBuf {
    root.join(format!("proc/{}", FIRST_CHILD + job))
}

impl Slurm {
    /// Seconds since 1970: it is as late as it is, and as much later as hooks have paused.
    pub(crate) fn now(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (now + self.passed).as_secs()
    }

    /// Starts the processes of a job on every machine that it runs on, as far as machines were made up.
    pub(super) fn start_steps(&mut self, id: u64) {
        let Some(job) = self.memory.jobs.get(&id).filter(|job| job.is_active() && !job.nodes.is_empty()) else {
            return;
        };
        let nodes: HostList = job.nodes.parse().unwrap_or_default();
        if self.finished.remove(&id) {
            self.losses.push(format!("job {id}: ran twice, slurmctld had forgotten its end"));
        }
        let homes: Vec<PathBuf> = nodes.expand().filter_map(|name| self.homes.get(&name).cloned()).collect();
        for home in homes {
            let at = process(&home, id);
            let program = child(&home, id);
            let stat = format!("{} (sleep (1)) S {} 1 1 0\n", FIRST_CHILD + id, FIRST_PID + id);
            let written = fs::create_dir_all(&at)
                .and_then(|()| fs::write(at.join("cmdline"), format!("slurmstepd: [{id}.batch]\0")))
                .and_then(|()| fs::create_dir_all(&program))
                .and_then(|()| fs::write(program.join("stat"), stat));
            assert!(written.is_ok(), "could not write {}", at.display());
            self.steps.insert((home, id));
        }
    }

    /// Ends the processes of a job wherever they are. Without a slurmctld Slurm's own process stays, to tell it.
    pub(super) fn end_steps(&mut self, id: u64) {
        let heard = self.is_heard();
        for (home, job) in self.steps.iter().filter(|(_, job)| *job == id) {
            let _ = fs::remove_dir_all(child(home, *job));
            if heard {
                let _ = fs::remove_dir_all(process(home, *job));
            } else {
                self.untold.insert((home.clone(), *job));
            }
        }
        self.steps.retain(|(_, job)| *job != id);
    }

    /// slurmctld is there again, and hears of the jobs that have ended meanwhile.
    pub(super) fn hear_of_ends(&mut self) {
        for (home, job) in std::mem::take(&mut self.untold) {
            let _ = fs::remove_dir_all(process(&home, job));
        }
    }

    /// A machine is a node's. Jobs that run there have processes there.
    pub(super) fn settle_node(&mut self, name: &str, root: &Path) {
        if self.homes.insert(name.to_owned(), root.to_owned()).as_deref() == Some(root) {
            return;
        }
        let jobs: Vec<u64> = self.memory.jobs.iter().filter(|(_, job)| job.runs_on(name)).map(|(id, _)| *id).collect();
        jobs.into_iter().for_each(|id| self.start_steps(id));
    }

    /// The jobs that have processes on a machine.
    pub(super) fn steps_on(&self, root: &Path) -> Vec<u64> {
        self.steps.iter().filter(|(home, _)| home == root).map(|(_, id)| *id).collect()
    }

    /// A machine is given back with all that runs there.
    pub(crate) fn give_back(&mut self, root: &Path) {
        let names: Vec<String> =
            self.homes.iter().filter(|(_, home)| *home == root).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.lose_jobs_on(&name, &format!("machine of {name} was given back"));
            self.homes.remove(&name);
        }
        // Also those that slurmctld knows nothing of any more.
        for id in self.steps_on(root) {
            let _ = fs::remove_dir_all(process(root, id));
            let _ = fs::remove_dir_all(child(root, id));
            if !self.losses.iter().any(|loss| loss.starts_with(&format!("job {id}: "))) {
                self.losses.push(format!("job {id}: its machine was given back"));
            }
        }
        self.steps.retain(|(home, _)| home != root);
        self.stop_slurmd(root);
        self.crash_controller(root);
    }

    /// `SlurmdTimeout` has passed: whoever is silent is down, and the jobs there are lost.
    pub(super) fn time_out(&mut self) {
        let silent = self.memory.nodes.iter().filter(|(name, node)| !self.responds(name, node));
        let silent: Vec<String> = silent.map(|(name, _)| name.clone()).collect();
        for name in &silent {
            for id in self.lose_jobs_on(name, &format!("machine of {name} is silent")) {
                self.finish_job(id, "NODE_FAIL");
            }
            if let Some(node) = self.memory.nodes.get_mut(name) {
                node.fall_silent();
            }
        }
        self.save_nodes();
    }
}
