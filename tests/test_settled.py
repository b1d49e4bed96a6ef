"""A settled cluster: events come, and nothing is written, published or signalled."""
import json
import re

import pytest

from cluster import eventually

EVENTS = 20


@pytest.fixture(autouse=True)
def settled(cluster):
    """A node that has just joined is looked at until slurmctld has saved it, which takes some seconds."""
    for unit in cluster.units():
        eventually(lambda: timers(cluster, unit), lambda found: not found, f"timers of {unit}", 60)


def timers(cluster, unit):
    units = json.loads(cluster.on(unit, "systemctl", "list-units", "--all", "--output=json", "--no-pager"))
    ours = [one["unit"] for one in units if unit.replace("/", "-") in one["unit"] and one["active"] == "active"]
    return [name for name in ours if re.search(r"(look-again|-retry)\.(timer|service)$", name)]


def test_update_status_changes_nothing(cluster):
    before = everything(cluster)
    cursors = {unit: cursor(cluster, unit) for unit in cluster.units()}
    for unit in cluster.units():
        for _ in range(EVENTS):
            cluster.fire(unit)
    after = everything(cluster)
    for what in before:
        assert after[what] == before[what], what
    for unit, since in cursors.items():
        service = "slurmctld" if unit.startswith("slurmctld/") else "slurmd"
        said = cluster.root(
            unit, "journalctl", "--quiet", "--no-pager", f"--unit={service}", f"--after-cursor={since}", "--output=cat"
        )
        assert not re.search(
            r"econfigur|SIGHUP|Terminate|signal|version .* started|Relinquish", said
        ), f"{unit}: {said}"


def test_other_events_that_change_nothing_are_as_quiet(cluster):
    before = everything(cluster)
    for event in ("config-changed", "start", "leader-elected", "look-again", "retry"):
        for unit in cluster.units():
            cluster.fire(unit, event)
    after = everything(cluster)
    for what in before:
        assert after[what] == before[what], what


def test_a_settled_hook_says_nothing(cluster):
    for unit in cluster.units():
        before = len(said(cluster, unit))
        cluster.fire(unit)
        # Agents send their log when they get to it, and in order.
        cluster.juju.exec("juju-log after", unit=unit)
        new = eventually(lambda: said(cluster, unit)[before:], bool, f"log of {unit}", 10)
        assert len(new) == 1 and new[0].endswith(" after"), new


def said(cluster, unit):
    """What the charm has logged so far."""
    log = cluster.juju.cli("debug-log", "--replay", "--no-tail", "--include", f"unit-{unit.replace('/', '-')}")
    return [line for line in log.splitlines() if ".juju-log " in line]


def test_no_timer_and_no_watcher_is_left_running(cluster):
    for unit in cluster.units():
        cluster.fire(unit)
        assert not timers(cluster, unit)


def everything(cluster):
    seen = {f"files of {unit}": cluster.files(unit, *watched(unit)) for unit in cluster.units()}
    seen |= {f"daemon of {unit}": cluster.daemon(unit) for unit in cluster.units()}
    seen["databags"] = cluster.databags()
    seen["secrets"] = cluster.juju.cli("secrets", "--format", "json")
    return seen


def watched(unit):
    """Also what the charm remembers, and what Slurm would save if anything in it were changed."""
    agent = f"/var/lib/juju/agents/unit-{unit.replace('/', '-')}/charm"
    return "/etc/slurm", "/etc/default", "/etc/systemd/system", "/etc/needrestart", "/etc/apt", agent


def cursor(cluster, unit):
    shown = cluster.root(unit, "journalctl", "--quiet", "--no-pager", "--lines=1", "--show-cursor", "--output=cat")
    return re.search(r"^-- cursor: (.*)$", shown, re.MULTILINE).group(1)
