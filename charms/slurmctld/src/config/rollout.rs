//! Brings the files and slurmctld to what is desired, one proven stage at a time. Pure.
//!
//! All changes are tried together, with one reconfigure. If that is refused they are tried one by one, so that a
//! change that is wrong costs nothing but itself; a change that was refused for itself is left out until it is another
//! one.
//!
//! ```text
//! CheckCandidate ─▶ WriteFiles ─▶ NoteOverrides ─▶ Reconfigure ─▶ RestoreOverrides ─▶ ForgetOverrides ─▶ MarkAccepted
//!       │ refused                                      │ refused
//!       └─▶ NoteRejections                             └─▶ ForgetOverrides ─▶ NoteRejections ─▶ RestoreFiles
//! ```
//!
//! A dispatch may be killed between any two of these. Files that are in place and not accepted are proven again by the
//! next dispatch, with the note of what was set at runtime if there is one.

use super::Situation;
use super::files::{Config, Files};
use super::hazards::{Judgement, judge};
use super::managed_keys::accounting_host;
use super::rejections::{RejectedConfig, Rejections};
use super::sources::{ChangeFingerprint, ConfigSource};
use crate::condition::Condition;
use crate::daemon::Daemon;
use crate::extras::Wish;
use crate::facts::{Ask, Asked, Attempts, Facts};
use crate::keys::LoadedKeys;
use crate::names;
use crate::step::{Outcome, Step};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use slurm_conf::HostName;
use slurm_conf::overrides::{self, RuntimeSettings};
use slurm_ops::scontrol::{Candidate, Reconfigure};
use slurm_ops::slurmdbd::Reach;
use slurm_unit::note::Note;

/// What is said about a file that was cut short.
const DAMAGED: &str = "it was cut short";
/// What is said about a file after which slurmctld serves nobody, if slurmctld itself says nothing.
const SHUT_OUT: &str = "slurmctld refused it";

/// What was set at runtime before a reconfigure: a note, so that a dispatch that dies in between is made up for by the
/// next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Overrides(pub RuntimeSettings);

impl Note for Overrides {
    const PATH: &'static str = names::OVERRIDES;
    const VERSION: u64 = 1;
    const BESIDE_SLURM: bool = true;

    fn upgrade(version: u64, fields: Map<String, Value>) -> Option<Self> {
        // The first notes had no version, and the same fields.
        (version == 0).then(|| serde_json::from_value(Value::Object(fields)).ok()).flatten()
    }
}

/// The decisions of one round.
pub struct Rollout<'f> {
    pub situation: Situation<'f>,
    pub facts: &'f Facts,
    pub attempts: &'f Attempts,
    pub daemon: &'f Daemon,
    /// What was set at runtime before a reconfigure whose end nobody has seen.
    pub noted: Option<&'f Overrides>,
    /// The keys that the slurmctld which serves has to load, and its host.
    pub keys: Option<(HostName, LoadedKeys)>,
    /// The slurmctld that serves is the one of this machine.
    pub serves: bool,
    /// Why nothing is done, where something should be.
    pub conditions: Vec<Condition>,
}

impl Rollout<'_> {
    /// Decides what to do next. No steps: nothing more in this dispatch, and the conditions say why if there is
    /// something left.
    pub fn plan(&mut self) -> Result<Vec<Step>, Ask> {
        let situation = self.situation;
        let (live, accepted) = (situation.live(), situation.accepted());
        if self.outcome_of_reconfigure(live) == Some(&Reconfigure::Accepted) && !self.is_marked() {
            return self.finish();
        }
        // It was about keys alone: there are no other files to put back.
        if let (Some(Reconfigure::Refused { reason }), Some(_), true) =
            (self.outcome_of_reconfigure(live), &self.keys, live == accepted)
        {
            let why = reason.clone();
            return Ok(self.held(Condition::Unproven(Some(why))));
        }
        if let Some(rejected) = self.rejected()? {
            return self.restore(rejected);
        }
        if let Some(kept) = self.outdated() {
            return Ok(vec![Step::NoteRejections(kept)]);
        }
        let unproven = live != accepted;
        let answering = self.is_answering();
        // A file that an administrator wrote is proven by itself before anything is built on it, unless it takes
        // something away that the charm depends on. slurmctld may only seem silent: no client works beside a file that
        // its parser cannot read.
        let up = answering || matches!(self.daemon, Daemon::Silent { .. } | Daemon::ShutOut);
        let complete = live.files.cgroup.is_some() && live.files.gres.is_some();
        let sound = situation.is_sound();
        let superseded = unproven && !answering && self.is_superseded();
        if up && unproven && complete && (accepted.exists() || answering) && sound && !superseded {
            return self.prove(live);
        }
        // A daemon that does not run for another reason must not make new files look guilty: first it runs, then it
        // changes.
        if (answering || !sound || superseded || !live.exists())
            && let Some(steps) = self.next_files(unproven)?
        {
            return Ok(steps);
        }
        let due = unproven || self.noted.is_some() || self.keys.is_some();
        if answering && due { self.prove(live) } else { Ok(Vec::new()) }
    }

    fn is_answering(&self) -> bool {
        matches!(self.daemon, Daemon::Answering)
    }

    /// Returns how the last reconfigure of this dispatch ended, if it was with these files.
    fn outcome_of_reconfigure(&self, config: &Config) -> Option<&Reconfigure> {
        let reconfigures = self.attempts.iter().rev().filter_map(|(step, outcome)| match (step, outcome) {
            (Step::Reconfigure(files), Outcome::Reconfigure(outcome)) => Some((files, outcome)),
            _ => None,
        });
        let (files, outcome) = reconfigures.into_iter().next()?;
        (*files == config.files).then_some(outcome)
    }

    /// Says whether a step like this was taken after the last reconfigure.
    fn made_since_reconfigure(&self, like: impl Fn(&Step) -> bool) -> bool {
        self.attempts.made_since(like, |step| matches!(step, Step::Reconfigure(_)))
    }

    fn is_marked(&self) -> bool {
        self.made_since_reconfigure(|step| matches!(step, Step::MarkAccepted(_)))
    }

    /// slurmctld has taken the files in place: puts back what that undid, and keeps the files.
    fn finish(&mut self) -> Result<Vec<Step>, Ask> {
        let situation = self.situation;
        let (mut steps, mut settings) = (Vec::new(), None);
        if let Some(Overrides(before)) = self.noted {
            let after = match self.settings_after(before)? {
                Ok(after) => after,
                // Not kept as accepted, so that the next dispatch reconfigures again and finds the note.
                Err(why) => return Ok(self.held(Condition::Unproven(Some(why)))),
            };
            let baseline = situation.parsed(&situation.baseline());
            let (old, new) = match (&baseline.conf, &situation.live().conf) {
                (Some(_), Some(_)) => (baseline.effective.clone(), situation.live().effective.clone()),
                // If a file cannot be parsed nothing counts as chosen in it, and all that was set stays.
                _ => Default::default(),
            };
            let updates = overrides::updates(before, &after, &old, &new);
            let restore = |step: &Step| matches!(step, Step::RestoreOverrides(_));
            if !self.made_since_reconfigure(restore) && !updates.is_empty() {
                return Ok(vec![Step::RestoreOverrides(updates)]);
            }
            if self.made_since_reconfigure(restore)
                && let Some(Outcome::RestoreOverrides(Err(why))) = self.attempts.outcome(restore)
            {
                return Ok(self.held(Condition::Unproven(Some(why.clone()))));
            }
            steps.push(Step::ForgetOverrides);
            settings = Some(after.partitions);
        }
        steps.push(Step::MarkAccepted(situation.live().files.clone()));
        if let (Some((host, keys)), Some(note)) = (&self.keys, self.facts.rotation()?.known()) {
            steps.push(Step::NoteRotation(note.clone().with_loaded(host.as_str(), keys.clone())));
        }
        // A takeover would restore the partitions of before.
        if let Some((partition, settings)) = situation.live().first_partition().zip(settings) {
            steps.push(Step::SavePartitions { partition, settings, place: situation.place });
        }
        // Whoever had a file put back has found a better one.
        if situation.rejections.taken_back.is_some() {
            steps.push(Step::NoteRejections(Rejections { taken_back: None, ..situation.rejections.clone() }));
        }
        Ok(steps)
    }

    fn settings_after(&self, before: &RuntimeSettings) -> Result<Result<RuntimeSettings, String>, Ask> {
        let why = |asked: &str| Ok(Err(asked.to_owned()));
        // Where nobody has set anything a look is saved.
        let nodes = if before.nodes.are_usual() {
            before.nodes.clone()
        } else {
            match self.facts.node_settings()? {
                Asked::Answer(nodes) => nodes.clone(),
                Asked::Unreachable(reason) => return why(reason),
                Asked::Unparsable => return why("slurm.conf cannot be read"),
            }
        };
        match self.facts.partition_settings()? {
            Asked::Answer(partitions) => Ok(Ok(RuntimeSettings { nodes, partitions: partitions.clone() })),
            Asked::Unreachable(reason) => why(reason),
            Asked::Unparsable => why("slurm.conf cannot be read"),
        }
    }

    /// Returns the files in place if slurmctld does not take them and better ones are known.
    fn rejected(&self) -> Result<Option<RejectedConfig>, Ask> {
        let situation = self.situation;
        let live = situation.live();
        let rejected = |reason: &str| {
            let version = situation.version.to_owned();
            Ok(Some(RejectedConfig { files: live.files.clone(), version, reason: reason.to_owned() }))
        };
        let restored = self.made_since_reconfigure(|step| matches!(step, Step::RestoreFiles(_)));
        if let (Some(Reconfigure::Refused { reason }), false) = (self.outcome_of_reconfigure(live), restored) {
            return rejected(reason);
        }
        if !live.exists() || live == situation.accepted() || live.files == situation.baseline() {
            return Ok(None);
        }
        if situation.is_damaged() {
            return rejected(DAMAGED);
        }
        if let Some(why) = situation.missing_file() {
            return rejected(&why);
        }
        match (&situation.rejections.last, self.daemon) {
            // A dispatch that died between the note and putting the old files back.
            (Some(last), _) if last.files == live.files && last.version == situation.version => Ok(Some(last.clone())),
            (_, Daemon::Failing { reason }) => rejected(reason),
            // slurmctld stops to serve when it has refused files, also if an administrator asked it to take them.
            (_, Daemon::ShutOut) if situation.accepted().exists() => {
                rejected(self.facts.complaint()?.as_deref().unwrap_or(SHUT_OUT))
            }
            _ => Ok(None),
        }
    }

    /// Puts accepted files back in place of rejected ones. The note comes first: a dispatch that dies here is
    /// continued.
    fn restore(&self, rejected: RejectedConfig) -> Result<Vec<Step>, Ask> {
        let situation = self.situation;
        let changes = situation.changes(&rejected.files);
        let refused = matches!(self.outcome_of_reconfigure(situation.live()), Some(Reconfigure::Refused { .. }));
        let mut steps = Vec::new();
        if refused && self.noted.is_some() {
            steps.push(Step::ForgetOverrides);
        }
        let now = *self.facts.now()?;
        steps.push(Step::NoteRejections(situation.rejections.with_taken_back(rejected, &changes, now)));
        if accounting_host(situation.live()) != accounting_host(situation.accepted()) {
            steps.push(Step::RecallClusterId(situation.place));
        }
        steps.push(Step::RestoreFiles(situation.baseline()));
        Ok(steps)
    }

    /// Says whether the files in place are ours and no longer desired. If they are what keeps slurmctld from
    /// answering, they must not have to be proven first.
    fn is_superseded(&self) -> bool {
        let live = self.situation.live();
        let by_hand = || self.situation.changes(&live.files).iter().any(|change| change.source == ConfigSource::File);
        self.situation.accepted().exists() && self.situation.desired() != live.files && !by_hand()
    }

    /// Returns what of the rejections is still about what is desired now, if that is not all. Whoever takes back what
    /// was refused and asks for it again has seen to the reason, so it is tried again.
    fn outdated(&self) -> Option<Rejections> {
        let situation = self.situation;
        if situation.rejections.is_empty() {
            return None;
        }
        let mut kept = situation.rejections.clone();
        kept.changes.retain(|_, (refused, _)| {
            situation.is_kept(&refused.source) || *refused == situation.fingerprint(refused.source.clone())
        });
        let live = &situation.live().files;
        kept.last = kept.last.filter(|last| last.files == *live || last.files == situation.desired());
        (kept != *situation.rejections).then_some(kept)
    }

    /// Decides about the next files to try, if those in place are not the desired ones. None: they are.
    fn next_files(&mut self, unproven: bool) -> Result<Option<Vec<Step>>, Ask> {
        let situation = self.situation;
        let desired = situation.desired();
        let last = situation.rejections.last.as_ref();
        let Some(rejected) = last.filter(|last| last.files == desired && last.version == situation.version) else {
            return if situation.live().files == desired { Ok(None) } else { self.try_files(&desired).map(Some) };
        };
        let baseline = situation.baseline();
        if unproven && situation.live().files != baseline && situation.live().exists() {
            // What the file in place leads to is refused, so that file goes as well.
            return self.restore(rejected.clone()).map(Some);
        }
        let changes = situation.changes(&desired);
        // What was blamed and is desired all the same is all there is: a new cluster that this Slurm does not take.
        // The status says so.
        let blame = |change: &ChangeFingerprint| {
            let blaming = || situation.rejections.blaming(change.clone(), rejected.reason.clone());
            situation.rejection(&change.source).is_none().then(|| vec![Step::NoteRejections(blaming())])
        };
        if let [only] = changes.as_slice() {
            return Ok(blame(only));
        }
        let single = changes.iter().map(|change| situation.with_only(&change.source));
        match single.into_iter().find(|files| *files != baseline && *files != desired) {
            Some(files) => self.try_files(&files).map(Some),
            // The cause cannot be isolated: the first change is blamed.
            None => Ok(changes.first().and_then(blame)),
        }
    }

    /// Puts files in place that the running cluster is safe with and that Slurm's parser can read.
    fn try_files(&mut self, files: &Files) -> Result<Vec<Step>, Ask> {
        let situation = self.situation;
        let (config, answering) = (situation.parsed(files), self.is_answering());
        if answering && let Some(why) = self.facts.state_problem()? {
            return Ok(self.held(Condition::CannotSave(why.clone())));
        }
        if answering && let Some(hangs) = self.hanging_slurmdbd()? {
            return Ok(self.held(hangs));
        }
        let reject = |reason: String| {
            let rejected = RejectedConfig { files: files.clone(), version: situation.version.to_owned(), reason };
            vec![Step::NoteRejections(situation.rejections.with(rejected, &situation.changes(files)))]
        };
        match judge(&situation, self.facts, &config, answering)? {
            Judgement::Safe => {}
            Judgement::LosesPartition(name) => return Ok(self.held(Condition::PartitionAtRisk(name))),
            Judgement::Harmful(hazard) => return Ok(reject(hazard.to_string())),
            Judgement::Unknown(why) => return Ok(self.held(Condition::Unproven(Some(why)))),
        }
        let checked = |step: &Step| matches!(step, Step::CheckCandidate { files: own, .. } if own == files);
        match self.attempts.outcome(checked) {
            None => Ok(vec![Step::CheckCandidate { files: files.clone(), nodes: answering }]),
            Some(Outcome::Candidate(Candidate::Refused { reason }, _)) => Ok(reject(reason.clone())),
            // A parser that could not be asked leaves it to slurmctld, which keeps what it has if it says no.
            Some(_) => {
                let sources = situation.changes(files).into_iter().map(|change| change.source).collect();
                let mut steps = vec![Step::WriteFiles { files: files.clone(), sources }];
                if answering {
                    steps.extend(self.prove(&config)?);
                }
                Ok(steps)
            }
        }
    }

    /// Returns the slurmdbd that keeps slurmctld from a reconfigure. slurmctld ends its connection to it first, and waits
    /// for an answer that does not come: for minutes it serves nobody. Whether it is connected is seen on its machine.
    fn hanging_slurmdbd(&self) -> Result<Option<Condition>, Ask> {
        let Some(host) = accounting_host(self.situation.accepted()) else { return Ok(None) };
        let recording = self.facts.recording()?;
        let hangs = recording.reach == Reach::Silent && (recording.connected || !self.serves);
        Ok(hangs.then(|| Condition::SlurmdbdHangs(host.to_owned())))
    }

    /// Has slurmctld load the files, unless that would cost somebody something.
    fn prove(&mut self, config: &Config) -> Result<Vec<Step>, Ask> {
        let situation = self.situation;
        if let Some(Reconfigure::Unknown { why }) = self.outcome_of_reconfigure(config) {
            let why = why.clone();
            return Ok(self.held(Condition::Unproven(Some(why))));
        }
        // Every client would wait for the missing file.
        if situation.configuration.missing_include().is_some() {
            return Ok(self.held(Condition::Unproven(None)));
        }
        let partitions = match self.facts.partition_settings()? {
            Asked::Answer(partitions) => Some(partitions),
            // The reconfigure will say what is wrong with the file, and change nothing.
            Asked::Unparsable => None,
            // Nobody could be asked, so a reconfigure might take something away that nobody could put back.
            Asked::Unreachable(why) => return Ok(self.held(Condition::Unproven(Some(why.clone())))),
        };
        if let Some(why) = self.facts.state_problem()? {
            return Ok(self.held(Condition::CannotSave(why.clone())));
        }
        if let Some(hangs) = self.hanging_slurmdbd()? {
            return Ok(self.held(hangs));
        }
        match judge(&situation, self.facts, config, partitions.is_some())? {
            Judgement::Safe => {}
            Judgement::LosesPartition(name) => return Ok(self.held(Condition::PartitionAtRisk(name))),
            Judgement::Harmful(hazard) => {
                let (files, version) = (config.files.clone(), situation.version.to_owned());
                return self.restore(RejectedConfig { files, version, reason: hazard.to_string() });
            }
            Judgement::Unknown(why) => return Ok(self.held(Condition::Unproven(Some(why)))),
        }
        let mut steps = Vec::new();
        // The note of a dispatch that died counts more: what it saw may be gone by now.
        if let (Some(partitions), None) = (partitions, self.noted) {
            let nodes = match self.facts.node_settings()? {
                Asked::Answer(nodes) => nodes.clone(),
                Asked::Unparsable => return Ok(self.held(Condition::Unproven(None))),
                Asked::Unreachable(why) => return Ok(self.held(Condition::Unproven(Some(why.clone())))),
            };
            steps.push(Step::NoteOverrides(Overrides(RuntimeSettings { nodes, partitions: partitions.clone() })));
        }
        // slurmdbd has its own identity for this cluster, and slurmctld would end because it has another one.
        if let Wish::This(host) = situation.accounting
            && accounting_host(config) == Some(host.as_str())
            && accounting_host(situation.accepted()) != Some(host.as_str())
        {
            steps.push(Step::ForgetClusterId(situation.place));
        }
        steps.push(Step::Reconfigure(config.files.clone()));
        Ok(steps)
    }

    /// Nothing is done, for this reason.
    fn held(&mut self, condition: Condition) -> Vec<Step> {
        self.conditions.push(condition);
        Vec::new()
    }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
pub(crate) mod tests;
