//! A cluster that moves from the local disk to a store, or back, while its jobs run. What a place is, and which moment
//! decides, is in ARCHITECTURE.md, "Several controllers".
//!
//! Each dispatch takes from facts how far the move is. Whatever ends it half-way, the stages before this one start
//! slurmctld where its state is.

use super::Controller;
use super::foundation::drop_in;
use super::share::{request_mount, withdraw_mount};
use crate::condition::{Condition, Moving};
use crate::config::Situation;
use crate::config::managed_keys::with_state_at;
use crate::controllers::Controllers;
use crate::daemon::Daemon;
use crate::facts::{Ask, Facts, StoreMount};
use crate::fence;
use crate::identity::{self, Identity, StateProblem};
use crate::place::{self, Place};
use crate::step::{Luggage, Outcome, Step};

/// Ends a move to the local disk that has left the store behind. Nothing on the store is asked for.
pub(super) fn arrive(facts: &Facts) -> Result<Vec<Step>, Ask> {
    let arrived = place::arrived(facts)?;
    let mut steps = Vec::new();
    // Both come before the marker, with which systemd may start slurmctld at a boot.
    if arrived.is_some() && facts.fence()?.settings.is_some() {
        steps.push(Step::EndFence);
    }
    if (arrived.is_some() || Place::find(facts)? == Place::Aside) && identity::is_linked(facts)? {
        let stamp = slurm_ops::clock::stamp(*facts.now()?);
        steps.push(Step::LinkConfiguration { place: Place::Aside, stamp });
    }
    steps.extend(arrived.map(|stamp| Step::Arrive { stamp: stamp.to_owned() }));
    Ok(steps)
}

/// Has slurm.conf say where the state is, before anything is started. A move that was ended half-way leaves files that
/// do not.
pub(super) fn agree(situation: &Situation<'_>) -> Option<Step> {
    let (live, accepted) = (&situation.live().files, &situation.accepted().files);
    let [mended_live, mended] = [live, accepted].map(|files| with_state_at(files, situation.place));
    (accepted.slurm.is_some() && (mended_live.is_some() || mended.is_some())).then(|| Step::Agree {
        live: mended_live.unwrap_or_else(|| live.clone()),
        accepted: mended.unwrap_or_else(|| accepted.clone()),
    })
}

impl Controller<'_> {
    /// Decides about the next stage of a move, of a cluster that is at rest.
    pub(super) fn relocate(
        &mut self,
        situation: &Situation<'_>,
        identity: &Identity,
        controllers: &Controllers,
    ) -> Result<Vec<Step>, Ask> {
        let (facts, place) = (self.facts, situation.place);
        if !*facts.leader()? || !self.is_steady(situation, controllers)? {
            return Ok(Vec::new());
        }
        let wanted = situation.options.network_state;
        let there = matches!((place, wanted), (Place::Checkpoint, false) | (Place::Store, true));
        let failed = self.attempts.outcome(Step::stops_for_a_move);
        if let Some(Outcome::Changed(Err(why))) = failed.filter(|_| !there) {
            return Ok(self.waits(Moving::Failed(why.clone())));
        }
        match (place, wanted) {
            (Place::Checkpoint, false) | (Place::Store, true) => Ok(Vec::new()),
            (Place::Aside, false) => Ok(withdraw_mount(facts)?.into_iter().collect()),
            (Place::Checkpoint | Place::Aside, true) => self.go_to_store(situation, identity),
            (Place::Store, false) => self.go_to_disk(situation, identity, controllers),
        }
    }

    /// Says whether slurmctld serves with what it should, and can save its state.
    fn is_steady(&self, situation: &Situation<'_>, controllers: &Controllers) -> Result<bool, Ask> {
        let facts = self.facts;
        let noted = facts.overrides()?.known().is_some() || facts.overrides()?.problem().is_some();
        Ok(situation.is_at_rest() && !noted && Daemon::find(facts, &controllers.serving)? == Daemon::Answering)
    }

    fn go_to_store(&mut self, situation: &Situation<'_>, identity: &Identity) -> Result<Vec<Step>, Ask> {
        let (facts, store) = (self.facts, self.facts.store()?);
        let others = facts.siblings()?;
        if !others.is_empty() {
            return Ok(self.waits(Moving::OtherUnits { to_store: true, units: others.clone() }));
        }
        if facts.mount()?.is_none() {
            return Ok(self.waits(Moving::NoClient));
        }
        if situation.place == Place::Checkpoint {
            if store.mount != StoreMount::Nothing {
                return Ok(self.waits(Moving::Occupied));
            }
            let files = with_state_at(&situation.live().files, Place::Aside);
            let drop_in = drop_in(identity, Place::Aside);
            return Ok(files.map(|files| Step::MakeWay { files, drop_in }).into_iter().collect());
        }
        if let Some(step) = request_mount(facts)? {
            return Ok(vec![step]);
        }
        match Identity::store_problem(store).or_else(|| identity.objection(&store.state)) {
            Some(StateProblem::NotMounted) => return Ok(self.waits(Moving::AwaitsMount)),
            Some(problem) => return Ok(self.waits(Moving::Unusable(problem))),
            None => {}
        }
        let luggage = luggage(situation, identity, Place::Store, facts)?;
        Ok(luggage.into_iter().map(Step::MoveToStore).collect())
    }

    fn go_to_disk(
        &mut self,
        situation: &Situation<'_>,
        identity: &Identity,
        controllers: &Controllers,
    ) -> Result<Vec<Step>, Ask> {
        let others = self.facts.siblings()?;
        if !others.is_empty() {
            return Ok(self.waits(Moving::OtherUnits { to_store: false, units: others.clone() }));
        }
        // One that is being removed may still stand by, or serve.
        let alone = controllers.listed == [situation.host.name.clone()] && controllers.departing.is_empty();
        if !alone || controllers.wanted != controllers.listed {
            return Ok(Vec::new());
        }
        let luggage = luggage(situation, identity, Place::Aside, self.facts)?;
        Ok(luggage.into_iter().map(Step::MoveToDisk).collect())
    }

    fn waits(&mut self, reason: Moving) -> Vec<Step> {
        self.conditions.push(Condition::Moving(reason));
        Vec::new()
    }
}

fn luggage(
    situation: &Situation<'_>,
    identity: &Identity,
    place: Place,
    facts: &Facts,
) -> Result<Option<Luggage>, Ask> {
    let Some(files) = with_state_at(&situation.live().files, place) else { return Ok(None) };
    let (unit, host) = (&facts.call()?.unit, &situation.host.name);
    let fence = fence::settings(unit, host, identity, situation.accepted());
    let (note, stamp) = (identity.note.clone(), slurm_ops::clock::stamp(*facts.now()?));
    Ok(Some(Luggage { note, files, stamp, drop_in: drop_in(identity, place), fence }))
}
