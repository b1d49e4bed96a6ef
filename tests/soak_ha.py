"""Random events on several controllers, all invariants after each. `cargo xtask soak --events` starts it.

| environment | meaning |
| --- | --- |
| `SOAK_EVENTS` | how many events (default 10) |
| `SOAK_SEED` | which random events; printed at the start, so that a run can be repeated |

Controllers join, leave and fail, so does their store, nodes come and go, an operator and an administrator set things. A
job beats through all of it, and a client submits each second. After each event

* order, bags, daemons, nodes and statuses say the same (`ha.Charmed.agreement`), and the primary serves;
* the list of controllers has changed by a deletion or at its end only;
* each job that was accepted has completed. What Slurm itself loses in a crash, jobs of the last seconds before it, is
  told apart as in all stories of several controllers (`tally.Tally`);
* nothing that anybody set is undone.

At the end a takeover works. A choice depends on the seed, on the number of the event and on what is deployed then
(counts and ranks, never names), so that a seed makes the same events again.
"""
import os
import random
import time

import pytest

import ha
import host
import sites
import stories
from cluster import eventually
from tally import Tally

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs faults that only juju-local can make")

EVENTS = int(os.environ.get("SOAK_EVENTS") or 10)
SEED = os.environ.get("SOAK_SEED") or str(random.SystemRandom().randrange(10**6))
CONTROLLERS = range(2, 5)
NODES = range(2, 5)
# Jobs of a long event may have little room.
JOBS_WITHIN = 400
BACK = sites.COMES_BACK + 120
# A line that an administrator has in slurm.conf, and that no charm knows of.
BY_HAND = "BatchStartTimeout"


class Site(ha.Charmed):
    """The first node stays: jobs beat there, and the client works there."""

    def worker(self):
        return next(iter(self.nodes().values()))


class Soak:
    def __init__(self, site):
        self.site = site
        self.random = None
        self.tally = None
        # What was set, by whom it was set: name → (how to read it, the value).
        self.set = {}
        self.expect("MaxTime", lambda: site.cluster.partition("compute")["MaxTime"], "UNLIMITED")
        held = site.submit("true", "--hold")
        self.expect("the held job", lambda: site.job(held).get("JobState"), "PENDING")
        cancelled = site.submit("true", "--hold")
        site.cancel(cancelled)
        self.expect("the cancelled job", lambda: site.job(cancelled).get("JobState"), "CANCELLED")
        site.await_saved()

    def expect(self, name, read, value):
        self.set[name] = (read, value)

    # What is there, by rank and by number

    def any_host(self, first=0):
        """A controller: any of them, or any but the first ones."""
        return self.random.choice(self.site.order()[first:])

    def nodes(self):
        return sorted(self.site.units("compute"), key=ha.number_of)

    def another_node(self):
        """A node that may be played with."""
        return self.random.choice(self.nodes()[1:]).replace("/", "-")

    def hits(self, host):
        """A fault is about to hit a controller. If it serves, it may not have written down what it accepted last."""
        if host == self.site.order()[0]:
            self.tally.crash("fault")
        else:
            self.tally.phase("fault")

    def replaced(self, host):
        """Waits until another one serves than the one that was hit, if that served, or for about as long."""
        if host == self.site.order()[0]:
            self.site.await_serving(host, others=True)
        else:
            self.site.pause_until(time.time() + sites.TIMEOUT)
        self.tally.await_accepted(time.time())
        self.site.await_saved()

    # Members

    def a_controller_joins(self):
        self.controllers_join(1)

    def two_controllers_join(self):
        self.controllers_join(2)

    def controllers_join(self, count):
        units = len(self.site.units("slurmctld")) + count
        self.site.cluster.add_unit("slurmctld", count)
        self.site.cluster.settle(slurmctld=units)

    def a_standby_leaves(self):
        self.site.remove(self.any_host(first=1))

    def the_primary_leaves(self):
        self.site.remove(self.site.order()[0])

    def two_controllers_leave(self):
        """At once: the one in charge and another one."""
        leavers = [self.site.unit_of(host) for host in (self.site.order()[0], self.any_host(first=1))]
        self.site.cluster.juju.remove_unit(*leavers)
        read = lambda: self.site.units("slurmctld") & set(leavers)
        eventually(read, lambda seen: not seen, "units that leave", 180)

    def one_joins_and_one_leaves(self):
        units = self.site.units("slurmctld")
        leaver = self.site.unit_of(self.any_host())
        self.site.cluster.add_unit("slurmctld")
        self.site.cluster.juju.remove_unit(leaver)
        read = lambda: self.site.units("slurmctld")
        eventually(read, lambda seen: leaver not in seen and len(seen) == len(units), f"units without {leaver}", 180)
        self.site.cluster.settle(slurmctld=len(units))

    def a_dead_controller_is_removed_by_force(self):
        host = self.any_host()
        self.hits(host)
        unit = self.site.unit_of(host)
        serves = host == self.site.order()[0]
        self.site.machine("poweroff", host)
        if serves:
            self.site.await_serving(host, others=True)
        self.site.cluster.juju.cli("remove-unit", "--force", "--no-prompt", unit)
        eventually(lambda: self.site.units("slurmctld"), lambda seen: unit not in seen, f"units without {unit}", 240)

        def agreement():
            # Nobody hears of it: Juju has each unit look at everything every few minutes.
            self.site.refresh()
            return self.site.agreement()

        eventually(agreement, lambda found: not found, "what does not agree", 240)

    def a_node_joins(self):
        units = len(self.nodes()) + 1
        self.site.cluster.add_unit("compute")
        self.site.cluster.settle(compute=units)
        self.site.prepare_nodes()

    def a_node_leaves(self):
        leaver = self.nodes()[-1]
        # Its administrator has nothing to say any more.
        for name in [name for name in self.set if name.endswith(f" of {leaver.replace('/', '-')}")]:
            del self.set[name]
        self.site.cluster.juju.remove_unit(leaver)
        eventually(lambda: self.nodes(), lambda seen: leaver not in seen, f"units without {leaver}", 240)

    def a_controller_and_a_node_join(self):
        controllers, nodes = len(self.site.units("slurmctld")) + 1, len(self.nodes()) + 1
        self.site.cluster.add_unit("slurmctld")
        self.site.cluster.add_unit("compute")
        self.site.cluster.settle(slurmctld=controllers, compute=nodes)
        self.site.prepare_nodes()

    # Faults

    def slurmctld_is_killed(self):
        host = self.any_host()
        self.hits(host)
        self.site.kill_daemon(host)

    def slurmctld_is_stopped(self):
        host = self.any_host()
        self.tally.phase("fault")
        self.site.stop_daemon(host)
        self.replaced(host)
        self.site.start_daemon(host)

    def a_machine_loses_power(self):
        host = self.any_host()
        self.hits(host)
        self.site.machine("poweroff", host)
        self.replaced(host)
        self.site.machine("poweron", host)
        self.site.await_boot(host)

    def a_machine_reboots(self):
        host = self.any_host()
        # In order, so that nothing is lost.
        self.tally.phase("fault")
        self.site.machine("reboot", host)
        self.site.await_boot(host)

    def a_machine_is_cut_off(self):
        host = self.any_host()
        self.hits(host)
        self.site.machine("cut", host)
        self.replaced(host)
        self.site.machine("heal", host)

    def a_machine_stands_still(self):
        host = self.any_host()
        serves = host == self.site.order()[0]
        self.hits(host)
        self.site.machine("freeze", host)
        if serves:
            self.site.await_serving(host, others=True, answers=False)
        self.site.machine("thaw", host)

    def the_store_stands_still(self):
        self.tally.crash("fault")
        fault = time.time()
        self.site.store_machine("freeze")
        self.site.pause_until(fault + stories.LASTS)
        self.site.store_machine("thaw")

    def the_store_loses_power(self):
        self.tally.crash("fault")
        fault = time.time()
        self.site.store_machine("poweroff")
        self.site.pause_until(fault + stories.LASTS)
        self.site.store_machine("poweron")

    def a_mount_dies(self):
        host = self.any_host()
        self.hits(host)
        self.site.kill_fuse(host)
        eventually(lambda: self.site.fence_state(host), lambda seen: seen == "closed", f"the fence of {host}", 30)
        self.replaced(host)
        self.site.unmount(host)

    def an_agent_restarts(self):
        unit = self.random.choice(sorted(self.site.units("slurmctld"), key=ha.number_of) + self.nodes())
        machine = self.site.cluster.machine_of(unit)
        self.site.cluster.root(unit, "systemctl", "restart", f"jujud-machine-{machine}")

    def a_takeover(self):
        self.tally.phase("fault")
        self.site.takeover(self.any_host(first=1))
        # Slurm has ended the one that served. Its charm starts it again at its next hook.
        self.site.refresh()

    # Edits

    def a_parameter_changes(self):
        value = self.random.randrange(10, 60)
        self.configure(f"KillWait={value}")
        self.expect("KillWait", lambda: self.site.cluster.setting("KillWait"), f"{value} sec")

    def a_parameter_is_wrong_for_a_while(self):
        _, value = self.set.get("KillWait", (None, "30 sec"))
        self.configure("NoSuchKey=1")
        leader = self.site.cluster.leader("slurmctld")
        self.site.cluster.await_message(leader, "slurm-conf-parameters refused", 120)
        self.configure(f"KillWait={value.split()[0]}")
        self.expect("KillWait", lambda: self.site.cluster.setting("KillWait"), value)

    def configure(self, line):
        self.site.cluster.juju.config("slurmctld", {"slurm-conf-parameters": f"{ha.PARAMETERS}\n{line}"})

    def the_partition_changes(self):
        minutes = self.random.randrange(60, 600)
        self.site.cluster.juju.config("compute", {"partition-config": f"MaxTime={minutes}"})
        shown = f"{minutes // 60:02}:{minutes % 60:02}:00"
        self.expect("MaxTime", lambda: self.site.cluster.partition("compute")["MaxTime"], shown)

    def an_administrator_edits_slurm_conf(self):
        value = self.random.randrange(11, 99)
        script = f"""
        sed --in-place '/^{BY_HAND}=/d' /etc/slurm/slurm.conf
        echo {BY_HAND}={value} >>/etc/slurm/slurm.conf
        scontrol reconfigure
        """
        self.site.cluster.shell(self.site.controllers()[self.any_host()], script)
        self.expect(BY_HAND, lambda: self.site.cluster.setting(BY_HAND), f"{value} sec")

    def drained(self):
        return [node for node in map(name_of, self.nodes()) if self.set.get(f"the drain of {node}", (0, [0]))[1][0]]

    def an_administrator_drains_a_node(self):
        node, reason = self.another_node(), f"soak-{self.random.randrange(10**6)}"
        self.site.slurm(f"scontrol update nodename={node} state=drain reason={reason}")
        read = lambda: ("DRAIN" in self.site.cluster.state(node), self.site.cluster.node(node)["reason"])
        self.expect(f"the drain of {node}", read, (True, reason))

    def an_administrator_resumes_a_node(self):
        node = self.random.choice(self.drained())
        self.site.slurm(f"scontrol update nodename={node} state=resume")
        self.expect(f"the drain of {node}", lambda: ("DRAIN" in self.site.cluster.state(node),), (False,))

    def an_administrator_notes_something(self):
        node, comment = self.another_node(), f"soak-{self.random.randrange(10**6)}"
        self.site.slurm(f"scontrol update nodename={node} comment={comment}")
        self.expect(f"the comment of {node}", lambda: self.site.cluster.node(node)["comment"], comment)

    # Name → how many controllers and nodes there are more after it.
    ALL = {
        a_controller_joins: (1, 0),
        two_controllers_join: (2, 0),
        a_standby_leaves: (-1, 0),
        the_primary_leaves: (-1, 0),
        two_controllers_leave: (-2, 0),
        one_joins_and_one_leaves: (0, 0),
        a_dead_controller_is_removed_by_force: (-1, 0),
        a_node_joins: (0, 1),
        a_node_leaves: (0, -1),
        a_controller_and_a_node_join: (1, 1),
        slurmctld_is_killed: (0, 0),
        slurmctld_is_stopped: (0, 0),
        a_machine_loses_power: (0, 0),
        a_machine_reboots: (0, 0),
        a_machine_is_cut_off: (0, 0),
        a_machine_stands_still: (0, 0),
        the_store_stands_still: (0, 0),
        the_store_loses_power: (0, 0),
        a_mount_dies: (0, 0),
        an_agent_restarts: (0, 0),
        a_takeover: (0, 0),
        a_parameter_changes: (0, 0),
        a_parameter_is_wrong_for_a_while: (0, 0),
        the_partition_changes: (0, 0),
        an_administrator_edits_slurm_conf: (0, 0),
        an_administrator_drains_a_node: (0, 0),
        an_administrator_resumes_a_node: (0, 0),
        an_administrator_notes_something: (0, 0),
    }

    def choose(self, number):
        """An event that is possible with what is deployed."""
        self.random = random.Random(f"{SEED}/{number}")
        controllers, nodes = len(self.site.units("slurmctld")), len(self.nodes())
        fits = lambda more: controllers + more[0] in CONTROLLERS and nodes + more[1] in NODES
        possible = [event for event, more in self.ALL.items() if fits(more)]
        # One node beside the first is there for jobs.
        if len(self.drained()) >= nodes - 2:
            possible.remove(Soak.an_administrator_drains_a_node)
        if not self.drained():
            possible.remove(Soak.an_administrator_resumes_a_node)
        return self.random.choice(possible)

    def happen(self, number, job):
        """One event, and all that has to hold after it."""
        event = self.choose(number)
        before, begun = self.site.order(), time.monotonic()
        name = event.__name__.replace("_", " ")
        print(f"\n{number:3}  {name}", flush=True)
        try:
            with Tally(self.site) as self.tally:
                event(self)
                after = self.site.await_agreement(BACK)
                self.site.await_primary()
                self.tally.finish(JOBS_WITHIN)
            self.check_order(before, after)
            self.check_jobs()
            self.site.assert_beats(job)
            self.check_settings()
        except Exception:
            print(f"{number:3}  {name}: failed after {time.monotonic() - begun:.0f} s, SOAK_SEED={SEED}", flush=True)
            self.show()
            raise
        told = {key: value for key, value in self.tally.summary().items() if value}
        print(f"{number:3}  {name}: {time.monotonic() - begun:.0f} s, {len(after)} controllers, {told}", flush=True)

    def check_order(self, before, after):
        """Those that stay keep their order, and new ones come last."""
        staying = [host for host in before if host in after]
        assert after[: len(staying)] == staying, f"the list of controllers was {before} and is {after}"

    def check_jobs(self):
        tally = self.tally
        tally.assert_kept()
        # Slurm may have forgotten that a job ended, and waits for it until its time is up; or that it began, and an
        # operator has cancelled it.
        bad = {name: state for name, state in tally.known.items() if state != "COMPLETED" and not tally.in_doubt(name)}
        assert not bad, f"jobs that have not ended well: {bad}"

    def check_settings(self):
        for name, (read, value) in self.set.items():
            eventually(read, lambda seen: seen == value, f"{name}, which was set to {value}", 60)

    def show(self):
        """Prints what an administrator would look at."""
        since = "--since=-6min --quiet --no-pager --output=short-iso-precise"
        for name, machine in self.site.controllers().items():
            for unit in ("slurmctld", ha.FENCE_SERVICE):
                try:
                    print(f"--- {unit} of {name}\n{self.site.look(machine, f'journalctl {since} --unit={unit}', 20)}")
                except sites.Silent as error:
                    print(f"--- {unit} of {name}: {error}")
        for script in ("squeue --states=all --format='%i %j %T %M %N %r' | tail -n 80", "sinfo --Node --long"):
            try:
                print(f"--- {script}\n{self.site.slurm(script)}", flush=True)
            except sites.Silent as error:
                print(f"--- {script}: {error}", flush=True)


def name_of(unit):
    return unit.replace("/", "-")


@pytest.fixture(scope="module")
def site(new_cluster, tmp_path_factory):
    site = Site(ha.Wide(new_cluster().juju))
    site.deploy(tmp_path_factory.mktemp("charms"))
    return site


def test_all_holds_after_each_event(site):
    print(f"SOAK_SEED={SEED}", flush=True)
    begun = time.monotonic()
    soak = Soak(site)
    job = site.start_beating()
    for number in range(1, EVENTS + 1):
        soak.happen(number, job)
    site.drill()
    soak.check_settings()
    site.assert_beats(job)
    site.cancel(job)
    print(f"{EVENTS} events in {(time.monotonic() - begun) / 60:.0f} minutes, and all held", flush=True)
