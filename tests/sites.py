"""Several controllers on a store, as tests talk about them: who serves, in which order, and what their jobs do.

A `Site` is a set of controllers with their store and their nodes, whoever has set them up: `ha.Charmed` is our charms,
`bare.Bare` is Slurm by hand. What may happen to them (`faults`), and the client that counts what it costs (`tally`),
are the same for both, so that they can be held against each other.

No look of a test touches a path of the store without a deadline: a store that is away holds whoever asks.
"""
import contextlib
import json
import re
import shlex
import subprocess
import time

import jubilant

from cluster import LITTLE, SAVED_AFTER, eventually
from faults import CHECKPOINT, Faults, Silent
from tally import PLACE, Tally

STATE = f"{CHECKPOINT}/state"
CONFIGURATION = f"{CHECKPOINT}/etc-slurm"
# In seconds. The default of 120 would make every story last for minutes.
TIMEOUT = 10
# Slurm itself needs so long from the death of the primary until the backup serves.
TAKES_OVER = 3 * TIMEOUT
# A primary that comes back asks the backup for control. Without charms it gets that after half a minute.
COMES_BACK = 60
# How long a job may not be heard of, in seconds: machines boot beside it, on two processors.
LONGEST_SILENCE = 10


class Site(Faults):
    """Controllers, nodes and a store. Machines are named by their ids; controllers by their hosts."""

    # Where the state is.
    state = STATE

    def __init__(self, cluster):
        self.cluster = cluster
        self.client = None
        # Machines that did not answer last time. Each look at one of them takes as long as a takeover.
        self.quiet = set()

    # To be said by those who set it up

    def controllers(self):
        """Host → machine of every controller, in the order in which they were made."""
        raise NotImplementedError

    def nodes(self):
        """Name of a node → its machine. Jobs of tests beat on the first and the client works on the last."""
        raise NotImplementedError

    def store(self):
        """The machine that serves the store."""
        raise NotImplementedError

    # Looking

    def look(self, machine, script, seconds=5):
        """Runs a line of shell as root, which is left behind at its deadline."""
        words = ["timeout", "--signal=KILL", str(seconds), "sh", "-c", script]
        try:
            return self.cluster.root(machine, *words, seconds=seconds + 10)
        except (jubilant.CLIError, subprocess.TimeoutExpired) as error:
            raise Silent(f"{machine}: {script}: {getattr(error, 'stderr', error)}") from error

    def anywhere(self, script):
        """The same on whichever controller answers, first on those that did last time."""
        problems = []
        for machine in sorted(self.controllers().values(), key=lambda machine: machine in self.quiet):
            try:
                found = self.look(machine, script)
                self.quiet.discard(machine)
                return found
            except Silent as error:
                self.quiet.add(machine)
                problems.append(str(error))
        raise Silent("; ".join(problems))

    def order(self):
        """Hosts in slurm.conf, first the primary."""
        text = self.anywhere("cat /etc/slurm/slurm.conf")
        return re.findall(r"^SlurmctldHost=([^\s(]+)", text, re.MULTILINE)

    def heartbeat(self):
        """Age of the last sign of life of whoever serves, in seconds, and its host. It may be missing for a moment."""
        script = f"date +%s; od --address-radix=n --format=u1 --output-duplicates {STATE}/heartbeat"
        words = [int(word) for word in self.anywhere(script).split()]
        if len(words) != 17:
            return None, None
        number = lambda octets: int.from_bytes(bytes(octets), "big")
        order, rank = self.order(), number(words[9:])
        return words[0] - number(words[1:9]), order[rank] if rank < len(order) else None

    def serving(self):
        """The host that serves now, by the heartbeat; none while it is older than Slurm would bear.

        A controller without any other writes none.
        """
        try:
            if len(order := self.order()) == 1:
                return order[0] if self.answers() else None
            age, host = self.heartbeat()
        except Silent:
            return None
        return host if age is not None and age <= TIMEOUT else None

    def await_serving(self, host, seconds=TAKES_OVER, others=False, answers=True):
        """Waits until a host serves, or any other one, and answers (clients that find a frozen one get no answer)."""
        fits = lambda seen: seen is not None and (seen != host if others else seen == host)
        who = f"anybody but {host}" if others else host
        found = eventually(self.serving, fits, f"who serves, waiting for {who}", seconds)
        if answers:
            eventually(self.answers, bool, "a controller answers", seconds)
        return found

    def has_served(self, host, since):
        """Whether a host has served since then, for however short a time, by its journal."""
        script = f"journalctl --quiet --unit=slurmctld --output=cat --since=@{int(since)}"
        return "Running as primary controller" in self.look(self.controllers()[host], script, 20)

    def await_served(self, host, since, seconds=TAKES_OVER):
        """Waits until any other host has served since then."""
        served = lambda: any(self.has_served(name, since) for name in self.controllers() if name != host)
        eventually(served, bool, f"anybody but {host} has served", seconds)

    def pause_until(self, moment):
        """A fault lasts for a while."""
        time.sleep(max(0, moment - time.time()))

    def await_boot(self, host):
        """Waits until the machine of a controller takes commands and has booted."""
        booted = lambda: self.state_of_boot(self.controllers()[host]) in ("running", "degraded")
        eventually(booted, bool, f"{host} has booted", 60)

    def state_of_boot(self, machine):
        try:
            return self.look(machine, "systemctl is-system-running || true").strip()
        except Silent:
            return None

    def answers(self):
        """Says whether a client on a node gets an answer."""
        try:
            return bool(self.look(self.worker(), "squeue --noheader --states=all >/dev/null && echo yes", 8))
        except Silent:
            return False

    def ping(self):
        """Host → whether it responds, in the order of rank, as a node sees it."""
        shown = json.loads(self.look(self.worker(), "scontrol ping --json=v0.0.42", 30))
        return {one["hostname"]: one["responding"] for one in shown["pings"]}

    def running_order(self):
        """The list that the serving slurmctld runs with."""
        text = self.look(self.worker(), "scontrol show config", 20)
        return re.findall(r"^SlurmctldHost\[\d+\]\s*= ([^\s(]+)", text, re.MULTILINE)

    def stops_amid_scheduling(self, since):
        """When a slurmctld was stopped in order while its scheduler was at work. It does not wait for that, and a job
        that was just given its nodes is never started there: Slurm notices when the nodes register next."""
        words = f"journalctl --quiet --unit=slurmctld --output=short-unix --since=@{since:.0f}"
        lines = []
        for machine in self.controllers().values():
            with contextlib.suppress(Silent):
                lines += self.look(machine, f"{words} --grep='can not save state' || true", 20).splitlines()
        return [float(line.split()[0]) for line in lines]

    def worker(self):
        """The machine of the node that clients work on."""
        return list(self.nodes().values())[-1]

    def slurm(self, script, seconds=30):
        """Runs a client of Slurm as root on a node."""
        return self.look(self.worker(), script, seconds)

    def alone(self, host, script, seconds=30):
        """Runs a client of Slurm as root on a controller, with a configuration that names no other one."""
        place = "/run/ha-alone"
        lines = [
            f"mkdir -p {place}",
            f"cp --recursive --dereference /etc/slurm/. {place}/",
            f"sed --in-place '/^SlurmctldHost=/{{/^SlurmctldHost={host}\\b/!d}}' {place}/slurm.conf",
            f"export SLURM_CONF={place}/slurm.conf",
            script,
        ]
        return self.look(self.controllers()[host], " && ".join(lines), seconds)

    def daemon(self, host):
        """State of a slurmctld for systemd: `active`, `failed` …"""
        return self.look(self.controllers()[host], "systemctl is-active slurmctld || true").strip()

    def mounted(self, host):
        """Types of what is mounted where the store should be, lowest first. Touches nothing there."""
        lines = self.look(self.controllers()[host], "cat /proc/self/mountinfo").splitlines()
        return [line.split(" - ")[1].split()[0] for line in lines if line.split()[4] == CHECKPOINT]

    def journal(self, host):
        return self.look(self.controllers()[host], "journalctl --quiet --no-pager --unit=slurmctld --output=cat", 20)

    # Jobs

    def prepare_nodes(self):
        for machine in self.nodes().values():
            self.cluster.shell(machine, f"mkdir -p {PLACE} && chmod 1777 {PLACE}")

    def submit(self, command, *options):
        """Submits a batch job as an ordinary user and returns its id."""
        words = ["sbatch", "--parsable", LITTLE, "--output=/dev/null", "--chdir=/tmp", *options, "--wrap", command]
        return self.cluster.on(self.worker(), *words, seconds=120).strip()

    def job(self, job):
        """What the controller knows of a job: key → value. Nothing: it does not know of it."""
        shown = self.slurm(f"scontrol --oneliner show job {job} 2>&1 || true")
        if not shown.startswith("JobId=") and "Invalid job id" not in shown:
            raise Silent(shown)
        return dict(re.findall(r"(\w+)=(\S*)", shown))

    def await_job(self, job, state, seconds=60):
        read = lambda: self.job(job).get("JobState")
        return eventually(read, lambda seen: seen == state, f"state of job {job}", seconds)

    def await_saved(self, file="job_state"):
        """Waits until slurmctld has written down what it knows of jobs now (or of nodes: `node_state`); before that a
        crash forgets them."""
        now = time.time()
        # The store counts whole seconds.
        written = lambda: float(self.anywhere(f"stat --format=%Y {self.state}/{file}")) > now
        eventually(lambda: time.time() > now + SAVED_AFTER or written(), bool, f"{file} is written", 30)

    def start_beating(self):
        """Starts a job on the first node that beats each second, and returns it when it is written down."""
        [node, *_] = self.nodes()
        beats = f"while :; do date +%s.%N >>{PLACE}/beats-$SLURM_JOB_ID; sleep 1; done"
        job = self.submit(beats, f"--nodelist={node}", "--time=240")
        self.await_job(job, "RUNNING")
        self.await_saved()
        return job

    def assert_beats(self, job):
        """The job has run all the time, was never begun anew, and is known."""
        seen = self.job(job)
        assert (seen.get("JobState"), seen.get("Restarts")) == ("RUNNING", "0"), seen
        [machine, *_] = self.nodes().values()
        read = lambda: [float(line) for line in self.look(machine, f"cat {PLACE}/beats-{job}").split()]
        last = read()[-1]
        # It goes on, too.
        beats = eventually(read, lambda seen: seen[-1] > last, f"beats of {job}", LONGEST_SILENCE)
        gaps = [later - earlier for earlier, later in zip(beats, beats[1:])]
        assert max(gaps) <= LONGEST_SILENCE, f"job {job} stood still for {max(gaps):.1f} s"

    def cancel(self, *jobs):
        if jobs:
            self.slurm(f"scancel {shlex.join(jobs)}")

    def clear_jobs(self):
        """No job and no drained node of a story that failed stays for the next one."""
        with contextlib.suppress(Silent):
            self.slurm("scancel --user=ubuntu; scontrol update nodename=ALL state=resume || true", 60)

    @contextlib.contextmanager
    def submitting(self):
        """A client on a node submits a short job each second. What came of it is in the `Tally` when the block ends."""
        with Tally(self) as tally:
            yield tally
            tally.finish()
