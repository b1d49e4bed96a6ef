//! Adoption: a cluster on the store whose application is gone becomes this application's. Only the marker changes here;
//! the plan does the rest, in this dispatch and in later ones.

use super::{Act, ActionFailure, ActionResults, names};
use crate::config::files::{Config, Files, Included};
use crate::controllers::{self, Beat, Serving};
use crate::facts::{Facts, Question, StateDirectory};
use crate::identity::{self, Identity, of_note};
use charm::text::shown;
use serde::Deserialize;
use slurm_ops::{fence, files, heartbeat, sentinel, store};
use std::time::Duration;

#[derive(Debug, Deserialize)]
struct Adopt {
    cluster: String,
    #[serde(default)]
    force: bool,
}

pub(super) fn adopt(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Adopt = act.tools.action_get()?;
    let (view, app) = (&act.view, act.view.ctx.unit.app());
    if !view.juju.is_leader()? {
        let text = format!("only the leader adopts a cluster: `juju run {app}/leader {} …`", names::ACTION_ADOPT);
        return Err(ActionFailure::refused(text));
    }
    let mut facts = Facts::default();
    let questions = [
        Question::Call,
        Question::Store,
        Question::Aside,
        Question::ConfigurationLink,
        Question::Options,
        Question::Peer,
        Question::Host,
    ];
    act.know(&mut facts, &questions).map_err(ActionFailure::broken)?;
    let found = foreign(&facts, &request.cluster).expect("invariant: all of it was asked")?;
    let results = ActionResults::default().with("cluster", request.cluster.as_str());
    let Some(before) = found else {
        act.settle().map_err(ActionFailure::broken)?;
        return Ok(results.with("adopted-from", "nobody: it is this application's already"));
    };
    let alive = signs_of_life(act, &facts)?;
    if !alive.is_empty() && !request.force {
        let text = format!(
            "the cluster is alive: {}. Stop it first, or adopt it with force=true, which ends every slurmctld there",
            alive.join(", ")
        );
        return Err(ActionFailure::refused(text));
    }
    let home = &facts.call().expect("invariant: it was asked").home;
    sentinel::replace(&act.hands.host, names::STATE_DIRECTORY, &format!("{} {home}", request.cluster))
        .map_err(ActionFailure::broken)?;
    tracing::warn!("adopted cluster {} of {before}", request.cluster);
    act.settle().map_err(ActionFailure::broken)?;
    Ok(results.with("adopted-from", before))
}

/// Returns whose the cluster of this name on the store is. None: this application's.
fn foreign(facts: &Facts, cluster: &str) -> Result<Result<Option<String>, ActionFailure>, crate::facts::Ask> {
    let refuse = |why: String| Ok(Err(ActionFailure::refused(why)));
    let (store, home) = (facts.store()?, &facts.call()?.home);
    if !identity::is_on_store(facts)? || Identity::store_problem(store).is_some() {
        let option = names::OPTION_NETWORK_STATE;
        return refuse(format!(
            "there is no store to adopt a cluster from: set option {option}, and have a file system mounted at {}",
            names::CHECKPOINT_DIRECTORY
        ));
    }
    let StateDirectory::Of(note) = &store.state else {
        return refuse(format!("{} has no cluster marker: nothing can be adopted", names::STATE_DIRECTORY));
    };
    let Some((name, whose)) = of_note(note) else {
        return refuse(format!("the cluster marker in {} names no cluster: `{}`", names::STATE_DIRECTORY, shown(note)));
    };
    if name != cluster {
        return refuse(format!("the cluster on the store is `{}`, and not `{}`", shown(name), shown(cluster)));
    }
    let own = facts.peer()?.as_ref().and_then(|peer| peer.cluster_name.as_ref());
    if let Some(own) = own.filter(|own| own.as_str() != cluster) {
        return refuse(format!("this application is cluster {own}: only one without a cluster can adopt {cluster}"));
    }
    Ok(Ok((whose != home).then(|| whose.to_owned())))
}

/// Says which controllers of the cluster have given a sign of life lately: by the heartbeat, or by what their fences
/// write once a second. A cluster with a single controller has no heartbeat.
fn signs_of_life(act: &Act<'_>, facts: &Facts) -> Result<Vec<String>, ActionFailure> {
    let host = &act.view.host;
    let path = format!("{}/slurm.conf{}", names::SHARED_CONFIGURATION, names::ACCEPTED);
    let slurm = files::read_text(host, &path).map_err(ActionFailure::broken)?;
    let config = Config::read(Files { slurm, ..Files::default() }, &Included::default());
    let (listed, timeout, now) = (config.controllers(), controllers::timeout(&config), host.now());
    let beat = heartbeat::heartbeat(host, names::STATE_DIRECTORY).map_err(ActionFailure::broken)?;
    let beat = beat.map(|heartbeat| Beat { heartbeat, counts_as_accepted: true });
    let serves = match controllers::serving(&listed, beat.as_ref(), now, timeout) {
        Serving::Host(name) => Some(format!("slurmctld of {name} serves")),
        Serving::Unknown => Some("a slurmctld serves".to_owned()),
        Serving::Nobody => None,
    };
    let own = facts.host().map(|host| host.name.to_string()).unwrap_or_default();
    let entries = store::list(host, names::CHECKPOINT_DIRECTORY).map_err(ActionFailure::broken)?.unwrap_or_default();
    let probes = entries.iter().filter_map(|entry| Some((entry.name.strip_prefix(fence::PROBE)?, entry.modified)));
    let fresh = probes.filter(|(name, written)| *name != own && is_fresh(*written, now, timeout));
    let fences = fresh.map(|(name, _)| format!("the fence of {} writes to the store", shown(name)));
    Ok(serves.into_iter().chain(fences).collect())
}

fn is_fresh(written: Duration, now: u64, timeout: Duration) -> bool {
    now.saturating_sub(written.as_secs()) <= timeout.as_secs()
}
