//! What an agent for metrics, an OCI runtime and a mail integrator are owed, beside the configuration.

use crate::condition::Condition;
use crate::config::Situation;
use crate::extras::{Extras, Mail, PasswordAnswer, Said};
use crate::facts::Attempts;
use crate::mail::MailStep;
use crate::metrics;
use crate::step::{Outcome, Step};

/// Decides what to do next about them. Before there is a cluster there is nothing to do.
pub(super) fn plan(
    situation: &Situation<'_>,
    extras: &Extras,
    attempts: &Attempts,
    conditions: &mut Vec<Condition>,
) -> Vec<Step> {
    if !situation.accepted().exists() {
        return Vec::new();
    }
    runtimes(extras, conditions);
    let mut steps = mail(situation, extras, attempts, conditions);
    steps.extend(agent(situation, extras, conditions));
    steps
}

/// The agent is told by each unit for itself.
fn agent(situation: &Situation<'_>, extras: &Extras, conditions: &mut Vec<Condition>) -> Option<Step> {
    let agent = extras.agent.as_ref()?;
    let obstacle = metrics::obstacle(situation);
    let data = metrics::agent_data(agent.origin.as_ref()?, obstacle.is_none());
    conditions.extend(obstacle.map(Condition::NoMetrics));
    (!data.is_in(&agent.published)).then(|| Step::PublishMetrics(agent.relation.clone(), data.encode()))
}

fn runtimes(extras: &Extras, conditions: &mut Vec<Condition>) {
    for runtime in &extras.runtimes {
        match &runtime.said {
            Said::Unusable(why) => {
                conditions.push(Condition::UnusableData { app: runtime.app.clone(), why: why.clone() });
            }
            Said::Nothing => conditions.push(Condition::SilentApplication(runtime.app.clone())),
            Said::This(_) => {}
        }
        if runtime.stale {
            conditions.push(Condition::StaleRelation(runtime.app.clone()));
        }
    }
    if extras.runtimes.len() > 1 {
        let apps = extras.runtimes.iter().map(|runtime| runtime.app.to_string()).collect();
        conditions.push(Condition::SeveralRuntimes(apps));
    }
}

/// Each controller sends mail while it serves, so each has the program. The way back is the other way round: slurmctld
/// calls the program no more before its configuration goes.
fn mail(situation: &Situation<'_>, extras: &Extras, attempts: &Attempts, conditions: &mut Vec<Condition>) -> Vec<Step> {
    let program = &extras.program;
    let Some(Mail { app, stale, said }) = &extras.mail else {
        let called = situation.accepted().calls_our_mail_program();
        return if program.is_ours() && !called { vec![Step::Mail(MailStep::Remove)] } else { Vec::new() };
    };
    if *stale {
        conditions.push(Condition::StaleRelation(app.clone()));
    }
    match said {
        Said::Nothing => conditions.push(Condition::SilentApplication(app.clone())),
        Said::Unusable(why) => conditions.push(Condition::UnusableData { app: app.clone(), why: why.clone() }),
        Said::This((_, PasswordAnswer::Awaited)) => conditions.push(Condition::AwaitsMailPassword(app.clone())),
        Said::This(_) => {}
    }
    let Some(wanted) = extras.mail_conf() else { return Vec::new() };
    if program.is_taken() {
        conditions.push(Condition::MailConfTaken);
        return Vec::new();
    }
    if !program.installed {
        let failed = attempts.outcome(|step| *step == Step::Mail(MailStep::Install));
        if let Some(Outcome::Install(Some(obstacle))) = failed {
            conditions.push(Condition::MailInstall(obstacle.clone()));
            return Vec::new();
        }
        return vec![Step::Mail(MailStep::Install)];
    }
    let differs = program.conf.as_ref() != Some(&wanted) || !program.private;
    if differs { vec![Step::Mail(MailStep::Configure(wanted))] } else { Vec::new() }
}
