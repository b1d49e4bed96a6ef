//! A small Slurm, one for all machines of a cluster: slurmctld with its memory and its state directory, slurmd on each
//! node, and the clients.
//!
//! A machine that belongs to no cluster has a Slurm of its own, whose controller the test plays: it takes every slurmd
//! and every key. In a [`FakeSlurm`] that several machines share, slurmctld has to be started on one of them first.
//!
//! It has the habits of the real one that cost others nodes and jobs; `slurm_tests` names them.

mod clients;
mod configuration;
mod controller;
mod jobs;
mod keys;
mod node;
mod slurmd;

pub use jobs::FakeJob;
pub(crate) use slurmd::Phase;

pub(crate) use clients::reading;
use controller::Controller;
use node::Node;
use slurmd::Slurmd;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The Slurm of a cluster. Machines join it with [`FakeMachine::in_cluster`](crate::FakeMachine::in_cluster).
#[derive(Clone, Debug, Default)]
pub struct FakeSlurm {
    state: Arc<Mutex<Slurm>>,
}

impl FakeSlurm {
    /// Returns a Slurm without a controller: no machine runs slurmctld yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a Slurm whose controller the test plays, somewhere else.
    pub(crate) fn played() -> Self {
        let slurm = Self::default();
        slurm.lock().played = true;
        slurm
    }

    /// Whoever holds the lock of a machine may take this one, never the other way round.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Slurm> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what became of jobs that did not end by themselves, one line each. Most stories should end with an empty
    /// list.
    pub fn losses(&self) -> Vec<String> {
        self.lock().losses.clone()
    }

    /// Returns the numbers of all jobs.
    pub fn jobs(&self) -> Vec<u64> {
        self.lock().memory.jobs.keys().copied().collect()
    }

    /// Returns the nodes that slurmctld knows, each with its state: `IDLE+DYNAMIC_NORM`.
    pub fn nodes(&self) -> BTreeMap<String, String> {
        let slurm = self.lock();
        slurm.memory.nodes.iter().map(|(name, node)| (name.clone(), slurm.state_of(name, node).join("+"))).collect()
    }
}

/// By key in lower case.
type Settings = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub(crate) struct Slurm {
    played: bool,
    controller: Option<Controller>,
    /// By the root of their machine.
    slurmds: BTreeMap<PathBuf, Slurmd>,
    /// Machines that reach no controller.
    cut_off: BTreeSet<PathBuf>,
    journals: BTreeMap<PathBuf, Journal>,
    memory: Memory,
    /// Jobs came or went since they were written down.
    unsaved_jobs: bool,
    losses: Vec<String>,
    pub(crate) whims: Whims,
}

/// What slurmctld has in memory. Much of it is lost unless it was saved.
#[derive(Debug, Clone, Default)]
struct Memory {
    jobs: BTreeMap<u64, FakeJob>,
    nodes: BTreeMap<String, Node>,
    /// What is set at run time lasts until the file is read again.
    partitions: BTreeMap<String, Settings>,
    /// The feature of each node set. Never saved: it is in the file.
    node_sets: BTreeMap<String, String>,
}

/// What a test wants of this Slurm.
#[derive(Debug, Default)]
pub(crate) struct Whims {
    /// After a refused reconfigure slurmctld serves nobody until it is restarted.
    pub(crate) sulks: bool,
    /// What the journal has to say about the next reconfigure, which is refused.
    pub(crate) refusal: Option<String>,
    /// Words that the parser does not take.
    pub(crate) unreadable: Vec<String>,
    /// Words that slurmctld does not take, and what it says then.
    pub(crate) objections: Vec<(String, String)>,
    /// Nodes on which no job ends well.
    pub(crate) broken: BTreeSet<String>,
}

/// What the journal of a machine says. Every question gets it once, whoever asks first.
#[derive(Debug, Default)]
struct Journal {
    text: String,
    told: BTreeSet<String>,
}

impl Slurm {
    /// Has the journal of a machine say this, and nothing else.
    pub(crate) fn set_journal(&mut self, root: &Path, text: &str) {
        self.journals.insert(root.to_owned(), Journal { text: text.to_owned(), told: BTreeSet::new() });
    }

    pub(crate) fn read_journal(&mut self, root: &Path, words: &[&str]) -> String {
        let Some(journal) = self.journals.get_mut(root) else { return String::new() };
        // The same question at another time is the same question.
        let question: Vec<&str> = words.iter().map(|word| word.split('@').next().unwrap_or_default()).collect();
        if journal.told.insert(question.join(" ")) { journal.text.clone() } else { String::new() }
    }

    /// Cuts a machine off from every controller, or reconnects it.
    pub(crate) fn cut_off(&mut self, root: &Path, off: bool) {
        match off {
            true => drop(self.cut_off.insert(root.to_owned())),
            false => {
                self.cut_off.remove(root);
                self.knock();
            }
        }
    }

    /// Makes a node known whose slurmd is on a machine that nobody made up.
    pub(crate) fn add_node(&mut self, name: &str, feature: &str) {
        self.memory.nodes.insert(name.to_owned(), Node::elsewhere(feature));
        self.save_nodes();
    }
}
