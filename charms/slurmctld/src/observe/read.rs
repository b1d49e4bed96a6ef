//! Puts the facts together, and remembers what one dispatch has done.

use super::{Daemon, Observed, Options, Secret, Tried, juju, machine};
use crate::error::Error;
use crate::names;
use crate::plan::Step;
use charm::{Context, Event, RelationId, Tools, Wake};
use slurm_conf::overrides::{NodeSettings, PartitionSettings};
use slurm_ops::journal::Stranger;
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
    /// What slurmctld has just told about itself, for whoever is going to ask the same.
    pub partitions: Option<PartitionSettings>,
    pub nodes: Option<NodeSettings>,
    /// Looked for once.
    pub(super) stranger: Option<Option<Stranger>>,
    /// How much this dispatch looks at: decided once, or a look of it would miss what an earlier one began.
    pub(super) brief: Option<bool>,
    pub(super) told: Option<bool>,
}

impl Memory {
    /// Forgets what a step may have changed.
    pub fn forget(&mut self, step: &Step) {
        match step {
            Step::InstallPackages(_)
            | Step::WriteDropIn(_)
            | Step::StartDaemon
            | Step::RestoreConfiguration { .. }
            | Step::OpenConfiguration => self.forget_daemon(),
            Step::AddSecret(_) | Step::RefillSecret(_) | Step::GrantSecret(_) => self.secrets.clear(),
            _ => {}
        }
    }

    /// Forgets what is known about slurmctld.
    pub fn forget_daemon(&mut self) {
        self.daemon = None;
        self.partitions = None;
        self.nodes = None;
    }

    /// Says whether slurmctld is known to answer.
    pub fn answers(&self) -> bool {
        matches!(self.daemon, Some((_, Daemon::Answering { .. })))
    }
}

/// Reads everything a plan may need.
pub fn observe(
    ctx: &Context,
    tools: &Tools,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
) -> Result<Observed, Error> {
    let options = options(tools)?;
    let waking = timer::is_set(&machine.host(), &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name);
    let may_be_brief = is_about_compute(ctx) && !options.network_state && !waking;
    let machine_facts = machine::observe(ctx, machine, memory, may_be_brief)?;
    let brief = memory.brief.unwrap_or_default();
    let leader = tools.is_leader()?;
    // Who else there is matters only to a unit that does not know yet whether it is the controller.
    let unborn = machine_facts.live.slurm.is_none() && machine_facts.accepted.slurm.is_none();
    let leaving = is_leaving(ctx, tools)?;
    let siblings = match unborn && !leaving {
        true => tools.goal_state()?.planned_units().into_iter().filter(|unit| *unit != ctx.unit).collect(),
        false => Vec::new(),
    };
    let computes = juju::computes(ctx, tools, leader)?;
    let told = *memory.told.get_or_insert_with(|| computes.iter().all(juju::is_told));
    // Of no interest to a cluster on a local disk.
    let network_state = options.network_state;
    let auth_secret = match leader && !(brief && machine_facts.auth_key && told) {
        true => juju::auth_secret(ctx, tools, machine, memory, &computes, brief && machine_facts.auth_key)?,
        false => Secret::Unknown,
    };
    let jwt_secret = match leader && !(brief && machine_facts.jwt_key) {
        true => juju::jwt_secret(tools, machine, memory)?,
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
        waking,
        machine: machine_facts,
        tried: memory.tried.clone(),
    })
}

/// Says whether this hook is about one compute application. There are many of them, one for each unit that joins, and each look costs a
/// process; in a cluster that is up and waits for nothing, what has nothing to do with that application is looked at in the other hooks.
fn is_about_compute(ctx: &Context) -> bool {
    match &ctx.event {
        Event::Relation(event) => event.endpoint.as_str() == names::ENDPOINT_SLURMD,
        _ => false,
    }
}

/// Asked of the controller only where a removal may begin: each question costs a process.
fn is_leaving(ctx: &Context, tools: &Tools) -> Result<bool, Error> {
    let departs = ctx.event.departing_unit().is_some_and(|unit| *unit != ctx.unit);
    let may_be = matches!(ctx.event, Event::Stop | Event::Remove | Event::Relation(_)) && !departs;
    let ends = ctx.event.broken_relation().is_some() || ctx.event.departing_unit().is_some();
    let last = matches!(ctx.event, Event::Stop | Event::Remove);
    Ok(may_be && (ends || last) && charm::is_leaving(ctx, tools)?)
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
