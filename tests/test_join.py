"""A node that has just joined, and a controller that dies before it has written the node down."""
import time

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


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 1, 2])
def test_a_controller_killed_right_after_a_join_knows_the_node_again_soon(cluster, seconds):
    """Another event comes between the join and the crash; nobody calls afterwards."""
    cluster.juju.cli("add-unit", "compute")
    unit = f"compute/{max(int(name.split('/')[1]) for name in cluster.juju.status().get_units('compute'))}"
    node = unit.replace("/", "-")
    cluster.shell("slurmctld/0", f"until scontrol show node {node} >/dev/null 2>&1; do sleep 0.05; done", seconds=120)
    joined = time.monotonic()
    cluster.fire(unit)
    time.sleep(max(0, joined + seconds - time.monotonic()))
    cluster.root("slurmctld/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmctld")
    forgotten = "compute" not in cluster.shell(
        "slurmctld/0", f"grep --text --only-matching {node} /var/lib/slurm/checkpoint/state/node_state || true"
    )
    print(f"{node} was {'not ' if forgotten else ''}saved, {time.monotonic() - joined:.1f} s after it joined")
    eventually(lambda: state(cluster, node), lambda seen: seen == "idle", f"state of {node}", 60)
    cluster.await_message(unit, "^active: idle, partition compute$", 40)
    assert cluster.srun(f"--nodelist={node}").strip()
