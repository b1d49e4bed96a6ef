//! A primary that comes back, and the controller that serves in its place.

use super::stage::Stage;
use slurm_ops::fence::Settings;
use slurm_ops::fence::control::{self, Request, Stage as Asked};
use slurm_ops::fence::daemon::DaemonState;
use slurm_ops::fence::watch::Watch;
use std::fs;

/// Settings of one of two controllers.
fn ranked(rank: u64, other: &str) -> Settings {
    Settings { rank: Some(rank), others: vec![other.to_owned()], ..Stage::settings() }
}

impl Stage {
    fn request(&self) -> Option<Request> {
        Request::parse(&fs::read_to_string(self.path("store").join(control::FILE)).unwrap_or_default())
    }

    fn want(&self, host: &str) {
        let at = self.machine.host().now();
        let request = Request { host: host.to_owned(), at, stage: Asked::Wanted };
        self.write(&format!("store/{}", control::FILE), &request.render());
    }
}

/// The second of two controllers, which serves.
fn serving_backup() -> (Stage, Watch) {
    let stage = Stage::new();
    stage.set(&ranked(1, "c1"));
    stage.heartbeat(1);
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    (stage, watch)
}

#[test]
fn the_one_that_serves_gives_control_to_the_primary_that_comes_back() {
    let (stage, mut watch) = serving_backup();
    stage.pass(&mut watch, 1);
    // The primary finds a file with nothing in it.
    assert_eq!(fs::read_to_string(stage.path("store").join(control::FILE)).unwrap(), "");
    let machine = stage.machine.clone();
    let primary = std::thread::spawn(move || control::ask(&machine.writer(), &ranked(0, "c2"), "c1"));
    stage.until(&mut watch, |state| state.gave_way);
    stage.pass(&mut watch, 1);
    assert_eq!(stage.request().unwrap().stage, Asked::Taken);
    assert!(stage.told().iter().all(|told| *told == "stop"), "it may be told more than once");
    assert!(!primary.is_finished(), "slurmctld still saves its state");
    stage.daemon.state.set(DaemonState::Stopped);
    stage.until(&mut watch, |_| primary.is_finished());
    primary.join().unwrap().unwrap();
    assert_eq!((stage.request().unwrap().stage, stage.told().len()), (Asked::Given, 0));
    stage.heartbeat(0);
    stage.until(&mut watch, |state| !state.gave_way);
    assert_eq!(stage.told(), ["start"]);
}

#[test]
fn a_slurmctld_that_gave_control_away_is_started_by_the_next_fence_too() {
    let (stage, mut watch) = serving_backup();
    stage.want("c1");
    stage.until(&mut watch, |state| state.gave_way);
    drop(watch);
    stage.told();
    let mut watch = Watch::new(stage.machine.clone());
    stage.until(&mut watch, |_| !stage.daemon.told.borrow().is_empty());
    assert_eq!(stage.told(), ["stop"], "the one before may not have said so");
    stage.daemon.state.set(DaemonState::Stopped);
    stage.heartbeat(0);
    stage.until(&mut watch, |state| !state.gave_way);
    assert_eq!(stage.told(), ["start"]);
}

#[test]
fn nobody_gives_control_to_strangers_or_for_a_standby() {
    let (stage, mut watch) = serving_backup();
    stage.want("c9");
    stage.pass(&mut watch, 1);
    stage.want("c1");
    stage.heartbeat(2);
    stage.pass(&mut watch, 1);
    assert_eq!((stage.told(), stage.request().unwrap().stage), (vec![], Asked::Wanted));
}

#[test]
fn a_primary_that_nobody_answers_takes_its_request_back_and_asks_once() {
    let stage = Stage::new();
    stage.heartbeat(1);
    let ask = |settings: &Settings| control::ask(&stage.machine.writer(), settings, "c1");
    ask(&ranked(1, "c1")).unwrap();
    assert_eq!(stage.request(), None, "only a primary asks");
    ask(&ranked(0, "c2")).unwrap();
    assert_eq!(stage.request().unwrap().stage, Asked::TakenBack);
    stage.write(&format!("store/{}", control::FILE), "");
    ask(&ranked(0, "c2")).unwrap();
    assert_eq!(stage.request(), None, "it has not served since");
    // Its fence sees that it serves.
    stage.set(&ranked(0, "c2"));
    stage.heartbeat(0);
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
    stage.until(&mut watch, |_| !stage.machine.path(control::ASKED).exists());
    ask(&ranked(0, "c2")).unwrap();
    assert_eq!(stage.request(), None, "nobody else serves");
}
