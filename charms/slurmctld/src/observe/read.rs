//! Puts the facts together, and remembers what one dispatch has done.

use super::{Observed, Options, Secret, Tried, juju, machine};
use crate::error::Error;
use crate::names;
use charm::{Context, RelationId, Tools, Wake};
use slurm_ops::timer;
use std::collections::BTreeSet;

/// What this dispatch remembers of its own doings.
#[derive(Debug, Default)]
pub struct Memory {
    pub tried: Tried,
    /// Labels of secrets that were made.
    pub secrets_made: BTreeSet<&'static str>,
    /// Juju may show a grant only after the hook.
    pub granted: BTreeSet<RelationId>,
    pub(super) suffix: Option<String>,
}

/// Reads everything a plan may need.
pub fn observe(
    ctx: &Context,
    tools: &Tools,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
) -> Result<Observed, Error> {
    let machine_facts = machine::observe(ctx, machine, memory)?;
    let leader = tools.is_leader()?;
    // Who else there is matters only to a unit that does not know yet whether it is the controller.
    let unborn = machine_facts.live.slurm.is_none() && machine_facts.accepted.slurm.is_none();
    let leaving = charm::is_leaving(ctx, tools)?;
    let siblings = match unborn && !leaving {
        true => tools.goal_state()?.planned_units().into_iter().filter(|unit| *unit != ctx.unit).collect(),
        false => Vec::new(),
    };
    let computes = juju::computes(ctx, tools, leader)?;
    let secret = |label| match leader {
        true => juju::secret(ctx, tools, label, memory, &computes),
        false => Ok(Secret::Unknown),
    };
    Ok(Observed {
        unit: ctx.unit.clone(),
        home: format!("{}/{}", ctx.model_uuid, ctx.unit.app()),
        leaving,
        leader,
        siblings,
        options: options(tools)?,
        peer: juju::peer(ctx, tools)?,
        mount: juju::mount(ctx, tools, leader)?,
        auth_secret: secret(names::AUTH_SECRET)?,
        jwt_secret: secret(names::JWT_SECRET)?,
        computes,
        port_open: tools.opened_ports()?.contains(&charm::tools::Port::tcp(names::PORT)),
        waking: timer::is_set(machine, &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name),
        machine: machine_facts,
        tried: memory.tried.clone(),
    })
}

fn options(tools: &Tools) -> Result<Options, Error> {
    let config = tools.config_get()?;
    let word = |option| config.string(option).trim().to_owned();
    Ok(Options {
        cluster_name: word(names::OPTION_CLUSTER_NAME),
        default_partition: word(names::OPTION_DEFAULT_PARTITION),
        parameters: config.string(names::OPTION_PARAMETERS).to_owned(),
        cgroup_parameters: config.string(names::OPTION_CGROUP_PARAMETERS).to_owned(),
        process_tracking: word(names::OPTION_PROCESS_TRACKING),
        network_state: config.boolean(names::OPTION_NETWORK_STATE),
        source: config.string(names::OPTION_SOURCE).to_owned(),
    })
}
