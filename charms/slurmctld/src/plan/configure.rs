//! Brings the files and slurmctld to what is wanted, one proven stage at a time.
//!
//! All changes are tried together, with one reconfigure. If that is refused they are tried one by one, so that what is wrong costs
//! nothing but itself; what was refused for itself is left out until it is changed.

use super::compose::{
    first_partition, ground, is_damaged, is_sound, lacking, refusal, suspect, suspects, wanted, with_only,
};
use super::{Step, identity, options};
use crate::configuration::{Change, Files, Refusals, Refused, Suspect};
use crate::observe::{Daemon, Observed};

/// What is said about a file that was cut short.
const DAMAGED: &str = "it was cut short";

/// Nothing is started without its keys and its state.
pub(super) fn can_start(seen: &Observed) -> bool {
    seen.machine.auth_key && seen.machine.jwt_key && identity::state_is_ready(seen)
}

pub(super) fn configure(seen: &Observed) -> Vec<Step> {
    if !can_start(seen) || options::holds_back(seen) {
        return Vec::new();
    }
    let machine = &seen.machine;
    if let Some(refused) = rejected(seen) {
        return vec![restore(seen, refused)];
    }
    if let Some(kept) = outdated(seen) {
        return vec![Step::ForgetRefusals(kept)];
    }
    let unproven = machine.live != machine.accepted;
    // A file that somebody else wrote is proven by itself before anything is built on it, unless it takes something away that
    // we depend on. slurmctld may only seem silent: no command of Slurm works beside a file that its parser cannot read.
    let up = matches!(machine.daemon, Daemon::Answering { .. } | Daemon::Silent { .. });
    let complete = machine.live.cgroup.is_some() && machine.live.gres.is_some();
    let answering = matches!(machine.daemon, Daemon::Answering { .. });
    let sound = is_sound(seen);
    let superseded = unproven && !answering && is_superseded(seen);
    if up && unproven && complete && (machine.accepted.slurm.is_some() || answering) && sound && !superseded {
        return reconfigure(seen);
    }
    // A daemon that does not run for another reason must not make a new configuration look guilty: first it runs, then it changes.
    if (seen.leader && (answering || !sound || superseded)) || machine.live.slurm.is_none() {
        let step = offer(seen, unproven);
        if step.is_some() {
            return step.into_iter().collect();
        }
    }
    match &machine.daemon {
        Daemon::Stopped | Daemon::Failing { .. } if !seen.tried.start && (!seen.alarmed || seen.tried.restored) => {
            vec![Step::StartDaemon]
        }
        Daemon::Answering { .. } if unproven || machine.unresolved => reconfigure(seen),
        // A reconfigure leaves the partitions of before in the state directory, and a takeover restores those.
        Daemon::Answering { .. } if !machine.partitions_saved && !seen.tried.save && machine.unsaved.is_none() => {
            first_partition(&machine.accepted).map(Step::SavePartitions).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Says whether the file in place is one of ours that nobody wants any more. If it is what keeps slurmctld from answering, it must not have
/// to be proven first.
fn is_superseded(seen: &Observed) -> bool {
    let by_hand = || suspects(seen, &seen.machine.live).iter().any(|suspect| suspect.change == Change::File);
    seen.machine.accepted.slurm.is_some() && wanted(seen) != seen.machine.live && !by_hand()
}

/// Returns what of the refusals is still about what is wanted now, if that is not all. Whoever takes back what was refused and asks for it
/// again has seen to the reason, so it is tried again.
fn outdated(seen: &Observed) -> Option<Refusals> {
    let refusals = &seen.machine.refusals;
    if !seen.leader || *refusals == Refusals::default() {
        return None;
    }
    let mut kept = refusals.clone();
    kept.changes.retain(|_, (refused, _)| *refused == suspect(seen, refused.change.clone()));
    kept.last = kept.last.filter(|last| last.files == seen.machine.live || last.files == wanted(seen));
    (kept != *refusals).then_some(kept)
}

/// Says whether a reconfigure would cost nobody anything.
fn may_reconfigure(seen: &Observed) -> bool {
    seen.tried.at_risk.is_empty() && seen.machine.unsaved.is_none()
}

/// Returns the next configuration to try, if the one in place is not the one that is wanted.
fn offer(seen: &Observed, unproven: bool) -> Option<Step> {
    let machine = &seen.machine;
    if !may_reconfigure(seen) {
        return None;
    }
    let wanted = wanted(seen);
    let last = machine.refusals.last.as_ref();
    let Some(refused) = last.filter(|last| last.files == wanted && last.version == version(seen)) else {
        return (machine.live != wanted).then(|| offered(seen, wanted));
    };
    let ground = ground(seen);
    if unproven && machine.live != ground && machine.live.slurm.is_some() {
        // What the file in place leads to is refused, so that file goes as well.
        return Some(restore(seen, refused.clone()));
    }
    let suspects = suspects(seen, &wanted);
    // What was blamed and is wanted all the same is all there is: a new cluster that this Slurm does not take. The status says so.
    let blame = |suspect: &Suspect| {
        refusal(seen, &suspect.change).is_none().then(|| Step::Blame(suspect.clone(), refused.reason.clone()))
    };
    if let [only] = suspects.as_slice() {
        return blame(only);
    }
    let single = suspects.iter().map(|suspect| (suspect, with_only(seen, &suspect.change)));
    let next = single.into_iter().find(|(_, files)| *files != ground && *files != wanted);
    next.map(|(suspect, files)| Step::OfferConfiguration {
        files,
        version: version(seen),
        suspects: vec![suspect.clone()],
    })
    .or_else(|| {
        // Not to be told apart: the first one stands for all.
        suspects.first().and_then(blame)
    })
}

fn offered(seen: &Observed, files: Files) -> Step {
    let suspects = suspects(seen, &files);
    Step::OfferConfiguration { files, version: version(seen), suspects }
}

/// The Slurm whose verdict counts.
fn version(seen: &Observed) -> String {
    seen.machine.version.clone().unwrap_or_default()
}

fn restore(seen: &Observed, refused: Refused) -> Step {
    let suspects = suspects(seen, &refused.files);
    Step::RestoreConfiguration { refused, suspects, back: ground(seen) }
}

fn reconfigure(seen: &Observed) -> Vec<Step> {
    match seen.tried.reconfigure {
        None if may_reconfigure(seen) => {
            let suspects = suspects(seen, &seen.machine.live);
            vec![Step::Reconfigure { version: version(seen), suspects, back: ground(seen) }]
        }
        None | Some(_) => Vec::new(),
    }
}

/// Returns the configuration in place if it is one that slurmctld does not take and a better one is known.
fn rejected(seen: &Observed) -> Option<Refused> {
    let machine = &seen.machine;
    machine.live.slurm.as_ref()?;
    if machine.live == machine.accepted || machine.live == ground(seen) {
        return None;
    }
    let refused =
        |reason: &str| Refused { files: machine.live.clone(), version: version(seen), reason: reason.to_owned() };
    if is_damaged(seen) {
        return Some(refused(DAMAGED));
    }
    if let Some(why) = lacking(seen) {
        return Some(refused(&why));
    }
    match (&machine.refusals.last, &machine.daemon) {
        // A hook that died between noting the refusal and putting the old file back.
        (Some(refused), _) if refused.files == machine.live && refused.version == version(seen) => {
            Some(refused.clone())
        }
        (_, Daemon::Failing { reason }) => Some(refused(reason)),
        _ => None,
    }
}
