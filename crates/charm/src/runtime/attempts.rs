//! The steps of this dispatch, in order, with their outcomes. A plan looks here before it repeats a step that had no
//! effect.

/// What was attempted in this dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts<Step, Outcome>(Vec<(Step, Outcome)>);

impl<Step, Outcome> Default for Attempts<Step, Outcome> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Step, Outcome> Attempts<Step, Outcome> {
    /// Says whether nothing was attempted yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says whether a step like this was attempted.
    pub fn made(&self, like: impl Fn(&Step) -> bool) -> bool {
        self.outcome(like).is_some()
    }

    /// Returns the outcome of the last step like this.
    pub fn outcome(&self, like: impl Fn(&Step) -> bool) -> Option<&Outcome> {
        self.0.iter().rev().find(|(step, _)| like(step)).map(|(_, outcome)| outcome)
    }

    /// Says whether a step like this was attempted after the last step like `earlier`, or at all if there was none.
    pub fn made_since(&self, like: impl Fn(&Step) -> bool, earlier: impl Fn(&Step) -> bool) -> bool {
        let start = self.0.iter().rposition(|(step, _)| earlier(step)).map_or(0, |at| at + 1);
        self.0[start..].iter().any(|(step, _)| like(step))
    }

    /// Returns every attempt, the first one first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Step, &Outcome)> {
        self.0.iter().map(|(step, outcome)| (step, outcome))
    }

    /// Notes an attempt. For the runtime, and for tests of plans.
    pub fn note(&mut self, step: Step, outcome: Outcome) {
        self.0.push((step, outcome));
    }

    /// Returns these attempts and one more.
    #[must_use]
    pub fn with(mut self, step: Step, outcome: Outcome) -> Self {
        self.note(step, outcome);
        self
    }
}
