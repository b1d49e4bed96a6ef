//! A fence with real children, on machines that are directories. The daemon that is fenced is made up: what the fence
//! does to it is written down.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use nix::sys::stat::Mode;
use slurm_ops::Machine;
use slurm_ops::fence::control::{self, Request, Stage as Asked};
use slurm_ops::fence::daemon::{Daemon, DaemonState};
use slurm_ops::fence::others::{Heard, Others};
use slurm_ops::fence::watch::Watch;
use slurm_ops::fence::{self, FenceState, Gate, Settings, Why, guard};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_slurmctld-charm");
const LOCAL: &str = "1 0 0:1 / / rw - ext4 /dev/vda1 rw\n";
const STORE: &str = "2 1 0:2 / /store rw - fuse.mfs mfsmaster:9421 rw\n";

/// A daemon that does what it is told.
struct Played {
    state: Cell<DaemonState>,
    starts: Cell<u32>,
    told: RefCell<Vec<&'static str>>,
    calls: Cell<u32>,
    answers_calls: Cell<bool>,
}

impl Daemon for Played {
    fn state(&self, service: &str) -> DaemonState {
        assert_eq!(service, "slurmctld.service");
        self.state.get()
    }
    fn stop(&self, _: &str) {
        self.told.borrow_mut().push("stop");
    }
    fn kill(&self, _: &str) {
        self.told.borrow_mut().push("kill");
    }
    fn start(&self, _: &str) {
        let pid = self.starts.get() + 1;
        self.starts.set(pid);
        self.state.set(DaemonState::Runs { pid });
        self.told.borrow_mut().push("start");
    }
    fn call(&self, command: &[String]) -> bool {
        assert_eq!(command, ["call"]);
        self.calls.set(self.calls.get() + 1);
        self.answers_calls.get()
    }
}

/// Fences of other controllers that say what a test has them say.
#[derive(Debug, Clone, Default)]
struct PlayedOthers {
    /// How old the last write of each is. Those that are not here do not answer.
    ages: Rc<RefCell<BTreeMap<&'static str, u64>>>,
    asked: Rc<RefCell<Option<Duration>>>,
    told: Rc<Cell<Duration>>,
}

impl Others for PlayedOthers {
    fn tell(&mut self, cluster: &str, last_write: Duration) {
        assert_eq!(cluster, "lab");
        self.told.set(last_write);
    }
    fn ask(&mut self, cluster: &str, hosts: &[String]) {
        assert_eq!((cluster, hosts), ("lab", &["c2".to_owned(), "c3".to_owned()][..]));
        *self.asked.borrow_mut() = Some(boot_time());
    }
    fn heard(&self, host: &str) -> Option<Heard> {
        let age = Duration::from_secs(*self.ages.borrow().get(host)?);
        Some(Heard { asked: (*self.asked.borrow())?, age })
    }
}

fn boot_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap().into()
}

struct Stage {
    root: tempfile::TempDir,
    machine: Machine,
    program: PathBuf,
    daemon: Played,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        // A program of this test alone, to tell its processes from those of others.
        let program = root.path().join("program");
        fs::copy(BINARY, &program).unwrap();
        let machine = Machine::at(root.path()).with_program(&program);
        let daemon = Played {
            state: Cell::new(DaemonState::Runs { pid: 0 }),
            starts: Cell::default(),
            told: RefCell::default(),
            calls: Cell::default(),
            answers_calls: Cell::new(true),
        };
        let stage = Self { root, machine, program, daemon };
        stage.write("proc/self/mountinfo", &format!("{LOCAL}{STORE}"));
        stage.write("store/state/.cluster", "lab\n");
        stage.set(&Stage::settings());
        stage
    }

    fn settings() -> Settings {
        Settings {
            directory: "/store".to_owned(),
            state_directory: "/store/state".to_owned(),
            marker: "lab".to_owned(),
            patience: Duration::from_secs(2),
            service: "slurmctld.service".to_owned(),
            reserve: 1,
            others: Vec::new(),
            rank: None,
            call: vec!["call".to_owned()],
        }
    }

    fn set(&self, settings: &Settings) {
        fence::ensure_settings(&self.machine.writer(), settings).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Has a controller give a sign of life.
    fn heartbeat(&self, controller: u64) {
        let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let beat = [at.to_be_bytes(), controller.to_be_bytes()].concat();
        fs::write(self.path("store/state/heartbeat"), beat).unwrap();
    }

    fn probe(&self) -> PathBuf {
        let found = fs::read_dir(self.path("store")).unwrap().flatten();
        let mut probes = found.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("/.probe-"));
        let probe = probes.next().unwrap();
        assert_eq!(probes.next(), None);
        probe
    }

    /// Has the store answer nobody: there is no reader of the pipe that the probe is now, so that whoever opens it
    /// waits, as for a server that is gone. Returns its path.
    fn silence(&self) -> PathBuf {
        let probe = self.probe();
        fs::remove_file(&probe).unwrap();
        nix::unistd::mkfifo(&probe, Mode::S_IRWXU).unwrap();
        probe
    }

    /// Has the fence take turns for some seconds.
    fn pass(&self, watch: &mut Watch, seconds: u64) {
        let end = Instant::now() + Duration::from_secs(seconds);
        self.until(watch, |_| Instant::now() >= end);
    }

    /// Has the fence take turns, each a fraction of a second long, until something is so. Returns what it says then.
    fn until(&self, watch: &mut Watch, wanted: impl Fn(&FenceState) -> bool) -> FenceState {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let turn = Instant::now();
            watch.turn(&self.daemon, turn + Duration::from_millis(100));
            assert!(turn.elapsed() < Duration::from_secs(1), "nothing may hold the fence");
            let state = fence::look(&self.machine.host());
            match state {
                Some(state) if wanted(&state) => return state,
                state => assert!(Instant::now() < end, "{state:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn open(&self, watch: &mut Watch) -> FenceState {
        self.until(watch, |state| state.state == Gate::Open)
    }

    fn closed(&self, watch: &mut Watch) -> Why {
        self.until(watch, |state| state.state == Gate::Closed).why.unwrap()
    }

    fn told(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.daemon.told.borrow_mut())
    }

    fn may_start(&self) -> Result<(), String> {
        guard::may_start(&self.machine.host(), Duration::from_millis(10)).map(drop)
    }
}

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

#[test]
fn the_one_that_serves_gives_control_to_the_primary_that_comes_back() {
    let stage = Stage::new();
    stage.set(&ranked(1, "c1"));
    stage.heartbeat(1);
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
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
    let stage = Stage::new();
    stage.set(&ranked(1, "c1"));
    stage.heartbeat(1);
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
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
    let stage = Stage::new();
    stage.set(&ranked(1, "c1"));
    stage.heartbeat(1);
    let mut watch = Watch::new(stage.machine.clone());
    stage.open(&mut watch);
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

#[test]
fn a_machine_that_stood_still_is_closed_before_anything_else() {
    fn clock() -> Duration {
        Duration::from_secs(1000 + AHEAD.get())
    }
    let stage = Stage::new();
    let mut watch = Watch::with_clock(stage.machine.clone(), clock);
    stage.open(&mut watch);
    AHEAD.set(60);
    watch.turn(&stage.daemon, Instant::now());
    assert_eq!(stage.told(), ["kill"]);
    assert_eq!(fence::look(&stage.machine.host()).unwrap().why, Some(Why::Frozen));
    stage.open(&mut watch);
    assert_eq!(stage.told().last(), Some(&"start"));
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
