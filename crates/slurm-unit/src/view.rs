//! What a look and a step are handed: the same world, once to look at and once to change.

use charm::{Context, Event, Juju, JujuWriter, Tools};
use slurm_ops::{Host, HostWriter, Machine};

/// Why a dispatch runs, as far as a plan may know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A hook or an action of Juju.
    Juju,
    /// The retry timer.
    Retry,
    /// The daemon has failed. A plan must not start it now: another failure would call again, without end.
    DaemonFailure,
}

/// Juju and the machine, to look at.
#[derive(Clone)]
pub struct View {
    pub ctx: Context,
    pub juju: Juju,
    pub host: Host,
}

/// Juju and the machine, to change.
#[derive(Clone)]
pub struct Hands {
    pub ctx: Context,
    pub juju: JujuWriter,
    pub host: HostWriter,
}

impl View {
    /// Returns both halves for a dispatch on `machine`.
    pub fn split(ctx: Context, tools: &Tools, machine: &Machine) -> (Self, Hands) {
        let view = Self { ctx: ctx.clone(), juju: tools.juju().clone(), host: machine.host() };
        (view, Hands { ctx, juju: tools.writer().clone(), host: machine.writer() })
    }

    /// Says why this dispatch runs.
    pub fn trigger(&self) -> Trigger {
        match self.ctx.event {
            Event::Timer(crate::retry::EVENT) => Trigger::Retry,
            Event::Timer(crate::service::FAILURE_EVENT) => Trigger::DaemonFailure,
            _ => Trigger::Juju,
        }
    }
}
