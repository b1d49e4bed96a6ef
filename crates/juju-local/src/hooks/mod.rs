//! Hooks: which one a unit runs next, what it sees while it runs, and what becomes of it afterwards. All of it is
//! decided on the model alone, so that it can be tested without a machine.

mod commit;
mod context;
mod environment;
mod schedule;
mod steps;
mod teardown;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub use commit::commit;
pub use context::{Bags, Context, ContextRelation, PendingSecret, Reboot};
pub use environment::environment;
pub use schedule::next;
pub use steps::{Outcome, action_parameters, begin, finish, finish_task, insert_output, lost, resolve, seeded};
pub use teardown::leaving;
