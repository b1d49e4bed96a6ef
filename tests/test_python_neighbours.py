"""Our controller with the Python charms at its other endpoints: a login node, accounting and the REST API.

They are in `tests/charms` and do as the Python charms of August 2026: they know one key at a time, say nothing about
it, and take a configuration only as slurmutils has it.
"""
import pytest

import host
from cluster import LITTLE, equals, eventually
from packing import pack_test_charm
from test_rest import ask
from test_rotation import await_rotated, ids, token
from test_whole import records

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="charms with ops are packed for its machines")

# Application → charm.
NEIGHBOURS = {"login": "python_sackd", "slurmdbd": "python_slurmdbd", "rest": "python_slurmrestd"}
KEEPERS = ("slurmctld/0", "compute/0", *(f"{application}/0" for application in NEIGHBOURS))
# Version of the REST API that every Slurm in question speaks.
API = "v0.0.42"
TOKEN_KEY = "/etc/slurm/jwt_hs256.key"


@pytest.fixture(scope="module")
def cluster(new_cluster, tmp_path_factory):
    """Everything at once, in whatever order it comes."""
    cluster, directory = new_cluster(), tmp_path_factory.mktemp("charms")
    cluster.deploy_controller()
    cluster.deploy_compute()
    for application, charm in NEIGHBOURS.items():
        cluster.juju.deploy(pack_test_charm(directory, charm), application)
    for application in ("compute", *NEIGHBOURS):
        cluster.juju.integrate("slurmctld", application)
    cluster.settle(slurmctld=1, compute=1, **dict.fromkeys(NEIGHBOURS, 1))
    eventually(lambda: "AccountingStorageHost" in cluster.slurm_conf(), bool, "accounting in slurm.conf", 120)
    cluster.await_message("slurmctld/0", "^active: primary - UP$", 120)
    return cluster


def assert_submits(cluster):
    """A user on the login node runs a program on the compute node."""
    node = cluster.machines()[cluster.machine_of("compute/0")]
    assert cluster.on("login/0", "timeout", "60", "srun", LITTLE, "hostname", seconds=90).strip() == node


def assert_serves(cluster):
    """Whoever has a token reaches slurmctld and slurmdbd through the REST API, and nobody else does."""
    header = token(cluster)
    ping = ask(cluster, f"/slurm/{API}/ping", header)
    assert ping["code"] == 200 and ping["body"]["pings"][0]["responding"], ping
    jobs = ask(cluster, f"/slurmdb/{API}/jobs", header)
    assert jobs["code"] == 200 and not jobs["body"]["errors"], jobs
    assert ask(cluster, f"/slurm/{API}/jobs")["code"] == 401


def assert_well(cluster):
    """All three work, and neither they nor the controller complain."""
    cluster.await_message("slurmctld/0", "^active: primary - UP$", 120)
    cluster.settle(slurmctld=1, compute=1, **dict.fromkeys(NEIGHBOURS, 1))
    assert_submits(cluster)
    records(cluster)
    assert_serves(cluster)
    assert cluster.message("slurmctld/0") == "active: primary - UP"


def rotate(cluster):
    """They replace the old key before anybody knows that they have. Juju says when none of them tracks it any more."""
    [old] = ids(cluster, "slurmctld/0")
    cluster.act("slurmctld/0", "rotate-auth-key")
    await_rotated(cluster, old, KEEPERS)


def restart_agent(cluster, unit):
    cluster.root(unit, "systemctl", "restart", f"jujud-machine-{cluster.machine_of(unit)}")


def starts(cluster, unit, service):
    """How often a service has been started, by systemd's own words."""
    journal = cluster.root(unit, "journalctl", "--quiet", "--no-pager", f"--unit={service}", "--output=cat")
    return sum(line.startswith(f"Started {service}.service") for line in journal.splitlines())


def test_a_user_submits_from_a_python_login_node(cluster):
    assert_submits(cluster)
    job = cluster.on("login/0", "sbatch", "--parsable", "--chdir=/tmp", LITTLE, "--wrap", "hostname").strip()
    cluster.await_job(job, "COMPLETED")
    assert cluster.job(job)["UserId"].startswith("ubuntu(")


def test_a_python_slurmdbd_has_the_record_of_a_job(cluster):
    records(cluster)
    assert cluster.message("slurmctld/0") == "active: primary - UP"


def test_a_token_opens_a_python_rest_api(cluster):
    assert_serves(cluster)


@pytest.mark.slow
def test_python_neighbours_have_the_new_key_alone_and_work_on(cluster):
    rotate(cluster)
    assert_well(cluster)


@pytest.mark.slow
def test_a_new_token_key_reaches_a_python_slurmdbd(cluster):
    key = lambda unit: cluster.root(unit, "sha256sum", TOKEN_KEY).split()[0]
    before = key("slurmctld/0")
    assert key("slurmdbd/0") == before
    cluster.act("slurmctld/0", "rotate-jwt-key")
    eventually(lambda: key("slurmdbd/0"), lambda seen: seen != before, "another key at slurmdbd", 90)
    assert key("slurmdbd/0") == key("slurmctld/0")
    # A slurmdbd that is just being restarted is asked again.
    eventually(lambda: ask(cluster, f"/slurmdb/{API}/jobs", token(cluster))["code"], equals(200), "an answer", 90)
    assert_well(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("application", NEIGHBOURS)
def test_a_python_neighbour_whose_relation_is_made_again_works_again(cluster, application):
    cluster.juju.remove_relation("slurmctld", application)
    related = lambda: cluster.juju.status().apps[application].relations.get("slurmctld")
    eventually(related, lambda seen: not seen, "the end of the relation", 120)
    cluster.quiet()
    cluster.juju.integrate("slurmctld", application)
    cluster.quiet()
    # A known limit of the Python charms with Juju 4.0, whose agents are deaf to a relation that is made again: ours
    # leave a copy in their unit bags for such a case, and the Python charms neither look there nor leave one. So their
    # agent has to start anew, and ours as well where it is to hear something from them.
    restart_agent(cluster, f"{application}/0")
    if application == "slurmdbd":
        restart_agent(cluster, "slurmctld/0")
    eventually(lambda: "AccountingStorageHost" in cluster.slurm_conf(), bool, "accounting in slurm.conf", 120)
    assert_well(cluster)


@pytest.mark.slow
def test_a_rotation_reaches_python_neighbours_whose_relations_were_made_again(cluster):
    rotate(cluster)
    assert_well(cluster)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "service", "expected"),
    [
        # sackd gets every configuration from slurmctld. A Python controller leaves this bag alone.
        ("login/0", "sackd", 0),
        # One event, and so no copy of the bag for agents that may be deaf to it: that is for charms that read one.
        ("rest/0", "slurmrestd", 1),
    ],
)
def test_a_changed_partition_restarts_no_more_than_with_a_python_controller(cluster, unit, service, expected):
    """Whoever calls on the login node while sackd starts again is told that there is no token for the call."""
    assert_well(cluster)
    before = starts(cluster, unit, service)
    change = f"MaxTime={70 + expected}"
    cluster.juju.config("compute", {"partition-config": change})
    told = lambda: cluster.shell("rest/0", "cat /etc/slurm/slurm.conf*")
    eventually(told, lambda seen: change.lower() in seen, "the changed partition at slurmrestd", 90)
    cluster.quiet()
    assert starts(cluster, unit, service) - before == expected
