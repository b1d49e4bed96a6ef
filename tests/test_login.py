"""Login nodes: users submit from them, and they follow the controllers through whatever happens to these."""
import json

import pytest

from cluster import LITTLE, equals, eventually

UNITS = 1
FETCHED = "/run/slurm/conf/slurm.conf"
WELL = "^active: login node of slurmctld$"


@pytest.fixture(scope="module")
def login(cluster):
    """The cluster with a login node, which was deployed beside it and integrated afterwards."""
    cluster.deploy_charm("sackd", "login", 1)
    cluster.await_message("login/0", "^blocked: no controller: `juju integrate login slurmctld`$", 120)
    cluster.juju.integrate("login", "slurmctld")
    cluster.settle(slurmctld=1, compute=1, login=1)
    return cluster


def fetched(cluster):
    return cluster.on("login/0", "cat", FETCHED)


def assert_follows(cluster):
    """What clients read on the login node is what the controllers have."""
    eventually(lambda: fetched(cluster) == cluster.slurm_conf(), bool, "configuration of the login node", 60)
    cluster.await_message("login/0", WELL)


def change_partition(cluster, minutes):
    cluster.juju.config("compute", {"partition-config": f"MaxTime={minutes}"})
    eventually(lambda: f"MaxTime={minutes}" in cluster.slurm_conf(), bool, "the changed partition", 60)


@pytest.mark.core
def test_a_user_submits_from_the_login_node(login):
    node = login.machines()[login.machine_of("compute/0")]
    assert login.on("login/0", "srun", LITTLE, "hostname").strip() == node
    job = login.on("login/0", "sbatch", "--parsable", "--chdir=/tmp", LITTLE, "--wrap", "hostname").strip()
    login.await_job(job, "COMPLETED")
    assert login.job(job)["UserId"].startswith("ubuntu(")


@pytest.mark.core
def test_the_login_node_runs_no_slurmd_and_its_key_is_private(login):
    assert login.on("login/0", "sinfo", "--noheader", "--Node", "--format=%N").split() == ["compute-0"]
    assert login.root("login/0", "stat", "--format=%U:%G %a", "/etc/slurm/slurm.jwks").strip() == "slurm:slurm 600"
    held = login.root("login/0", "apt-mark", "showhold").split()
    assert held == ["sackd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"]
    with_key = login.root("login/0", "cat", "/etc/slurm/slurm.jwks")
    assert with_key == login.root("slurmctld/0", "cat", "/etc/slurm/slurm.jwks")


@pytest.mark.core
def test_a_token_makes_a_client_the_user_it_is_for(login):
    """It is in a secret, and neither in the answer nor in a log."""
    answer = login.act("slurmctld/0", "token", user="ubuntu", lifespan=600)
    shown = json.loads(login.juju.cli("show-secret", "--reveal", "--format=json", answer["secret"]))
    [secret] = shown.values()
    token = secret["content"]["Data"]["token"]
    assert token not in json.dumps(answer)
    assert token not in login.juju.cli("debug-log", "--limit", "500", "--no-tail")
    words = ["sudo", "env", f"SLURM_JWT={token}", "sbatch", "--parsable", "--chdir=/tmp", LITTLE, "--wrap", "true"]
    job = login.on("login/0", *words).strip()
    login.await_job(job, "COMPLETED")
    assert login.job(job)["UserId"].startswith("ubuntu("), "root is ubuntu with this token"
    assert "max-token-lifespan" in login.refuse("slurmctld/0", "token", user="ubuntu", lifespan=100000)


@pytest.mark.core
def test_a_changed_configuration_reaches_the_login_node(login):
    change_partition(login, 61)
    assert_follows(login)


@pytest.mark.core
def test_a_slurmctld_that_was_killed_has_a_login_node_that_follows(login):
    """It saves the login nodes that it knows only with its nodes, and may have forgotten this one."""
    login.root("slurmctld/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmctld")
    login.await_message("slurmctld/0", "^active: primary - UP$")
    state = lambda: login.on("slurmctld/0", "sinfo", "--noheader", "--format=%T").strip()
    eventually(state, equals("idle"), "node", 60)
    change_partition(login, 62)
    assert_follows(login)


def test_a_reload_costs_no_call_of_a_client(login):
    """A restart would: the socket of sackd is away meanwhile. Keys are loaded by reloads."""
    script = """
        for number in $(seq 100); do scontrol ping >/dev/null 2>&1 || echo failed; done &
        for number in 1 2 3; do sleep 0.3; systemctl reload sackd; done
        wait
    """
    assert login.shell("login/0", script) == ""


def test_a_reload_loads_the_key(login):
    """With another key nobody is let in, and with the right one everybody is again."""
    script = """
        cp --preserve=all /etc/slurm/slurm.jwks /root/slurm.jwks
        sed -i 's/"k":"...../"k":"AAAAA/' /etc/slurm/slurm.jwks
        cmp --silent /etc/slurm/slurm.jwks /root/slurm.jwks && exit 1
        systemctl reload sackd
        for try in $(seq 60); do sinfo >/dev/null 2>&1 || break; sleep 0.5; done
        [ "$try" = 60 ] && echo let in
        cp --preserve=all /root/slurm.jwks /etc/slurm/slurm.jwks && rm /root/slurm.jwks
        systemctl reload sackd
        for try in $(seq 60); do sinfo >/dev/null 2>&1 && break; sleep 0.5; done
        sinfo --noheader --format=%P
    """
    assert login.shell("login/0", script).split() == ["compute*"]


def test_a_settled_login_node_writes_nothing(login):
    """A second hook of the same kind leaves every file and every daemon as it is."""
    timers = lambda: login.root("login/0", "systemctl", "list-timers", "--all", "--no-legend")
    eventually(timers, lambda seen: "retry" not in seen, "timers of a settled unit", 120)
    login.quiet()
    before = login.files("login/0"), login.root("login/0", "systemctl", "show", "--property=MainPID", "sackd")
    login.fire("login/0")
    assert before == (login.files("login/0"), login.root("login/0", "systemctl", "show", "--property=MainPID", "sackd"))
    assert "retry" not in timers()


def test_the_action_explains(login):
    said = login.act("login/0", "explain")
    host = login.machines()[login.machine_of("slurmctld/0")]
    assert said["controllers"] == f"{host} answers"
    assert (said["state"], said["configuration"]) == ("active: login node of slurmctld", "that of the controllers")


def test_a_login_node_says_that_no_controller_answers(login):
    login.root("slurmctld/0", "systemctl", "stop", "slurmctld")
    login.fire("login/0")
    login.await_message("login/0", "^waiting: for .*:6817 to answer$")
    login.root("slurmctld/0", "systemctl", "start", "slurmctld")
    # By the charm's own timer.
    login.await_message("login/0", WELL, 90)


def test_a_machine_that_was_rebooted_is_a_login_node_again(login):
    login.reboot("login/0")
    eventually(lambda: login.on("login/0", "srun", LITTLE, "hostname").strip(), bool, "a job from the login node", 60)


def test_a_relation_that_ends_takes_the_key_along_and_one_made_again_brings_it_back(login):
    login.juju.remove_relation("login", "slurmctld")
    login.await_message("login/0", "^blocked: no controller")
    assert login.shell("login/0", "ls /etc/slurm/slurm.jwks 2>/dev/null || true") == ""
    assert login.shell("login/0", "systemctl is-active sackd || true").strip() == "inactive"
    eventually(
        lambda: login.juju.status().apps["login"].relations.get("slurmctld"), lambda seen: not seen, "the relation", 60
    )
    login.juju.integrate("login", "slurmctld")
    login.await_message("login/0", WELL, 120)
    assert login.on("login/0", "srun", LITTLE, "hostname").strip()


def test_a_login_unit_that_is_removed_leaves_the_cluster_as_it_is(login):
    job = login.start_job("compute-0")
    login.juju.remove_unit("login/0")
    eventually(lambda: login.juju.status().get_units("login"), lambda seen: not seen, "units of login", 120)
    login.assert_unharmed(job)
    login.cancel(job)
    login.await_message("slurmctld/0", "^active: primary - UP")


@pytest.mark.slow
def test_a_login_node_on_juju_3_6(new_cluster):
    cluster = new_cluster("3.6")
    cluster.deploy(units=1)
    cluster.deploy_charm("sackd", "login", 1)
    cluster.juju.integrate("login", "slurmctld")
    cluster.settle(slurmctld=1, compute=1, login=1)
    assert cluster.on("login/0", "srun", LITTLE, "hostname").strip()
    change_partition(cluster, 63)
    assert_follows(cluster)
    cluster.juju.cli("remove-application", "login", "--no-prompt")
    eventually(lambda: "login" in cluster.juju.status().apps, lambda seen: not seen, "the application", 120)
