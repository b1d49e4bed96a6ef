//! Puts the facts together, and remembers what one dispatch has done.

use super::{Daemon, Observed, Options, Secret, Tried, juju, machine};
use crate::error::Error;
use crate::names;
use crate::plan::Step;
use charm::{Context, Event, RelationId, Tools, Wake};
use slurm_ops::systemd::UnitState;
use slurm_ops::timer;
use std::collections::{BTreeMap, BTreeSet};

/// What this dispatch remembers of its own doings.
#[derive(Debug, Default)]
pub struct Memory {
    pub tried: Tried,
    /// Labels of secrets that were made.
    pub secrets_made: BTreeSet<&'static str>,
    /// Juju may show a grant only after the hook.
    pub granted: BTreeSet<RelationId>,
    pub(super) suffix: Option<String>,
    /// What was seen in this dispatch and cannot have changed since.
    pub(super) daemon: Option<(UnitState, Daemon)>,
    pub(super) secrets: BTreeMap<&'static str, Secret>,
}

impl Memory {
    /// Forgets what a step may have changed.
    pub fn forget(&mut self, step: &Step) {
        match step {
            Step::InstallPackages(_)
            | Step::WriteDropIn(_)
            | Step::StartDaemon
            | Step::Reconfigure { .. }
            | Step::RestoreConfiguration { .. } => self.daemon = None,
            Step::AddSecret(_) | Step::RefillSecret(_) | Step::GrantSecret(_) => self.secrets.clear(),
            _ => {}
        }
    }
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
    let options = options(tools)?;
    let brief = is_brief(ctx, &machine_facts, &options);
    // Of no interest to a cluster on a local disk.
    let network_state = options.network_state;
    let auth_secret = match leader {
        true => juju::secret(ctx, tools, names::AUTH_SECRET, memory, &computes, brief && machine_facts.auth_key)?,
        false => Secret::Unknown,
    };
    let jwt_secret = match leader && !(brief && machine_facts.jwt_key) {
        true => juju::secret(ctx, tools, names::JWT_SECRET, memory, &computes, false)?,
        false => Secret::Unknown,
    };
    Ok(Observed {
        unit: ctx.unit.clone(),
        home: format!("{}/{}", ctx.model_uuid, ctx.unit.app()),
        leaving,
        alarmed: ctx.event == Event::Timer(names::EVENT_DAEMON_FAILED),
        leader,
        siblings,
        options,
        peer: if brief { None } else { juju::peer(ctx, tools)? },
        mount: if network_state { juju::mount(ctx, tools, leader)? } else { None },
        auth_secret,
        jwt_secret,
        computes,
        port_open: brief || tools.opened_ports()?.contains(&charm::tools::Port::tcp(names::PORT)),
        waking: timer::is_set(machine, &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name),
        machine: machine_facts,
        tried: memory.tried.clone(),
    })
}

/// Says whether this hook is about one compute application of a cluster that is up. There are many of them, one for each unit that
/// joins, and each look costs a process; what has nothing to do with that application is looked at in the other hooks.
fn is_brief(ctx: &Context, machine: &super::Machine, options: &Options) -> bool {
    let about = match &ctx.event {
        Event::Relation(event) => event.endpoint.as_str() == names::ENDPOINT_SLURMD,
        _ => false,
    };
    // A machine that its configuration does not name has to find out first what it is for.
    let serves = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(machine.host.as_str()));
    about && serves(&machine.accepted.slurm) && serves(&machine.live.slurm) && !options.network_state
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
