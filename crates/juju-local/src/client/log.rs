//! `juju debug-log`: the model's log, which lies in a file beside its state.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::time::Duration;

use serde_json::json;

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse};
use crate::daemon::LogRecord;
use crate::flags::{Flag, Parsed, switch, value};
use crate::names::{UnitName, check_application};
use crate::output;
use crate::paths::ModelPaths;

const FOLLOW_PAUSE: Duration = Duration::from_millis(200);
const DEFAULT_LINES: usize = 10;
const LEVELS: &[&str] = &["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"];
const FLAGS: &[Flag] = &[
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
    value(&["include-label", "include-labels"]),
    value(&["exclude-label", "exclude-labels"]),
    value(&["l", "level"]),
    switch(&["color"]),
    switch(&["date"]),
    switch(&["ms"]),
    switch(&["utc"]),
    switch(&["location"]),
    value(&["format"]),
    switch(&["retry"]),
    value(&["retry-delay"]),
];

/// Which records are shown.
#[derive(Debug, Default)]
struct Filter {
    severity: usize,
    include: Vec<String>,
    exclude: Vec<String>,
    include_modules: Vec<String>,
    exclude_modules: Vec<String>,
}

/// How a record is shown.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    json: bool,
    date: bool,
    millis: bool,
    colour: bool,
}

/// How many are shown, and whether new ones are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Newest of those that are there; none: all.
    last: Option<usize>,
    follow: bool,
}

pub fn main(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    parsed.at_most(0).map_err(Refusal::usage)?;
    let filter = filter(&parsed)?;
    let style = style(&parsed)?;
    let extent = extent(&parsed, std::io::stdout().is_terminal())?;
    let model = Client::for_command(&parsed)?.model;
    let mut reader =
        BufReader::new(File::open(ModelPaths::of(&model).log()).map_err(|error| Refusal::failed(error.to_string()))?);
    let shown = read_new(&mut reader, &filter)?;
    let first = extent.last.map_or(0, |last| shown.len().saturating_sub(last));
    for record in &shown[first..] {
        println!("{}", line(record, style));
    }
    if !extent.follow {
        return DONE;
    }
    loop {
        std::thread::sleep(FOLLOW_PAUSE);
        for record in read_new(&mut reader, &filter)? {
            println!("{}", line(&record, style));
        }
    }
}

fn extent(parsed: &Parsed, terminal: bool) -> Result<Extent, Refusal> {
    let number = |name: &str| match parsed.get(name).map(str::parse::<usize>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => {
            let (text, dashes) = (parsed.get(name).unwrap_or_default(), if name.len() == 1 { "-" } else { "--" });
            let why = format!("strconv.ParseUint: parsing \"{text}\": invalid syntax");
            Err(Refusal::usage(format!("invalid value \"{text}\" for option {dashes}{name}: {why}")))
        }
    };
    let (limit, lines) = (number("limit")?, number("n")?);
    if parsed.has("tail") && parsed.has("no-tail") {
        return Err(Refusal::usage("setting --tail and --no-tail not valid"));
    }
    if parsed.has("no-tail") && parsed.has("retry") {
        return Err(Refusal::usage("setting --no-tail and --retry not valid"));
    }
    // A limit ends the command, and of 0 shows everything.
    let last = match limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None if parsed.has("replay") => None,
        None => Some(lines.unwrap_or(DEFAULT_LINES)),
    };
    let follow = parsed.has("tail") || (terminal && !parsed.has("no-tail"));
    Ok(Extent { last, follow: follow && limit.is_none() })
}

fn style(parsed: &Parsed) -> Result<Style, Refusal> {
    let json = match parsed.get("format") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            return Err(Refusal::usage(format!(
                "invalid value \"{other}\" for option --format: unknown format \"{other}\""
            )));
        }
    };
    let terminal = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Ok(Style { json, date: parsed.has("date"), millis: parsed.has("ms"), colour: parsed.has("color") || terminal })
}

fn filter(parsed: &Parsed) -> Result<Filter, Refusal> {
    let severity = match parsed.get("l") {
        None => 0,
        Some(text) => {
            let level = LEVELS.iter().find(|level| level.eq_ignore_ascii_case(text));
            let Some(level) = level else {
                let known: Vec<String> = LEVELS.iter().map(|level| format!("\"{level}\"")).collect();
                return Err(Refusal::usage(format!("level value \"{text}\" is not one of {}", known.join(", "))));
            };
            LogRecord::severity(level)
        }
    };
    let entities = |name: &str| parsed.all(name).iter().map(|text| entity_pattern(text)).collect();
    Ok(Filter {
        severity,
        include: entities("i"),
        exclude: entities("x"),
        include_modules: parsed.all("include-module").to_vec(),
        exclude_modules: parsed.all("exclude-module").to_vec(),
    })
}

/// `a/0`, `unit-a-0`, `3`, `machine-3`, or `a` for all units of it: as a tag, which may end in `*`.
fn entity_pattern(text: &str) -> String {
    let tagged = ["unit-", "machine-", "application-"].iter().any(|kind| text.starts_with(kind));
    if text.contains('*') || tagged {
        return text.to_owned();
    }
    if let Some(unit) = UnitName::parse(text) {
        return unit.tag();
    }
    match text.parse::<u32>() {
        Ok(number) => format!("machine-{number}"),
        Err(_) if check_application(text).is_ok() => format!("unit-{text}-*"),
        Err(_) => text.to_owned(),
    }
}

impl Filter {
    fn passes(&self, record: &LogRecord) -> bool {
        let entity = |pattern: &String| match pattern.split_once('*') {
            Some((start, end)) => record.entity.starts_with(start) && record.entity.ends_with(end),
            None => record.entity == *pattern,
        };
        let module = |pattern: &String| record.module == *pattern || record.module.starts_with(&format!("{pattern}."));
        (self.include.is_empty() || self.include.iter().any(entity))
            && (self.include_modules.is_empty() || self.include_modules.iter().any(module))
            && !self.exclude.iter().any(entity)
            && !self.exclude_modules.iter().any(module)
            && LogRecord::severity(&record.level) >= self.severity
    }
}

/// Records since the last call that pass the filter. A line that is still being written waits for the next call.
fn read_new(reader: &mut BufReader<File>, filter: &Filter) -> Result<Vec<LogRecord>, Refusal> {
    let failed = |error: std::io::Error| Refusal::failed(error.to_string());
    let mut shown = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        let length = reader.read_line(&mut line).map_err(failed)?;
        if !line.ends_with('\n') {
            reader.seek_relative(-i64::try_from(length).unwrap_or(0)).map_err(failed)?;
            return Ok(shown);
        }
        if let Ok(record) = serde_json::from_str::<LogRecord>(&line)
            && filter.passes(&record)
        {
            shown.push(record);
        }
    }
}

/// `unit-a-0: 10:00:00 INFO unit.a/0.juju-log hello`
fn line(record: &LogRecord, style: Style) -> String {
    if style.json {
        return output::json(&json!({
            "entity": record.entity,
            "timestamp": record.time.rfc3339(),
            "severity": record.level,
            "module": record.module,
            "message": record.message,
        }));
    }
    let mut time = if style.date { record.time.goal().trim_end_matches('Z').to_owned() } else { record.time.clock() };
    if style.millis {
        time.push_str(&format!(".{:03}", record.time.0 % 1000));
    }
    let level = match (style.colour, record.level.as_str()) {
        (true, "DEBUG") => "\u{1b}[32mDEBUG\u{1b}[0m",
        (true, "INFO") => "\u{1b}[94mINFO\u{1b}[0m",
        (true, "WARNING") => "\u{1b}[33mWARNING\u{1b}[0m",
        (true, "ERROR") => "\u{1b}[91mERROR\u{1b}[0m",
        (_, level) => level,
    };
    format!("{}: {time} {level} {} {}", record.entity, record.module, record.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::flags;

    fn parsed(words: &[&str]) -> Parsed {
        flags::parse(FLAGS, &words.iter().map(ToString::to_string).collect::<Vec<_>>(), false).unwrap()
    }

    fn record(entity: &str, level: &str, module: &str) -> LogRecord {
        LogRecord {
            entity: entity.to_owned(),
            time: Moment(1_740_823_445_123),
            level: level.to_owned(),
            module: module.to_owned(),
            message: "hello".to_owned(),
        }
    }

    #[track_caller]
    fn passes(words: &[&str], expected: bool) {
        let filter = filter(&parsed(words)).ok().unwrap();
        assert_eq!(filter.passes(&record("unit-my-app-0", "WARNING", "unit.my-app/0.juju-log")), expected, "{words:?}");
    }

    #[test]
    fn lines_are_chosen_by_entity() {
        passes(&[], true);
        passes(&["-i", "my-app/0"], true);
        passes(&["--include", "my-app"], true);
        passes(&["--include", "unit-my-*"], true);
        passes(&["--include", "machine-0"], false);
        passes(&["-i", "3", "-i", "my-app/0"], true);
        passes(&["-x", "my-app"], false);
    }

    #[test]
    fn lines_are_chosen_by_module() {
        passes(&["--include-module", "unit"], true);
        passes(&["--include-module", "uni"], false);
        passes(&["--exclude-module", "unit.my-app/0"], false);
    }

    #[test]
    fn lines_are_chosen_by_level() {
        passes(&["-l", "warning"], true);
        passes(&["--level", "ERROR"], false);
    }

    #[test]
    fn flags_say_how_much_is_shown() {
        let extent = |words: &[&str], terminal: bool| extent(&parsed(words), terminal).ok().unwrap();
        assert_eq!(extent(&[], false), Extent { last: Some(10), follow: false });
        assert_eq!(extent(&[], true), Extent { last: Some(10), follow: true });
        assert_eq!(extent(&["--limit", "0"], true), Extent { last: None, follow: false });
        assert_eq!(extent(&["--limit", "5"], false), Extent { last: Some(5), follow: false });
        assert_eq!(extent(&["--replay"], true), Extent { last: None, follow: true });
        assert_eq!(extent(&["--replay", "--no-tail"], true), Extent { last: None, follow: false });
        assert_eq!(extent(&["-n", "3", "--tail"], false), Extent { last: Some(3), follow: true });
    }

    #[test]
    fn nonsense_is_refused_in_jujus_words() {
        let refused = |words: &[&str]| {
            let parsed = parsed(words);
            filter(&parsed).err().or(extent(&parsed, false).err()).map(|refusal| refusal.message).unwrap()
        };
        assert_eq!(
            refused(&["-l", "loud"]),
            "level value \"loud\" is not one of \"TRACE\", \"DEBUG\", \"INFO\", \"WARNING\", \"ERROR\""
        );
        assert_eq!(refused(&["--tail", "--no-tail"]), "setting --tail and --no-tail not valid");
        assert!(refused(&["--limit", "x"]).starts_with("invalid value \"x\" for option --limit: "));
    }

    #[test]
    fn a_line_is_jujus() {
        let plain = line(&record("unit-a-0", "INFO", "unit.a/0.juju-log"), Style::default());
        assert_eq!(plain, "unit-a-0: 10:04:05 INFO unit.a/0.juju-log hello");
        let style = Style { date: true, millis: true, ..Style::default() };
        assert_eq!(
            line(&record("machine-0", "ERROR", "juju"), style),
            "machine-0: 2025-03-01 10:04:05.123 ERROR juju hello"
        );
    }
}
