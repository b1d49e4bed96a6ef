//! Whole dispatches without Juju and without a machine: state in, event, state out.
//!
//! [`Model`] is a model of Juju in memory. It answers hook tools in Juju's words, commits what a dispatch wrote only if
//! that ends well, and refuses worlds that Juju could not produce: an option that the charm does not declare, an
//! endpoint that it does not have, application data written by a unit that does not lead. [`FakeMachine`] is a machine
//! with behaviour: packages that can be installed, services that start and stop. Its files are real ones in a directory
//! of their own, so that modes and owners and atomic replacement are what they are. [`FakeSlurm`] is a small Slurm for
//! all machines of a cluster: it takes up its configuration, registers nodes, and forgets what the real one forgets.
//! [`FakeStore`] is a directory that several machines mount, with a slurmctld on each, and with faults: it does not
//! answer, cannot be written, is full, or gone.
//!
//! A test dispatches hooks one by one ([`Model::dispatch`]), or puts units on machines ([`Model::host`]) and has hooks
//! come in Juju's order, and timers call, until all is at rest ([`Model::settle`]). `tests/cluster` has both charms
//! meet that way.
//!
//! A hook that pauses holds nobody else: [`Model::while_waiting`] says what happens meanwhile.
//!
//! A [`Knife`] ends a dispatch before any of its effects, to see what the next one makes of that.
//!
//! It is for tests only, and what passes here is not yet shown to work: whether Juju and Slurm really answer like this
//! is what the process and cluster tests are for.
//!
//! ```
//! use charm_testing::{Hook, Model};
//! use std::process::ExitCode;
//!
//! let model = Model::new();
//! let app = model.deploy("web", "config: {options: {greeting: {type: string, default: hello}}}")?;
//! let unit = model.add_unit(&app)?;
//! let hook = Hook::named("config-changed");
//! let done = model.dispatch(&unit, &[], &hook, |_ctx, tools| {
//!     let greeting = tools.config_get().map(|config| config.string("greeting").to_owned());
//!     assert_eq!(greeting.ok().as_deref(), Some("hello"));
//!     ExitCode::SUCCESS
//! })?;
//! assert!(done.succeeded && done.writes().is_empty());
//! assert!(model.set_option(&app, "greting", "hi".into()).is_err());
//! # Ok::<(), charm_testing::Impossible>(())
//! ```

#[cfg(test)]
mod controllers_tests;
mod hook;
#[cfg(test)]
mod job_tests;
mod knife;
mod machine;
mod metadata;
mod model;
#[cfg(test)]
mod model_tests;
mod reference;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod schedule_tests;
mod slurm;
#[cfg(test)]
mod slurm_tests;
mod store;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod subordinate_tests;
#[cfg(test)]
mod waiting_tests;

pub use hook::Hook;
pub use knife::Knife;
pub use machine::FakeMachine;
pub use metadata::declared;
pub use model::{Dispatched, Impossible, Model, Ran};
pub use reference::status_differences;
pub use slurm::{FakeJob, FakeSlurm};
pub use store::{FakeStore, Fault};
