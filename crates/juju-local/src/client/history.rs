//! `juju show-status-log`: what something was before.

use serde_json::Value;

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse, table};
use crate::clock::Moment;
use crate::flags::{Parsed, switch, value};
use crate::output::{Format, render};
use crate::wire::Request;

const DEFAULT_ENTRIES: usize = 20;
const DAY_MILLIS: u64 = 86_400_000;

/// Which part of the past is wanted.
enum Range {
    Last(usize),
    Since(Moment),
}

pub fn main(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            value(&["m", "model"]),
            value(&["format"]),
            value(&["o", "output"]),
            value(&["type"]),
            value(&["n"]),
            value(&["days"]),
            value(&["from-date"]),
            switch(&["utc"]),
        ],
        arguments,
    )?;
    let entity = match parsed.arguments.as_slice() {
        [entity] => entity.clone(),
        [] => return Err(Refusal::usage("entity name is missing.")),
        _ => return Err(Refusal::usage("unexpected arguments after entity name.")),
    };
    let range = range(&parsed, Moment::now())?;
    let format =
        Format::choose(parsed.get("format"), Format::Smart, &["json", "yaml", "tabular"]).map_err(Refusal::usage)?;
    let kind = parsed.get("type").unwrap_or("unit").to_owned();
    let entries = Client::for_command(&parsed)?.ask(&Request::History { entity, kind })?;
    let entries = chosen(entries.as_array().cloned().unwrap_or_default(), &range);
    match format {
        Format::Smart => print!("{}", history_table(&entries, parsed.has("utc"))),
        format => print!("{}", render(&Value::Array(entries), format)),
    }
    DONE
}

fn range(parsed: &Parsed, now: Moment) -> Result<Range, Refusal> {
    let number = |name: &str| match parsed.get(name).map(str::parse::<u64>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => {
            let text = parsed.get(name).unwrap_or_default();
            Err(Refusal::usage(format!(
                "invalid value \"{text}\" for option --{name}: strconv.ParseInt: parsing \"{text}\": invalid syntax"
            )))
        }
    };
    match (number("n")?, number("days")?, parsed.get("from-date")) {
        (None, None, None) => Ok(Range::Last(DEFAULT_ENTRIES)),
        (Some(count), None, None) => Ok(Range::Last(usize::try_from(count).unwrap_or(usize::MAX))),
        (None, Some(days), None) => Ok(Range::Since(Moment(now.0.saturating_sub(days.saturating_mul(DAY_MILLIS))))),
        (None, None, Some(date)) => match Moment::parse(&format!("{date}T00:00:00Z")) {
            Some(moment) => Ok(Range::Since(moment)),
            None => Err(Refusal::usage(format!(
                "parsing backlog date: parsing time \"{date}\" as \"2006-01-02\": cannot parse"
            ))),
        },
        _ => Err(Refusal::usage("backlog size, backlog date and backlog days back cannot be specified together")),
    }
}

fn chosen(entries: Vec<Value>, range: &Range) -> Vec<Value> {
    match range {
        Range::Last(count) => {
            let first = entries.len().saturating_sub(*count);
            entries.into_iter().skip(first).collect()
        }
        Range::Since(moment) => entries
            .into_iter()
            .filter(|entry| entry["since"].as_str().and_then(Moment::parse).is_some_and(|since| since >= *moment))
            .collect(),
    }
}

fn history_table(entries: &[Value], utc: bool) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let time = |value: &Value| {
        let moment = value.as_str().and_then(Moment::parse);
        moment.map(|moment| if utc { moment.goal() } else { moment.status() }).unwrap_or_default()
    };
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| vec![time(&entry["since"]), text(&entry["type"]), text(&entry["status"]), text(&entry["message"])])
        .collect();
    table::render(&["Time", "Type", "Status", "Message"], &rows, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entries() -> Vec<Value> {
        vec![
            json!({"status": "maintenance", "message": "installing", "since": "2025-02-27T10:00:00Z",
                "type": "workload"}),
            json!({"status": "idle", "since": "2025-03-01T10:04:05Z", "type": "juju-unit"}),
        ]
    }

    #[test]
    fn the_newest_or_those_since_a_day_are_chosen() {
        assert_eq!(chosen(entries(), &Range::Last(1)), &entries()[1..]);
        assert_eq!(chosen(entries(), &Range::Last(9)), entries());
        let since = Range::Since(Moment::parse("2025-03-01T00:00:00Z").unwrap());
        assert_eq!(chosen(entries(), &since), &entries()[1..]);
    }

    #[test]
    fn the_table_has_jujus_columns() {
        let expected = "Time                   Type       Status       Message\n\
                        27 Feb 2025 10:00:00Z  workload   maintenance  installing\n\
                        01 Mar 2025 10:04:05Z  juju-unit  idle\n";
        assert_eq!(history_table(&entries(), false), expected);
    }
}
