"""A cluster that moves from the local disk of its controller to a store, and back, with jobs running. `cargo xtask test
ha` runs these.

A job beats through all of it, a client submits each second, and a thousand jobs wait in the queue, each with files of
its own in the state directory.
"""
import re
import time

import pytest

import ha
import host
import sites
from cluster import LITTLE, eventually

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs machines that mount a store of their own")

slow = pytest.mark.slow
APPLICATION = "slurmctld"
UNIT = f"{APPLICATION}/0"
ASIDE = "/var/lib/slurm/local/state"
WAITING = 1000
# Control may be away so long, in seconds.
AWAY = 3
# A client that submits once a second sees a gap of a second when there is none.
RHYTHM = 1
# A move copies every file of the state, with a write to the disk for each, on two processors.
MOVES = 300
UP = "active: primary - UP"


@pytest.fixture(scope="module")
def site(new_cluster, tmp_path_factory):
    """A controller on its local disk with two nodes, a store, and a queue of jobs that wait."""
    site = ha.Charmed(ha.Wide(new_cluster().juju))
    site.deploy_store(tmp_path_factory.mktemp("charms"))
    site.cluster.deploy_charm("slurmctld", APPLICATION, 1, config={"slurm-conf-parameters": ha.PARAMETERS})
    site.cluster.deploy_compute(units=2)
    site.cluster.juju.integrate(APPLICATION, "compute")
    site.cluster.settle(store=1, slurmctld=1, compute=2)
    site.await_agreement()
    site.prepare_nodes()
    words = f"{LITTLE} --hold --output=/dev/null --chdir=/tmp --job-name=waiting --wrap=true"
    one = f"sbatch --parsable {words} >/dev/null"
    site.look(site.worker(), f"seq {WAITING} | runuser -u ubuntu -- xargs -P 4 -I N sh -c '{one}'", 300)
    assert waiting(site) == WAITING
    site.cluster.juju.integrate("filesystem-client:mount", f"{APPLICATION}:mount")
    return site


def waiting(site):
    return len(site.slurm("squeue --noheader --name=waiting", 60).splitlines())


def state_location(site):
    """Where slurmctld says that its state is."""
    [(_, place)] = re.findall(r"^(StateSaveLocation)\s*= (\S+)", site.slurm("scontrol show config"), re.MULTILINE)
    return place


def linked(site):
    [machine] = site.controllers().values()
    return site.look(machine, "readlink /etc/slurm || true").strip()


def option(site, value):
    site.cluster.juju.config(APPLICATION, {"use-network-state": value})


def await_rest(site, on_store, seconds=MOVES):
    """Waits until the cluster is on one side, and says that all is well."""
    read = lambda: (linked(site) == sites.CONFIGURATION, site.cluster.message(UNIT))
    eventually(read, lambda seen: seen == (on_store, UP), f"on the store: {on_store}", seconds)
    site.state = sites.STATE if on_store else ASIDE
    assert state_location(site) == site.state
    site.await_agreement()


def stops(site, since):
    """When slurmctld was stopped in order, and when it was up again each time, by the journal of systemd."""
    [machine] = site.controllers().values()
    script = f"journalctl --quiet --output=short-unix --unit=slurmctld --since=@{since} _PID=1"
    found, begun = [], None
    for line in site.look(machine, script, 20).splitlines():
        moment = float(line.split()[0])
        if "Stopping slurmctld" in line:
            begun = moment
        elif "Started slurmctld" in line and begun is not None:
            found.append((begun, moment))
            begun = None
    return found


def was_cut_off(submission, stops):
    """Says whether a client had its connection taken and then reset because slurmctld stopped: nothing was accepted,
    and the client was told."""
    during = any(submission.begun <= up and submission.ended >= stopped for stopped, up in stops)
    return "Connection reset by peer" in submission.error and during


@pytest.mark.core
def test_a_cluster_moves_to_a_store_and_back(site):
    [machine] = site.controllers().values()
    job, since = site.start_beating(), int(time.time())
    with site.submitting() as tally:
        tally.phase("there")
        option(site, True)
        await_rest(site, on_store=True)
        [name] = site.controllers()
        assert site.mounted(name) == ["autofs", "fuse"] and site.fence(name)["state"] == "open"
        tally.await_accepted(time.time())
        tally.phase("back")
        option(site, False)
        await_rest(site, on_store=False)
        tally.await_accepted(time.time())
    away = stops(site, since)
    print(tally.summary(), "down for", [round(up - stopped, 2) for stopped, up in away])
    site.assert_beats(job)
    site.cancel(job)
    assert waiting(site) == WAITING
    tally.assert_kept()
    assert not tally.ran_though_refused
    assert [one for one in tally.submissions if one.code and not was_cut_off(one, away)] == []
    assert max(tally.gaps.values()) <= AWAY + RHYTHM, tally.gaps
    assert "inactive" in site.look(machine, f"systemctl is-active {ha.FENCE_SERVICE} || true")
    # A boot finds the state where it is now.
    site.machine("reboot", name)
    site.await_boot(name)
    site.await_agreement(180)
    assert waiting(site) == WAITING and state_location(site) == ASIDE


@slow
def test_a_store_that_goes_away_in_the_middle_leaves_the_cluster_where_it_was(site):
    before = state_location(site)
    job = site.start_beating()
    with site.submitting() as tally:
        tally.phase("away")
        option(site, True)
        eventually(lambda: site.cluster.message(UNIT), lambda seen: "moving to the store" in seen, "the move", 120)
        site.store_machine("freeze")
        told = lambda seen: seen.startswith("waiting: to try the move again") or "cannot move" in seen
        eventually(lambda: site.cluster.message(UNIT), told, "the move failed", 120)
        assert state_location(site) == before
        tally.await_accepted(time.time())
        tally.phase("there")
        site.store_machine("thaw")
        await_rest(site, on_store=True)
    print(tally.summary())
    site.assert_beats(job)
    site.cancel(job)
    assert waiting(site) == WAITING
    tally.assert_kept()


@slow
def test_a_second_controller_joins_after_the_move_and_holds_the_way_back(site):
    option(site, True)
    await_rest(site, on_store=True)
    site.scale(2)
    option(site, False)
    site.cluster.await_message(UNIT, "^blocked: .*remove slurmctld/1 first", 120)
    site.remove(site.order()[1])
    await_rest(site, on_store=False)
    assert waiting(site) == WAITING
