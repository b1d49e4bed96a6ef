"""Accidents on the controller, tried on the real thing: what a hand, a disk or a wrong wish does there costs no job and
is told.

One job runs through all of it. Each test leaves the cluster as it found it.
"""
import json

import jubilant
import pytest

from cluster import eventually, for_a_while, slow

CONTROLLER = "slurmctld/0"
OPTION = "slurm-conf-parameters"
STATE = "/var/lib/slurm/checkpoint/state"
UP = "^active: primary - UP"


@pytest.fixture(scope="module")
def witness(cluster):
    """The job that has to live through every accident."""
    job = cluster.start_job("compute-0", seconds=3000)
    cluster.await_saved(job)
    return job


@pytest.fixture(autouse=True)
def unharmed(cluster, witness):
    yield
    cluster.restore("slurmctld", OPTION)
    cluster.restore("compute", "partition-config")
    eventually(lambda: cluster.partition("compute")["MaxTime"], lambda seen: seen == "UNLIMITED", "MaxTime", 60)
    cluster.quiet()
    # That a file was put back is told for some minutes.
    cluster.await_message(CONTROLLER, f"{UP}|put back", 90)
    cluster.assert_unharmed(witness)


@pytest.fixture(autouse=True)
def no_job_is_left():
    """The witness stays; every other job is ended by the test that made it."""


def change(cluster, minutes):
    """A change that needs a reconfigure."""
    cluster.juju.config("compute", {"partition-config": f"MaxTime={minutes}"})


def await_limit(cluster, minutes, seconds=60):
    wanted = f"{minutes // 60:02}:{minutes % 60:02}:00"
    eventually(lambda: cluster.partition("compute")["MaxTime"], lambda seen: seen == wanted, "MaxTime", seconds)


# Jobs


def test_destroy_jobs_spares_tasks_of_the_same_array_elsewhere(cluster):
    array = cluster.submit("sleep 600", "--array=0-1", "--hold")
    # The task that is split off last has the number of the array, and `scancel` of that number ends all of them.
    for task in (0, 1):
        cluster.scontrol("update", f"jobid={array}_{task}", f"reqnodelist=compute-{task}")
    cluster.scontrol("release", array)
    running = lambda: set(
        cluster.on(
            CONTROLLER, "squeue", "--noheader", f"--jobs={array}", "--states=RUNNING", "--format=%i %A %N"
        ).split("\n")[:-1]
    )
    seen = eventually(running, lambda seen: len(seen) == 2, "tasks", 30)
    assert f"{array}_1 {array} compute-1" in seen, seen
    assert cluster.act(CONTROLLER, "destroy-jobs", nodes="compute-1", dry_run=True)["jobs"] == f"{array}_1"
    assert cluster.act(CONTROLLER, "destroy-jobs", nodes="compute-1")["jobs"] == f"{array}_1"
    assert [task.split()[0] for task in running()] == [f"{array}_0"]
    cluster.on(CONTROLLER, "scancel", array)


def test_a_partition_made_with_scontrol_holds_back_what_would_end_its_jobs(cluster):
    cluster.scontrol("create", "partitionname=byhand", "nodes=compute-1", "state=up")
    job = cluster.submit("sleep 600", "--nodelist=compute-1", partition="byhand")
    cluster.await_job(job, "RUNNING")
    change(cluster, 61)
    cluster.await_message(CONTROLLER, "^blocked: .*byhand")
    cluster.assert_unharmed(job)
    cluster.cancel(job)
    # A partition goes when the last record that names it is gone, or at once by the administrator's word.
    eventually(
        lambda: cluster.on(CONTROLLER, "squeue", "--noheader", "--partition=byhand"),
        lambda seen: not seen.strip(),
        "jobs",
        60,
    )
    cluster.scontrol("delete", "partitionname=byhand")
    cluster.fire(CONTROLLER)
    await_limit(cluster, 61)
    cluster.await_message(CONTROLLER, UP)


@pytest.mark.slow
def test_what_scontrol_set_on_partitions_and_nodes_stays(cluster):
    settings = [
        "DefMemPerCPU=100",
        "MaxMemPerCPU=2000",
        "DenyAccounts=nobody",
        "TRESBillingWeights=CPU=2.0",
        "MaxCPUsPerSocket=2",
        "GraceTime=7",
    ]
    defaults = [
        "DefMemPerCPU=0",
        "MaxMemPerCPU=0",
        "AllowAccounts=ALL",
        "TRESBillingWeights=",
        "MaxCPUsPerSocket=UNLIMITED",
        "GraceTime=0",
    ]
    for setting in settings:
        cluster.scontrol("update", "partitionname=compute", setting)
    cluster.scontrol("update", "nodename=compute-1", "weight=9", "availablefeatures=compute,extra")
    cluster.scontrol("update", "nodename=compute-1", "activefeatures=compute")
    picture = lambda: (
        cluster.scontrol("--oneliner", "show", "partition", "compute"),
        *(cluster.node("compute-1")[key] for key in ("weight", "active_features")),
    )
    before = picture()
    cluster.juju.config("slurmctld", {OPTION: "KillWait=44"})
    eventually(lambda: cluster.setting("KillWait"), lambda seen: seen == "44 sec", "KillWait", 60)
    cluster.quiet()
    assert picture() == before
    cluster.scontrol("update", "nodename=compute-1", "weight=1", "availablefeatures=compute")
    for default in defaults:
        cluster.scontrol("update", "partitionname=compute", default)


# Options


@pytest.mark.parametrize(
    "line",
    [
        "PluginDir=/tmp",
        *map(
            slow,
            (
                "HashPlugin=hash/nosuch",
                "CommunicationParameters=DisableIPv4",
                "MessageTimeout=0",
                "JobContainerType=job_container/tmpfs",
                # slurmctld waits a minute for its topology.conf before it gives up.
                "TopologyPlugin=topology/tree",
            ),
        ),
    ],
)
def test_a_parameter_that_nobody_could_work_with_is_put_back(cluster, line):
    before = cluster.slurm_conf()
    cluster.juju.config("slurmctld", {OPTION: line})
    cluster.await_message(CONTROLLER, f"^blocked: .*{OPTION}", 100)
    cluster.quiet()
    assert cluster.slurm_conf() == before
    assert "compute-1" in cluster.on(CONTROLLER, "sinfo", "--noheader", "--Node", "--format=%N")
    cluster.restore("slurmctld", OPTION)
    cluster.await_message(CONTROLLER, UP)


def test_the_state_of_a_partition_follows_its_option_only(cluster):
    state = lambda: cluster.partition("compute")["State"]
    cluster.juju.config("compute", {"partition-config": "State=DRAIN"})
    eventually(state, lambda seen: seen == "DRAIN", "state", 60)
    cluster.restore("compute", "partition-config")
    eventually(state, lambda seen: seen == "UP", "state", 60)
    cluster.quiet()
    # What an administrator sets stays as long as the option does not change.
    cluster.scontrol("update", "partitionname=compute", "state=down")
    change(cluster, 62)
    await_limit(cluster, 62)
    assert state() == "DOWN"
    cluster.scontrol("update", "partitionname=compute", "state=up")


@pytest.mark.slow
def test_an_application_cannot_claim_another_name(cluster):
    relation = json.loads(cluster.juju.exec("relation-ids slurmctld --format json", unit="compute/0").stdout)[0]
    bag = lambda name: " ".join(
        (
            f"partition='{{\"partitionname\": \"{name}\", \"nodes\": [\"{name}\"]}}'",
            f"nodeset='{{\"nodeset\": \"{name}\", \"feature\": \"{name}\"}}'",
        )
    )
    cluster.juju.exec(f"relation-set -r {relation} --app {bag('other')}", unit=cluster.leader("compute"))
    cluster.await_message(CONTROLLER, "^blocked: compute: ")
    assert cluster.partitions() == ["compute"]
    cluster.juju.exec(f"relation-set -r {relation} --app {bag('compute')}", unit=cluster.leader("compute"))
    cluster.await_message(CONTROLLER, UP)


# Files


@pytest.mark.parametrize(
    "damage",
    [
        "head -c 400 {0} > {0}.cut; mv {0}.cut {0}",
        *map(slow, (": > {0}", "rm {0}", "echo 'PartitionName=oops Nodes=nosuch' >> {0}")),
    ],
)
def test_a_damaged_slurm_conf_is_put_back(cluster, damage):
    before, spool = cluster.slurm_conf(), cluster.setting("SlurmdSpoolDir")
    cluster.shell(CONTROLLER, damage.format("/etc/slurm/slurm.conf"))
    cluster.fire(CONTROLLER)
    assert cluster.slurm_conf() == before
    assert cluster.setting("SlurmdSpoolDir") == spool


@pytest.mark.slow
def test_a_comment_in_another_encoding_is_no_error(cluster):
    cluster.shell(CONTROLLER, r"printf '# caf\351\n' >> /etc/slurm/slurm.conf")
    cluster.fire(CONTROLLER)
    change(cluster, 63)
    await_limit(cluster, 63)
    cluster.shell(CONTROLLER, r"sed -i '/^# caf/d' /etc/slurm/slurm.conf")
    cluster.fire(CONTROLLER)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["rm {0}", ": > {0}", "chmod 644 {0}", "chown root:root {0}"])
@pytest.mark.parametrize("key", ["slurm.jwks", "jwt_hs256.key"])
def test_a_damaged_key_is_mended(cluster, key, damage):
    path = f"/etc/slurm/{key}"
    look = f"sha256sum < {path}; stat --format='%a %U:%G' {path}"
    before = cluster.shell(CONTROLLER, look)
    cluster.shell(CONTROLLER, damage.format(path))
    cluster.fire(CONTROLLER)
    assert cluster.shell(CONTROLLER, look) == before


# State


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["rm -r {0}", "find {0} -mindepth 1 -delete", "echo 'another cluster' > {0}/.cluster"])
def test_slurmctld_never_starts_on_a_state_that_is_not_its_own(cluster, witness, loss):
    cluster.shell(CONTROLLER, f"systemctl stop slurmctld; cp -a {STATE} /root/state; {loss.format(STATE)}")
    cluster.root(CONTROLLER, "systemctl", "start", "--no-block", "slurmctld")
    cluster.await_message(CONTROLLER, f"^blocked: {STATE}", 60)
    cluster.fire(CONTROLLER)
    activity = lambda: cluster.shell(CONTROLLER, "systemctl is-active slurmctld || true").strip()
    for_a_while(activity, lambda seen: seen != "active", "slurmctld", 8)
    cluster.shell(CONTROLLER, f"rm -rf {STATE}; mv /root/state {STATE}")
    cluster.fire(CONTROLLER)
    cluster.await_message(CONTROLLER, UP, 90)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lose", "give_back"),
    [
        (f"mount --bind {STATE} {STATE}; mount -o remount,bind,ro {STATE}", f"umount {STATE}"),
        (f"chown -R root:root {STATE}", f"chown -R slurm:slurm {STATE}"),
    ],
)
def test_nothing_is_reconfigured_while_the_state_cannot_be_written(cluster, lose, give_back):
    count = cluster.reconfigures()
    cluster.shell(CONTROLLER, lose)
    try:
        change(cluster, 64)
        cluster.await_message(CONTROLLER, "cannot be written")
        assert cluster.reconfigures() == count
        # What is set meanwhile outlives the reconfigure that follows.
        cluster.scontrol("update", "nodename=compute-1", "weight=7")
    finally:
        cluster.shell(CONTROLLER, give_back)
    await_limit(cluster, 64, 120)
    eventually(lambda: cluster.node("compute-1")["weight"], lambda seen: seen == 7, "weight", 20)
    cluster.scontrol("update", "nodename=compute-1", "weight=1")


# The daemon


@pytest.mark.slow
def test_with_a_taken_port_everybody_is_told_that_nobody_serves(cluster):
    thief = "import signal, socket; s = socket.create_server(('', 6817)); signal.pause()"
    # Connections of the daemon that was there keep the port for a while.
    restart = "--property=Restart=on-failure --property=RestartSec=1 --property=StartLimitIntervalSec=0"
    cluster.shell(
        CONTROLLER, f'systemctl stop slurmctld; systemd-run --quiet {restart} --unit=thief python3 -c "{thief}"'
    )
    holders = lambda: cluster.root(
        CONTROLLER, "ss", "--no-header", "--listening", "--tcp", "--processes", "sport = :6817"
    )
    try:
        eventually(holders, lambda seen: "python3" in seen, "listeners on port 6817", 90)
        cluster.root(CONTROLLER, "systemctl", "start", "--no-block", "slurmctld")
        cluster.await_message(CONTROLLER, "^waiting: .*6817", 60)
        for action, parameters in {
            "show-nodes": {},
            "drain": {"nodename": "compute-1", "reason": "test"},
            "smoke-test": {},
        }.items():
            assert "slurmctld" in cluster.refuse(CONTROLLER, action, **parameters), action
        assert "ClusterName" in cluster.act(CONTROLLER, "show-current-config")["annotated"]
    finally:
        cluster.root(CONTROLLER, "systemctl", "stop", "thief")
    cluster.await_message(CONTROLLER, UP, 120)


@pytest.mark.slow
def test_killed_hooks_end_where_undisturbed_ones_do(cluster):
    killer = "while sleep 0.1; do pkill -KILL -x dispatch && echo killed; done"
    cluster.root(CONTROLLER, "systemd-run", "--quiet", "--unit=killer", "sh", "-c", killer)
    kills = lambda: cluster.root(CONTROLLER, "journalctl", "--quiet", "--output=cat", "--unit=killer").count("killed")
    for minutes in range(70, 75):
        cluster.juju.config("slurmctld", {OPTION: f"KillWait={minutes}"})
        change(cluster, minutes)
    # Juju tries a killed hook again, each time after a longer pause.
    eventually(kills, lambda seen: seen >= 3, "hooks killed", 90)
    cluster.root(CONTROLLER, "systemctl", "stop", "killer")
    await_limit(cluster, 74, 150)
    eventually(lambda: cluster.setting("KillWait"), lambda seen: seen == "74 sec", "KillWait", 150)
    cluster.juju.wait(jubilant.all_agents_idle, successes=3, timeout=150)
