//! systemd on a made-up machine: services that start at once, if they have what they need.

use super::{Programs, State, fails, says};
use crate::slurm::{Phase, is_on_mount};
use crate::store::Fault;
use slurm_ops::command::Ended;
use slurm_ops::fence;
use slurm_ops::sackd;
use slurm_ops::slurmd::{SlurmdOptions, parse_defaults};
use slurm_ops::slurmdbd::CONF_FILE;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Default)]
pub(super) struct Unit {
    pub(super) pid: Option<u32>,
    pub(super) failed: bool,
    enabled: bool,
    /// When it was started last, in seconds since 1970.
    pub(super) started: u64,
}

const FIRST_PID: u32 = 4000;
const SLURMCTLD: &str = "slurmctld.service";
const SLURMD: &str = "slurmd.service";
const SACKD: &str = "sackd.service";
const SLURMDBD: &str = "slurmdbd.service";
const SLURMRESTD: &str = "slurmrestd.service";
/// What the kernel says about ports that somebody listens on.
const LISTENERS: &str = "/proc/net/tcp";

impl Programs {
    pub(super) fn systemctl(&self, state: &mut State, words: &[&str]) -> Ended {
        let verb = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
        let units = match words.iter().position(|word| *word == "--") {
            Some(end) => &words[end + 1..],
            None => &[],
        };
        if verb == "show" {
            let shown: Vec<String> = units.iter().map(|unit| self.show(state, unit)).collect();
            return says(shown.join("\n"));
        }
        for unit in units {
            if let Some(ended) = self.change(state, verb, unit) {
                return ended;
            }
        }
        says("")
    }

    fn exists(&self, unit: &str) -> bool {
        ["/usr/lib/systemd/system", "/etc/systemd/system"].iter().any(|at| self.path(&format!("{at}/{unit}")).exists())
    }

    fn show(&self, state: &State, name: &str) -> String {
        let unit = state.units.get(name).cloned().unwrap_or_default();
        let load = if self.exists(name) { "loaded" } else { "not-found" };
        let (active, sub) = match (&unit.pid, unit.failed) {
            (Some(_), _) if !self.is_up(state, name) => ("activating", "start"),
            (Some(_), _) => ("active", "running"),
            (None, true) => ("failed", "failed"),
            (None, false) => ("inactive", "dead"),
        };
        let (pid, started) = (unit.pid.unwrap_or(0), unit.started);
        let kill_mode = if self.exists(name) { "process" } else { "control-group" };
        let result = match unit.failed {
            true if name == SLURMDBD => "exit-code",
            true => "signal",
            false => "success",
        };
        let file = if unit.enabled { "enabled" } else { "disabled" };
        format!(
            "LoadState={load}\nActiveState={active}\nSubState={sub}\nResult={result}\nUnitFileState={file}\n\
             MainPID={pid}\nActiveEnterTimestamp=@{started}\nExecMainStartTimestamp=@{started}\n\
             InvocationID={pid:032x}\nKillMode={kill_mode}\nNeedDaemonReload=no\n"
        )
    }

    fn change(&self, state: &mut State, verb: &str, name: &str) -> Option<Ended> {
        if let Some(timer) = name.strip_suffix(".timer") {
            if verb == "stop" {
                let _ = fs::remove_file(self.path(&format!("/run/systemd/transient/{timer}.timer")));
            }
            return None;
        }
        let mask = self.path(&format!("/run/systemd/system/{name}"));
        match verb {
            "mask" => {
                self.write(&format!("/run/systemd/system/{name}"), b"");
                let masked = fs::remove_file(&mask).and_then(|()| symlink("/dev/null", &mask));
                assert!(masked.is_ok(), "could not mask {name}");
                return None;
            }
            "unmask" => {
                let _ = fs::remove_file(&mask);
                return None;
            }
            _ => {}
        }
        if !self.exists(name) {
            return Some(fails(5, format!("Failed to {verb} {name}: Unit {name} not found.\n")));
        }
        match verb {
            "enable" | "disable" => state.units.entry(name.to_owned()).or_default().enabled = verb == "enable",
            "reset-failed" => state.units.entry(name.to_owned()).or_default().failed = false,
            "stop" => self.stop(state, name),
            "kill" => self.crash(state, name),
            "start" | "restart" => self.start(state, name, verb == "restart"),
            "reload" => self.reload(state, name),
            _ => {}
        }
        None
    }

    /// A daemon may have died without systemd of this machine having been asked since.
    pub(super) fn find_dead(&self, state: &mut State) {
        let (lives, well) = {
            let slurm = self.slurm();
            let slurm = slurm.lock();
            (slurm.runs_controller(self.root.path()), slurm.ended_well(self.root.path()))
        };
        // One that a store holds cannot end, whoever kills it.
        let held = self.is_held();
        let dead = |unit: &&mut Unit| unit.pid.is_some() && !lives && !held;
        if let Some(unit) = state.units.get_mut(SLURMCTLD).filter(dead) {
            (unit.pid, unit.failed) = (None, !well);
        }
    }

    /// Says whether the store that slurmctld keeps its state on holds whoever touches it.
    fn is_held(&self) -> bool {
        self.site.fault() == Some(Fault::Silent) && is_on_mount(self.root.path())
    }

    /// Says whether a service has been started, and is ready.
    pub(super) fn is_up(&self, state: &State, name: &str) -> bool {
        let phase = match name {
            SLURMD => self.slurm().lock().slurmd(self.root.path()),
            SACKD => self.slurm().lock().sackd(self.root.path()),
            _ => None,
        };
        let waits = phase == Some(Phase::Fetching);
        state.units.get(name).is_some_and(|unit| unit.pid.is_some()) && !waits
    }

    fn stop(&self, state: &mut State, name: &str) {
        state.units.entry(name.to_owned()).or_default().pid = None;
        match name {
            SLURMCTLD => self.slurm().lock().stop_controller(self.root.path()),
            SLURMD => self.slurm().lock().stop_slurmd(self.root.path()),
            SACKD => self.slurm().lock().stop_sackd(self.root.path()),
            SLURMDBD => self.slurm().lock().stop_slurmdbd(self.root.path()),
            SLURMRESTD => drop(fs::remove_file(self.path(LISTENERS))),
            _ => {}
        }
    }

    pub(super) fn crash(&self, state: &mut State, name: &str) {
        let held = name == SLURMCTLD && self.is_held();
        if let Some(unit) = state.units.get_mut(name).filter(|_| !held) {
            (unit.pid, unit.failed) = (None, true);
        }
        match name {
            SLURMCTLD => self.slurm().lock().crash_controller(self.root.path()),
            SLURMD => self.slurm().lock().stop_slurmd(self.root.path()),
            SACKD => self.slurm().lock().stop_sackd(self.root.path()),
            SLURMDBD => self.slurm().lock().stop_slurmdbd(self.root.path()),
            SLURMRESTD => drop(fs::remove_file(self.path(LISTENERS))),
            _ => {}
        }
    }

    pub(super) fn reboot(&self, state: &mut State) {
        let all: Vec<String> = state.units.keys().cloned().collect();
        for name in all.iter().map(String::as_str).chain([SLURMCTLD, SLURMD, SACKD]) {
            self.crash(state, name);
        }
        let container = self.read("/run/systemd/container");
        let _ = fs::remove_dir_all(self.path("/run"));
        self.write("/run/systemd/container", container.unwrap_or_default().as_bytes());
        let enabled: Vec<String> =
            state.units.iter().filter(|(_, unit)| unit.enabled).map(|(name, _)| name.clone()).collect();
        state.units.values_mut().for_each(|unit| (unit.pid, unit.failed) = (None, false));
        enabled.iter().for_each(|name| self.start(state, name, false));
    }

    pub(super) fn start(&self, state: &mut State, name: &str, again: bool) {
        let running = state.units.get(name).is_some_and(|unit| unit.pid.is_some());
        if running && !again {
            return;
        }
        if running {
            self.stop(state, name);
        }
        // The packaged unit is skipped without its configuration, and nobody calls that a failure.
        let (mut options, mut controllers) = (None, None);
        match name {
            // The store that holds it does not answer: whoever looks waits, and systemd gives up.
            SLURMCTLD if self.is_held() => {}
            SLURMCTLD if self.read("/etc/slurm/slurm.conf").is_none() && self.is_conditional(name) => return,
            SLURMDBD if self.read(CONF_FILE).is_none() => return,
            SLURMRESTD if self.read("/etc/slurm/slurm.conf").is_none() => return,
            SLURMD => {
                options = self.read("/etc/default/slurmd").as_deref().and_then(parse_defaults);
                if options.is_none() {
                    return;
                }
            }
            SACKD => {
                controllers = self.read("/etc/default/sackd").as_deref().and_then(sackd::parse_defaults);
                if controllers.is_none() {
                    return;
                }
            }
            _ => {}
        }
        for wanted in self.drop_in_values(name, "Wants=") {
            if self.exists(&wanted) {
                self.start(state, &wanted, false);
            }
        }
        let may_start = self.may_start(state, name);
        // Without a key it would turn to munge, which is not there.
        let dbd_fails = name == SLURMDBD && (self.dbd_objection(state, true).is_some() || !self.has_key());
        let unit = state.units.entry(name.to_owned()).or_default();
        unit.started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        unit.failed = match name {
            SLURMCTLD => !may_start || !self.slurm().lock().start_controller(self.root.path()),
            SLURMDBD => dbd_fails,
            _ => false,
        };
        if unit.failed {
            return;
        }
        state.next_pid += 1;
        let pid = FIRST_PID + state.next_pid;
        unit.pid = Some(pid);
        let program = name.trim_end_matches(".service");
        let arguments = options.as_ref().map(SlurmdOptions::arguments).unwrap_or_default();
        let line = [format!("/usr/sbin/{program}"), "--systemd".to_owned()].into_iter().chain(arguments);
        let line: String = line.flat_map(|word| [word, "\0".to_owned()]).collect();
        self.write(&format!("/proc/{pid}/cmdline"), line.as_bytes());
        if let Some(options) = options {
            self.slurm().lock().start_slurmd(self.root.path(), options);
        }
        if let Some(controllers) = controllers {
            self.slurm().lock().start_sackd(self.root.path(), controllers);
        }
        if name == SLURMDBD {
            self.slurm().lock().start_slurmdbd(self.root.path());
        }
        if name == SLURMRESTD {
            let listens = "sl local_address rem_address st\n0: 00000000:1AA4 00000000:0000 0A\n";
            self.write(LISTENERS, listens.as_bytes());
        }
        if name == fence::SERVICE {
            self.fence_begins(state);
        }
    }

    /// What drop-ins of a unit say about a key, in their order.
    fn drop_in_values(&self, name: &str, key: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(&format!("/etc/systemd/system/{name}.d"))).into_iter().flatten().flatten();
        let texts: Vec<String> = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect();
        let values = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix(key));
        values.map(str::to_owned).collect()
    }

    /// Says whether the condition of the packaged unit holds still. A drop-in can take it back.
    fn is_conditional(&self, name: &str) -> bool {
        self.drop_in_values(name, "ConditionPathExists=").is_empty()
    }

    /// What a drop-in wants to be true before each start, also an automatic one.
    fn may_start(&self, state: &State, name: &str) -> bool {
        let conditions = self.drop_in_values(name, "ExecStartPre=");
        conditions.iter().all(|condition| {
            let grep = condition.strip_prefix("/usr/bin/grep -qxF \"").and_then(|rest| rest.split_once("\" "));
            let mount = condition.strip_prefix("/usr/bin/mountpoint -q ");
            // The charm's own program.
            let guard = condition.split_whitespace().any(|word| word.ends_with("guard"));
            if guard {
                return self.guard_passes(state);
            }
            match (grep, mount) {
                (Some((line, path)), _) => self.read(path).is_some_and(|text| text.lines().any(|own| own == line)),
                (None, Some(path)) => {
                    self.read("/proc/self/mountinfo").is_some_and(|table| table.contains(&format!(" {path} ")))
                }
                (None, None) => true,
            }
        })
    }

    /// A daemon that reads its configuration again. slurmd goes on with the words of its start.
    fn reload(&self, state: &mut State, name: &str) {
        let Some(pid) = state.units.get(name).and_then(|unit| unit.pid) else { return };
        match name {
            SLURMD => {
                let line = self.read(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
                if let Some(options) = SlurmdOptions::from_arguments(&line.split('\0').collect::<Vec<_>>()) {
                    self.slurm().lock().start_slurmd(self.root.path(), options);
                }
            }
            SACKD => self.slurm().lock().reload_sackd(self.root.path()),
            // One that stands by reads nothing.
            SLURMCTLD if self.slurm().lock().stands_by(self.root.path()) => {}
            SLURMCTLD => drop(self.slurm().lock().reconfigure()),
            _ => {}
        }
    }

    /// Makes a timer, with a service of its own if a command is given. Whatever is there already is refused; that of a
    /// service lasts, as if its call never ended.
    pub(super) fn systemd_run(&self, words: &[&str]) -> Ended {
        let Some(name) = words.iter().find_map(|word| word.strip_prefix("--unit=")) else {
            return fails(1, "Command line to execute required.\n");
        };
        let name = name.trim_end_matches(".service");
        let is_there = |unit: &str| {
            ["/run/systemd/transient", "/run/systemd/system"]
                .iter()
                .any(|at| self.path(&format!("{at}/{unit}")).exists())
        };
        let (timer, service) = (format!("{name}.timer"), format!("{name}.service"));
        let made = if words.contains(&"--") { vec![timer, service] } else { vec![timer] };
        if let Some(unit) = made.iter().find(|unit| is_there(unit)) {
            let why = format!("Unit {unit} was already loaded or has a fragment file.");
            return fails(1, format!("Failed to start transient timer unit: {why}\n"));
        }
        if made.len() == 1 && !is_there(&format!("{name}.service")) {
            // It says nothing more.
            return fails(1, "");
        }
        // What a timer calls is in its service; here one file tells it.
        let service = self.read(&format!("/run/systemd/system/{name}.service")).unwrap_or_default();
        let called =
            service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap_or_default().replace('"', "");
        let command = words.iter().skip_while(|word| **word != "--").skip(1).copied().collect::<Vec<_>>().join(" ");
        let call = if command.is_empty() { called } else { command };
        for unit in &made {
            let text = if unit.ends_with(".timer") { format!("[Timer]\n# {call}\n") } else { String::new() };
            self.write(&format!("/run/systemd/transient/{unit}"), text.as_bytes());
        }
        says("")
    }
}
