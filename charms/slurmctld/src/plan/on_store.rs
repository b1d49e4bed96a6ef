//! What a controller on a store does beside what every controller does: it uses the place of the cluster there, heeds
//! its fence, and stands by with the right list.

use super::{Controller, Plan};
use crate::Slurmctld;
use crate::condition::Condition;
use crate::config::Situation;
use crate::config::managed_keys::accounting_host;
use crate::controllers::{Controllers, Serving, Started};
use crate::facts::Ask;
use crate::identity::{self, Identity, StateProblem};
use crate::keys::LoadedKeys;
use crate::place::Place;
use crate::step::Step;
use charm::runtime::Planned;
use slurm_conf::HostName;

impl Controller<'_> {
    /// A store that is away: nothing is known about what is on it, and nothing is done to it.
    pub(super) fn without_store(mut self, problem: StateProblem) -> Planned<Slurmctld> {
        let mount_related = self.facts.mount()?.is_some();
        self.conditions.push(Condition::State { problem, mount_related });
        Ok(Plan::rest(self.conditions))
    }

    /// Says whether slurmctld may serve, as far as the fence lets it, and what the fence says about the store.
    pub(super) fn is_fence_open(&mut self) -> Result<bool, Ask> {
        let fence = self.facts.fence()?;
        if !fence.is_running() {
            self.conditions.push(Condition::FenceDown);
        }
        let closed = fence.closed();
        self.conditions.extend(closed.iter().cloned().map(Condition::FenceClosed));
        self.conditions.extend(fence.warnings().into_iter().map(Condition::Store));
        Ok(fence.is_running() && closed.is_none())
    }

    /// Makes the place of the cluster on the store, which the leader does, and has this machine use it. None: it does.
    pub(super) fn settle_on_store(&mut self, identity: &Identity, held_back: bool) -> Result<Option<Plan>, Ask> {
        let (facts, store) = (self.facts, self.facts.store()?);
        let conditions = |own: &mut Self| Plan::rest(std::mem::take(&mut own.conditions));
        if let Some(problem) = identity.state_problem(facts)? {
            self.conditions.push(Condition::State { problem, mount_related: true });
            return Ok(Some(conditions(self)));
        }
        if !identity.is_marked(&store.state) {
            if *facts.leader()? && !held_back {
                return Ok(Some(Plan::steps(vec![Step::PrepareState(identity.note.clone())])));
            }
            self.conditions.push(Condition::AwaitsCluster);
            return Ok(Some(conditions(self)));
        }
        if identity::is_linked(facts)? {
            return Ok(None);
        }
        let stamp = slurm_ops::clock::stamp(*facts.now()?);
        Ok(Some(Plan::steps(vec![Step::LinkConfiguration { place: Place::Store, stamp }])))
    }

    /// Returns the keys that slurmctld of this machine should have been started with. The one that serves loads them
    /// with a reconfigure by the leader, who notes it.
    fn loaded_keys(&self, own: &HostName, serves: bool, noted: Option<&Started>) -> Result<Option<LoadedKeys>, Ask> {
        let file = self.facts.keys()?.loaded();
        if !serves || !super::rotation::is_under_way(self.facts)? {
            return Ok(Some(file));
        }
        let loaded = self.facts.rotation()?.known().and_then(|note| note.loaded_on(own.as_str()).cloned());
        Ok(loaded.or_else(|| noted.and_then(|noted| noted.keys.clone())))
    }

    /// A slurmctld that stands by keeps the list that it was started with, so that it is restarted with a new one. The
    /// one that serves has taken the list from the reconfigure.
    pub(super) fn stand_by(&mut self, situation: &Situation<'_>, controllers: &Controllers) -> Result<Vec<Step>, Ask> {
        if !identity::is_on_store(self.facts)? {
            return Ok(Vec::new());
        }
        let unknown = controllers.unknown.iter().cloned().map(Condition::UnknownHost);
        let departing = controllers.departing.iter().cloned().map(Condition::ControllerDeparts);
        self.conditions.extend(unknown.chain(departing));
        let (listed, own) = (&controllers.listed, &situation.host.name);
        if let Serving::Host(host) = &controllers.serving
            && Some(host) != listed.first()
        {
            self.conditions.push(Condition::BackupServes((host != own).then(|| host.clone())));
        }
        let noted = self.facts.started()?.known();
        let serves = controllers.serving.is(own) || listed.len() == 1;
        let keys = self.loaded_keys(own, serves, noted)?;
        let current = Started::with(listed, accounting_host(situation.accepted()), keys);
        if noted == Some(&current) || situation.live() != situation.accepted() {
            return Ok(Vec::new());
        }
        // The note of an earlier charm says nothing about keys, which that one did not replace.
        let only_unsaid = noted.is_some_and(|noted| noted.lacks_only_keys_of(&current))
            && !super::rotation::is_under_way(self.facts)?;
        match &controllers.serving {
            _ if serves || only_unsaid => Ok(vec![Step::NoteStarted(current)]),
            Serving::Host(_) => Ok(vec![Step::RestartStandby, Step::NoteStarted(current)]),
            // The one that serves gives the next sign of life soon.
            Serving::Nobody | Serving::Unknown => {
                self.conditions.push(Condition::ListUnsettled);
                Ok(Vec::new())
            }
        }
    }
}
