//! A controller that leaves. On a store others take over from it; without one the cluster ends with its only
//! controller, and nothing is done.

use super::Plan;
use crate::Slurmctld;
use crate::condition::Condition;
use crate::controllers::{Controllers, Started};
use crate::facts::{Ask, Attempts, Facts, Question};
use crate::identity::{self, Identity};
use crate::step::Step;
use charm::runtime::Planned;
use slurm_interface::PeerUnit;
use slurm_ops::scontrol::ControllerPing;

/// Hands over, stops what runs here for good, and tells the leader. Each dispatch takes from facts how far it is.
pub(super) fn leave(facts: &Facts, attempts: &Attempts) -> Planned<Slurmctld> {
    let rest = || Ok(Plan::rest(vec![Condition::Leaving]));
    if !identity::is_on_store(facts)? {
        return rest();
    }
    facts.need(&[Question::Host, Question::Unit, Question::Peer])?;
    let stopped = |step: &Step| *step == Step::StopDaemon;
    let unit = facts.unit()?;
    // One that has failed stays so in the eyes of systemd. Only what runs, or is to be started again, is stopped.
    if (unit.is_active() || unit.is_starting() || unit.sub.starts_with("auto-restart")) && !attempts.made(stopped) {
        return Ok(Plan::steps(vec![hand_over(facts, attempts)?.unwrap_or(Step::StopDaemon)]));
    }
    let Some(peer) = facts.peer()? else { return rest() };
    let host = facts.host()?.name.clone();
    if peer.own.as_ref().is_none_or(|own| own.left) {
        return rest();
    }
    let bag = PeerUnit { hostname: host, left: true, keys: None, started_with: None }.encode();
    Ok(Plan::steps(vec![Step::PublishPeerUnit(peer.relation.clone(), bag)]))
}

/// Returns the takeover by another controller, if this one serves and another one answers that would not end in that
/// moment. One that is to stay comes first.
fn hand_over(facts: &Facts, attempts: &Attempts) -> Result<Option<Step>, Ask> {
    let made = attempts.made(|step| matches!(step, Step::HandOver { .. }));
    if made || Identity::store_problem(facts.store()?).is_some() || facts.siblings()?.is_empty() {
        return Ok(None);
    }
    let (controllers, own) = (Controllers::find(facts)?, &facts.host()?.name);
    if !controllers.serving.is(own) {
        return Ok(None);
    }
    facts.need(&[Question::Answers, Question::Members, Question::Keys])?;
    let now = Started::now(&facts.configuration()?.accepted, facts.keys()?);
    let members = facts.members()?.as_deref().unwrap_or_default();
    let member = |ping: &ControllerPing| {
        members.iter().find(|member| member.host.as_ref().is_some_and(|host| host.as_str() == ping.hostname))
    };
    let answers = facts.answers()?.answer().map(Vec::as_slice).unwrap_or_default();
    let fit = |ping: &ControllerPing| {
        let other = ping.responding && ping.hostname != own.as_str();
        other && member(ping).is_none_or(|member| !member.left && !member.is_outdated(&now))
    };
    let others = || answers.iter().enumerate().filter(|(_, ping)| fit(ping));
    let other = others().find(|(_, ping)| member(ping).is_none_or(|member| !member.dying)).or_else(|| others().next());
    Ok(other.map(|(rank, ping)| Step::HandOver { rank, host: ping.hostname.clone() }))
}
