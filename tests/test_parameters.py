"""`slurm-conf-parameters` and its kin: good values reach Slurm, bad ones are taken back and named, jobs and clients
never notice."""
import re

import pytest

from cluster import eventually, slow

UNITS = 1
OPTION = "slurm-conf-parameters"


def configure(cluster, text, option=OPTION):
    cluster.juju.config("slurmctld", {option: text})


def reset(cluster, option=OPTION):
    cluster.restore("slurmctld", option)
    cluster.settle(slurmctld=1, compute=1)


def await_setting(cluster, key, expected):
    return eventually(lambda: cluster.setting(key), lambda seen: seen == expected, f"{key} of slurmctld", 60)


def assert_clients_work(cluster):
    assert len(cluster.hosts(nodes=1)) == 1
    for unit in ("slurmctld/0", "compute/0"):
        assert "compute" in cluster.on(unit, "sinfo")


@pytest.mark.core
def test_good_parameters_are_in_slurm_while_they_are_set(cluster):
    before = cluster.slurm_conf()
    limit = cluster.setting("MaxJobCount")
    job = cluster.start_job("compute-0")
    # Any letter case, comments, blank lines: what slurm.conf takes.
    configure(cluster, "# a remark\nmaxjobcount=4321\n\nSchedulerParameters=bf_continue,defer\n")
    await_setting(cluster, "MaxJobCount", "4321")
    assert cluster.setting("SchedulerParameters") == "bf_continue,defer"
    cluster.await_message("slurmctld/0", "^active: primary - UP")
    reset(cluster)
    await_setting(cluster, "MaxJobCount", limit)
    assert cluster.slurm_conf() == before
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_a_default_of_the_charm_can_be_outweighed(cluster):
    before = cluster.slurm_conf()
    configure(cluster, "ReturnToService=2")
    await_setting(cluster, "ReturnToService", "2")
    reset(cluster)
    await_setting(cluster, "ReturnToService", "1")
    assert cluster.slurm_conf() == before


def test_a_line_of_the_administrators_hand_comes_back(cluster):
    cluster.shell("slurmctld/0", "echo 'KillWait=33' >>/etc/slurm/slurm.conf")
    cluster.reconfigure()
    await_setting(cluster, "KillWait", "33 sec")
    configure(cluster, "KillWait=44")
    await_setting(cluster, "KillWait", "44 sec")
    reset(cluster)
    await_setting(cluster, "KillWait", "33 sec")
    assert "KillWait=33" in cluster.slurm_conf()


@pytest.mark.slow
def test_a_changed_value_replaces_the_earlier_one(cluster):
    for count in ("1000", "2000"):
        configure(cluster, f"MaxJobCount={count}")
        await_setting(cluster, "MaxJobCount", count)
    assert cluster.slurm_conf().count("MaxJobCount=") == 1
    reset(cluster)


def test_configless_stays_whatever_else_slurmctld_is_told(cluster):
    configure(cluster, "SlurmctldParameters=idle_on_node_suspend")
    eventually(
        lambda: cluster.setting("SlurmctldParameters"), lambda seen: "idle_on_node_suspend" in seen, "parameters", 60
    )
    assert "enable_configless" in cluster.setting("SlurmctldParameters")
    reset(cluster)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("BogusKey=1", "BogusKey"),
        slow("MaxJobCount=many", "MaxJobCount"),
        ("SchedulerType=sched/nosuch", "sched"),
        slow("MaxJobCount", "MaxJobCount"),
        slow("MaxJobCount=5000\nKillWaiting=3", "KillWaiting"),
    ],
)
def test_bad_parameters_are_taken_back_and_named(cluster, text, named):
    job = cluster.start_job("compute-0")
    before = cluster.slurm_conf()
    limit = cluster.setting("MaxJobCount")
    configure(cluster, text)
    message = cluster.await_message("slurmctld/0", f"^blocked: .*{OPTION}")
    assert named.lower() in message.lower(), message
    cluster.quiet()
    assert cluster.slurm_conf() == before
    assert cluster.setting("MaxJobCount") == limit
    cluster.assert_unharmed(job)
    cluster.cancel(job)
    assert_clients_work(cluster)
    # A restart in between must not be fatal either. One for each value comes to more than systemd takes in half a
    # minute.
    cluster.root("slurmctld/0", "systemctl", "reset-failed", "slurmctld")
    cluster.root("slurmctld/0", "systemctl", "restart", "slurmctld")
    eventually(lambda: cluster.setting("MaxJobCount"), lambda seen: seen == limit, "MaxJobCount", 30)
    # Everything else goes on meanwhile.
    cluster.juju.config("compute", {"partition-config": "MaxTime=99"})
    eventually(lambda: cluster.partition("compute")["MaxTime"], lambda seen: seen == "01:39:00", "MaxTime", 60)
    cluster.restore("compute", "partition-config")
    reset(cluster)


@pytest.mark.parametrize(
    "line",
    [
        "ClusterName=evil",
        "slurmctldhost=evil",
        "Include /etc/passwd",
        "PartitionName=evil Nodes=ALL",
        slow("StateSaveLocation=/tmp"),
        slow("AuthType=auth/none"),
        slow("CredType=cred/none"),
        slow("AuthInfo=cred_expire=1"),
        slow("SlurmUser=root"),
        slow("include=/etc/passwd"),
        slow("NodeName=evil"),
        slow("NodeSet=evil Feature=evil"),
        slow("DownNodes=compute-0"),
    ],
)
def test_what_the_charm_owns_is_refused_by_name(cluster, line):
    before = cluster.slurm_conf(), cluster.reconfigures()
    configure(cluster, line)
    key = re.split(r"[=\s]", line)[0]
    message = cluster.await_message("slurmctld/0", f"(?i)^blocked: .*{OPTION}.*{key}")
    cluster.quiet()
    assert (cluster.slurm_conf(), cluster.reconfigures()) == before, message


@pytest.mark.parametrize(
    "line",
    [
        "MaxJobCount=1",
        "MaxNodeCount=0",
        slow("MaxJobId=2"),
        slow("SlurmdTimeout=1"),
        slow("MpiDefault=bogus"),
        slow("CliFilterPlugins=bogus"),
        slow("TaskPlugin=task/bogus"),
        slow("ProctrackType=proctrack/bogus"),
    ],
)
def test_what_jobs_would_pay_for_is_refused_by_name(cluster, line):
    job = cluster.start_job("compute-0")
    before = cluster.slurm_conf(), cluster.reconfigures()
    configure(cluster, line)
    message = cluster.await_message("slurmctld/0", f"^blocked: .*{OPTION}.*{line.split('=')[0]}")
    cluster.quiet()
    assert (cluster.slurm_conf(), cluster.reconfigures()) == before, message
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_after_all_that_the_cluster_is_as_it_was(cluster):
    reset(cluster)
    cluster.await_message("slurmctld/0", "^active: primary - UP")
    assert_clients_work(cluster)


def test_cgroup_parameters_are_in_cgroup_conf_while_they_are_set(cluster):
    before = cluster.root("slurmctld/0", "cat", "/etc/slurm/cgroup.conf")
    configure(cluster, "AllowedRAMSpace=95", "cgroup-parameters")
    read = lambda: cluster.root("slurmctld/0", "cat", "/etc/slurm/cgroup.conf")
    eventually(read, lambda seen: re.search(r"(?i)^AllowedRAMSpace=95", seen, re.MULTILINE), "cgroup.conf", 60)
    reset(cluster, "cgroup-parameters")
    eventually(read, lambda seen: seen == before, "cgroup.conf", 60)
    assert_clients_work(cluster)


@pytest.mark.parametrize(
    ("option", "value"),
    [("cgroup-parameters", "NoSuchKey=1"), slow("process-tracking", "guesswork"), ("slurm-source", "not a source")],
)
def test_every_bad_option_is_named_at_no_cost(cluster, option, value):
    before = in_effect(cluster)
    configure(cluster, value, option)
    message = cluster.await_message("slurmctld/0", f"^blocked: .*{option}")
    assert value.split("=")[0] in message, message
    cluster.quiet()
    assert in_effect(cluster) == before
    assert_clients_work(cluster)
    reset(cluster, option)
    cluster.await_message("slurmctld/0", "^active: primary - UP")


def in_effect(cluster):
    return cluster.shell("slurmctld/0", "cat /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/slurm/gres.conf")


def test_a_second_controller_without_network_state_says_why_it_waits(cluster):
    cluster.add_unit("slurmctld")
    cluster.await_message("slurmctld/1", "^blocked: .*use-network-state", seconds=180)
    # Until the units have met, it knows of no other.
    cluster.quiet()
    assert cluster.message("slurmctld/0") == "active: primary - UP"
    assert cluster.slurm_conf().count("SlurmctldHost=") == 1
    said = cluster.refuse("slurmctld/1", "resume", nodename="compute-0")
    assert "slurmctld/0" in said, said
    assert_clients_work(cluster)
