//! `juju integrate`.

use serde_json::Value;

use crate::daemon::State;
use crate::model::Candidate;
use crate::wire::{Failure, Response};

pub(super) fn integrate(state: &mut State, one: &str, other: &str) -> Response {
    let adding =
        |why: String| Failure::new(format!("adding relation between endpoints \"{one}\" and \"{other}\": {why}"));
    let relating = |why: String| adding(format!("cannot relate endpoints \"{one}\" and \"{other}\": {why}"));
    let mut candidates = state.model.candidates(one, other).map_err(relating)?;
    if candidates.len() > 1 {
        let mut listed: Vec<String> =
            candidates.iter().map(|Candidate(left, right)| format!("\"{} {}\"", left.label(), right.label())).collect();
        listed.sort();
        return Err(relating(format!("ambiguous relation: \"{one} {other}\" could refer to {}", listed.join("; "))));
    }
    let Some(Candidate(left, right)) = candidates.pop() else { return Ok(Value::Null) };
    let exists = state
        .model
        .relations
        .values()
        .any(|relation| relation.sides.contains(&left) && relation.sides.contains(&right));
    if exists {
        let pair = format!("{} {}", left.label(), right.label());
        return Err(adding(format!("cannot add relation \"{one}\", \"{other}\": relation {pair}: already exists")));
    }
    state.model.add_relation(vec![left, right]);
    Ok(Value::Null)
}
