"""A long run: random events, good and bad, under a stream of jobs. No job may be lost. `cargo xtask soak` starts it.

| environment | meaning |
| --- | --- |
| `SOAK_SECONDS` | how long events go on (default 300) |
| `SOAK_SEED` | which random events; printed at the start, so that a run can be repeated |

A job that Slurm accepted has to end COMPLETED. It may have been started again where its machine was rebooted under it,
or was taken away by force. Nodes, a relation and an application leave and come again meanwhile, and their jobs with
them.

slurmctld saves jobs some seconds after they changed, whoever runs it. So none is submitted just before it is killed,
and of those that run then it may have forgotten that they began (it starts them again, which slurmd refuses: the node
is drained, the job held) or that they ended (it waits for them until the node registers anew, half an hour later). So
may a slurmctld that is replaced by a reconfigure forget a job that it could not yet start, because slurmd had just been
killed. An operator puts that right; of any other job it would be a failure.
"""
import contextlib
import datetime
import os
import random
import shlex
import time

import jubilant
import pytest

from cluster import SAVED_AFTER, charm_file, eventually

SECONDS = int(os.environ.get("SOAK_SECONDS") or 300)
SEED = os.environ.get("SOAK_SEED") or str(random.SystemRandom().randrange(10**6))
LONGEST = 30
# How long a killed slurmd may be away, in seconds.
AWAY = 15
MOST_NODES = 3
# More jobs than this do not wait at once: those of half an hour would not end within the time that the last ones get.
MOST_WAITING = 40
# Without the first Slurm would forget jobs five minutes after their end, and nobody could count them. With the second
# it gives a node that was taken away by force up within seconds.
REMEMBER = "MinJobAge=86400\nSlurmdTimeout=30"
# An application that comes and goes. Its partition stays closed for as long as Slurm remembers its jobs, which here is
# for good, so that its jobs can be counted and it never has a partition of its own taken away.
GUEST = "guest"


class Soak:
    def __init__(self, cluster):
        self.cluster = cluster
        self.random = random.Random(SEED)
        self.jobs = []
        self.told = []
        self.in_doubt = set()
        self.gaps = []
        # When slurmctld was killed, in seconds since 1970: before the order was given, and after it was carried out.
        self.deaths = []
        self.waiting = 0
        # The second application is deployed and integrated.
        self.guest = False

    def partition(self):
        """A partition that takes jobs: mostly the one that is always there."""
        return GUEST if self.guest and self.random.randrange(4) == 0 else "compute"

    def submit(self):
        if self.waiting >= MOST_WAITING:
            return
        self.waiting += 1
        seconds = self.random.choice((1, 2, 5, 15, LONGEST))
        try:
            self.jobs.append(self.cluster.submit(f"sleep {seconds}", "--time=30", partition=self.partition()))
        except jubilant.CLIError as error:
            # slurmctld is down or has no node: it said so, and nothing was accepted.
            assert "error" in error.stderr.lower(), error

    def await_saved(self):
        """Waits until slurmctld has written down all jobs that it has accepted."""
        if self.jobs:
            self.cluster.await_saved(self.jobs[-1], "SubmitTime")

    def nodes(self):
        return sorted(self.cluster.juju.status().get_units("compute"))

    def staying(self):
        """Units in service. One on its way out waits in a hook, and its machine takes no other orders. Where none is,
        an operator has to act: the only one may just have been rebooted."""

        def active():
            self.operate()
            units = self.cluster.juju.status().get_units("compute")
            return sorted(name for name, unit in units.items() if unit.workload_status.current == "active")

        return eventually(active, bool, "units in service", 180)

    # Events

    def a_node_joins(self):
        if len(self.nodes()) < MOST_NODES:
            self.cluster.add_unit("compute")

    def a_node_leaves(self):
        """It waits for its jobs."""
        nodes = self.staying()
        if len(nodes) > 1:
            self.cluster.juju.remove_unit(nodes[-1])

    def a_node_is_taken_away_by_force(self):
        """As if its machine had burnt. Slurm gives it up, and starts its jobs again elsewhere."""
        nodes = self.staying()
        if len(nodes) > 1:
            node = nodes[-1].replace("/", "-")
            running = self.queue("running", "JobID:20,NodeList:40")
            self.in_doubt |= {job for job, where in running if where.strip() == node}
            self.cluster.juju.cli("remove-unit", "--force", "--no-prompt", nodes[-1])

    def the_guest_comes_or_goes(self):
        """Its relation ends with its jobs running, and is made again, now and then in the middle."""
        cluster = self.cluster
        if GUEST not in cluster.juju.status().apps:
            cluster.deploy_compute(GUEST)
            cluster.juju.integrate("slurmctld", GUEST)
            self.guest = False
        elif self.guest:
            self.guest = False
            cluster.juju.remove_relation("slurmctld", GUEST)
        else:
            try:
                cluster.juju.integrate("slurmctld", GUEST)
            except jubilant.CLIError as error:
                # The one before has not ended yet.
                assert "already exists" in error.stderr, error
                return
            # From now on jobs may wait in it: they hold the partition until it is back.
            self.guest = GUEST in cluster.partitions() and cluster.partition(GUEST)["State"] == "UP"

    def the_partition_changes(self):
        self.cluster.juju.config("compute", {"partition-config": f"MaxTime={self.random.randrange(60, 1000)}"})

    def a_parameter_changes(self):
        lines = f"{REMEMBER}\nKillWait={self.random.randrange(10, 60)}"
        self.cluster.juju.config("slurmctld", {"slurm-conf-parameters": lines})

    def a_parameter_is_wrong(self):
        self.cluster.juju.config("slurmctld", {"slurm-conf-parameters": f"{REMEMBER}\nNoSuchKey=1"})

    def slurmd_is_killed(self):
        unit = self.random.choice(self.staying())
        self.gaps.append((unit.replace("/", "-"), time.time()))
        self.cluster.root(unit, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmd")

    def slurmctld_is_killed(self):
        self.in_doubt |= self.running()
        self.await_saved()
        self.in_doubt |= self.running()
        ordered = time.time()
        self.cluster.root("slurmctld/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmctld")
        self.deaths.append((ordered, time.time()))

    def update_status(self):
        self.cluster.fire(self.random.choice(["slurmctld/0", *self.staying()]))

    def the_agent_restarts(self):
        unit = self.random.choice(["slurmctld/0", *self.staying()])
        self.cluster.root(unit, "systemctl", "restart", f"jujud-machine-{self.cluster.machine_of(unit)}")

    def a_compute_machine_reboots(self):
        self.cluster.reboot_visibly(self.random.choice(self.staying()))

    def the_controllers_machine_reboots(self):
        self.await_saved()
        self.cluster.reboot("slurmctld/0")

    def a_charm_is_refreshed(self):
        application, charm = self.random.choice((("compute", "slurmd"), ("slurmctld", "slurmctld")))
        self.cluster.juju.refresh(application, path=charm_file(charm))

    EVENTS = (
        a_node_joins,
        a_node_leaves,
        a_node_is_taken_away_by_force,
        the_guest_comes_or_goes,
        the_partition_changes,
        a_parameter_changes,
        a_parameter_is_wrong,
        slurmd_is_killed,
        slurmctld_is_killed,
        update_status,
        the_agent_restarts,
        a_compute_machine_reboots,
        the_controllers_machine_reboots,
        a_charm_is_refreshed,
    )

    def invite_the_guest(self):
        """Brings the second application back for good: jobs may wait in its partition."""
        cluster = self.cluster
        if GUEST not in cluster.juju.status().apps:
            return
        while not cluster.juju.status().apps[GUEST].relations.get("slurmctld"):
            self.the_guest_comes_or_goes()
            time.sleep(1)
        eventually(lambda: cluster.partition(GUEST)["State"], lambda seen: seen == "UP", "the guest's partition", 180)

    def event(self):
        chosen = self.random.choice(self.EVENTS)
        self.told.append(chosen.__name__)
        print(f"{len(self.jobs)} jobs, {chosen.__name__.replace('_', ' ')}", flush=True)
        try:
            chosen(self)
        except (jubilant.CLIError, jubilant.TaskError, TimeoutError) as error:
            # A machine that is just booting takes no orders; what it does not take does not count as an event. Nor is
            # a model quiet in which a unit waits for its jobs.
            print(f"  not possible now: {str(error)[:200]}", flush=True)

    def queue(self, states, fields):
        """A list of words for each job in such a state."""
        shown = self.cluster.on("slurmctld/0", "squeue", "--noheader", f"--states={states}", f"--Format={fields}")
        return [line.split(maxsplit=1) for line in shown.splitlines()]

    def running(self):
        return {job for job, _ in self.queue("running", "JobID:20,TimeUsed:20")}

    def fell_into_a_gap(self, job):
        """Says whether a job was to start on a node whose slurmd was just on its way up again."""
        seen = self.cluster.job(job)
        began = datetime.datetime.fromisoformat(seen["StartTime"]).replace(tzinfo=datetime.timezone.utc).timestamp()
        return any(node == seen.get("BatchHost") and -1 <= began - killed <= AWAY for node, killed in self.gaps)

    def changed_before_a_death(self, job):
        """Says whether slurmctld was killed before it had written down that it had started a job, or that it had put it
        back into the queue because its machine was rebooted. It does much in the moment between the last look and the
        kill."""
        pattern = f"(Allocate|Requeuing) JobId={job}( |$)"
        words = ["--quiet", "--no-pager", "--unit=slurmctld", "--output=short-unix", f"--grep={pattern}"]
        # Without a line journalctl ends with 1.
        shown = self.cluster.shell("slurmctld/0", f"journalctl {shlex.join(words)} || true")
        changes = [float(line.split()[0]) for line in shown.splitlines()]
        return any(ordered - SAVED_AFTER <= change <= done for change in changes for ordered, done in self.deaths)

    def operate(self):
        """What an operator does: nodes that Slurm keeps out of service after a reboot or a crash are looked at and
        resumed, and so are jobs."""
        try:
            shown = self.cluster.on(
                "slurmctld/0", "sinfo", "--noheader", "--Node", "--states=down,drain", "--format=%N %E"
            )
            for node, reason in (line.split(maxsplit=1) for line in shown.splitlines()):
                # What leaves is the charms' matter, and what was taken away is Slurm's.
                if reason.startswith("juju: leaving the cluster") or reason == "Not responding":
                    continue
                assert reason in ("Node unexpectedly rebooted", "Duplicate jobid", "none"), (node, reason)
                self.cluster.scontrol("update", f"nodename={node}", "state=resume")
                # Juju's own update-status, after which the unit says so, would come within minutes.
                self.cluster.fire(node[::-1].replace("-", "/", 1)[::-1])
            pending = self.queue("pending,requeue_hold", "JobID:20,Reason:60")
            self.waiting = len(pending)
            held = {job for job, reason in pending if "held" in reason.lower()}
            # Whole minutes: `5:07`.
            stale = {
                job
                for job, used in self.queue("running", "JobID:20,TimeUsed:20")
                if ":" in used and int(used.split(":")[0]) >= 2
            }
            # Slurm holds what it has had to start more than five times, and machines reboot often here.
            often = {job for job, reason in pending if "launch failure limit" in reason}
            excused = lambda job: job in often or self.fell_into_a_gap(job) or self.changed_before_a_death(job)
            lost = {job for job in (held | stale) - self.in_doubt if not excused(job)}
            if lost:
                self.show()
            assert not lost, f"held {held}, without an end {stale}; of these nobody knows why: {lost}"
            for job in held:
                self.cluster.scontrol("release", job)
            for job in stale:
                print(
                    f"  requeue job {job}, of which slurmctld has forgotten that it ended, or that it never began",
                    flush=True,
                )
                self.cluster.scontrol("requeue", job)
        except (jubilant.CLIError, jubilant.TaskError, TimeoutError):
            pass  # Nobody answers: later.

    def show(self):
        """Prints what an administrator would look at. A machine that is just going away does not answer."""
        for words in (
            ["squeue", "--format=%i %T %M %N %r"],
            ["sinfo", "--Node", "--long"],
            ["scontrol", "show", "jobs", "--oneliner"],
        ):
            print(self.cluster.on("slurmctld/0", *words))
        print(
            self.cluster.root(
                "slurmctld/0", "journalctl", "--quiet", "--no-pager", "--unit=slurmctld", "--output=short-iso"
            )
        )
        for unit in self.nodes():
            script = f"scontrol listjobs {unit.replace('/', '-')} || true; ps -e -o lstart,args | grep slurm"
            journal = "journalctl --quiet --no-pager --unit=slurmd --output=short-iso"
            with contextlib.suppress(jubilant.CLIError):
                print(unit, self.cluster.shell(unit, f"{script}; {journal}"))


@pytest.fixture(scope="module")
def cluster(new_cluster):
    cluster = new_cluster()
    cluster.deploy(units=2, config={"slurm-conf-parameters": REMEMBER})
    return cluster


def test_no_job_is_lost(cluster):
    print(f"SOAK_SEED={SEED}", flush=True)
    soak = Soak(cluster)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for _ in range(soak.random.randrange(1, 6)):
            soak.submit()
        soak.event()
        soak.operate()
    cluster.juju.config("slurmctld", {"slurm-conf-parameters": REMEMBER})
    soak.invite_the_guest()

    def unfinished():
        soak.operate()
        try:
            states = {job: cluster.job(job).get("JobState", "gone") for job in soak.jobs}
        except jubilant.CLIError as error:
            return {"slurmctld": str(error)[-300:]}
        return {job: state for job, state in states.items() if state != "COMPLETED"}

    try:
        eventually(
            unfinished, lambda left: not left, f"jobs that have not ended well, seed {SEED}, after {soak.told}", 600
        )
    except AssertionError:
        soak.show()
        raise
    # Who is on the way out has nothing left to wait for.
    eventually(lambda: set(soak.nodes()) - set(soak.staying()), lambda seen: not seen, "units that leave", 180)
    cluster.settle(slurmctld=1, compute=len(soak.nodes()))
    assert len(set(cluster.hosts(nodes=len(soak.nodes())))) == len(soak.nodes())
    print(f"{len(soak.jobs)} jobs, {len(soak.told)} events, none lost", flush=True)
