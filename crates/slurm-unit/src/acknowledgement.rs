//! How a unit that follows the controllers says which keys it has: in its own bag of the relation, once its daemon has
//! loaded them. The leader of the controllers retires a key when every unit has said that it has the next one.
//!
//! A bag is written when the hook has ended well, so only a later dispatch knows that it was. What it saw there is
//! noted until the next boot: a settled dispatch asks for no bag.

use crate::follower::{ENDPOINT, FollowerCondition};
use crate::{Error, View};
use charm::RelationId;
use charm::runtime::Plan;
use serde::{Deserialize, Serialize};
use slurm_interface::{Databag, KeyAcknowledgement};
use slurm_ops::keys::KeySet;

/// What the bag of this unit is known to say. Part of a note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    relation: String,
    ids: Vec<String>,
}

/// What to do next about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It has been said.
    Nothing,
    /// Say it.
    Publish(RelationId, Databag),
    /// It was said in this dispatch: a later one looks whether it is there.
    Await,
    /// Note that it is there, or that something else is about to be said.
    Note(Option<Acknowledged>),
}

/// Decides what to do next. `keys` are those that the daemon has loaded; None: this unit keeps no key. `published`: it
/// was said in this dispatch. `bag` is asked for only if it is needed.
pub fn next<'b, Ask>(
    relation: &RelationId,
    keys: Option<&KeySet>,
    noted: Option<&Acknowledged>,
    published: bool,
    bag: impl FnOnce() -> Result<&'b Databag, Ask>,
) -> Result<Next, Ask> {
    let wanted = Acknowledged { relation: relation.to_string(), ids: keys.map(KeySet::ids).unwrap_or_default() };
    match noted {
        Some(noted) if *noted == wanted => return Ok(Next::Nothing),
        // What is there may be wanted again, before it is seen that it was not there any more.
        Some(_) => return Ok(Next::Note(None)),
        None => {}
    }
    if published {
        return Ok(Next::Await);
    }
    let said = KeyAcknowledgement { ids: wanted.ids.clone() };
    Ok(match KeyAcknowledgement::decode(bag()?) {
        Ok(Some(found)) if found == said => Next::Note(Some(wanted)),
        _ => Next::Publish(relation.clone(), said.encode()),
    })
}

impl Next {
    /// Ends a plan with it. It changes nothing that the status speaks of.
    pub fn plan<Step, Condition: From<FollowerCondition>>(
        self,
        mut conditions: Vec<Condition>,
        publish: impl FnOnce(RelationId, Databag) -> Step,
        note: impl FnOnce(Option<Acknowledged>) -> Step,
    ) -> Plan<Step, Condition> {
        match self {
            Self::Nothing => Plan::rest(conditions),
            Self::Await => {
                conditions.push(FollowerCondition::Acknowledging.into());
                Plan::rest(conditions)
            }
            Self::Publish(relation, bag) => Plan::aside(vec![publish(relation, bag)], conditions),
            Self::Note(acknowledged) => Plan::aside(vec![note(acknowledged)], conditions),
        }
    }
}

/// Looks at what this unit has said to the controllers.
pub fn own_bag(view: &View) -> Result<Databag, Error> {
    match view.juju.relations(&view.ctx, ENDPOINT)?.pop() {
        Some(relation) => Ok(view.juju.relation_get_unit(&relation, &view.ctx.unit)?),
        None => Ok(Databag::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_ops::keys::AuthKey;
    use std::convert::Infallible;

    #[test]
    fn what_was_said_is_noted_only_when_it_is_seen() {
        let relation: RelationId = "slurmctld:3".parse().unwrap();
        let keys = KeySet::of(AuthKey::new("k1", &"A".repeat(64)).unwrap());
        let empty = Databag::new();
        let next = |noted: Option<&Acknowledged>, published, bag| {
            next::<Infallible>(&relation, Some(&keys), noted, published, || Ok(bag)).unwrap()
        };
        let Next::Publish(to, bag) = next(None, false, &empty) else { panic!("nothing was said") };
        assert_eq!(to, relation);
        assert_eq!(next(None, true, &bag), Next::Await);
        let Next::Note(Some(noted)) = next(None, false, &bag) else { panic!("nothing was noted") };
        assert_eq!(next(Some(&noted), false, &empty), Next::Nothing);
        let other = Acknowledged { relation: "slurmctld:4".to_owned(), ..noted };
        assert_eq!(next(Some(&other), false, &empty), Next::Note(None), "another relation has another bag");
    }
}
