//! systemd on a made-up machine: services that start at once, if they have what they need.

use super::{Programs, State, fails, says};
use slurm_ops::command::Ended;
use slurm_ops::slurmd::{SlurmdOptions, parse_defaults};
use std::fs;
use std::os::unix::fs::symlink;

#[derive(Debug, Clone, Default)]
pub(super) struct Unit {
    pub(super) pid: Option<u32>,
    pub(super) failed: bool,
    enabled: bool,
}

const FIRST_PID: u32 = 4000;

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
        self.path(&format!("/usr/lib/systemd/system/{unit}")).exists()
    }

    fn show(&self, state: &State, name: &str) -> String {
        let unit = state.units.get(name).cloned().unwrap_or_default();
        let load = if self.exists(name) { "loaded" } else { "not-found" };
        let (active, sub) = match (&unit.pid, unit.failed) {
            (Some(_), _) => ("active", "running"),
            (None, true) => ("failed", "failed"),
            (None, false) => ("inactive", "dead"),
        };
        let pid = unit.pid.unwrap_or(0);
        let kill_mode = if self.exists(name) { "process" } else { "control-group" };
        let result = if unit.failed { "signal" } else { "success" };
        let file = if unit.enabled { "enabled" } else { "disabled" };
        format!(
            "LoadState={load}\nActiveState={active}\nSubState={sub}\nResult={result}\nUnitFileState={file}\n\
             MainPID={pid}\nActiveEnterTimestamp=@1794830922\nExecMainStartTimestamp=@1794830922\n\
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
            "stop" => state.units.entry(name.to_owned()).or_default().pid = None,
            "start" | "restart" => self.start(state, name, verb == "restart"),
            "reload" => self.came_up(state, name),
            _ => {}
        }
        None
    }

    fn start(&self, state: &mut State, name: &str, again: bool) {
        let running = state.units.get(name).is_some_and(|unit| unit.pid.is_some());
        if running && !again {
            return;
        }
        state.slurm.shut_out = false;
        // The packaged unit is skipped without its configuration, and nobody calls that a failure.
        let arguments = match name {
            "slurmctld.service" if self.read("/etc/slurm/slurm.conf").is_none() => return,
            "slurmd.service" => match self.read("/etc/default/slurmd").as_deref().and_then(parse_defaults) {
                Some(options) => options.arguments(),
                None => return,
            },
            _ => Vec::new(),
        };
        state.next_pid += 1;
        let pid = FIRST_PID + state.next_pid;
        let program = name.trim_end_matches(".service");
        let line = [format!("/usr/sbin/{program}"), "--systemd".to_owned()].into_iter().chain(arguments);
        let line: String = line.flat_map(|word| [word, "\0".to_owned()]).collect();
        self.write(&format!("/proc/{pid}/cmdline"), line.as_bytes());
        let unit = state.units.entry(name.to_owned()).or_default();
        unit.pid = Some(pid);
        unit.failed = false;
        self.came_up(state, name);
    }

    /// A daemon that comes up, or reads its configuration again, talks to Slurm.
    fn came_up(&self, state: &mut State, name: &str) {
        match name {
            "slurmd.service" => {
                // A reload goes on with the words of the start.
                let pid = state.units.get(name).and_then(|unit| unit.pid).unwrap_or(0);
                let line = self.read(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let options = SlurmdOptions::from_arguments(&line.split('\0').collect::<Vec<_>>());
                if let Some(options) = options.filter(|_| !state.slurm.silent) {
                    state.slurm.register(&options);
                }
            }
            "slurmctld.service" => drop(self.take_up_configuration(state)),
            _ => {}
        }
    }

    /// Makes a timer, with a service of its own if a command is given. Whatever is there already is refused; that of a service lasts, as if
    /// its call never ended.
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
        for unit in &made {
            self.write(&format!("/run/systemd/transient/{unit}"), b"");
        }
        says("")
    }
}
