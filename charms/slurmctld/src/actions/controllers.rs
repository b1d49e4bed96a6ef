//! The controllers: who answers, who serves, how the store does, and a takeover as a drill.

use super::{Act, ActionFailure, ActionResults, require_daemon};
use crate::config::files::Configuration;
use crate::controllers::{self, Beat, Member, Serving, Started};
use crate::facts::look::{heartbeat, members};
use crate::keys::Keys;
use charm::text::{shown, table};
use serde::Deserialize;
use serde_json::{Value, json};
use slurm_conf::HostName;
use slurm_ops::fence::{self, FenceState};
use slurm_ops::scontrol::{self, ControllerPing};
use slurm_unit::actions::refused;
use slurm_unit::note;

/// How long control is away when a primary that returns takes it back, as measured.
const RETURN: &str = "about a second";

/// The controllers as they are now.
struct Seen {
    listed: Vec<HostName>,
    members: Vec<Member>,
    answers: Vec<ControllerPing>,
    serving: Serving,
    /// How long ago the one that serves gave a sign of life, in seconds.
    age: Option<u64>,
    /// What a slurmctld is started with now.
    now: Started,
}

impl Seen {
    fn look(act: &Act<'_>) -> Result<Self, ActionFailure> {
        let view = &act.view;
        let configuration = Configuration::look(&view.host).map_err(ActionFailure::broken)?;
        let listed = configuration.accepted.controllers();
        let members = members(view).map_err(ActionFailure::broken)?.unwrap_or_default();
        let answers = scontrol::ping(&view.host).map_err(|error| refused("", &error))?;
        let beat: Option<Beat> = heartbeat(view).map_err(ActionFailure::broken)?;
        let (now, timeout) = (view.host.now(), controllers::timeout(&configuration.accepted));
        let serving = match listed.as_slice() {
            [only] => Serving::Host(only.clone()),
            _ => controllers::serving(&listed, beat.as_ref(), now, timeout),
        };
        let age = beat.filter(|_| listed.len() > 1).map(|beat| now.saturating_sub(beat.heartbeat.at));
        let keys = Keys::look(&view.host).map_err(ActionFailure::broken)?;
        let now = Started::now(&configuration.accepted, &keys);
        Ok(Self { listed, members, answers, serving, age, now })
    }

    fn responds(&self, host: &HostName) -> bool {
        self.answers.iter().any(|answer| answer.hostname == host.as_str() && answer.responding)
    }

    fn serves(&self, host: &HostName) -> bool {
        matches!(&self.serving, Serving::Host(serving) if serving == host)
    }

    fn is_outdated(&self, host: &HostName) -> bool {
        self.members.iter().any(|member| member.host.as_ref() == Some(host) && member.is_outdated(&self.now))
    }

    fn unit(&self, host: &HostName) -> Option<String> {
        self.members.iter().find(|member| member.host.as_ref() == Some(host)).map(|member| member.unit.to_string())
    }
}

pub(super) fn show(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    require_daemon(act)?;
    let seen = Seen::look(act)?;
    let entry = |(rank, host): (usize, &HostName)| {
        json!({
            "rank": rank, "host": host.as_str(), "unit": seen.unit(host), "responding": seen.responds(host),
            "serving": seen.serves(host),
        })
    };
    let entries: Vec<Value> = seen.listed.iter().enumerate().map(entry).collect();
    let word = |value: &Value| match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let columns = ["rank", "host", "unit", "responding", "serving"];
    let rows: Vec<Vec<String>> =
        entries.iter().map(|entry| columns.iter().map(|column| word(&entry[*column])).collect()).collect();
    let mut results = ActionResults::default();
    results = results.with("controllers", Value::from(entries).to_string()).with("table", table(&columns, &rows));
    if let Some(age) = seen.age {
        results = results.with("heartbeat-age", format!("{age} s"));
    }
    // As the fence of this unit has seen the store. One that does not run says nothing.
    if let Some(state) = fence::look(&act.view.host).filter(|state| !state.stale) {
        let FenceState { median_ms, worst_ms, free, total, .. } = state;
        let mib = |bytes: u64| bytes / (1024 * 1024);
        results = results.with("store-latency", format!("{median_ms} ms, at worst {worst_ms} ms"));
        results = results.with("store-free", format!("{} of {} MiB", mib(free), mib(total)));
    }
    Ok(results)
}

#[derive(Debug, Deserialize)]
struct Takeover {
    #[serde(default)]
    controller: String,
}

/// Has a standby take over. The one that serves is ended by Slurm; the charm there starts it again, and a primary then
/// takes control back: Slurm knows no other way.
pub(super) fn takeover(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Takeover = act.tools.action_get()?;
    require_daemon(act)?;
    // The rounds restart a standby of this unit that is outdated, if it is time for that.
    let mut seen = Seen::look(act)?;
    let noted = note::read::<Started>(&act.view.host).map_err(ActionFailure::broken)?;
    if noted.known().is_some_and(|noted| *noted != seen.now) {
        act.settle().map_err(ActionFailure::broken)?;
        seen = Seen::look(act)?;
    }
    let (rank, host) = chosen(&seen, &request.controller)?;
    let before = match &seen.serving {
        Serving::Host(host) => host.to_string(),
        Serving::Nobody | Serving::Unknown => "unknown".to_owned(),
    };
    scontrol::take_over(&act.hands.host, rank).map_err(|error| refused("the takeover failed: ", &error))?;
    let warning = format!(
        "slurmctld of {before} is started again by its charm; if it is the primary it takes control back, which costs \
         {RETURN} without control"
    );
    Ok(ActionResults::default().with("served-before", before).with("serves", host.as_str()).with("warning", warning))
}

/// Returns the controller that is to take over: the one that is named, or the first standby that answers and is not
/// outdated.
fn chosen<'s>(seen: &'s Seen, named: &str) -> Result<(usize, &'s HostName), ActionFailure> {
    let refuse = |why: String| Err(ActionFailure::refused(why));
    let named = named.trim();
    let is_named = |host: &HostName| host.as_str() == named || seen.unit(host).as_deref() == Some(named);
    let others = seen.listed.iter().enumerate().filter(|(_, host)| !seen.serves(host));
    let found = match named {
        "" => {
            let mut answering = others.filter(|(_, host)| seen.responds(host)).peekable();
            let first = answering.peek().copied();
            answering.find(|(_, host)| !seen.is_outdated(host)).or(first)
        }
        _ => seen.listed.iter().enumerate().find(|(_, host)| is_named(host)),
    };
    match found {
        None if named.is_empty() => refuse("no other controller answers that could take over".to_owned()),
        None => refuse(format!("parameter `controller`: `{}`: expected a host or unit of a controller", shown(named))),
        Some((_, host)) if seen.serves(host) => refuse(format!("{host} serves already")),
        // Slurm's takeover is a request to a backup.
        Some((0, host)) => refuse(format!("{host} is the primary, which takes control by itself when it is started")),
        Some((_, host)) if !seen.responds(host) => refuse(format!("{host} does not answer: see its status")),
        Some((_, host)) if seen.is_outdated(host) => refuse(format!(
            "slurmctld of {host} was started with another list of controllers, another slurmdbd or other keys, and \
             has to be restarted before it serves: its charm does so within seconds, try again"
        )),
        Some(found) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(serving: &str, silent: &[&str]) -> Seen {
        let listed: Vec<HostName> = ["c1", "c2", "c3"].iter().map(|name| name.parse().unwrap()).collect();
        let answer = |host: &HostName| ControllerPing {
            hostname: host.to_string(),
            responding: !silent.contains(&host.as_str()),
        };
        let answers = listed.iter().map(answer).collect();
        let unit = "slurmctld/7".parse().unwrap();
        let host = Some("c3".parse().unwrap());
        let member = Member { unit, host, dying: false, left: false, keys: None, started_with: None };
        let (serving, now) = (Serving::Host(serving.parse().unwrap()), Started::with(&listed, None, None));
        Seen { listed, members: vec![member], answers, serving, age: None, now }
    }

    fn choice(seen: &Seen, named: &str) -> Result<String, String> {
        let failure = |failure: ActionFailure| match failure {
            ActionFailure::Refused(why) => why,
            other => format!("{other:?}"),
        };
        chosen(seen, named).map(|(rank, host)| format!("{rank} {host}")).map_err(failure)
    }

    #[test]
    fn the_first_standby_that_answers_takes_over() {
        assert_eq!(choice(&seen("c1", &[]), "").unwrap(), "1 c2");
        assert_eq!(choice(&seen("c1", &["c2"]), "").unwrap(), "2 c3");
    }

    #[test]
    fn a_standby_that_would_end_is_passed_over_or_refused() {
        let outdated = |hosts: &[&str]| {
            let mut seen = seen("c1", &[]);
            let [member] = &seen.members[..] else { panic!("{:?}", seen.members) };
            let before = Some("before".to_owned());
            let member = |host: &&str| Member {
                host: Some(host.parse().unwrap()),
                started_with: before.clone(),
                ..member.clone()
            };
            seen.members = hosts.iter().map(member).collect();
            seen
        };
        assert_eq!(choice(&outdated(&["c2"]), "").unwrap(), "2 c3");
        for (outdated, named) in [(outdated(&["c2"]), "c2"), (outdated(&["c2", "c3"]), "")] {
            let refusal = choice(&outdated, named).unwrap_err();
            assert!(refusal.starts_with("slurmctld of c2 was started with another list"), "{refusal}");
        }
    }

    #[test]
    fn a_controller_is_named_by_host_or_unit() {
        assert_eq!(choice(&seen("c1", &[]), "c3").unwrap(), "2 c3");
        assert_eq!(choice(&seen("c1", &[]), "slurmctld/7").unwrap(), "2 c3");
    }

    #[test]
    fn what_cannot_take_over_is_refused_by_name() {
        for (serving, silent, named, why) in [
            ("c1", &["c2", "c3"][..], "", "no other controller answers"),
            ("c1", &[], "c9", "parameter `controller`: `c9`"),
            ("c2", &[], "c2", "c2 serves already"),
            ("c2", &[], "c1", "c1 is the primary"),
            ("c1", &["c2"], "c2", "c2 does not answer"),
        ] {
            let refusal = choice(&seen(serving, silent), named).unwrap_err();
            assert!(refusal.starts_with(why), "{refusal}");
        }
    }
}
