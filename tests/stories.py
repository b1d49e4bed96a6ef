"""What may happen to controllers that both ours and bare ones have to bear, told so that they can be compared.

Each story is told on a site whose primary serves, with a client that submits each second, and ends when all is as it
was. Its first phase is the fault; the second one is the way back, which costs bare Slurm half a minute.
"""
import time

from cluster import LITTLE

# How long a fault lasts that ends by itself, in seconds: longer than a takeover needs.
LASTS = 30


def killed(site, tally):
    """slurmctld dies."""
    primary = site.order()[0]
    tally.crash("fault")
    site.kill_daemon(primary)
    tally.await_accepted(time.time())
    tally.phase("return")
    site.recover(primary)


def stopped(site, tally):
    """slurmctld is stopped in order, and started again once another one serves. Our charm does that by itself, so that
    the other one may serve for a second or two only."""
    primary = site.order()[0]
    tally.phase("fault")
    since = time.time()
    site.stop_daemon(primary)
    site.await_served(primary, since)
    tally.await_accepted(time.time())
    tally.phase("return")
    site.start_daemon(primary)
    site.recover(primary)


def rebooted(site, tally):
    """The machine is rebooted in order: slurmctld can save what it knows, so that nothing is lost."""
    primary = site.order()[0]
    tally.phase("fault")
    site.machine("reboot", primary)
    site.await_boot(primary)
    tally.await_accepted(time.time())
    tally.phase("return")
    site.recover(primary)


def powered_off(site, tally):
    """The machine loses its power, and gets it back once another one serves."""
    primary = site.order()[0]
    tally.crash("fault")
    site.machine("poweroff", primary)
    site.await_serving(primary, others=True)
    tally.await_accepted(time.time())
    tally.phase("return")
    site.machine("poweron", primary)
    site.await_boot(primary)
    site.recover(primary)


def cut_off(site, tally):
    """The machine loses its network, and the store with it. What happens meanwhile has to be so after the heal."""
    primary = site.order()[0]
    before = site.submit("sleep 3600", "--hold")
    site.await_saved()
    tally.crash("fault")
    site.machine("cut", primary)
    site.await_serving(primary, others=True)
    tally.await_accepted(time.time())
    done = Work(site, before)
    site.await_saved()
    tally.phase("return")
    site.machine("heal", primary)
    # A stale one serves again within a second, and the other one gives up half a minute later.
    tally.await_accepted(time.time() + LASTS)
    site.recover(primary)
    tally.undone = done.undone()
    done.clear()


def frozen(site, tally):
    """The machine stands still, and goes on when another one has served for a while. Its kernel takes connections, so
    that clients get no answer. What is done by one that asks the other controller alone has to be so afterwards."""
    primary = site.order()[0]
    before = site.submit("sleep 3600", "--hold")
    site.await_saved()
    # It has jobs again that are not saved.
    tally.await_accepted(time.time() + 2)
    tally.crash("fault")
    fault = time.time()
    site.machine("freeze", primary)
    try:
        serving = site.await_serving(primary, others=True, answers=False)
        done = Work(site, before, lambda script: site.alone(serving, script))
        site.pause_until(fault + LASTS)
    finally:
        site.machine("thaw", primary)
    tally.await_accepted(time.time())
    tally.phase("return")
    site.recover(primary)
    tally.undone = done.undone()
    done.clear()


def store_frozen(site, tally):
    """The store stands still, and goes on."""
    primary = site.order()[0]
    tally.crash("fault")
    fault = time.time()
    site.store_machine("freeze")
    try:
        site.pause_until(fault + LASTS)
    finally:
        site.store_machine("thaw")
    tally.await_accepted(time.time())
    tally.phase("return")
    site.recover(primary)


def store_killed(site, tally):
    """The machine of the store loses its power, and gets it back."""
    primary = site.order()[0]
    tally.crash("fault")
    fault = time.time()
    site.store_machine("poweroff")
    site.pause_until(fault + LASTS)
    site.store_machine("poweron")
    tally.await_accepted(time.time())
    tally.phase("return")
    site.recover(primary)


ALL = (killed, stopped, rebooted, powered_off, cut_off, frozen, store_frozen, store_killed)


class Work:
    """What a user and an administrator do while a backup serves."""

    def __init__(self, site, before, slurm=None):
        """`slurm` runs a client, if not in the usual way."""
        self.site = site
        self.cancelled = before
        self.drained = list(site.nodes())[-1]
        slurm = slurm or site.slurm
        submit = f"sbatch --parsable {LITTLE} --output=/dev/null --chdir=/tmp --hold --wrap 'sleep 3600'"
        self.held = slurm(submit).strip()
        slurm(f"scancel {before}")
        slurm(f"scontrol update nodename={self.drained} state=drain reason=work")

    def undone(self):
        """Names of what is not so any more."""
        seen = {
            "cancel": self.site.job(self.cancelled).get("JobState") == "CANCELLED",
            "hold": self.site.job(self.held).get("JobState") == "PENDING",
            "drain": "DRAIN" in self.site.slurm(f"scontrol show node {self.drained}"),
        }
        return sorted(name for name, holds in seen.items() if not holds)

    def clear(self):
        self.site.slurm(f"scancel {self.held} {self.cancelled} || true")
        self.site.slurm(f"scontrol update nodename={self.drained} state=resume || true")
