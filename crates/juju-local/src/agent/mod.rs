//! The agent inside a machine (`jujud`): starts what the model's daemon tells it to start, and carries the words of
//! hook tools and `juju-exec` to the daemon and back. It decides nothing; when it dies, systemd ends the charm's
//! processes with it.

mod charm;
mod exec;
mod hosts;
mod process;
mod sockets;
mod tool;

pub use exec::main as exec_main;
pub use hosts::render as render_hosts;
pub use tool::{go_error, main as tool_main};

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::names::UnitName;
use crate::wire::{CommandsResult, FromAgent, ToAgent, receive, send};
use crate::{paths, tools};

/// What the agent is told on its machine: who it is and where the daemon listens.
#[derive(Serialize, Deserialize)]
pub struct AgentConf {
    pub machine: String,
    pub password: String,
    pub address: String,
}

/// How often the daemon hears that this agent is there.
const PULSE: Duration = Duration::from_secs(2);

/// Answers that threads of this agent wait for, by the number of their call.
#[derive(Default)]
struct Waiting {
    tools: HashMap<u64, Sender<tools::Reply>>,
    commands: HashMap<u64, Sender<CommandsResult>>,
}

/// One connection to the daemon, shared by all threads of the agent.
pub struct Connection {
    stream: Mutex<TcpStream>,
    waiting: Mutex<Waiting>,
    calls: AtomicU64,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Connection { stream: Mutex::new(stream), waiting: Mutex::default(), calls: AtomicU64::new(0) }
    }

    pub fn send(&self, message: &FromAgent) -> anyhow::Result<()> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut *stream, message)
    }

    fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the daemon to carry out a hook tool.
    pub fn tool(&self, body: tools::Call) -> anyhow::Result<tools::Reply> {
        let call = self.call();
        let (sender, receiver) = channel();
        self.waiting().tools.insert(call, sender);
        self.send(&FromAgent::Tool { call, body })?;
        receiver.recv().context("connection is shutdown")
    }

    /// Asks the daemon to run commands in a unit's context, when it is that unit's turn.
    pub fn commands(
        &self,
        unit: UnitName,
        commands: crate::wire::Commands,
    ) -> anyhow::Result<Receiver<CommandsResult>> {
        let call = self.call();
        let (sender, receiver) = channel();
        self.waiting().commands.insert(call, sender);
        self.send(&FromAgent::Commands { call, unit, commands })?;
        Ok(receiver)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `jujud machine <id>`: never returns but to be started again.
pub fn main(machine: &str) -> ExitCode {
    let file = format!("{}/agent.conf", paths::inside::machine_agent(machine));
    let conf =
        std::fs::read(&file).context("reading it").and_then(|text| Ok(serde_json::from_slice::<AgentConf>(&text)?));
    let conf = match conf {
        Ok(conf) => conf,
        Err(error) => {
            eprintln!("jujud: {file}: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    loop {
        match TcpStream::connect(&conf.address) {
            // A lost connection ends the agent: systemd ends what it ran, and starts it afresh.
            Ok(stream) => {
                if let Err(error) = serve(stream, &conf) {
                    eprintln!("jujud: {error:#}");
                }
                return ExitCode::FAILURE;
            }
            Err(_) => std::thread::sleep(Duration::from_millis(300)),
        }
    }
}

/// Tells one boot of this machine from the next: the start of its first process. (The kernel's boot id is the host's.)
fn boot_mark() -> String {
    let stat = std::fs::read_to_string("/proc/1/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(19).unwrap_or_default().to_owned()
}

fn serve(stream: TcpStream, conf: &AgentConf) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let connection = Arc::new(Connection::new(stream));
    connection.send(&FromAgent::Hello {
        machine: conf.machine.clone(),
        password: conf.password.clone(),
        boot: boot_mark(),
    })?;
    let pulse = Arc::clone(&connection);
    std::thread::spawn(move || {
        while pulse.send(&FromAgent::Alive).is_ok() {
            std::thread::sleep(PULSE);
        }
    });
    sockets::listen_for_known_units(&connection);
    let runs = Arc::new(process::Runs::default());
    while let Some(message) = receive::<ToAgent>(&mut reader)? {
        match message {
            // A full or read-only disk is no reason to leave the units alone.
            ToAgent::Hosts(hosts) => {
                if let Err(error) = hosts::write(&hosts) {
                    eprintln!("jujud: writing the names of machines: {error:#}");
                }
            }
            ToAgent::Deploy { unit, url, archive, tools } => {
                let done = charm::deploy(&conf.machine, &unit, &url, &archive, &tools);
                let error = done.err().map(|error| format!("{error:#}"));
                if error.is_none() {
                    sockets::listen_for_commands(&connection, &unit);
                }
                connection.send(&FromAgent::Deployed { unit, url, error })?;
            }
            ToAgent::Storage { location } => charm::make_storage(&location),
            ToAgent::Remove { unit } => charm::remove(&unit),
            ToAgent::Reboot => reboot()?,
            ToAgent::Run(run) => process::start(&connection, &runs, run),
            ToAgent::Kill { run } => runs.kill(run),
            ToAgent::Tool { call, reply } => {
                if let Some(waiter) = connection.waiting().tools.remove(&call) {
                    waiter.send(reply).ok();
                }
            }
            ToAgent::Commands { call, result } => {
                if let Some(waiter) = connection.waiting().commands.remove(&call) {
                    waiter.send(result).ok();
                }
            }
        }
    }
    std::io::stderr().flush().ok();
    anyhow::bail!("the connection to the model was closed")
}

#[expect(clippy::disallowed_methods, reason = "the agent runs where systemctl is the machine's own")]
fn reboot() -> anyhow::Result<()> {
    Command::new("systemctl").arg("reboot").status().context("rebooting").map(drop)
}
