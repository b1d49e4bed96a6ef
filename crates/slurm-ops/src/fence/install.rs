//! Puts the fence in place: a copy of the charm's program, its unit file, its settings.

use super::{ARGUMENT, SETTINGS, Settings};
use crate::command::CommandError;
use crate::files::{self, Access, FileError, direct};
use crate::machine::{Host, HostWriter, MachineError};
use crate::systemd;
use std::fs::{self, File, FileTimes, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The unit of the fence.
pub const SERVICE: &str = "slurmctld-fence.service";
/// The copy of the charm's program that systemd starts: Juju replaces the directory of a charm when it is refreshed.
pub const PROGRAM: &str = "/usr/local/libexec/slurmctld-charm";

/// How long a fence that was just started may take to say something: it begins with a write to the store.
const FIRST_WORD: Duration = Duration::from_secs(3);

/// Returns the text of the unit file.
///
/// A child that waits for the store cannot be killed. systemd would wait for it in the middle of a restart, with no
/// fence meanwhile (11 s were measured); without anybody to talk with it ends by itself.
pub fn unit_file() -> String {
    format!(
        "# Written by the slurmctld charm.\n\
         [Unit]\n\
         Description=Lets slurmctld serve only while its state can be saved\n\
         Before=slurmctld.service\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=simple\n\
         ExecStart={PROGRAM} {ARGUMENT}\n\
         Restart=always\n\
         RestartSec=1\n\
         KillMode=process\n\
         OOMScoreAdjust=-900\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

/// Tells whether the copy is the program that runs now. Compares size and time, not content: each is unpacked once.
pub fn is_program_current(host: &Host) -> bool {
    let (Ok(own), Ok(copy)) = (fs::metadata(host.program()), fs::metadata(host.path(PROGRAM))) else { return false };
    is_same(&own, &copy)
}

fn is_same(own: &Metadata, copy: &Metadata) -> bool {
    let written = |file: &Metadata| (file.len(), file.mtime(), file.mtime_nsec());
    written(own) == written(copy) && copy.mode() & 0o7777 == 0o755
}

/// Copies the program that runs now, unless the copy is current, and tells whether it was not.
pub fn ensure_program(writer: &HostWriter) -> Result<bool, FileError> {
    if is_program_current(writer.host()) {
        return Ok(false);
    }
    let (source, path) = (writer.host().program().to_owned(), writer.path(PROGRAM));
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(FileError::access("make directory", directory))?;
    let content = fs::read(&source).map_err(FileError::access("read", &source))?;
    let own = fs::metadata(&source).map_err(FileError::access("look at", &source))?;
    let user = (nix::unistd::Uid::effective().as_raw(), nix::unistd::Gid::effective().as_raw());
    // Whatever ends this process in between leaves a copy with another time, which is copied again.
    direct::replace(&path, &content, 0o755, user, &|path| writer.before_write(path))?;
    let time = own.modified().map_err(FileError::access("look at", &source))?;
    File::open(&path)
        .and_then(|file| file.set_times(FileTimes::new().set_modified(time)))
        .map_err(FileError::access("set the time of", &path))?;
    Ok(true)
}

/// Writes the settings, and tells whether they were different. A running fence reads them anew by itself.
pub fn ensure_settings(writer: &HostWriter, settings: &Settings) -> Result<bool, FileError> {
    if let Some((directory, _)) = SETTINGS.rsplit_once('/') {
        files::ensure_directory(writer, directory, &Access::own(0o700))?;
    }
    files::replace(writer, SETTINGS, settings.render().as_bytes(), &Access::own(0o600))
}

/// Has the fence run with the program that runs now, also after a boot, and tells whether anything had to change. One
/// that runs with it already is left alone.
pub fn ensure_running(writer: &HostWriter) -> Result<bool, MachineError> {
    let copied = ensure_program(writer)?;
    let written = systemd::ensure_unit_file(writer, SERVICE, &unit_file())?;
    let unit = systemd::state(writer.host(), SERVICE)?;
    if unit.needs_daemon_reload {
        systemd::daemon_reload(writer)?;
    }
    if unit.is_active() && !copied && !written && !unit.needs_daemon_reload {
        return Ok(false);
    }
    systemd::enable(writer, SERVICE)?;
    systemd::restart(writer, SERVICE)?;
    Ok(true)
}

/// Puts everything in place but the settings, so that nothing is left to do but to start it.
pub fn prepare(writer: &HostWriter) -> Result<(), MachineError> {
    ensure_program(writer)?;
    systemd::ensure_unit_file(writer, SERVICE, &unit_file())?;
    Ok(systemd::enable(writer, SERVICE)?)
}

/// Waits a moment for a fence that was just started to say something. Without its word slurmctld is not started.
pub fn await_word(writer: &HostWriter) {
    // Whoever takes the system's place has its fence speak at once, or not at all.
    let end = Instant::now() + if writer.host().runner().is_some() { Duration::ZERO } else { FIRST_WORD };
    while super::look(writer.host()).is_none_or(|said| said.stale) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Tells whether program, unit file and settings are as they should be. Starts no process; whether the fence runs is
/// what [`look`](super::look) tells.
pub fn is_in_place(host: &Host, settings: &Settings) -> Result<bool, FileError> {
    let unit = systemd::read_unit_file(host, SERVICE)?;
    Ok(is_program_current(host)
        && unit.as_ref() == Some(&unit_file())
        && super::settings(host).as_ref() == Some(settings))
}

/// Ends the fence for good, and tells whether there was one. What it guarded has to be stopped before.
pub fn disable(writer: &HostWriter) -> Result<bool, CommandError> {
    let there = systemd::state(writer.host(), SERVICE)?.exists();
    if there {
        systemd::disable(writer, SERVICE)?;
        systemd::stop(writer, SERVICE)?;
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn the_program_is_copied_once_and_again_when_it_is_another_one() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("dispatch");
        fs::write(&source, "one").unwrap();
        let machine = Machine::at(root.path()).with_program(&source);
        assert!(!is_program_current(&machine.host()));
        assert!(ensure_program(&machine.writer()).unwrap());
        assert!(!ensure_program(&machine.writer()).unwrap());
        assert!(is_program_current(&machine.host()));
        assert_eq!(fs::metadata(machine.path(PROGRAM)).unwrap().mode() & 0o7777, 0o755);
        // As long as the one before, and unpacked later.
        fs::write(&source, "two").unwrap();
        let later = std::time::SystemTime::now() + Duration::from_secs(7);
        File::open(&source).unwrap().set_times(FileTimes::new().set_modified(later)).unwrap();
        assert!(ensure_program(&machine.writer()).unwrap());
        assert_eq!(fs::read_to_string(machine.path(PROGRAM)).unwrap(), "two");
        // Killed before the time was set.
        File::open(machine.path(PROGRAM))
            .unwrap()
            .set_times(FileTimes::new().set_modified(std::time::UNIX_EPOCH))
            .unwrap();
        assert!(ensure_program(&machine.writer()).unwrap() && is_program_current(&machine.host()));
    }
}
