"""Several controllers on a store, as tests talk about them: who serves, in which order, and what goes wrong with them.

A `Site` is a set of controllers with their store and their nodes, whoever has set them up: `Charmed` here is our
charms, `bare.Bare` is Slurm by hand. What may happen to them, and the client that counts what it costs, are the same
for both, so that they can be held against each other.

No look of a test touches a path of the store without a deadline: a store that is away holds whoever asks.
"""
import contextlib
import json
import re
import shlex
import subprocess
import time
import typing

import jubilant

import packing
from cluster import LITTLE, SAVED_AFTER, Cluster, eventually

CHECKPOINT = "/var/lib/slurm/checkpoint"
STATE = f"{CHECKPOINT}/state"
CONFIGURATION = f"{CHECKPOINT}/etc-slurm"
MARKER = f"{STATE}/.cluster"
FENCE = "/run/slurmctld-charm/fence.json"
FENCE_SERVICE = "slurmctld-fence.service"
# In seconds. The default of 120 would make every story last for minutes.
TIMEOUT = 10
# Slurm itself needs so long from the death of the primary until the backup serves.
TAKES_OVER = 3 * TIMEOUT
# A primary that comes back asks the backup for control, and gets it after half a minute.
COMES_BACK = 60
# Jobs are kept in mind until they are counted.
PARAMETERS = f"SlurmctldTimeout={TIMEOUT}\nMinJobAge=86400"
# Where the client and the jobs leave what they saw, on the machines of the nodes.
PLACE = "/var/tmp/ha"
CLIENT = "ha-client"
SLOW = "ha-slow"
# How long a job may not be heard of, in seconds: machines boot beside it, on two processors.
LONGEST_SILENCE = 10

# Jobs that were accepted so many seconds before a crash may be lost, or run twice: Slurm has not written them down.
UNSAVED = SAVED_AFTER + 2

UP = r"^active: (primary|backup\d*) - UP"


class Silent(Exception):
    """A machine, or the store on it, did not answer."""


class Site:
    """Controllers, nodes and a store. Machines are named by their ids; controllers by their hosts."""

    # Where the state is.
    state = STATE

    def __init__(self, cluster):
        self.cluster = cluster
        self.client = None

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
        """The same on whichever controller answers."""
        problems = []
        for machine in self.controllers().values():
            try:
                return self.look(machine, script)
            except Silent as error:
                problems.append(str(error))
        raise Silent("; ".join(problems))

    def order(self):
        """Hosts in slurm.conf, first the primary."""
        text = self.anywhere(f"cat /etc/slurm/slurm.conf")
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

    def worker(self):
        """The machine of the node that clients work on."""
        return list(self.nodes().values())[-1]

    def slurm(self, script, seconds=30):
        """Runs a client of Slurm as root on a node."""
        return self.look(self.worker(), script, seconds)

    def daemon(self, host):
        """State of a slurmctld for systemd: `active`, `failed` …"""
        return self.look(self.controllers()[host], "systemctl is-active slurmctld || true").strip()

    def mounted(self, host):
        """Types of what is mounted where the store should be, lowest first. Touches nothing there."""
        lines = self.look(self.controllers()[host], "cat /proc/self/mountinfo").splitlines()
        return [line.split(" - ")[1].split()[0] for line in lines if line.split()[4] == CHECKPOINT]

    def journal(self, host):
        return self.look(self.controllers()[host], "journalctl --quiet --no-pager --unit=slurmctld --output=cat", 20)

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

    def clear_jobs(self):
        """No job and no drained node of a story that failed stays for the next one."""
        with contextlib.suppress(Silent):
            self.slurm("scancel --user=ubuntu; scontrol update nodename=ALL state=resume || true", 60)

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

    @contextlib.contextmanager
    def submitting(self):
        """A client on a node submits a short job each second. What came of it is in the `Tally` when the block ends."""
        with Tally(self) as tally:
            yield tally
            tally.finish()


# Each submission is a process of its own, so that one that is held does not hold the next. A job leaves a line when it
# begins to run, so that one that was run twice, or ran although it was refused, shows.
CLIENT_PROGRAM = """
import itertools, json, os, subprocess, threading, time

WORDS = "timeout --signal=KILL 90 sbatch --parsable --mem=20 --time=1 --output=/dev/null --chdir=/tmp".split()
RUN = "echo $SLURM_JOB_ID $SLURM_JOB_NAME $(date +%s.%N) >>{place}/ran-{story}"
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
        missing = {"lost": self.lost, "doubled": self.doubled, "forgotten": self.forgotten}
        missing = {kind: [name for name in names if not self.in_doubt(name)] for kind, names in missing.items()}
        assert not any(missing.values()), f"{missing} of {self.summary()}"

    def in_doubt(self, name):
        """Says whether Slurm may have forgotten a job, or that it began or ended, in a crash."""
        changes = [one.ended for one in self.submissions if one.name == name] + self.began.get(name, [])
        return any(-UNSAVED <= change - crash <= UNSAVED / 2 for change in changes for crash in self.crashes)

    def start(self):
        worker, site = self.site.worker(), self.site
        program = CLIENT_PROGRAM.format(place=PLACE, story=self.story)
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

    def summary(self):
        return {
            "gaps": self.gaps,
            "submitted": len(self.submissions),
            "refused": len(self.refused),
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "held": len(self.held),
            "forgotten": len(self.forgotten),
            "reused": len(self.reused),
            "ran_though_refused": len(self.ran_though_refused),
            "undone": len(self.undone or []),
        }


class Charmed(Site):
    """Our charms: `slurmctld` on a store, `filesystem-client` beside each controller, `compute`."""

    def controllers(self):
        status = self.cluster.juju.status()
        units = status.get_units("slurmctld")
        machines = [units[name].machine for name in sorted(units, key=number_of)]
        return {status.machines[machine].hostname: machine for machine in machines if machine in status.machines}

    def nodes(self):
        units = self.cluster.juju.status().get_units("compute")
        return {name.replace("/", "-"): units[name].machine for name in sorted(units, key=number_of)}

    def store(self):
        return self.cluster.machine_of("store/0")

    def unit_of(self, host):
        machine = self.controllers()[host]
        units = self.cluster.juju.status().get_units("slurmctld")
        return next(name for name, unit in units.items() if unit.machine == machine)

    def host_of(self, unit):
        return self.cluster.machines()[self.cluster.machine_of(unit)]

    # Deploying

    def deploy_store(self, directory):
        """A machine that serves MooseFS, and the subordinate that mounts it."""
        self.cluster.juju.deploy(packing.pack_test_charm(directory, "moosefs"), "store")
        self.deploy_client(directory)
        self.cluster.juju.integrate("filesystem-client:filesystem", "store:filesystem")

    def deploy_client(self, charms, **options):
        # Tests do not wait a minute for autofs to look again.
        config = {"map-options": "--timeout=0 --negative-timeout=1", **options}
        self.cluster.juju.deploy(packing.pack_test_charm(charms, "filesystem-client"), config=config)

    def deploy(self, directory, controllers=2, nodes=2):
        self.deploy_store(directory)
        config = {"use-network-state": True, "slurm-conf-parameters": PARAMETERS}
        self.cluster.deploy_charm("slurmctld", "slurmctld", controllers, config=config)
        self.cluster.juju.integrate("filesystem-client:mount", "slurmctld:mount")
        self.cluster.deploy_compute(units=nodes)
        self.cluster.juju.integrate("slurmctld", "compute")
        self.cluster.settle(store=1, slurmctld=controllers, compute=nodes)
        self.await_agreement()
        self.prepare_nodes()

    # What they have to agree on

    def published(self):
        """The lists of controllers in the bags that compute units read."""
        lists = []
        for unit, relations in self.cluster.databags().items():
            for relation in relations:
                told = (relation["application-data"] or {}).get("controllers")
                if unit.startswith("compute/") and told:
                    lists.append([address.split(":")[0] for address in json.loads(told)])
        return lists

    def fetched(self):
        """The lists in the configuration that nodes have fetched."""
        script = "sed --quiet 's/^SlurmctldHost=\\([^ (]*\\).*/\\1/p' /run/slurm/conf/slurm.conf"
        return [self.look(machine, script).split() for machine in self.nodes().values()]

    def statuses(self):
        """Host → status of its unit."""
        units = self.cluster.juju.status().get_units("slurmctld")
        names = self.cluster.machines()
        told = lambda unit: f"{unit.workload_status.current}: {unit.workload_status.message}"
        return {names[unit.machine]: told(unit) for unit in units.values()}

    def expected_statuses(self, order, serving):
        """What units say when all is well."""
        rank = {host: "primary" if index == 0 else "backup" if len(order) == 2 else f"backup{index}"
                for index, host in enumerate(order)}
        if serving == order[0]:
            return {host: f"active: {name} - UP" for host, name in rank.items()}
        words = {host: "serves" if host == serving else f"{serving} serves" for host in order}
        return {host: f"active: {name} - UP; {words[host]}" for host, name in rank.items()}

    def mismatches(self):
        """What controllers say of others that run with another list: each pings the others every few seconds. One that
        stands by with a list of before shuts itself down when it takes over."""
        script = "journalctl --quiet --unit=slurmctld --output=cat --since=-8s | grep 'index mismatch' || true"
        lines = [line for machine in self.controllers().values() for line in self.look(machine, script).splitlines()]
        return sorted(set(lines))

    def agreement(self):
        """All that has to say the same, as a list of what does not."""
        try:
            order, serving = self.order(), self.serving()
            hosts, ping = set(self.controllers()), self.ping()
            running, fetched = self.running_order(), self.fetched()
        except Silent as error:
            return [str(error)]
        found = []
        if serving is None:
            return ["nobody serves"]
        if set(order) != hosts or len(order) != len(hosts):
            found.append(f"slurm.conf has {order}, the units are on {sorted(hosts)}")
        if running != order:
            found.append(f"slurmctld runs with {running}, slurm.conf has {order}")
        if list(ping) != order or not all(ping.values()):
            found.append(f"scontrol ping says {ping}, slurm.conf has {order}")
        found += [f"a node has {one}, slurm.conf {order}" for one in fetched if one != order]
        # The one that serves may come first there: it helps a node to start.
        found += [f"a bag has {one}, slurm.conf {order}" for one in self.published() if sorted(one) != sorted(order)]
        found += self.mismatches()
        if found:
            return found
        statuses, expected = self.statuses(), self.expected_statuses(order, serving)
        stale = [host for host in order if statuses.get(host) != expected[host]]
        # A status is as old as the last hook of its unit. Juju has each run one every few minutes.
        for host in stale:
            self.refreshed(host)
        return [f"status of {host} was {statuses.get(host)!r}, expected {expected[host]!r}" for host in stale]

    def await_agreement(self, seconds=120):
        """Waits until order, bags, daemons, nodes and statuses say the same; returns the order."""
        eventually(self.agreement, lambda found: not found, "what does not agree", seconds)
        return self.order()

    def settle(self):
        self.await_agreement(COMES_BACK + 120)

    def recover(self, host):
        """Nobody does anything: they come back by themselves."""
        self.await_agreement(COMES_BACK + 120)

    def await_primary(self):
        """A primary that has come back takes control, half a minute later."""
        self.await_serving(self.order()[0], COMES_BACK)

    # Members

    def units(self, application):
        status = self.cluster.juju.status()
        return set(status.get_units(application)) if application in status.apps else set()

    def numbers(self):
        return sorted(map(number_of, self.units("slurmctld")))

    def scale(self, count):
        """Waits for so many controllers of one mind, of which the primary serves, and makes or removes what differs."""
        found = len(self.units("slurmctld"))
        if found < count:
            self.cluster.add_unit("slurmctld", count - found)
            self.cluster.settle(slurmctld=count)
        for host in self.order()[count:] if found > count else []:
            self.remove(host)
        self.await_agreement(COMES_BACK + 180)
        self.await_primary()
        return self

    def remove(self, host):
        """Removes the unit of a controller and waits until it is gone."""
        unit = self.unit_of(host)
        self.cluster.juju.remove_unit(unit)
        eventually(lambda: self.units("slurmctld"), lambda seen: unit not in seen, f"units without {unit}", 180)

    def fire(self, unit):
        """Lets a unit look at everything, as Juju would sooner or later."""
        self.cluster.fire(unit)

    def refresh(self):
        for unit in sorted(self.units("slurmctld")):
            with contextlib.suppress(jubilant.CLIError, jubilant.TaskError, TimeoutError):
                self.fire(unit)

    def refreshed(self, host):
        """Status of a controller that has just looked at everything."""
        unit = self.unit_of(host)
        with contextlib.suppress(jubilant.CLIError, jubilant.TaskError, TimeoutError):
            self.fire(unit)
        return self.cluster.message(unit)

    # Daemons

    def daemon_of(self, unit):
        machine = self.cluster.machine_of(unit)
        return self.look(machine, "systemctl is-active slurmctld || true").strip()

    def identity(self, host):
        """Changes when slurmctld is started anew; a reconfigure makes a new process of the same start."""
        properties = "NRestarts,ActiveEnterTimestampMonotonic"
        return self.look(self.controllers()[host], f"systemctl show --property={properties} slurmctld")

    def saves_on_store(self, host):
        return "fuse" in self.mounted(host)

    def sizes(self):
        """Name of a file of Slurm's state → its size."""
        lines = self.anywhere(f"find {STATE} -maxdepth 1 -type f -printf '%f %s\\n'").splitlines()
        return {name: int(size) for name, size in map(str.split, lines)}

    # Drills

    def takeover(self, host):
        """Has a standby take over with our action."""
        self.cluster.act(self.unit_of(host), "takeover", controller=host)
        self.await_serving(host)

    def drill(self):
        """A takeover by the last standby works, and all come back."""
        order = self.await_agreement()
        if len(order) > 1:
            self.takeover(order[-1])
            # Slurm has ended the one that served. Its charm starts it again at its next hook.
            self.refresh()
        self.await_agreement(seconds=COMES_BACK + 120)
        self.await_primary()

    def fence(self, host):
        """What the fence of a controller says of itself."""
        return json.loads(self.look(self.controllers()[host], f"cat {FENCE}"))

    def fence_state(self, host):
        try:
            return self.fence(host)["state"]
        except Silent as error:
            return str(error)

    def fences(self):
        return {host: self.fence_state(host) for host in self.controllers()}


class Shared(Charmed):
    """Our charms on a directory that juju-local shares: a store that needs no network."""

    SHARE = "/srv/store"

    def store(self):
        return None

    def deploy(self, directory, controllers=2, nodes=2):
        self.deploy_client(directory, directory=self.SHARE)
        config = {"use-network-state": True, "slurm-conf-parameters": PARAMETERS}
        self.cluster.deploy_charm("slurmctld", "slurmctld", controllers, config=config)
        self.cluster.deploy_compute(units=nodes)
        self.cluster.juju.integrate("slurmctld", "compute")
        for unit in eventually(lambda: self.units("slurmctld"), lambda seen: len(seen) == controllers, "units", 60):
            self.cluster.await_message(unit, "^blocked: ", 180)
            self.cluster.local("share", "attach", "store", self.cluster.machine_of(unit), self.SHARE)
        self.cluster.juju.integrate("filesystem-client:mount", "slurmctld:mount")
        self.cluster.settle(slurmctld=controllers, compute=nodes)
        self.await_agreement()
        self.prepare_nodes()


class Wide(Cluster):
    """A cluster with several controllers: clients of Slurm are asked on a node, which finds whoever serves."""

    controller = "compute/0"


def number_of(unit):
    return int(unit.split("/")[1])
