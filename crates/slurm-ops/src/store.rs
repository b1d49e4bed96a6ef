//! A file system that may not answer, and the child that touches it in place of a process that must not hang.
//!
//! A network file system whose server is gone holds whoever touches it, for ever, and no signal ends that. So unless
//! the kernel's table of mounts says that a path is on this machine, all that [`files`](crate::files) does is done by a
//! child: this very program, called `store`, one for a [`Machine`](crate::Machine), which is told by a pipe what to do.
//! One that does not answer in time is killed and left behind, and from then on the store is *silent*: every request of
//! this machine fails at once ([`FileError::is_silent`]), and so do those of a later process for as long as the one
//! that was left behind still lives.

pub(crate) mod child;
pub(crate) mod wire;

pub use crate::files::{Entry, entries as list, modified, read};

use crate::files::{self, FileError, direct, tree};
use crate::heartbeat;
use crate::machine::Host;
use child::Trouble;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wire::{Beat, Request, Work};

/// What a program is called with to be a child.
pub const ARGUMENT: &str = "store";

/// A file server that needs longer than this for a small file is not fit to hold the state of a cluster.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Where a child is noted that was left behind. In memory: no process outlives a boot.
pub(crate) const NOTE: &str = "/run/slurm-charm/store-child";

/// What is wrong with a store, for whoever takes the system's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreFault {
    /// Nothing.
    #[default]
    None,
    /// It does not answer.
    Silent,
    /// It answers with an error.
    Failing(io::ErrorKind),
    /// It can be read. Nothing can be written: it is read-only, or full.
    Unwritable(io::ErrorKind),
}

/// Tells whether a directory is there and can be written by a user; by whoever asks, if there is no such user.
pub fn is_writable(host: &Host, path: impl AsRef<Path>, user: &str) -> Result<bool, FileError> {
    let user = files::user_ids(host, user).ok().map(|(user, group)| (user.as_raw(), group.as_raw()));
    let located = host.locate(path);
    let read_only = located.refuses_writes() == Some(io::ErrorKind::ReadOnlyFilesystem);
    Ok(located.perform(|| Work::IsWritable { user }, |path| direct::is_writable(path, user))? && !read_only)
}

/// Tells how much can be written where a path is.
pub fn space(host: &Host, path: impl AsRef<Path>) -> Result<files::Space, FileError> {
    let located = host.locate(path);
    let full = located.refuses_writes() == Some(io::ErrorKind::StorageFull);
    let space = located.perform(|| Work::Space, direct::space)?;
    Ok(if full { files::Space { free: 0, ..space } } else { space })
}

/// A path, and who has to touch it.
pub(crate) struct Located<'a> {
    pub(crate) host: &'a Host,
    /// As the system knows it.
    pub(crate) path: PathBuf,
    pub(crate) on_store: bool,
}

impl Located<'_> {
    /// Tells why nothing can be written, if whoever takes the system's place says so.
    fn refuses_writes(&self) -> Option<io::ErrorKind> {
        match self.host.runner().filter(|_| self.on_store)?.store(&self.path) {
            StoreFault::Unwritable(kind) => Some(kind),
            StoreFault::None | StoreFault::Silent | StoreFault::Failing(_) => None,
        }
    }

    /// Does something right here, or has the child do it.
    pub(crate) fn perform<T: DeserializeOwned>(
        &self,
        work: impl FnOnce() -> Work,
        here: impl FnOnce(&Path) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        if !self.on_store {
            return here(&self.path);
        }
        let terms = self.host.store_terms();
        let silent = || FileError::Silent { path: self.path.clone(), seconds: terms.deadline.as_secs() };
        let broken = FileError::access("have a child use", &self.path);
        if let Some(runner) = self.host.runner() {
            return match runner.store(&self.path) {
                StoreFault::None | StoreFault::Unwritable(_) => here(&self.path),
                StoreFault::Silent => Err(silent()),
                StoreFault::Failing(kind) => Err(broken(kind.into())),
            };
        }
        let request = Request { path: self.path.clone(), work: work() };
        match self.host.store_child().ask(&terms, &request) {
            Ok(Ok(answer)) => serde_json::from_value(answer).map_err(|_| broken(io::ErrorKind::InvalidData.into())),
            Ok(Err(failure)) => Err(failure.into()),
            Err(Trouble::Silent) => Err(silent()),
            Err(Trouble::Broken(error)) => Err(broken(error)),
        }
    }
}

/// Is the child: does what it is told on its standard input, until that ends.
pub fn serve() -> ExitCode {
    match talk(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn talk(requests: &mut impl Read, answers: &mut impl Write) -> io::Result<()> {
    let mut heard = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        while let Some(message) = wire::unframe(&mut heard)? {
            let request: Request = serde_json::from_slice(&message)?;
            answers.write_all(&wire::frame(&wire::answer(&request))?)?;
            answers.flush()?;
        }
        match requests.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => heard.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Does one thing, as it is done without a child.
fn direct_work(request: &Request) -> Result<Value, FileError> {
    let (path, nobody) = (request.path.as_path(), &|_: &Path| Ok(()));
    match &request.work {
        Work::Read => value(direct::read(path)),
        Work::Exists => value(Ok(path.exists())),
        Work::List => value(direct::list(path)),
        Work::Entries => value(direct::entries(path)),
        Work::Modified => value(direct::modified(path)),
        Work::Replace { content, mode, owner } => value(direct::replace(path, &content.0, *mode, *owner, nobody)),
        Work::Access => value(direct::access_of(path)),
        Work::IsOpen => value(direct::is_open(path)),
        Work::Open => value(direct::ensure_open(path, nobody)),
        Work::Remove => value(direct::remove(path, nobody)),
        Work::Empty => value(direct::empty_directory(path, nobody)),
        Work::Directory { mode, owner } => value(direct::ensure_directory(path, *mode, *owner, nobody)),
        Work::WriteOnce { draft, content } => value(direct::write_once(path, draft, &content.0, nobody)),
        Work::IsWritable { user } => value(direct::is_writable(path, *user)),
        Work::Space => value(direct::space(path)),
        Work::Details => value(tree::details_directly(path)),
        Work::DetailsOf { below } => value(tree::details_of_directly(path, below)),
        Work::Put { content, mode, owner, modified } => {
            value(tree::put(path, &content.0, *mode, *owner, *modified, nobody))
        }
        Work::Link { target } => value(tree::make_link(path, target, nobody)),
        Work::Rename { to } => value(tree::rename_directly(path, to, nobody)),
        Work::RemoveAny => value(tree::remove_any(path, nobody)),
        Work::Sync => value(direct::sync_directory(path)),
        Work::Beat { stamp, marker, expected, heartbeat, control } => {
            let mut beat = beat(path, *stamp, marker, expected);
            let read = |path| direct::read(path).ok().flatten();
            beat.heartbeat = read(heartbeat).and_then(|found| heartbeat::parse(&found.0));
            beat.control = read(control).map(|found| String::from_utf8_lossy(&found.0).into_owned());
            value(Ok(beat))
        }
    }
}

/// Nothing is written where the marker is another one's. It is looked at again after the write: what was read before
/// may come from a memory that no server stands behind.
fn beat(path: &Path, stamp: u64, marker: &Path, expected: &str) -> Beat {
    // What seems to be gone is looked for once more, as everywhere.
    let look = || direct::read(marker).and_then(|found| found.map_or_else(|| direct::read(marker), |it| Ok(Some(it))));
    let text = |found: Option<wire::Content>| found.map(|found| String::from_utf8_lossy(&found.0).into_owned());
    let probe = || -> Result<Beat, FileError> {
        let found = text(look()?);
        if found.as_deref().map(str::trim) != Some(expected.trim()) {
            return Ok(Beat { marker: found, ..Beat::default() });
        }
        direct::probe(path, stamp)?;
        Ok(Beat { marker: text(look()?), written: true, ..Beat::default() })
    };
    let mut beat = probe().unwrap_or_else(|error| {
        let failure = wire::Failure::from(error);
        Beat { full: failure.is_full(), error: Some(failure.to_string()), ..Beat::default() }
    });
    beat.space = path.parent().and_then(|directory| direct::space(directory).ok());
    beat
}

fn value(found: Result<impl Serialize, FileError>) -> Result<Value, FileError> {
    found.map(|found| serde_json::to_value(found).expect("invariant: answers have a JSON form"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandRunner, Ended};
    use crate::files::Access;
    use crate::machine::Machine;
    use std::fs;
    use std::sync::{Arc, Mutex};

    const TABLE: &str = "1 0 0:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                         2 1 0:2 / /store rw,relatime shared:2 - nfs4 10.0.0.9:/srv rw,vers=4.2,hard\n";

    /// A store whose fault a test chooses.
    #[derive(Debug, Default)]
    struct Faulty(Mutex<StoreFault>);

    impl CommandRunner for Faulty {
        fn run(&self, _: &str, _: &[String]) -> Option<Ended> {
            None
        }
        fn store(&self, path: &Path) -> StoreFault {
            assert!(path.ends_with("x") || path.ends_with("slurm.conf"), "{}", path.display());
            *self.0.lock().unwrap()
        }
    }

    fn machine() -> (tempfile::TempDir, Arc<Faulty>, Machine) {
        let directory = tempfile::tempdir().unwrap();
        for made in ["proc/self", "store/etc-slurm", "etc"] {
            fs::create_dir_all(directory.path().join(made)).unwrap();
        }
        fs::write(directory.path().join("proc/self/mountinfo"), TABLE).unwrap();
        let faulty = Arc::new(Faulty::default());
        let machine = Machine::at(directory.path()).with_runner(Arc::clone(&faulty) as Arc<dyn CommandRunner>);
        (directory, faulty, machine)
    }

    #[test]
    fn whoever_takes_the_place_of_the_system_is_asked_about_a_store_and_nothing_else() {
        let (_root, faulty, machine) = machine();
        let (host, writer) = (machine.host(), machine.writer());
        files::ensure_link(&writer, "/etc/slurm", "/store/etc-slurm", "1").unwrap();
        for path in ["/store/x", "/etc/slurm/slurm.conf"] {
            let write = || files::replace(&writer, path, b"one", &Access::own(0o600));
            *faulty.0.lock().unwrap() = StoreFault::None;
            assert!(write().unwrap());
            *faulty.0.lock().unwrap() = StoreFault::Silent;
            assert!(write().unwrap_err().is_silent());
            let error = files::read(&host, path).unwrap_err();
            assert!(error.is_silent(), "{error}");
            assert!(error.to_string().starts_with("no answer within 10 s from the file system of "), "{error}");
            assert!(!files::exists(&host, path));
            *faulty.0.lock().unwrap() = StoreFault::Failing(io::ErrorKind::StaleNetworkFileHandle);
            let error = files::modified(&host, path).unwrap_err();
            assert!(!error.is_silent(), "{error}");
        }
        *faulty.0.lock().unwrap() = StoreFault::Unwritable(io::ErrorKind::ReadOnlyFilesystem);
        assert!(files::exists(&host, "/store/x") && !is_writable(&host, "/store/x", "slurm").unwrap());
        *faulty.0.lock().unwrap() = StoreFault::Unwritable(io::ErrorKind::StorageFull);
        assert_eq!(space(&host, "/store/x").unwrap().free, 0);
        // What is on this machine is of no interest to it.
        assert!(files::replace(&writer, "/etc/y", b"one", &Access::own(0o600)).unwrap());
        assert_eq!(fs::read(machine.path("/store/etc-slurm/slurm.conf")).unwrap(), b"one");
    }

    #[test]
    fn a_child_does_what_it_is_told_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let own = (nix::unistd::Uid::effective().as_raw(), nix::unistd::Gid::effective().as_raw());
        let replace = Work::Replace { content: wire::Content(vec![0, 255, 10]), mode: 0o600, owner: own };
        let requests = [replace, Work::Read, Work::Remove, Work::Read].map(|work| Request { path: path.clone(), work });
        let said: Vec<u8> = requests.iter().flat_map(|request| wire::frame(request).unwrap()).collect();
        let mut heard = Vec::new();
        talk(&mut said.as_slice(), &mut heard).unwrap();
        let mut answers = Vec::new();
        while let Some(message) = wire::unframe(&mut heard).unwrap() {
            answers.push(serde_json::from_slice::<wire::Answer>(&message).unwrap().unwrap());
        }
        assert_eq!(answers, [Value::Bool(true), Value::from("AP8K"), Value::Bool(true), Value::Null]);
        assert!(talk(&mut [0, 0, 0, 1, b'{'].as_slice(), &mut heard).is_err());
    }
}
