//! What every charm of a Slurm daemon does, written once: here Juju (`charm`) and the machine (`slurm-ops`) meet.
//!
//! | a charm needs | where |
//! | --- | --- |
//! | what a look and a step are handed | [`View`], [`Hands`] |
//! | packages, hold, needrestart, workload version | [`install`] |
//! | how systemd treats the daemon, and the call when it fails | [`service`] |
//! | to be called again by itself | [`retry`] |
//! | where its controllers are, their key, and what is missing of both | [`follower`] |
//! | which keys it has loaded, for the controllers to know | [`acknowledgement`] |
//! | what is in the secrets with the keys of a cluster | [`key_secret`] |
//! | what a drain says that a charm made because a node leaves | [`leaving`] |
//! | notes that outlive a dispatch, a refresh and a reboot | [`note`] |
//! | an option that cannot be used, in one form | [`options`] |
//! | requests about nodes and their jobs | [`actions`] |
//! | its parts put together for the runtime | [`wire_charm!`] |
//!
//! A charm says who it is in a [`Profile`]. It takes the facts, steps and conditions of these modules into its own
//! enums, so that its plan stays the one place in which the order of all steps is visible.
//!
//! # What it refuses to do
//!
//! It knows no relation but the one that most of these charms have, to the controllers. It decides nothing that differs
//! between two charms.

pub mod acknowledgement;
pub mod actions;
pub mod error;
pub mod follower;
pub mod install;
pub mod key_secret;
pub mod leaving;
pub mod note;
pub mod options;
pub mod profile;
pub mod retry;
pub mod service;
pub mod view;
mod wiring;

pub use error::Error;
pub use leaving::LEAVING_REASON;
pub use options::OptionProblem;
pub use profile::Profile;
pub use view::{Hands, Trigger, View};
