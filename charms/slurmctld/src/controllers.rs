//! The controllers of the cluster: which hosts slurm.conf lists, in which order, and which of them serves. Pure.

use crate::config::files::Config;
use crate::config::managed_keys::accounting_host;
use crate::facts::{Ask, Facts};
use crate::identity;
use crate::keys::{Keys, LoadedKeys};
use crate::names;
use charm::UnitName;
use serde::{Deserialize, Serialize};
use slurm_conf::HostName;
use slurm_interface::digest;
use slurm_ops::heartbeat::Heartbeat;
use slurm_unit::note::Note;
use std::time::Duration;

/// How long a standby waits for a sign of life before it takes over, if slurm.conf does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// A unit of this application, as Juju's controller and the peer relation have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub unit: UnitName,
    /// What it has published. None: nothing yet.
    pub host: Option<HostName>,
    /// It is being removed.
    pub dying: bool,
    /// It says that it has handed over and that its slurmctld is stopped for good.
    pub left: bool,
    /// The ids of the keys that its slurmctld was started with, as it says.
    pub keys: Option<Vec<String>>,
    /// The signal of what its slurmctld was started with, as it says.
    pub started_with: Option<String>,
}

impl Member {
    /// Says whether its slurmctld is known to have been started with another list, another slurmdbd or other keys than
    /// those of now. It has to be restarted before it takes over: with another list it would end in that moment.
    pub fn is_outdated(&self, now: &Started) -> bool {
        self.started_with.is_some() && self.started_with != now.signal()
    }
}

/// Which controller serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// This one.
    Host(HostName),
    /// There is a single controller, or none has given a sign of life lately.
    Nobody,
    /// The last sign of life counts hosts in a list that has changed since.
    Unknown,
}

impl Serving {
    /// Says whether it is this host.
    pub fn is(&self, host: &HostName) -> bool {
        matches!(self, Self::Host(serving) if serving == host)
    }
}

/// A sign of life of the controller that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    pub heartbeat: Heartbeat,
    /// It came after the accepted configuration was written, so that it counts hosts as that does.
    pub counts_as_accepted: bool,
}

/// The hosts that slurm.conf lists and should list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers {
    /// As slurmctld has accepted them.
    pub listed: Vec<HostName>,
    /// As they should be.
    pub wanted: Vec<HostName>,
    /// The host that serves.
    pub serving: Serving,
    /// Units that are to stay and have not published their host. While there is one, no line is deleted.
    pub unknown: Vec<UnitName>,
    /// Hosts without a unit that stays, whose lines cannot go yet.
    pub departing: Vec<HostName>,
    /// The cluster was adopted, and slurmctld has accepted no list of this application's yet.
    pub adopted: bool,
    /// One of its old controllers may serve, or this one cannot be listed: slurmctld must not start.
    pub held: bool,
}

impl Controllers {
    /// Finds them out. Only the leader asks who the members are, and only where there can be several.
    pub fn find(facts: &Facts) -> Result<Self, Ask> {
        let (configuration, own) = (facts.configuration()?, &facts.host()?.name);
        let configs = [&configuration.accepted, &configuration.live];
        let listed = configs.into_iter().map(Config::controllers).find(|hosts| !hosts.is_empty()).unwrap_or_default();
        let begun = if listed.is_empty() { vec![own.clone()] } else { listed.clone() };
        let mut found = Self {
            listed,
            wanted: begun,
            serving: Serving::Nobody,
            unknown: Vec::new(),
            departing: Vec::new(),
            adopted: false,
            held: false,
        };
        if !identity::is_on_store(facts)? {
            return Ok(found);
        }
        if found.listed.len() > 1 {
            let beat = facts.heartbeat()?.as_ref();
            found.serving = serving(&found.listed, beat, *facts.now()?, timeout(&configuration.accepted));
        }
        if !*facts.leader()? {
            return Ok(found);
        }
        // The leader publishes the name of the cluster once slurmctld has accepted a list of this application's. Signs
        // of life are counted by the accepted list: between the start and then, our own would pass for an old
        // controller's.
        let unnamed = facts.peer()?.as_ref().is_some_and(|peer| peer.cluster_name.is_none());
        found.adopted = unnamed && !found.listed.is_empty() && !found.listed.contains(own);
        if found.adopted {
            found.wanted.clear();
        }
        if let Some(members) = facts.members()? {
            found.change(members, own);
        }
        let begun = configuration.live.rank_of(own).is_some();
        found.held = found.adopted && !begun && (found.serving != Serving::Nobody || !found.wanted.contains(own));
        Ok(found)
    }

    /// Appends the hosts that are new, and deletes those that are gone: nothing else ever changes.
    fn change(&mut self, members: &[Member], own: &HostName) {
        let mut staying: Vec<&Member> = members.iter().filter(|member| !member.dying).collect();
        staying.sort_by_key(|member| member.unit.number());
        let of_a_unit = |host: &HostName| staying.iter().any(|member| member.host.as_ref() == Some(host));
        self.unknown = staying.iter().filter(|own| own.host.is_none()).map(|own| own.unit.clone()).collect();
        let stopped = |host: &HostName| {
            let mut own = members.iter().filter(|member| member.host.as_ref() == Some(host));
            own.all(|member| member.left) && !self.serving.is(host) && self.serving != Serving::Unknown
        };
        let (kept, gone): (Vec<HostName>, Vec<HostName>) =
            self.wanted.drain(..).partition(|host| of_a_unit(host) || !self.unknown.is_empty() || !stopped(host));
        self.departing = kept.iter().filter(|host| !of_a_unit(host)).cloned().collect();
        self.wanted = kept;
        // Of several that join at once the one with the lower number comes first, also if it is slower. The leader does
        // not wait: it may be the only one left.
        let known = staying.iter().position(|member| member.host.is_none()).unwrap_or(staying.len());
        let hosts = staying.iter().enumerate().filter_map(|(place, member)| Some((place, member.host.as_ref()?)));
        for (_, host) in hosts.filter(|(place, host)| *place < known || *host == own) {
            if !self.wanted.contains(host) {
                self.wanted.push(host.clone());
            }
        }
        // A list without anybody would end the cluster.
        if self.wanted.is_empty() {
            self.wanted = gone;
        }
    }
}

/// Returns the host that serves: whose sign of life is not older than a standby would wait for.
pub fn serving(listed: &[HostName], beat: Option<&Beat>, now: u64, timeout: Duration) -> Serving {
    let fresh = |beat: &&Beat| now.saturating_sub(beat.heartbeat.at) <= timeout.as_secs();
    let Some(Beat { heartbeat, counts_as_accepted }) = beat.filter(fresh) else { return Serving::Nobody };
    let host = usize::try_from(heartbeat.controller).ok().and_then(|rank| listed.get(rank));
    match host.filter(|_| *counts_as_accepted) {
        Some(host) => Serving::Host(host.clone()),
        None => Serving::Unknown,
    }
}

/// Returns how long a standby waits for a sign of life before it takes over.
pub fn timeout(config: &Config) -> Duration {
    let seconds = config.conf.as_ref().and_then(|conf| conf.get("SlurmctldTimeout")?.parse().ok());
    seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs)
}

/// A note of this machine: what its slurmctld was started with that one that stands by keeps. With another list in the
/// file it shuts itself down when it takes over; it records nothing if it knew no slurmdbd when it was started; and it
/// never loads another key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    hosts: Vec<String>,
    /// The host of slurmdbd.
    #[serde(default)]
    accounting: Option<String>,
    /// None: the note is of a charm that could not rotate keys.
    #[serde(default)]
    pub keys: Option<LoadedKeys>,
}

impl Started {
    pub fn with(hosts: &[HostName], accounting: Option<&str>, keys: Option<LoadedKeys>) -> Self {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        Self { hosts, accounting: accounting.map(str::to_owned), keys }
    }

    /// Returns what a slurmctld is started with now.
    pub fn now(accepted: &Config, keys: &Keys) -> Self {
        Self::with(&accepted.controllers(), accounting_host(accepted), Some(keys.loaded()))
    }

    /// Returns a word that is another one for another list of controllers, another slurmdbd and other keys. None: this
    /// is the note of a charm that could not rotate keys.
    pub fn signal(&self) -> Option<String> {
        let Self { hosts, accounting, keys } = self;
        let LoadedKeys { auth, jwt } = keys.as_ref()?;
        Some(digest(&format!("{hosts:?} {accounting:?} {auth:?} {jwt:?}")))
    }

    /// Says whether this is the note of an earlier charm, which knew nothing of keys, and differs in nothing else.
    pub fn lacks_only_keys_of(&self, current: &Self) -> bool {
        self.keys.is_none() && self.hosts == current.hosts && self.accounting == current.accounting
    }
}

impl Note for Started {
    const PATH: &'static str = names::STARTED;
    const VERSION: u64 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostName {
        name.parse().unwrap()
    }

    fn hosts(names: &str) -> Vec<HostName> {
        names.split_whitespace().map(host).collect()
    }

    /// `0:c1`: unit 0 has published c1; `1`: nothing yet; `2:c3-`: it is being removed; `2:c3--`: and has left.
    fn members(text: &str) -> Vec<Member> {
        let member = |word: &str| {
            let (left, dying) = (word.ends_with("--"), word.ends_with('-'));
            let (number, name) = word.trim_end_matches('-').split_once(':').map_or((word, None), |(a, b)| (a, Some(b)));
            let unit = format!("slurmctld/{}", number.trim_end_matches('-')).parse().unwrap();
            Member { unit, host: name.map(host), dying, left, keys: None, started_with: None }
        };
        text.split_whitespace().map(member).collect()
    }

    fn wanted(listed: &str, serving: Option<&str>, seen: &str) -> String {
        let (unknown, departing) = (Vec::new(), Vec::new());
        let serving = serving.map_or(Serving::Nobody, |name| Serving::Host(host(name)));
        let listed = hosts(listed);
        let mut found =
            Controllers { wanted: listed.clone(), listed, serving, unknown, departing, adopted: false, held: false };
        found.change(&members(seen), &host("c1"));
        found.wanted.iter().map(HostName::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_new_host_is_appended_and_the_order_stays() {
        assert_eq!(wanted("c1", Some("c1"), "0:c1 1:c2"), "c1 c2");
        assert_eq!(wanted("c2 c1", Some("c2"), "0:c1 1:c2"), "c2 c1");
        assert_eq!(wanted("c1", Some("c1"), "0:c1 10:c9 2:c3"), "c1 c3 c9");
    }

    #[test]
    fn a_host_waits_for_those_of_lower_units_unless_it_leads() {
        assert_eq!(wanted("c1", Some("c1"), "0:c1 1 2:c3"), "c1");
        assert_eq!(wanted("c1", Some("c1"), "0:c1 1:c2 2:c3"), "c1 c2 c3");
        assert_eq!(wanted("c8 c9", None, "0:c8 1 2:c3 3:c1"), "c8 c9 c1");
    }

    #[test]
    fn a_host_without_a_unit_is_deleted() {
        assert_eq!(wanted("c1 c2 c3", Some("c1"), "0:c1 2:c3"), "c1 c3");
        assert_eq!(wanted("c1 c2", Some("c2"), "1:c2"), "c2");
    }

    #[test]
    fn a_unit_that_has_published_nothing_holds_every_delete() {
        assert_eq!(wanted("c1 c2 c3", None, "3"), "c1 c2 c3");
        assert_eq!(wanted("c1 c2 c3", Some("c3"), "2:c3 3"), "c1 c2 c3");
    }

    #[test]
    fn a_new_leader_of_a_dead_application_appends_itself() {
        assert_eq!(wanted("c1 c2", None, "0:c1 1:c2 2:c3"), "c1 c2 c3");
        assert_eq!(wanted("c1 c2", None, "2:c3"), "c3");
    }

    #[test]
    fn a_host_that_serves_stays_until_it_has_handed_over() {
        assert_eq!(wanted("c1 c2", Some("c1"), "0:c1- 1:c2"), "c1 c2");
        assert_eq!(wanted("c1 c2", Some("c2"), "0:c1- 1:c2"), "c1 c2");
        assert_eq!(wanted("c1 c2", Some("c2"), "0:c1-- 1:c2"), "c2");
        assert_eq!(wanted("c1 c2", Some("c1"), "1:c2"), "c1 c2");
    }

    #[test]
    fn nobody_is_never_a_list() {
        assert_eq!(wanted("c1", Some("c1"), ""), "c1");
        assert_eq!(wanted("c1", None, "0:c1--"), "c1");
    }

    #[test]
    fn a_sign_of_life_names_the_host_that_serves_while_it_is_fresh() {
        let serves = |at, controller, counts_as_accepted| {
            let beat = Beat { heartbeat: Heartbeat { at, controller }, counts_as_accepted };
            serving(&hosts("c1 c2"), Some(&beat), 100, Duration::from_secs(10))
        };
        assert_eq!(serves(95, 1, true), Serving::Host(host("c2")));
        assert_eq!(serves(90, 0, true), Serving::Host(host("c1")));
        assert_eq!(serves(89, 0, true), Serving::Nobody);
        assert_eq!(serves(100, 2, true), Serving::Unknown);
        assert_eq!(serves(100, 1, false), Serving::Unknown);
        assert_eq!(serving(&hosts("c1 c2"), None, 100, Duration::from_secs(10)), Serving::Nobody);
    }
}
