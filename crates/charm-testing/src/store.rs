//! A store that machines share: one real directory, which each mounts at the same place, and what can be wrong with it.
//!
//! A [`Site`] is what a machine has to do with it: where its files are, what it is called, what it has mounted.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tempfile::TempDir;

/// Where a machine mounts its store.
pub(crate) const MOUNT_POINT: &str = "/var/lib/slurm/checkpoint";
/// What a machine has there itself, while something else is mounted over it.
const BELOW: &str = "var/lib/slurm/.below-checkpoint";
/// The table of mounts of a machine that has mounted nothing.
pub(crate) const DISK: &str = "1 0 0:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n";

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nobody answers: whoever touches it waits for ever.
    Silent,
    /// It can be read, and that is all.
    ReadOnly,
    /// There is no room for another byte.
    Full,
    /// It is not mounted. The trigger of autofs is there, and nothing comes of it.
    Gone,
}

/// A store.
#[derive(Clone, Debug)]
pub struct FakeStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: TempDir,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    /// The machines that have mounted it at some time.
    sites: Vec<Weak<Site>>,
}

/// Makes a directory in memory, where writing out takes no time.
pub(crate) fn directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a test needs a directory")
}

impl Default for FakeStore {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeStore {
    /// Returns an empty store that works.
    pub fn new() -> Self {
        Self { inner: Arc::new(Inner { directory: directory(), state: Mutex::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something be wrong with the store for every machine; None: it works again.
    pub fn fails(&self, fault: Option<Fault>) {
        let sites = {
            let mut state = self.state();
            state.fault = fault;
            state.sites.clone()
        };
        sites.iter().filter_map(Weak::upgrade).for_each(|site| site.show());
    }

    /// Returns where a file of the store really is: `state/.cluster`.
    pub fn path(&self, path: &str) -> PathBuf {
        self.inner.directory.path().join(path.trim_start_matches('/'))
    }

    /// Reads a file of the store, whatever is wrong with it. None: there is none.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read(self.path(path)).ok().map(|content| String::from_utf8_lossy(&content).into_owned())
    }

    /// Writes a file of the store, parents included, whatever is wrong with it.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a test needs its directories");
        fs::write(path, content).expect("a test needs its files");
    }
}

/// A machine, as stores and daemons know it.
#[derive(Debug)]
pub(crate) struct Site {
    root: PathBuf,
    inner: Mutex<Ground>,
}

#[derive(Debug, Default)]
struct Ground {
    name: String,
    mount: Option<FakeStore>,
    /// What is wrong with the store on this machine only.
    fault: Option<Fault>,
    /// Nothing reaches the machine, and it reaches nothing.
    cut: bool,
}

impl Site {
    pub(crate) fn new(root: &Path, name: String) -> Self {
        Self { root: root.to_owned(), inner: Mutex::new(Ground { name, ..Ground::default() }) }
    }

    fn ground(&self) -> MutexGuard<'_, Ground> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> String {
        self.ground().name.clone()
    }

    pub(crate) fn set_name(&self, name: &str) {
        name.clone_into(&mut self.ground().name);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.ground().cut
    }

    /// Cuts the machine off from everything, its store included, or reconnects it.
    pub(crate) fn cut(&self, cut: bool) {
        self.ground().cut = cut;
        self.show();
    }

    pub(crate) fn set_fault(&self, fault: Option<Fault>) {
        self.ground().fault = fault;
        self.show();
    }

    pub(crate) fn mount(self: &Arc<Self>, store: &FakeStore) {
        store.state().sites.push(Arc::downgrade(self));
        self.ground().mount = Some(store.clone());
        self.show();
    }

    pub(crate) fn unmount(&self) {
        self.ground().mount = None;
        self.show();
    }

    pub(crate) fn has_mounted(&self) -> bool {
        self.ground().mount.is_some()
    }

    /// What is wrong with what is mounted here.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let ground = self.ground();
        let store = ground.mount.as_ref()?;
        let of_all = store.state().fault;
        if ground.cut { Some(Fault::Silent) } else { ground.fault.or(of_all) }
    }

    /// Makes the directory and the kernel's table say what is mounted.
    fn show(&self) {
        let (fault, store) = (self.fault(), self.ground().mount.clone());
        let shown = show(&self.root, store.as_ref().map(|store| store.inner.directory.path()), fault);
        assert!(shown.is_ok(), "could not mount below {}: {shown:?}", self.root.display());
    }
}

fn show(root: &Path, store: Option<&Path>, fault: Option<Fault>) -> io::Result<()> {
    let (point, below) = (root.join(&MOUNT_POINT[1..]), root.join(BELOW));
    if point.is_symlink() {
        fs::remove_file(&point)?;
    } else if point.exists() {
        fs::rename(&point, &below)?;
    }
    fs::create_dir_all(root.join("var/lib/slurm"))?;
    match (store, fault) {
        (None, _) if below.exists() => fs::rename(&below, &point)?,
        (None, _) => fs::create_dir(&point)?,
        // Whoever touches it without having asked whether it answers gets an error that is no answer.
        (Some(_), Some(Fault::Silent)) => symlink("checkpoint", &point)?,
        (Some(_), Some(Fault::Gone)) => symlink("nothing-behind-the-trigger", &point)?,
        (Some(store), _) => symlink(store, &point)?,
    }
    let trigger = format!("2 1 0:50 / {MOUNT_POINT} rw,relatime shared:2 - autofs /etc/auto.data rw,fd=6,timeout=0\n");
    let mode = if fault == Some(Fault::ReadOnly) { "ro" } else { "rw" };
    let mount = format!("3 2 0:51 / {MOUNT_POINT} {mode},relatime shared:3 - moosefs mfsmaster:/ rw,allow_other\n");
    let table = match (store, fault) {
        (None, _) => DISK.to_owned(),
        (Some(_), Some(Fault::Gone)) => format!("{DISK}{trigger}"),
        (Some(_), _) => format!("{DISK}{trigger}{mount}"),
    };
    fs::write(root.join("proc/self/mountinfo"), table)
}

/// Returns where a path of a machine really is. Links on the way lead where they would on the machine, that is, below
/// its root; the last name is not followed, because somebody may want to replace it.
pub(crate) fn within(root: &Path, path: &str) -> PathBuf {
    const MANY: usize = 40;
    let names = |path: &Path| -> Vec<PathBuf> {
        let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
        names.map(|part| PathBuf::from(part.as_os_str())).rev().collect()
    };
    let point = root.join(&MOUNT_POINT[1..]);
    let (mut rest, mut at, mut links) = (names(Path::new(path)), root.to_owned(), 0);
    while let Some(name) = rest.pop() {
        at.push(name);
        let target = if rest.is_empty() || at == point { None } else { fs::read_link(&at).ok() };
        if let Some(target) = target.filter(|target| target.is_absolute() && links < MANY) {
            links += 1;
            rest.extend(names(target.strip_prefix(root).unwrap_or(&target)));
            root.clone_into(&mut at);
        }
    }
    at
}
