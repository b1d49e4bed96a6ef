"""A cluster whose machines share a directory for heartbeats, for stories of leaving.

Every job writes a heartbeat each second to that directory and leaves a mark at its end, so that a job that died, was
restarted or stood still shows, also when its machine is gone.
"""
import json
import re

import jubilant

from cluster import JSON, eventually

SHARE = "/srv/heartbeats"
# A file with a line for every end of a job.
ENDS = "/var/log/slurm/ended"
# Slurm forgets a job soon, so that a partition does not wait for minutes, and has it written down that it ended.
PARAMETERS = f"""\
MinJobAge=5
JobCompType=jobcomp/filetxt
JobCompLoc={ENDS}
"""
# How long a job may not be heard of, in seconds: machines boot beside it, on two processors.
LONGEST_GAP = 8
REASON = "juju: leaving the cluster"


class Stage:
    """A cluster whose machines share a directory for heartbeats."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.jobs = {}

    def share(self, *units):
        for unit in units:
            machine = self.cluster.machine_of(unit)
            self.cluster.local("share", "attach", "heartbeats", machine, SHARE)
            self.cluster.root(unit, "chmod", "1777", SHARE)

    def start(self, node, seconds, *options, **more):
        """Submits a job of so many seconds to a node, and returns it when it runs and Slurm has written that down."""
        job = self.submit(node, seconds, *options, **more)
        self.await_begun(job)
        return job

    def submit(self, node, seconds, *options, partition="compute", into=SHARE):
        beats = f"for i in $(seq {seconds}); do date +%s >>{into}/$SLURM_JOB_ID; sleep 1; done"
        script = f"{beats}; touch {into}/$SLURM_JOB_ID.end"
        job = self.cluster.submit(script, f"--nodelist={node}", "--time=60", *options, partition=partition)
        self.jobs[job] = (node, seconds)
        return job

    def await_begun(self, job):
        self.cluster.await_job(job, "RUNNING")
        self.cluster.await_saved(job)

    def new_unit(self, application="compute"):
        """Adds a unit, and returns it and its node when it takes jobs."""
        known = set(self.cluster.juju.status().get_units(application))
        self.cluster.add_unit(application)
        [unit] = eventually(
            lambda: set(self.cluster.juju.status().get_units(application)) - known, bool, "the new unit", 60
        )
        self.cluster.await_message(unit, "^active: idle", 120)
        self.share(unit)
        return unit, unit.replace("/", "-")

    def new_application(self, name, units=1):
        self.cluster.deploy_compute(name, units=units)
        self.cluster.juju.integrate("slurmctld", name)
        self.cluster.settle(**{"slurmctld": 1, name: units})
        self.share(*self.cluster.juju.status().get_units(name))

    def nodes(self):
        shown = self.cluster.on(self.cluster.controller, "scontrol", "show", "nodes", JSON)
        return {node["name"] for node in json.loads(shown)["nodes"]}

    def units(self, application):
        status = self.cluster.juju.status()
        return set(status.get_units(application)) if application in status.apps else set()

    def await_gone(self, unit, seconds=120):
        application = unit.split("/")[0]
        eventually(lambda: self.units(application), lambda seen: unit not in seen, f"units without {unit}", seconds)

    def await_no_partition(self, name, seconds=180):
        eventually(self.cluster.partitions, lambda seen: name not in seen, "partitions", seconds)
        eventually(self.cluster.slurm_conf, lambda seen: name not in words(seen), f"slurm.conf without {name}", seconds)

    def assert_well(self, job, kept=SHARE):
        """The job ended by itself where it began, without a break. What it wrote is kept in that directory."""
        node, seconds = self.jobs.pop(job)
        self.await_end(job, "COMPLETED", node, 90 + seconds)
        self.assert_heartbeat(job, seconds, kept)

    def await_end(self, job, state, node, seconds=60):
        """Waits until a job has ended, and insists on how and where. A job that is requeued has another end before."""
        ends = eventually(lambda: self.ends(job), bool, f"end of {job}", seconds)
        assert [(end["JobState"], end["NodeList"]) for end in ends] == [(state, node)], ends

    def ends(self, job):
        """How often a job has ended, and how: key → value."""
        lines = self.cluster.root(self.cluster.controller, "sh", "-c", f"cat {ENDS} 2>/dev/null || true").splitlines()
        ends = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
        return [end for end in ends if end["JobId"] == job]

    def assert_heartbeat(self, job, seconds, kept=SHARE):
        path = f"{kept}/{job}"
        text = self.cluster.root(self.cluster.controller, "cat", path)
        self.cluster.root(self.cluster.controller, "test", "-e", f"{path}.end")
        beats = [int(line) for line in text.split()]
        gaps = [later - earlier for earlier, later in zip(beats, beats[1:])]
        assert len(beats) == seconds and max(gaps) <= LONGEST_GAP, f"job {job}: {len(beats)} beats, gaps {gaps}"

    def assert_whole(self, *gone):
        """Nothing is left of nodes that left, and a slurmctld that starts anew loses nothing."""
        assert not self.nodes() & set(gone)
        running = self.running()
        self.restart()
        assert self.running() == running
        assert not self.nodes() & set(gone)

    def restart(self):
        """Starts slurmctld anew. systemd lets nobody do that often in a row."""
        self.cluster.shell(self.cluster.controller, "systemctl reset-failed slurmctld; systemctl restart slurmctld")
        eventually(self.pings, lambda seen: "UP" in seen, "slurmctld after a restart", 30)

    def pings(self):
        try:
            return self.cluster.on(self.cluster.controller, "scontrol", "ping")
        except jubilant.CLIError as error:
            return error.stdout

    def running(self):
        shown = self.cluster.on(self.cluster.controller, "squeue", "--noheader", "--format=%i %T")
        return sorted(shown.splitlines())


def words(text):
    return set(re.findall(r"[\w-]+", text))


def make(new_cluster, version=None):
    cluster = new_cluster(version)
    cluster.deploy_controller(config={"slurm-conf-parameters": PARAMETERS})
    cluster.deploy_compute(units=1)
    cluster.juju.integrate("slurmctld", "compute")
    cluster.settle(slurmctld=1, compute=1)
    cluster.check_slurm()
    stage = Stage(cluster)
    stage.share("slurmctld/0", "compute/0")
    return stage
