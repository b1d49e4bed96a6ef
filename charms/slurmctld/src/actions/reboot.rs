//! Reboots: what an operator asks for is queued here. The plan does the rest, in this dispatch and in later ones.

use super::{Act, ActionFailure, ActionResults, names, nodes, require_daemon};
use crate::plan::reboots::is_there;
use crate::reboots::{Reboots, Stage, Wish};
use serde::Deserialize;
use slurm_conf::NodeName;
use slurm_ops::scontrol::{self, NodeRecord};
use slurm_unit::actions::{NodeChoice, reason, refused};
use slurm_unit::note::{self, Noted};

#[derive(Debug, Deserialize)]
struct Reboot {
    nodes: String,
    #[serde(default = "yes")]
    asap: bool,
    #[serde(default = "one", rename = "max-unavailable")]
    max_unavailable: usize,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    cancel: bool,
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

pub(super) fn reboot(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Reboot = act.tools.action_get()?;
    let choice = NodeChoice::needed("nodes", &request.nodes)?;
    let why = reason(&request.reason)?;
    if request.max_unavailable == 0 {
        return Err(ActionFailure::refused("parameter `max-unavailable`: `0`: expected at least 1"));
    }
    require_daemon(act)?;
    if !act.view.juju.is_leader()? {
        let app = act.view.ctx.unit.app();
        return Err(ActionFailure::refused(format!("only the leader reboots nodes: `juju run {app}/leader reboot …`")));
    }
    let before = match note::read::<Reboots>(&act.view.host).map_err(ActionFailure::broken)? {
        Noted::Absent => Reboots::default(),
        Noted::Known(reboots) => reboots,
        Noted::Unreadable { why } => return Err(ActionFailure::refused(format!("repair or delete the note {why}"))),
    };
    let records = nodes::select(act, Some(&choice))?;
    let (after, results) = match request.cancel {
        true => cancel(&before, &records),
        false => {
            require_program(act)?;
            let wish = Wish { asap: request.asap, reason: why.to_owned() };
            let reboots = Reboots { max_unavailable: request.max_unavailable, ..before.clone() };
            queue(reboots, &wish, &records)?
        }
    };
    if after != before {
        match after.is_empty() {
            true => note::remove::<Reboots>(&act.hands.host),
            false => note::write(&act.hands.host, &after),
        }
        .map_err(ActionFailure::broken)?;
        act.settle().map_err(ActionFailure::broken)?;
    }
    Ok(results)
}

/// slurmctld takes no request without a program. A cluster that an earlier charm made may have none.
fn require_program(act: &Act<'_>) -> Result<(), ActionFailure> {
    let settings =
        scontrol::settings(&act.view.host).map_err(|error| refused("could not read the configuration", &error))?;
    if settings.get("RebootProgram").is_some() {
        return Ok(());
    }
    let (app, option) = (act.view.ctx.unit.app(), names::OPTION_PARAMETERS);
    Err(ActionFailure::refused(format!(
        "slurm.conf names no RebootProgram: add the line `RebootProgram=/usr/sbin/reboot` to option {option} of {app}"
    )))
}

/// Puts nodes at the end of the queue. Those that are in it stay where they are.
fn queue(mut reboots: Reboots, wish: &Wish, records: &[NodeRecord]) -> Result<(Reboots, ActionResults), ActionFailure> {
    let (mut queued, mut known, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        let Ok(name) = NodeName::new(record.name.as_str()) else { continue };
        if reboots.has(&name) {
            known.push(name.to_string());
        } else if is_there(record) {
            queued.push(name.to_string());
            reboots.waiting.push((name, wish.clone()));
        } else {
            skipped.push(format!("{name} is {}", record.state_text()));
        }
    }
    if queued.is_empty() && known.is_empty() {
        return Err(ActionFailure::refused(format!("none of these can be rebooted: {}", skipped.join(", "))));
    }
    let results = ActionResults::default()
        .with("status", if queued.is_empty() { "queued before" } else { "queued" })
        .with("nodes", queued.join(","))
        .with("queued-before", known.join(","))
        .with("skipped", skipped.join(", "));
    Ok((reboots, results))
}

/// Takes nodes out of the queue. A reboot that Slurm waits with is taken back by the plan, which knows the state that
/// the node had; whoever boots already is not waited for any more.
fn cancel(before: &Reboots, records: &[NodeRecord]) -> (Reboots, ActionResults) {
    let mut reboots = before.clone();
    let (mut cancelled, mut left) = (Vec::new(), Vec::new());
    for record in records {
        let Ok(name) = NodeName::new(record.name.as_str()) else { continue };
        let waiting = reboots.waiting.len();
        reboots.waiting.retain(|(own, _)| *own != name);
        if reboots.waiting.len() < waiting {
            cancelled.push(name.to_string());
        }
        match reboots.away.get_mut(&name) {
            Some(away) if record.has("REBOOT_ISSUED") || away.stage == Stage::Issued => {
                left.push(name.to_string());
                reboots.away.remove(&name);
            }
            Some(away) => {
                cancelled.push(name.to_string());
                away.stage = Stage::Cancelled;
            }
            None => {}
        }
    }
    let status = if cancelled.is_empty() && left.is_empty() { "none of these is queued" } else { "cancelled" };
    let results = ActionResults::default()
        .with("status", status)
        .with("nodes", cancelled.join(","))
        .with("not-awaited", left.join(","));
    (reboots, results)
}
