//! What a step does to the world, as far as a plan can see it.

use super::{World, idle, set_aside};
use crate::facts::{Boot, KeyFile, Occupancy, StartFile};
use crate::names;
use crate::node::description::{features, weight};
use crate::node::lifecycle::BootNote;
use crate::node::reregistration::Reregistration;
use crate::step::{Outcome, Step};
use slurm_ops::scontrol::{NodeLookup, NodeRecord};
use slurm_ops::slurmd::SlurmdOptions;
use slurm_unit::install::InstallStep;
use slurm_unit::service::{Running, ServiceStep};
use std::time::Duration;

/// When the first slurmd was started, and how long after it the next is.
const FIRST_START: u64 = 1_794_830_922;
const BETWEEN_STARTS: u64 = 100;

impl World {
    /// Takes a step.
    pub(super) fn apply(&mut self, step: &Step) -> Outcome {
        if self.vain.contains(step) {
            return Outcome::Done;
        }
        match step {
            Step::Install(step) => return self.install(step),
            Step::Service(ServiceStep::WriteDropIn(text)) => self.files.drop_in = Some(text.clone()),
            Step::Service(ServiceStep::WriteFailureService(text)) => self.files.failure_service = Some(text.clone()),
            Step::Service(ServiceStep::ReloadUnits) => self.daemon.needs_reload_of_units = false,
            Step::Service(ServiceStep::EndOldTimer) => self.files.old_timer = false,
            Step::PublishPartition(_, bag) => self.published.extend(bag.clone()),
            Step::WriteKey { keys, .. } => {
                let modified = Duration::from_secs(self.daemon.started.unwrap_or(FIRST_START));
                self.key = KeyFile { keys: Some(keys.clone()), private: true, shared: false };
                self.key_written = Some(modified);
            }
            Step::WriteOptions(options) => {
                self.start_file = StartFile { options: Some(options.clone()), neighbour: None };
            }
            Step::WriteNote(note, _) => self.note.node = Ok((**note).clone()),
            Step::RemoveOldNotes => self.note.old = false,
            Step::NoteForBoot(note) => self.boot.note = note.clone(),
            Step::StartDaemon | Step::RestartDaemon => self.start(),
            Step::ReloadDaemon => self.register(),
            Step::MarkJoined(_) => {
                self.mark();
                self.record_mut().comment = "joined".to_owned();
                return Outcome::Marked(1);
            }
            Step::SetFeatures(features) => self.record_mut().features = features.clone(),
            Step::SetWeight(weight) => self.record_mut().weight = *weight,
            Step::CloseNode { drain } => {
                let record = self.record_mut();
                record.comment = names::CHANGE_COMMENT.to_owned();
                if *drain {
                    set_aside(record, "DRAIN", names::CHANGE_REASON);
                }
            }
            Step::DeleteNode => self.node = NodeLookup::Absent,
            Step::RestoreNode { change, features, .. } => {
                self.mark();
                restore(self.record_mut(), change, features);
                return Outcome::Marked(1);
            }
            Step::ReopenNode { resume, comment } => {
                let record = self.record_mut();
                record.comment = comment.clone();
                record.state.retain(|state| !*resume || state != "DRAIN");
            }
            Step::Acknowledge(_, bag) => self.own_bag.extend(bag.clone()),
            Step::OpenPort => self.port_open = true,
            Step::ClosePort => self.port_open = false,
            Step::DrainNode => set_aside(self.record_mut(), "DRAIN", slurm_unit::LEAVING_REASON),
            Step::CancelJobs(_) => self.occupancy = Occupancy::Empty,
            Step::StopDaemon => (self.daemon.running, self.daemon.with) = (Running::Stopped, None),
            Step::RemoveTraces { key } => {
                self.start_file = StartFile::default();
                if *key {
                    self.key = KeyFile::default();
                }
            }
            Step::Wait { pause, .. } => self.passes(pause.as_secs()),
        }
        Outcome::Done
    }

    fn install(&mut self, step: &InstallStep) -> Outcome {
        match (step, &self.apt) {
            (InstallStep::Install(_) | InstallStep::Hold, Some(obstacle)) => {
                return Outcome::InTheWay(obstacle.clone());
            }
            (InstallStep::Install(_), None) => {
                self.installation.version = Some("24.11.5".parse().unwrap());
                self.installation.unfit = None;
            }
            (InstallStep::Hold, None) => self.installation.held = true,
            (InstallStep::ExemptFromNeedrestart, _) => self.installation.exempt = true,
            (InstallStep::ReportVersion(version), _) => self.installation.reported = Some(version.clone()),
        }
        Outcome::Done
    }

    /// Time passes, and jobs end.
    fn passes(&mut self, seconds: u64) {
        self.now += seconds;
        if let Occupancy::Jobs(jobs) = &mut self.occupancy {
            jobs.retain(|job| job.ends.is_none_or(|end| end > self.now));
            if jobs.is_empty() {
                self.occupancy = self.then.take().unwrap_or(Occupancy::Empty);
            }
        }
    }

    fn mark(&mut self) {
        self.boot = Boot { note: BootNote { marked: Some(1), ..self.boot.note.clone() }, marked_recently: true };
    }

    /// slurmd starts with what is on the disk, whoever asked for it, and has to be looked at again.
    pub(crate) fn start(&mut self) {
        let started = self.daemon.started.map_or(FIRST_START, |before| before + BETWEEN_STARTS);
        self.daemon.running = Running::Up;
        self.daemon.with = self.start_file.options.clone();
        self.daemon.started = Some(started);
        self.daemon.invocation = format!("{started:032x}");
        if matches!(self.node, NodeLookup::Unreachable { .. }) {
            self.node = NodeLookup::Absent;
        }
        self.register();
    }

    /// Slurm takes what a node says about itself if it does not know the node, and else ignores it.
    fn register(&mut self) {
        let (Some(SlurmdOptions { conf, .. }), NodeLookup::Absent) = (&self.daemon.with, &self.node) else { return };
        let cpus = conf.get("CPUs").and_then(|cpus| cpus.parse().ok()).unwrap_or_default();
        let gres = conf.get("Gres").unwrap_or_default().to_owned();
        let mut record = NodeRecord { features: features(conf), weight: weight(conf), cpus, gres, ..idle() };
        if let Some(state) = conf.get("State") {
            set_aside(&mut record, state, conf.get("Reason").unwrap_or_default());
        }
        self.node = NodeLookup::Present(record);
    }
}

fn restore(record: &mut NodeRecord, change: &Reregistration, features: &[String]) {
    if let Some(closed) = &change.closed {
        closed.states.iter().for_each(|state| set_aside(record, state, &closed.reason));
    }
    record.weight = change.weight.unwrap_or(record.weight);
    if !change.features.is_empty() {
        record.features = features.to_vec();
    }
    record.notes = change.notes.clone();
    record.comment = change.comment().to_owned();
}
