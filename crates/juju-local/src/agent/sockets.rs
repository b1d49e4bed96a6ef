//! The sockets of a unit: `agent.socket` for hook tools, which exists only while something runs, and `run.socket` for
//! `juju-exec`, which is always there.

use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Connection;
use crate::names::UnitName;
use crate::paths::inside;
use crate::tools;
use crate::wire::{CommandsCall, CommandsResult, receive, send};

fn bind(path: &str) -> anyhow::Result<UnixListener> {
    fs::remove_file(path).ok();
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    Ok(listener)
}

/// `agent.socket` for as long as this value lives.
pub struct ToolSocket {
    path: String,
    closed: Arc<AtomicBool>,
}

impl ToolSocket {
    pub fn open(connection: &Arc<Connection>, unit: &UnitName) -> anyhow::Result<Self> {
        let path = inside::agent_socket(unit);
        let listener = bind(&path)?;
        let closed = Arc::new(AtomicBool::new(false));
        let (connection, flag) = (Arc::clone(connection), Arc::clone(&closed));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if flag.load(Ordering::Acquire) {
                    return;
                }
                let connection = Arc::clone(&connection);
                thread::spawn(move || answer_tool(&connection, &stream));
            }
        });
        Ok(ToolSocket { path, closed })
    }
}

impl Drop for ToolSocket {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the listener, which then ends.
        UnixStream::connect(&self.path).ok();
        fs::remove_file(&self.path).ok();
    }
}

/// A tool may call twice: the second time with the file it was asked for.
fn answer_tool(connection: &Connection, stream: &UnixStream) {
    let mut reader = BufReader::new(stream);
    while let Ok(Some(call)) = receive::<tools::Call>(&mut reader) {
        let reply =
            connection.tool(call).unwrap_or_else(|_| tools::Reply::error(1, "connection is shutdown before send"));
        if send(&mut &*stream, &reply).is_err() {
            return;
        }
    }
}

/// Units that were here before this agent started.
pub fn listen_for_known_units(connection: &Arc<Connection>) {
    for entry in fs::read_dir(inside::AGENTS).into_iter().flatten().flatten() {
        if let Some(unit) = entry.file_name().to_str().and_then(UnitName::from_tag) {
            fs::remove_file(inside::agent_socket(&unit)).ok();
            listen_for_commands(connection, &unit);
        }
    }
}

/// Listens on `run.socket`. A second call for a unit takes the place of the first.
pub fn listen_for_commands(connection: &Arc<Connection>, unit: &UnitName) {
    let introspection = format!("{}/introspection.socket", inside::unit(unit));
    let listener = match bind(&inside::run_socket(unit)).and_then(|listener| {
        bind(&introspection)?;
        Ok(listener)
    }) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("jujud: sockets of {unit}: {error:#}");
            return;
        }
    };
    let connection = Arc::clone(connection);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = Arc::clone(&connection);
            thread::spawn(move || answer_commands(&connection, &stream));
        }
    });
}

fn answer_commands(connection: &Connection, stream: &UnixStream) {
    let mut reader = BufReader::new(stream);
    let Ok(Some(call)) = receive::<CommandsCall>(&mut reader) else { return };
    let aborted = || CommandsResult { code: -1, stdout: String::new(), stderr: String::new() };
    let result = match connection.commands(call.unit, call.commands) {
        Ok(receiver) => receiver.recv().unwrap_or_else(|_| aborted()),
        Err(_) => aborted(),
    };
    send(&mut &*stream, &result).ok();
}
