"""Hooks killed in the middle, on real machines: the end is the same as if nothing had happened.

Programs through which the charms act on a machine are replaced by one that kills the dispatch that called it, once for
each command line, either before the command or after it, and that is the real program otherwise. Every such point of
the story deploy, integrate, change is hit once. (All points, between any two effects, are tried in memory by the tests
of the charms.)
"""
import difflib
import json
import re

import jubilant
import pytest

from cluster import PATIENCE, eventually

# What a charm changes a machine with. Commands that only look are let through: killed there, nothing has begun.
EFFECTS = {
    "apt-get": ("update", "install"),
    "apt-mark": ("hold",),
    "systemctl": ("start", "restart", "enable", "disable", "reload", "daemon-reload", "stop", "mask", "reset-failed"),
    "systemd-run": ("--quiet",),
    "scontrol": ("update", "reconfigure", "delete", "create"),
}
KILLER = r"""#!/bin/sh
# Stands before a program: kills the dispatch that calls it, once for each command line.
read -r caller </proc/$PPID/comm
if [ "$caller" = dispatch ]; then
    case " $* " in
    EFFECTS)
        mark=/var/lib/crash/hit/$(printf '%s' "PROGRAM $*" | sha256sum | cut -c1-16)
        if [ ! -e "$mark" ]; then
            echo "PROGRAM $*" >"$mark"
            sync
            [ WHEN = before ] || /var/lib/crash/real/PROGRAM "$@"
            kill -KILL $PPID
            exit 137
        fi
        ;;
    esac
fi
exec /var/lib/crash/real/PROGRAM "$@"
"""


def lay_traps(cluster, machine, programs, when):
    """Puts the killer before those programs that are on the machine."""
    for program in programs:
        effects = "|".join(f"*' {word} '*" for word in EFFECTS[program])
        text = KILLER.replace("EFFECTS", effects).replace("PROGRAM", program).replace("WHEN", when)
        cluster.root(machine, "mkdir", "-p", "/var/lib/crash/hit", "/var/lib/crash/real")
        cluster.root(machine, "tee", f"/var/lib/crash/{program}", stdin=text)
        cluster.shell(
            machine,
            f"path=$(readlink -f $(command -v {program})); chmod 0755 /var/lib/crash/{program}; "
            f"cp -p $path /var/lib/crash/real/{program}; mount --bind /var/lib/crash/{program} $path",
        )


def hits(cluster, machine):
    return cluster.shell(machine, "cat /var/lib/crash/hit/* 2>/dev/null || true").splitlines()


def push_on(cluster, ready, seconds=300):
    """Waits until the model is as wanted, and tells Juju to run a failed hook again at once instead of after a
    pause."""

    def step():
        status = cluster.juju.status()
        for app in status.apps:
            for name, unit in status.get_units(app).items():
                if unit.workload_status.current == "error":
                    try:
                        cluster.juju.cli("resolved", name)
                    except jubilant.CLIError:
                        pass  # It is being run again already.
        return status

    return eventually(step, ready, "model", seconds)


def settled(**counts):
    def ready(status):
        return (
            all(app in status.apps and len(status.get_units(app)) == count for app, count in counts.items())
            and jubilant.all_active(status, *counts)
            and jubilant.all_agents_idle(status, *counts)
        )

    return ready


def tell(cluster, when=None):
    """The story; with traps if told when they kill."""
    machines = [cluster.add_machine() for _ in range(2)]
    cluster.juju.wait(
        lambda status: all(one.juju_status.current == "started" for one in status.machines.values()),
        timeout=120 * PATIENCE,
    )
    trap = lambda *programs: [lay_traps(cluster, machine, programs, when) for machine in machines if when]
    trap("apt-get", "apt-mark", "systemctl", "systemd-run")
    cluster.deploy_controller(to=machines[0], config={"cluster-name": "story"})
    cluster.deploy_compute(to=machines[1])
    installed = lambda status: all(status.apps[app].version for app in ("slurmctld", "compute"))
    push_on(cluster, lambda status: installed(status) and jubilant.all_agents_idle(status))
    trap("scontrol")
    cluster.juju.integrate("slurmctld", "compute")
    push_on(cluster, settled(slurmctld=1, compute=1))
    cluster.juju.config("compute", {"partition-config": "MaxTime=90"})
    cluster.juju.config("slurmctld", {"slurm-conf-parameters": "MaxJobCount=4000", "default-partition": "compute"})

    def changed(status):
        if not settled(slurmctld=1, compute=1)(status):
            return False
        partition = cluster.partition("compute")
        return (partition["MaxTime"], partition["Default"], cluster.setting("MaxJobCount")) == (
            "01:30:00",
            "YES",
            "4000",
        )

    push_on(cluster, changed)
    for unit in cluster.units():
        cluster.fire(unit)
    push_on(cluster, settled(slurmctld=1, compute=1))
    # Whether a call of the retry timer is still to come is a matter of seconds, in either story.
    for unit in cluster.units():
        eventually(lambda: has_timer(cluster, unit), lambda seen: not seen, f"timers of {unit}", 120)
    return end_state(cluster)


def has_timer(cluster, unit):
    return "-retry" in cluster.on(unit, "systemctl", "list-timers", "--all", "--no-legend")


def end_state(cluster):
    """Files, databags, services and Slurm's state, without what differs between any two clusters."""
    state = {}
    for unit in cluster.units():
        service = "slurmctld" if unit.startswith("slurmctld/") else "slurmd"
        listing = cluster.shell(
            unit,
            "find /etc/slurm /etc/default/slurm* /etc/systemd/system /etc/needrestart -xdev -type f"
            " -printf '%p %m %u\\n' 2>/dev/null | sort || true",
        )
        contents = cluster.shell(
            unit, "cat /etc/slurm/*.conf /etc/default/slurm* /etc/systemd/system/slurm*.d/* 2>/dev/null || true"
        )
        state[unit] = {
            "files": listing,
            "contents": contents,
            "held": sorted(cluster.root(unit, "apt-mark", "showhold").split()),
            "service": cluster.root(
                unit, "systemctl", "show", "--property=ActiveState,UnitFileState,NeedDaemonReload", service
            ),
            "timers": has_timer(cluster, unit),
            "status": cluster.message(unit),
            "ports": cluster.unit(unit).open_ports,
        }
    state["bags"] = cluster.databags()
    node = cluster.node("compute-0")
    state["node"] = {
        key: node[key]
        for key in ("state", "reason", "weight", "real_memory", "features", "partitions", "gres", "comment")
    }
    state["partition"] = cluster.partition("compute")
    text = json.dumps(state, sort_keys=True, indent=1)
    names = sorted(cluster.machines().values(), key=len, reverse=True)
    identities = (
        *((re.escape(name), "host") for name in names),
        (r"\b\d+\.\d+\.\d+\.\d+(/\d+)?", "address"),
        (r"secret:[^\"\\]+", "secret"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "model"),
    )
    for pattern, name in identities:
        text = re.sub(pattern, name, text)
    # When something was done, and identity of what was made.
    return re.sub(r"(?m)^.*(?:StartTime|generation|unit_copy_time).*$", "", text)


def lines(state):
    """One line for each line of each file."""
    return state.replace("\\n", "\n").splitlines()


@pytest.fixture(scope="module")
def undisturbed(new_cluster):
    cluster = new_cluster()
    state = tell(cluster)
    cluster.juju.destroy_model(cluster.juju.model, destroy_storage=True, force=True)
    cluster.juju.model = None
    return state


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_story_full_of_crashes_ends_like_the_undisturbed_one(new_cluster, undisturbed, when):
    cluster = new_cluster()
    state = tell(cluster, when)
    hit = [line for machine in cluster.machines() for line in hits(cluster, machine)]
    # It must have hurt, or it proves nothing.
    assert {line.split()[0] for line in hit} >= {"apt-get", "systemctl", "scontrol"}, hit
    difference = list(
        difflib.unified_diff(lines(undisturbed), lines(state), "undisturbed", f"killed {when}", lineterm="", n=0)
    )
    assert not difference, "\n".join([*difference, "killed at:", *hit])
    assert cluster.hosts(nodes=1)
    cluster.juju.destroy_model(cluster.juju.model, destroy_storage=True, force=True)
    cluster.juju.model = None
