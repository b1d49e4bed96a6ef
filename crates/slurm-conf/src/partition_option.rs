//! The options of a partition: their names, their types, and the three forms of a value (operator's text, JSON on the
//! wire, slurm.conf text).
//!
//! Every option of Slurm 24.11 to 26.05 is here. A value is normalised when it is read, so that equal settings are
//! equal values whatever the operator's spelling was.

use crate::text::value_problem;
use serde_json::{Map, Number, Value};
use std::sync::LazyLock;

/// What an option holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// One word or text.
    Text,
    /// One of a fixed set of words, kept in lower case.
    Word(&'static str),
    /// One of a fixed set of words with an optional `:count` behind it.
    CountedWord(&'static str),
    /// Yes or no.
    Boolean,
    /// A whole number from 0 to the given one, or `unlimited`.
    Count(u64),
    /// A time limit: minutes, `hh:mm:ss`, `days-hh:mm:ss` or `UNLIMITED`.
    Time,
    /// Words joined by commas.
    List,
    /// Words of a fixed set joined by commas, kept in lower case.
    WordList(&'static str),
    /// `name=number` joined by commas.
    Weights,
}

/// One option of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOption {
    /// The option as Slurm's manual writes it.
    pub name: &'static str,
    /// What it holds.
    pub kind: OptionKind,
}

/// A checked, normalised value.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// Yes or no.
    Boolean(bool),
    /// A whole number; `SuspendTime` knows −1.
    Integer(i64),
    /// Text.
    Text(String),
    /// A list of words.
    List(Vec<String>),
    /// Names with a number each; the number may carry a unit, so it is text.
    Weights(Vec<(String, String)>),
}

/// One option in a line, with its kind and what belongs to that.
static OPTIONS: LazyLock<Vec<PartitionOption>> =
    LazyLock::new(|| include_str!("partition_option/options.txt").lines().filter_map(PartitionOption::read).collect());

impl PartitionOption {
    /// Finds an option by name, in any letter case. `Shared` is Slurm's old word for `OverSubscribe`.
    pub fn find(name: &str) -> Option<&'static PartitionOption> {
        let name = if name.eq_ignore_ascii_case("Shared") { "OverSubscribe" } else { name };
        OPTIONS.iter().find(|option| option.name.eq_ignore_ascii_case(name))
    }

    /// Returns every option, by name.
    pub fn all() -> &'static [PartitionOption] {
        &OPTIONS
    }

    /// Reads a line of the table. None: a comment.
    fn read(line: &'static str) -> Option<Self> {
        let (name, kind) = line.split_once(' ').filter(|(name, _)| *name != "#")?;
        let (kind, detail) = kind.split_once(' ').unwrap_or((kind, ""));
        let kind = match kind {
            "word" => OptionKind::Word(detail),
            "counted-word" => OptionKind::CountedWord(detail),
            "boolean" => OptionKind::Boolean,
            "count" => OptionKind::Count(detail.parse().ok()?),
            "time" => OptionKind::Time,
            "list" => OptionKind::List,
            "word-list" => OptionKind::WordList(detail),
            "weights" => OptionKind::Weights,
            _ => OptionKind::Text,
        };
        Some(Self { name, kind })
    }

    /// Tells whether Slurm starts with a value that is none of this option's: it does not look, or it logs and goes on.
    fn is_lenient(&self, value: &str) -> bool {
        match self.kind {
            OptionKind::CountedWord(words) => words.split(',').any(|word| {
                let behind = value.get(word.len()..).unwrap_or("?");
                value.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
                    && (behind.is_empty() || behind.starts_with(':'))
            }),
            _ => matches!(self.name, "CpuBind" | "PreemptMode" | "OverTimeLimit"),
        }
    }

    /// Reads a value from slurm.conf text. The error says what is expected.
    pub(crate) fn value_from_text(&self, text: &str) -> Result<OptionValue, String> {
        if let Some(problem) = value_problem(text) {
            return Err(format!("text in which {problem}"));
        }
        let lower = text.to_ascii_lowercase();
        let known = match self.kind {
            OptionKind::Text => (!text.is_empty()).then(|| OptionValue::Text(text.to_owned())),
            OptionKind::Word(words) => is_one_of(words, &lower).then(|| OptionValue::Text(lower.clone())),
            OptionKind::CountedWord(words) => {
                let (word, count) =
                    lower.split_once(':').map_or((lower.as_str(), None), |(word, count)| (word, Some(count)));
                let counted = count.is_none_or(|count| is_digits(count) && count.parse::<u16>().is_ok());
                (is_one_of(words, word) && counted).then(|| OptionValue::Text(lower.clone()))
            }
            OptionKind::Boolean => match lower.as_str() {
                "yes" | "true" | "1" | "up" => Some(OptionValue::Boolean(true)),
                "no" | "false" | "0" | "down" => Some(OptionValue::Boolean(false)),
                _ => None,
            },
            OptionKind::Count(largest) => match lower.as_str() {
                "unlimited" | "infinite" => Some(OptionValue::Text(self.no_limit().to_owned())),
                // On the wire −1 may stand for no limit; in slurm.conf only `SuspendTime` may be −1.
                "-1" if self.name == "MaxNodes" => Some(OptionValue::Text(self.no_limit().to_owned())),
                "-1" if self.name == "SuspendTime" => Some(OptionValue::Integer(-1)),
                number if is_digits(unsigned(number)) => unsigned(number)
                    .parse::<u64>()
                    .ok()
                    .filter(|number| *number <= largest)
                    .and_then(|n| i64::try_from(n).ok())
                    .map(OptionValue::Integer),
                _ => None,
            },
            OptionKind::Time => time_value(text),
            OptionKind::List => {
                // Slurm overlooks a gap between two commas.
                let words: Vec<String> = text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
                let clean = !words.is_empty() && !text.contains(|c: char| c.is_whitespace() && c != ' ');
                clean.then_some(OptionValue::List(words))
            }
            OptionKind::WordList(words) => {
                let given: Vec<String> = lower.split(',').map(str::to_owned).collect();
                given.iter().all(|word| is_one_of(words, word)).then_some(OptionValue::List(given))
            }
            OptionKind::Weights => weights(text),
        };
        // A later Slurm may have more words; the installed one is the judge, and it starts with these.
        let lenient = || (!lower.is_empty() && self.is_lenient(text)).then(|| OptionValue::Text(lower.clone()));
        known.or_else(lenient).ok_or_else(|| self.expected())
    }

    /// Reads a value from JSON. Strings are read as slurm.conf text, so both the normal form and a tolerant one pass.
    pub(crate) fn value_from_json(&self, value: &Value) -> Result<OptionValue, String> {
        let text = match (value, self.kind) {
            (Value::Array(_), OptionKind::List | OptionKind::WordList(_)) => json_text(value),
            (Value::Object(members), OptionKind::Weights) => {
                // A name with `,` or `=` in it would become two weights.
                let pairs: Option<Vec<String>> = members
                    .iter()
                    .map(|(name, value)| {
                        scalar_text(value).filter(|_| is_weight_name(name)).map(|text| format!("{name}={text}"))
                    })
                    .collect();
                pairs.map(|pairs| pairs.join(","))
            }
            (scalar, _) => scalar_text(scalar),
        };
        self.value_from_text(&text.ok_or_else(|| self.expected())?)
    }

    fn no_limit(&self) -> &'static str {
        if self.name == "SuspendTime" { "infinite" } else { "unlimited" }
    }

    fn expected(&self) -> String {
        match self.kind {
            OptionKind::Text => "a text".to_owned(),
            OptionKind::Word(words) => format!("one of {}", words.replace(',', ", ")),
            OptionKind::CountedWord(words) => format!("one of {}, with or without `:count`", words.replace(',', ", ")),
            OptionKind::Boolean => "YES or NO".to_owned(),
            OptionKind::Count(largest) => format!("a number from 0 to {largest} or {}", self.no_limit()),
            OptionKind::Time => "minutes, mm:ss, hh:mm:ss, days-hh, days-hh:mm, days-hh:mm:ss or UNLIMITED".to_owned(),
            OptionKind::List => "words joined by commas".to_owned(),
            OptionKind::WordList(words) => format!("one or more of {} joined by commas", words.replace(',', ", ")),
            OptionKind::Weights => "name=number joined by commas, such as CPU=1.0,Mem=0.25G".to_owned(),
        }
    }

    /// Returns the value as JSON, typed as in the databags of the other Slurm charms.
    pub(crate) fn value_to_json(self, value: &OptionValue) -> Value {
        match value {
            OptionValue::Boolean(yes) => Value::Bool(*yes),
            OptionValue::Integer(number) => Value::from(*number),
            OptionValue::Text(text) => Value::from(text.as_str()),
            // There, only `SelectTypeParameters` is a list of words; `PreemptMode` is a single one.
            OptionValue::List(words) if self.name == "PreemptMode" => Value::from(words.join(",")),
            OptionValue::List(words) => Value::from(words.clone()),
            OptionValue::Weights(weights) => {
                let mut members = Map::new();
                for (name, weight) in weights {
                    let number = weight.parse::<f64>().ok().and_then(Number::from_f64);
                    members.insert(name.clone(), number.map_or_else(|| Value::from(weight.as_str()), Value::Number));
                }
                Value::Object(members)
            }
        }
    }

    /// Returns the value as slurm.conf text.
    pub(crate) fn value_to_text(self, value: &OptionValue) -> String {
        match (value, self.kind) {
            (OptionValue::Boolean(true), _) => "YES".to_owned(),
            (OptionValue::Boolean(false), _) => "NO".to_owned(),
            (OptionValue::Integer(number), _) => number.to_string(),
            (OptionValue::Text(text), OptionKind::Text | OptionKind::Time) => text.clone(),
            (OptionValue::Text(word), _) => word.to_ascii_uppercase(),
            (OptionValue::List(words), OptionKind::WordList(_)) => words.join(",").to_ascii_uppercase(),
            (OptionValue::List(words), _) => words.join(","),
            (OptionValue::Weights(weights), _) => {
                let pairs: Vec<String> = weights.iter().map(|(name, weight)| format!("{name}={weight}")).collect();
                pairs.join(",")
            }
        }
    }
}

/// Slurm reads a number with a plus before it like one without.
fn is_one_of(words: &str, word: &str) -> bool {
    words.split(',').any(|known| known == word)
}

fn unsigned(number: &str) -> &str {
    number.strip_prefix('+').unwrap_or(number)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a word, a number or a list of them as slurm.conf text.
pub(crate) fn json_text(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().map(scalar_text).collect::<Option<Vec<_>>>().map(|words| words.join(",")),
        scalar => scalar_text(scalar),
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads a time limit. Whole minutes become a number, everything else keeps its text.
fn time_value(text: &str) -> Option<OptionValue> {
    if is_digits(text) {
        return text.parse::<u32>().ok().map(|minutes| OptionValue::Integer(i64::from(minutes)));
    }
    let without_limit = ["UNLIMITED", "INFINITE"].into_iter().find(|word| word.eq_ignore_ascii_case(text));
    if let Some(word) = without_limit {
        return Some(OptionValue::Text(word.to_owned()));
    }
    if text == "-1" {
        return Some(OptionValue::Text("UNLIMITED".to_owned()));
    }
    let (days, clock) = text.split_once('-').map_or((None, text), |(days, clock)| (Some(days), clock));
    let fields = clock.split(':').count();
    let shape = if days.is_some() { 1..=3 } else { 2..=3 };
    // `5-` is five days.
    let clock = if days.is_some() && clock.is_empty() { "0" } else { clock };
    let numbers = days.into_iter().chain(clock.split(':')).all(|field| is_digits(field) && field.len() <= 9);
    (shape.contains(&fields) && numbers).then(|| OptionValue::Text(text.to_owned()))
}

fn weights(text: &str) -> Option<OptionValue> {
    let mut weights: Vec<(String, String)> = Vec::new();
    for pair in text.split(',') {
        let (name, weight) = pair.split_once('=')?;
        let number = weight.strip_suffix(['K', 'M', 'G', 'T', 'P', 'k', 'm', 'g', 't', 'p']).unwrap_or(weight);
        let numeric = number.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            && number.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
            && number.parse::<f64>().is_ok_and(f64::is_finite);
        if !is_weight_name(name) || !numeric {
            return None;
        }
        weights.push((name.to_owned(), normal_weight(weight)));
    }
    Some(OptionValue::Weights(weights))
}

fn is_weight_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_-:.".contains(&byte))
}

/// `1`, `1.0` and `1e0` are the same weight; JSON writes it with a fraction. One with a unit stays as it is.
fn normal_weight(weight: &str) -> String {
    match weight.parse::<f64>().map(|number| number.to_string()) {
        Ok(number) if number.contains('.') => number,
        Ok(number) => format!("{number}.0"),
        Err(_) => weight.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(name: &str, text: &str, json: Value, rendered: &str) {
        let option = PartitionOption::find(name).unwrap();
        let value = option.value_from_text(text).unwrap();
        assert_eq!(option.value_to_json(&value), json);
        assert_eq!(option.value_to_text(&value), rendered);
        assert_eq!(option.value_from_json(&json).unwrap(), value, "JSON is read back");
        assert_eq!(option.value_from_text(rendered).unwrap(), value, "text is read back");
    }

    #[test]
    fn minus_one_nodes_are_written_as_slurm_reads_them() {
        let option = PartitionOption::find("MaxNodes").unwrap();
        assert_eq!(option.value_to_text(&option.value_from_json(&json!(-1)).unwrap()), "UNLIMITED");
    }

    #[test]
    fn each_kind_of_value_has_its_three_forms() {
        check("default", "yes", json!(true), "YES");
        check("Hidden", "FALSE", json!(false), "NO");
        check("MaxTime", "60", json!(60), "60");
        check("maxtime", "1:00:00", json!("1:00:00"), "1:00:00");
        check("DefaultTime", "infinite", json!("INFINITE"), "INFINITE");
        check("maxnodes", "Unlimited", json!("unlimited"), "UNLIMITED");
        check("SuspendTime", "-1", json!(-1), "-1");
        check("SuspendTime", "INFINITE", json!("infinite"), "INFINITE");
        check("State", "UP", json!("up"), "UP");
        check("OverSubscribe", "Force:4", json!("force:4"), "FORCE:4");
        check("Shared", "EXCLUSIVE", json!("exclusive"), "EXCLUSIVE");
        check("AllowAccounts", "a,b", json!(["a", "b"]), "a,b");
        check("SelectTypeParameters", "CR_Core_Memory", json!(["cr_core_memory"]), "CR_CORE_MEMORY");
        check("PreemptMode", "SUSPEND,GANG", json!("suspend,gang"), "SUSPEND,GANG");
        check("TRESBillingWeights", "CPU=1.0,Mem=0.25G", json!({"CPU": 1.0, "Mem": "0.25G"}), "CPU=1.0,Mem=0.25G");
        check("TRESBillingWeights", "CPU=1", json!({"CPU": 1.0}), "CPU=1.0");
        check("AllowGroups", "a b,c", json!(["a b", "c"]), "a b,c");
        check("AllowGroups", "a,,b", json!(["a", "b"]), "a,b");
        check("QOS", "normal", json!("normal"), "normal");
        check("PriorityTier", "65533", json!(65533), "65533");
    }

    #[test]
    fn what_slurm_starts_with_is_left_to_it() {
        check("MaxTime", "5-", json!("5-"), "5-");
        check("MaxNodes", "+2", json!(2), "2");
        check("TRESBillingWeights", "CPU=1e3", json!({"CPU": 1000.0}), "CPU=1000.0");
        check("OverSubscribe", "FORCE:x", json!("force:x"), "FORCE:X");
        check("PreemptMode", "sometimes", json!("sometimes"), "SOMETIMES");
        check("CpuBind", "magic", json!("magic"), "MAGIC");
        check("OverTimeLimit", "70000", json!("70000"), "70000");
    }

    #[test]
    fn what_slurm_would_refuse_is_refused() {
        for (name, text) in [
            ("MaxTime", "zzz"),
            ("MaxTime", "1:2:3:4"),
            ("MaxTime", "-5"),
            ("MaxTime", "+5"),
            ("MaxTime", ""),
            ("MaxNodes", "-2"),
            ("MaxNodes", "+-2"),
            ("MinNodes", "-1"),
            ("PriorityTier", "70000"),
            ("Default", "maybe"),
            ("State", "open"),
            ("OverSubscribe", "FORCEX"),
            ("OverSubscribe", "maybe:4"),
            ("AllowGroups", ","),
            ("AllowGroups", "a\u{a0}b"),
            ("QOS", "a#b"),
            ("QOS", "a\nPartitionName=x"),
            ("QOS", "a\"b"),
            ("TRESBillingWeights", "CPU"),
            ("TRESBillingWeights", "CPU=inf"),
            ("TRESBillingWeights", "=1"),
            ("TRESBillingWeights", "CPU=-1"),
            ("TRESBillingWeights", "CPU=1e999"),
        ] {
            assert!(PartitionOption::find(name).unwrap().value_from_text(text).is_err(), "{name}={text:?}");
        }
    }

    #[test]
    fn a_large_weight_comes_back() {
        let option = PartitionOption::find("TRESBillingWeights").unwrap();
        for text in ["CPU=2222222222222222222222222", "CPU=1e30", "CPU=1e-30", "CPU=0.1,Mem=1e3", "CPU=123456789.5G"] {
            let value = option.value_from_text(text).unwrap();
            assert_eq!(option.value_from_json(&option.value_to_json(&value)).as_ref(), Ok(&value), "{text}");
            assert_eq!(option.value_from_text(&option.value_to_text(&value)).as_ref(), Ok(&value), "{text}");
        }
        let digits = format!("{{\"CPU\": {}7.0}}", "5".repeat(78));
        let value = option.value_from_json(&serde_json::from_str(&digits).unwrap()).unwrap();
        let written = option.value_to_json(&value).to_string();
        assert_eq!(option.value_from_json(&serde_json::from_str(&written).unwrap()), Ok(value));
        let long = format!("CPU={}G", "2".repeat(100));
        let value = option.value_from_text(&long).unwrap();
        assert_eq!(option.value_to_text(&value), long, "nothing is cut");
    }

    #[test]
    fn a_name_in_json_is_one_name() {
        let option = PartitionOption::find("TRESBillingWeights").unwrap();
        for name in ["CPU=1,Mem", "CPU,Mem", "CPU=1", "", "a b", "a\nb"] {
            assert!(option.value_from_json(&json!({ name: 1.0 })).is_err(), "{name:?}");
        }
    }

    #[test]
    fn json_of_the_wrong_shape_is_refused() {
        let option = PartitionOption::find("MaxNodes").unwrap();
        for value in [json!(null), json!({}), json!([1]), json!(1.5), json!(-7)] {
            assert!(option.value_from_json(&value).is_err(), "{value}");
        }
    }
}
