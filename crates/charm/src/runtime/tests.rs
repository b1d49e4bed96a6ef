//! The rounds: their order, their end, the retry timer, and what is reported.

use super::*;
use crate::action::{ActionFailure, ActionResults};
use crate::context::Context;
use crate::event::ActionName;
use crate::log::Journal;
use crate::status::Status;
use crate::tools::Tools;
use crate::tools::process::{Call, Output, ToolRunner};
use std::sync::{Arc, Mutex};

/// Answers `status-get` with what is shown and remembers every call. Whoever is [`MUTE`] shows nothing else.
#[derive(Default)]
struct Juju {
    shown: String,
    calls: Mutex<Vec<String>>,
}

impl ToolRunner for Juju {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        self.calls.lock().unwrap().push(call.command_line());
        let stdout = if call.tool == "status-get" { self.shown.clone().into_bytes() } else { Vec::new() };
        let refuses = call.tool == "status-set" && self.shown == MUTE;
        Ok(Output { exit_code: Some(i32::from(refuses)), stdout, stderr: Vec::new() })
    }
}

crate::facts! {
    /// What was counted so far.
    count: Count(u32),
    /// Where counting ends.
    goal: Goal(u32),
}

/// A counter on a machine.
#[derive(Clone, Default)]
struct World {
    at: u32,
    goal: u32,
    /// Steps have no effect.
    stuck: bool,
    /// Steps fail.
    broken: bool,
    /// Something is awaited at the end.
    awaits: bool,
    timer: bool,
    looks: Vec<Question>,
}

struct Counter;

/// A goal for which a counter waits, longer than it may plan.
const PATIENT: u32 = 1000;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no power")]
struct NoPower;

struct Awaited;

impl Condition for Awaited {
    fn status(&self) -> Status {
        Status::waiting("for more")
    }

    fn needs_retry(&self) -> bool {
        true
    }
}

type Shared = Arc<Mutex<World>>;

impl Charm for Counter {
    const EVENTS: &'static [&'static str] = &["retry"];
    const RETRY: &'static str = "retry";
    type View = Shared;
    type Hands = Shared;
    type Facts = Facts;
    type Step = String;
    type Outcome = u32;
    type Condition = Awaited;
    type Error = NoPower;

    fn begin(_: Context, _: &Tools) -> (Shared, Shared) {
        (Shared::default(), Shared::default())
    }

    fn look(view: &Shared, question: Question, _: &Facts) -> Result<Fact, NoPower> {
        let mut world = view.lock().unwrap();
        world.looks.push(question);
        Ok(match question {
            Question::Count => Fact::Count(world.at),
            Question::Goal => Fact::Goal(if world.awaits { world.at } else { world.goal }),
        })
    }

    fn plan(facts: &Facts, attempts: &Attempts<String, u32>) -> Result<Plan<String, Awaited>, Ask<Question>> {
        facts.need(&[Question::Count, Question::Goal])?;
        let (at, goal) = (*facts.count()?, *facts.goal()?);
        if at < goal && goal == PATIENT {
            return Ok(Plan::steps(vec!["wait".to_owned()]));
        }
        if at < goal {
            return Ok(Plan::steps(vec![format!("count to {}", at + 1)]));
        }
        Ok(Plan::rest(if attempts.is_empty() && goal == 9 { vec![Awaited] } else { Vec::new() }))
    }

    fn apply(hands: &Shared, _: &String) -> Result<u32, NoPower> {
        let mut world = hands.lock().unwrap();
        if world.broken {
            return Err(NoPower);
        }
        world.at += u32::from(!world.stuck);
        Ok(world.at)
    }

    fn learn(facts: &mut Facts, _: &String, at: &u32) {
        facts.learn(Fact::Count(*at));
    }

    fn status(facts: &Facts, conditions: &[Awaited]) -> Status {
        let at = facts.count().copied().unwrap_or_default();
        conditions.first().map_or_else(|| Status::active(format!("at {at}")), Condition::status)
    }

    fn announce(step: &String) -> Option<Status> {
        match step.as_str() {
            "count to 2" => Some(Status::maintenance("nearly there")),
            "wait" => Some(Status::maintenance("waiting")),
            _ => None,
        }
    }

    fn is_wait(step: &String) -> bool {
        step == "wait"
    }

    fn retry_timer_is_set(view: &Shared) -> bool {
        view.lock().unwrap().timer
    }

    fn set_retry_timer(hands: &Shared, set: bool) -> Result<(), NoPower> {
        hands.lock().unwrap().timer = set;
        Ok(())
    }

    fn act(_: &Dispatch<'_, Self>, _: &ActionName) -> Result<ActionResults, ActionFailure> {
        Err(ActionFailure::refused("counters count"))
    }
}

struct Run {
    outcome: Result<Vec<String>, RoundsError<NoPower>>,
    calls: Vec<String>,
    world: World,
}

fn settle(world: &World, shown: &str, is_retry: bool) -> Run {
    let juju = Arc::new(Juju { shown: shown.to_owned(), calls: Mutex::default() });
    let tools = Tools::with_runner(&"counter/0".parse().unwrap(), juju.clone());
    let shared = Shared::new(Mutex::new(world.clone()));
    let (view, hands) = (shared.clone(), shared.clone());
    let dispatch = Dispatch::<Counter> { view, hands, tools: &tools, journal: &Journal::default(), is_retry };
    let outcome = dispatch.settle().map(|settled| settled.steps);
    let calls = juju.calls.lock().unwrap().clone();
    Run { outcome, calls, world: shared.lock().unwrap().clone() }
}

const UNKNOWN: &str = r#"{"status":"unknown"}"#;
const MUTE: &str = r#"{"status":"unknown","message":"mute"}"#;

fn counting(at: u32, goal: u32) -> World {
    World { at, goal, ..World::default() }
}

#[test]
fn rounds_go_on_until_nothing_is_left() {
    let run = settle(&counting(0, 3), UNKNOWN, false);
    assert_eq!(run.outcome.unwrap(), ["count to 1", "count to 2", "count to 3"]);
    let expected = [r#"status-set -- maintenance "nearly there""#, r#"status-set -- active "at 3""#];
    assert_eq!(run.calls[1..], expected);
}

#[test]
fn an_answer_that_no_step_changed_is_not_looked_at_again() {
    let run = settle(&counting(0, 3), UNKNOWN, false);
    let mut asked = run.world.looks.clone();
    asked.sort();
    assert_eq!(asked, [Question::Count, Question::Goal]);
}

#[test]
fn a_settled_unit_sets_no_status_that_is_shown_already() {
    let run = settle(&counting(3, 3), r#"{"status":"active","message":"at 3","status-data":{}}"#, false);
    assert!(run.outcome.unwrap().is_empty());
    assert_eq!(run.calls, ["status-get --format=json --include-data"]);
}

#[test]
fn a_status_that_is_no_longer_true_is_replaced() {
    let run = settle(&counting(3, 3), r#"{"status":"active","message":"at 2","status-data":{}}"#, false);
    assert_eq!(run.calls.last().unwrap(), r#"status-set -- active "at 3""#);
}

#[test]
fn a_plan_that_never_settles_is_an_error_that_names_its_wish() {
    let run = settle(&World { stuck: true, ..counting(0, 1) }, UNKNOWN, false);
    assert!(run.outcome.unwrap_err().to_string().ends_with("still wants to count to 1"));
}

#[test]
fn a_wait_may_last_for_more_rounds_than_a_plan() {
    let run = settle(&counting(0, PATIENT), UNKNOWN, false);
    assert!(run.outcome.unwrap().is_empty(), "a wait changes nothing");
    let expected = [r#"status-set -- maintenance waiting"#, r#"status-set -- active "at 1000""#];
    assert_eq!(run.calls[1..], expected, "a status that is shown is not set again");
}

#[test]
fn a_failing_step_is_named_in_the_status_too() {
    let run = settle(&World { broken: true, ..counting(0, 1) }, UNKNOWN, false);
    assert_eq!(crate::log::chain(&run.outcome.unwrap_err()), "could not count to 1: no power");
    let expected = r#"status-set -- waiting "retrying after error: could not count to 1: no power""#;
    assert_eq!(run.calls.last().unwrap(), expected);
}

#[test]
fn the_retry_timer_is_set_while_something_is_awaited() {
    let run = settle(&counting(9, 9), UNKNOWN, false);
    assert!(run.world.timer);
    assert_eq!(run.calls.last().unwrap(), r#"status-set -- waiting "for more""#);
}

#[test]
fn only_a_call_of_the_retry_timer_ends_it() {
    let set = World { timer: true, ..counting(3, 3) };
    assert!(settle(&set, UNKNOWN, false).world.timer);
    assert!(!settle(&set, UNKNOWN, true).world.timer);
}

#[test]
fn a_call_whose_status_nobody_heard_is_not_the_last() {
    let set = World { timer: true, ..counting(3, 3) };
    let run = settle(&set, MUTE, true);
    assert!(run.outcome.is_err() && run.world.timer);
}

#[test]
fn attempts_are_told_apart_by_their_order() {
    let attempts = Attempts::default().with("start", false).with("restore", true);
    assert!(attempts.made(|step| *step == "start"));
    assert!(!attempts.made_since(|step| *step == "start", |step| *step == "restore"));
    assert!(attempts.with("start", true).made_since(|step| *step == "start", |step| *step == "restore"));
}
