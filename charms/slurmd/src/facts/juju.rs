//! Reads the facts that Juju has, through its hook tools, and puts all facts together.

use super::machine;
use super::{Controller, Key, Observed, Offer, Registration, Tried};
use crate::error::Error;
use crate::options::{self, BadOption, Given, Options};
use crate::{names, plan};
use charm::tools::{Port, SecretAnswer};
use charm::{Context, EndpointName, Event, RelationId, Tools, Wake};
use slurm_conf::{Node, NodeName, Partition};
use slurm_interface::ControllerData;
use slurm_ops::keys::{AuthKey, KeySet};
use slurm_ops::scontrol::{self, Candidate};
use slurm_ops::timer;

/// What this dispatch remembers of its own doings, and what it need not find out twice.
#[derive(Debug, Default)]
pub struct Memory {
    pub tried: Tried,
    pub offered_key: Option<KeySet>,
    /// What slurmd found in this machine. Looking takes its time.
    pub detected: Option<Node>,
    /// Why nobody answered, until this dispatch does something about it.
    pub silence: Option<String>,
    /// How the clocks differ, once they have been compared.
    skew: Option<Option<i64>>,
    /// What the Slurm on this machine thinks of a partition.
    verdict: Option<(Partition, Candidate)>,
}

/// Reads everything a plan may need. Every process that a settled hook starts is started from here.
pub fn observe(
    ctx: &Context,
    tools: &Tools,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
) -> Result<Observed, Error> {
    let leader = tools.is_leader()?;
    let controller = controller(ctx, tools, leader)?;
    let node_name = NodeName::from_unit(ctx.unit.as_str()).expect("invariant: a unit's name makes a node's name");
    let mut seen = Observed {
        unit: ctx.unit.clone(),
        leaving: is_leaving(ctx, tools)?,
        alarmed: ctx.event == Event::Timer(names::EVENT_DAEMON_FAILED),
        woken: ctx.event == Event::Timer(names::EVENT_LOOK_AGAIN),
        leader,
        options: options(ctx, tools)?,
        key: key(tools, machine, controller.as_ref(), memory)?,
        port_open: tools.opened_ports()?.contains(&Port::tcp(names::PORT)),
        waking: timer::is_set(&machine.host(), &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name),
        machine: machine::observe(ctx, machine, &node_name, memory)?,
        tried: memory.tried.clone(),
        controller,
        node_name,
    };
    if plan::depends_on_verdict(&seen) {
        judge(machine, tools, memory, &mut seen)?;
    }
    if seen.waking && matches!(seen.machine.registration, Registration::Present(_)) {
        seen.machine.skew = *memory.skew.get_or_insert_with(|| machine::skew(machine));
    }
    if plan::depends_on_jobs(&seen) {
        seen.machine.occupancy = Some(machine::occupancy(machine, &seen.node_name));
    }
    Ok(seen)
}

/// Asked of the controller only where a removal may begin: each question costs a process.
fn is_leaving(ctx: &Context, tools: &Tools) -> Result<bool, Error> {
    let departs = ctx.event.departing_unit().is_some_and(|unit| *unit != ctx.unit);
    let may_be = matches!(ctx.event, Event::Stop | Event::Remove | Event::Relation(_)) && !departs;
    let ends = ctx.event.broken_relation().is_some() || ctx.event.departing_unit().is_some();
    let last = matches!(ctx.event, Event::Stop | Event::Remove);
    Ok(may_be && (ends || last) && charm::is_leaving(ctx, tools)?)
}

fn options(ctx: &Context, tools: &Tools) -> Result<Options, Error> {
    let config = tools.config_get()?;
    let given = Given {
        partition_config: config.string(names::OPTION_PARTITION_CONFIG),
        default_node_state: config.string(names::OPTION_DEFAULT_NODE_STATE),
        default_node_reason: config.string(names::OPTION_DEFAULT_NODE_REASON),
        drain_timeout: config.integer(names::OPTION_DRAIN_TIMEOUT),
        slurm_source: config.string(names::OPTION_SLURM_SOURCE),
    };
    Ok(Options::read(ctx.unit.app().as_str(), &given))
}

/// Has the Slurm on this machine read the partition. A Slurm that could not be asked has no objection; the controller's comes next.
fn judge(machine: &slurm_ops::Machine, tools: &Tools, memory: &mut Memory, seen: &mut Observed) -> Result<(), Error> {
    let Ok(partition) = seen.options.partition.clone() else { return Ok(()) };
    let verdict = match memory.verdict.take() {
        Some((known, verdict)) if known == partition => verdict,
        _ => scontrol::judge_partition(&machine.writer(), &partition)?,
    };
    if let Candidate::Refused { reason } = &verdict {
        let config = tools.config_get()?;
        let value = config.string(names::OPTION_PARTITION_CONFIG);
        let problem = options::objection(reason, partition.unknown());
        seen.options.partition = Err(BadOption::new(names::OPTION_PARTITION_CONFIG, value, problem));
    }
    memory.verdict = Some((partition, verdict));
    Ok(())
}

/// Returns the relation to the controllers, unless this very hook ends it: Juju may still list it.
fn controller(ctx: &Context, tools: &Tools, leader: bool) -> Result<Option<Controller>, Error> {
    let endpoint: EndpointName = names::ENDPOINT_SLURMCTLD.parse().expect("invariant: our own endpoints have names");
    let mut relations = tools.relation_ids(&endpoint)?;
    relations.retain(|relation| Some(relation) != ctx.event.broken_relation());
    // One cluster per application. While an old relation lingers, the new one counts.
    let Some(relation) = relations.into_iter().max_by_key(RelationId::number) else { return Ok(None) };
    let Some(app) = tools.relation_list_app(&relation)? else { return Ok(None) };
    let offer = match ControllerData::decode(&tools.relation_get_remote(&relation, &app)?) {
        Ok(None) => Offer::Nothing,
        Ok(Some(data)) => Offer::Data(data),
        Err(error) => Offer::Unusable(charm::log::chain(&error)),
    };
    let published = match leader {
        true => tools.relation_get_app(&relation, &ctx.unit.app())?,
        false => Default::default(),
    };
    Ok(Some(Controller { relation, app, offer, published }))
}

fn key(
    tools: &Tools,
    machine: &slurm_ops::Machine,
    controller: Option<&Controller>,
    memory: &mut Memory,
) -> Result<Key, Error> {
    let Some(Controller { offer: Offer::Data(data), .. }) = controller else { return Ok(Key::NotOffered) };
    let content = match tools.secret_get(data.auth_secret.as_str(), names::SECRET_LABEL)? {
        SecretAnswer::Content(content) => content,
        SecretAnswer::Unreadable(why) => return Ok(Key::Unreadable(why)),
    };
    let parts = content.get(names::SECRET_KEY_ID).zip(content.get(names::SECRET_KEY));
    let offered = parts.and_then(|(id, key)| AuthKey::new(id, key).ok());
    let Some(offered) = offered.map(KeySet::of) else { return Ok(Key::Malformed) };
    let same_as_on_disk =
        machine::keys_on_disk(machine)?.as_ref() == Some(&offered) && machine::key_is_private(machine)?;
    memory.offered_key = Some(offered);
    Ok(Key::Offered { same_as_on_disk })
}
