//! The store that a machine mounts, its network, and the links and the name that go with them.

use super::FakeMachine;
use crate::store::{FakeStore, Fault, within};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

impl FakeMachine {
    /// Has the machine be called like this. Without it, it is called after its unit: `slurmctld-0`.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        self.programs.site.set_name(name);
        self
    }

    /// Returns what the machine is called.
    pub fn host_name(&self) -> String {
        self.programs.site.name()
    }

    /// Mounts a store at `/var/lib/slurm/checkpoint`. What the machine has there itself is hidden until it is
    /// unmounted.
    pub fn mount(&self, store: &FakeStore) {
        self.programs.site.mount(store);
    }

    /// Takes the mount away, the trigger included.
    pub fn unmount(&self) {
        self.programs.site.unmount();
    }

    /// Tells whether a store is mounted, be it one that does not answer.
    pub fn has_mounted(&self) -> bool {
        self.programs.site.has_mounted() && self.programs.site.fault() != Some(Fault::Gone)
    }

    /// Has something be wrong with the store on this machine only; None: no longer.
    pub fn store_fails(&self, fault: Option<Fault>) {
        self.programs.site.set_fault(fault);
    }

    /// Cuts the machine off from the network: from its store, and from everybody else. What runs there goes on.
    pub fn cut_network(&self) {
        self.programs.slurm().lock().cut_network(self.programs.root.path());
        self.programs.site.cut(true);
    }

    /// Reconnects the machine.
    pub fn heal_network(&self) {
        self.programs.site.cut(false);
        self.programs.slurm().lock().heal_network(self.programs.root.path());
    }

    /// Makes a link, such as `/etc/slurm`, to a path of the machine. What was there is gone.
    #[expect(clippy::missing_panics_doc, reason = "a test without its stage has to end")]
    pub fn link(&self, path: &str, target: &str) {
        let at = self.programs.path(path);
        let _ = fs::remove_dir_all(&at).or_else(|_| fs::remove_file(&at));
        let target = self.programs.root.path().join(target.trim_start_matches('/'));
        symlink(target, &at).expect("a test needs its links");
    }

    /// Returns where a link of the machine points. None: there is no such link.
    pub fn link_target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(within(self.programs.root.path(), path)).ok()?;
        let below = target.strip_prefix(self.programs.root.path()).map(|rest| Path::new("/").join(rest));
        Some(below.unwrap_or(target).display().to_string())
    }
}
