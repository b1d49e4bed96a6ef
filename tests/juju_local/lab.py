"""One model of juju-local under test: what its probes were called for, and what happens to its machines.

Faults are made with the `juju-local` command beside the `juju` in use; everything else goes through jubilant.
"""
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time
import typing

import jubilant

import host

STATE = host.state_directory()


# A machine for a unit, from `juju deploy` to the first hook.
PHASES = ["is-asked-for", "is-made", "boots", "runs-hooks"]


class Event(typing.NamedTuple):
    """A line of a probe's journal."""

    phase: str
    hook: str
    remote: str
    departing: str


class Lab:
    """A model and everything a test does to it."""

    def __init__(self, release="4.0", config=None):
        self.juju = jubilant.Juju()
        self.model = f"probe-{secrets.token_hex(3)}"
        # Regular update-status hooks would only be in the way.
        settings = {"juju-version": release, "update-status-hook-interval": "60m", **(config or {})}
        self.juju.add_model(self.model, config=settings)
        self.identifier = self.juju.show_model().model_uuid[-6:]

    # Machines

    def local(self, *words):
        """Runs `juju-local` on this model."""
        return juju_local(*words, "-m", self.model)

    def machine(self, verb, unit):
        self.local("machine", verb, self.machine_of(unit))

    def machine_of(self, unit):
        return self.unit(unit).machine

    def unit(self, name):
        return self.juju.status().get_units(name.split("/")[0])[name]

    def on(self, unit, script, stdin=None):
        """Runs a line of shell as root where the unit lives. The unit's agent has no part in it."""
        words = ["juju", "ssh", "--model", self.model, unit, "sudo", "sh", "-c", f"'{script}'"]
        # A frozen machine would never answer.
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise jubilant.CLIError(done.returncode, words, done.stdout, done.stderr)
        return done.stdout

    def repair(self):
        """Undoes every fault of every machine, so that one failed test does not fail those after it."""
        for machine in self.juju.status().machines:
            for verb in ("thaw", "heal", "poweron"):
                try:
                    self.local("machine", verb, machine)
                except AssertionError:
                    pass  # It had no such fault.

    # Probes

    def hold(self, unit, hook):
        """From now on the unit stays in that hook until it is released."""
        self.on(unit, f"mkdir -p {place(unit)}/hold && touch {place(unit)}/hold/{hook}")

    def release(self, unit, hook):
        self.on(unit, f"rm -f {place(unit)}/hold/{hook}")

    def leave_script(self, unit, hook, text):
        """What the probe is to run when that event comes."""
        self.on(unit, f"mkdir -p {place(unit)}/do && cat >{place(unit)}/do/{hook}", stdin=text)

    def journal(self, unit):
        """What the unit was called for, from its machine."""
        return [parse(line) for line in self.on(unit, f"cat {place(unit)}/journal").splitlines()]

    def logged(self, unit):
        """The same from the model's log, also when the unit and its machine are gone."""
        tag = "unit-" + unit.replace("/", "-")
        lines = self.juju.cli("debug-log", "--replay", "--no-tail", "--include", tag).splitlines()
        return [parse(line.split(" probe: ")[1]) for line in lines if " probe: " in line]

    def hooks(self, unit):
        """Names of the hooks the unit has run to their end, in order."""
        return [event.hook for event in self.journal(unit) if event.phase == "end"]

    def tool(self, unit, command):
        """What a hook tool prints, run with `juju exec`."""
        return self.juju.exec(command, unit=unit).stdout

    def poke(self, unit, script):
        """Runs hook tools in an action, whose writes count only if all of it succeeds."""
        self.leave_script(unit, "poke", script)
        return self.juju.run(unit, "poke")

    # Waiting

    def phase(self, unit):
        """How far the deployment of a unit has come: the last of `PHASES` that it has reached."""
        machine = self.machine_of(unit)
        if self.logged(unit):
            return "runs-hooks"
        if any(
            trace.endswith(f"/jl-{self.identifier}-{machine}") for trace in self.frame() if trace.startswith("cgroup ")
        ):
            return "boots"
        return "is-made" if (STATE / "models" / self.model / "machines" / machine).exists() else "is-asked-for"

    def await_phase(self, unit, phase):
        reached = lambda seen: PHASES.index(seen) >= PHASES.index(phase)
        eventually(lambda: self.phase(unit), reached, f"deployment of {unit}", 30)

    def settle(self, error=None, **counts):
        """Waits until the applications have so many units, all of them active and idle."""

        def ready(status):
            return (
                all(name in status.apps and len(units_of(status, name)) == count for name, count in counts.items())
                and jubilant.all_active(status, *counts)
                and jubilant.all_agents_idle(status, *counts)
            )

        return self.juju.wait(ready, error=error, delay=0.3, successes=2, timeout=90)

    def await_begin(self, unit, hook, count=1, seconds=30):
        """Waits until the unit has entered a hook that often."""
        begun = lambda: sum(event.phase == "begin" and event.hook == hook for event in self.logged(unit))
        eventually(begun, lambda seen: seen >= count, f"times {unit} entered {hook}", seconds)

    def await_heard(self, unit, event, seconds=30):
        """Waits until a line is in the unit's journal."""
        eventually(lambda: self.logged(unit), lambda seen: event in seen, f"journal of {unit} with {event}", seconds)

    def await_gone(self, unit, seconds=60):
        names = lambda: sorted(units_of(self.juju.status(), unit.split("/")[0]))
        eventually(names, lambda seen: unit not in seen, f"units without {unit}", seconds)

    # The daemon

    def daemons(self):
        """Process numbers of this model's daemons; there should be one, or none."""
        return [
            int(path.parent.name)
            for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
            if words(path)[-2:] == ["daemon", self.model]
        ]

    def daemon(self):
        # A program that the daemon has forked and that has not begun yet looks like another one.
        [pid] = eventually(self.daemons, lambda seen: len(seen) == 1, f"daemons of {self.model}", 10)
        return pid

    def kill_daemon(self):
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        # Its threads end one by one; whoever connects in between hears of a reset.
        eventually(self.daemon_listens, lambda seen: not seen, f"process {pid} listens", 10)

    def daemon_listens(self):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(STATE / "models" / self.model / "daemon.socket")) == 0

    # The end

    def frame(self):
        """What there is of this model's machines on the host, without what goes on inside of them."""
        return {trace for trace in self.traces() if is_frame(trace)}

    def traces(self):
        """Everything of this model on the host."""
        return host.traces(self.model, self.identifier)

    def destroy(self, **options):
        """Ends the model, by force unless told otherwise, and sees to it that nothing stays."""
        options = {"force": True, **options}
        self.juju.destroy_model(self.model, destroy_storage=True, **options)
        self.assert_gone()

    def assert_gone(self):
        eventually(self.traces, lambda seen: not seen, f"traces of {self.model} on the host", 30)

    @property
    def exists(self):
        return (STATE / "models" / self.model).exists()


def juju_local(*words):
    """Runs the `juju-local` that lies beside the `juju` in use."""
    command = [str(pathlib.Path(shutil.which("juju")).parent / "juju-local"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def clean():
    """Ends every model of the state directory in use."""
    juju_local("clean")


def parse(line):
    return Event(*line.split())


def place(unit):
    return f"/var/lib/probe/{unit.replace('/', '-')}"


def units_of(status, application):
    return status.get_units(application) if application in status.apps else {}


def words(path):
    try:
        return path.read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []  # It has ended meanwhile.


def is_frame(trace):
    """Whether a trace is there for as long as the machine is on."""
    kind, name = trace.split(" ", 1)
    if kind == "cgroup":
        # Below these are the machine's own services, which come and go.
        return len(pathlib.Path(name).parts) - pathlib.Path(name).parts.index("juju-local") <= 3
    if kind == "process":
        return "machine-supervise" in name or "systemd-nspawn" in name or "daemon" in name.split()[:2]
    return True


def eventually(read, ready, what, seconds):
    """Reads until the value will do, and returns it; the failure shows the last one."""
    deadline = time.monotonic() + seconds
    while not ready(seen := read()):
        assert time.monotonic() < deadline, f"{what}: still {seen} after {seconds} s"
        time.sleep(0.2)
    return seen


def for_a_while(read, holds, what, seconds):
    """Reads for so long and insists that the value stays good."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = read()
        assert holds(seen), f"{what}: {seen}"
        time.sleep(0.2)
