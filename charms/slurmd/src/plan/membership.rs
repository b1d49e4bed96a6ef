//! How far the node has come on its way into the cluster, as conditions.

use super::{Planning, Situation, silence, too_new};
use crate::condition::{Condition, Waits};
use crate::facts::Occupancy;
use crate::node::reregistration::{Phase, is_ours};
use crate::node::state::{base, is_closed, is_responding};
use slurm_interface::ControllerData;
use slurm_ops::scontrol::{NodeLookup, NodeRecord};
use slurm_unit::follower::{self, Controller, FollowerCondition, KeySecret};
use slurm_unit::service::Running;

/// How far the node has come on its way into the cluster.
pub(super) fn membership(
    situation: &Situation<'_>,
    controller: &Controller,
    data: &ControllerData,
) -> Planning<Vec<Condition>> {
    let facts = situation.facts;
    let app = controller.app.clone();
    let daemon = situation.daemon;
    let mut conditions = Vec::new();
    if let Some((own, controllers)) = too_new(facts, data)? {
        conditions.push(FollowerCondition::TooNew { own, controllers, app: app.clone() }.into());
        if daemon.running != Running::Up {
            // The controllers say when they have been upgraded.
            return Ok(conditions);
        }
    }
    let secret = facts.key_secret()?;
    if facts.key_file()?.keys.is_none() {
        conditions.push(FollowerCondition::no_key(&app, secret).into());
        return Ok(conditions);
    }
    let right_key = matches!(secret, KeySecret::Offered(_));
    let controllers = follower::listed(data);
    let silent = |daemon, cause| FollowerCondition::Silent { controllers, daemon, cause, right_key }.into();
    match (daemon.running, situation.lookup) {
        (Running::Stopped, _) => conditions.push(FollowerCondition::Stopped.into()),
        (Running::Failing, _) => {
            let complaint = facts.complaint()?.clone();
            conditions.push(FollowerCondition::Failing { result: daemon.result.clone(), complaint }.into());
        }
        (Running::Starting, _) => conditions.push(silent(true, *facts.cause()?)),
        (Running::Up, lookup @ NodeLookup::Unreachable { .. }) => conditions.push(silent(false, silence(lookup))),
        (Running::Up, NodeLookup::Absent) => {
            conditions.push(Condition::NotRegistered(situation.identity.node.clone()));
        }
        (Running::Up, NodeLookup::Present(record)) => conditions.extend(registered(situation, record)?),
    }
    Ok(conditions)
}

/// Running is not registered, and registered is not usable.
fn registered(situation: &Situation<'_>, record: &NodeRecord) -> Planning<Vec<Condition>> {
    let facts = situation.facts;
    let mut conditions = Vec::new();
    if let Some(note) = situation.note {
        conditions.extend(waits(situation, record)?.map(Condition::Pending));
        if note.set_weight.is_some() {
            conditions.push(Condition::WeightSetAhead);
        }
        if let Some(rejected) = &note.rejected {
            let (rejected, last_working) = (rejected.clone(), note.last_working.clone());
            conditions.push(Condition::ConfigRejected { rejected, last_working });
        }
    }
    // slurmctld takes seconds until it has saved the node. One that crashes before then forgets it, and a later look
    // finds out.
    if record.comment.is_empty() || facts.boot()?.marked_recently {
        conditions.push(Condition::NotSavedYet);
    }
    let app = situation.identity.unit.app();
    let skew = if *facts.retry_timer()? { *facts.skew()? } else { None };
    let losses = situation.hardware.as_ref().map(|hardware| hardware.losses()).unwrap_or_default();
    conditions.extend(if record.has("INVALID_REG") && !losses.is_empty() {
        Some(Condition::HardwareLost(losses))
    } else if record.has("INVALID_REG") {
        Some(Condition::NodeRejected(record.reason.clone()))
    } else if !record.partitions.iter().any(|partition| partition == app.as_str()) {
        Some(Condition::NotInPartition { node: situation.identity.node.clone(), app })
    } else if let Some(seconds) = skew {
        Some(Condition::Skew(seconds))
    } else if !is_responding(record) {
        Some(Condition::NotResponding { record: Box::new(record.clone()), cause: *facts.cause()? })
    } else if matches!(base(record), "DOWN" | "ERROR" | "UNKNOWN" | "FAIL") {
        Some(Condition::NodeDown { record: Box::new(record.clone()), app })
    } else {
        None
    });
    Ok(conditions)
}

/// Says what a change of the node's description waits for.
pub(crate) fn waits(situation: &Situation<'_>, record: &NodeRecord) -> Planning<Option<Waits>> {
    let phase = situation.phase()?;
    if matches!(phase, Phase::Settled | Phase::Forget) {
        return Ok(None);
    }
    Ok(Some(match situation.facts.occupancy() {
        Ok(Occupancy::Jobs(jobs)) => {
            let closed = is_closed(record) && !is_ours(record);
            Waits::Jobs { jobs: jobs.iter().map(|job| job.id).collect(), closed }
        }
        Ok(Occupancy::Awaited(jobs)) => Waits::PendingJobs(jobs.clone()),
        Ok(Occupancy::Reserved(names)) => Waits::Reservations(names.clone()),
        Ok(Occupancy::Unknown) => Waits::Slurmctld,
        Ok(Occupancy::Empty) | Err(_) => Waits::Nothing,
    }))
}
