"""Everything that a real Juju loses, lost on purpose; the cluster has to end up whole, by itself and soon."""
import re

import pytest

import host
from cluster import eventually

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="only juju-local can be told to lose something")
# The charm looks again by itself after 5, 15, 35, 75 seconds, and each minute from then on.
SOON = 90


@pytest.fixture(scope="module")
def cluster(new_cluster):
    cluster = new_cluster()
    cluster.local("lose", "grant", "departed", "secret-content")
    cluster.deploy(units=1)
    return cluster


@pytest.fixture(autouse=True)
def left_whole(cluster):
    yield
    cluster.local("lose", "nothing")


def whole(cluster, nodes):
    eventually(lambda: joined(cluster), lambda seen: seen >= nodes, "usable nodes", SOON)
    assert len(set(cluster.hosts(nodes=nodes))) == nodes


def joined(cluster):
    shown = cluster.on(cluster.controller, "sinfo", "--noheader", "--partition=compute", "--format=%T %D").splitlines()
    return sum(
        int(count) for state, count in (line.split() for line in shown) if state in ("idle", "mixed", "allocated")
    )


def test_a_grant_that_did_not_take_is_made_again(cluster):
    # The cluster was deployed while grants beside a fresh secret were lost.
    whole(cluster, 1)


def test_a_relation_made_again_that_brings_nothing_but_created(cluster):
    cluster.juju.remove_relation("slurmctld", "compute")
    eventually(
        lambda: cluster.juju.status().apps["compute"].relations, lambda seen: "slurmctld" not in seen, "relations", 60
    )
    cluster.juju.integrate("slurmctld", "compute")
    cluster.await_message("compute/0", "^active: idle, partition compute", SOON)
    whole(cluster, 1)


def test_what_is_said_later_in_a_relation_made_again_is_heard_without_an_event(cluster):
    """The controller's agent is deaf to it for good, and goes on seeing the bag that it first read: an empty bag, or
    the first words, as it happened. Nobody calls the charm."""
    bags = [bag for bag in cluster.databags()["compute/0"] if bag["endpoint"] == "slurmctld"]
    relation = f"slurmd:{bags[0]['relation-id']}"
    question = f"relation-get --format=json -r {relation} --app - compute"
    told = lambda: cluster.juju.exec(question, unit=cluster.leader("slurmctld")).stdout
    first = told()
    cluster.juju.config("compute", {"partition-config": "MaxTime=66"})
    eventually(lambda: cluster.partition("compute")["MaxTime"], lambda seen: seen == "01:06:00", "MaxTime", SOON)
    assert told() == first and "66" not in first, "the agent is not deaf"


def test_the_content_of_the_key_secret_is_put_back(cluster):
    forget_the_secret(cluster)
    uri = key_secret(cluster)
    read = lambda: cluster.juju.cli("show-secret", uri, "--reveal", "--format", "json")
    cluster.fire(cluster.controller)
    cluster.add_unit("compute")
    newcomer = sorted(cluster.juju.status().get_units("compute"))[-1]
    cluster.await_message(newcomer, "^active: idle, partition compute", SOON)
    assert '"key"' in read() or "key" in read()


def test_a_key_on_disk_serves_while_the_secret_cannot_be_read(cluster):
    forget_the_secret(cluster)
    job = cluster.start_job("compute-0")
    before = cluster.daemon("compute/0"), cluster.files("compute/0", "/etc/slurm")
    cluster.fire("compute/0")
    cluster.fire("compute/0", "config-changed")
    assert (cluster.daemon("compute/0"), cluster.files("compute/0", "/etc/slurm")) == before
    assert cluster.message("compute/0").startswith("active: ")
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_a_node_that_slurmctld_forgot_comes_back(cluster):
    """The controller crashed before it saved the node: no record, and slurmd does not notice."""
    cluster.scontrol("delete", "nodename=compute-0")
    cluster.fire("compute/0")
    cluster.await_state("compute-0", "IDLE", SOON)
    cluster.await_message("compute/0", "^active: idle", SOON)


@pytest.mark.slow
def test_agents_that_missed_everything_catch_up(cluster):
    """Config changes while an agent is down: it is told once, later, or not at all."""
    machine = cluster.machine_of("slurmctld/0")
    cluster.root("slurmctld/0", "systemctl", "stop", f"jujud-machine-{machine}")
    try:
        cluster.juju.config("compute", {"partition-config": "MaxTime=77"})
    finally:
        cluster.root("slurmctld/0", "systemctl", "start", f"jujud-machine-{machine}")
    eventually(lambda: cluster.partition("compute")["MaxTime"], lambda seen: seen == "01:17:00", "MaxTime", SOON)


def test_a_reset_that_no_unit_is_told_of_is_noticed_later(cluster):
    cluster.juju.config("compute", {"partition-config": "MaxTime=55"})

    def limit():
        # The relation of this model was made again, and the controller's agent is deaf to it: an event spares waiting
        # for its next look.
        cluster.fire(cluster.leader("slurmctld"))
        return cluster.partition("compute")["MaxTime"]

    eventually(limit, lambda seen: seen == "00:55:00", "MaxTime", SOON)
    cluster.juju.config("compute", reset="partition-config")
    cluster.fire(cluster.leader("compute"))
    eventually(limit, lambda seen: seen == "UNLIMITED", "MaxTime", SOON)


def key_secret(cluster):
    bags = str(cluster.databags())
    return re.search(r"auth_secret_id\W+(secret:[\w/-]+)", bags).group(1)


def forget_the_secret(cluster):
    """Juju forgets the content of every charm secret when a unit that owns one is removed."""
    cluster.local("lose", "secret-content")
    count = len(cluster.juju.status().get_units("compute"))
    if count < 2:
        cluster.add_unit("compute")
    last = sorted(cluster.juju.status().get_units("compute"))[-1]
    eventually(lambda: cluster.unit(last).juju_status.current, lambda seen: seen == "idle", f"agent of {last}", 120)
    cluster.juju.exec("secret-add --owner=unit own=secret", unit=last)
    cluster.root(last, "true")
    node = last.replace("/", "-")
    cluster.juju.remove_unit(last)
    eventually(
        lambda: last in cluster.juju.status().get_units("compute"), lambda seen: not seen, f"{last} is there", 120
    )
    # How a node leaves is not this file's matter: whatever is left of it goes by hand.
    try:
        cluster.scontrol("delete", f"nodename={node}")
    except Exception as error:
        assert "Invalid node name" in str(error) or "not found" in str(error), error
