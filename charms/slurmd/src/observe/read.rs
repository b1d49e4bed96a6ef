//! Reads the facts: from Juju through its hook tools, from the machine through `slurm-ops`. Every process that a settled hook
//! starts is started here.

use super::{BadOption, Controller, Daemon, Key, Launch, Machine, Observed, Offer, Record, Registration, Tried};
use crate::error::Error;
use crate::names;
use charm::tools::SecretAnswer;
use charm::{Context, EndpointName, RelationId, Tools, Wake};
use slurm_conf::{NodeName, Partition};
use slurm_interface::ControllerData;
use slurm_ops::files::FileError;
use slurm_ops::keys::{AuthKey, KeySet};
use slurm_ops::scontrol::NodeLookup;
use slurm_ops::slurmd::SlurmdOptions;
use slurm_ops::systemd::UnitState;
use slurm_ops::{files, keys, packages, scontrol, slurmd, systemd, timer};

/// What this dispatch remembers of its own doings, and the key that it read and a plan need not see.
#[derive(Debug, Default)]
pub struct Memory {
    pub tried: Tried,
    pub offered_key: Option<KeySet>,
}

/// Reads everything a plan may need.
pub fn observe(
    ctx: &Context,
    tools: &Tools,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
) -> Result<Observed, Error> {
    let leader = tools.is_leader()?;
    let controller = controller(ctx, tools, leader)?;
    let node_name = NodeName::from_unit(ctx.unit.as_str()).expect("invariant: a unit's name makes a node's name");
    Ok(Observed {
        unit: ctx.unit.clone(),
        leaving: charm::is_leaving(ctx, tools)?,
        leader,
        partition: partition(ctx, tools)?,
        key: key(tools, machine, controller.as_ref(), memory)?,
        port_open: tools.opened_ports()?.contains(&charm::tools::Port::tcp(names::PORT)),
        waking: timer::is_set(machine, &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name),
        machine: observe_machine(ctx, machine, &node_name)?,
        tried: memory.tried.clone(),
        controller,
        node_name,
    })
}

fn partition(ctx: &Context, tools: &Tools) -> Result<Result<Partition, BadOption>, Error> {
    let config = tools.config_get()?;
    let option = names::OPTION_PARTITION_CONFIG;
    let value = config.string(option);
    Ok(Partition::from_config(ctx.unit.app().as_str(), value).map_err(|error| BadOption {
        option,
        value: value.to_owned(),
        problem: charm::log::chain(&error),
    }))
}

/// Returns the relation to the controllers, unless this very hook ends it: Juju may still list it.
fn controller(ctx: &Context, tools: &Tools, leader: bool) -> Result<Option<Controller>, Error> {
    let endpoint: EndpointName = names::ENDPOINT_SLURMCTLD.parse().expect("invariant: our own endpoints have names");
    let mut relations = tools.relation_ids(&endpoint)?;
    relations.retain(|relation| Some(relation) != ctx.event.broken_relation());
    // One cluster per application. While an old relation lingers, the new one counts.
    let Some(relation) = relations.into_iter().max_by_key(RelationId::number) else { return Ok(None) };
    let Some(app) = tools.relation_list_app(&relation)? else { return Ok(None) };
    let offer = match ControllerData::decode(&tools.relation_get_app(&relation, &app)?) {
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
    let same_as_on_disk = keys_on_disk(machine)?.as_ref() == Some(&offered);
    memory.offered_key = Some(offered);
    Ok(Key::Offered { same_as_on_disk })
}

/// A file that holds no keys is as good as none: it will be replaced.
fn keys_on_disk(machine: &slurm_ops::Machine) -> Result<Option<KeySet>, FileError> {
    match keys::read_auth_keys(machine) {
        Err(FileError::Content { .. }) => Ok(None),
        other => other,
    }
}

fn observe_machine(ctx: &Context, machine: &slurm_ops::Machine, node_name: &NodeName) -> Result<Machine, Error> {
    let version = version(machine)?;
    let unit = systemd::state(machine, names::SERVICE)?;
    let daemon = daemon(machine, &unit)?;
    let written = slurmd::read_options(machine)?.map(launch);
    // Looking at the hardware takes its time, and only a start can make use of it.
    let start_due = !matches!(daemon, Daemon::Running { .. } | Daemon::Starting) || written.is_none();
    let detected = match start_due && version.is_some() {
        true => Some(slurmd::machine_info(machine)?),
        false => None,
    };
    // Without a running slurmd no command of Slurm works on this machine.
    let registration = match daemon {
        Daemon::Running { .. } => registration(scontrol::node(machine, node_name)),
        _ => Registration::Unreachable,
    };
    Ok(Machine {
        reported_version: files::read_text(machine, ctx.charm_dir.join(names::REPORTED_VERSION))?,
        // A drop-in that systemd has not read does not count.
        drop_in: files::read_text(machine, drop_in_path())?.filter(|_| !unit.needs_daemon_reload),
        key_on_disk: keys_on_disk(machine)?.is_some(),
        version,
        detected,
        written,
        daemon,
        registration,
    })
}

fn drop_in_path() -> String {
    format!("/etc/systemd/system/{}.d/{}.conf", names::SERVICE, names::DROP_IN)
}

/// Returns the version of the first package if all of them are installed.
fn version(machine: &slurm_ops::Machine) -> Result<Option<String>, Error> {
    let installed = packages::installed(machine, &names::PACKAGES)?;
    let complete = names::PACKAGES.iter().all(|name| installed.contains_key(*name));
    let first = installed.get(names::PACKAGES[0]).filter(|_| complete);
    Ok(first.map(|package| package.upstream_version().to_owned()))
}

fn daemon(machine: &slurm_ops::Machine, unit: &UnitState) -> Result<Daemon, Error> {
    if unit.is_active() {
        let words = match unit.main_pid {
            Some(pid) => systemd::command_line(machine, pid)?,
            None => None,
        };
        // The process may have been replaced by its successor this very moment; then the file tells as much.
        let with = match words {
            Some(words) => SlurmdOptions::from_arguments(&words),
            None => slurmd::read_options(machine)?,
        };
        return Ok(Daemon::Running { with: with.map(launch) });
    }
    Ok(match (unit.active.as_str(), unit.sub.as_str()) {
        ("failed", _) | (_, "auto-restart") => Daemon::Failing { result: unit.result.clone() },
        _ if unit.is_starting() => Daemon::Starting,
        _ => Daemon::Stopped,
    })
}

fn launch(options: SlurmdOptions) -> Launch {
    Launch { node_name: options.name, conf: options.conf, controllers: options.controllers }
}

fn registration(lookup: NodeLookup) -> Registration {
    match lookup {
        NodeLookup::Unreachable { why } => {
            tracing::debug!("no answer about this node: {why}");
            Registration::Unreachable
        }
        NodeLookup::Absent => Registration::Absent,
        NodeLookup::Present(record) => Registration::Present(Record {
            states: record.state,
            reason: record.reason,
            partitions: record.partitions,
            comment: record.comment,
        }),
    }
}
