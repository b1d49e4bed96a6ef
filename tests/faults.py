"""What may go wrong with controllers and with their store, and how it is put right again."""
import contextlib
import subprocess

import jubilant

from cluster import eventually

CHECKPOINT = "/var/lib/slurm/checkpoint"
SLOW = "ha-slow"


class Silent(Exception):
    """A machine, or the store on it, did not answer."""


class Faults:
    """Part of a `sites.Site`, which says what there is."""

    # What happens to controllers

    def kill_daemon(self, host):
        self.cluster.root(self.controllers()[host], *"systemctl kill --kill-whom=main --signal=KILL slurmctld".split())

    def stop_daemon(self, host):
        self.cluster.root(self.controllers()[host], "systemctl", "stop", "slurmctld")

    def start_daemon(self, host):
        self.cluster.shell(self.controllers()[host], "systemctl reset-failed slurmctld; systemctl start slurmctld")

    def machine(self, verb, host):
        """`poweroff`, `poweron`, `reboot`, `freeze`, `thaw`, `cut` or `heal` of a controller's machine."""
        self.cluster.local("machine", verb, self.controllers()[host])

    # What happens to the store

    def store_machine(self, verb):
        self.cluster.local("machine", verb, self.store())

    def kill_fuse(self, host):
        """The process that serves the mount on a controller dies: every look ends with an error from then on."""
        self.cluster.shell(self.controllers()[host], "pkill --signal KILL --full '^(mfsmount|.*mount.moosefs) '")

    def unmount(self, host):
        """The mount is gone from a controller, whoever uses it."""
        self.cluster.root(self.controllers()[host], "umount", "--lazy", CHECKPOINT)

    def make_readonly(self, host):
        """Lays the same store over itself, read-only: what is open for writing now would hold a remount."""
        lines = f"mount --internal-only --bind {CHECKPOINT} {CHECKPOINT}"
        ro = f"mount --internal-only -o remount,bind,ro {CHECKPOINT}"
        self.cluster.shell(self.controllers()[host], f"{lines}\n{ro}")

    def make_writable(self, host):
        """Takes away what was laid over, if anything is."""
        over = f"grep -c ' {CHECKPOINT} .* - fuse' /proc/self/mountinfo"
        script = f"while [ $({over}) -gt 1 ]; do umount --lazy {CHECKPOINT}; done"
        self.cluster.shell(self.controllers()[host], script)

    def fill(self, spare=0):
        """From now on the store takes no more than `spare` bytes: what is beyond is refused at once.

        A MooseFS whose disks are full would hold its writers instead, as one does that is away. Of a quota on all of it
        `df` knows nothing, as with many file servers: only who writes is told.
        """
        self.on_store(f"""
        used=$(mfsdirinfo -r "$mount" | grep -o '[0-9]*' | tail -n 1)
        mfssetquota -R $((used + {spare})) "$mount"
        """)

    def drain_store(self):
        """Undoes `fill`."""
        self.on_store('mfsdelquota -A "$mount"')

    def on_store(self, script):
        """Runs a script on the machine of the store, with the store mounted at `$mount`."""
        lines = f"""
        mount=/mnt/ha-store
        mkdir -p $mount
        mountpoint -q $mount || mfsmount -H $(hostname -I | cut -d' ' -f1) $mount
        trap 'umount $mount' EXIT
        {script}
        """
        return self.cluster.shell(self.store(), lines)

    @contextlib.contextmanager
    def slow_store(self, away=0.4, there=0.1):
        """The store is away most of the time, for a moment each: whoever writes waits."""
        loop = (
            f"while :; do pkill -STOP mfschunkserver; sleep {away}; pkill -CONT mfschunkserver; sleep {there}; done"
        )
        self.cluster.root(self.store(), "systemd-run", f"--unit={SLOW}", "--collect", "sh", "-c", loop)
        try:
            yield
        finally:
            self.cluster.shell(self.store(), f"systemctl stop {SLOW}; pkill -CONT mfschunkserver")

    def repair(self):
        """Undoes what a story that failed half-way has left, so that the next one can be told. Whatever cannot be
        mended shows there."""
        failures = (AssertionError, Silent, jubilant.CLIError, subprocess.TimeoutExpired)
        machines = list(filter(None, [self.store(), *self.controllers().values()]))
        for machine in machines:
            for verb in ("thaw", "heal", "poweron"):
                with contextlib.suppress(AssertionError):
                    self.cluster.local("machine", verb, machine)
        for machine in machines:
            with contextlib.suppress(*failures):
                read = lambda: self.state_of_boot(machine)
                eventually(read, lambda seen: seen in ("running", "degraded"), f"machine {machine} has booted", 60)
        if self.store():
            with contextlib.suppress(*failures):
                self.cluster.shell(self.store(), f"systemctl stop {SLOW} 2>/dev/null; pkill -CONT mfschunkserver; true")
                self.drain_store()
        for host, machine in self.controllers().items():
            with contextlib.suppress(*failures):
                self.make_writable(host)
            with contextlib.suppress(*failures):
                self.revive_mount(host)
            with contextlib.suppress(*failures):
                self.cluster.shell(machine, f"systemctl start jujud-machine-{machine}", seconds=120)
            with contextlib.suppress(*failures):
                if self.daemon(host) != "active":
                    self.start_daemon(host)

    def revive_mount(self, host):
        """Takes away a mount whose process is dead, as an operator does; whoever looks there next mounts it anew."""
        script = f"ls {CHECKPOINT}/. >/dev/null 2>&1 || umount --lazy {CHECKPOINT}; ls {CHECKPOINT}/. >/dev/null"
        self.look(self.controllers()[host], script, 30)
