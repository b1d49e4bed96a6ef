"""One of each: accounting and the REST API come to a cluster whose jobs run, are away, go and come again."""
import json
import re

import pytest

from cluster import LITTLE, equals, eventually
from packing import pack_test_charm
from test_rest import ask, version

UNITS = 1


@pytest.fixture(scope="module")
def whole(cluster, tmp_path_factory):
    """The cluster with everything beside it, of which slurmctld knows the login node alone."""
    database = pack_test_charm(tmp_path_factory.mktemp("charms"), "mariadb")
    cluster.juju.deploy(database, "mysql", to=cluster.place(1))
    cluster.deploy_charm("slurmdbd", "slurmdbd", 1)
    cluster.deploy_charm("slurmrestd", "rest", 1)
    cluster.deploy_charm("sackd", "login", 1)
    cluster.juju.integrate("slurmdbd", "mysql")
    cluster.juju.integrate("login", "slurmctld")
    return cluster


def sacct(cluster, job):
    """What slurmdbd has about a job; what it complains about, if it does not answer."""
    words = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=JobID,State"]
    return cluster.shell("slurmctld/0", f"{' '.join(words)} 2>&1 || true", seconds=90).strip()


def submit(cluster):
    words = ["sbatch", "--parsable", "--chdir=/tmp", LITTLE, "--output=/dev/null", "--wrap", "true"]
    return cluster.on("login/0", *words).strip()


def records(cluster):
    """A job of now that is in the books, which only slurmdbd can say."""
    job = submit(cluster)
    eventually(lambda: sacct(cluster, job), lambda seen: seen == f"{job}|COMPLETED", "the record of the job", 90)
    return job


def identity(cluster):
    return cluster.root("slurmctld/0", "cat", "/var/lib/slurm/checkpoint/state/clustername")


@pytest.mark.core
def test_accounting_comes_to_a_cluster_whose_jobs_run(whole, job):
    """slurmctld has made an identity up, and the database has another one: bare Slurm ends here."""
    started = ["systemctl", "show", "--property=ActiveEnterTimestampMonotonic,NRestarts", "slurmctld"]
    before, made_up = whole.root("slurmctld/0", *started), identity(whole)
    whole.juju.integrate("slurmdbd", "slurmctld")
    whole.settle(slurmctld=1, compute=1, login=1, slurmdbd=1)
    whole.await_message("slurmdbd/0", "^active: accounts for slurmctld$", 240)
    eventually(lambda: "AccountingStorageHost" in whole.slurm_conf(), bool, "accounting in slurm.conf", 120)
    records(whole)
    assert identity(whole) != made_up
    assert whole.root("slurmctld/0", *started) == before, "slurmctld was not started again"
    eventually(lambda: sacct(whole, job), lambda seen: seen == f"{job}|RUNNING", "its record", 60)
    assert whole.message("slurmctld/0").startswith("active: primary - UP")
    assert "accounting" not in whole.message("slurmctld/0")


@pytest.mark.core
def test_a_token_opens_the_rest_api(whole):
    whole.juju.integrate("rest", "slurmctld")
    whole.await_message("rest/0", "^active: REST API of slurmctld, v0[.]0[.][0-9]+$", 120)
    answer = whole.act("slurmctld/0", "token", user="ubuntu", lifespan=600)
    shown = json.loads(whole.juju.cli("show-secret", "--reveal", "--format=json", answer["secret"]))
    [token] = [secret["content"]["Data"]["token"] for secret in shown.values()]
    ping = ask(whole, f"/slurm/{version(whole)}/ping", token)
    assert ping["code"] == 200 and ping["body"]["pings"][0]["responding"], ping
    jobs = ask(whole, f"/slurmdb/{version(whole)}/jobs", token)
    assert jobs["code"] == 200 and jobs["body"]["jobs"], jobs
    assert ask(whole, f"/slurm/{version(whole)}/jobs")["code"] == 401


@pytest.mark.core
def test_records_are_kept_while_slurmdbd_is_away_and_nothing_hangs(whole, job):
    """A reconfigure would wait for the connection to slurmdbd, and slurmctld would serve nobody for minutes."""
    whole.local("machine", "poweroff", whole.machine_of("slurmdbd/0"))
    ended = submit(whole)
    whole.await_job(ended, "COMPLETED")
    whole.fire("slurmctld/0")
    whole.await_message("slurmctld/0", "; accounting: slurmdbd does not answer, [0-9]+ records are kept for it$", 90)
    whole.juju.config("compute", {"partition-config": "MaxTime=79"})
    held = "^waiting: for slurmdbd at .*: config changes on hold, slurmctld would hang$"
    whole.await_message("slurmctld/0", held, 90)
    whole.await_job(submit(whole), "COMPLETED")
    whole.local("machine", "poweron", whole.machine_of("slurmdbd/0"))
    eventually(lambda: sacct(whole, ended), lambda seen: seen == f"{ended}|COMPLETED", "the record of then", 240)
    eventually(lambda: "MaxTime=79" in whole.slurm_conf(), bool, "the change of then", 180)
    whole.await_message("slurmctld/0", "^active: primary - UP$", 180)


# The files of the database on a small disk of their own.
SMALL_DISK = """
systemctl stop mariadb
mv /var/lib/mysql /var/lib/mysql.before
mkdir /var/lib/mysql
mount -t tmpfs -o size=260m tmpfs /var/lib/mysql
cp -a /var/lib/mysql.before/. /var/lib/mysql
chown mysql:mysql /var/lib/mysql
systemctl start mariadb
"""
# How a job was submitted is part of its record, and this is more than a page of the database holds.
LARGE_JOBS = """
large=$(head -c 20000 /dev/zero | tr '\\0' x)
for job in $(seq 30); do
    sbatch --parsable --chdir=/tmp --mem=50 --output=/dev/null --wrap "true # $large"
done
"""


@pytest.mark.slow
def test_records_wait_for_a_database_whose_disk_is_full(whole, job):
    """MariaDB ends when it finds no room, and cannot start either. systemd tries again until there is some."""
    whole.shell("mysql/0", SMALL_DISK)
    records(whole)
    whole.shell("mysql/0", "dd if=/dev/zero of=/var/lib/mysql/ballast bs=64k 2>/dev/null || true")
    ended = whole.on("login/0", "sh", "-es", stdin=LARGE_JOBS).split()
    for one in ended:
        whole.await_job(one, "COMPLETED")
    await_seen(whole, "slurmdbd/0", "^waiting: for mysql to answer slurmdbd$")
    await_seen(whole, "slurmctld/0", "^active: primary - UP; accounting: .*[0-9]+ records")
    whole.shell("mysql/0", "rm /var/lib/mysql/ballast")
    complete = lambda: {sacct(whole, one) for one in ended}
    eventually(complete, equals({f"{one}|COMPLETED" for one in ended}), "the records of then", 180)
    whole.await_message("slurmdbd/0", "^active: accounts for slurmctld$", 120)
    whole.await_message("slurmctld/0", "^active: primary - UP$", 120)


def await_seen(cluster, unit, pattern):
    """Waits for a status that lasts for a moment only: a database whose disk is full starts, answers, and ends again.
    So the unit looks again each time."""

    def look():
        cluster.fire(unit)
        return cluster.message(unit)

    eventually(look, re.compile(pattern).search, f"status of {unit}", 180)


def test_accounting_goes_and_comes_again(whole, job):
    kept = records(whole)
    whole.juju.remove_relation("slurmdbd", "slurmctld")
    eventually(lambda: "AccountingStorage" not in whole.slurm_conf(), bool, "slurm.conf without accounting", 120)
    whole.await_job(submit(whole), "COMPLETED")
    related = lambda: whole.juju.status().apps["slurmdbd"].relations.get("slurmctld")
    eventually(related, lambda seen: not seen, "the end of the relation", 120)
    whole.juju.integrate("slurmdbd", "slurmctld")
    eventually(lambda: "AccountingStorageHost" in whole.slurm_conf(), bool, "accounting again", 240)
    records(whole)
    assert sacct(whole, kept) == f"{kept}|COMPLETED"
