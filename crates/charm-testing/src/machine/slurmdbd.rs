//! slurmdbd on a made-up machine, and its database: it answers while it runs and the database does.

use super::{FakeMachine, Programs, State, fails, says};
use slurm_ops::command::Ended;
use slurm_ops::slurmdbd::CONF_FILE;

const SERVICE: &str = "slurmdbd.service";

/// The database, and what slurmdbd does not take.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    /// The database does not answer.
    away: bool,
    /// Words that slurmdbd does not take in its file, and whether it notices when it only reads it.
    objections: Vec<(String, bool)>,
}

impl FakeMachine {
    /// Has the database of slurmdbd answer, or not.
    pub fn database_answers(&self, answers: bool) {
        self.programs.state().accounting.away = !answers;
    }

    /// Has slurmdbd refuse a file with this word in it. `reading`: as soon as it reads the file, and not only later.
    pub fn slurmdbd_refuses(&self, word: &str, reading: bool) {
        self.programs.state().accounting.objections.push((word.to_owned(), reading));
    }
}

impl Programs {
    pub(super) fn has_key(&self) -> bool {
        self.path("/etc/slurm/slurm.jwks").exists()
    }

    /// Returns what slurmdbd has against its file.
    pub(super) fn dbd_objection(&self, state: &State, start: bool) -> Option<String> {
        self.objection_to(state, &self.read(CONF_FILE)?, start)
    }

    fn objection_to(&self, state: &State, text: &str, start: bool) -> Option<String> {
        let refused = |(word, reading): &&(String, bool)| text.contains(word.as_str()) && (start || *reading);
        let (word, _) = state.accounting.objections.iter().find(refused)?;
        Some(format!("slurmdbd: fatal: no {word}, please\n"))
    }

    /// slurmdbd that is called by hand: it reads a file, and finds no plugin for its authentication.
    pub(super) fn slurmdbd(&self, state: &State) -> Ended {
        let text = self.read("/var/lib/slurmdbd-charm/trial/slurmdbd.conf").unwrap_or_default();
        assert!(text.contains("AuthType=auth/none-such") && text.contains("PidFile=/var/lib/"), "it would serve");
        let found = "slurmdbd: error: cannot find auth plugin for auth/none-such\n";
        fails(1, self.objection_to(state, &text, false).unwrap_or_else(|| found.to_owned()))
    }

    pub(super) fn sacctmgr(&self, state: &State, words: &[&str]) -> Ended {
        // A client on another machine of the cluster asks the same slurmdbd.
        let there = self.is_up(state, SERVICE) || self.slurm().lock().has_slurmdbd();
        let serves = there && !state.accounting.away;
        match words.last() {
            Some(&"ping") => {
                says(format!("{{\"pings\": [{{\"hostname\": \"localhost\", \"responding\": {serves}}}]}}"))
            }
            _ if serves => says("lab|10.0.0.5\n"),
            _ => fails(1, "sacctmgr: error: Unable to connect to database\n"),
        }
    }
}
