//! The reboots that an operator has asked for: a note, so that a kill, a restart of slurmctld and a refresh of the
//! charm leave no node rebooted twice, and none in another state than it had.

use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::{NameError, NodeName};
use slurm_ops::scontrol::NodeRecord;
use slurm_unit::note::Note;
use std::collections::BTreeMap;

/// Nodes that wait for their reboot, and nodes that are away for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Reboots {
    /// So many nodes may be away at once.
    pub max_unavailable: usize,
    /// So many have ended since there were none.
    pub ended: usize,
    /// In the order in which they were asked for.
    pub waiting: Vec<(NodeName, Wish)>,
    pub away: BTreeMap<NodeName, Away>,
}

/// How a node is to be rebooted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// It takes no new jobs from now on.
    pub asap: bool,
    /// What the operator says, for those who see the node drained. May be empty.
    pub reason: String,
}

/// A node whose turn has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    pub wish: Wish,
    pub stage: Stage,
    /// When it came to this stage, in seconds since 1970.
    pub since: u64,
    /// When its machine had booted before.
    pub booted: u64,
    /// When its slurmd was started before; every reconfigure does.
    pub started: u64,
    pub before: Before,
}

/// How far the reboot of a node has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Slurm is to be asked. Whether it was, its own record tells.
    Begun,
    /// Slurm has written down that the node is to be rebooted, and waits for the jobs there.
    Requested,
    /// slurmd was told to.
    Issued,
    /// It is over, and the node is to be as it was.
    Returning,
    /// The same, and a drain that is to be there has been taken away with the reboot.
    Redraining,
    /// The operator has taken the reboot back.
    Cancelled,
}

/// How a node was before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    pub down: bool,
    pub drained: bool,
    /// Somebody drained it only while it was away. Slurm forgets that.
    #[serde(default)]
    pub meanwhile: bool,
    /// Why, if it was one of these.
    pub reason: String,
}

impl Before {
    pub fn of(record: &NodeRecord) -> Self {
        let (down, drained) = (record.has("DOWN"), record.has("DRAIN"));
        let reason = if down || drained { record.reason.clone() } else { String::new() };
        Self { down, drained, meanwhile: false, reason }
    }

    /// Says whether it took jobs.
    pub fn is_in_service(&self) -> bool {
        !self.down && !self.drained
    }
}

impl Wish {
    /// Returns the reason that Slurm is given for a node that was in service.
    pub fn given_reason(&self) -> &str {
        if self.reason.is_empty() { "reboot" } else { &self.reason }
    }
}

impl Reboots {
    /// Says whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.away.is_empty()
    }

    /// Says whether a node is in here, whatever its turn.
    pub fn has(&self, node: &NodeName) -> bool {
        self.away.contains_key(node) || self.waiting.iter().any(|(own, _)| own == node)
    }

    /// Says what becomes of a node, for whoever looks at it. None: nothing.
    pub fn remark(&self, node: &str, now: u64) -> Option<String> {
        if let Some((_, away)) = self.away.iter().find(|(own, _)| own.as_str() == node) {
            let length = slurm_unit::actions::duration(now.saturating_sub(away.since));
            return Some(match away.stage {
                Stage::Begun | Stage::Requested => format!("reboot requested {length} ago"),
                Stage::Issued => format!("rebooting for {length}"),
                Stage::Returning | Stage::Redraining => "rebooted".to_owned(),
                Stage::Cancelled => "reboot cancelled".to_owned(),
            });
        }
        self.waiting.iter().any(|(own, _)| own.as_str() == node).then(|| "reboot queued".to_owned())
    }
}

/// The form of the note.
#[derive(Clone, Serialize, Deserialize)]
struct Fields {
    max_unavailable: usize,
    ended: usize,
    waiting: Vec<(String, Wish)>,
    away: BTreeMap<String, Away>,
}

impl TryFrom<Fields> for Reboots {
    type Error = NameError;

    fn try_from(fields: Fields) -> Result<Self, NameError> {
        let waiting = fields.waiting.into_iter().map(|(name, wish)| Ok((NodeName::new(name)?, wish)));
        let away = fields.away.into_iter().map(|(name, away)| Ok((NodeName::new(name)?, away)));
        Ok(Self {
            max_unavailable: fields.max_unavailable,
            ended: fields.ended,
            waiting: waiting.collect::<Result<_, NameError>>()?,
            away: away.collect::<Result<_, NameError>>()?,
        })
    }
}

impl From<Reboots> for Fields {
    fn from(reboots: Reboots) -> Self {
        let Reboots { max_unavailable, ended, waiting, away } = reboots;
        let waiting = waiting.into_iter().map(|(name, wish)| (name.to_string(), wish)).collect();
        let away = away.into_iter().map(|(name, away)| (name.to_string(), away)).collect();
        Self { max_unavailable, ended, waiting, away }
    }
}

impl Note for Reboots {
    const PATH: &'static str = names::REBOOTS;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_unit::note::{Noted, parse, render};

    #[test]
    fn the_note_holds_the_queue_and_what_each_node_was() {
        let wish = Wish { asap: true, reason: "kernel".to_owned() };
        let before = Before { drained: true, reason: "disk".to_owned(), ..Before::default() };
        let away = Away {
            wish: wish.clone(),
            stage: Stage::Issued,
            since: 100,
            booted: 7,
            started: 9,
            before: before.clone(),
        };
        let note = Reboots {
            max_unavailable: 2,
            ended: 1,
            waiting: vec![("compute-1".parse().unwrap(), wish)],
            away: [("compute-0".parse().unwrap(), away)].into(),
        };
        let text = r#"{"version":1,"max_unavailable":2,"ended":1,
            "waiting":[["compute-1",{"asap":true,"reason":"kernel"}]],
            "away":{"compute-0":{"wish":{"asap":true,"reason":"kernel"},"stage":"issued","since":100,"booted":7,
            "started":9,"before":{"down":false,"drained":true,"meanwhile":false,"reason":"disk"}}}}"#;
        let fields: serde_json::Value = serde_json::from_str(&render(&note)).unwrap();
        assert_eq!(fields, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(parse::<Reboots>(text), Noted::Known(note.clone()));
        assert_eq!(note.remark("compute-0", 231).as_deref(), Some("rebooting for 0:02:11"));
        assert_eq!(note.remark("compute-1", 231).as_deref(), Some("reboot queued"));
        assert_eq!(note.remark("compute-2", 231), None);
    }

    #[test]
    fn a_note_that_names_no_node_is_not_read_as_none() {
        let text =
            r#"{"version":1,"max_unavailable":1,"ended":0,"waiting":[["a b",{"asap":true,"reason":""}]],"away":{}}"#;
        assert!(parse::<Reboots>(text).problem().is_some());
    }
}
