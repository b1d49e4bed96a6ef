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
mod reboots;
mod reservations;
mod sackd;
mod slurmd;
mod steps;
mod takeover;

pub use jobs::FakeJob;
pub(crate) use slurmd::Phase;

use crate::machine::Programs;
use crate::store::Site;
pub(crate) use clients::reading;
pub(crate) use configuration::is_on_mount;
use controller::Controller;
use node::Node;
use reservations::Reservation;
use slurmd::Slurmd;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The Slurm of a cluster. Machines join it with [`FakeMachine::in_cluster`](crate::FakeMachine::in_cluster).
#[derive(Clone, Debug, Default)]
pub struct FakeSlurm {
    state: Arc<Mutex<Slurm>>,
    machines: Arc<Mutex<Vec<Weak<Programs>>>>,
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

    /// Returns what became of jobs that did not end by themselves, and of reservations, one line each. Most stories
    /// should end with an empty list. `job N: machine of NODE was given back`, or `is silent`: that was the machine's
    /// end, not Slurm's doing.
    pub fn losses(&self) -> Vec<String> {
        self.lock().losses.clone()
    }

    /// Returns who does not understand whom of those daemons that run, for want of a key: `slurmctld of a, slurmd of
    /// b`.
    pub fn misunderstandings(&self) -> Vec<String> {
        let slurm = self.lock();
        let host = |root: &Path| root.display().to_string();
        let controllers = slurm.all_controllers().map(|own| (format!("slurmctld of {}", own.host), own.keys.as_ref()));
        let slurmds = slurm.slurmds.iter().filter(|(_, slurmd)| slurmd.runs());
        let slurmds = slurmds.map(|(root, slurmd)| (format!("slurmd of {}", host(root)), slurmd.keys()));
        let sackds = slurm.sackds.iter().filter(|(_, sackd)| sackd.runs());
        let sackds = sackds.map(|(root, sackd)| (format!("sackd of {}", host(root)), sackd.keys()));
        let slurmdbds = slurm.slurmdbds.iter().map(|(root, own)| (format!("slurmdbd of {}", host(root)), own.as_ref()));
        let daemons = controllers.chain(slurmds).chain(sackds).chain(slurmdbds);
        let all: Vec<(String, Option<&keys::Keys>)> = daemons.collect();
        let apart = |one: Option<&keys::Keys>, other: Option<&keys::Keys>| {
            !one.zip(other).is_some_and(|(one, other)| one.convince(other))
        };
        let pairs = all.iter().flat_map(|one| all.iter().map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| apart(one.1, other.1))
            .map(|(one, other)| format!("{}, {}", other.0, one.0))
            .collect()
    }

    /// Returns the numbers of all jobs that have not ended.
    pub fn jobs(&self) -> Vec<u64> {
        self.lock().memory.jobs.iter().filter(|(_, job)| job.is_active()).map(|(id, _)| *id).collect()
    }

    /// Returns the numbers of all jobs that slurmctld knows of, ended or not.
    pub fn job_records(&self) -> Vec<u64> {
        self.lock().memory.jobs.keys().copied().collect()
    }

    /// Puts a job into the queue or onto nodes, and returns its number. It is just there; nobody is asked.
    pub fn submit(&self, job: FakeJob) -> u64 {
        self.lock().submit(job)
    }

    /// Has a user submit a job with `sbatch`, which a partition that is `INACTIVE` or `DRAIN` refuses.
    pub fn sbatch(&self, job: FakeJob) -> Result<u64, String> {
        self.lock().sbatch(job)
    }

    /// Has slurmctld start what waits: a job whose partition is `UP` or `DRAIN` and has a node that is free. Returns
    /// the jobs that were started.
    pub fn schedule(&self) -> Vec<u64> {
        self.lock().schedule()
    }

    /// Ends a job. Its record stays.
    pub fn end_job(&self, id: u64) {
        self.lock().end_job(id);
    }

    /// Has a job be ended and not done with: its processes are still there.
    pub fn complete_slowly(&self, id: u64) {
        self.lock().complete(id);
    }

    /// Has a job be lost that slurmctld goes on to take for running.
    pub fn lose_processes(&self, id: u64) {
        self.lock().whims.without_processes.insert(id);
    }

    /// Forgets the records of jobs that have ended, as slurmctld does after `MinJobAge`.
    pub fn age_out(&self) {
        self.lock().age_out();
    }

    /// Lets made-up time pass, as a hook that pauses does: jobs end that have lasted long enough.
    pub fn pass(&self, length: Duration) {
        self.lock().pass(length);
    }

    /// Has `SlurmdTimeout` pass: nodes that do not answer are down, and the jobs there are lost.
    pub fn time_out(&self) {
        self.lock().time_out();
    }

    /// Has `SlurmctldTimeout` pass: fences look at their stores, and the best slurmctld that stands by takes over
    /// unless somebody before it serves. Tells who serves then.
    pub fn fail_over(&self) -> Option<String> {
        self.let_fences_look();
        self.lock().fail_over();
        self.serving()
    }

    /// Returns the host whose slurmctld serves.
    pub fn serving(&self) -> Option<String> {
        self.lock().controller.as_ref().map(|controller| controller.host.clone())
    }

    /// Returns every slurmctld that runs, by its host: `active`, `standby`, or `stale` if it was cut off and does not
    /// know that another one serves.
    pub fn controllers(&self) -> BTreeMap<String, &'static str> {
        let slurm = self.lock();
        let of = |own: &Controller, role| (own.host.clone(), role);
        let (active, standbys) = (slurm.controller.iter(), slurm.standbys.iter());
        let roles = active.map(|own| of(own, "active")).chain(standbys.map(|own| of(own, "standby")));
        roles.chain(slurm.stale.iter().map(|own| of(own, "stale"))).collect()
    }

    /// Returns the list of controllers that the slurmctld of a host goes by: that of its start, or of the last
    /// reconfigure if it served then. None: it does not run.
    pub fn list_of(&self, host: &str) -> Option<Vec<String>> {
        self.lock().all_controllers().find(|own| own.host == host).map(|own| own.hosts.clone())
    }

    /// Has slurmctld leave unsaved what jobs do, as in the seconds before it writes that down, or no longer.
    pub fn save_late(&self, late: bool) {
        let mut slurm = self.lock();
        slurm.whims.saves_late = late;
        slurm.catch_up();
    }

    /// Has a primary that comes back need half a minute of made-up time ([`pass`](Self::pass)) until it has control, as
    /// it does in truth. Nobody serves meanwhile.
    pub fn return_slowly(&self) {
        self.lock().whims.returns_slowly = true;
    }

    /// Says whether two are the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Lets the time pass until a timer calls. Fences look at their stores, whoever serves gives signs of life, and
    /// where there were none for long enough another one takes over. For one controller alone no time passes.
    pub(crate) fn wait_for_timer(&self) {
        const WAIT: Duration = Duration::from_secs(30);
        self.let_fences_look();
        let mut slurm = self.lock();
        let several = slurm.all_controllers().any(|controller| controller.hosts.len() > 1);
        slurm.ask_nodes(WAIT);
        if several {
            slurm.pass(WAIT);
            slurm.wait_for_a_sign(WAIT);
        }
    }

    fn let_fences_look(&self) {
        self.known_machines().iter().for_each(|machine| machine.let_fence_look());
    }

    fn known_machines(&self) -> Vec<Arc<Programs>> {
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        machines.iter().filter_map(Weak::upgrade).collect()
    }

    /// Says whether the fences of all these hosts can be asked, and none of them hears anything from its store.
    pub(crate) fn is_silent_for(&self, hosts: &[String]) -> bool {
        let machines = self.known_machines();
        hosts.iter().all(|host| machines.iter().any(|machine| machine.says_silence(host)))
    }

    /// Remembers a machine of the cluster.
    pub(crate) fn know(&self, machine: Weak<Programs>) {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).push(machine);
    }

    /// Has slurmctld tell every node to reboot that is to and has no job. Each is told once, and counted.
    pub fn issue_reboots(&self) {
        self.lock().issue_reboots();
    }

    /// Has `ResumeTimeout` pass: slurmctld no longer waits for the nodes that it told to reboot.
    pub fn give_up_reboots(&self) {
        self.lock().give_up_reboots();
    }

    /// Has a node register after a boot. Of that of a container, whose host has not booted, Slurm sees nothing.
    pub fn come_back(&self, node: &str, visibly: bool) {
        self.lock().come_back(node, visibly);
    }

    /// Returns how often a node was told to reboot.
    pub fn boots(&self, node: &str) -> usize {
        self.lock().boots.get(node).copied().unwrap_or(0)
    }

    /// Makes a reservation over nodes, given as a host list.
    pub fn reserve(&self, name: &str, nodes: &str) {
        self.lock().reserve(name, nodes);
    }

    /// Returns the names of all reservations.
    pub fn reservations(&self) -> Vec<String> {
        self.lock().memory.reservations.keys().cloned().collect()
    }

    /// Returns the partitions that slurmctld knows, each with its state.
    pub fn partitions(&self) -> BTreeMap<String, String> {
        let slurm = self.lock();
        let names = slurm.memory.partitions.keys();
        names.map(|name| (name.clone(), slurm.partition_state(name).unwrap_or_default())).collect()
    }

    /// Returns the node sets that slurmctld knows.
    pub fn node_sets(&self) -> Vec<String> {
        self.lock().memory.node_sets.keys().cloned().collect()
    }

    /// Returns the nodes that slurmctld knows, each with its state: `IDLE+DYNAMIC_NORM`.
    pub fn nodes(&self) -> BTreeMap<String, String> {
        let slurm = self.lock();
        slurm.memory.nodes.iter().map(|(name, node)| (name.clone(), slurm.state_of(name, node).join("+"))).collect()
    }

    /// Returns why a node is set aside, as far as somebody said so; empty if there is no such node.
    pub fn reason(&self, node: &str) -> String {
        self.lock().memory.nodes.get(node).map(|node| node.reason().to_owned()).unwrap_or_default()
    }
}

/// By key in lower case.
type Settings = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub(crate) struct Slurm {
    played: bool,
    /// Who serves.
    controller: Option<Controller>,
    /// Who stands by.
    standbys: Vec<Controller>,
    /// Who served until its machine was cut off, and does not know that another one serves.
    stale: Vec<Controller>,
    /// For how long nobody has given a sign of life, as far as timers have waited.
    without_sign: Duration,
    /// How a slurmctld ended that nobody stopped: whether without a fault. By the root of its machine.
    exits: BTreeMap<PathBuf, bool>,
    /// The machines, by their root.
    sites: BTreeMap<PathBuf, Arc<Site>>,
    /// By the root of their machine.
    slurmds: BTreeMap<PathBuf, Slurmd>,
    /// By the root of their machine.
    sackds: BTreeMap<PathBuf, sackd::Sackd>,
    /// The keys that each slurmdbd was started with, by the root of its machine. It loads no others.
    slurmdbds: BTreeMap<PathBuf, Option<keys::Keys>>,
    /// Machines that reach no controller.
    cut_off: BTreeSet<PathBuf>,
    journals: BTreeMap<PathBuf, Journal>,
    memory: Memory,
    /// Jobs came or went since they were written down.
    unsaved_jobs: bool,
    losses: Vec<String>,
    /// The machine of each node.
    homes: BTreeMap<String, PathBuf>,
    /// The machines on which jobs have processes, and which jobs.
    steps: BTreeSet<(PathBuf, u64)>,
    /// Jobs that have ended while there was no slurmctld to be told.
    untold: BTreeSet<(PathBuf, u64)>,
    /// Jobs that have ended at some time, whatever slurmctld remembers of it.
    finished: BTreeSet<u64>,
    /// How jobs ended while there was no slurmctld to tell.
    unheard: BTreeMap<u64, String>,
    /// Nodes that slurmctld has not heard from since it was started, and when it asks them to register.
    unasked: BTreeMap<String, u64>,
    /// How often each node was told to reboot.
    boots: BTreeMap<String, usize>,
    /// The number of the last job.
    last_job: u64,
    /// How much later it is than the clock says.
    passed: Duration,
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
    reservations: BTreeMap<String, Reservation>,
}

/// What a test wants of this Slurm.
#[derive(Debug, Default)]
pub(crate) struct Whims {
    /// What jobs do is not written down by itself, as in the seconds before slurmctld does so.
    pub(crate) saves_late: bool,
    /// A primary that comes back has control only half a minute later, and nobody serves meanwhile.
    pub(crate) returns_slowly: bool,
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
    /// Jobs that slurmctld takes for running, and that no node knows.
    pub(crate) without_processes: BTreeSet<u64>,
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
