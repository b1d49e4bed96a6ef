//! The operator's options as values, each good or bad by itself. Pure: what the installed Slurm thinks of them is
//! asked elsewhere.

use crate::names;
use crate::node::departure::DrainRule;
use charm::tools::Config;
use slurm_conf::{Node, Partition};
use slurm_ops::source::Source;
use slurm_unit::OptionProblem;

/// Everything an operator can set.
#[derive(Debug, Clone)]
pub struct Options {
    pub partition: Result<Partition, OptionProblem>,
    /// The partition as the operator wrote it.
    pub partition_text: String,
    pub first_state: Result<FirstState, OptionProblem>,
    pub drain: Result<DrainRule, OptionProblem>,
    pub source: Result<Source, OptionProblem>,
}

/// The state of a node when it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstState {
    Idle,
    Down { reason: String },
}

impl Options {
    /// Understands what Juju answers to a unit of `application`.
    pub fn read(application: &str, config: &Config) -> Self {
        let partition_text = config.string(names::OPTION_PARTITION_CONFIG).to_owned();
        let source = config.string(names::OPTION_SLURM_SOURCE);
        Self {
            partition: partition(application, &partition_text),
            partition_text,
            first_state: first_state(
                config.string(names::OPTION_DEFAULT_NODE_STATE),
                config.string(names::OPTION_DEFAULT_NODE_REASON),
            ),
            drain: drain(
                config.integer(names::OPTION_DRAIN_TIMEOUT).unwrap_or(0),
                config.string(names::OPTION_DRAIN_POLICY),
            ),
            source: source.parse().map_err(|error: slurm_ops::source::SourceError| {
                OptionProblem::new(names::OPTION_SLURM_SOURCE, source, error.to_string())
            }),
        }
    }

    /// Returns what cannot be used.
    pub fn bad(&self) -> impl Iterator<Item = &OptionProblem> {
        let bad = [
            self.partition.as_ref().err(),
            self.first_state.as_ref().err(),
            self.drain.as_ref().err(),
            self.source.as_ref().err(),
        ];
        bad.into_iter().flatten()
    }
}

fn partition(application: &str, text: &str) -> Result<Partition, OptionProblem> {
    Partition::from_config(application, text)
        .map_err(|error| OptionProblem::new(names::OPTION_PARTITION_CONFIG, text, charm::log::chain(&error)))
}

fn first_state(state: &str, reason: &str) -> Result<FirstState, OptionProblem> {
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
                OptionProblem::new(names::OPTION_DEFAULT_NODE_REASON, reason, expected)
            })?;
            Ok(FirstState::Down { reason: reason.to_owned() })
        }
        _ => Err(OptionProblem::new(names::OPTION_DEFAULT_NODE_STATE, state, "expected `idle` or `down`")),
    }
}

/// A rule that cannot be used must not cost a job: a caller without a rule waits for ever.
fn drain(timeout: i64, policy: &str) -> Result<DrainRule, OptionProblem> {
    let Ok(seconds) = u64::try_from(timeout) else {
        let expected = "expected seconds, or 0 for no limit";
        return Err(OptionProblem::new(names::OPTION_DRAIN_TIMEOUT, &timeout.to_string(), expected));
    };
    let cancel = match policy.trim().to_ascii_lowercase().as_str() {
        "" | "wait" => false,
        "cancel" => true,
        _ => return Err(OptionProblem::new(names::OPTION_DRAIN_POLICY, policy, "expected `wait` or `cancel`")),
    };
    Ok(DrainRule { timeout: (seconds > 0).then_some(seconds), cancel })
}

/// Options as an operator may have set them.
#[cfg(test)]
pub(crate) fn given<const N: usize>(options: [(&str, &str); N]) -> Config {
    options.into_iter().map(|(option, value)| (option.to_owned(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_has_no_time_limit_unless_it_is_given_one() {
        assert_eq!(drain(0, ""), Ok(DrainRule::default()));
        assert_eq!(drain(0, "cancel"), Ok(DrainRule { timeout: None, cancel: true }));
        assert_eq!(drain(60, "Cancel"), Ok(DrainRule { timeout: Some(60), cancel: true }));
        assert_eq!(drain(-1, "wait").unwrap_err().option, "drain-timeout");
        assert_eq!(drain(60, "kill").unwrap_err().option, "drain-policy");
    }

    fn bad(given: &Config) -> Vec<&'static str> {
        Options::read("compute", given).bad().map(|bad| bad.option).collect()
    }

    #[test]
    fn nothing_given_is_good() {
        let options = Options::read("compute", &Config::default());
        assert_eq!(options.bad().count(), 0);
        assert_eq!(options.first_state, Ok(FirstState::Idle));
        assert_eq!(options.source, Ok(Source::Archive));
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
        assert_eq!(bad(&given([("partition-config", "MaxTime")])), ["partition-config"]);
        assert_eq!(bad(&given([("default-node-state", "up")])), ["default-node-state"]);
        assert_eq!(bad(&given([("slurm-source", "ppa:")])), ["slurm-source"]);
    }
}
