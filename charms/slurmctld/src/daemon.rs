//! The state of slurmctld, from what slurmctld and systemd say.

use crate::controllers::Serving;
use crate::facts::{Ask, Facts};
use slurm_unit::service::{self, Running};

/// The state of slurmctld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    /// It does not run.
    Stopped,
    /// It was told to stop while it served, and no other controller serves yet. A takeover begins with that: started
    /// now, it would serve again, and the takeover would come to nothing.
    SteppedAside,
    /// It ended badly and may be on its way up again.
    Failing {
        /// What it complained about, else how systemd says it ended.
        reason: String,
    },
    /// It runs and does not answer, or not yet. What it complains about, if anything.
    Silent { reason: Option<String> },
    /// It runs, and serves no client of this machine since it refused files. Only a restart helps.
    ShutOut,
    /// It runs and answers.
    Answering,
}

impl Daemon {
    /// Finds the state out. A slurmctld that answers a question is up: systemd need not be asked.
    pub fn find(facts: &Facts, serving: &Serving) -> Result<Self, Ask> {
        let configuration = facts.configuration()?;
        // Every client would wait a minute for a file that is included and not there.
        let mute = configuration.missing_include();
        let may_run = configuration.accepted.exists() || service::running(facts.unit()?) == Running::Up;
        if mute.is_none() && may_run && facts.partition_settings()?.answer().is_some() {
            return Ok(Self::Answering);
        }
        let unit = facts.unit()?;
        Ok(match service::running(unit) {
            Running::Up if mute.is_some() => Self::Silent { reason: mute },
            Running::Up if *facts.shut_out()? => Self::ShutOut,
            Running::Up => Self::Silent { reason: facts.complaint()?.clone() },
            Running::Starting => Self::Silent { reason: None },
            Running::Failing => {
                let complaint = facts.complaint()?.clone();
                Self::Failing { reason: complaint.unwrap_or_else(|| format!("systemd: {}", unit.result)) }
            }
            Running::Stopped => {
                let in_order = unit.result == "success" && unit.main_started.is_some();
                if in_order && serving.is(&facts.host()?.name) { Self::SteppedAside } else { Self::Stopped }
            }
        })
    }
}
