//! `relation-ids`, `relation-list`, `relation-get`, `relation-set`: who is related, and the bags.

use super::error::unless_refused;
use super::session::Side;
use super::{Databag, Juju, JujuWriter, Refusal, ToolError};
use crate::context::Context;
use crate::event::{Event, RelationEvent, RelationEventKind};
use crate::name::{AppName, EndpointName, RelationId, UnitName};

/// What Juju itself puts into the bag of every unit.
const JUJUS_OWN: [&str; 3] = ["egress-subnets", "ingress-address", "private-address"];
/// How the keys begin that a unit writes about itself. They are no part of a copy of its application's bag.
const UNITS_OWN: &str = "unit_";
/// When a unit wrote its copy of its application's bag, in milliseconds since 1970. The copy of an earlier leader is
/// older.
pub(super) const COPY_TIME: &str = "unit_copy_time";

/// Returns the entries of `wanted` that `present` lacks or has otherwise.
pub fn missing(wanted: Databag, present: &Databag) -> Databag {
    wanted.into_iter().filter(|(key, value)| present.get(key) != Some(value)).collect()
}

/// Who is at the other end of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub app: AppName,
    /// This unit's agent names no unit at the other end, and the controller does: no hook may come when something
    /// changes there. Seen on Juju 4.0.13 for a relation that was made again.
    pub stale: bool,
}

impl Juju {
    /// Lists the relations of an endpoint, the oldest first, without the relation that this hook ends: Juju may list
    /// it or not.
    pub fn relations(&self, ctx: &Context, endpoint: &str) -> Result<Vec<RelationId>, ToolError> {
        let endpoint: EndpointName = parsed("relation-ids", endpoint)?;
        let mut relations = self.relation_ids(&endpoint)?;
        relations.retain(|relation| Some(relation) != ctx.event.broken_relation());
        relations.sort_by_key(RelationId::number);
        Ok(relations)
    }

    /// Finds out who is at the other end. A hook that tells of a unit there needs no question. None: Juju does not know
    /// the application yet.
    pub fn remote(&self, ctx: &Context, relation: &RelationId) -> Result<Option<Remote>, ToolError> {
        if let Event::Relation(RelationEvent { relation: own, remote_app: Some(app), kind, .. }) = &ctx.event
            && own == relation
            && matches!(kind, RelationEventKind::Joined | RelationEventKind::Changed)
        {
            return Ok(Some(Remote { app: app.clone(), stale: false }));
        }
        if let Some(unit) = self.relation_list(relation)?.first() {
            return Ok(Some(Remote { app: unit.app(), stale: false }));
        }
        let Some(app) = self.relation_list_app(relation)? else { return Ok(None) };
        let stale = self.goal_state()?.remote_units(relation.endpoint()).iter().any(|unit| unit.app() == app);
        Ok(Some(Remote { app, stale }))
    }

    /// Lists the relations of an endpoint. In `-broken` Juju may or may not list the relation that ends.
    pub fn relation_ids(&self, endpoint: &EndpointName) -> Result<Vec<RelationId>, ToolError> {
        let texts: Option<Vec<String>> = self.link.ask_once("relation-ids", &[endpoint.as_str()])?;
        texts.unwrap_or_default().iter().map(|text| parsed("relation-ids", text)).collect()
    }

    /// Lists the remote units the agent knows of. It may name units that are gone; `goal_state` does not.
    pub fn relation_list(&self, relation: &RelationId) -> Result<Vec<UnitName>, ToolError> {
        let texts: Option<Vec<String>> = self.link.ask_once("relation-list", &["-r", relation.as_str()])?;
        texts.unwrap_or_default().iter().map(|text| parsed("relation-list", text)).collect()
    }

    /// Names the application at the other end. None while Juju does not know it.
    pub fn relation_list_app(&self, relation: &RelationId) -> Result<Option<AppName>, ToolError> {
        let text: Option<String> = self.link.ask_once("relation-list", &["-r", relation.as_str(), "--app"])?;
        text.filter(|text| !text.is_empty()).map(|text| parsed("relation-list", &text)).transpose()
    }

    /// Reads the bag of an application: the remote one, or the own one where Juju allows that (the leader, and any
    /// unit of a peer relation). What this dispatch is going to write to the own bag is in it.
    ///
    /// Juju may print an unset bag as `null` and an empty one as `{}`; both are an empty map here.
    pub fn relation_get_app(&self, relation: &RelationId, app: &AppName) -> Result<Databag, ToolError> {
        let bag: Option<Databag> =
            self.link.ask_once("relation-get", &["-r", relation.as_str(), "--app", "-", app.as_str()])?;
        let bag = bag.unwrap_or_default();
        Ok(if *app == self.link.unit.app() { self.link.session().over(relation, Side::App, bag) } else { bag })
    }

    /// Reads the own application's bag. `None`: Juju does not let this unit read it, which differs between versions.
    pub fn relation_get_own_app(&self, relation: &RelationId) -> Result<Option<Databag>, ToolError> {
        let bag = self.relation_get_app(relation, &self.link.unit.app());
        unless_refused(bag, &[Refusal::NotAllowed, Refusal::NotLeader])
    }

    /// Reads the bag of a unit, its own included. Juju's own keys, such as `ingress-address`, are in it.
    pub fn relation_get_unit(&self, relation: &RelationId, unit: &UnitName) -> Result<Databag, ToolError> {
        let bag: Option<Databag> =
            self.link.ask_once("relation-get", &["-r", relation.as_str(), "-", unit.as_str()])?;
        let bag = bag.unwrap_or_default();
        Ok(if *unit == self.link.unit { self.link.session().over(relation, Side::Unit, bag) } else { bag })
    }

    /// Reads the bag of a remote unit that may be gone. `None`: Juju knows no such unit there, or no longer.
    pub fn relation_get_remote_unit(
        &self,
        relation: &RelationId,
        unit: &UnitName,
    ) -> Result<Option<Databag>, ToolError> {
        // 3.6 denies what 4.x does not find.
        unless_refused(self.relation_get_unit(relation, unit), &[Refusal::NotAllowed, Refusal::NotFound])
    }

    /// Reads what the remote application published, also where the agent is deaf to the relation.
    ///
    /// An agent keeps what it once read of an application's bag until a hook tells of a change, and after
    /// `remove-relation` and `integrate` that hook may never come. Bags of units that it does not take for members are
    /// read anew each time. So where the relation is stale or the application's bag is empty, the units that exist are
    /// looked at, but for what each says about itself: [`JujuWriter::relation_set_app_mirrored`] leaves a copy with the
    /// leader. Each leader leaves its own, and the newest counts.
    pub fn relation_get_remote(&self, relation: &RelationId, remote: &Remote) -> Result<Databag, ToolError> {
        let bag = self.relation_get_app(relation, &remote.app)?;
        if !bag.is_empty() && !remote.stale {
            return Ok(bag);
        }
        let mut newest: Option<(u64, Databag)> = None;
        let goal = self.goal_state()?;
        for unit in goal.remote_units(relation.endpoint()).iter().filter(|unit| unit.app() == remote.app) {
            let mut copy = self.relation_get_remote_unit(relation, unit)?.unwrap_or_default();
            // A charm from before this key wrote none.
            let time = copy.get(COPY_TIME).and_then(|time| time.parse().ok()).unwrap_or(0);
            copy.retain(|key, _| !JUJUS_OWN.contains(&key.as_str()) && !key.starts_with(UNITS_OWN));
            if !copy.is_empty() && newest.as_ref().is_none_or(|(known, _)| *known < time) {
                newest = Some((time, copy));
            }
        }
        let Some((_, copy)) = newest else { return Ok(bag) };
        self.link.session().deaf_to.insert(relation.clone());
        Ok(copy)
    }

    /// Says whether [`Juju::relation_get_remote`] had to make do with a copy. Then no hook will tell of a change.
    pub fn is_deaf_to(&self, relation: &RelationId) -> bool {
        self.link.session().deaf_to.contains(relation)
    }
}

impl JujuWriter {
    /// Has keys written to the own application's bag, which only the leader may, and a copy of that whole bag to the
    /// own unit's: see [`Juju::relation_get_remote`].
    pub fn relation_set_app_mirrored(&self, relation: &RelationId, values: &Databag) {
        self.relation_set_app(relation, values);
        self.link.session().mirrored.insert(relation.clone());
    }

    /// Has keys of the own application's bag written at the end; only the leader may. An empty value deletes its key.
    pub fn relation_set_app(&self, relation: &RelationId, values: &Databag) {
        self.link.session().collect_bag(relation, Side::App, values);
    }

    /// Has keys of the own unit's bag written at the end. An empty value deletes its key.
    pub fn relation_set_unit(&self, relation: &RelationId, values: &Databag) {
        self.link.session().collect_bag(relation, Side::Unit, values);
    }
}

/// Takes a name out of Juju's answer; one that is malformed is Juju's mistake and not the charm's to guess at.
pub(super) fn parsed<T>(tool: &'static str, text: &str) -> Result<T, ToolError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    use serde::de::Error;
    text.parse().map_err(|error| ToolError::Decode {
        command: tool.to_owned(),
        source: serde_json::Error::custom(format_args!("{error}")),
    })
}
