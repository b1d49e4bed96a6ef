//! The fence of a controller on a store, as the charm's own program would be: it kills a slurmctld whose store cannot be
//! written, keeps others from starting, and starts the one that it killed once the store takes writes again.

use super::{FakeMachine, Programs};
use crate::store::Fault;
use serde_json::{Value, json};

const SERVICE: &str = "slurmctld-fence.service";
const SLURMCTLD: &str = "slurmctld.service";
/// What the fence knows, for others to read.
const FILE: &str = "/run/slurmctld-charm/fence.json";
/// Says which cluster a store belongs to.
const MARKER: &str = "/var/lib/slurm/checkpoint/state/.cluster";

impl FakeMachine {
    /// Has the fence of this machine look at its store once, for as long as it needs to make up its mind. Nothing
    /// happens where it does not run.
    pub fn fence_looks(&self) {
        self.programs.fence_looks();
    }

    /// Has the fence close: slurmctld is killed, and none starts.
    pub fn fence_closes(&self) {
        self.programs.fence_closes();
    }

    /// Has the fence open: a slurmctld that it had killed is started.
    pub fn fence_opens(&self) {
        self.programs.fence_opens();
    }

    /// Tells whether the fence is closed.
    pub fn is_fenced(&self) -> bool {
        self.programs.is_fenced()
    }
}

impl Programs {
    fn fence(&self) -> Value {
        self.read(FILE).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn is_fenced(&self) -> bool {
        self.fence()["state"] == "closed"
    }

    pub(crate) fn fence_looks(&self) {
        let runs = self.is_up(&self.state(), SERVICE);
        match self.site.fault() {
            _ if !runs => {}
            None if self.marker_is_read() => self.fence_opens(),
            None | Some(Fault::Silent | Fault::ReadOnly | Fault::Full | Fault::Gone) => self.fence_closes(),
        }
    }

    fn fence_closes(&self) {
        let mut state = self.state();
        self.find_dead(&mut state);
        let killed = self.is_up(&state, SLURMCTLD) || self.fence()["killed"] == true;
        self.write(FILE, json!({"state": "closed", "killed": killed}).to_string().as_bytes());
        if self.is_up(&state, SLURMCTLD) {
            self.crash(&mut state, SLURMCTLD);
        }
    }

    fn fence_opens(&self) {
        let killed = self.fence()["killed"] == true;
        self.write(FILE, json!({"state": "open"}).to_string().as_bytes());
        if killed {
            self.start(&mut self.state(), SLURMCTLD, false);
        }
    }

    fn marker_is_read(&self) -> bool {
        self.read(MARKER).is_some()
    }

    /// What the charm's own program finds before each start of slurmctld.
    pub(super) fn guard_passes(&self) -> bool {
        !self.is_fenced() && self.marker_is_read()
    }
}
