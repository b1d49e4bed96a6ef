"""Accounting: a real slurmdbd with a real MariaDB, and what may happen to either. The controller is played."""
import json

import pytest

from cluster import equals, eventually
from packing import pack_test_charm

UNIT = "slurmdbd/0"
WELL = "^active: accounts for controller$"


@pytest.fixture(scope="module")
def accounting(new_cluster, tmp_path_factory):
    cluster = new_cluster()
    directory = tmp_path_factory.mktemp("charms")
    for charm, application in [("mariadb", "mysql"), ("accounting-controller", "controller")]:
        cluster.juju.deploy(pack_test_charm(directory, charm), application, to=cluster.place(1))
    cluster.deploy_charm("slurmdbd", "slurmdbd", 1)
    cluster.await_message(UNIT, "^blocked: no (database|controller): `juju integrate slurmdbd (mysql|slurmctld)`$", 240)
    cluster.juju.integrate("slurmdbd", "controller")
    cluster.await_message(UNIT, "^blocked: no database: `juju integrate slurmdbd mysql`$", 60)
    assert host(cluster) is None, "nothing is published before slurmdbd serves"
    cluster.juju.integrate("slurmdbd", "mysql")
    cluster.await_message(UNIT, WELL, 240)
    return cluster


def host(cluster):
    """What the controllers are told."""
    shown = json.loads(cluster.juju.cli("show-unit", "controller/0", "--format", "json"))["controller/0"]
    bags = [one["application-data"] for one in shown.get("relation-info", []) if one["endpoint"] == "slurmdbd"]
    return bags[0].get("hostname") if bags else None


def sacctmgr(cluster, *words):
    conf = "SLURM_CONF=/var/lib/slurmdbd-charm/slurm.conf"
    return cluster.root(UNIT, "env", conf, "sacctmgr", *words, seconds=60)


def is_up(cluster):
    """A slurmdbd that is just being restarted is not up, which is an answer."""
    return "is UP" in cluster.shell(UNIT, "SLURM_CONF=/var/lib/slurmdbd-charm/slurm.conf sacctmgr ping 2>&1 || true")


def pid(cluster):
    return cluster.root(UNIT, "systemctl", "show", "--property=MainPID", "slurmdbd").strip()


def conf(cluster):
    return cluster.root(UNIT, "cat", "/etc/slurm/slurmdbd.conf")


@pytest.mark.core
def test_slurmdbd_serves_and_the_controllers_are_told(accounting):
    assert "is UP" in sacctmgr(accounting, "ping")
    expected = accounting.machines()[accounting.machine_of(UNIT)]
    assert host(accounting) == json.dumps(expected)
    said = accounting.act(UNIT, "explain")
    assert said["state"] == "active: accounts for controller"
    assert said["database"].startswith("slurm_acct_db of mysql at ")
    assert said["clusters"] == "none yet"


@pytest.mark.core
def test_secrets_are_in_private_files_and_in_no_log(accounting):
    files = ["slurm.jwks", "jwt_hs256.key", "slurmdbd.conf"]
    shown = accounting.root(UNIT, "stat", "--format=%U:%G %a", *(f"/etc/slurm/{name}" for name in files))
    assert shown.split("\n")[:3] == ["slurm:slurm 600"] * 3
    [password] = [line.split("=", 1)[1] for line in conf(accounting).splitlines() if line.startswith("StoragePass=")]
    assert password not in accounting.juju.cli("debug-log", "--limit", "2000", "--no-tail")


@pytest.mark.core
def test_a_settled_unit_writes_nothing(accounting):
    timers = lambda: accounting.root(UNIT, "systemctl", "list-timers", "--all", "--no-legend")
    eventually(timers, lambda seen: "retry" not in seen, "timers of a settled unit", 120)
    accounting.quiet()
    before = accounting.files(UNIT), pid(accounting)
    accounting.fire(UNIT)
    assert before == (accounting.files(UNIT), pid(accounting))


@pytest.mark.core
def test_parameters_are_taken_and_what_slurmdbd_refuses_is_not(accounting):
    before = pid(accounting)
    accounting.juju.config("slurmdbd", {"slurmdbd-conf-parameters": "PurgeJobAfter=12months"})
    purged = lambda: "PurgeJobAfter          = 12 months" in sacctmgr(accounting, "show", "configuration")
    eventually(purged, bool, "the parameter in effect", 60)
    assert pid(accounting) == before, "a reload will do"
    accepted = conf(accounting)
    for bad, why in [
        ("PurgeJobAfter=hello", "Invalid purge string 'hello'"),
        ("PurgeJobAftr=1", "unrecognized key: PurgeJobAftr"),
        ("StoragePass=mine", "key `StoragePass` is set by the charm"),
    ]:
        accounting.juju.config("slurmdbd", {"slurmdbd-conf-parameters": bad})
        accounting.await_message(UNIT, f"^blocked: option slurmdbd-conf-parameters: .*{why}", 60)
        assert (conf(accounting), pid(accounting)) == (accepted, before)
    # It is read well, and the start fails with it.
    accounting.juju.config("slurmdbd", {"slurmdbd-conf-parameters": "StorageParameters=SSL_CA=/nowhere"})
    accounting.quiet()
    accounting.juju.config("slurmdbd", {"slurmdbd-conf-parameters": ""})
    accounting.await_message(UNIT, WELL, 120)
    assert "PurgeJobAfter" not in conf(accounting)


@pytest.mark.core
def test_a_rotated_password_is_taken_up(accounting):
    before = conf(accounting)
    accounting.act("mysql/0", "rotate-password")
    eventually(lambda: conf(accounting) != before, bool, "another password", 60)
    accounting.await_message(UNIT, WELL, 90)
    eventually(lambda: is_up(accounting), bool, "slurmdbd answers", 60)


@pytest.mark.core
def test_a_rotated_key_is_loaded(accounting):
    keys = lambda: accounting.root(UNIT, "cat", "/etc/slurm/slurm.jwks")
    before, process = keys(), pid(accounting)
    accounting.act("controller/0", "rotate-key")
    eventually(keys, lambda seen: seen != before, "another key", 60)
    eventually(lambda: pid(accounting), lambda seen: seen != process, "another process", 60)
    accounting.await_message(UNIT, WELL, 60)


@pytest.mark.core
def test_a_database_that_is_away_takes_nothing_back(accounting):
    published, process = host(accounting), pid(accounting)
    accounting.root("mysql/0", "systemctl", "stop", "mariadb")
    accounting.fire(UNIT)
    accounting.await_message(UNIT, "^waiting: for mysql to answer slurmdbd$", 60)
    assert (host(accounting), pid(accounting)) == (published, process)
    accounting.root("mysql/0", "systemctl", "start", "mariadb")
    # By the charm's own timer.
    accounting.await_message(UNIT, WELL, 120)


def test_a_slurmdbd_that_died_is_started_again(accounting):
    accounting.root(UNIT, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmdbd")
    state = lambda: accounting.shell(UNIT, "systemctl is-active slurmdbd || true").strip()
    eventually(state, equals("active"), "slurmdbd", 30)
    accounting.await_message(UNIT, WELL, 60)


def test_a_machine_that_was_rebooted_accounts_again(accounting):
    accounting.reboot(UNIT)
    eventually(lambda: is_up(accounting), bool, "slurmdbd answers", 60)
    accounting.await_message(UNIT, WELL, 90)


def test_a_second_unit_is_refused_by_name(accounting):
    process = pid(accounting)
    accounting.add_unit("slurmdbd")
    refusal = "^blocked: only one unit can run slurmdbd, and slurmdbd/0 does: remove slurmdbd/1$"
    accounting.await_message("slurmdbd/1", refusal, 240)
    assert accounting.shell("slurmdbd/1", "systemctl is-active slurmdbd || true").strip() == "inactive"
    assert pid(accounting) == process
    accounting.juju.remove_unit("slurmdbd/1")
    eventually(lambda: list(accounting.juju.status().get_units("slurmdbd")), equals([UNIT]), "units", 120)
    accounting.await_message(UNIT, WELL, 60)


def test_relations_that_end_take_keys_and_password_along(accounting):
    accounting.juju.remove_relation("slurmdbd", "controller")
    accounting.await_message(UNIT, "^blocked: no controller", 60)
    left = accounting.shell(UNIT, "ls /etc/slurm; systemctl is-active slurmdbd || true")
    assert "slurm.jwks" not in left and "jwt" not in left and "inactive" in left
    accounting.juju.remove_relation("slurmdbd", "mysql")
    eventually(lambda: accounting.shell(UNIT, "ls /etc/slurm"), lambda seen: "slurmdbd.conf" not in seen, "files", 60)
    gone = lambda: accounting.juju.status().apps["slurmdbd"].relations
    eventually(gone, lambda seen: "slurmctld" not in seen and "database" not in seen, "relations", 60)
    accounting.juju.integrate("slurmdbd", "mysql")
    accounting.juju.integrate("slurmdbd", "controller")
    # Agents of Juju 4.0 are deaf to a relation that is made again. Ours leaves a copy for such a case, which a database
    # does not know of: its agent and ours have to start anew.
    for unit in ("mysql/0", UNIT):
        accounting.reboot(unit)
    accounting.await_message(UNIT, WELL, 180)
