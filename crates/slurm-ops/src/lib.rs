//! Effects on the machine that a Slurm daemon lives on: packages, files, systemd, keys, and the talk with Slurm itself.
//!
//! Everything starts from a [`Machine`], which says where files are and where programs are looked for; the real one is
//! [`Machine::new`], tests use a directory of their own. Functions named `ensure_` may be called any number of times and tell
//! whether they changed something. "Could not ask" is always a value of its own: it never reads as "absent", "none" or zero.
//!
//! This crate decides nothing and knows no Juju. It starts processes in one place only ([`command`]), each with a deadline, none
//! through a shell, and no key is ever an argument of one.

pub mod command;
pub mod files;
pub mod hardware;
pub mod heartbeat;
pub mod hostname;
pub mod keys;
pub mod machine;
pub mod mounts;
pub mod needrestart;
pub mod packages;
pub mod scontrol;
pub mod sentinel;
pub mod slurmd;
pub mod systemd;
pub mod timer;
pub mod version;

pub use command::{Command, CommandError, Output};
pub use files::FileError;
pub use machine::Machine;
pub use version::SlurmVersion;
