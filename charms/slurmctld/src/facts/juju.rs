//! Facts that Juju knows, through its hook tools.

use super::{Call, Compute, Facts, Follower, MountEndpoint, Peer, RemoteData};
use crate::controllers::Member;
use crate::extras::Said;
use crate::names;
use crate::rotation::Acknowledgements;
use charm::runtime::{both, each};
use charm::tools::{GoalState, Remote};
use charm::{AppName, Event, RelationEvent, RelationEventKind, RelationId, UnitName};
use slurm_interface::{AccountingHost, ComputeData, KeyAcknowledgement, PeerApp, PeerUnit};
use slurm_unit::{Error, Trigger, View};

pub(super) fn call(view: &View) -> Call {
    let ctx = &view.ctx;
    Call {
        unit: ctx.unit.clone(),
        home: format!("{}/{}", ctx.model_uuid, ctx.unit.app()),
        model_uuid: ctx.model_uuid.clone(),
        trigger: view.trigger(),
        quiet: matches!(&ctx.event, Event::Hook(name) if name == "update-status"),
        last: view.departs(),
        teardown: is_teardown(&ctx.event),
        broken: broken(&ctx.event),
        obsolete: match &ctx.event {
            Event::SecretObsolete { label, revision } => Some((label.clone(), *revision)),
            _ => None,
        },
        secrets_changed: matches!(&ctx.event, Event::Hook(name) if name == "secret-changed"),
    }
}

/// A unit that is removed leaves its relations first.
fn is_teardown(event: &Event) -> bool {
    let ends = |kind: &RelationEventKind| matches!(kind, RelationEventKind::Departed(_) | RelationEventKind::Broken);
    match event {
        Event::Relation(RelationEvent { kind, .. }) => ends(kind),
        event => matches!(event, Event::Stop | Event::Remove),
    }
}

/// Juju does not say whose relation it is when the agent was started again since.
fn broken(event: &Event) -> Option<AppName> {
    match event {
        Event::Relation(RelationEvent { endpoint, remote_app, kind: RelationEventKind::Broken, .. })
            if endpoint.as_str() == names::ENDPOINT_SLURMD =>
        {
            remote_app.clone()
        }
        _ => None,
    }
}

pub(super) fn goal_state(view: &View) -> Option<GoalState> {
    view.juju
        .goal_state()
        .inspect_err(|error| tracing::warn!("who exists is not known: {}", charm::log::chain(error)))
        .ok()
}

pub(super) fn siblings(view: &View) -> Result<Vec<UnitName>, Error> {
    let planned = view.juju.goal_state()?.planned_units();
    Ok(planned.into_iter().filter(|unit| *unit != view.ctx.unit).collect())
}

pub(super) fn peer(view: &View) -> Result<Option<Peer>, Error> {
    let (ctx, juju) = (&view.ctx, &view.juju);
    let Some(relation) = juju.relations(ctx, names::ENDPOINT_PEER)?.into_iter().next() else { return Ok(None) };
    let app = ctx.unit.app();
    let (shared, own) =
        both(|| juju.relation_get_app(&relation, &app), || juju.relation_get_unit(&relation, &ctx.unit));
    let (shared, own) = (shared?, own?);
    // Only this application writes here. What cannot be read was never written by it.
    let shared = PeerApp::decode(&shared).ok().flatten();
    let restart_signal = shared.as_ref().map(|bag| bag.restart_signal.clone()).unwrap_or_default();
    let own = PeerUnit::decode(&own).ok().flatten();
    Ok(Some(Peer { relation, cluster_name: shared.map(|bag| bag.cluster_name), restart_signal, own }))
}

/// Who exists is taken from the goal state, and what each unit has published from its bag: an agent may not have heard
/// of a unit that joined, and never hears of one that is gone.
pub fn members(view: &View) -> Result<Option<Vec<Member>>, Error> {
    let Some(relation) = view.juju.relations(&view.ctx, names::ENDPOINT_PEER)?.into_iter().next() else {
        return Ok(None);
    };
    let Some(goal) = goal_state(view) else { return Ok(None) };
    let mut members = Vec::new();
    for unit in goal.own_units() {
        let bag = view.juju.relation_get_remote_unit(&relation, &unit)?.unwrap_or_default();
        let published = PeerUnit::decode(&bag).ok().flatten();
        let left = published.as_ref().is_some_and(|bag| bag.left);
        let dying = goal.is_dying(&unit);
        let keys = published.as_ref().and_then(|bag| bag.keys.clone()).map(|keys| keys.ids);
        let started_with = published.as_ref().and_then(|bag| bag.started_with.clone());
        members.push(Member { unit, host: published.map(|bag| bag.hostname), dying, left, keys, started_with });
    }
    Ok(Some(members))
}

pub(super) fn mount(view: &View) -> Result<Option<MountEndpoint>, Error> {
    let relation = view.juju.relations(&view.ctx, names::ENDPOINT_MOUNT)?.into_iter().next();
    let Some(relation) = relation else { return Ok(None) };
    let published = view.juju.relation_get_own_app(&relation)?.unwrap_or_default();
    Ok(Some(MountEndpoint { relation, published }))
}

pub(super) fn computes(view: &View) -> Result<Vec<Compute>, Error> {
    let relations = view.juju.relations(&view.ctx, names::ENDPOINT_SLURMD)?;
    each(relations, |relation| compute(view, relation)).into_iter().filter_map(Result::transpose).collect()
}

/// Looks at one relation. None: Juju does not know yet with whom.
fn compute(view: &View, relation: RelationId) -> Result<Option<Compute>, Error> {
    let juju = &view.juju;
    let theirs = || {
        let Some(remote) = juju.remote(&view.ctx, &relation)? else { return Ok(None) };
        let data = data(&remote.app, &ComputeData::decode(&juju.relation_get_remote(&relation, &remote)?));
        Ok::<_, Error>(Some((remote.app, data, remote.stale || juju.is_deaf_to(&relation))))
    };
    let (published, theirs) = both(|| juju.relation_get_own_app(&relation), theirs);
    let Some((app, data, stale)) = theirs? else { return Ok(None) };
    let published = published?.unwrap_or_default();
    Ok(Some(Compute { relation, app, data, stale, published }))
}

/// The goal state is asked anyway, and tells of all endpoints at once that nobody is there.
pub(super) fn followers(view: &View) -> Result<Vec<Follower>, Error> {
    let goal = goal_state(view);
    let mut relations = Vec::new();
    for endpoint in names::FOLLOWERS {
        if goal.as_ref().is_none_or(|goal| goal.has_relation(endpoint)) {
            let of_endpoint = view.juju.relations(&view.ctx, endpoint)?;
            relations.extend(of_endpoint.into_iter().map(|relation| (endpoint, relation)));
        }
    }
    let look = |(endpoint, relation)| follower(view, endpoint, relation);
    each(relations, look).into_iter().filter_map(Result::transpose).collect()
}

fn follower(view: &View, endpoint: &'static str, relation: RelationId) -> Result<Option<Follower>, Error> {
    let juju = &view.juju;
    let (published, remote) = both(|| juju.relation_get_own_app(&relation), || juju.remote(&view.ctx, &relation));
    let (published, Some(remote)) = (published?.unwrap_or_default(), remote?) else { return Ok(None) };
    let stale = remote.stale || juju.is_deaf_to(&relation);
    let host = if endpoint == names::ENDPOINT_SLURMDBD {
        match AccountingHost::decode(&juju.relation_get_remote(&relation, &remote)?) {
            Ok(None) => Said::Nothing,
            Ok(Some(data)) => Said::This(data.hostname),
            Err(error) => Said::Unusable(charm::log::chain(&error)),
        }
    } else {
        Said::Nothing
    };
    let asked = [names::ENDPOINT_SACKD, names::ENDPOINT_SLURMRESTD].contains(&endpoint);
    let acknowledges = asked && acknowledges(view, &relation, &remote.app)?;
    let copied = endpoint != names::ENDPOINT_SLURMRESTD || !acknowledges || {
        let own = juju.relation_get_unit(&relation, &view.ctx.unit)?;
        published.iter().all(|(key, value)| own.get(key) == Some(value))
    };
    let app = remote.app;
    Ok(Some(Follower { endpoint, relation, app, stale, published, host, acknowledges, copied }))
}

/// Says whether a unit of an application says which keys it has. All its units run one charm: the first that says so
/// speaks for all.
fn acknowledges(view: &View, relation: &RelationId, app: &AppName) -> Result<bool, Error> {
    for unit in view.juju.goal_state()?.remote_units(relation.endpoint()).iter().filter(|unit| unit.app() == *app) {
        let bag = view.juju.relation_get_remote_unit(relation, unit)?.unwrap_or_default();
        if matches!(KeyAcknowledgement::decode(&bag), Ok(Some(_))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// In a hook no more units are asked than these: each acknowledgement comes with a hook of its own. The retry timer
/// asks all.
const MOST_UNITS: usize = 64;

/// Looks at what the units of all other applications that have the key say about it, those excepted who are known to
/// have acknowledged it. Who exists is taken from the goal state: a machine that is off is there.
pub(super) fn acknowledgements(view: &View, known: &Facts) -> Result<Acknowledgements, Error> {
    let (juju, goal) = (&view.juju, view.juju.goal_state()?);
    let noted = known.rotation().ok().and_then(|noted| noted.known());
    let keys = known.keys().ok().and_then(|keys| keys.auth.as_ref());
    let has = |unit: &UnitName| noted.zip(keys).is_some_and(|(noted, keys)| noted.has(unit, keys));
    let mut units = Vec::new();
    for endpoint in names::FOLLOWERS.into_iter().chain([names::ENDPOINT_SLURMD]) {
        let there = goal.all_remote_units(endpoint);
        if there.is_empty() {
            continue;
        }
        for relation in juju.relations(&view.ctx, endpoint)? {
            let Some(Remote { app, .. }) = juju.remote(&view.ctx, &relation)? else { continue };
            let own = there.iter().filter(|unit| unit.app() == app && !has(unit));
            units.extend(own.map(|unit| (relation.clone(), unit.clone())));
        }
    }
    let most = if view.trigger() == Trigger::Retry { units.len() } else { MOST_UNITS.min(units.len()) };
    let unasked = units.split_off(most).into_iter().map(|(_, unit)| unit).collect();
    let said = each(units, |(relation, unit)| {
        let bag = juju.relation_get_remote_unit(&relation, &unit)?.unwrap_or_default();
        // What cannot be understood is no acknowledgement.
        let ids = KeyAcknowledgement::decode(&bag).unwrap_or_default().map(|said| said.ids);
        Ok::<_, Error>((unit, ids))
    });
    Ok(Acknowledgements { said: said.into_iter().collect::<Result<_, _>>()?, unasked })
}

fn data<E: std::error::Error>(app: &AppName, decoded: &Result<Option<ComputeData>, E>) -> RemoteData {
    // The partition of an application has its name, and Slurm has its own use for these two.
    let reserved = ["default", "all"].contains(&app.as_str());
    match decoded {
        Ok(None) => RemoteData::Nothing,
        Ok(Some(data)) if data.partition.name().as_str() != app.as_str() => {
            RemoteData::Unusable(format!("partition {}: expected {app}", data.partition.name()))
        }
        Ok(Some(data)) => RemoteData::Partition(data.partition.clone(), data.nodeset.clone()),
        Err(_) if reserved => RemoteData::Unusable(
            "Slurm reserves this name, so no partition can have it: deploy under another".to_owned(),
        ),
        Err(error) => RemoteData::Unusable(charm::log::chain(error)),
    }
}
