//! Facts that Juju knows, through its hook tools.

use super::{Compute, MountEndpoint, Offer, Peer, Secret, Shared, read::Memory};
use crate::error::Error;
use crate::{names, secret_content};
use charm::tools::{SecretAnswer, SecretInfo, Unreadable};
use charm::{AppName, Context, EndpointName, Event, RelationId, Tools};
use slurm_interface::{ComputeData, ControllerData, PeerApp, PeerUnit, SecretUri};
use std::collections::BTreeSet;

/// Returns the relations of an endpoint without the one that this very hook ends: Juju may still list it.
fn relations(ctx: &Context, tools: &Tools, endpoint: &str) -> Result<Vec<RelationId>, Error> {
    let endpoint: EndpointName = endpoint.parse().expect("invariant: our own endpoints have proper names");
    let mut relations = tools.relation_ids(&endpoint)?;
    relations.retain(|relation| Some(relation) != ctx.event.broken_relation());
    relations.sort_by_key(RelationId::number);
    Ok(relations)
}

pub(super) fn peer(ctx: &Context, tools: &Tools) -> Result<Option<Peer>, Error> {
    let Some(relation) = relations(ctx, tools, names::ENDPOINT_PEER)?.into_iter().next() else { return Ok(None) };
    let shared = tools.relation_get_app(&relation, &ctx.unit.app())?;
    let own = tools.relation_get_unit(&relation, &ctx.unit)?;
    // Nobody but this application writes here; what cannot be read was never written by it.
    let cluster_name = PeerApp::decode(&shared).ok().flatten().map(|bag| bag.cluster_name);
    let host = PeerUnit::decode(&own).ok().flatten().map(|bag| bag.hostname.to_string());
    Ok(Some(Peer { relation, cluster_name, host }))
}

pub(super) fn mount(ctx: &Context, tools: &Tools, leader: bool) -> Result<Option<MountEndpoint>, Error> {
    let Some(relation) = relations(ctx, tools, names::ENDPOINT_MOUNT)?.into_iter().next() else { return Ok(None) };
    let published = match leader {
        true => tools.relation_get_app(&relation, &ctx.unit.app())?,
        false => Default::default(),
    };
    Ok(Some(MountEndpoint { relation, published }))
}

pub(super) fn computes(ctx: &Context, tools: &Tools, leader: bool) -> Result<Vec<Compute>, Error> {
    let mut computes = Vec::new();
    for relation in relations(ctx, tools, names::ENDPOINT_SLURMD)? {
        let Some(app) = remote_app(ctx, tools, &relation)? else { continue };
        let offer = match ComputeData::decode(&tools.relation_get_remote(&relation, &app)?) {
            Ok(None) => Offer::Nothing,
            Ok(Some(data)) if data.partition.name().as_str() != app.as_str() => {
                Offer::Unusable(format!("partition {}: expected {app}", data.partition.name()))
            }
            Ok(Some(data)) => Offer::Partition(data.partition, data.nodeset),
            Err(_) if is_reserved(&app) => Offer::Unusable(
                "Slurm reserves this name, so no partition can have it: deploy under another".to_owned(),
            ),
            Err(error) => Offer::Unusable(charm::log::chain(&error)),
        };
        let published = match leader {
            true => tools.relation_get_app(&relation, &ctx.unit.app())?,
            false => Default::default(),
        };
        let deaf = tools.is_deaf_to(&relation);
        computes.push(Compute { relation, app, offer, deaf, published });
    }
    Ok(computes)
}

/// Names the application at the other end. In a hook of the relation itself Juju has said so already.
fn remote_app(ctx: &Context, tools: &Tools, relation: &RelationId) -> Result<Option<AppName>, Error> {
    match &ctx.event {
        Event::Relation(event) if event.relation == *relation && event.remote_app.is_some() => {
            Ok(event.remote_app.clone())
        }
        _ => Ok(tools.relation_list_app(relation)?),
    }
}

/// Says whether an application knows all that it needs, so that nothing is left to be granted and published.
pub(super) fn is_told(compute: &Compute) -> bool {
    match compute.offer {
        Offer::Partition(..) => matches!(ControllerData::decode(&compute.published), Ok(Some(_))),
        Offer::Nothing | Offer::Unusable(_) => true,
    }
}

/// The partition of an application has its name, and Slurm has its own use for two.
fn is_reserved(app: &AppName) -> bool {
    ["default", "all"].contains(&app.as_str())
}

/// Looks up the secret that compute units read. Asked of the leader only: nobody else may know. With `trust` its content is taken to be there.
pub(super) fn auth_secret(
    ctx: &Context,
    tools: &Tools,
    machine: &slurm_ops::Machine,
    memory: &mut Memory,
    computes: &[Compute],
    trust: bool,
) -> Result<Secret, Error> {
    remembered(names::AUTH_SECRET, memory, |memory| {
        let label = names::AUTH_SECRET;
        let Some(info) = tools.secret_info_get(label)? else { return Ok(Secret::Absent) };
        let Some(uri) = SecretUri::new(&info.id.uri_in(&ctx.model_uuid)).or_else(|| SecretUri::new(info.id.as_str()))
        else {
            return Ok(Secret::Unknown);
        };
        let refilled = memory.tried.refilled.contains(label);
        let holds_key = if trust || refilled { Some(true) } else { holds_key(tools, machine, label)? };
        let Some(holds_key) = holds_key else { return Ok(Secret::Unknown) };
        let shown = computes.iter().filter(|compute| is_granted(&info, &compute.app, &ctx.unit.app()));
        let shown: BTreeSet<RelationId> = shown.map(|compute| compute.relation.clone()).collect();
        let unconfirmed: BTreeSet<RelationId> = memory.granted.difference(&shown).cloned().collect();
        let granted = shown.union(&unconfirmed).cloned().collect();
        Ok(Secret::Shared(Shared { id: info.id, uri, holds_key, granted, unconfirmed }))
    })
}

/// Looks up the secret that nobody else reads. Whoever can read it knows all there is to know.
pub(super) fn jwt_secret(tools: &Tools, machine: &slurm_ops::Machine, memory: &mut Memory) -> Result<Secret, Error> {
    remembered(names::JWT_SECRET, memory, |memory| {
        let label = names::JWT_SECRET;
        let refilled = memory.tried.refilled.contains(label);
        Ok(match if refilled { Some(true) } else { holds_key(tools, machine, label)? } {
            None => Secret::Unknown,
            Some(true) => Secret::Kept { holds_key: true },
            Some(false) if tools.secret_info_get(label)?.is_some() => Secret::Kept { holds_key: false },
            Some(false) => Secret::Absent,
        })
    })
}

/// Says whether a secret has the key of this machine in it, or any if this machine has none. slurmctld runs with its own, and nodes that took
/// another one would be lost at their next restart. None: Juju would not say. That is no loss, or a new key would be made beside one that serves.
fn holds_key(tools: &Tools, machine: &slurm_ops::Machine, label: &str) -> Result<Option<bool>, Error> {
    Ok(match tools.secret_get_label(label)? {
        SecretAnswer::Content(content) => Some(match secret_content::wanted(machine, label)? {
            Some(wanted) => content == wanted,
            None => content.get(names::SECRET_KEY).is_some(),
        }),
        SecretAnswer::Unreadable(Unreadable::NotFound) => Some(false),
        SecretAnswer::Unreadable(Unreadable::NotAllowed | Unreadable::AgentGone) => None,
    })
}

/// Looks only if that may bring something new.
fn remembered(
    label: &'static str,
    memory: &mut Memory,
    look_up: impl FnOnce(&Memory) -> Result<Secret, Error>,
) -> Result<Secret, Error> {
    if memory.secrets_made.contains(label) {
        return Ok(Secret::JustMade);
    }
    if let Some(known) = memory.secrets.get(label) {
        return Ok(known.clone());
    }
    let secret = look_up(memory)?;
    memory.secrets.insert(label, secret.clone());
    Ok(secret)
}

/// Juju names a grant by the application and by the two ends of the relation, `compute.slurmctld#slurmctld.slurmd`.
fn is_granted(info: &SecretInfo, app: &AppName, own: &AppName) -> bool {
    let target = format!("application-{app}");
    let end = format!("{own}.{}", names::ENDPOINT_SLURMD);
    info.access.iter().any(|access| access.target == target && access.scope.contains(&end))
}
