"""A node that has just joined, and a controller that dies before it has written the node down."""
import re

import jubilant
import pytest

from cluster import eventually

UNITS = 1


def state(cluster, node):
    """The node's state; none while nobody answers, or nobody knows it."""
    try:
        return cluster.on("slurmctld/0", "sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()
    except jubilant.CLIError:
        return None


def calls(cluster, unit):
    """How often the charm's own timer has called the charm, by the machine's journal."""
    journal = cluster.root(unit, "journalctl", "--quiet", "--no-pager", "--identifier=systemd", "--output=cat")
    return len(re.findall(rf"^Starting {unit.replace('/', '-')}-retry\.service", journal, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize("saved", [False, True], ids=["at-once", "when-the-node-is-saved"])
def test_a_controller_killed_right_after_a_join_knows_the_node_again_soon(cluster, saved):
    """Another event comes between the join and the crash; nobody calls afterwards."""
    cluster.add_unit("compute")
    unit = f"compute/{max(int(name.split('/')[1]) for name in cluster.juju.status().get_units('compute'))}"
    node = unit.replace("/", "-")
    cluster.shell("slurmctld/0", f"until scontrol show node {node} >/dev/null 2>&1; do sleep 0.05; done", seconds=120)
    cluster.fire(unit)
    search = f"grep --text --only-matching {node} /var/lib/slurm/checkpoint/state/node_state || true"
    if saved:
        eventually(lambda: cluster.shell("slurmctld/0", search), bool, f"{node} in the saved state", 30)
    cluster.root("slurmctld/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmctld")
    print(f"{node} was {'' if cluster.shell('slurmctld/0', search) else 'not '}saved")
    eventually(lambda: state(cluster, node), lambda seen: seen == "idle", f"state of {node}", 60)
    cluster.await_message(unit, "^active: idle, partition compute$", 40)
    assert cluster.srun(f"--nodelist={node}").strip()


@pytest.mark.slow
def test_a_second_slurmd_unit_on_a_machine_touches_nothing(cluster):
    """There is one slurmd on a machine, and it is somebody's already."""
    job = cluster.start_job("compute-0")
    before = cluster.files("compute/0")
    cluster.deploy_compute("second", to=cluster.machine_of("compute/0"))
    cluster.juju.integrate("slurmctld", "second")
    cluster.await_message("second/0", "^blocked: this machine is node compute-0 already", 60)
    said = cluster.refuse("second/0", "node-config", parameters="Weight=5")
    assert "compute-0" in said, said
    cluster.fire("compute/0")
    cluster.fire("second/0")
    assert cluster.files("compute/0") == before
    assert cluster.message("compute/0") == "active: mixed, partition compute"
    cluster.assert_unharmed(job)
    cluster.cancel(job)
    cluster.juju.cli("remove-application", "second", "--force", "--no-prompt", "--no-wait")
    eventually(lambda: cluster.juju.status().apps, lambda apps: "second" not in apps, "applications", 60)
    assert cluster.srun().strip()


def test_a_slurmd_that_is_told_to_go_by_somebody_comes_back(cluster):
    job = cluster.start_job("compute-0")
    before = cluster.daemon("compute/0")
    cluster.root("compute/0", "systemctl", "kill", "--kill-whom=main", "--signal=TERM", "slurmd")
    running = "ActiveState=active"
    eventually(lambda: cluster.daemon("compute/0"), lambda seen: running in seen and seen != before, "slurmd", 30)
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_a_slurmd_that_waits_for_its_key_comes_back_by_itself(cluster):
    """It does not fail, it waits; and nobody calls."""
    job = cluster.start_job("compute-0")
    cluster.shell("compute/0", "rm /etc/slurm/slurm.jwks; systemctl kill --kill-whom=main --signal=KILL slurmd")
    # Until it is noticed, everything looks as before.
    runs = lambda: cluster.shell(
        "compute/0", "test -e /etc/slurm/slurm.jwks && systemctl is-active slurmd || true"
    ).strip()
    eventually(runs, lambda seen: seen == "active", "slurmd with its key", 90)
    eventually(lambda: state(cluster, "compute-0"), lambda seen: seen == "mixed", "state of compute-0", 90)
    cluster.await_message("compute/0", "^active: mixed, partition compute$", 60)
    assert cluster.root("compute/0", "stat", "--format=%a %U", "/etc/slurm/slurm.jwks").split() == ["600", "root"]
    cluster.assert_unharmed(job)
    cluster.cancel(job)


@pytest.mark.slow
def test_a_slurmd_that_waits_for_a_controller_without_power_is_left_alone(cluster):
    job = cluster.start_job("compute-0")
    cluster.await_saved(job)
    machine = cluster.machine_of("slurmctld/0")
    cluster.local("machine", "poweroff", machine)
    cluster.fire("compute/0")
    cluster.root("compute/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmd")
    before = calls(cluster, "compute/0")
    # Each call takes until Slurm has given up to reach a machine that does not even refuse.
    eventually(lambda: calls(cluster, "compute/0"), lambda seen: seen >= before + 2, "calls of the charm's timer", 180)
    cluster.local("machine", "poweron", machine)
    cluster.await_message("compute/0", "^active: mixed, partition compute$", 120)
    cluster.assert_unharmed(job)
    cluster.cancel(job)
    cluster.await_state("compute-0", "IDLE")
    cluster.fire("compute/0")
    cluster.await_message("compute/0", "^active: idle, partition compute$")
