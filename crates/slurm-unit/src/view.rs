//! What a look and a step are handed: the same world, once to look at and once to change.

use crate::Error;
use charm::tools::Port;
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

    /// Says whether a port is open in Juju's eyes.
    pub fn has_open_port(&self, port: u16) -> Result<bool, Error> {
        Ok(self.juju.opened_ports()?.contains(&Port::tcp(port)))
    }

    /// Says whether the event alone tells that this unit leaves.
    pub fn departs(&self) -> bool {
        let last = matches!(self.ctx.event, Event::Stop | Event::Remove);
        last || self.ctx.event.departing_unit() == Some(&self.ctx.unit)
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
