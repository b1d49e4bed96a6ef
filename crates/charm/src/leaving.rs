//! Whether this unit is on its way out, as far as one hook can tell.

use crate::context::Context;
use crate::event::Event;
use crate::tools::{Juju, Refusal, ToolError};

/// Says whether this unit, or its application, is being removed.
///
/// A departed hook that names this unit, `stop` and `remove` say so by themselves. In any other dispatch only the
/// controller knows: a broken relation may be the first hook of a removal, and a timer may call in the middle of one.
pub fn is_leaving(ctx: &Context, juju: &Juju) -> Result<bool, ToolError> {
    if matches!(ctx.event, Event::Stop | Event::Remove) || ctx.event.departing_unit() == Some(&ctx.unit) {
        return Ok(true);
    }
    match juju.goal_state() {
        Ok(goal) => Ok(goal.is_dying(&ctx.unit)),
        // The unit was taken away under the running hook.
        Err(error) if error.refusal() == Some(Refusal::AgentGone) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tools;
    use crate::tools::process::{Call, Output, ToolRunner};
    use std::sync::Arc;

    struct Goal(&'static str);

    impl ToolRunner for Goal {
        fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
            assert_eq!(call.tool, "goal-state");
            match self.0.strip_prefix("ERROR") {
                Some(_) => Ok(Output { exit_code: Some(1), stdout: Vec::new(), stderr: self.0.into() }),
                None => Ok(Output { exit_code: Some(0), stdout: self.0.into(), stderr: Vec::new() }),
            }
        }
    }

    fn leaving(path: &str, departing: &str, goal: &'static str) -> bool {
        let ctx = Context::read(&[], &|variable| {
            let value = match variable {
                "JUJU_DISPATCH_PATH" => path,
                "JUJU_UNIT_NAME" => "compute/0",
                "JUJU_CHARM_DIR" => "/charm",
                "JUJU_MODEL_UUID" => "uuid",
                "JUJU_RELATION_ID" => "slurmctld:3",
                "JUJU_DEPARTING_UNIT" => departing,
                _ => return None,
            };
            Some(value.to_owned())
        });
        let ctx = ctx.unwrap();
        is_leaving(&ctx, &Tools::with_runner(&ctx.unit, Arc::new(Goal(goal)))).unwrap()
    }

    #[test]
    fn the_last_hooks_and_the_own_departure_need_no_question() {
        assert!(leaving("hooks/stop", "", "unasked"));
        assert!(leaving("hooks/remove", "", "unasked"));
        assert!(leaving("hooks/slurmctld-relation-departed", "compute/0", "unasked"));
    }

    #[test]
    fn in_any_other_dispatch_the_controller_says_it() {
        for path in ["hooks/slurmctld-relation-broken", "hooks/retry", "hooks/daemon-failed", "hooks/update-status"] {
            assert!(leaving(path, "", r#"{"units":{"compute/0":{"status":"dying"}},"relations":{}}"#), "{path}");
            assert!(!leaving(path, "", r#"{"units":{"compute/0":{"status":"active"}},"relations":{}}"#), "{path}");
            assert!(leaving(path, "", "ERROR connection is shutdown before send"), "{path}");
        }
    }
}
