//! A slurm.conf in the JSON form of slurmutils, the library that the Python charms read and write theirs with. Pure.
//!
//! Writing is strict: a reader with slurmutils fails as a whole on an option or a value that its schema does not have,
//! so such an option is left out. Reading is lenient: whatever has a place in slurm.conf is written there, and what
//! could leave its place is refused.

use serde_json::{Map, Number, Value};
use slurm_conf::{RecordKind, SlurmConf, ValueError, checked_line};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const INCLUDE: &str = "include";
const CONTROLLERS: &str = "slurmctldhost";
const DOWN_NODES: &str = "downnodes";
const PLAIN: &str = "slurm.conf";
/// Records, under the member of the JSON object that holds them by name. `downnodes` is a list: they have no name.
const RECORDS: [(&str, RecordKind); 4] = [
    ("nodes", RecordKind::Node),
    ("frontendnodes", RecordKind::Frontend),
    ("nodesets", RecordKind::NodeSet),
    ("partitions", RecordKind::Partition),
];

/// One of the forms that a value may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Bool,
    Bit,
    Whole(Option<i64>, Option<i64>),
    Fraction(Option<i64>, Option<i64>),
    Words(&'static str),
}

/// What a key holds: one value of these forms, or a list of such values.
#[derive(Debug, Default)]
struct Spec {
    forms: Vec<Form>,
    list: bool,
}

/// Keys by section and name. A member of an object is called `key.name`.
type Table = BTreeMap<(&'static str, &'static str), Spec>;

static TABLE: LazyLock<Table> = LazyLock::new(|| read_table(include_str!("slurmutils.txt")));

fn read_table(text: &'static str) -> Table {
    let (mut table, mut section) = (Table::new(), PLAIN);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            continue;
        }
        let Some((key, forms)) = line.split_once(' ') else { continue };
        let spec: &mut Spec = table.entry((section, key)).or_default();
        for form in forms.split(' ') {
            spec.list |= form.starts_with('*');
            spec.forms.push(Form::read(form.trim_start_matches('*')));
        }
    }
    table
}

impl Form {
    fn read(text: &'static str) -> Self {
        let range = |text: &str| {
            let (low, high) = text.split_once("..").unwrap_or_default();
            (low.parse().ok(), high.parse().ok())
        };
        match text {
            "text" => Self::Text,
            "bool" => Self::Bool,
            "bit" => Self::Bit,
            _ => match (text.strip_prefix('='), text.strip_prefix("number:")) {
                (Some(words), _) => Self::Words(words),
                (None, Some(text)) => Self::Fraction(range(text).0, range(text).1),
                (None, None) => Self::Whole(range(text).0, range(text).1),
            },
        }
    }

    /// Returns a value of slurm.conf in JSON. `None`: it is not of this form.
    fn value(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => (!text.is_empty()).then(|| text.into()),
            Self::Bool | Self::Bit => truth(text).map(Value::Bool),
            Self::Whole(low, high) => {
                let number: i64 = text.parse().ok()?;
                let fits = low.is_none_or(|low| number >= low) && high.is_none_or(|high| number <= high);
                fits.then(|| number.into())
            }
            Self::Fraction(low, high) => {
                let number: f64 = text.parse().ok()?;
                #[expect(clippy::cast_precision_loss, reason = "the table has small numbers")]
                let fits = low.is_none_or(|low| number >= low as f64) && high.is_none_or(|high| number <= high as f64);
                fits.then(|| Number::from_f64(number)).flatten().map(Value::Number)
            }
            Self::Words(words) => {
                let lower = text.to_ascii_lowercase();
                words.split('|').find(|word| *word == lower).map(Value::from)
            }
        }
    }
}

/// Reads yes or no as Slurm does.
fn truth(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 4]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    let (yes, no) = (is_one_of(["yes", "true", "up", "1"]), is_one_of(["no", "false", "down", "0"]));
    (yes || no).then_some(yes)
}

/// Returns files of one configuration in JSON: the name of each, and its record. The file names have to be fit to be
/// published; an `Include` line of another file is left out.
pub(crate) fn encode(files: &BTreeMap<String, SlurmConf>) -> Value {
    let names: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    Value::Object(files.iter().map(|(name, conf)| (name.clone(), Value::Object(file(conf, &names)))).collect())
}

fn file(conf: &SlurmConf, published: &BTreeSet<&str>) -> Map<String, Value> {
    let mut members = Map::new();
    for (key, value) in conf.settings() {
        let key = key.to_ascii_lowercase();
        // The last line of a key is the one that Slurm takes. If that one cannot be published, none can.
        match member(PLAIN, &key, value) {
            Some(value) if key != CONTROLLERS => members.insert(key, value),
            _ => members.remove(&key),
        };
    }
    let controllers = unique(conf.controllers().into_iter());
    if !controllers.is_empty() {
        members.insert(CONTROLLERS.to_owned(), controllers.into());
    }
    let includes = unique(conf.includes().filter(|name| published.contains(name)));
    if !includes.is_empty() {
        members.insert(INCLUDE.to_owned(), includes.into());
    }
    let down: Vec<Value> = conf.records(RecordKind::DownNodes).map(|record| Value::Object(options(record))).collect();
    if !down.is_empty() {
        members.insert(DOWN_NODES.to_owned(), unique_values(down).into());
    }
    for (member, kind) in RECORDS {
        let records = conf.records(kind).filter(|record| !record.name().is_empty());
        let records: Map<String, Value> =
            records.map(|record| (record.name().to_owned(), Value::Object(options(record)))).collect();
        if !records.is_empty() {
            members.insert(member.to_owned(), records.into());
        }
    }
    members
}

fn options(record: slurm_conf::Record<'_>) -> Map<String, Value> {
    let section: &str = &record.kind().key().to_ascii_lowercase();
    let name = (record.kind().key(), record.name());
    let pairs = std::iter::once(name).chain(record.options());
    pairs
        .filter_map(|(key, value)| {
            let key = key.to_ascii_lowercase();
            member(section, &key, value).map(|value| (key, value))
        })
        .collect()
}

/// Returns the value of one key in JSON. `None`: the schema does not have it.
fn member(section: &str, key: &str, text: &str) -> Option<Value> {
    match TABLE.get(&(section, key)) {
        Some(spec) if spec.list => list(spec, text, separator(key)),
        Some(spec) => one(spec, text),
        None => object(section, key, text),
    }
}

fn one(spec: &Spec, text: &str) -> Option<Value> {
    spec.forms.iter().find_map(|form| form.value(text))
}

/// A list with an item that does not fit is none: what it would say without that one is something else.
fn list(spec: &Spec, text: &str, separator: char) -> Option<Value> {
    let items: Option<Vec<Value>> = text.split(separator).map(|item| one(spec, item.trim())).collect();
    Some(unique_values(items?).into())
}

/// Reads `name=value,flag`. A member that the schema does not have is left out.
fn object(section: &str, key: &str, text: &str) -> Option<Value> {
    let mut members = Map::new();
    let (text, more) = match text.split_once(':') {
        Some((text, more)) if key == MCS => (text, Some(more)),
        _ => (text, None),
    };
    let mut put = |name: &str, value: Option<&str>| {
        let lower = name.to_ascii_lowercase();
        let full = format!("{key}.{lower}");
        if let Some(spec) = TABLE.get(&(section, full.as_str())) {
            let read = match (value, spec.list) {
                (None, _) => spec.forms.contains(&Form::Bool).then_some(Value::Bool(true)),
                (Some(value), true) => list(spec, value, if key == MCS { '|' } else { ':' }),
                (Some(value), false) => one(spec, value),
            };
            read.map(|read| members.insert(lower, read));
        } else if let Some(spec) = TABLE.get(&(section, format!("{key}.*").as_str())) {
            // One license is a license without a count.
            one(spec, value.unwrap_or("1")).map(|read| members.insert(name.to_owned(), read));
        }
    };
    for part in text.split(',').map(str::trim) {
        match part.split_once(pair_separator(key)) {
            Some((name, value)) => put(name, Some(value)),
            None => put(part, None),
        }
    }
    if let Some(more) = more {
        put(MCS_PLUGIN, Some(more));
    }
    (!members.is_empty()).then_some(Value::Object(members))
}

const MCS: &str = "mcsparameters";
const MCS_PLUGIN: &str = "mcs_plugin_parameters";

fn separator(key: &str) -> char {
    if key == "plugindir" { ':' } else { ',' }
}

fn pair_separator(key: &str) -> char {
    if key == "licenses" { ':' } else { '=' }
}

fn unique<'a>(items: impl Iterator<Item = &'a str>) -> Vec<Value> {
    unique_values(items.map(Value::from).collect())
}

fn unique_values(items: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Why a record is no slurm.conf: which key, and what is wrong.
pub(crate) type Problem = (String, String);

/// Returns the text of a slurm.conf from its record. `Include` lines name files of `published` only.
pub(crate) fn decode(record: &Map<String, Value>, published: &BTreeSet<&str>) -> Result<String, Problem> {
    let mut lines = Vec::new();
    for (key, value) in record {
        let problem = |problem: String| (key.clone(), problem);
        match key.as_str() {
            INCLUDE => {
                let names = texts(value).map_err(problem)?;
                // A path is refused, whatever else is there; a plain name without its file is what a writer forgot.
                if let Some(name) = names.iter().find(|name| !crate::rest::is_conf_name(name)) {
                    return Err(problem(format!("`{name}` is no file of the configuration")));
                }
                let there = names.iter().filter(|name| published.contains(name.as_str()) && *name != PLAIN);
                lines.extend(there.map(|name| format!("include {name}")));
            }
            CONTROLLERS => {
                for host in texts(value).map_err(problem)? {
                    lines.push(line(&[(key.clone(), host)]).map_err(problem)?);
                }
            }
            DOWN_NODES | "nodes" | "frontendnodes" | "nodesets" | "partitions" => {}
            _ if is_reserved(key) => return Err(problem("a record where a plain key belongs".to_owned())),
            _ => lines.extend(plain(key, value).map_err(problem)?),
        }
    }
    for (member, kind) in RECORDS {
        let Some(records) = record.get(member).filter(|value| !value.is_null()) else { continue };
        let records = records.as_object().ok_or_else(|| (member.to_owned(), "not an object".to_owned()))?;
        for (name, options) in records {
            let kind = kind.key().to_ascii_lowercase();
            lines.push(record_line(&kind, Some(name), options).map_err(|why| (member.to_owned(), why))?);
        }
    }
    if let Some(down) = record.get(DOWN_NODES).filter(|value| !value.is_null()) {
        let problem = |problem: String| (DOWN_NODES.to_owned(), problem);
        for options in down.as_array().ok_or_else(|| problem("not a list".to_owned()))? {
            lines.push(record_line(DOWN_NODES, None, options).map_err(problem)?);
        }
    }
    Ok(lines.into_iter().map(|line| format!("{line}\n")).collect())
}

/// Tells whether a line that begins with this key is something else than `key=value`.
fn is_reserved(key: &str) -> bool {
    RecordKind::from_key(key).is_some() || key.eq_ignore_ascii_case(INCLUDE)
}

fn plain(key: &str, value: &Value) -> Result<Option<String>, String> {
    let Some(text) = text_of(PLAIN, key, value)? else { return Ok(None) };
    line(&[(key.to_owned(), text)]).map(Some)
}

/// Writes a record with its name first. The name in the record, if there is one, is the name of the record.
fn record_line(kind: &str, name: Option<&str>, options: &Value) -> Result<String, String> {
    let options = options.as_object().ok_or("a record that is not an object")?;
    let own = options.get(kind).map(|own| text_of(kind, kind, own)).transpose()?.flatten();
    let name = match (own, name) {
        (Some(own), Some(name)) if own != name => return Err(format!("`{name}` is called `{own}`")),
        (Some(own), _) => own,
        (None, Some(name)) => name.to_owned(),
        (None, None) => return Err("a record without a name".to_owned()),
    };
    let mut pairs = vec![(kind.to_owned(), name)];
    for (key, value) in options.iter().filter(|(key, _)| *key != kind) {
        if is_reserved(key) {
            return Err(format!("`{key}` inside of a record"));
        }
        if let Some(text) = text_of(kind, key, value)? {
            pairs.push((key.clone(), text));
        }
    }
    line(&pairs)
}

fn line(pairs: &[(String, String)]) -> Result<String, String> {
    checked_line(pairs).map_err(|error: ValueError| error.to_string())
}

/// Returns a value as slurm.conf has it. `None`: it says nothing.
fn text_of(section: &str, key: &str, value: &Value) -> Result<Option<String>, String> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::Bool(truth) => {
            let is_bit = TABLE.get(&(section, key)).is_some_and(|spec| spec.forms.contains(&Form::Bit));
            match (truth, is_bit) {
                (true, true) => "1".to_owned(),
                (false, true) => "0".to_owned(),
                (true, false) => "YES".to_owned(),
                (false, false) => "NO".to_owned(),
            }
        }
        Value::Array(_) => texts(value)?.join(&separator(key).to_string()),
        Value::Object(members) => pairs_of(key, members)?,
        Value::String(_) | Value::Number(_) => scalar(value)?,
    };
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn pairs_of(key: &str, members: &Map<String, Value>) -> Result<String, String> {
    let (mut parts, mut more) = (Vec::new(), String::new());
    for (name, value) in members {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => parts.push(name.clone()),
            Value::Array(_) if key == MCS && name == MCS_PLUGIN => more = format!(":{}", texts(value)?.join("|")),
            Value::Array(_) => parts.push(format!("{name}={}", texts(value)?.join(":"))),
            _ => parts.push(format!("{name}{}{}", pair_separator(key), scalar(value)?)),
        }
    }
    Ok(parts.join(",") + &more)
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    value.as_array().ok_or("not a list")?.iter().map(scalar).collect()
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err("neither a text nor a number".to_owned()),
    }
}
