//! The daemon of one model: keeps its state, tells the agents in its machines what to run, and answers clients. It
//! lives in the model's own network namespace. Decisions are made in `hooks` and `model`; here are the threads, sockets
//! and files.

mod agents;
mod leadership;
mod provision;
mod pump;
mod removal;
mod requests;
mod store;
mod subordinates;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::{File, TryLockError};
use std::io::BufReader;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::clock::Moment;
use crate::hooks::{self, Bags, Context};
use crate::machine::Network;
use crate::model::Model;
use crate::names::UnitName;
use crate::paths::ModelPaths;
use crate::wire::{Commands, Request, Response, ToAgent, receive, send};

pub use store::{LogRecord, create, short_id};

const TICK: Duration = Duration::from_millis(250);
const API_PORT: u16 = 17070;
const LOCK_LIMIT: Duration = Duration::from_secs(2);

/// What runs on a machine right now.
struct Active {
    machine: String,
    what: Purpose,
    module: Option<String>,
}

enum Purpose {
    /// A hook, an action, or commands of `juju-exec` (with the call to answer).
    Unit { unit: UnitName, context: String, call: Option<u64> },
    /// `juju exec --machine`.
    Machine { task: u64 },
}

struct Agent {
    sender: Sender<ToAgent>,
    /// Tells a new connection of the same agent from the old one.
    generation: u64,
}

struct QueuedCommands {
    call: u64,
    commands: Commands,
}

/// Everything the threads share. Only `model` survives the daemon.
struct State {
    model: Model,
    paths: ModelPaths,
    gateway: Ipv4Addr,
    agents: HashMap<String, Agent>,
    /// When each machine's agent was last heard of.
    heard: HashMap<String, Moment>,
    contexts: HashMap<String, Context>,
    /// What the agents have read of databags, by unit; gone with the agent.
    bags_read: HashMap<UnitName, Bags>,
    active: BTreeMap<u64, Active>,
    commands: HashMap<UnitName, VecDeque<QueuedCommands>>,
    deploying: HashSet<UnitName>,
    provisioning: HashSet<String>,
    next_number: u64,
    dirty: bool,
    log: File,
    destroyed: bool,
}

/// An agent that was silent for so long is taken for lost.
const SILENCE_MILLIS: u64 = 10_000;

impl State {
    /// Whether the agent of a machine is there: connected, and heard of lately.
    fn is_present(&self, machine: &str) -> bool {
        self.agents.contains_key(machine) && !self.is_silent(machine)
    }

    fn is_silent(&self, machine: &str) -> bool {
        self.heard.get(machine).is_none_or(|heard| heard.plus_millis(SILENCE_MILLIS) <= Moment::now())
    }

    /// Notes which agents are lost and which are back.
    fn watch_agents(&mut self) {
        let started: Vec<String> =
            self.model.machines.values().filter(|one| one.boot.is_some()).map(|one| one.id.clone()).collect();
        for id in started {
            let silent = self.is_silent(&id);
            if let Some(machine) = self.model.machines.get_mut(&id)
                && machine.lost.is_some() != silent
            {
                machine.lost = silent.then(Moment::now);
                self.dirty = true;
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn api_address(&self) -> String {
        format!("{}:{API_PORT}", self.gateway)
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the state, starts whatever may now run, and writes the model down.
    fn update<T>(self: &Arc<Self>, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = work(&mut state);
        state.dirty = true;
        self.settle(&mut state);
        result
    }

    fn settle(self: &Arc<Self>, state: &mut State) {
        removal::run_jobs(self, state);
        if removal::is_over(state) {
            state.destroyed = true;
        }
        subordinates::make_missing(state);
        state.model.note_statuses();
        provision::start_missing(self, state);
        pump::pump(state);
        state.model.note_statuses();
        state.save();
        self.changed.notify_all();
    }
}

/// `juju-local daemon <model>`: returns when the model is destroyed.
pub fn main(name: &str) -> ExitCode {
    match serve(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("juju-local daemon of {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The network of a model: named by the model's short id, numbered by it too.
pub fn network_of(model: &Model) -> anyhow::Result<(Network, Ipv4Addr)> {
    let network = Network::new(&format!("jl-{}", model.short_id()))?;
    let number = u32::from_str_radix(model.short_id(), 16).unwrap_or(0);
    let [_, _, second, third] = number.to_be_bytes();
    Ok((network, Ipv4Addr::new(10, second, third, 1)))
}

fn serve(name: &str) -> anyhow::Result<()> {
    let paths = ModelPaths::of(name);
    let lock = File::create(paths.lock()).context("creating the lock file")?;
    acquire(&lock, &paths).context("another daemon serves this model")?;
    let model = store::load(&paths)?;
    let (network, gateway) = network_of(&model)?;
    network.ensure(gateway)?;
    network.enter()?;
    let agents =
        TcpListener::bind((gateway, API_PORT)).with_context(|| format!("listening on {gateway}:{API_PORT}"))?;
    let clients = crate::socket::listen(&paths.socket()).context("listening for clients")?;
    let log = store::open_log(&paths)?;
    // Agents have as long to come back as they have to answer.
    let heard = model.machines.keys().map(|id| (id.clone(), Moment::now())).collect();
    let state = State {
        model,
        paths: paths.clone(),
        gateway,
        agents: HashMap::new(),
        heard,
        contexts: HashMap::new(),
        bags_read: HashMap::new(),
        active: BTreeMap::new(),
        commands: HashMap::new(),
        deploying: HashSet::new(),
        provisioning: HashSet::new(),
        next_number: 0,
        dirty: false,
        log,
        destroyed: false,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    shared.update(|state| {
        recover(state);
        removal::remove_strays(&shared, state);
    });
    let for_agents = Arc::clone(&shared);
    thread::spawn(move || agents::listen(&for_agents, &agents));
    let for_ticks = Arc::clone(&shared);
    thread::spawn(move || tick(&for_ticks));
    let for_clients = Arc::clone(&shared);
    thread::spawn(move || listen_for_clients(&for_clients, &clients));
    let mut state = shared.lock();
    while !state.destroyed {
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    drop(state);
    // Lets the client that asked for it read the answer.
    thread::sleep(Duration::from_millis(100));
    network.delete()?;
    crate::machine::remove_tree(paths.root())
}

/// One that was killed may take a moment to let go; one that listens does not.
fn acquire(lock: &File, paths: &ModelPaths) -> Result<(), TryLockError> {
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock)
                if Instant::now() < deadline && crate::socket::connect(&paths.socket()).is_err() =>
            {
                thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

/// What ran when the last daemon ended is taken for failed, as after the death of an agent.
fn recover(state: &mut State) {
    let now = Moment::now();
    let units: Vec<UnitName> = state.model.units.keys().cloned().collect();
    for unit in units {
        hooks::lost(&mut state.model, &unit, now);
    }
    leadership::extend(state);
    provision::note_boot(&mut state.model);
    for task in state.model.tasks.values_mut() {
        if task.state == crate::model::TaskState::Running {
            task.state = crate::model::TaskState::Failed;
            task.message = "action terminated".to_owned();
        }
    }
}

fn tick(shared: &Arc<Shared>) {
    loop {
        thread::sleep(TICK);
        let mut state = shared.lock();
        if state.destroyed {
            return;
        }
        state.watch_agents();
        leadership::renew(&mut state);
        requests::expire_tasks(&state);
        shared.settle(&mut state);
    }
}

fn listen_for_clients(shared: &Arc<Shared>, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            if let Err(error) = answer_client(&shared, &stream) {
                eprintln!("client: {error:#}");
            }
        });
    }
}

fn answer_client(shared: &Arc<Shared>, stream: &UnixStream) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = receive::<Request>(&mut reader)? {
        let response: Response = requests::answer(shared, request);
        send(&mut &*stream, &response)?;
    }
    Ok(())
}
