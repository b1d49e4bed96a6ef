//! A real process, started as Juju starts a charm, among tools that answer as Juju's do: what reaches Juju, and when,
//! and how the process ends.
//!
//! The charm is this very program: with `JUJU_DISPATCH_PATH` set it is a small charm, without it the tests of it. So
//! it has no harness but its own.

#![expect(clippy::unwrap_used, reason = "a test without its stage has to end")]

mod fake_juju;

use charm::runtime::{Ask, Attempts, Charm, Condition, Dispatch, Plan};
use charm::tools::{Port, SecretContent};
use charm::{ActionFailure, ActionName, ActionResults, Context, Databag, Juju, JujuWriter, Status, ToolError, Tools};
use fake_juju::{FakeJuju, Run};
use std::process::ExitCode;

charm::facts! {
    /// What the option `do` says.
    order: Order(String),
}

/// Does what its option `do` says, once.
struct Obedient;

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("the disk is full")]
    Disk(#[source] std::io::Error),
}

/// It is always well.
enum Never {}

impl Condition for Never {
    fn status(&self) -> Status {
        match *self {}
    }

    fn needs_retry(&self) -> bool {
        match *self {}
    }
}

impl Charm for Obedient {
    const EVENTS: &'static [&'static str] = &["retry"];
    const RETRY: &'static str = "retry";
    type View = Juju;
    type Hands = JujuWriter;
    type Facts = Facts;
    type Step = String;
    type Outcome = ();
    type Condition = Never;
    type Error = Trouble;

    fn begin(_: Context, tools: &Tools) -> (Juju, JujuWriter) {
        (tools.juju().clone(), tools.writer().clone())
    }

    fn look(juju: &Juju, _: Question, _: &Facts) -> Result<Fact, Trouble> {
        Ok(Fact::Order(juju.config_get()?.string("do").to_owned()))
    }

    fn plan(facts: &Facts, attempts: &Attempts<String, ()>) -> Result<Plan<String, Never>, Ask<Question>> {
        let order = Some(facts.order()?).filter(|order| !order.is_empty() && attempts.is_empty());
        Ok(Plan::steps(order.into_iter().cloned().collect()))
    }

    fn apply(juju: &JujuWriter, step: &String) -> Result<(), Trouble> {
        let relation = "db:3".parse().unwrap();
        juju.relation_set_app(&relation, &Databag::from([("same".into(), "1".into()), ("new".into(), "2".into())]));
        juju.relation_set_unit(&relation, &Databag::from([("same".into(), "1".into())]));
        juju.open_port(Port::tcp(5432));
        match step.as_str() {
            "fail" => Err(Trouble::Disk(std::io::ErrorKind::StorageFull.into())),
            "panic" => panic!("the charm was asked to"),
            "keep a secret" => {
                let content = SecretContent::default().with("password", "material");
                juju.secret_add("label", "description", &content)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn learn(_: &mut Facts, _: &String, (): &()) {}

    fn status(_: &Facts, _: &[Never]) -> Status {
        Status::active("obeyed")
    }

    fn retry_timer_is_set(_: &Juju) -> bool {
        false
    }

    fn set_retry_timer(_: &JujuWriter, _: bool) -> Result<(), Trouble> {
        Ok(())
    }

    fn act(dispatch: &Dispatch<'_, Self>, _: &ActionName) -> Result<ActionResults, ActionFailure> {
        let dump: Dump = dispatch.view.action_get()?;
        dispatch.hands.open_port(Port::tcp(5433));
        match dump.size {
            0 => Err(ActionFailure::broken(Trouble::Disk(std::io::ErrorKind::StorageFull.into()))),
            size => Ok(ActionResults::default().with("size", size.to_string())),
        }
    }
}

#[derive(serde::Deserialize)]
struct Dump {
    size: u32,
}

const WRITES: [&str; 4] = ["relation-set", "open-port", "secret-add", "application-version-set"];

fn stage(order: &str) -> FakeJuju {
    let mut juju = FakeJuju::new();
    juju.answers("config-get", "*", &format!("{{\"do\":{order:?}}}")).answers("relation-get", "*", r#"{"same":"1"}"#);
    juju
}

fn dispatch(juju: &FakeJuju, path: &str) -> Run {
    let binary = std::env::current_exe().unwrap();
    juju.dispatch(binary.to_str().unwrap(), "test/0", path, &[])
}

fn what_differs_is_sent_last_and_nothing_else() {
    let run = dispatch(&stage("write"), "hooks/config-changed");
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    let calls: Vec<&str> = run.calls.iter().map(String::as_str).collect();
    let expected = [
        "config-get --format=json",
        "relation-get --format=json -r db:3 --app - test",
        r#"relation-set -r db:3 --app --file - < {"new":"2"}"#,
        "relation-get --format=json -r db:3 - test/0",
        "opened-ports --format=json",
        "open-port 5432/tcp",
        "status-get --format=json --include-data",
        "status-set -- active obeyed",
        "juju-log -l INFO -- write",
    ];
    assert_eq!(calls[..expected.len()], expected);
    // Both lines of the log went out with one process.
    assert_eq!(calls[expected.len()..], ["test/0 config-changed: 1 step: write"]);
}

fn a_settled_hook_writes_nothing() {
    let mut juju = stage("");
    juju.answers("status-get", "*", r#"{"message":"obeyed","status":"active","status-data":{}}"#);
    let run = dispatch(&juju, "hooks/update-status");
    run.never_called(&WRITES);
    run.never_called(&["status-set", "relation-get", "juju-log"]);
    assert!(run.stdout.contains("test/0 update-status: nothing to do"), "{run:#?}");
}

fn a_failure_sends_nothing_and_tells_its_causes() {
    // A timer calls through `juju-exec`, after which Juju commits whatever the exit code.
    for path in ["hooks/config-changed", "hooks/retry"] {
        let run = dispatch(&stage("fail"), path);
        assert_eq!(run.exit_code, Some(1), "{run:#?}");
        run.never_called(&WRITES);
        let event = path.trim_start_matches("hooks/");
        run.called(&format!("juju-log -l ERROR -- test/0 {event}: could not fail: the disk is full: no storage space"));
    }
}

fn a_defect_is_told_with_its_place_and_sends_nothing() {
    let run = dispatch(&stage("panic"), "hooks/config-changed");
    assert_eq!(run.exit_code, Some(101), "{run:#?}");
    run.never_called(&WRITES);
    let log = run.of("juju-log").join("\n");
    assert!(log.contains("ERROR -- defect in the charm at ") && log.contains("process.rs:"), "{run:#?}");
    assert!(log.contains("the charm was asked to"), "{run:#?}");
}

fn the_content_of_a_secret_is_in_no_argument() {
    let mut juju = stage("keep a secret");
    juju.answers("secret-add", "*", "secret://4f3a1a5e-1111-4222-8333-444455556666/d3k2v5nmp25c762q3bvg\n");
    let run = dispatch(&juju, "hooks/config-changed");
    assert_eq!(run.exit_code, Some(0), "{run:#?}");
    assert!(run.of("secret-add")[0].contains("password#file=/"), "{run:#?}");
    assert!(!format!("{run:?}").contains("material"));
}

#[expect(clippy::disallowed_methods, reason = "starts the charm as Juju never does")]
fn an_environment_that_no_juju_makes_is_refused() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .env_clear()
        .env("JUJU_DISPATCH_PATH", "hooks/install")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "environment variable JUJU_UNIT_NAME is not set: a charm is started by Juju\n");
}

fn an_action_answers_refuses_or_breaks() {
    let act = |given: &str| {
        let mut juju = stage("");
        juju.answers("action-get", "*", given);
        dispatch(&juju, "actions/dump")
    };
    let done = act(r#"{"size":3}"#);
    assert_eq!((done.exit_code, done.stdout.as_str()), (Some(0), ""), "{done:#?}");
    done.called("action-set -- size=3");
    done.called("open-port 5433/tcp");
    let refused = act(r#"{"size":"big"}"#);
    assert_eq!(refused.exit_code, Some(0), "{refused:#?}");
    refused.called(r#"action-fail -- parameter `size`: invalid type: string "big", expected u32"#);
    refused.never_called(&["action-set", "open-port"]);
    let broken = act(r#"{"size":0}"#);
    assert_eq!(broken.exit_code, Some(0), "{broken:#?}");
    broken.called("action-fail -- the disk is full: no storage space");
    broken.never_called(&["action-set", "open-port"]);
}

fn a_denied_write_is_dropped_with_a_warning() {
    for (tool, words) in [
        ("relation-set", "ERROR cannot write relation settings"),
        ("relation-get", r#"ERROR invalid value "db:3" for option -r: relation not found"#),
    ] {
        let mut juju = stage("write");
        juju.fails(tool, "*", 1, words);
        let run = dispatch(&juju, "hooks/config-changed");
        assert_eq!(run.exit_code, Some(0), "{run:#?}");
        run.called("open-port 5432/tcp");
        assert!(run.of("juju-log").iter().any(|line| line.contains("WARNING -- not written")), "{run:#?}");
    }
}

const TESTS: [(&str, fn()); 8] = [
    ("what_differs_is_sent_last_and_nothing_else", what_differs_is_sent_last_and_nothing_else),
    ("a_settled_hook_writes_nothing", a_settled_hook_writes_nothing),
    ("a_failure_sends_nothing_and_tells_its_causes", a_failure_sends_nothing_and_tells_its_causes),
    ("a_defect_is_told_with_its_place_and_sends_nothing", a_defect_is_told_with_its_place_and_sends_nothing),
    ("the_content_of_a_secret_is_in_no_argument", the_content_of_a_secret_is_in_no_argument),
    ("an_environment_that_no_juju_makes_is_refused", an_environment_that_no_juju_makes_is_refused),
    ("an_action_answers_refuses_or_breaks", an_action_answers_refuses_or_breaks),
    ("a_denied_write_is_dropped_with_a_warning", a_denied_write_is_dropped_with_a_warning),
];

fn main() -> ExitCode {
    if std::env::var_os("JUJU_DISPATCH_PATH").is_some() {
        return charm::runtime::run::<Obedient>();
    }
    // The words of the usual harness, which whoever counts tests reads.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.iter().filter(|(name, _)| chosen(name)) {
        let ended = std::panic::catch_unwind(test);
        println!("test {name} ... {}", if ended.is_ok() { "ok" } else { "FAILED" });
        *(if ended.is_ok() { &mut passed } else { &mut failed }) += 1;
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let left_out = TESTS.len() - passed - failed;
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out\n"
    );
    ExitCode::from(u8::from(failed > 0))
}
