//! Requests of the operator to a unit of slurmrestd.

use crate::Slurmrestd;
use crate::names;
use charm::runtime::Dispatch;
use charm::{ActionFailure, ActionName, ActionResults};
use slurm_ops::slurmrestd;
use slurm_unit::follower::RemoteData;

/// Answers an action.
pub fn act(act: &Dispatch<'_, Slurmrestd>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    match action.as_str() {
        names::ACTION_EXPLAIN => explain(act),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Looks, and changes nothing: what a hook would do now is said.
fn explain(act: &Dispatch<'_, Slurmrestd>) -> Result<ActionResults, ActionFailure> {
    let preview = act.preview().map_err(ActionFailure::broken)?;
    let (state, facts) = (preview.state(), preview.facts);
    let listens = facts.listening().is_ok_and(|listening| *listening);
    let port = if listens { names::PORT.to_string() } else { "none".to_owned() };
    let controllers = match facts.controller() {
        Ok(Some(controller)) => match &controller.data {
            RemoteData::Data(data) => data.controllers().join(", "),
            RemoteData::Nothing | RemoteData::Unusable(_) => "not known yet".to_owned(),
        },
        _ => "none".to_owned(),
    };
    let versions = facts.plugins().map(slurmrestd::api_versions).unwrap_or_default();
    let results = ActionResults::default().with("state", state).with("controllers", controllers);
    Ok(results.with("port", port).with("versions", versions.join(", ")))
}
