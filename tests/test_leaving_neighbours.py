"""Units that leave beside charms of others: a subordinate with a mount on their machine, and the Python charms.

The charms of others are in `tests/charms`. `cargo xtask test leaving` runs these too.
"""
import jubilant
import pytest

import host
from cluster import eventually
from leaving import REASON, SHARE, Stage, make
from packing import pack_test_charm

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs a directory that the machines share")

# Where the subordinate mounts, and where what was written there stays.
MOUNT = "/srv/scratch"
KEPT = f"{SHARE}/scratch"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("charms")


@pytest.fixture(scope="module")
def stage(new_cluster, directory):
    stage = make(new_cluster)
    stage.cluster.juju.deploy(pack_test_charm(directory, "scratch"), "scratch")
    return stage


@pytest.fixture(autouse=True)
def no_job_stays(request):
    yield
    stage = (request.node.funcargs or {}).get("stage")
    if stage:
        stage.cluster.root(stage.cluster.controller, "scancel", "--user=ubuntu")
        stage.jobs.clear()


# A subordinate with a mount


def moored(stage, application):
    """Deploys an application of one node whose machine has the mount of a subordinate; returns its unit and node."""
    stage.new_application(application)
    stage.cluster.juju.integrate(f"{application}:juju-info", "scratch:host")
    unit = f"{application}/0"
    message = lambda: [one.workload_status.message for one in stage.cluster.unit(unit).subordinates.values()]
    eventually(message, lambda seen: seen == ["mounted"], f"subordinate of {unit}", 60)
    return unit, f"{application}-0"


def is_mounted(stage, machine):
    try:
        stage.cluster.root(machine, "mountpoint", "--quiet", MOUNT)
        return True
    except jubilant.CLIError:
        return False


def test_the_mount_of_a_subordinate_stays_until_the_job_has_ended(stage):
    """The hook that waits has the machine's lock, so the subordinate cannot go before it has ended."""
    cluster = stage.cluster
    unit, node = moored(stage, "moored")
    machine = cluster.machine_of(unit)
    job = stage.start(node, 40, partition="moored", into=MOUNT)
    cluster.juju.remove_unit(unit)
    cluster.await_message(unit, "^maintenance: draining: 1 job", 30)
    assert is_mounted(stage, machine)
    stage.assert_well(job, KEPT)
    stage.await_gone(unit)
    cluster.juju.remove_application("moored")
    stage.await_no_partition("moored")
    stage.assert_whole(node)


def test_a_node_that_is_drained_first_loses_no_job_to_a_mount_that_goes_before_it(stage):
    """Juju may take a subordinate before its unit has had a hook. Here it always does."""
    cluster = stage.cluster
    unit, node = moored(stage, "drained")
    machine = cluster.machine_of(unit)
    job = stage.start(node, 30, partition="drained", into=MOUNT)
    told = cluster.juju.run(unit, "drain", {"reason": "leaves", "wait": True}, wait=120).results
    assert told["status"] == "drained", told
    assert is_mounted(stage, machine)
    stage.assert_well(job, KEPT)
    cluster.juju.remove_relation("drained", "scratch")
    eventually(lambda: is_mounted(stage, machine), lambda seen: not seen, "mount without a subordinate", 60)
    cluster.juju.remove_unit(unit)
    stage.await_gone(unit)
    cluster.juju.remove_application("drained")
    stage.await_no_partition("drained")
    stage.assert_whole(node)


# A Python slurmd under our controller


def python_node(stage, directory, application):
    cluster = stage.cluster
    cluster.juju.deploy(pack_test_charm(directory, "python_slurmd"), application)
    cluster.juju.integrate("slurmctld", application)
    cluster.settle(**{"slurmctld": 1, application: 1})
    node = f"{application}-0"
    eventually(stage.nodes, lambda seen: node in seen, f"nodes with {node}", 60)
    assert len(cluster.hosts(nodes=1, partition=application)) == 1
    return f"{application}/0", node


def test_the_record_of_a_python_unit_goes_after_the_unit_and_no_other(stage, directory):
    """That charm neither drains nor deletes its node."""
    cluster = stage.cluster
    unit, node = python_node(stage, directory, "python")
    job = stage.start("compute-0", 40)
    cluster.juju.remove_unit(unit)
    stage.await_gone(unit)

    def nodes():
        cluster.fire(cluster.controller)
        return stage.nodes()

    eventually(nodes, lambda seen: node not in seen, f"nodes without {node}", 120)
    assert "compute-0" in stage.nodes() and "python" in cluster.partitions()
    stage.assert_well(job)
    cluster.juju.remove_application("python")
    stage.await_no_partition("python")
    stage.assert_whole(node)


@pytest.mark.slow
def test_a_python_application_whose_relation_is_removed_leaves_nothing(stage, directory):
    cluster = stage.cluster
    _, node = python_node(stage, directory, "snake")
    job = stage.start("compute-0", 40)
    cluster.juju.remove_relation("slurmctld", "snake")
    stage.await_no_partition("snake")
    assert node not in stage.nodes()
    stage.assert_well(job)
    cluster.juju.remove_application("snake")
    stage.assert_whole(node)


# Our nodes under a Python controller


def leave_a_python_controller(new_cluster, directory, version=None):
    cluster = new_cluster(version)
    cluster.juju.deploy(pack_test_charm(directory, "python_slurmctld"), "slurmctld")
    cluster.deploy_compute(units=2)
    cluster.juju.integrate("slurmctld", "compute")
    cluster.settle(slurmctld=1, compute=2)
    cluster.await_message("compute/1", "^active: idle, partition compute", 60)
    stage = Stage(cluster)
    stage.share("slurmctld/0", "compute/0", "compute/1")
    leaver, other = stage.start("compute-1", 45), stage.start("compute-0", 75)
    cluster.juju.remove_unit("compute/1")
    cluster.await_message("compute/1", "^maintenance: draining: 1 job", 30)
    assert "DRAIN" in cluster.state("compute-1") and cluster.node("compute-1")["reason"] == REASON
    if version:
        # Everybody hears at once of a unit that leaves, and that controller takes no node away that has a job.
        cluster.await_message("slurmctld/0", "^blocked: Failed to delete compute/1", 30)
    stage.assert_well(leaver)
    stage.await_gone("compute/1")

    def nodes():
        # It tries again with its next event.
        cluster.fire("slurmctld/0")
        return stage.nodes()

    eventually(nodes, lambda seen: seen == {"compute-0"}, "nodes without compute-1", 60)
    # With a record that somebody else had deleted it would be blocked for ever.
    cluster.await_message("slurmctld/0", "^active: primary - UP", 30)
    stage.assert_well(other)
    stage.assert_whole("compute-1")


def test_a_python_controller_deletes_the_record_of_a_node_that_has_drained(new_cluster, directory):
    leave_a_python_controller(new_cluster, directory)


@pytest.mark.slow
def test_a_python_controller_deletes_the_record_of_a_node_that_has_drained_on_juju_3_6(new_cluster, directory):
    leave_a_python_controller(new_cluster, directory, "3.6")
