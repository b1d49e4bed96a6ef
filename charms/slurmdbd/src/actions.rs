//! Requests of the operator to an accounting unit.

use crate::Slurmdbd;
use crate::conf;
use crate::facts::{Facts, Question};
use crate::names;
use charm::runtime::Dispatch;
use charm::{ActionFailure, ActionName, ActionResults};
use slurm_unit::follower::RemoteData;

/// Answers an action.
pub fn act(act: &Dispatch<'_, Slurmdbd>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
    match action.as_str() {
        names::ACTION_EXPLAIN => explain(act),
        other => Err(ActionFailure::refused(format!("this charm has no action {other}"))),
    }
}

/// Looks, and changes nothing: what a hook would do now is said.
fn explain(act: &Dispatch<'_, Slurmdbd>) -> Result<ActionResults, ActionFailure> {
    let preview = act.preview().map_err(ActionFailure::broken)?;
    let (state, mut facts) = (preview.state(), preview.facts);
    let results = ActionResults::default().with("state", state).with("database", database(&facts));
    if !facts.answers().is_ok_and(|answers| *answers) {
        return Ok(results.with("clusters", "slurmdbd does not answer"));
    }
    act.know(&mut facts, &[Question::Clusters]).map_err(ActionFailure::broken)?;
    let clusters = match facts.clusters() {
        Ok(Some(clusters)) if clusters.is_empty() => "none yet".to_owned(),
        Ok(Some(clusters)) => {
            let says = |(name, control): &(String, String)| match control.as_str() {
                "" => format!("{name} (its controller is not connected)"),
                control => format!("{name} at {control}"),
            };
            clusters.iter().map(says).collect::<Vec<_>>().join(", ")
        }
        _ => "could not be asked".to_owned(),
    };
    Ok(results.with("clusters", clusters))
}

fn database(facts: &Facts) -> String {
    match facts.database() {
        Ok(Some(database)) => match &database.data {
            RemoteData::Data(data) => {
                let place = conf::endpoint(data).map(ToString::to_string).unwrap_or_default();
                format!("{} of {} at {place}", data.database.as_deref().unwrap_or(names::DATABASE), database.app)
            }
            RemoteData::Nothing | RemoteData::Unusable(_) => format!("{} has not answered", database.app),
        },
        _ => "none".to_owned(),
    }
}
