//! The slurmctld charm: the controller of a Slurm cluster. Only wiring is here; the program itself is `main.rs`.

mod actions;
mod apply;
mod configuration;
#[cfg(test)]
mod dispatch_tests;
mod error;
mod names;
mod observe;
mod plan;
mod secret_content;
mod status;

use crate::error::Error;
use crate::observe::{Memory, Observed};
use crate::plan::Step;
use charm::{ActionFailure, ActionName, ActionResults, Charm, Context, Plan, Reconciler, Status, Tools};
use slurm_ops::Machine;

/// What one dispatch works with.
pub struct Slurmctld {
    ctx: Context,
    tools: Tools,
    machine: Machine,
    memory: Memory,
}

impl Slurmctld {
    /// Puts together what one dispatch works with, on the machine given.
    pub fn on(machine: Machine, ctx: Context, tools: Tools) -> Self {
        Self { ctx, tools, machine, memory: Memory::default() }
    }
}

impl Reconciler for Slurmctld {
    type Observed = Observed;
    type Step = Step;
    type Error = Error;

    fn observe(&mut self) -> Result<Observed, Error> {
        observe::observe(&self.ctx, &self.tools, &self.machine, &mut self.memory)
    }

    fn plan(seen: &Observed) -> Plan<Step> {
        plan::plan(seen)
    }

    fn apply(&mut self, step: &Step) -> Result<(), Error> {
        apply::apply(&self.ctx, &self.tools, &self.machine, &mut self.memory, step)
    }

    fn status(seen: &Observed) -> Status {
        status::status(seen)
    }

    fn announce(step: &Step) -> Option<Status> {
        status::announce(step)
    }
}

impl Charm for Slurmctld {
    const TIMERS: &'static [&'static str] = &[names::EVENT_LOOK_AGAIN, names::EVENT_DAEMON_FAILED];

    fn new(ctx: Context, tools: Tools) -> Self {
        Self::on(Machine::new(), ctx, tools)
    }

    fn act(&mut self, action: &ActionName) -> Result<ActionResults, ActionFailure> {
        actions::act(action, &self.ctx, &self.tools, &self.machine)
    }
}
