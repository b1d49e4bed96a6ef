//! What situations are made of, and what of them a step may teach.

use crate::facts::Question;
use slurm_ops::keys::{AuthKey, JwtKey, KeySet};

/// The authentication key of this id, alone.
pub(crate) fn keys(id: &str) -> KeySet {
    KeySet::of(AuthKey::new(id, &"k".repeat(64)).unwrap())
}

pub(crate) fn token_key(letter: &str) -> JwtKey {
    JwtKey::new(&letter.repeat(64)).unwrap()
}

/// What a step may teach. A secret that was just added, and a grant, show in the next dispatch only.
pub(super) const QUESTIONS: [Question; 48] = [
    Question::Rotation,
    Question::Acknowledgements,
    Question::Followers,
    Question::Recording,
    Question::Neighbours,
    Question::Aside,
    Question::Call,
    Question::Leader,
    Question::Options,
    Question::Leaving,
    Question::Siblings,
    Question::Peer,
    Question::Mount,
    Question::Members,
    Question::ConfigurationLink,
    Question::Heartbeat,
    Question::Fence,
    Question::Started,
    Question::Answers,
    Question::Computes,
    Question::PortOpen,
    Question::RetryTimer,
    Question::Now,
    Question::FreshSuffix,
    Question::Host,
    Question::Installation,
    Question::ServiceFiles,
    Question::Keys,
    Question::Store,
    Question::StateProblem,
    Question::PartitionsSaved,
    Question::Configuration,
    Question::Rejections,
    Question::Overrides,
    Question::Unit,
    Question::Complaint,
    Question::ShutOut,
    Question::PartitionSettings,
    Question::NodeSettings,
    Question::Load,
    Question::Applications,
    Question::Reboots,
    Question::Extras,
    Question::GoalState,
    Question::JobRecords,
    Question::Nodes,
    Question::Reservations,
    Question::RejectedHost,
];
