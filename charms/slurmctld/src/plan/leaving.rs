//! Applications whose relation has ended: their partitions are closed, wait for jobs and nodes, and are taken away.
//! Nothing here waits in a hook: a condition says what is awaited, and the retry timer looks again.
//!
//! ```text
//! related ─▶ leaving: close, drain, wait for job records and nodes ─▶ removing: delete at runtime, drop the lines ─▶ –
//!    ▲          │ related again: reopen
//!    └──────────┘
//! ```
//!
//! The order is what slurmctld survives. It ends on a job record whose partition is gone, also when it only starts
//! again; and a backup that takes over ends on a saved partition whose node set is gone from slurm.conf.

use super::is_upkeep_due;
use super::records::{self, Records, Verdict};
use crate::applications::{Applications, Stage};
use crate::condition::{Condition, NodeHeld, PartitionHeld};
use crate::config::Situation;
use crate::facts::{Ask, Attempts, Facts, Question};
use crate::names;
use crate::step::{Outcome, Step};
use charm::AppName;
use slurm_conf::overrides::PartitionSettings;
use slurm_conf::{NodeName, PartitionName};
use slurm_ops::scontrol::{JobPhase, JobRecord, NodeRecord, PartitionState};
use std::collections::BTreeSet;

/// The decisions of one round, with a slurmctld that answers.
pub(super) struct Departures<'f> {
    situation: &'f Situation<'f>,
    facts: &'f Facts,
    attempts: &'f Attempts,
    /// The partitions in slurmctld's memory.
    runtime: PartitionSettings,
    upkeep: bool,
    /// How far each application is after this round.
    next: Applications,
    steps: Vec<Step>,
    pub(super) conditions: Vec<Condition>,
    /// A partition that should be gone is still at runtime. No reconfigure may take it away.
    pub(super) is_stuck: bool,
}

impl<'f> Departures<'f> {
    pub(super) fn new(situation: &'f Situation<'f>, facts: &'f Facts, attempts: &'f Attempts) -> Result<Self, Ask> {
        Ok(Self {
            situation,
            facts,
            attempts,
            runtime: facts.partition_settings()?.answer().cloned().unwrap_or_default(),
            upkeep: is_upkeep_due(facts, attempts)?,
            next: situation.applications.clone(),
            steps: Vec::new(),
            conditions: Vec::new(),
            is_stuck: false,
        })
    }

    /// Decides what to do next. What is noted comes before what is done.
    pub(super) fn plan(&mut self) -> Result<Vec<Step>, Ask> {
        let situation = self.situation;
        for (app, stage) in &situation.applications.0 {
            match stage {
                Stage::Related if self.is_related(app) => self.look_for_lost_nodes(app)?,
                Stage::Related => self.begin(app)?,
                Stage::Leaving { state } if self.is_related(app) => self.take_back(app, *state),
                Stage::Leaving { .. } => self.leave(app)?,
                Stage::Removing => self.remove(app)?,
            }
        }
        let served = situation.computes.iter().filter_map(|compute| compute.partition());
        let accepted = situation.accepted().partitions();
        for (partition, _) in served.filter(|(partition, _)| accepted.contains(partition.name().as_str())) {
            self.next.0.entry(partition.name().clone()).or_insert(Stage::Related);
        }
        if self.next != *situation.applications {
            return Ok(vec![Step::NoteApplications(self.next.clone())]);
        }
        Ok(std::mem::take(&mut self.steps))
    }

    /// Says whether Juju shows this unit a relation with an application.
    fn is_related(&self, app: &PartitionName) -> bool {
        self.situation.computes.iter().any(|compute| compute.app.as_str() == app.as_str())
    }

    fn state_of(&self, app: &PartitionName) -> Option<PartitionState> {
        self.runtime.get(app, "State").and_then(PartitionState::from_shown)
    }

    fn is_at_runtime(&self, app: &PartitionName) -> bool {
        self.runtime.names().any(|name| name == app.as_str())
    }

    fn hold(&mut self, app: &PartitionName, held: PartitionHeld) {
        self.conditions.push(Condition::Leaves { app: app.clone(), held });
    }

    /// Takes a step once in a dispatch. After that the condition says why it had no effect.
    fn once(&mut self, step: Step) -> Result<(), String> {
        match self.attempts.outcome(|made| *made == step) {
            None => {
                self.steps.push(step);
                Ok(())
            }
            Some(Outcome::Changed(Err(why))) => Err(why.clone()),
            Some(_) => Err(format!("{step}: no effect")),
        }
    }

    /// An application is not among those that are related. That its relation has ended, this very hook says, or Juju's
    /// controller, who names neither it nor a unit of it.
    fn begin(&mut self, app: &PartitionName) -> Result<(), Ask> {
        let name = self.app_name(app);
        let told = self.facts.call()?.broken.as_ref().is_some_and(|broken| Some(broken) == name.as_ref());
        let ended = told || {
            let goal = self.facts.goal_state()?.as_ref();
            goal.zip(name).is_some_and(|(goal, name)| !goal.has_remote_app(names::ENDPOINT_SLURMD, &name))
        };
        if ended {
            let state = self.state_of(app).unwrap_or(PartitionState::Up);
            self.next.0.insert(app.clone(), Stage::Leaving { state });
        } else {
            self.conditions.push(Condition::Unaccounted(app.clone()));
        }
        Ok(())
    }

    fn app_name(&self, app: &PartitionName) -> Option<AppName> {
        app.as_str().parse().ok()
    }

    /// The application is related again. Its nodes are resumed by their own units.
    fn take_back(&mut self, app: &PartitionName, before: PartitionState) {
        let closed = self.state_of(app) == Some(PartitionState::Inactive);
        if !closed || before == PartitionState::Inactive {
            self.next.0.insert(app.clone(), Stage::Related);
        } else if let Err(why) = self.once(Step::ReopenPartition(app.clone(), before)) {
            self.hold(app, PartitionHeld::Slurmctld(why));
        }
    }

    fn leave(&mut self, app: &PartitionName) -> Result<(), Ask> {
        self.facts.need(&[Question::Nodes, Question::JobRecords, Question::GoalState])?;
        let open = self.is_at_runtime(app) && self.state_of(app) != Some(PartitionState::Inactive);
        if open && let Err(why) = self.once(Step::ClosePartition(app.clone())) {
            self.hold(app, PartitionHeld::Slurmctld(why));
        }
        let facts = self.facts;
        let (Some(nodes), Some(jobs)) = (facts.nodes()?.answer(), facts.job_records()?.answer()) else {
            self.conditions.push(Condition::Unaccounted(app.clone()));
            return Ok(());
        };
        let left: Vec<&NodeRecord> = nodes.iter().filter(|node| records::has_feature(node, app)).collect();
        self.drain(app, &left);
        let awaited = self.nodes(app, &left)?;
        let jobs: Vec<&JobRecord> = jobs.iter().filter(|job| job.names_partition(app)).collect();
        if !self.jobs(app, &jobs) {
            if !awaited.is_empty() {
                self.conditions.extend(awaited);
            } else if !jobs.is_empty() {
                self.hold(app, PartitionHeld::Ended(jobs.len()));
            } else if left.is_empty() && !open {
                self.next.0.insert(app.clone(), Stage::Removing);
            }
        }
        Ok(())
    }

    /// The nodes of the application take no more jobs, also through a partition of the administrator's own.
    fn drain(&mut self, app: &PartitionName, left: &[&NodeRecord]) {
        let open = left.iter().filter(|node| !node.is_set_aside());
        let open: Vec<NodeName> = open.filter_map(|node| records::unit_node(node, app)).map(|(name, _)| name).collect();
        if !open.is_empty()
            && let Err(why) = self.once(Step::DrainNodes(open))
        {
            self.hold(app, PartitionHeld::Slurmctld(why));
        }
    }

    /// Deletes the records that may go. Returns why the others may not.
    fn nodes(&mut self, app: &PartitionName, left: &[&NodeRecord]) -> Result<Vec<Condition>, Ask> {
        let (mut awaited, mut held) = (Vec::new(), Vec::new());
        for node in left {
            let own = records::unit_node(node, app);
            let lost = match (&own, self.facts.goal_state()?) {
                (Some((_, unit)), Some(goal)) => !goal.has_remote_unit(names::ENDPOINT_SLURMD, unit),
                _ => false,
            };
            let Some((name, _)) = own.filter(|_| lost) else {
                awaited.push(node.name.clone());
                continue;
            };
            match self.records()?.map(|records| records.judge(node, &name)) {
                Some(Verdict::Delete) => {
                    if let Err(why) = self.once(Step::DeleteNode(name)) {
                        held.push(PartitionHeld::Slurmctld(why));
                    }
                }
                Some(Verdict::Held(by)) => held.push(PartitionHeld::Node(name, by)),
                Some(Verdict::InService) | None => awaited.push(node.name.clone()),
            }
        }
        if !awaited.is_empty() {
            held.push(PartitionHeld::Nodes(awaited));
        }
        Ok(held.into_iter().map(|held| Condition::Leaves { app: app.clone(), held }).collect())
    }

    /// Says which jobs hold the partition, unless only records of ended ones do.
    fn jobs(&mut self, app: &PartitionName, jobs: &[&JobRecord]) -> bool {
        let phase = |phase| jobs.iter().filter(move |job| job.phase() == phase);
        let pending: Vec<String> = phase(JobPhase::Waiting).map(|job| job.handle()).collect();
        let running = phase(JobPhase::Active).count();
        let held = !pending.is_empty() || running > 0;
        if !pending.is_empty() {
            self.hold(app, PartitionHeld::Pending(pending));
        }
        if running > 0 {
            self.hold(app, PartitionHeld::Running(running));
        }
        held
    }

    /// Nothing named the partition when it was noted. slurmctld may have been started again since and have it from the
    /// file, open: then it is looked at once more.
    fn remove(&mut self, app: &PartitionName) -> Result<(), Ask> {
        if !self.is_at_runtime(app) {
            if !self.situation.accepted().partitions().contains(app.as_str()) {
                self.next.0.remove(app);
            }
            return Ok(());
        }
        let Some(jobs) = self.facts.job_records()?.answer() else {
            self.is_stuck = true;
            self.conditions.push(Condition::Unaccounted(app.clone()));
            return Ok(());
        };
        if jobs.iter().any(|job| job.names_partition(app)) {
            let state = self.state_of(app).filter(|state| *state != PartitionState::Inactive);
            let state = state.unwrap_or(PartitionState::Up);
            self.next.0.insert(app.clone(), Stage::Leaving { state });
        } else if let Err(why) = self.once(Step::DeletePartition(app.clone())) {
            self.is_stuck = true;
            self.hold(app, PartitionHeld::Slurmctld(why));
        }
        Ok(())
    }

    /// Compares the nodes of an application with its units. Names are known already; more is asked only if one of them
    /// has no unit.
    fn look_for_lost_nodes(&mut self, app: &PartitionName) -> Result<(), Ask> {
        if !self.upkeep || !self.is_at_runtime(app) {
            return Ok(());
        }
        let Some(listed) = self.runtime.nodes(app) else {
            self.conditions.push(Condition::Unaccounted(app.clone()));
            return Ok(());
        };
        let mut units = listed.expand().filter_map(|name| records::unit(&name, app)).peekable();
        if units.peek().is_none() {
            return Ok(());
        }
        // What is to be brought into effect comes first, without a question more.
        if !*self.facts.retry_timer()? && !self.situation.is_at_rest() {
            return Ok(());
        }
        // Juju's controller has to know the application, or its units tell nothing.
        let endpoint = names::ENDPOINT_SLURMD;
        let goal = self.facts.goal_state()?.as_ref().zip(self.app_name(app));
        let Some((goal, _)) = goal.filter(|(goal, name)| goal.has_remote_app(endpoint, name)) else {
            self.conditions.push(Condition::Unaccounted(app.clone()));
            return Ok(());
        };
        let lost: BTreeSet<String> =
            units.filter(|unit| !goal.has_remote_unit(endpoint, unit)).map(|unit| unit.dashed()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let Some(records) = self.records()? else {
            self.conditions.push(Condition::Unaccounted(app.clone()));
            return Ok(());
        };
        let mut open = Vec::new();
        for node in records.nodes.iter().filter(|node| lost.contains(&node.name)) {
            let Some((name, _)) = records::unit_node(node, app) else { continue };
            let held = match records.judge(node, &name) {
                Verdict::InService => {
                    open.push(name);
                    continue;
                }
                Verdict::Delete => match self.once(Step::DeleteNode(name.clone())) {
                    Ok(()) => continue,
                    Err(why) => NodeHeld::Slurmctld(why),
                },
                Verdict::Held(held) => held,
            };
            self.conditions.push(Condition::NodeWithoutUnit { node: name, held });
        }
        if !open.is_empty()
            && let Err(why) = self.once(Step::DrainNodes(open.clone()))
        {
            let held = NodeHeld::Slurmctld(why);
            let lost = open.into_iter().map(|node| Condition::NodeWithoutUnit { node, held: held.clone() });
            self.conditions.extend(lost);
        }
        Ok(())
    }

    /// Asks for all that decides about a record. None: slurmctld did not say.
    fn records(&self) -> Result<Option<Records<'f>>, Ask> {
        let facts = self.facts;
        facts.need(&[Question::Nodes, Question::JobRecords, Question::Reservations])?;
        let answers = (facts.nodes()?.answer(), facts.job_records()?.answer(), facts.reservations()?.answer());
        Ok(match answers {
            (Some(nodes), Some(jobs), Some(reservations)) => Some(Records { nodes, jobs, reservations }),
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "leaving_tests.rs"]
mod tests;
