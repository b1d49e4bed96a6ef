//! Requests of the operator to a login unit.

use crate::Sackd;
use crate::condition::Condition;
use crate::facts::Facts;
use crate::names;
use charm::runtime::Dispatch;
use charm::{ActionFailure, ActionName, ActionResults};
use slurm_unit::follower::RemoteData;

/// Answers an action.
pub fn act(act: &Dispatch<'_, Sackd>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    match action.as_str() {
        names::ACTION_EXPLAIN => explain(act),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Looks, and changes nothing: what a hook would do now is said.
fn explain(act: &Dispatch<'_, Sackd>) -> Result<ActionResults, ActionFailure> {
    let preview = act.preview().map_err(ActionFailure::broken)?;
    let (state, facts, conditions) = (preview.state(), preview.facts, preview.plan.conditions);
    let old = conditions.contains(&Condition::OldConfiguration);
    let configuration = match facts.fetched() {
        Ok(Some(_)) if old => "not that of the controllers",
        Ok(Some(_)) => "that of the controllers",
        Ok(None) | Err(_) => "none",
    };
    let results = ActionResults::default().with("state", state).with("controllers", controllers(&facts));
    Ok(results.with("configuration", configuration))
}

/// Which controllers answer, as clients on this machine see them.
fn controllers(facts: &Facts) -> String {
    if let Ok(Ok(pings)) = facts.answers() {
        let says = |up: bool| if up { "answers" } else { "does not answer" };
        let lines = pings.iter().map(|ping| format!("{} {}", ping.hostname, says(ping.responding)));
        return lines.collect::<Vec<_>>().join(", ");
    }
    match facts.controller() {
        Ok(Some(controller)) => match &controller.data {
            RemoteData::Data(data) => format!("{}: could not be asked", slurm_unit::follower::listed(data)),
            RemoteData::Nothing | RemoteData::Unusable(_) => "not known yet".to_owned(),
        },
        _ => "none".to_owned(),
    }
}
