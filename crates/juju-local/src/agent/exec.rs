//! `juju-exec`: runs commands in a unit's context from outside of any hook, for timers and for people on the machine.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use base64::Engine as _;

use crate::flags::{self, Flag, switch, value};
use crate::names::UnitName;
use crate::paths::inside;
use crate::wire::{Commands, CommandsCall, CommandsResult, receive, send};

const FLAGS: &[Flag] = &[
    value(&["u", "unit"]),
    value(&["r", "relation"]),
    value(&["remote-unit"]),
    value(&["remote-app"]),
    switch(&["force-remote-unit"]),
    switch(&["no-context"]),
    switch(&["operator"]),
];

pub fn main(arguments: Vec<String>) -> ExitCode {
    match run(&arguments) {
        Ok(code) => code,
        Err((code, message)) => {
            eprintln!("ERROR {message}");
            ExitCode::from(code)
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode, (u8, String)> {
    if let Ok(context) = std::env::var("JUJU_CONTEXT_ID") {
        return Err((2, format!("juju-exec cannot be called from within a hook, have context \"{context}\"")));
    }
    let parsed = flags::parse(FLAGS, arguments, true).map_err(|message| (2, message))?;
    let mut words = parsed.arguments.clone();
    if words.is_empty() {
        return Err((2, "missing unit-name".to_owned()));
    }
    if parsed.has("no-context") {
        return run_without_context(&words);
    }
    let unit = choose_unit(parsed.get("u"), &mut words)?;
    if words.first().is_some_and(|word| word == "--") {
        words.remove(0);
    }
    if words.is_empty() {
        return Err((2, "missing commands".to_owned()));
    }
    let script = if let [one] = words.as_slice() { one.clone() } else { join(&words) };
    let commands = Commands {
        script,
        relation: parsed.get("r").map(str::to_owned),
        remote_unit: parsed.get("remote-unit").map(str::to_owned),
    };
    let result = ask(&unit, commands).map_err(|message| (1, message))?;
    let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    std::io::stdout().write_all(&decode(&result.stdout)).ok();
    std::io::stderr().write_all(&decode(&result.stderr)).ok();
    Ok(ExitCode::from(u8::try_from(result.code).unwrap_or(1)))
}

/// Several words are joined by blanks, quoted only where Juju quotes them.
fn join(words: &[String]) -> String {
    let quoted = words.iter().map(|word| match word.contains([' ', '\t', '\n', '"', '$', '\\']) {
        true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$")),
        false => word.clone(),
    });
    quoted.collect::<Vec<String>>().join(" ")
}

fn units_here() -> Vec<UnitName> {
    let entries = std::fs::read_dir(inside::AGENTS).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().and_then(UnitName::from_tag)).collect()
}

/// Named by option, by the first word, or the only one there is.
fn choose_unit(option: Option<&str>, words: &mut Vec<String>) -> Result<UnitName, (u8, String)> {
    let here = units_here();
    let known = |text: &str| {
        let unit = UnitName::parse(text).or_else(|| UnitName::from_tag(text))?;
        Some(
            here.contains(&unit)
                .then_some(unit.clone())
                .ok_or_else(|| (1, format!("unit \"{unit}\" not found on this machine"))),
        )
    };
    if let Some(text) = option.filter(|text| !text.is_empty()) {
        return known(text).unwrap_or_else(|| Err((2, format!("\"{text}\" is not a valid unit name"))));
    }
    if words.len() > 1
        && let Some(found) = words.first().and_then(|word| known(word))
    {
        words.remove(0);
        return found;
    }
    match here.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err((1, "multiple units on this machine, specify one".to_owned())),
    }
}

fn ask(unit: &UnitName, commands: Commands) -> Result<CommandsResult, String> {
    let path = inside::run_socket(unit);
    let stream = UnixStream::connect(&path)
        .map_err(|error| format!("dial unix {path}: connect: {}", super::tool::go_error(&error)))?;
    send(&mut &stream, &CommandsCall { unit: unit.clone(), commands }).map_err(|error| error.to_string())?;
    let result = receive::<CommandsResult>(&mut BufReader::new(&stream)).ok().flatten();
    match result {
        Some(result) if result.code >= 0 => Ok(result),
        _ => Err("r.runner.RunCommands: command execution aborted".to_owned()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the command is what the caller asked for")]
fn run_without_context(words: &[String]) -> Result<ExitCode, (u8, String)> {
    let script = if let [one] = words { one.clone() } else { join(words) };
    let status = std::process::Command::new("/bin/bash").arg("-c").arg(script).status();
    match status {
        Ok(status) => Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
        Err(error) => Err((1, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_words_are_quoted_as_juju_does() {
        let words: Vec<String> = ["echo", "two words", "$HOME", "a;b"].map(str::to_owned).into();
        assert_eq!(join(&words), "echo \"two words\" \"\\$HOME\" a;b");
    }
}
