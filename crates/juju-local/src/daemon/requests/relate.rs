//! `juju integrate`.

use serde_json::Value;

use crate::daemon::State;
use crate::model::{Candidate, Relation, Release};
use crate::wire::{Failure, Response};

pub(super) fn integrate(state: &mut State, one: &str, other: &str) -> Response {
    let older = state.model.release == Release::V3;
    let adding = |why: String| match older {
        true => Failure::new(why),
        false => Failure::new(format!("adding relation between endpoints \"{one}\" and \"{other}\": {why}")),
    };
    let relating = |why: String| match older {
        true if why.starts_with("no compatible endpoints") => Failure::new("no relations found"),
        true => Failure::new(why),
        false => adding(format!("cannot relate endpoints \"{one}\" and \"{other}\": {why}")),
    };
    let mut candidates = state.model.candidates(one, other).map_err(relating)?;
    if candidates.len() > 1 {
        let mut listed: Vec<String> =
            candidates.iter().map(|Candidate(left, right)| format!("\"{} {}\"", left.label(), right.label())).collect();
        listed.sort();
        return Err(relating(format!("ambiguous relation: \"{one} {other}\" could refer to {}", listed.join("; "))));
    }
    let Some(Candidate(left, right)) = candidates.pop() else { return Ok(Value::Null) };
    let pair = format!("{} {}", left.label(), right.label());
    let refuse = |why: String| match older {
        true => Failure::new(format!("cannot add relation \"{pair}\": {why}")),
        false => adding(format!("cannot add relation \"{one}\", \"{other}\": {why}")),
    };
    let related: Vec<&Relation> = state
        .model
        .relations
        .values()
        .filter(|relation| relation.has_side(&left) || relation.has_side(&right))
        .collect();
    if related.iter().any(|relation| relation.has_side(&left) && relation.has_side(&right)) {
        return Err(refuse(format!("relation {pair}: already exists")));
    }
    for side in [&left, &right] {
        let count = related.iter().filter(|relation| relation.has_side(side)).count();
        if let Some(limit) = side.endpoint.limit.filter(|limit| usize::try_from(*limit).is_ok_and(|most| count >= most))
        {
            return Err(refuse(format!(
                "establishing a new relation for {} would exceed its maximum relation limit of {limit}",
                side.label()
            )));
        }
    }
    state.model.add_relation(vec![left, right]);
    Ok(Value::Null)
}
