//! A hook tool, as the charm calls it: sends its words to the agent, reads the files it is asked for, prints the
//! answer.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use base64::Engine as _;

use crate::tools::{Call, Reply};
use crate::wire::{receive, send};

pub fn main(tool: &str, arguments: Vec<String>) -> ExitCode {
    let reply = match converse(tool, arguments) {
        Ok(reply) => reply,
        Err(message) => Reply::error(1, &message),
    };
    let mut code = reply.code;
    let written = match &reply.output {
        Some(path) => std::fs::write(path, &reply.stdout),
        None => std::io::stdout().write_all(reply.stdout.as_bytes()),
    };
    if let Err(error) = written {
        eprintln!("ERROR {error}");
        code = 1;
    }
    std::io::stderr().write_all(reply.stderr.as_bytes()).ok();
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn converse(tool: &str, arguments: Vec<String>) -> Result<Reply, String> {
    let context = std::env::var("JUJU_CONTEXT_ID").map_err(|_| "JUJU_CONTEXT_ID not set".to_owned())?;
    let path =
        std::env::var("JUJU_AGENT_SOCKET_ADDRESS").map_err(|_| "JUJU_AGENT_SOCKET_ADDRESS not set".to_owned())?;
    let stream =
        UnixStream::connect(&path).map_err(|error| format!("dial unix {path}: connect: {}", go_error(&error)))?;
    let mut reader = BufReader::new(&stream);
    let mut call = Call { context, tool: tool.to_owned(), arguments, files: BTreeMap::new() };
    loop {
        send(&mut &stream, &call).map_err(|_| "connection is shutdown before send".to_owned())?;
        let reply = receive::<Reply>(&mut reader).ok().flatten();
        let reply = reply.ok_or_else(|| "connection is shutdown before send".to_owned())?;
        let Some(wanted) = reply.wanted.clone() else { return Ok(reply) };
        call.files.insert(wanted.clone(), read(&wanted));
    }
}

fn read(path: &str) -> Result<String, String> {
    let bytes = match path {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        }
        _ => std::fs::read(path),
    };
    match bytes {
        Ok(bytes) => Ok(base64::engine::general_purpose::STANDARD.encode(bytes)),
        Err(error) => Err(format!("open {path}: {}", go_error(&error))),
    }
}

/// Go's words for the errors of the system.
pub fn go_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}
