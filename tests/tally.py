"""A client that submits each second, and what has become of its jobs."""
import contextlib
import json
import time
import typing

import jubilant

from cluster import SAVED_AFTER, eventually

# Where the client and the jobs leave what they saw, on the machines of the nodes.
PLACE = "/var/tmp/ha"
CLIENT = "ha-client"
# Jobs that were accepted so many seconds before a crash may be lost, or run twice: Slurm has not written them down.
UNSAVED = SAVED_AFTER + 2

# Each submission is a process of its own, so that one that is held does not hold the next. A job leaves a line when it
# begins to run, so that one that was run twice, or ran although it was refused, shows.
CLIENT_PROGRAM = """
import itertools, json, os, subprocess, threading, time

WORDS = "timeout --signal=KILL 90 sbatch --parsable --mem=20 --time=1 --output=/dev/null --chdir=/tmp".split()
# A node that has just joined has no such directory yet.
RUN = "mkdir -p {place}; echo $SLURM_JOB_ID $SLURM_JOB_NAME $(date +%s.%N) >>{place}/ran-{story}"
log = open("{place}/submits-{story}", "a", buffering=1)

def submit(number):
    name, begun = f"{story}-{{number}}", time.time()
    done = subprocess.run([*WORDS, f"--job-name={{name}}", "--wrap", RUN], capture_output=True, text=True)
    line = dict(name=name, begun=begun, ended=time.time(), code=done.returncode, job=done.stdout.strip(),
                error=done.stderr.strip()[-200:])
    log.write(json.dumps(line) + "\\n")

start = time.time()
for number in itertools.count():
    if os.path.exists("{place}/stop-{story}"):
        break
    threading.Thread(target=submit, args=[number]).start()
    time.sleep(max(0, start + number + 1 - time.time()))
"""


class Submission(typing.NamedTuple):
    name: str
    begun: float
    ended: float
    code: int
    job: str
    error: str


class Tally:
    """What a client that submits each second has been told, beside what has become of its jobs."""

    def __init__(self, site):
        self.site = site
        self.story = f"s{time.time_ns() // 10**6 % 10**9}"
        self.submissions = []
        self.runs = []
        # Name → when it was begun, each time.
        self.began = {}
        self.known = {}
        self.held = set()
        self.phases = []
        self.crashes = []
        self.undone = None
        self.since = time.time()

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def phase(self, name):
        """What is measured from now on counts for this part of the story."""
        self.phases.append((name, time.time()))

    def crash(self, name):
        """The same, and now something dies that may not have written down what it accepted last."""
        self.phase(name)
        self.died()

    def died(self):
        """The same without a new phase: what follows from a fault some seconds later."""
        self.crashes.append(time.time())

    def assert_kept(self):
        """Nothing is missing that Slurm can keep: it writes jobs down some seconds after they changed."""
        harmed = self.harmed().items()
        missing = {kind: [name for name in names if not self.in_doubt(name)] for kind, names in harmed}
        assert not any(missing.values()), f"{missing} of {self.summary()}"

    def in_doubt(self, name):
        """Says whether Slurm may have forgotten a job, or that it began or ended, in a crash."""
        changes = [one.ended for one in self.submissions if one.name == name] + self.began.get(name, [])
        return any(-UNSAVED <= change - crash <= UNSAVED / 2 for change in changes for crash in self.crashes)

    def start(self):
        worker, site = self.site.worker(), self.site
        program = CLIENT_PROGRAM.format(place=PLACE, story=self.story)
        site.prepare_nodes()
        site.cluster.root(worker, "sh", "-c", f"cat >{PLACE}/client.py", stdin=program)
        words = ["systemd-run", f"--unit={CLIENT}", "--collect", "--uid=ubuntu", "python3", f"{PLACE}/client.py"]
        site.cluster.root(worker, *words)
        read = lambda: [one for one in self.read_submissions() if one.code == 0]
        eventually(read, lambda seen: len(seen) >= 3, "accepted submissions", 60)

    def stop(self):
        with contextlib.suppress(jubilant.CLIError):
            # Whoever still waits for an answer is heard out.
            self.site.cluster.root(self.site.worker(), "systemctl", "kill", "--signal=TERM", CLIENT)

    def await_accepted(self, since, seconds=90):
        """Waits until a submission that was begun after a time was accepted."""
        read = lambda: [one for one in self.read_submissions() if one.code == 0 and one.begun > since]
        eventually(read, bool, "submissions that are accepted", seconds)

    def read_submissions(self):
        text = self.site.look(self.site.worker(), f"cat {PLACE}/submits-{self.story} 2>/dev/null || true", 20)
        return [Submission(**json.loads(line)) for line in text.splitlines()]

    def finish(self, seconds=180):
        """Waits until what was accepted has run or is unknown, and counts."""
        # It ends when all that wait for an answer have one.
        self.site.cluster.root(self.site.worker(), "sh", "-c", f"touch {PLACE}/stop-{self.story}")
        eventually(lambda: self.alive(), lambda seen: not seen, "the client ends", 120)
        self.submissions = sorted(self.read_submissions(), key=lambda one: one.ended)
        self.crashes += self.site.stops_amid_scheduling(self.since)
        eventually(self.unfinished, lambda seen: not seen, "jobs of the client that have not ended", seconds)
        self.runs = self.read_runs()

    def alive(self):
        return self.site.look(self.site.worker(), f"systemctl is-active {CLIENT} || true").strip() == "active"

    def unfinished(self):
        """Jobs of this story that the controller still has something to do for."""
        shown = self.site.slurm("squeue --noheader --states=all --Format=JobID:20,Name:40,State:20")
        lines = [line.split() for line in shown.splitlines()]
        ours = [(job, name, state) for job, name, state in lines if name.startswith(f"{self.story}-")]
        self.known = {name: state for _, name, state in ours}
        open = {job: state for job, _, state in ours if state in ("PENDING", "RUNNING", "COMPLETING")}
        self.operate(open)
        return open

    def operate(self, open):
        """What an operator does after a crash: Slurm may have saved a job as waiting that has begun since, and begins
        it anew. slurmd refuses that: the node is drained, and the job is held."""
        shown = self.site.slurm("sinfo --noheader --Node --states=drain --format='%N %E'")
        for line in shown.splitlines():
            if line.endswith(" Duplicate jobid"):
                self.site.slurm(f"scontrol update nodename={line.split()[0]} state=resume")
        shown = self.site.slurm("squeue --noheader --states=pending --Format=JobID:20,Reason:60")
        held = {job for job, *reason in (line.split() for line in shown.splitlines()) if "held" in reason}
        self.held |= held & set(open)
        self.site.cancel(*sorted(held & set(open)))

    def read_runs(self):
        """The name of a job of this story, for each time that it was run. When that was is kept beside it."""
        script = f"cat {PLACE}/ran-{self.story} 2>/dev/null || true"
        texts = [self.site.look(machine, script, 20) for machine in self.site.nodes().values()]
        lines = [line.split() for text in texts for line in text.splitlines()]
        for _, name, when in lines:
            self.began.setdefault(name, []).append(float(when))
        return [name for _, name, _ in lines]

    # What came of it

    # By names, which are the client's: after a crash Slurm may give the id of a job that it has forgotten to another.

    @property
    def accepted(self):
        return {one.name: one.job for one in self.submissions if one.code == 0}

    @property
    def refused(self):
        return {one.name for one in self.submissions if one.code != 0}

    @property
    def gap(self):
        """The longest time, in seconds, in which no submission was accepted."""
        return max((later - earlier for earlier, later in self.pauses()), default=float("inf"))

    def pauses(self):
        ends = [one.ended for one in self.submissions if one.code == 0]
        return list(zip(ends, ends[1:]))

    @property
    def gaps(self):
        """The same for each phase: of the pauses that ended in it, the longest."""
        ends = [begun for _, begun in self.phases[1:]] + [float("inf")]
        within = lambda begun, end: [later - earlier for earlier, later in self.pauses() if begun < later <= end]
        return {
            name: round(max(within(begun, end), default=0.0), 1) for (name, begun), end in zip(self.phases, ends)
        }

    @property
    def lost(self):
        """Accepted, and neither run nor known."""
        return sorted(set(self.accepted) - set(self.runs) - set(self.known))

    @property
    def doubled(self):
        """Run more than once."""
        return sorted({name for name in self.runs if self.runs.count(name) > 1})

    @property
    def forgotten(self):
        """Accepted and run, and the controller knows nothing of it."""
        return sorted(set(self.runs) & set(self.accepted) - set(self.known))

    @property
    def reused(self):
        """Ids that were given to two jobs."""
        jobs = list(self.accepted.values())
        return sorted({job for job in jobs if jobs.count(job) > 1})

    @property
    def ran_though_refused(self):
        """The client was told of an error, and the job ran: who tries again has it twice."""
        return sorted(self.refused & set(self.runs))

    def harmed(self):
        return {"lost": self.lost, "doubled": self.doubled, "forgotten": self.forgotten}

    def summary(self):
        unsaved = {name for names in self.harmed().values() for name in names if self.in_doubt(name)}
        return {
            "gaps": self.gaps,
            "submitted": len(self.submissions),
            "refused": len(self.refused),
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "held": len(self.held),
            "forgotten": len(self.forgotten),
            # Of all these, what Slurm had not written down when it crashed.
            "unsaved": len(unsaved),
            "reused": len(self.reused),
            "ran_though_refused": len(self.ran_though_refused),
            "undone": len(self.undone or []),
        }
