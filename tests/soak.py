"""A long run: random events, good and bad, under a stream of jobs. No job may be lost. `cargo xtask soak` starts it.

| environment | meaning |
| --- | --- |
| `SOAK_SECONDS` | how long events go on (default 300) |
| `SOAK_SEED` | which random events; printed at the start, so that a run can be repeated |

A job that Slurm accepted has to end COMPLETED. It may have been started again where its machine was rebooted under it. slurmctld saves jobs some
seconds after it accepted them, whoever runs it, so none is submitted just before it is killed or its machine is.
"""
import os
import random
import time

import jubilant
import pytest

from cluster import charm_file, eventually

SECONDS = int(os.environ.get("SOAK_SECONDS") or 300)
SEED = os.environ.get("SOAK_SEED") or str(random.SystemRandom().randrange(10**6))
SAVED_AFTER = 8
MOST_NODES = 3
# Without this Slurm would forget jobs five minutes after their end, and nobody could count them.
REMEMBER = "MinJobAge=86400"


class Soak:
    def __init__(self, cluster):
        self.cluster = cluster
        self.random = random.Random(SEED)
        self.jobs = []
        self.told = []

    def submit(self):
        seconds = self.random.choice((1, 2, 5, 15, 30))
        try:
            self.jobs.append(self.cluster.submit(f"sleep {seconds}", "--time=30"))
        except jubilant.CLIError as error:
            # slurmctld is down or has no node: it said so, and nothing was accepted.
            assert "error" in error.stderr.lower(), error

    def nodes(self):
        return sorted(self.cluster.juju.status().get_units("compute"))

    # Events

    def a_node_joins(self):
        if len(self.nodes()) < MOST_NODES:
            self.cluster.add_unit("compute")

    def the_partition_changes(self):
        self.cluster.juju.config("compute", {"partition-config": f"MaxTime={self.random.randrange(60, 1000)}"})

    def a_parameter_changes(self):
        lines = f"{REMEMBER}\nKillWait={self.random.randrange(10, 60)}"
        self.cluster.juju.config("slurmctld", {"slurm-conf-parameters": lines})

    def a_parameter_is_wrong(self):
        self.cluster.juju.config("slurmctld", {"slurm-conf-parameters": f"{REMEMBER}\nNoSuchKey=1"})

    def slurmd_is_killed(self):
        unit = self.random.choice(self.nodes())
        self.cluster.root(unit, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmd")

    def slurmctld_is_killed(self):
        time.sleep(SAVED_AFTER)
        self.cluster.root("slurmctld/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmctld")

    def update_status(self):
        self.cluster.fire(self.random.choice(self.cluster.units()))

    def the_agent_restarts(self):
        unit = self.random.choice(self.cluster.units())
        self.cluster.root(unit, "systemctl", "restart", f"jujud-machine-{self.cluster.machine_of(unit)}")

    def a_compute_machine_reboots(self):
        self.cluster.reboot_visibly(self.random.choice(self.nodes()))

    def the_controllers_machine_reboots(self):
        time.sleep(SAVED_AFTER)
        self.cluster.reboot("slurmctld/0")

    def a_charm_is_refreshed(self):
        application, charm = self.random.choice((("compute", "slurmd"), ("slurmctld", "slurmctld")))
        self.cluster.juju.refresh(application, path=charm_file(charm))

    EVENTS = (
        a_node_joins,
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

    def event(self):
        chosen = self.random.choice(self.EVENTS)
        self.told.append(chosen.__name__)
        print(f"{len(self.jobs)} jobs, {chosen.__name__.replace('_', ' ')}", flush=True)
        try:
            chosen(self)
        except (jubilant.CLIError, jubilant.TaskError) as error:
            # A machine that is just booting takes no orders; what it does not take does not count as an event.
            print(f"  not possible now: {str(error)[:200]}", flush=True)

    def operate(self):
        """What an operator does: nodes that Slurm keeps down after a reboot are looked at and resumed."""
        try:
            shown = self.cluster.on("slurmctld/0", "sinfo", "--noheader", "--Node", "--states=down", "--format=%N").split()
            for node in shown:
                self.cluster.scontrol("update", f"nodename={node}", "state=resume")
        except jubilant.CLIError:
            pass  # Nobody answers: later.


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

    def unfinished():
        soak.operate()
        try:
            states = {job: cluster.job(job).get("JobState", "gone") for job in soak.jobs}
        except jubilant.CLIError as error:
            return {"slurmctld": str(error)[-300:]}
        return {job: state for job, state in states.items() if state != "COMPLETED"}

    eventually(unfinished, lambda left: not left, f"jobs that have not ended well, seed {SEED}, after {soak.told}", 600)
    cluster.settle(slurmctld=1, compute=len(soak.nodes()))
    assert len(set(cluster.hosts(nodes=len(soak.nodes())))) == len(soak.nodes())
    print(f"{len(soak.jobs)} jobs, {len(soak.told)} events, none lost", flush=True)
