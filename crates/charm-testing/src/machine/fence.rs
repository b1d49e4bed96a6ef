//! The fence of a controller on a store, and the guard, as the charm's own program plays them: a slurmctld whose store
//! cannot be written is killed, none starts, and the one that was killed is started once the store takes writes again.

use super::{FakeMachine, Programs, State};
use crate::store::{Fault, MOUNT_POINT};
use serde_json::Value;
use slurm_ops::fence::{FenceState, Gate, SERVICE, SETTINGS, STATE, Settings, Why};
use std::path::Path;

impl FakeMachine {
    /// Has the fence of this machine look at its store, for as long as it needs to make up its mind. Nothing happens
    /// where it does not run.
    pub fn fence_looks(&self) {
        self.programs.let_fence_look();
    }

    /// Has the fence close, whatever the store does: slurmctld is killed, and none starts.
    pub fn fence_closes(&self) {
        let why = Why::NoWrite { for_seconds: 60, error: None };
        self.programs.fence_closes(&mut self.programs.state(), why);
    }

    /// Has the fence open, whatever the store does: a slurmctld that it had killed, or that has failed, is started.
    pub fn fence_opens(&self) {
        self.programs.fence_opens(&mut self.programs.state());
    }

    /// Tells whether the fence is closed.
    pub fn is_fenced(&self) -> bool {
        self.programs.fence()["state"] == "closed"
    }
}

impl Programs {
    /// What the fence has said.
    fn fence(&self) -> Value {
        self.read(STATE).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn fence_settings(&self) -> Option<Settings> {
        self.read(SETTINGS).as_deref().and_then(Settings::parse)
    }

    pub(crate) fn let_fence_look(&self) {
        let mut state = self.state();
        self.find_dead(&mut state);
        if self.is_up(&state, SERVICE) {
            self.fence_looks(&mut state);
        }
    }

    /// A fence that begins says nothing about a store that says nothing.
    pub(super) fn fence_begins(&self, state: &mut State) {
        if !matches!(self.site.fault(), Some(Fault::Silent | Fault::ReadOnly)) {
            self.fence_looks(state);
        }
    }

    /// Says whether this is the machine of a host, can be asked, and hears nothing from its store.
    pub(crate) fn says_silence(&self, host: &str) -> bool {
        self.site.name() == host && !self.site.is_cut() && self.site.fault() == Some(Fault::Silent)
    }

    fn fence_looks(&self, state: &mut State) {
        let Some(settings) = self.fence_settings() else { return };
        // A store that answers nobody closes no fence, and opens none.
        if self.says_silence(&self.site.name()) && self.slurm().is_silent_for(&settings.others) {
            return;
        }
        match self.objection(&settings) {
            Some(why) => self.fence_closes(state, why),
            None => self.fence_opens(state),
        }
    }

    fn objection(&self, settings: &Settings) -> Option<Why> {
        let no_write = |error: Option<&str>| Why::NoWrite {
            for_seconds: settings.patience.as_secs() + 1,
            error: error.map(str::to_owned),
        };
        let found = self.read(&format!("{}/.cluster", settings.state_directory));
        match self.site.fault() {
            Some(Fault::Silent) => Some(no_write(None)),
            Some(Fault::ReadOnly) => Some(no_write(Some("Read-only file system"))),
            Some(Fault::Gone) => Some(Why::NotMounted),
            None if !self.site.has_mounted() => Some(Why::NotMounted),
            Some(Fault::Full) => Some(Why::Full { free: 0 }),
            None if found.as_deref().map(str::trim) != Some(settings.marker.trim()) => Some(Why::Marker { found }),
            None => None,
        }
    }

    fn fence_closes(&self, state: &mut State, why: Why) {
        let Some(settings) = self.fence_settings() else { return };
        let runs = self.is_up(state, &settings.service);
        let killed = runs || self.fence()["killed"] == true;
        self.fence_says(Gate::Closed, Some(why), killed);
        if runs {
            self.crash(state, &settings.service);
        }
    }

    fn fence_opens(&self, state: &mut State) {
        let Some(settings) = self.fence_settings() else { return };
        let before = self.fence();
        self.fence_says(Gate::Open, None, false);
        let failed = state.units.get(&settings.service).is_some_and(|unit| unit.failed);
        if before["state"] == "closed" && (before["killed"] == true || failed) {
            self.start(state, &settings.service, false);
        }
    }

    fn fence_says(&self, gate: Gate, why: Option<Why>, killed: bool) {
        let before = self.fence();
        let mut said = FenceState::opened(self.slurm().lock().now());
        (said.state, said.why, said.killed) = (gate, why, killed);
        let same = serde_json::to_value(gate).is_ok_and(|gate| before["state"] == gate);
        if let Some(since) = before["since"].as_u64().filter(|_| same) {
            said.since = since;
        }
        self.write(STATE, said.render().as_bytes());
    }

    /// A fence that runs says once a second what it has to say, so whoever reads it reads something fresh.
    pub(super) fn refresh_fence(&self, state: &State, read: &Path) {
        if read.ends_with(&STATE[1..]) && self.is_up(state, SERVICE) {
            let mut said = self.fence();
            if said.is_object() {
                said["written"] = self.slurm().lock().now().into();
                self.write(STATE, said.to_string().as_bytes());
            }
        }
    }

    /// What the guard finds before each start of slurmctld.
    pub(super) fn guard_passes(&self, state: &State) -> bool {
        let open = self.is_up(state, SERVICE) && self.fence()["state"] == "open";
        let settings = self.fence_settings();
        let marker = settings.as_ref().and_then(|own| self.read(&format!("{}/.cluster", own.state_directory)));
        open && settings.is_some_and(|own| marker.is_some_and(|marker| marker.trim() == own.marker.trim()))
    }

    /// Says whether a path, as the system knows it, is on the store.
    pub(super) fn is_on_store(&self, path: &Path) -> bool {
        let root = self.root.path();
        let own = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        self.site.has_mounted() && self.path(&own).starts_with(root.join(&MOUNT_POINT[1..]))
    }
}
