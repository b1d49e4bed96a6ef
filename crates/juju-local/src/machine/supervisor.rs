//! The hidden subcommands: processes of ours that change their own namespaces or cgroup, which a daemon must not.
//!
//! `machine-boot DIR` returns when systemd runs in the machine; `machine-supervise DIR` is the machine's own process on
//! the host for as long as it is on; `machine-exec CGROUP PROGRAM…` becomes the program, in that cgroup;
//! `machine-enter CGROUP LEADER PROGRAM…` waits for a program that it starts inside of a machine.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, raise};
use nix::unistd::setsid;

use super::cgroup::{self, Cgroup, wait_until};
use super::disk::{Disk, Running};
use super::network;
use super::process::{Process, others, status_field};
use super::program::{ourselves, system, tail};
use super::spec::Spec;

pub(super) const BOOT: &str = "machine-boot";
pub(super) const SUPERVISE: &str = "machine-supervise";
pub(super) const EXEC: &str = "machine-exec";
pub(super) const ENTER: &str = "machine-enter";

/// How long systemd-nspawn may take to start the machine's systemd. Measured: a tenth of a second; hosts can be busy.
const LEADER_LIMIT: Duration = Duration::from_secs(60);

/// The device that file systems of user space are served through; systemd-nspawn makes only a few devices by itself.
const FUSE: &str = "/dev/fuse";

/// What systemd-nspawn exits with when the machine wants to be started again.
const REBOOT: i32 = 133;

/// Starts the supervisor in a session of its own and waits until it has recorded a leader.
pub(super) fn boot(arguments: &[OsString]) -> Result<()> {
    let disk = disk_of(arguments)?;
    let log_path = disk.boot_log();
    let log = File::create(&log_path).with_context(|| format!("could not write {}", log_path.display()))?;
    setsid().context("could not leave the caller's session")?;
    let mut supervisor = ourselves([SUPERVISE.as_ref(), disk.directory().as_os_str()])
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("could not share the boot log")?)
        .stderr(log)
        .spawn()
        .context("could not start the supervisor")?;
    let deadline = Instant::now() + LEADER_LIMIT;
    loop {
        if disk.running()?.is_some_and(|running| running.leader.is_alive()) {
            return Ok(());
        }
        if let Some(status) = supervisor.try_wait()? {
            bail!("the machine ended at once, {status}; its last words:\n{}", tail(&log_path, 15));
        }
        if Instant::now() > deadline {
            bail!("no systemd after {} s; last words:\n{}", LEADER_LIMIT.as_secs(), tail(&log_path, 15));
        }
        sleep(Duration::from_millis(5));
    }
}

/// Waits for a boot that somebody else has under way, such as a daemon that was killed meanwhile.
pub(super) fn wait_for_boot(directory: &Path) -> Result<()> {
    let is_booting = || {
        others().iter().any(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            matches!(words.as_slice(), [b"juju-local", verb, place, ..]
                if *verb == BOOT.as_bytes() && *place == directory.as_os_str().as_bytes())
        })
    };
    wait_until(2 * LEADER_LIMIT, || !is_booting()).context("somebody else's boot of the machine does not end")
}

/// Keeps the machine on until it powers off or is killed.
pub(super) fn supervise(arguments: &[OsString]) -> Result<()> {
    let disk = disk_of(arguments)?;
    let Some(spec) = disk.spec()? else { bail!("{} is no machine", disk.directory().display()) };
    let cgroup = Cgroup::of_machine(&spec.name)?;
    for part in [&cgroup.child("watch"), &cgroup.child("nspawn")] {
        part.create()?;
    }
    Cgroup::parent()?.hand_down_controllers();
    cgroup.hand_down_controllers();
    cgroup.child("watch").join()?;
    enter_private_mounts()?;
    disk.mount(&spec)?;
    loop {
        let status = run_once(&spec, &disk)?;
        eprintln!("systemd-nspawn ended, {status}");
        if status.code() != Some(REBOOT) {
            break;
        }
    }
    disk.forget_running();
    // Without this the kernel would go on answering for a machine that is off.
    network::set_link(&spec.network, &spec.name, false)
}

/// Joins a cgroup and becomes another program.
#[expect(clippy::disallowed_methods, reason = "becomes that program")]
pub(super) fn exec(arguments: &[OsString]) -> Result<()> {
    let [cgroup, program, rest @ ..] = arguments else { bail!("usage: {EXEC} CGROUP PROGRAM [ARGUMENT…]") };
    Cgroup::at(Path::new(cgroup)).join()?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("could not start {}", program.display()))
}

/// Runs a program inside of the machine that has that PID 1, and ends as it ends.
///
/// The wait is our own: nsenter would stop itself when its child is stopped, as everybody in a machine is that shuts
/// down, and nobody would ever wake it.
pub(super) fn enter(arguments: &[OsString]) -> Result<()> {
    let [cgroup, leader, program @ ..] = arguments else { bail!("usage: {ENTER} CGROUP LEADER PROGRAM [ARGUMENT…]") };
    Cgroup::at(Path::new(cgroup)).join()?;
    let path = Path::new("/proc").join(leader).join("ns/pid");
    let namespace = File::open(&path).with_context(|| format!("could not open {}", path.display()))?;
    // Holds for children only; what is left to enter is entered by the child itself, which needs no child of its own
    // for it.
    setns(namespace, CloneFlags::CLONE_NEWPID).context("could not enter the machine")?;
    let mut command = system("nsenter");
    command.arg("-t").arg(leader).args(["-m", "-u", "-i", "-n", "-C", "--"]).args(program);
    let status = command.status().context("could not start nsenter")?;
    match (status.code(), status.signal().and_then(|number| Signal::try_from(number).ok())) {
        (Some(code), _) => std::process::exit(code),
        (None, Some(signal)) => Ok(raise(signal)?),
        (None, None) => bail!("the program ended, {status}"),
    }
}

fn disk_of(arguments: &[OsString]) -> Result<Disk> {
    let [directory] = arguments else { bail!("expected one argument, the directory of a machine") };
    Ok(Disk::at(Path::new(directory)))
}

/// From here on, mounts of this process are its own, and `/sys/fs/cgroup` is the unified hierarchy as systemd wants it.
///
/// Subordinate rather than private: a network namespace deleted on the host must not live on through our copy of its
/// mount.
fn enter_private_mounts() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("could not make a mount namespace")?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).context("could not make the mounts our own")?;
    let wanted = Path::new("/sys/fs/cgroup");
    if cgroup::hierarchy()? != wanted {
        umount2(wanted, MntFlags::MNT_DETACH).context("could not put the v1 cgroups aside")?;
        mount(Some("cgroup2"), wanted, Some("cgroup2"), MsFlags::empty(), none).context("could not mount cgroup2")?;
    }
    // systemd-nspawn leaves a directory per machine there when it is killed.
    let scratch = Path::new("/run/systemd/nspawn");
    fs::create_dir_all(scratch).with_context(|| format!("could not make {}", scratch.display()))?;
    mount(Some("tmpfs"), scratch, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))
        .with_context(|| format!("could not mount a tmpfs on {}", scratch.display()))
}

/// One run of systemd-nspawn, from power-on to power-off or reboot.
fn run_once(spec: &Spec, disk: &Disk) -> Result<ExitStatus> {
    let cgroup = Cgroup::of_machine(&spec.name)?;
    let mut command = ourselves([EXEC.as_ref(), cgroup.child("nspawn").path().as_os_str()]);
    command.args(nspawn_arguments(spec, &disk.root())).stdin(Stdio::null());
    let mut child = command.spawn().context("could not start systemd-nspawn")?;
    if let Some(leader) = wait_for_leader(&cgroup, &mut child)? {
        let supervisor = Process::of(std::process::id().try_into()?)?;
        let nspawn = Process::of(child.id().try_into()?)?;
        disk.set_running(&Running { supervisor, nspawn, leader })?;
    }
    child.wait().context("could not wait for systemd-nspawn")
}

fn nspawn_arguments(spec: &Spec, root: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "systemd-nspawn",
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--boot",
        "--console=pipe",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
    ]
    .map(OsString::from)
    .into();
    arguments.push(format!("--machine={}", spec.name).into());
    arguments.push(format!("--hostname={}", spec.hostname).into());
    let namespace = network::namespace_path(&spec.name);
    arguments.push(format!("--network-namespace-path={}", namespace.display()).into());
    arguments.push(option("--directory=", root));
    // Network file systems of user space are mounted through it. A kernel without it has no such device.
    if Path::new(FUSE).exists() {
        arguments.push(format!("--bind={FUSE}").into());
    }
    for bind in &spec.binds {
        let mut argument = OsString::from(if bind.read_only { "--bind-ro=" } else { "--bind=" });
        argument.push(escape_bind(&bind.source));
        argument.push(":");
        argument.push(escape_bind(&bind.target));
        arguments.push(argument);
    }
    arguments
}

fn option(name: &str, value: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push(value);
    argument
}

/// systemd-nspawn divides a bind at colons.
fn escape_bind(path: &Path) -> PathBuf {
    path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").into()
}

/// Finds the machine's PID 1 once it has become systemd; `None` when systemd-nspawn ended first.
fn wait_for_leader(cgroup: &Cgroup, child: &mut Child) -> Result<Option<Process>> {
    let nspawn = child.id().to_string();
    let deadline = Instant::now() + LEADER_LIMIT;
    loop {
        // Its number is 1 in the innermost namespace, and systemd-nspawn is its parent: no other process has both.
        let is_leader = |pid: &i32| {
            status_field(*pid, "PPid").is_some_and(|parent| parent == nspawn)
                && status_field(*pid, "NSpid").is_some_and(|numbers| numbers.split_whitespace().last() == Some("1"))
                && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("systemd"))
        };
        if let Some(pid) = cgroup.processes().iter().find(|pid| is_leader(pid)) {
            return Process::of(*pid).map(Some);
        }
        if child.try_wait()?.is_some() {
            return Ok(None);
        }
        ensure!(Instant::now() < deadline, "systemd-nspawn started no systemd in {} s", LEADER_LIMIT.as_secs());
        sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_in_a_bind_does_not_divide_it() {
        assert_eq!(escape_bind(Path::new("/a:b\\c")), Path::new("/a\\:b\\\\c"));
    }
}
