//! A client that submits a job each second, and what it was told. Each submission is a process of its own, so that one
//! that waits for an answer does not hold the next. The jobs are held: what was accepted can be counted at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::juju::Juju;

const RHYTHM: Duration = Duration::from_secs(1);
/// A command of Slurm gives up long before.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// One submission. Times count from the start of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Submission {
    pub(super) name: String,
    pub(super) ended: Duration,
    pub(super) accepted: bool,
}

/// What was told so far, in the order of the answers.
type Told = Arc<Mutex<Vec<Submission>>>;

pub(super) struct Client {
    begun: Instant,
    told: Told,
    stop: Arc<AtomicBool>,
    submitting: JoinHandle<()>,
}

impl Client {
    /// Starts to submit on the machine of a unit.
    pub(super) fn start(juju: Juju, unit: &str) -> Self {
        let (begun, told, stop) = (Instant::now(), Told::default(), Arc::new(AtomicBool::new(false)));
        let submitting = {
            let (told, stop, unit) = (Arc::clone(&told), Arc::clone(&stop), unit.to_owned());
            thread::spawn(move || submit_until(&stop, juju, &unit, begun, &told))
        };
        Self { begun, told, stop, submitting }
    }

    /// Returns how long it has been at work.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn told(&self) -> Vec<Submission> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says whether a submission was accepted after a time.
    pub(super) fn was_accepted_after(&self, since: Duration) -> bool {
        self.told().iter().any(|one| one.accepted && one.ended > since)
    }

    /// Submits no more, and waits for those that have no answer yet.
    pub(super) fn finish(self) -> Vec<Submission> {
        self.stop.store(true, Ordering::Relaxed);
        // A panic in there has been printed; what was told until then still counts.
        let _ = self.submitting.join();
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn submit_until(stop: &AtomicBool, juju: Juju, unit: &str, begun: Instant, told: &Told) {
    thread::scope(|scope| {
        for number in 0_u32.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            scope.spawn(move || {
                let name = format!("demo-{number}");
                let accepted = submit(juju, unit, &name).is_ok();
                let one = Submission { name, ended: begun.elapsed(), accepted };
                told.lock().unwrap_or_else(PoisonError::into_inner).push(one);
            });
            thread::sleep((begun + RHYTHM * (number + 1)).saturating_duration_since(Instant::now()));
        }
    });
}

fn submit(juju: Juju, unit: &str, name: &str) -> Result<String> {
    let command = format!(
        "sbatch --parsable --partition=compute --hold --mem=20 --time=1 --output=/dev/null --chdir=/tmp \
         --job-name={name} --wrap true"
    );
    juju.ask_quietly("ssh", &[unit, &command], ANSWER_WITHIN)
}

/// Returns the longest time between two accepted submissions, of those times that ended after `since`.
pub(super) fn longest_gap(told: &[Submission], since: Duration) -> Duration {
    let accepted: Vec<Duration> = told.iter().filter(|one| one.accepted).map(|one| one.ended).collect();
    let pauses = accepted.windows(2).filter(|pair| pair[1] > since).map(|pair| pair[1].saturating_sub(pair[0]));
    pauses.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answers: &[(u64, bool)]) -> Vec<Submission> {
        let one = |(seconds, accepted): &(u64, bool)| Submission {
            name: format!("demo-{seconds}"),
            ended: Duration::from_secs(*seconds),
            accepted: *accepted,
        };
        answers.iter().map(one).collect()
    }

    #[test]
    fn a_gap_lasts_from_one_accepted_job_to_the_next() {
        let told = told(&[(1, true), (2, true), (5, false), (9, false), (14, true), (15, true)]);
        assert_eq!(longest_gap(&told, Duration::from_secs(2)), Duration::from_secs(12));
    }

    #[test]
    fn what_was_before_is_no_gap() {
        let told = told(&[(1, true), (30, true), (31, true), (33, true)]);
        assert_eq!(longest_gap(&told, Duration::from_secs(30)), Duration::from_secs(2));
        assert_eq!(longest_gap(&[], Duration::ZERO), Duration::ZERO);
    }
}
