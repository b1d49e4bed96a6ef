"""Login node, accounting and REST API beside one controller: their relations are made, broken and made again, in any
order, on either Juju."""
import itertools
import json

import jubilant
import pytest

import host
from cluster import LITTLE, equals, eventually
from packing import pack_test_charm
from test_rest import ask
from test_rotation import token
from test_whole import records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host.is_juju_local(), reason="only juju-local can be told which Juju to be"),
]

UNITS = {"login": "login/0", "slurmdbd": "slurmdbd/0", "rest": "rest/0"}
WELL = {
    "login": "^active: login node of slurmctld$",
    "slurmdbd": "^active: accounts for slurmctld$",
    "rest": "^active: REST API of slurmctld, v0[.]0[.][0-9]+$",
}


@pytest.fixture(scope="module", params=["4.0", "3.6"])
def cluster(request, new_cluster, tmp_path_factory):
    """Everything deployed, and nothing but the node and the database integrated."""
    cluster = new_cluster(request.param)
    database = pack_test_charm(tmp_path_factory.mktemp("charms"), "mariadb")
    cluster.juju.deploy(database, "mysql", to=cluster.place(1))
    for charm, application in [("slurmdbd", "slurmdbd"), ("slurmrestd", "rest"), ("sackd", "login")]:
        cluster.deploy_charm(charm, application, 1)
    cluster.juju.integrate("slurmdbd", "mysql")
    cluster.deploy(units=1)
    return cluster


def integrate(cluster, applications):
    for application in applications:
        cluster.juju.integrate(application, "slurmctld")
    for application in applications:
        cluster.await_message(UNITS[application], WELL[application], 240)


def part(cluster, applications):
    for application in applications:
        cluster.juju.remove_relation(application, "slurmctld")
    for application in applications:
        cluster.await_message(UNITS[application], "^blocked: no controller", 120)
    related = lambda: cluster.juju.status().apps["slurmctld"].relations
    eventually(related, lambda seen: not {"sackd", "slurmdbd", "slurmrestd"} & set(seen), "the end of relations", 120)


def assert_works(cluster):
    """A user submits from the login node, the job is in the books, and the REST API says so."""
    assert cluster.on("login/0", "srun", LITTLE, "hostname").strip()
    job, version = records(cluster), cluster.message("rest/0").split()[-1]
    seen = lambda: ask(cluster, f"/slurmdb/{version}/job/{job}", token(cluster))
    # Agents of Juju 4.0 are deaf to a relation that is made again: that there is accounting is seen by the timer.
    answer = eventually(seen, lambda seen: seen["code"] == 200, "an answer of the REST API", 150)
    assert [job["job_id"] for job in answer["body"]["jobs"]] == [int(job)]


def secrets(cluster, unit):
    """Where the secrets are that the unit was told of by its controllers."""
    shown = json.loads(cluster.juju.cli("show-unit", unit, "--format", "json"))[unit]
    [bag] = [one["application-data"] for one in shown["relation-info"] if one["endpoint"] == "slurmctld"]
    uris = [json.loads(bag.get(key, "null")) for key in ("auth_secret_id", "jwt_secret_id")]
    return [uri for uri in uris if uri]


def reads(cluster, unit, uri):
    try:
        return bool(cluster.juju.exec(f"secret-get {uri}", unit=unit).stdout.strip())
    except jubilant.TaskError:
        return False


def test_relations_end_and_are_made_again_in_any_order(cluster):
    job = cluster.start_job("compute-0")
    cluster.await_saved(job)
    for order in itertools.permutations(UNITS):
        integrate(cluster, order)
        assert_works(cluster)
        part(cluster, order)
        assert cluster.on("slurmctld/0", "srun", LITTLE, "hostname").strip()
        eventually(lambda: "AccountingStorage" in cluster.slurm_conf(), equals(False), "accounting in slurm.conf", 120)
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_secrets_are_not_readable_when_the_relation_has_ended(cluster):
    integrate(cluster, UNITS)
    told = {unit: secrets(cluster, unit) for unit in (UNITS["login"], UNITS["slurmdbd"])}
    assert [len(uris) for uris in told.values()] == [1, 2]
    assert all(reads(cluster, unit, uri) for unit, uris in told.items() for uri in uris)
    part(cluster, UNITS)
    assert not any(reads(cluster, unit, uri) for unit, uris in told.items() for uri in uris)
