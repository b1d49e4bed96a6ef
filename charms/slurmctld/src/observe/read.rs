//! Reads the facts: from Juju through its hook tools, from the machine through `slurm-ops`. Every process that a settled hook
//! starts is started here.

use super::{Compute, Configuration, Daemon, Machine, Observed, Offer, Options, Peer, Refused, Secret, Tried};
use crate::error::Error;
use crate::names;
use charm::tools::SecretInfo;
use charm::{AppName, Context, EndpointName, RelationId, Tools, Wake};
use slurm_conf::HostName;
use slurm_interface::{ComputeData, PeerApp, PeerUnit, SecretUri};
use slurm_ops::systemd::UnitState;
use slurm_ops::{files, hostname, keys, packages, scontrol, systemd, timer};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// What this dispatch remembers of its own doings.
#[derive(Debug, Default)]
pub struct Memory {
    pub tried: Tried,
    pub secret_made: bool,
    /// Juju may show a grant only after the hook.
    pub granted: BTreeSet<RelationId>,
    suffix: Option<String>,
}

/// Reads everything a plan may need.
pub fn observe(
    ctx: &Context,
    tools: &Tools,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
) -> Result<Observed, Error> {
    let configuration = configuration(machine)?;
    let leader = tools.is_leader()?;
    let config = tools.config_get()?;
    // Who else there is matters only to a unit that does not know yet whether it is the controller.
    let unborn = configuration.live.is_none() && configuration.accepted.is_none();
    let leaving = charm::is_leaving(ctx, tools)?;
    let siblings = match unborn && !leaving {
        true => tools.goal_state()?.planned_units().into_iter().filter(|unit| *unit != ctx.unit).collect(),
        false => Vec::new(),
    };
    let computes = computes(ctx, tools, leader)?;
    Ok(Observed {
        unit: ctx.unit.clone(),
        leaving,
        leader,
        siblings,
        options: Options {
            cluster_name: config.string(names::OPTION_CLUSTER_NAME).trim().to_owned(),
            default_partition: config.string(names::OPTION_DEFAULT_PARTITION).trim().to_owned(),
        },
        peer: peer(ctx, tools)?,
        secret: secret(ctx, tools, leader, memory, &computes)?,
        computes,
        port_open: tools.opened_ports()?.contains(&charm::tools::Port::tcp(names::PORT)),
        waking: timer::is_set(machine, &Wake::new(&ctx.unit, names::EVENT_LOOK_AGAIN).name),
        machine: observe_machine(ctx, machine, configuration, memory)?,
        tried: memory.tried.clone(),
    })
}

/// Returns the relations of an endpoint without the one that this very hook ends: Juju may still list it.
fn relations(ctx: &Context, tools: &Tools, endpoint: &str) -> Result<Vec<RelationId>, Error> {
    let endpoint: EndpointName = endpoint.parse().expect("invariant: our own endpoints have proper names");
    let mut relations = tools.relation_ids(&endpoint)?;
    relations.retain(|relation| Some(relation) != ctx.event.broken_relation());
    relations.sort_by_key(RelationId::number);
    Ok(relations)
}

fn peer(ctx: &Context, tools: &Tools) -> Result<Option<Peer>, Error> {
    let Some(relation) = relations(ctx, tools, names::ENDPOINT_PEER)?.into_iter().next() else { return Ok(None) };
    let shared = tools.relation_get_app(&relation, &ctx.unit.app())?;
    let own = tools.relation_get_unit(&relation, &ctx.unit)?;
    // Nobody but this application writes here; what cannot be read was never written by it.
    let cluster_name = PeerApp::decode(&shared).ok().flatten().map(|bag| bag.cluster_name);
    let host = PeerUnit::decode(&own).ok().flatten().map(|bag| bag.hostname.to_string());
    Ok(Some(Peer { relation, cluster_name, host }))
}

fn computes(ctx: &Context, tools: &Tools, leader: bool) -> Result<Vec<Compute>, Error> {
    let mut computes = Vec::new();
    for relation in relations(ctx, tools, names::ENDPOINT_SLURMD)? {
        let Some(app) = tools.relation_list_app(&relation)? else { continue };
        let offer = match ComputeData::decode(&tools.relation_get_app(&relation, &app)?) {
            Ok(None) => Offer::Nothing,
            Ok(Some(data)) => Offer::Partition(data.partition, data.nodeset),
            Err(error) => Offer::Unusable(charm::log::chain(&error)),
        };
        let published = match leader {
            true => tools.relation_get_app(&relation, &ctx.unit.app())?,
            false => Default::default(),
        };
        computes.push(Compute { relation, app, offer, published });
    }
    Ok(computes)
}

fn secret(ctx: &Context, tools: &Tools, leader: bool, memory: &Memory, computes: &[Compute]) -> Result<Secret, Error> {
    if !leader {
        return Ok(Secret::Unknown);
    }
    if memory.secret_made {
        return Ok(Secret::JustMade);
    }
    let Some(info) = tools.secret_info_get(names::SECRET_LABEL)? else { return Ok(Secret::Absent) };
    let Some(uri) = SecretUri::new(&info.id.uri_in(&ctx.model_uuid)).or_else(|| SecretUri::new(info.id.as_str()))
    else {
        return Ok(Secret::Unknown);
    };
    let shown = computes.iter().filter(|compute| is_granted(&info, &compute.app, &ctx.unit.app()));
    let granted = shown.map(|compute| compute.relation.clone()).chain(memory.granted.iter().cloned()).collect();
    Ok(Secret::Shared { id: info.id, uri, granted })
}

/// Juju names a grant by the application and by the two ends of the relation, `compute.slurmctld#slurmctld.slurmd`.
fn is_granted(info: &SecretInfo, app: &AppName, own: &AppName) -> bool {
    let target = format!("application-{app}");
    let end = format!("{own}.{}", names::ENDPOINT_SLURMD);
    info.access.iter().any(|access| access.target == target && access.scope.contains(&end))
}

fn configuration(machine: &slurm_ops::Machine) -> Result<Configuration, Error> {
    let refused: Option<Refused> = match files::read_text(machine, names::REFUSED_CONF)? {
        None => None,
        Some(text) => {
            Some(serde_json::from_str(&text).map_err(|source| Error::Record { path: names::REFUSED_CONF, source })?)
        }
    };
    Ok(Configuration {
        live: files::read_text(machine, names::SLURM_CONF)?,
        accepted: files::read_text(machine, names::ACCEPTED_CONF)?,
        refused,
    })
}

fn observe_machine(
    ctx: &Context,
    machine: &slurm_ops::Machine,
    configuration: Configuration,
    memory: &mut Memory,
) -> Result<Machine, Error> {
    let host = hostname::short()?;
    let unit = systemd::state(machine, names::SERVICE)?;
    let drop_in = files::read_text(machine, drop_in_path())?;
    Ok(Machine {
        container: hostname::container(machine)?.is_some(),
        version: version(machine)?,
        reported_version: files::read_text(machine, ctx.charm_dir.join(names::REPORTED_VERSION))?,
        state_directory: machine.path(names::STATE_DIRECTORY).is_dir(),
        auth_key: keys::read_auth_keys(machine)?.is_some(),
        jwt_key: keys::read_jwt_key(machine)?.is_some(),
        cgroup_conf: files::read_text(machine, names::CGROUP_CONF)?,
        // A drop-in that systemd has not read does not count.
        drop_in: drop_in.filter(|_| !unit.needs_daemon_reload),
        daemon: daemon(machine, &unit, &host),
        partitions_saved: partitions_saved(machine),
        suffix: suffix(memory)?,
        configuration,
        host,
    })
}

/// Where our drop-in is.
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

fn daemon(machine: &slurm_ops::Machine, unit: &UnitState, host: &HostName) -> Daemon {
    if unit.is_active() {
        let answer = scontrol::ping(machine).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            Vec::new()
        });
        let own = answer.into_iter().find(|ping| ping.hostname == host.as_str() && ping.responding);
        return own.map_or(Daemon::Silent, |ping| Daemon::Answering { mode: ping.mode });
    }
    match (unit.active.as_str(), unit.sub.as_str()) {
        ("failed", _) | (_, "auto-restart") => Daemon::Failing { result: unit.result.clone() },
        _ if unit.is_starting() => Daemon::Silent,
        _ => Daemon::Stopped,
    }
}

fn partitions_saved(machine: &slurm_ops::Machine) -> bool {
    let modified = |path: &str| -> Option<SystemTime> { machine.path(path).metadata().ok()?.modified().ok() };
    match (modified(names::PARTITION_STATE), modified(names::ACCEPTED_CONF)) {
        (Some(saved), Some(accepted)) => saved >= accepted,
        _ => false,
    }
}

/// The four characters stay the same for one dispatch, or its plan would never settle.
fn suffix(memory: &mut Memory) -> Result<String, Error> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if let Some(suffix) = &memory.suffix {
        return Ok(suffix.clone());
    }
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(Error::Random)?;
    let suffix: String = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect();
    memory.suffix = Some(suffix.clone());
    Ok(suffix)
}
