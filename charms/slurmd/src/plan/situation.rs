//! What the stages of a plan have in common: how the node is, and how it should describe itself.

use super::daemon::stirred;
use super::{Planning, Tried};
use crate::facts::{Daemon, Facts, Identity, Question};
use crate::node::description;
use crate::node::hardware::Hardware;
use crate::node::lifecycle::{BootNote, NodeNote};
use crate::node::reregistration::{Phase, Progress, is_in_place};
use crate::options::FirstState;
use crate::step::Step;
use slurm_conf::Node;
use slurm_ops::journal;
use slurm_ops::scontrol::NodeLookup;
use slurm_unit::service::Running;

/// How the node is.
pub struct Situation<'a> {
    pub facts: &'a Facts,
    pub identity: &'a Identity,
    /// None: it cannot be read, so that nothing may be done about the description.
    pub note: Option<&'a NodeNote>,
    pub daemon: &'a Daemon,
    /// How the next start of slurmd describes this node.
    pub conf_on_disk: Option<&'a Node>,
    pub lookup: &'a NodeLookup,
    pub hardware: Option<Hardware>,
    /// What the machine has was looked for in this dispatch, and has to be noted.
    pub detected_now: bool,
    /// How the node should describe itself. None: that cannot be known now.
    pub desired: Option<Node>,
}

/// Without a running slurmd no command of Slurm works on this machine.
pub(super) static NOT_RUNNING: NodeLookup = NodeLookup::Unreachable { why: String::new() };

impl<'a> Situation<'a> {
    /// Puts the facts together.
    pub fn of(facts: &'a Facts) -> Planning<Self> {
        let (identity, daemon) = (facts.identity()?, facts.daemon()?);
        let up = daemon.running == Running::Up;
        if up && facts.glance()?.is_none() {
            facts.need(&[Question::Node, Question::PartitionState])?;
        }
        let lookup = if up { facts.seen()? } else { &NOT_RUNNING };
        let note = facts.note()?.node.as_ref().ok();
        let (hardware, detected_now) = hardware(facts, daemon, note)?;
        let own = facts.start_file()?.options.as_ref().filter(|options| options.name == identity.node);
        let conf_on_disk = own.map(|options| &options.conf);
        let mut situation =
            Self { facts, identity, note, daemon, conf_on_disk, lookup, hardware, detected_now, desired: None };
        situation.desired = note.and_then(|note| situation.described(&note.requested));
        if matches!(lookup, NodeLookup::Present(_)) && !situation.is_described() {
            situation.lookup = facts.node()?;
        }
        Ok(situation)
    }

    /// Returns how the node should describe itself if the operator asked for `requested`.
    pub fn described(&self, requested: &Node) -> Option<Node> {
        let hardware = self.hardware.as_ref()?.expected();
        Some(description::desired(&self.identity.unit.app(), hardware, requested, self.conf_on_disk))
    }

    /// Says whether the node is described as it should be, and nothing is to be noted of what its record has. Only then
    /// a glance at the record is enough.
    fn is_described(&self) -> bool {
        let on_disk = self.conf_on_disk.map(description::open);
        let at_rest = |note: &NodeNote| note.reregistration().is_none() && note.set_weight.is_none();
        on_disk.is_some() && on_disk == self.desired && self.note.is_some_and(at_rest)
    }

    /// Says whether the description on the disk is what a request of the operator makes of this machine.
    pub fn is_on_disk(&self, requested: &Node) -> bool {
        let on_disk = self.conf_on_disk.map(description::open);
        on_disk.is_some() && on_disk == self.described(requested)
    }

    /// Says what is to be done next about the description.
    pub fn phase(&self) -> Planning<Phase> {
        let (Some(desired), Some(on_disk), Some(note)) = (&self.desired, self.conf_on_disk, self.note) else {
            return Ok(Phase::Settled);
        };
        let running = (self.daemon.running == Running::Up).then(|| self.daemon.with.as_ref().map(|with| &with.conf));
        let progress = Progress {
            desired,
            on_disk,
            running,
            lookup: self.lookup,
            change: note.reregistration(),
            set_weight: note.set_weight,
        };
        progress.phase(|| self.facts.occupancy())
    }

    /// Returns the description for the next start of slurmd. None until it is known. A node that is registered keeps
    /// its description: Slurm ignores another one until the record is deleted.
    pub fn start_conf(&self) -> Planning<Option<Node>> {
        let Some(on_disk) = self.conf_on_disk else { return self.first_conf() };
        let change = self.note.and_then(NodeNote::reregistration);
        let (Some(desired), Some(change)) = (&self.desired, change) else {
            return self.unchanged(on_disk).map(Some);
        };
        Ok(Some(match self.phase()? {
            Phase::Describe | Phase::Delete | Phase::Register => change.first_conf(desired),
            Phase::Restore | Phase::Forget => desired.clone(),
            Phase::Abort { .. } => Node::from_config(&change.from).unwrap_or_else(|_| on_disk.clone()),
            _ if self.is_illegible()? => change.first_conf(desired),
            _ => on_disk.clone(),
        }))
    }

    /// The first start of a new node. What its state has to be must be known, or jobs could slip in.
    fn first_conf(&self) -> Planning<Option<Node>> {
        let Some(desired) = &self.desired else { return Ok(None) };
        if let Some(change) = self.note.and_then(NodeNote::reregistration) {
            return Ok(Some(change.first_conf(desired)));
        }
        Ok(match &self.facts.options()?.first_state {
            Ok(FirstState::Idle) => Some(desired.clone()),
            Ok(FirstState::Down { reason }) => Some(description::closed(desired, "DOWN", reason)),
            Err(_) => None,
        })
    }

    /// Without a change under way: what is on the disk, unless nobody is there to be confused by another description.
    fn unchanged(&self, on_disk: &Node) -> Planning<Node> {
        let running = self.daemon.running == Running::Up;
        Ok(match (self.lookup, &self.desired) {
            // The state of a first registration has done its work.
            (NodeLookup::Present(record), Some(desired)) if is_in_place(on_disk, desired, record) => desired.clone(),
            (NodeLookup::Present(_), _) => description::open(on_disk),
            (NodeLookup::Absent, Some(desired)) if running => {
                let mut conf = desired.clone();
                for key in ["State", "Reason"] {
                    if let Some(value) = on_disk.get(key) {
                        conf.set(key, value).expect("invariant: it was a value before");
                    }
                }
                conf
            }
            (_, Some(desired)) if self.is_illegible()? => desired.clone(),
            _ => on_disk.clone(),
        })
    }

    /// Says whether slurmd does not start because of its own description: it says so itself, or may mean it and never
    /// ran with this one. Somebody was at the file, or the operator asked for what has been taken back since.
    fn is_illegible(&self) -> Planning<bool> {
        if self.daemon.running != Running::Failing {
            return Ok(false);
        }
        let Some(complaint) = self.facts.complaint()? else { return Ok(false) };
        let works = self.note.is_some_and(|note| self.is_on_disk(&note.last_working));
        Ok(journal::blames_description(complaint) || (journal::may_blame_description(complaint) && !works))
    }

    /// Says whether the key on the disk may be newer than the running daemon. A reload of slurmd is not seen here.
    pub fn has_newer_key(&self) -> Planning<bool> {
        let times = self.facts.key_written()?.zip(self.daemon.started);
        Ok(times.is_some_and(|(written, started)| written.as_secs() >= started))
    }

    /// Returns when the key was written, in nanoseconds, if slurmd has not loaded it: it was written after the start,
    /// or in this dispatch, and slurmd was not reloaded for it.
    pub fn new_key(&self, boot: &BootNote, attempts: &Tried) -> Planning<Option<u64>> {
        let times = self.facts.key_written()?.zip(self.daemon.started);
        let Some((written, started)) = times else { return Ok(None) };
        let stamp = u64::try_from(written.as_nanos()).unwrap_or(u64::MAX);
        let now = attempts.made_since(|step| matches!(step, Step::WriteKey { .. }), stirred);
        // systemd tells whole seconds, so a key that was written in the second of the start counts as loaded.
        let later = written.as_secs() > started && boot.key != Some(stamp);
        Ok((now || later || boot.key_is_due).then_some(stamp))
    }
}

/// Returns what the machine has, and whether that was looked for in this dispatch. It is looked for once for each
/// start of slurmd.
fn hardware(facts: &Facts, daemon: &Daemon, note: Option<&NodeNote>) -> Planning<(Option<Hardware>, bool)> {
    let Some(note) = note else { return Ok((None, false)) };
    let noted = note.detection.as_ref();
    let baseline = noted.map(|detection| detection.baseline.clone());
    let same_start = |invocation: &str| daemon.running == Running::Up && invocation == daemon.invocation;
    let found = noted.map(|detection| detection.found.clone());
    if noted.is_some_and(|detection| same_start(&detection.invocation)) {
        return Ok((found.map(|found| Hardware { found, baseline }), false));
    }
    Ok(match facts.detected()? {
        Some(node) => (Some(Hardware { found: node.clone(), baseline }), true),
        // What the machine had may still be known, and is not new.
        None => (found.map(|found| Hardware { found, baseline }), false),
    })
}
