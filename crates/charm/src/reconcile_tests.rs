//! The rounds: their order, their end, and what is reported.

use super::*;
use crate::tools::process::{Call, Output, ToolRunner};
use std::sync::{Arc, Mutex};

/// Answers `status-get` with what is shown and remembers every call.
#[derive(Default)]
struct Juju {
    shown: Mutex<String>,
    calls: Mutex<Vec<String>>,
}

impl ToolRunner for Juju {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        self.calls.lock().unwrap().push(call.command_line());
        let stdout = match call.tool {
            "status-get" => self.shown.lock().unwrap().clone().into_bytes(),
            _ => Vec::new(),
        };
        Ok(Output { exit_code: Some(0), stdout, stderr: Vec::new() })
    }
}

/// Counts up to a goal, one step per round; at `stuck` its steps have no effect.
struct Counter {
    at: u32,
    goal: u32,
    stuck: bool,
    fails: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("no power")]
struct NoPower;

impl Reconciler for Counter {
    type Observed = (u32, u32);
    type Step = String;
    type Error = NoPower;

    fn observe(&mut self) -> Result<(u32, u32), NoPower> {
        Ok((self.at, self.goal))
    }

    fn plan(&(at, goal): &(u32, u32)) -> Plan<String> {
        let steps = (at < goal).then(|| format!("count to {}", at + 1));
        Plan { steps: steps.into_iter().collect(), next: Next::Settled }
    }

    fn apply(&mut self, _: &String) -> Result<(), NoPower> {
        if self.fails {
            return Err(NoPower);
        }
        self.at += u32::from(!self.stuck);
        Ok(())
    }

    fn status(&(at, _): &(u32, u32)) -> Status {
        Status::active(format!("at {at}"))
    }

    fn announce(step: &String) -> Option<Status> {
        (step == "count to 2").then(|| Status::maintenance("nearly there"))
    }
}

fn counter(at: u32, goal: u32) -> Counter {
    Counter { at, goal, stuck: false, fails: false }
}

fn run(counter: &mut Counter, shown: &str) -> (Result<Vec<String>, ReconcileError<NoPower>>, Vec<String>) {
    let juju = Arc::new(Juju { shown: Mutex::new(shown.to_owned()), ..Juju::default() });
    let unit = "counter/0".parse().unwrap();
    let outcome = reconcile(counter, &Tools::with_runner(&unit, juju.clone()), &Journal::default());
    let calls = juju.calls.lock().unwrap().clone();
    (outcome, calls)
}

#[test]
fn rounds_go_on_until_nothing_is_left() {
    let (outcome, calls) = run(&mut counter(0, 3), r#"{"status":"unknown"}"#);
    assert_eq!(outcome.unwrap(), ["count to 1", "count to 2", "count to 3"]);
    assert_eq!(calls, [r#"status-set -- maintenance "nearly there""#, r#"status-set -- active "at 3""#]);
}

#[test]
fn a_settled_unit_is_told_nothing_it_shows_already() {
    let (outcome, calls) = run(&mut counter(3, 3), r#"{"status":"active","message":"at 3","status-data":{}}"#);
    assert!(outcome.unwrap().is_empty());
    assert_eq!(calls, ["status-get --format=json --include-data"]);
}

#[test]
fn a_status_that_is_no_longer_true_is_replaced() {
    let (_, calls) = run(&mut counter(3, 3), r#"{"status":"active","message":"at 2","status-data":{}}"#);
    assert_eq!(calls.last().unwrap(), r#"status-set -- active "at 3""#);
}

#[test]
fn a_plan_that_never_settles_is_an_error_that_names_its_wish() {
    let (outcome, _) = run(&mut Counter { stuck: true, ..counter(0, 1) }, "{}");
    assert!(outcome.unwrap_err().to_string().ends_with("still wants to: count to 1"));
}

#[test]
fn a_failing_step_is_named_in_the_status_too_and_ends_the_rounds() {
    let (outcome, calls) = run(&mut Counter { fails: true, ..counter(0, 1) }, "{}");
    assert_eq!(crate::log::chain(&outcome.unwrap_err()), "could not count to 1: no power");
    assert_eq!(calls, [r#"status-set -- waiting "for another try: could not count to 1: no power""#]);
}

#[test]
fn the_timer_is_kept_when_nothing_else_is_to_do() {
    let plan =
        |steps: &[&'static str], next, waking| Plan::keeping_timer(steps.to_vec(), next, waking, "set", "end").steps;
    assert_eq!(plan(&["work"], Next::LookAgain, false), ["work"]);
    assert_eq!(plan(&[], Next::LookAgain, false), ["set"]);
    assert_eq!(plan(&[], Next::LookAgain, true), [""; 0]);
    assert_eq!(plan(&[], Next::Settled, true), ["end"]);
    assert_eq!(plan(&[], Next::Settled, false), [""; 0]);
}
