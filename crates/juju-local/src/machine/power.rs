//! A machine as the rest of the program sees it: power on and off, commands in it, faults on purpose, removal.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;

use super::cgroup::{Cgroup, wait_until};
use super::disk::{Disk, Running};
use super::network;
use super::preflight::raise_inotify_limit;
use super::program::{ourselves, run, tail};
use super::spec::{Spec, check_name};
use super::supervisor;

/// Where commands look for programs, as on an Ubuntu machine.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A machine that has a directory; on or off.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    spec: Spec,
    disk: Disk,
}

impl Machine {
    /// Makes the machine if there is none in its directory yet, and powers it on, unless somebody did so already.
    ///
    /// Returns when its systemd runs; [`Machine::wait_ready`] waits until it has finished booting.
    pub(crate) fn boot(spec: &Spec) -> Result<Machine> {
        spec.check()?;
        let disk = Disk::at(&spec.directory);
        supervisor::wait_for_boot(disk.directory())?;
        disk.prepare(spec)?;
        let machine = Machine { spec: spec.clone(), disk };
        if !machine.is_running() {
            machine.power_on()?;
        }
        Ok(machine)
    }

    /// Finds the machine of a directory again, on or off; `None` when none was ever made there.
    pub(crate) fn open(directory: &Path) -> Result<Option<Machine>> {
        let disk = Disk::at(directory);
        Ok(disk.spec()?.map(|spec| Machine { spec, disk }))
    }

    /// Removes whatever is in a machine's directory, a machine or the beginnings of one.
    pub(crate) fn remove_at(directory: &Path) -> Result<()> {
        supervisor::wait_for_boot(directory)?;
        match Machine::open(directory)? {
            Some(machine) => machine.remove(),
            None => Disk::at(directory).remove(),
        }
    }

    /// Name on the host.
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Boots it from its disk as it is.
    pub(crate) fn power_on(&self) -> Result<()> {
        ensure!(!self.is_running(), "machine {} is already on", self.spec.name);
        raise_inotify_limit();
        // Whatever a power loss of the host or a killed daemon left half done.
        self.release()?;
        let booted = network::connect(&self.spec).and_then(|()| {
            let directory = self.disk.directory().as_os_str();
            run(&mut ourselves([OsStr::new(supervisor::BOOT), directory]))
        });
        if let Err(error) = booted {
            self.release().ok();
            return Err(error).with_context(|| format!("could not boot machine {}", self.spec.name));
        }
        Ok(())
    }

    /// Says whether the machine is on: its systemd is there, booting, running or frozen.
    pub(crate) fn is_running(&self) -> bool {
        self.running().is_some()
    }

    /// Number of the machine's PID 1 on the host. Changes when the machine reboots.
    pub(crate) fn leader(&self) -> Option<i32> {
        self.running().map(|running| running.leader.pid)
    }

    /// Waits until the basic system is up: file systems, sockets, the bus.
    ///
    /// Not until every service has started: a daemon that waits for another machine may take minutes, and an agent on a
    /// real machine does not wait for it either.
    pub(crate) fn wait_ready(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !self.said(["systemctl", "is-active", "basic.target"]).is_ok_and(|state| state == "active") {
            if !self.is_running() {
                bail!("machine {} went off while booting; its last words:\n{}", self.name(), self.last_words());
            }
            if Instant::now() > deadline {
                let jobs = self.said(["systemctl", "list-jobs"]).unwrap_or_else(|error| error.to_string());
                bail!("machine {} has not booted after {} s; it waits for:\n{jobs}", self.name(), limit.as_secs());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// What a short command in the machine prints, whatever it exits with.
    fn said<const N: usize>(&self, arguments: [&str; N]) -> Result<String> {
        let output = self.command(arguments)?.stdin(Stdio::null()).output().context("could not start the command")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A command that runs as root in the machine, in `/`, with an environment that holds only PATH, HOME and LANG.
    ///
    /// It counts as the machine's own: frozen and killed with it, and seen by its systemd below `/juju-local`. To end
    /// it early, put it in a process group (`process_group(0)`) and signal the group: the direct child is only a
    /// stand-in that waits for the process inside.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Command> {
        let Some(leader) = self.leader() else { bail!("machine {} is off", self.spec.name) };
        let cgroup = Cgroup::of_payload(leader)?.child("juju-local");
        cgroup.create()?;
        let mut words: Vec<OsString> = vec![supervisor::ENTER.into(), cgroup.path().into(), leader.to_string().into()];
        words.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        let mut command = ourselves(words);
        command.env_clear().env("PATH", PATH).env("HOME", "/root").env("LANG", "C.UTF-8");
        Ok(command)
    }

    /// Powers it off in order; after the limit as [`Machine::kill`] does.
    pub(crate) fn shutdown(&self, limit: Duration) -> Result<()> {
        if let Some(running) = self.running() {
            let cgroup = self.cgroup()?;
            if cgroup.is_frozen() {
                cgroup.set_frozen(false)?;
            }
            running.nspawn.signal(Signal::SIGTERM);
            // Too late is not an error: what follows ends it either way.
            wait_until(limit, || !cgroup.is_populated()).ok();
        }
        self.release()
    }

    /// Power loss: at once, nothing is told to anyone, and no farewell leaves by the network.
    pub(crate) fn kill(&self) -> Result<()> {
        self.release()
    }

    /// Stops every process of the machine in its tracks. Its network still answers pings, as a hung machine's does.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.cgroup()?.set_frozen(true)
    }

    /// Undoes [`Machine::freeze`].
    pub(crate) fn thaw(&self) -> Result<()> {
        self.cgroup()?.set_frozen(false)
    }

    /// Pulls the network cable.
    pub(crate) fn cut(&self) -> Result<()> {
        network::set_link(&self.spec.network, &self.spec.name, false)
    }

    /// Undoes [`Machine::cut`].
    pub(crate) fn heal(&self) -> Result<()> {
        network::set_link(&self.spec.network, &self.spec.name, true)
    }

    /// Kills the machine and deletes everything of it, its disk included.
    fn remove(self) -> Result<()> {
        self.release()?;
        self.disk.remove()
    }

    fn running(&self) -> Option<Running> {
        let running = self.disk.running().ok().flatten()?;
        running.leader.is_alive().then_some(running)
    }

    fn cgroup(&self) -> Result<Cgroup> {
        Cgroup::of_machine(&self.spec.name)
    }

    fn last_words(&self) -> String {
        tail(&self.disk.boot_log(), 15)
    }

    /// Ends all that makes the machine on, and leaves its disk.
    fn release(&self) -> Result<()> {
        release(&self.spec.name, Some(&self.spec.network))?;
        self.disk.forget_running();
        Ok(())
    }
}

/// Kills the processes of a machine and deletes its network namespace and cgroup, whatever is there of them.
pub(super) fn release(name: &str, network: Option<&str>) -> Result<()> {
    check_name(name)?;
    if let Some(network) = network {
        // First the cable: a killed process's kernel would say goodbye to its peers. No cable is fine.
        network::set_link(network, name, false).ok();
    }
    let cgroup = Cgroup::of_machine(name)?;
    cgroup.kill()?;
    if let Some(network) = network {
        network::disconnect(network, name);
    }
    network::delete_namespace(name)?;
    cgroup.remove()
}
