//! What the controllers of one cluster tell each other.

use crate::acknowledgement::KeyAcknowledgement;
use crate::databag::{Databag, DecodeError, loose_string, written};
use serde_json::json;
use slurm_conf::{ClusterName, HostName};

const CLUSTER_NAME: &str = "cluster_name";
const RESTART_SIGNAL: &str = "restart_signal";
const HOSTNAME: &str = "hostname";
const LEFT: &str = "left";
const STARTED_WITH: &str = "started_with";
/// A number, a time or an identifier; it is compared and never used for anything else.
const LONGEST_SIGNAL: usize = 64;

/// Application bag of slurmctld on its peer relation, written by the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerApp {
    /// Name of the cluster. Never changes once it is set: the state directory is tied to it.
    pub cluster_name: ClusterName,
    /// Changes whenever the other controllers have to look at the shared configuration again; empty if they never had
    /// to.
    pub restart_signal: String,
}

impl PeerApp {
    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        written([(CLUSTER_NAME, json!(self.cluster_name.as_str())), (RESTART_SIGNAL, json!(self.restart_signal))])
    }

    /// Reads the bag. `None`: the cluster has no name yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(name) = loose_string(bag, CLUSTER_NAME)? else { return Ok(None) };
        let cluster_name = ClusterName::new(name.as_str())
            .map_err(|error| DecodeError::malformed(CLUSTER_NAME, &name, error.to_string()))?;
        let restart_signal = signal(bag, RESTART_SIGNAL)?.unwrap_or_default();
        Ok(Some(Self { cluster_name, restart_signal }))
    }
}

fn signal(bag: &Databag, key: &'static str) -> Result<Option<String>, DecodeError> {
    let Some(signal) = loose_string(bag, key)? else { return Ok(None) };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    if signal.len() > LONGEST_SIGNAL || !signal.bytes().all(plain) {
        let problem = format!("not a word of at most {LONGEST_SIGNAL} letters, digits, `_`, `-`, `.` and `:`");
        return Err(DecodeError::malformed(key, &signal, problem));
    }
    Ok(Some(signal))
}

/// Unit bag of a slurmctld unit on its peer relation, written by the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerUnit {
    /// Short host name of the machine: what `SlurmctldHost` lists.
    pub hostname: HostName,
    /// The unit is being removed, has handed over, and its slurmctld is stopped for good.
    pub left: bool,
    /// The authentication keys that slurmctld of the unit was started with.
    pub keys: Option<KeyAcknowledgement>,
    /// The `restart_signal` of what slurmctld of the unit was started with.
    pub started_with: Option<String>,
}

impl PeerUnit {
    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        let mut bag = written([(HOSTNAME, json!(self.hostname.as_str()))]);
        if self.left {
            bag.extend(written([(LEFT, json!(true))]));
        }
        bag.extend(self.keys.iter().flat_map(KeyAcknowledgement::encode));
        bag.extend(self.started_with.iter().flat_map(|signal| written([(STARTED_WITH, json!(signal))])));
        bag
    }

    /// Reads the bag. `None`: the unit has not said its name yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(name) = loose_string(bag, HOSTNAME)? else { return Ok(None) };
        let (left, keys) = (bag.get(LEFT).is_some_and(|left| left == "true"), KeyAcknowledgement::decode(bag)?);
        let started_with = signal(bag, STARTED_WITH)?;
        HostName::new(name.as_str())
            .map(|hostname| Some(Self { hostname, left, keys, started_with }))
            .map_err(|error| DecodeError::malformed(HOSTNAME, &name, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bag(key: &str, value: &str) -> Databag {
        Databag::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn both_bags_go_both_ways() {
        let app = PeerApp { cluster_name: ClusterName::new("lab").unwrap(), restart_signal: "7".to_owned() };
        assert_eq!(app.encode()["cluster_name"], "\"lab\"");
        assert_eq!(PeerApp::decode(&app.encode()), Ok(Some(app)));
        for left in [false, true] {
            let keys = left.then(|| KeyAcknowledgement { ids: vec!["k1".to_owned()] });
            let (hostname, started_with) = (HostName::new("juju-c9fc6f-1").unwrap(), left.then(|| "7".to_owned()));
            let unit = PeerUnit { hostname, left, keys, started_with };
            assert_eq!(unit.encode()["hostname"], "\"juju-c9fc6f-1\"");
            assert_eq!(unit.encode().contains_key("left"), left);
            assert_eq!(PeerUnit::decode(&unit.encode()), Ok(Some(unit)));
        }
    }

    #[test]
    fn older_writers_left_the_quotes_away() {
        assert_eq!(PeerUnit::decode(&bag("hostname", "c1")).unwrap().unwrap().hostname.as_str(), "c1");
        assert_eq!(PeerApp::decode(&bag("cluster_name", "lab")).unwrap().unwrap().cluster_name.as_str(), "lab");
    }

    #[test]
    fn nothing_yet_is_no_error() {
        assert_eq!(PeerUnit::decode(&Databag::new()), Ok(None));
        assert_eq!(PeerApp::decode(&bag("cluster_name", "\"\"")), Ok(None));
    }

    #[test]
    fn nonsense_is_an_error() {
        for value in ["\"a b\"", "a/b", "[\"c1\"]", "\"unbalanced"] {
            let error = PeerUnit::decode(&bag("hostname", value)).unwrap_err();
            assert!(error.to_string().starts_with("databag key `hostname`"), "{error}");
        }
        let host = bag("hostname", "c1");
        assert!(PeerUnit::decode(&host.into_iter().chain(bag("started_with", "\"a b\"")).collect()).is_err());
    }
}
