//! Effects on the machine that a Slurm daemon lives on: packages, files, systemd, mounts, keys, and the talk with
//! Slurm itself.
//!
//! Everything starts from a [`Machine`], which says where files are and who runs programs; the real one is
//! [`Machine::new`], tests use a directory of their own. It hands out two views: a [`Host`] to look at and a
//! [`HostWriter`] to change. Each function takes the view that it needs, so the compiler keeps a look from changing
//! anything and a change from looking. Functions named `ensure_` may be called any number of times and tell whether
//! they changed something. "Could not ask" is always a value of its own: it never reads as "absent", "none" or zero.
//!
//! ```no_run
//! use slurm_conf::NodeName;
//! use slurm_ops::scontrol::{self, LocalJobs, NodeLookup};
//! use slurm_ops::Machine;
//!
//! let host = Machine::new().host();
//! let name = NodeName::new("compute-0")?;
//! match scontrol::node(&host, &name) {
//!     NodeLookup::Present(node) if node.is_usable() => println!("{name} takes jobs"),
//!     NodeLookup::Present(node) => println!("{name} is {}: {}", node.state_text(), node.reason),
//!     NodeLookup::Absent => println!("{name} is not known"),
//!     NodeLookup::Unreachable { why } => println!("nobody could be asked: {why}"),
//! }
//! // A node is empty only if slurmctld and the node itself both say so.
//! let queue = scontrol::jobs_on(&host, &name).map(|jobs| jobs.is_empty());
//! let empty = queue == Ok(true) && scontrol::local_jobs(&host, &name) == LocalJobs::Known(vec![]);
//! # drop(empty);
//! # Ok::<(), slurm_conf::NameError>(())
//! ```
//!
//! | to do what | where |
//! | --- | --- |
//! | run a program with a deadline | [`command`], the only place that starts one |
//! | replace a file atomically and durably, wherever it is | [`files`], [`store`] |
//! | install from where, hold, keep from being restarted by upgrades | [`source`], [`packages`], [`needrestart`] |
//! | services, drop-ins, timers, what a daemon complained about | [`systemd`], [`timer`], [`journal`] |
//! | nodes, partitions, jobs, reservations, reconfigure | [`scontrol`] |
//! | start options and detection of a compute node | [`slurmd`], [`hardware`], [`version`] |
//! | start options of a login node | [`sackd`] |
//! | the file of slurmdbd, and why it does not answer | [`slurmdbd`] |
//! | start options and user of the REST API | [`slurmrestd`] |
//! | keys of `auth/slurm` and `auth/jwt` | [`keys`] |
//! | a shared state directory: is it there, is it ours, who serves | [`mounts`], [`store`], [`sentinel`], [`heartbeat`] |
//! | no slurmctld where nothing can be saved | [`fence`] |
//!
//! # What it refuses to do
//!
//! It decides nothing and knows no Juju. It uses no shell, runs nothing without a deadline, and makes no key an
//! argument of a process. It does not reconfigure a slurmctld whose state directory cannot be written, because that
//! kills the daemon. It does not follow an answer of Slurm that it cannot read. Slurm speaks JSON v0.0.42 to it (24.11
//! and 26.05 both do), or its default if it has lost that.

pub mod address;
pub mod clock;
pub mod command;
pub mod connections;
mod defaults;
pub mod fence;
pub mod files;
pub mod hardware;
pub mod heartbeat;
pub mod hostname;
pub mod journal;
pub mod keys;
pub mod machine;
pub mod mounts;
pub mod needrestart;
pub mod packages;
pub mod room;
pub mod sackd;
pub mod scontrol;
pub mod sentinel;
pub mod slurmd;
pub mod slurmdbd;
pub mod slurmrestd;
pub mod source;
pub mod store;
pub mod systemd;
pub mod timer;
pub mod version;

pub use command::{Command, CommandError, Output};
pub use files::FileError;
pub use machine::{Host, HostWriter, Machine, MachineError};
pub use version::SlurmVersion;
