//! Where a fence is played: a machine that is a directory, a daemon that is made up, fences of others.

use nix::sys::stat::Mode;
use slurm_ops::Machine;
use slurm_ops::fence::daemon::{Daemon, DaemonState};
use slurm_ops::fence::others::{Heard, Others, Own};
use slurm_ops::fence::watch::Watch;
use slurm_ops::fence::{self, FenceState, Gate, Settings, Why, guard};
use slurm_ops::heartbeat::Heartbeat;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub const BINARY: &str = env!("CARGO_BIN_EXE_slurmctld-charm");
pub const LOCAL: &str = "1 0 0:1 / / rw - ext4 /dev/vda1 rw\n";
pub const STORE: &str = "2 1 0:2 / /store rw - fuse.mfs mfsmaster:9421 rw\n";

/// A daemon that does what it is told.
pub struct Played {
    pub state: Cell<DaemonState>,
    pub starts: Cell<u32>,
    pub told: RefCell<Vec<&'static str>>,
    pub calls: Cell<u32>,
    pub answers_calls: Cell<bool>,
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
    fn hold(&self, _: &str, still: bool) {
        self.told.borrow_mut().push(if still { "hold" } else { "release" });
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
pub struct PlayedOthers {
    /// How old the last write of each is. Those that are not here do not answer.
    pub ages: Rc<RefCell<BTreeMap<&'static str, u64>>>,
    pub asked: Rc<RefCell<Option<Duration>>>,
    pub told: Rc<Cell<Duration>>,
    pub heartbeat: Rc<Cell<Option<Heartbeat>>>,
}

impl Others for PlayedOthers {
    fn tell(&mut self, own: Own) {
        assert_eq!(own.cluster, "lab");
        self.told.set(own.last_write);
    }
    fn ask(&mut self, cluster: &str, hosts: &[String]) {
        assert_eq!((cluster, hosts), ("lab", &["c2".to_owned(), "c3".to_owned()][..]));
        *self.asked.borrow_mut() = Some(boot_time());
    }
    fn heard(&self, host: &str) -> Option<Heard> {
        let age = Duration::from_secs(*self.ages.borrow().get(host)?);
        Some(Heard { asked: (*self.asked.borrow())?, age, heartbeat: self.heartbeat.get() })
    }
}

pub fn boot_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap().into()
}

pub struct Stage {
    pub root: tempfile::TempDir,
    pub machine: Machine,
    pub program: PathBuf,
    pub daemon: Played,
}

impl Stage {
    pub fn new() -> Self {
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

    pub fn settings() -> Settings {
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

    pub fn set(&self, settings: &Settings) {
        fence::ensure_settings(&self.machine.writer(), settings).unwrap();
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Has a controller give a sign of life.
    pub fn heartbeat(&self, controller: u64) {
        let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let beat = [at.to_be_bytes(), controller.to_be_bytes()].concat();
        fs::write(self.path("store/state/heartbeat"), beat).unwrap();
    }

    pub fn probe(&self) -> PathBuf {
        let found = fs::read_dir(self.path("store")).unwrap().flatten();
        let mut probes = found.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("/.probe-"));
        let probe = probes.next().unwrap();
        assert_eq!(probes.next(), None);
        probe
    }

    /// Has the store answer nobody: there is no reader of the pipe that the probe is now, so that whoever opens it
    /// waits, as for a server that is gone. Returns its path.
    pub fn silence(&self) -> PathBuf {
        let probe = self.probe();
        fs::remove_file(&probe).unwrap();
        nix::unistd::mkfifo(&probe, Mode::S_IRWXU).unwrap();
        probe
    }

    /// Has the fence take turns for some seconds.
    pub fn pass(&self, watch: &mut Watch, seconds: u64) {
        let end = Instant::now() + Duration::from_secs(seconds);
        self.until(watch, |_| Instant::now() >= end);
    }

    /// Has the fence take turns, each a fraction of a second long, until something is so. Returns what it says then.
    pub fn until(&self, watch: &mut Watch, wanted: impl Fn(&FenceState) -> bool) -> FenceState {
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

    pub fn open(&self, watch: &mut Watch) -> FenceState {
        self.until(watch, |state| state.state == Gate::Open)
    }

    pub fn closed(&self, watch: &mut Watch) -> Why {
        self.until(watch, |state| state.state == Gate::Closed).why.unwrap()
    }

    pub fn told(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.daemon.told.borrow_mut())
    }

    pub fn may_start(&self) -> Result<(), String> {
        guard::may_start(&self.machine.host(), Duration::from_millis(10)).map(drop)
    }
}
