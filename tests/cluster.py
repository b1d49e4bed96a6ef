"""The deployed pair, as tests talk about it: units, nodes, jobs, events, files. Through the `juju` command only.

What juju-local alone can do (power, network, losses) is in `local`; whoever calls it is skipped on a real Juju. What a
real one needs that juju-local does not (machines of its own, a source of Slurm, time) comes from the environment: see
`conftest.py`.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time

import jubilant
import pytest

import host

DIST = pathlib.Path(__file__).parent.parent / "dist"
CONTROLLER = "slurmctld/0"
# The oldest JSON that every Slurm in question speaks.
JSON = "--json=v0.0.42"
# A job that does not say how much memory it needs gets all of it, and no other runs beside it.
LITTLE = "--mem=50"
# slurmctld saves jobs at least so often, in seconds, while they change.
SAVED_AFTER = 6
CONFIGURATION = ("/etc/slurm", "/etc/default", "/etc/systemd/system", "/etc/needrestart", "/etc/apt")
# Elsewhere machines come from a cloud and packages over a network, and every command takes a second or two.
PATIENCE = float(os.environ.get("CLUSTER_PATIENCE") or (1 if host.is_juju_local() else 5))


class Cluster:
    """A model with a controller and compute applications in it."""

    controller = CONTROLLER

    def __init__(self, juju):
        self.juju = juju

    # Deploying

    def deploy_controller(self, **options):
        self.deploy_charm("slurmctld", "slurmctld", 1, **options)

    def deploy_compute(self, application="compute", units=1, **options):
        self.deploy_charm("slurmd", application, units, **options)

    def deploy_charm(self, charm, application, units, to=None, config=None):
        source = os.environ.get("CLUSTER_SOURCE")
        config = ({"slurm-source": source} if source else {}) | (config or {})
        self.juju.deploy(
            charm_file(charm), application, num_units=units, to=to or self.place(units), config=config or None
        )

    def add_unit(self, application, units=1):
        self.juju.add_unit(application, num_units=units, to=self.place(units))

    def place(self, units):
        """Machines for so many units, or none where Juju makes them by itself."""
        return [self.add_machine() for _ in range(units)] if "CLUSTER_ADD_MACHINE" in os.environ else None

    def add_machine(self):
        """Adds a machine to the model and returns its id."""
        words = []
        if command := os.environ.get("CLUSTER_ADD_MACHINE"):
            words = subprocess.run(shlex.split(command), check=True, capture_output=True, text=True).stdout.split()
        known = set(self.juju.status().machines)
        self.juju.cli("add-machine", *words)
        [machine] = eventually(lambda: set(self.juju.status().machines) - known, bool, "the new machine", 60)
        return machine

    def deploy(self, units=2, **options):
        """The controller and one compute application, integrated at once; settled when it returns."""
        self.deploy_controller(**options)
        self.deploy_compute(units=units)
        self.juju.integrate("slurmctld", "compute")
        self.settle(slurmctld=1, compute=units)

    def settle(self, timeout=300, **counts):
        """Waits until the applications have so many units, all active and idle; a time-out shows the last status."""

        def ready(status):
            return (
                all(app in status.apps and len(status.get_units(app)) == count for app, count in counts.items())
                and jubilant.all_active(status, *counts)
                and jubilant.all_agents_idle(status, *counts)
            )

        return self.juju.wait(ready, delay=0.3, successes=2, timeout=timeout * PATIENCE)

    def check_slurm(self):
        """Fails if another Slurm was installed than the one that is asked for."""
        wanted = os.environ.get("CLUSTER_SLURM")
        found = self.juju.status().apps["slurmctld"].version
        assert not wanted or found.startswith(f"{wanted}."), f"Slurm {found} was installed, not {wanted}"

    def quiet(self, seconds=120):
        """Waits until no unit has anything to do, whatever its status is."""
        self.juju.wait(jubilant.all_agents_idle, delay=0.2, successes=3, timeout=seconds * PATIENCE)

    # Commands on machines

    def on(self, unit, *words, seconds=60, stdin=None):
        """Runs a program as an ordinary user where the unit (or machine) is. The unit's agent has no part in it."""
        command = ["juju", "ssh", "--model", self.juju.model, unit, shlex.join(words)]
        done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=seconds)
        if done.returncode != 0:
            raise jubilant.CLIError(done.returncode, command, done.stdout, done.stderr)
        return done.stdout

    def root(self, unit, *words, **options):
        return self.on(unit, "sudo", *words, **options)

    def shell(self, unit, script, **options):
        """Runs a few lines of shell as root. They travel on stdin, which needs no quoting."""
        return self.root(unit, "sh", "-es", stdin=script, **options)

    def scontrol(self, *words):
        """Runs scontrol on the controller as root, as an administrator would."""
        return self.root(self.controller, "scontrol", *words)

    def reconfigure(self):
        """What an administrator does after an edit, again if there is no answer: on a busy host slurmctld may take
        longer than scontrol waits."""
        ask = lambda: self.shell(self.controller, "scontrol reconfigure 2>&1 || true").strip()
        eventually(ask, equals(""), "a reconfigure", 60)

    # Units

    def unit(self, name):
        return self.juju.status().get_units(name.split("/")[0])[name]

    def machine_of(self, unit):
        return self.unit(unit).machine

    def machines(self):
        """Machine id → host name."""
        return {name: machine.hostname for name, machine in self.juju.status().machines.items()}

    def units(self):
        status = self.juju.status()
        return sorted(unit for app in status.apps for unit in status.get_units(app))

    def leader(self, application):
        units = self.juju.status().get_units(application)
        return next(name for name, unit in units.items() if unit.leader)

    def follower(self, application):
        units = self.juju.status().get_units(application)
        return next(name for name, unit in sorted(units.items()) if not unit.leader)

    def message(self, unit):
        """The workload status as one line: `active: idle, partition compute`."""
        status = self.unit(unit).workload_status
        return f"{status.current}: {status.message}"

    def await_message(self, unit, pattern, seconds=60):
        """Waits until the unit's status fits a regular expression, and returns it."""
        return eventually(lambda: self.message(unit), re.compile(pattern).search, f"status of {unit}", seconds)

    def act(self, unit, action, wait=120, **parameters):
        """Runs an action that has to succeed, and returns its results. An underscore in a name stands for a hyphen."""
        parameters = {name.replace("_", "-"): value for name, value in parameters.items()}
        return self.juju.run(unit, action, parameters, wait=wait).results

    def refuse(self, unit, action, wait=120, **parameters):
        """Runs an action that has to fail, and returns what it said."""
        # Juju itself refuses what the action's schema does not allow, and jubilant says in its own way what is no
        # action at all.
        with pytest.raises((jubilant.TaskError, jubilant.CLIError, ValueError)) as refused:
            self.act(unit, action, wait=wait, **parameters)
        error = refused.value
        if isinstance(error, jubilant.TaskError):
            return f"{error.task.message}\n{error.task.stderr}"
        return getattr(error, "stderr", str(error))

    def restore(self, application, option):
        """Sets an option to its default. `juju config --reset` would do, but Juju 4.0 tells no unit of it."""
        settings = json.loads(self.juju.cli("config", application, "--format", "json"))["settings"]
        self.juju.config(application, {option: settings[option].get("default", "")})

    def fire(self, unit, event="update-status"):
        """Lets the unit run a hook, as Juju would sooner or later."""
        self.juju.exec(f"JUJU_DISPATCH_PATH=hooks/{event} ./dispatch", unit=unit, wait=120)

    # Slurm

    def node(self, name):
        """The controller's record of a node. One that is just being registered anew is awaited."""
        read = lambda: json.loads(self.on(self.controller, "scontrol", "show", "node", name, JSON))["nodes"]
        return eventually(read, bool, f"record of {name}", 20)[0]

    def state(self, name):
        """State of a node as one word per flag: `IDLE`, or `IDLE+DRAIN`. That it is dynamic goes without saying."""
        return "+".join(flag for flag in self.node(name)["state"] if not flag.startswith("DYNAMIC"))

    def await_state(self, name, expected, seconds=60):
        """Waits for the state of a node; a tuple means any of them."""
        wanted = (expected,) if isinstance(expected, str) else expected
        return eventually(lambda: self.state(name), lambda seen: seen in wanted, f"state of {name}", seconds)

    def partition(self, name):
        """What the controller knows of a partition, as `scontrol` prints it: key → value."""
        return dict(
            re.findall(r"(\w+)=(\S*)", self.on(self.controller, "scontrol", "--oneliner", "show", "partition", name))
        )

    def partitions(self):
        return sorted(self.on(self.controller, "sinfo", "--noheader", "--format=%R").split())

    def slurm_conf(self):
        return self.root(self.controller, "cat", "/etc/slurm/slurm.conf")

    def setting(self, key):
        """A value of the running slurmctld."""
        text = self.on(self.controller, "scontrol", "show", "config")
        found = re.search(rf"^{re.escape(key)}\s*= (.*)$", text, re.MULTILINE | re.IGNORECASE)
        return found.group(1).strip() if found else None

    # Jobs

    def srun(self, *options, command=("hostname",), partition="compute"):
        """Runs a program as an ordinary user and returns what it printed."""
        # The time limit is ours: srun itself waits for ever when a node is missing.
        words = ["timeout", "120", "srun", f"--partition={partition}", LITTLE, *options, *command]
        return self.on(self.controller, *words, seconds=150)

    def hosts(self, nodes, partition="compute"):
        """Runs a job on that many nodes; returns their host names, sorted."""
        return sorted(self.srun(f"--nodes={nodes}", partition=partition).split())

    def submit(self, command, *options, partition="compute"):
        """Submits a batch job and returns its id."""
        words = ["sbatch", "--parsable", f"--partition={partition}", LITTLE, "--output=/dev/null", "--chdir=/tmp"]
        return self.on(self.controller, *words, *options, "--wrap", command).strip()

    def start_job(self, node, seconds=600):
        """Submits a job to a node and waits until it runs."""
        job = self.submit(f"sleep {seconds}", f"--nodelist={node}")
        self.await_job(job, "RUNNING")
        return job

    def await_saved(self, job, event="StartTime"):
        """Waits until slurmctld has written down that the job was started, or submitted (`SubmitTime`).

        It does so within some seconds; in a crash before that Slurm itself forgets it.
        """
        script = f"""
        state=$(sed -n 's/^StateSaveLocation=//Ip' /etc/slurm/slurm.conf)
        start=$(date --date="$(scontrol show job {job} | sed -n 's/.*\\b{event}=\\([^ ]*\\).*/\\1/p')" +%s)
        echo $(($(stat --format=%Y $state/job_state) - start)) $(($(date +%s) - start))
        """

        def saved():
            written, now = map(int, self.shell(self.controller, script).split())
            return written > 0 or now > SAVED_AFTER

        eventually(saved, bool, f"job {job} is saved", 30)

    def job(self, job):
        """What the controller knows of a job: key → value."""
        return dict(re.findall(r"(\w+)=(\S*)", self.on(self.controller, "scontrol", "--oneliner", "show", "job", job)))

    def await_job(self, job, expected, seconds=60):
        return eventually(
            lambda: self.job(job)["JobState"], lambda seen: seen == expected, f"state of job {job}", seconds
        )

    def assert_unharmed(self, job, state="RUNNING"):
        """The job is as it was: never restarted, and its processes are there as long as it runs."""
        seen = self.job(job)
        assert (seen["JobState"], seen["Restarts"]) == (state, "0"), seen
        if state == "RUNNING":
            unit = re.sub(r"-(\d+)$", r"/\1", seen["NodeList"])
            assert re.search(
                rf"^{job}\b", self.root(unit, "scontrol", "listjobs", seen["NodeList"]), re.MULTILINE
            ), f"job {job} has no steps"

    def cancel(self, job):
        self.on(self.controller, "scancel", job)
        eventually(lambda: self.job(job)["JobState"], lambda seen: seen == "CANCELLED", f"state of job {job}", 60)

    # What must not change

    def files(self, unit, *directories):
        """Path → content, inode, time and mode of every file below."""
        find = f"find {shlex.join(directories or CONFIGURATION)} -xdev"
        script = (
            f"{find} \\( -type f -o -type l \\) -printf '%p %i %T@ %m %u\\n' 2>/dev/null | sort\n"
            f"{find} -type f -exec sha256sum {{}} + 2>/dev/null | sort -k2 || true"
        )
        return self.shell(unit, script)

    def databags(self):
        """Everything that is in any databag, as seen from each unit."""
        shown = {unit: json.loads(self.juju.cli("show-unit", unit, "--format", "json"))[unit] for unit in self.units()}
        return {unit: sorted(map(bag, one.get("relation-info", [])), key=str) for unit, one in shown.items()}

    def daemon(self, unit):
        """Identity of the Slurm daemon of a unit: it changes when the daemon is restarted, reloaded or reconfigured."""
        service = "slurmctld" if unit.startswith("slurmctld/") else "slurmd"
        properties = "MainPID,NRestarts,ActiveState,ActiveEnterTimestampMonotonic,StateChangeTimestampMonotonic"
        return self.root(unit, "systemctl", "show", f"--property={properties}", service)

    def reconfigures(self):
        """How often this controller has been told to read its files again."""
        journal = self.root(self.controller, "journalctl", "--quiet", "--no-pager", "--unit=slurmctld", "--output=cat")
        return journal.count("Processing Reconfiguration Request") + journal.count("Reconfigure signal (SIGHUP)")

    def controller_state(self):
        """All that adding a node must leave alone."""
        return {
            "files": self.files(self.controller),
            "application bags": sorted(
                {str(b["application-data"]) for u in (self.controller,) for b in self.databags()[u]}
            ),
            "reconfigures": self.reconfigures(),
            "daemon": self.daemon(self.controller),
        }

    # juju-local only

    def local(self, *words):
        """Runs `juju-local` on this model. On a real Juju the test is skipped."""
        if not host.is_juju_local():
            pytest.skip("needs a fault that only juju-local can make")
        command = [str(pathlib.Path(shutil.which("juju")).parent / "juju-local"), *words, "-m", self.juju.model]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def reboot(self, unit):
        """Reboots the unit's machine and waits until its agent is back."""
        machine = self.machine_of(unit)
        before = self.on(machine, "cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat")
        self.local("machine", "reboot", machine)

        def rebooted():
            try:
                return self.on(machine, "cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat") != before
            except (jubilant.CLIError, subprocess.TimeoutExpired):
                return False

        eventually(rebooted, bool, f"machine {machine} has booted again", 60)
        self.quiet()

    def reboot_visibly(self, unit):
        """Reboots the unit's machine so that Slurm sees it, as it would on real iron.

        A container shows the boot time of its host, so slurmd is told to claim a fresh one (`-b`) until slurmctld has
        heard it.
        """
        # Slurm counts in seconds, by two clocks: only a boot well after the node's last answer is one, which no
        # container takes long enough for, and an answer within the second of the boot makes the next one look like
        # another boot.
        seconds = 2
        claim = "/etc/systemd/system/slurmd.service.d/99-boot-time.conf"
        lines = [
            "[Service]",
            f"ExecStartPre=/bin/sleep {seconds}",
            "ExecStart=",
            "ExecStart=/usr/sbin/slurmd --systemd -b $SLURMD_OPTIONS",
        ]
        self.shell(unit, f"printf '%s\\n' {shlex.join(lines)} >{claim}")
        before = int(time.time())

        def age():
            """Seconds since the boot that slurmctld knows of."""
            try:
                booted = self.node(unit.replace("/", "-"))["boot_time"]["number"]
            except jubilant.CLIError:
                return None
            return time.time() - booted if booted >= before else None

        try:
            self.reboot(unit)
            old = lambda seen: seen is not None and seen > seconds
            eventually(age, old, f"age of the boot of {unit} that slurmctld knows of", 120)
        finally:
            self.shell(unit, f"rm {claim} && systemctl daemon-reload")


def bag(relation):
    """A relation without what Juju itself changes in it: keys that differ between looks, such as addresses, do not."""
    return {
        key: relation.get(key) for key in ("endpoint", "relation-id", "application-data", "local-unit", "related-units")
    }


def charm_file(name):
    variable = f"{name.upper()}_CHARM"
    path = pathlib.Path(os.environ.get(variable) or DIST / f"{name}_amd64.charm").resolve()
    if not path.is_file():
        pytest.fail(f"{path} is missing: run `cargo xtask pack`, or name a charm file in {variable}", pytrace=False)
    return path


def slow(*values):
    """A case of a parametrized test that is left out of the default run."""
    return pytest.param(*values, marks=pytest.mark.slow)


def eventually(read, ready, what, seconds):
    """Reads until the value will do, and returns it; the failure shows the last one."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not ready(seen := read()):
        assert time.monotonic() < deadline, f"{what}: still {seen!r} after {seconds * PATIENCE:g} s"
        time.sleep(0.3)
    return seen


def equals(wanted):
    """Says whether a value is the wanted one. The method `__eq__` of a value does not: for another type it returns
    NotImplemented, which counts as true."""
    return lambda seen: seen == wanted


def for_a_while(read, holds, what, seconds):
    """Reads for so long and insists that the value stays good."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = read()
        assert holds(seen), f"{what}: {seen!r}"
        time.sleep(0.5)
