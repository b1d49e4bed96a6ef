"""What an administrator set with scontrol stays, whatever events come; and what an action resumed stays resumed."""
import pytest

from cluster import charm_file, eventually, slow

# One by one, every kind of event that a running cluster sees. Each runs to its end before the next.
EVENTS = {}
SLOW = ("unit_added", "agents_restarted", "charms_refreshed", "daemons_restarted")


def event(function):
    EVENTS[function.__name__] = function
    return function


@event
def update_status(cluster):
    for unit in cluster.units():
        cluster.fire(unit)


@event
def partition_config_changed(cluster):
    # Applied to the other partition: what is in a partition's own options is the operator's to change.
    limit = "30" if cluster.partition("other")["MaxTime"] != "00:30:00" else "40"
    cluster.juju.config("other", {"partition-config": f"MaxTime={limit}"})
    eventually(lambda: cluster.partition("other")["MaxTime"], lambda seen: seen == f"00:{limit}:00", "MaxTime", 60)


@event
def controller_config_changed(cluster):
    cluster.juju.config("slurmctld", {"default-partition": "other"})
    eventually(lambda: cluster.partition("other")["Default"], lambda seen: seen == "YES", "Default", 60)
    cluster.restore("slurmctld", "default-partition")
    eventually(lambda: cluster.partition("other")["Default"], lambda seen: seen == "NO", "Default", 60)


@event
def unit_added(cluster):
    count = len(cluster.juju.status().get_units("compute"))
    if count < 3:
        cluster.add_unit("compute")
        eventually(
            lambda: cluster.message(f"compute/{count}"), lambda seen: seen.startswith("active: idle"), "status", 120
        )


@event
def agents_restarted(cluster):
    for unit in ("slurmctld/0", "compute/0", "compute/1"):
        cluster.root(unit, "systemctl", "restart", f"jujud-machine-{cluster.machine_of(unit)}")
    cluster.quiet()


@event
def charms_refreshed(cluster):
    for application, charm in (("compute", "slurmd"), ("slurmctld", "slurmctld")):
        revision = cluster.juju.status().apps[application].charm_rev
        cluster.juju.refresh(application, path=charm_file(charm))
        eventually(
            lambda: cluster.juju.status().apps[application].charm_rev, lambda seen: seen != revision, "revision", 60
        )
    cluster.quiet()


@event
def daemons_restarted(cluster):
    cluster.root("slurmctld/0", "systemctl", "restart", "slurmctld")
    for unit in ("compute/0", "compute/1"):
        cluster.root(unit, "systemctl", "restart", "slurmd")
    eventually(lambda: "NOT_RESPONDING" in cluster.state("compute-0"), lambda seen: not seen, "not responding", 60)


@event
def machine_rebooted(cluster):
    cluster.reboot("compute/1")
    eventually(
        lambda: cluster.on("compute/1", "systemctl", "is-active", "slurmd"), lambda seen: "active" in seen, "slurmd", 60
    )


@event
def machines_hooks(cluster):
    for name in ("start", "config-changed", "upgrade-charm", "leader-elected"):
        for unit in cluster.units():
            cluster.fire(unit, name)


@pytest.fixture(scope="module")
def cluster(new_cluster):
    cluster = new_cluster()
    cluster.deploy_controller()
    cluster.deploy_compute("compute", units=2)
    cluster.deploy_compute("other", units=1)
    cluster.juju.integrate("slurmctld", "compute")
    cluster.juju.integrate("slurmctld", "other")
    cluster.settle(slurmctld=1, compute=2, other=1)
    return cluster


@pytest.fixture(scope="module")
def set_by_hand(cluster):
    """A node drained, a node down and noted on, a partition closed; all with scontrol."""
    cluster.scontrol("update", "nodename=compute-0", "state=drain", "reason=disk is dying, ticket 42")
    cluster.scontrol("update", "nodename=compute-1", "state=down", "reason=on loan")
    cluster.scontrol("update", "nodename=compute-1", "comment=belongs to physics")
    cluster.scontrol("update", "partitionname=compute", "state=drain")
    return picture(cluster)


def picture(cluster):
    drained, down = cluster.node("compute-0"), cluster.node("compute-1")
    return {
        "compute-0": (cluster.state("compute-0"), drained["reason"]),
        "compute-1": (cluster.state("compute-1"), down["reason"], down["comment"]),
        "partition": cluster.partition("compute")["State"],
    }


def test_what_was_set_is_set(set_by_hand):
    assert set_by_hand == {
        "compute-0": ("IDLE+DRAIN", "disk is dying, ticket 42"),
        "compute-1": ("DOWN", "on loan", "belongs to physics"),
        "partition": "DRAIN",
    }


@pytest.mark.parametrize("name", [slow(name) if name in SLOW else name for name in EVENTS])
def test_it_stays(cluster, set_by_hand, name):
    EVENTS[name](cluster)
    cluster.quiet()
    settled = lambda seen: "NOT_RESPONDING" not in str(seen)
    assert eventually(lambda: picture(cluster), settled, "nodes and partition", 60) == set_by_hand


def test_the_status_says_what_the_administrator_did(cluster, set_by_hand):
    for unit in ("compute/0", "compute/1"):
        cluster.fire(unit)
    assert "drained" in cluster.message("compute/0") and "ticket 42" in cluster.message("compute/0")
    assert "down" in cluster.message("compute/1") and "on loan" in cluster.message("compute/1")


def test_a_partition_option_set_by_hand_stays_through_a_change_elsewhere(cluster):
    cluster.scontrol("update", "partitionname=compute", "state=up")
    cluster.scontrol("update", "partitionname=compute", "maxtime=45")
    try:
        partition_config_changed(cluster)
        cluster.quiet()
        assert cluster.partition("compute")["MaxTime"] == "00:45:00"
    finally:
        cluster.scontrol("update", "partitionname=compute", "maxtime=unlimited")


def test_a_weight_set_by_hand_stays_through_a_change_elsewhere(cluster):
    """Slurm itself takes a node's weight from its first registration whenever it reads its files again."""
    cluster.scontrol("update", "nodename=compute-1", "weight=17")
    partition_config_changed(cluster)
    cluster.quiet()
    assert cluster.node("compute-1")["weight"] == 17


@pytest.mark.core
def test_resumed_nodes_stay_resumed(cluster):
    for node in ("compute-0", "compute-1"):
        cluster.act("slurmctld/0", "resume", nodename=node)
        cluster.await_state(node, "IDLE")
    cluster.reconfigure()
    partition_config_changed(cluster)
    update_status(cluster)
    cluster.quiet()
    for node in ("compute-0", "compute-1"):
        assert cluster.state(node) == "IDLE"
    assert len(cluster.hosts(nodes=2)) == 2
