//! Accounting: slurmctld is told of slurmdbd, once slurmdbd is sure to know the cluster, and says what is kept for it.

use crate::condition::{Accounting as Trouble, Condition};
use crate::config::Situation;
use crate::config::managed_keys::accounting_host;
use crate::config::sources::ConfigSource;
use crate::extras::{Said, Wish};
use crate::facts::{Ask, Attempts, Facts, Follower};
use crate::names;
use crate::step::{Outcome, Step};
use slurm_conf::HostName;
use slurm_ops::slurmdbd::Reach;

/// Records that wait for a slurmdbd that answers: so many are no moment's work any more.
const MANY_RECORDS: u64 = 100;

/// Returns what slurm.conf is to say. A slurmdbd that slurmctld does not know yet comes in only after it has answered
/// in this dispatch: slurmctld serves nobody while it waits for the identity of its cluster.
pub(super) fn wish<'f>(facts: &'f Facts, attempts: &Attempts) -> Result<Wish<&'f HostName>, Ask> {
    let Ok(followers) = facts.followers() else { return Ok(Wish::Kept) };
    let Some(first) = of(followers).next() else { return Ok(Wish::Nothing) };
    let Said::This(host) = &first.host else { return Ok(Wish::Kept) };
    let known = accounting_host(&facts.configuration()?.accepted) == Some(host.as_str());
    let asked = matches!(attempts.outcome(is_question), Some(Outcome::Changed(Ok(()))));
    let noted = facts.neighbours().is_ok_and(|noted| noted.known().is_some_and(|noted| noted.wrote(host)));
    Ok(if known || (asked && noted) { Wish::This(host) } else { Wish::Kept })
}

fn of(followers: &[Follower]) -> impl Iterator<Item = &Follower> {
    followers.iter().filter(|one| one.endpoint == names::ENDPOINT_SLURMDBD)
}

fn is_question(step: &Step) -> bool {
    matches!(step, Step::AskSlurmdbd(_))
}

/// Decides what to do next about slurmdbd, beside the configuration.
pub(super) fn plan(
    situation: &Situation<'_>,
    facts: &Facts,
    attempts: &Attempts,
    conditions: &mut Vec<Condition>,
) -> Result<Vec<Step>, Ask> {
    let followers = facts.followers()?;
    let Some(first) = of(followers).next() else { return Ok(Vec::new()) };
    if of(followers).nth(1).is_some() {
        let apps = of(followers).map(|one| one.app.to_string()).collect();
        conditions.push(Condition::Accounting(Trouble::Several(apps)));
    }
    let app = || first.app.clone();
    let host = match &first.host {
        Said::This(host) => host,
        Said::Nothing => {
            conditions.push(Condition::Accounting(Trouble::NotReady(app())));
            return Ok(Vec::new());
        }
        Said::Unusable(why) => {
            conditions.push(Condition::UnusableData { app: app(), why: why.clone() });
            return Ok(Vec::new());
        }
    };
    if accounting_host(situation.accepted()) == Some(host.as_str()) {
        let recording = facts.recording()?;
        match recording.queued {
            queued if recording.reach != Reach::Answers => {
                conditions.push(Condition::Accounting(Trouble::Away(app(), queued)))
            }
            Some(queued) if queued >= MANY_RECORDS => {
                conditions.push(Condition::Accounting(Trouble::Behind(app(), queued)));
            }
            _ => {}
        }
        return Ok(Vec::new());
    }
    match attempts.outcome(is_question) {
        None => {
            let with = Situation { accounting: Wish::This(host), ..*situation };
            let text = with.with_only(&ConfigSource::Accounting).slurm.unwrap_or_default();
            Ok(vec![Step::AskSlurmdbd(text)])
        }
        Some(Outcome::Changed(Err(_))) => {
            conditions.push(Condition::Accounting(Trouble::Silent(app(), host.clone())));
            Ok(Vec::new())
        }
        Some(_) => {
            let noted = facts.neighbours()?.known().cloned().unwrap_or_default();
            // Known as the charm's own before it is written, so that it goes with the relation.
            if noted.wrote(host) {
                return Ok(Vec::new());
            }
            Ok(vec![Step::NoteNeighbours(noted.with_accounting(host))])
        }
    }
}
