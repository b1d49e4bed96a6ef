//! Ends a dispatch before one of its effects, as a power cut or a killed agent would.
//!
//! An effect is whatever changes something outside of the process: a hook tool that writes, a file or directory that
//! is changed, a program that does more than look. A model and the machines under one knife share the count, so a test
//! can go through all of them in turn:
//!
//! ```
//! use charm_testing::{FakeMachine, Hook, Model};
//! use std::process::ExitCode;
//!
//! let model = Model::new();
//! let app = model.deploy("web", "{}")?;
//! let unit = model.add_unit(&app)?;
//! let machine = FakeMachine::of(&unit).under(model.knife());
//! model.knife().kill_before(1);
//! let done = model.dispatch(&unit, &[], &Hook::named("install"), |_ctx, tools| {
//!     slurm_ops::files::replace(&machine.machine().writer(), "/etc/first", b"1", &slurm_ops::files::Access::own(0o644)).unwrap();
//!     tools.writer().application_version_set("2").unwrap();
//!     ExitCode::SUCCESS
//! })?;
//! assert!(done.killed && !done.succeeded);
//! assert_eq!(machine.read("/etc/first").as_deref(), Some("1"));
//! assert_eq!(model.knife().effects(), ["write /etc/first", "application-version-set -- 2"]);
//! # Ok::<(), charm_testing::Impossible>(())
//! ```

use charm::UnitName;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts effects, and ends a dispatch before one of them if it was told to.
#[derive(Clone, Debug, Default)]
pub struct Knife {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    effects: Vec<String>,
    /// The effect that is not to happen, counted from the first one since it was said.
    at: Option<usize>,
    /// What is to happen before an effect, which happens all the same.
    surprise: Option<(usize, Surprise)>,
    /// How often each unit has paused in the hook that it is in.
    pauses: BTreeMap<UnitName, usize>,
}

/// Something that happens in the middle of a dispatch.
struct Surprise(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Surprise {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Surprise")
    }
}

/// What a killed dispatch unwinds with.
pub(crate) struct Killed;

/// What a dispatch unwinds with that waits and waits.
pub(crate) struct WaitsOn;

/// How often one hook may pause.
pub(crate) const PATIENCE: usize = 200;

impl Knife {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `count` more effects happen and ends the dispatch before the one after them.
    pub fn kill_before(&self, count: usize) {
        let mut state = self.state();
        (state.effects, state.at) = (Vec::new(), Some(count));
    }

    /// Lets `count` more effects happen and then has something else happen before the next one, which nobody is killed
    /// by.
    pub fn surprise_before(&self, count: usize, what: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        (state.effects, state.surprise) = (Vec::new(), Some((count, Surprise(Box::new(what)))));
    }

    /// Returns every effect since the last order, the one that did not happen included.
    pub fn effects(&self) -> Vec<String> {
        self.state().effects.clone()
    }

    /// Tells whether a kill that was ordered has not come, and takes the order back.
    pub fn spare(&self) -> bool {
        let mut state = self.state();
        let surprise = state.surprise.take().is_some();
        state.at.take().is_some() || surprise
    }

    /// Announces a dispatch of a unit, which has not paused yet.
    pub(crate) fn begin(&self, unit: &UnitName) {
        self.state().pauses.remove(unit);
    }

    /// Announces a pause of a unit, and returns how many of this dispatch came before it. Does not return if it is one
    /// too many.
    pub(crate) fn pause(&self, unit: &UnitName, effect: String) -> usize {
        self.before(effect);
        let mut state = self.state();
        let count = state.pauses.entry(unit.clone()).or_default();
        let before = *count;
        *count += 1;
        drop(state);
        if before == PATIENCE {
            std::panic::resume_unwind(Box::new(WaitsOn));
        }
        before
    }

    /// Announces an effect. Does not return if this is the one before which all ends.
    pub(crate) fn before(&self, effect: String) {
        let mut state = self.state();
        state.effects.push(effect);
        if state.at == Some(0) {
            state.at = None;
            drop(state);
            // Not a panic: nothing is wrong, so nobody is told.
            std::panic::resume_unwind(Box::new(Killed));
        }
        state.at = state.at.map(|left| left - 1);
        match state.surprise.take() {
            Some((0, Surprise(what))) => {
                drop(state);
                what();
            }
            later => state.surprise = later.map(|(left, what)| (left - 1, what)),
        }
    }
}
