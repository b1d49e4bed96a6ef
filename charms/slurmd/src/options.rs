//! The operator's options as values, each good or bad by itself. Pure: what the installed Slurm thinks of them is asked elsewhere.

use crate::names;
use slurm_conf::{Node, Partition, UnknownKey};
use slurm_ops::source::Source;

/// The longest value that a message repeats in full.
const SHOWN: usize = 60;

/// Everything an operator can set.
#[derive(Debug, Clone)]
pub struct Options {
    pub partition: Result<Partition, BadOption>,
    pub first_state: Result<FirstState, BadOption>,
    pub source: Result<Source, BadOption>,
    /// Seconds; 0 is for ever. Only leaving makes use of it.
    pub drain_timeout: Result<u64, BadOption>,
}

/// An option that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption {
    pub option: &'static str,
    pub value: String,
    pub problem: String,
}

impl BadOption {
    pub fn new(option: &'static str, value: &str, problem: impl Into<String>) -> Self {
        let mut shown: String = one_line(value).take(SHOWN).collect();
        if one_line(value).count() > SHOWN {
            shown.push('…');
        }
        Self { option, value: shown, problem: problem.into() }
    }
}

/// Returns a text without what could break a line.
pub fn one_line(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(|letter| {
        let (plain, escaped) =
            if letter.is_control() { (None, Some(letter.escape_debug())) } else { (Some(letter), None) };
        plain.into_iter().chain(escaped.into_iter().flatten())
    })
}

/// The state of a node when it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstState {
    Idle,
    Down { reason: String },
}

/// What the options say, as Juju has them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    pub partition_config: &'a str,
    pub default_node_state: &'a str,
    pub default_node_reason: &'a str,
    pub drain_timeout: Option<i64>,
    pub slurm_source: &'a str,
}

impl Options {
    /// Reads the options of `application`.
    pub fn read(application: &str, given: &Given<'_>) -> Self {
        Self {
            partition: partition(application, given.partition_config),
            first_state: first_state(given.default_node_state, given.default_node_reason),
            source: given.slurm_source.parse().map_err(|error: slurm_ops::source::SourceError| {
                BadOption::new(names::OPTION_SLURM_SOURCE, given.slurm_source, error.to_string())
            }),
            drain_timeout: drain_timeout(given.drain_timeout),
        }
    }

    /// Returns what cannot be used.
    pub fn bad(&self) -> impl Iterator<Item = &BadOption> {
        let bad = [
            self.partition.as_ref().err(),
            self.first_state.as_ref().err(),
            self.source.as_ref().err(),
            self.drain_timeout.as_ref().err(),
        ];
        bad.into_iter().flatten()
    }
}

/// Returns what the Slurm on this machine has against a text, in few words. A key that neither it nor we know is named with the one that
/// may have been meant.
pub fn objection<'a>(reason: &str, mut unknown: impl Iterator<Item = UnknownKey<'a>>) -> String {
    match unknown.find(|unknown| reason.to_ascii_lowercase().contains(&format!("key: {}", unknown.key))) {
        Some(UnknownKey { key, nearest: Some(nearest), .. }) => format!("unknown key `{key}`, did you mean {nearest}?"),
        Some(UnknownKey { key, nearest: None, .. }) => format!("the Slurm here knows no key `{key}`"),
        None => reason.to_owned(),
    }
}

fn partition(application: &str, text: &str) -> Result<Partition, BadOption> {
    Partition::from_config(application, text)
        .map_err(|error| BadOption::new(names::OPTION_PARTITION_CONFIG, text, charm::log::chain(&error)))
}

fn first_state(state: &str, reason: &str) -> Result<FirstState, BadOption> {
    match state.trim().to_ascii_lowercase().as_str() {
        "" | "idle" => Ok(FirstState::Idle),
        "down" => {
            let reason = match reason.trim() {
                "" => "new node",
                reason => reason,
            };
            // The reason travels in the description of the node, so it has to fit in there.
            Node::new().set("Reason", reason).map_err(|_| {
                let expected = "expected one line without quotes, `#` and backslash";
                BadOption::new(names::OPTION_DEFAULT_NODE_REASON, reason, expected)
            })?;
            Ok(FirstState::Down { reason: reason.to_owned() })
        }
        _ => Err(BadOption::new(names::OPTION_DEFAULT_NODE_STATE, state, "expected `idle` or `down`")),
    }
}

fn drain_timeout(seconds: Option<i64>) -> Result<u64, BadOption> {
    let seconds = seconds.unwrap_or(0);
    u64::try_from(seconds).map_err(|_| {
        let expected = "expected seconds, or 0 to wait for ever";
        BadOption::new(names::OPTION_DRAIN_TIMEOUT, &seconds.to_string(), expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(given: &Given<'_>) -> Vec<&'static str> {
        Options::read("compute", given).bad().map(|bad| bad.option).collect()
    }

    #[test]
    fn nothing_given_is_good() {
        let options = Options::read("compute", &Given::default());
        assert_eq!(options.bad().count(), 0);
        assert_eq!(options.first_state, Ok(FirstState::Idle));
        assert_eq!(options.source, Ok(Source::Archive));
        assert_eq!(options.drain_timeout, Ok(0));
    }

    #[test]
    fn a_new_node_may_be_down_for_a_reason() {
        let state = |state: &str, reason: &str| first_state(state, reason).ok();
        assert_eq!(state("DOWN", ""), Some(FirstState::Down { reason: "new node".to_owned() }));
        assert_eq!(state("down", " look first "), Some(FirstState::Down { reason: "look first".to_owned() }));
        assert_eq!(state("idle", "not \"used\""), Some(FirstState::Idle));
        assert_eq!(state("down", "a\nState=IDLE"), None);
        assert_eq!(state("drain", ""), None);
    }

    #[test]
    fn each_bad_option_is_named_and_the_others_stay_good() {
        assert_eq!(bad(&Given { partition_config: "MaxTime", ..Given::default() }), ["partition-config"]);
        assert_eq!(bad(&Given { default_node_state: "up", ..Given::default() }), ["default-node-state"]);
        assert_eq!(bad(&Given { drain_timeout: Some(-1), ..Given::default() }), ["drain-timeout"]);
        assert_eq!(bad(&Given { slurm_source: "ppa:", ..Given::default() }), ["slurm-source"]);
    }

    #[test]
    fn a_misspelt_key_is_named_with_the_right_one() {
        let partition = Partition::from_config("compute", "MaxTim=60 Quality=best").unwrap();
        let objection = |reason: &str| objection(reason, partition.unknown());
        let expected = "unknown key `maxtim`, did you mean MaxTime?";
        assert_eq!(objection("Parsing error at unrecognized key: maxtim"), expected);
        assert_eq!(objection("unrecognized key: quality"), "the Slurm here knows no key `quality`");
        assert_eq!(objection("Bad value \"x\" for MaxTime"), "Bad value \"x\" for MaxTime");
    }

    #[test]
    fn a_value_is_shown_on_one_line_and_not_at_full_length() {
        let shown = BadOption::new("x", &"a\n".repeat(100), "").value;
        assert!(shown.starts_with("a\\na") && shown.chars().count() == SHOWN + 1, "{shown}");
    }
}
