//! A fence with real children, on machines that are directories. The daemon that is fenced is made up: what the fence
//! does to it is written down.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod control;
mod stage;

use slurm_ops::fence::daemon::DaemonState;
use slurm_ops::fence::watch::Watch;
use slurm_ops::fence::{self, Gate, Settings, Why};
use slurm_ops::heartbeat::Heartbeat;
use stage::{BINARY, LOCAL, PlayedOthers, STORE, Stage};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

/// How many processes run a program.
fn running(program: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program)).count()
}

#[test]
fn a_store_that_takes_writes_lets_slurmctld_serve() {
    let stage = Stage::new();
    assert_eq!(stage.may_start().unwrap_err(), "the fence does not run");
    let mut watch = Watch::new(stage.machine.clone());
    let state = stage.open(&mut watch);
    assert!(state.is_open() && state.why.is_none() && state.last_write.is_some() && state.total > 0, "{state:?}");
    assert_eq!(fs::read_to_string(stage.probe()).unwrap().len(), 21);
    assert_eq!(stage.told(), [""; 0]);
    stage.may_start().unwrap();
    // The guard looks for itself.
    stage.write("store/state/.cluster", "other\n");
    assert_eq!(stage.may_start().unwrap_err(), "/store/state belongs to `other`");
}

#[test]
fn it_closes_at_once_for_what_is_wrong_and_opens_when_it_is_right_again() {
    let stage = Stage::new();
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    let (marker, table, whole) = ("store/state/.cluster", "proc/self/mountinfo", format!("{LOCAL}{STORE}"));
    let trigger = whole.replace("fuse.mfs", "autofs");
    let cases = [
        (marker, Some("other\n"), "lab\n", Why::Marker { found: Some("other".to_owned()) }),
        (marker, None, "lab\n", Why::Marker { found: None }),
        (table, Some(LOCAL), &whole, Why::NotMounted),
        (table, Some(&trigger), &whole, Why::NotMounted),
    ];
    for (file, bad, good, expected) in cases {
        match bad {
            Some(text) => stage.write(file, text),
            None => fs::remove_file(stage.path(file)).unwrap(),
        }
        let began = Instant::now();
        assert_eq!(stage.closed(&mut watch), expected);
        assert!(began.elapsed() < Duration::from_secs(2), "{expected:?} needs no patience");
        assert!(stage.may_start().unwrap_err().starts_with("the fence is closed: "));
        // One that is still there is not told every second; one that is there again is.
        watch.turn(&stage.daemon, Instant::now());
        assert_eq!(stage.told(), ["kill"]);
        stage.daemon.state.set(DaemonState::Runs { pid: 1000 });
        watch.turn(&stage.daemon, Instant::now());
        assert_eq!(stage.told(), ["kill"]);
        stage.daemon.state.set(DaemonState::Failed);
        watch.turn(&stage.daemon, Instant::now());
        stage.write(file, good);
        stage.open(&mut watch);
        assert_eq!(stage.told(), ["start"]);
        stage.may_start().unwrap();
    }
}

#[test]
fn a_full_store_closes_it_and_settings_are_read_anew() {
    let stage = Stage::new();
    let mut watch = Watch::new(stage.machine.clone());
    let free = stage.open(&mut watch).free;
    for (reserve, told) in [(free + free / 2, ["stop", "start"]), (u64::MAX, ["kill", "start"])] {
        stage.set(&Settings { reserve, ..Stage::settings() });
        assert!(matches!(stage.closed(&mut watch), Why::Full { free } if free > 0));
        stage.set(&Stage::settings());
        stage.open(&mut watch);
        assert_eq!(stage.told(), told, "there is room to save, or there is not");
    }
}

#[test]
fn nothing_is_written_on_a_store_of_others() {
    for marker in [Some("other\n"), None] {
        let stage = Stage::new();
        match marker {
            Some(text) => stage.write("store/state/.cluster", text),
            None => fs::remove_file(stage.path("store/state/.cluster")).unwrap(),
        }
        let mut watch = Watch::new(stage.machine.clone());
        stage.closed(&mut watch);
        let found: Vec<_> =
            fs::read_dir(stage.path("store")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found, ["state"]);
    }
}

#[test]
fn whoever_was_stopped_by_somebody_else_is_not_started() {
    let stage = Stage::new();
    stage.daemon.state.set(DaemonState::Stopped);
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    stage.write("store/state/.cluster", "other\n");
    stage.closed(&mut watch);
    stage.write("store/state/.cluster", "lab\n");
    stage.open(&mut watch);
    assert_eq!(stage.told(), [""; 0]);
}

#[test]
fn a_store_that_refuses_writes_closes_it_after_a_while() {
    let stage = Stage::new();
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    let probe = stage.probe();
    fs::remove_file(&probe).unwrap();
    fs::create_dir(&probe).unwrap();
    let why = stage.closed(&mut watch);
    assert!(matches!(&why, Why::NoWrite { for_seconds: 2.., error: Some(error) } if error.contains("Is a directory")));
    fs::remove_dir(&probe).unwrap();
    stage.open(&mut watch);
}

/// Has a store that was silent answer again, for as long as the file is open.
fn answer(probe: &Path) -> fs::File {
    let released = OpenOptions::new().read(true).write(true).open(probe).unwrap();
    fs::remove_file(probe).unwrap();
    released
}

#[test]
fn a_store_that_does_not_answer_closes_it_with_one_child_that_waits() {
    let stage = Stage::new();
    stage.set(&Settings { others: vec!["c2".to_owned()], ..Stage::settings() });
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    let probe = stage.silence();
    let began = Instant::now();
    assert!(matches!(stage.closed(&mut watch), Why::NoWrite { for_seconds: 2.., .. }));
    assert!(began.elapsed() > Duration::from_secs(1), "it has patience");
    for _ in 0..3 {
        watch.turn(&stage.daemon, Instant::now());
    }
    assert_eq!(running(&stage.program), 1);
    assert!(stage.told().contains(&"kill"));
    // A fence that is started now knows that one waits, ends it before it starts another, and knows that it was closed.
    let mut second = Watch::new(stage.machine.clone());
    second.turn(&stage.daemon, Instant::now());
    assert!(running(&stage.program) <= 1);
    let state = fence::look(&stage.machine.host()).unwrap();
    assert!(state.state == Gate::Closed && state.killed, "{state:?}");
    drop(second);
    // The store answers again.
    let released = answer(&probe);
    stage.open(&mut watch);
    assert_eq!(stage.told().last(), Some(&"start"));
    drop(released);
    drop(watch);
    assert_eq!(running(&stage.program), 0);
}

#[test]
fn a_store_that_answers_no_controller_closes_nobody() {
    let stage = Stage::new();
    let others = PlayedOthers::default();
    let told = others.clone();
    stage.set(&Settings { others: vec!["c2".to_owned(), "c3".to_owned()], ..Stage::settings() });
    let mut watch = Watch::new(stage.machine.clone()).with_others(others.clone());
    stage.open(&mut watch);
    assert!(told.told.get() > Duration::ZERO, "the others may ask, too");
    *others.ages.borrow_mut() = BTreeMap::from([("c2", 4), ("c3", 9)]);
    let probe = stage.silence();
    stage.pass(&mut watch, 5);
    assert_eq!((stage.told(), fence::look(&stage.machine.host()).unwrap().state), (vec![], Gate::Open));
    // The charm says what the cluster waits for.
    assert_eq!(stage.daemon.calls.take(), 1);
    // It answers the others again, and not this one: they may take over.
    others.ages.borrow_mut().insert("c3", 0);
    stage.closed(&mut watch);
    assert_eq!((stage.told(), stage.daemon.calls.take()), (vec!["kill"], 1));
    drop(answer(&probe));
    stage.open(&mut watch);
    stage.pass(&mut watch, 1);
    assert_eq!(stage.daemon.calls.take(), 2, "it answers, and soon after slurmctld may serve");
}

/// The store answers again, and the probe of this fence last of all.
#[test]
fn a_slurmctld_that_others_see_writing_is_not_ended() {
    let stage = Stage::new();
    let others = PlayedOthers::default();
    let hosts = vec!["c2".to_owned(), "c3".to_owned()];
    let patience = Duration::from_secs(4);
    stage.set(&Settings { others: hosts, rank: Some(1), patience, ..Stage::settings() });
    let mut watch = Watch::new(stage.machine.clone()).with_others(others.clone());
    stage.open(&mut watch);
    others.ages.borrow_mut().insert("c2", 0);
    let beat = |controller| others.heartbeat.set(Some(Heartbeat { at: stage.machine.host().now(), controller }));
    let probe = stage.silence();
    for _ in 0..7 {
        beat(1);
        stage.pass(&mut watch, 1);
    }
    assert_eq!((stage.told(), fence::look(&stage.machine.host()).unwrap().state), (vec![], Gate::Open));
    // That of another one says nothing about it.
    stage.until(&mut watch, |state| {
        beat(0);
        state.state == Gate::Closed
    });
    assert_eq!(stage.told(), ["kill"]);
    drop(answer(&probe));
}

#[test]
fn a_controller_that_does_not_answer_may_take_over() {
    let stage = Stage::new();
    let others = PlayedOthers::default();
    stage.set(&Settings { others: vec!["c2".to_owned(), "c3".to_owned()], ..Stage::settings() });
    let mut watch = Watch::new(stage.machine.clone()).with_others(others.clone());
    stage.open(&mut watch);
    others.ages.borrow_mut().insert("c2", 60);
    let probe = stage.silence();
    stage.closed(&mut watch);
    drop(answer(&probe));
}

/// Nobody takes over from a single controller. One that gives a sign of life is not the only one, whatever the fence
/// was told.
#[test]
fn a_single_controller_waits_for_its_store() {
    let stage = Stage::new();
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    let probe = stage.silence();
    stage.pass(&mut watch, 4);
    assert_eq!((stage.told(), fence::look(&stage.machine.host()).unwrap().state), (vec![], Gate::Open));
    drop(answer(&probe));
    stage.heartbeat(0);
    stage.pass(&mut watch, 2);
    let probe = stage.silence();
    stage.closed(&mut watch);
    drop(answer(&probe));
}

#[test]
fn the_charm_is_called_when_another_controller_serves() {
    let stage = Stage::new();
    let mut watch = Watch::new(stage.machine.clone());
    stage.heartbeat(0);
    stage.open(&mut watch);
    stage.pass(&mut watch, 1);
    assert_eq!(stage.daemon.calls.take(), 0, "who serves at first is no news");
    stage.daemon.answers_calls.set(false);
    stage.heartbeat(1);
    stage.pass(&mut watch, 1);
    assert_eq!(stage.daemon.calls.take(), 1);
    stage.daemon.answers_calls.set(true);
    stage.until(&mut watch, |_| stage.daemon.calls.get() == 1);
    stage.pass(&mut watch, 1);
    assert_eq!(stage.daemon.calls.take(), 1, "a call that was made is not made again");
}

thread_local! {
    /// How much the clock of a test is ahead, in seconds.
    static AHEAD: Cell<u64> = const { Cell::new(0) };
}

/// A clock that goes on by as much as a test says.
fn clock() -> Duration {
    Duration::from_secs(1000 + AHEAD.get())
}

#[test]
fn a_machine_that_stood_still_is_closed_before_anything_else() {
    let stage = Stage::new();
    stage.set(&Settings { others: vec!["c2".to_owned()], ..Stage::settings() });
    let mut watch = Watch::with_clock(stage.machine.clone(), clock);
    stage.open(&mut watch);
    AHEAD.set(60);
    watch.turn(&stage.daemon, Instant::now() + Duration::from_secs(5));
    assert_eq!(stage.told(), ["hold", "kill", "release"]);
    assert_eq!(fence::look(&stage.machine.host()).unwrap().why, Some(Why::Frozen));
    stage.open(&mut watch);
    assert_eq!(stage.told().last(), Some(&"start"));
}

/// What it accepted last is in its memory only.
#[test]
fn a_single_controller_that_stood_still_goes_on_once_the_store_has_answered() {
    let stage = Stage::new();
    let mut watch = Watch::with_clock(stage.machine.clone(), clock);
    stage.open(&mut watch);
    AHEAD.set(60);
    watch.turn(&stage.daemon, Instant::now() + Duration::from_secs(5));
    assert_eq!(stage.told(), ["hold", "release"]);
    assert!(fence::look(&stage.machine.host()).unwrap().is_open());
    assert_eq!(stage.daemon.calls.take(), 0, "nothing has changed");
}

#[test]
fn a_single_controller_that_stood_still_is_ended_if_anybody_may_have_come() {
    type Event = fn(&Stage);
    let cases: [(&str, Event); 4] = [
        ("joined", |stage| stage.write("store/.probe-c2", "")),
        ("served", |stage| stage.heartbeat(1)),
        ("adopted", |stage| stage.write("store/state/.cluster", "other\n")),
        ("silent", |stage| drop(stage.silence())),
    ];
    for (name, happen) in cases {
        let stage = Stage::new();
        AHEAD.set(0);
        let mut watch = Watch::with_clock(stage.machine.clone(), clock);
        stage.open(&mut watch);
        happen(&stage);
        AHEAD.set(60);
        watch.turn(&stage.daemon, Instant::now() + Duration::from_millis(500));
        assert_eq!(stage.told(), ["hold", "kill", "release"], "{name}");
        assert_eq!(fence::look(&stage.machine.host()).unwrap().state, Gate::Closed, "{name}");
    }
}

#[test]
fn a_fence_that_is_started_anew_goes_on_and_kills_nobody_for_that() {
    let stage = Stage::new();
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    drop(watch);
    let mut watch = Watch::new(stage.machine.clone());
    let state = stage.open(&mut watch);
    assert!(state.is_open(), "{state:?}");
    assert_eq!(stage.told(), [""; 0]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "starts the program as systemd does")]
fn the_guard_of_a_machine_without_a_fence_says_so() {
    let output = std::process::Command::new(BINARY).arg(fence::GUARD_ARGUMENT).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "slurmctld must not start: the fence has no settings\n");
}
