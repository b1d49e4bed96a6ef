//! `juju debug-log`: the model's log, which lies in a file beside its state.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::time::Duration;

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse};
use crate::daemon::LogRecord;
use crate::flags::{Parsed, switch, value};
use crate::paths::ModelPaths;

const FOLLOW_PAUSE: Duration = Duration::from_millis(200);
const DEFAULT_LINES: usize = 10;

pub fn main(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            switch(&["replay"]),
            switch(&["tail"]),
            switch(&["no-tail"]),
            value(&["n", "lines"]),
            value(&["limit"]),
            value(&["i", "include"]),
            value(&["x", "exclude"]),
            value(&["include-module"]),
            value(&["exclude-module"]),
            value(&["l", "level"]),
            switch(&["color"]),
            switch(&["date"]),
            switch(&["ms"]),
            switch(&["utc"]),
            switch(&["location"]),
            value(&["format"]),
            switch(&["retry"]),
        ],
        arguments,
    )?;
    let number = |name: &str| match parsed.get(name).map(str::parse::<usize>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(Refusal::usage(format!(
            "invalid value \"{}\" for option --{name}",
            parsed.get(name).unwrap_or_default()
        ))),
    };
    let (limit, lines) = (number("limit")?, number("n")?);
    let model = Client::for_command(&parsed)?.model;
    let mut reader =
        BufReader::new(File::open(ModelPaths::of(&model).log()).map_err(|error| Refusal::failed(error.to_string()))?);
    let shown = read_new(&mut reader, &parsed)?;
    let whole = parsed.has("replay") || limit.is_some();
    let first = if whole { 0 } else { shown.len().saturating_sub(lines.unwrap_or(DEFAULT_LINES)) };
    let first = match limit {
        // A limit counts from the end of what is there.
        Some(most) if most > 0 && !parsed.has("replay") => shown.len().saturating_sub(most),
        _ => first,
    };
    let most = limit.filter(|most| *most > 0).unwrap_or(usize::MAX);
    for line in shown.iter().skip(first).take(most) {
        println!("{line}");
    }
    let follows =
        parsed.has("tail") || (std::io::stdout().is_terminal() && !parsed.has("no-tail") && limit.is_none() && !whole);
    if !follows {
        return DONE;
    }
    loop {
        std::thread::sleep(FOLLOW_PAUSE);
        for line in read_new(&mut reader, &parsed)? {
            println!("{line}");
        }
    }
}

/// Lines since the last call that pass the filters.
fn read_new(reader: &mut impl BufRead, parsed: &Parsed) -> Result<Vec<String>, Refusal> {
    let mut shown = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line).map_err(|error| Refusal::failed(error.to_string()))? > 0 {
        if let Ok(record) = serde_json::from_str::<LogRecord>(&line)
            && passes(&record, parsed)
        {
            shown.push(record.line());
        }
        line.clear();
    }
    Ok(shown)
}

fn passes(record: &LogRecord, parsed: &Parsed) -> bool {
    let entity = |pattern: &String| {
        let tag = if pattern.contains('/') { format!("unit-{}", pattern.replace('/', "-")) } else { pattern.clone() };
        record.entity == tag || tag.strip_suffix('*').is_some_and(|prefix| record.entity.starts_with(prefix))
    };
    let module = |pattern: &String| record.module == *pattern || record.module.starts_with(&format!("{pattern}."));
    let level = parsed.get("l").map_or(0, |level| LogRecord::severity(&level.to_ascii_uppercase()));
    let included = parsed.all("i").is_empty() || parsed.all("i").iter().any(entity);
    let module_included = parsed.all("include-module").is_empty() || parsed.all("include-module").iter().any(module);
    included
        && module_included
        && !parsed.all("x").iter().any(entity)
        && !parsed.all("exclude-module").iter().any(module)
        && LogRecord::severity(&record.level) >= level
}
