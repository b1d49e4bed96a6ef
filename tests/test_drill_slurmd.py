"""What went wrong on compute nodes when somebody tried: keys damaged, programs gone, power cut, machines shared, arrays
cut in two.

Each of these once lost a job, a setting or the truth in the status.
"""
import json
import re

import jubilant
import pytest

from cluster import eventually, slow

UNITS = 2
UP = r"^active: (idle|mixed|allocated), partition compute"


def kill(cluster, unit):
    cluster.root(unit, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmd")


def runs(cluster, unit):
    try:
        return cluster.root(unit, "systemctl", "is-active", "slurmd").strip()
    except jubilant.CLIError as error:
        return error.stdout.strip()


def test_a_destroyed_task_of_an_array_takes_no_other_with_it(cluster):
    """The task that started last has the number of the whole array."""
    array = cluster.submit("sleep 600", "--array=0-1", "--exclusive")
    on_nodes = lambda: dict(
        line.split()
        for line in cluster.on(
            cluster.controller, "squeue", "--noheader", "--states=RUNNING", "--format=%A %N"
        ).splitlines()
    )
    tasks = eventually(on_nodes, lambda seen: len(seen) == 2, "running tasks", 30)
    node = tasks.pop(array)
    answer = cluster.act(re.sub(r"-(\d+)$", r"/\1", node), "destroy-jobs")
    assert answer["destroyed"] == "1", answer
    (other,) = tasks
    cluster.assert_unharmed(other)
    cluster.cancel(other)


@pytest.mark.parametrize(
    "parameters", ["Port =7000", *map(slow, ("State = DOWN", "NodeAddr = 10.9.9.9", "Weight=3 Reason =x"))]
)
def test_an_owned_key_is_refused_however_it_is_written(cluster, parameters):
    before = cluster.root("compute/0", "cat", "/etc/default/slurmd")
    assert re.search(r"Port|State|NodeAddr|Reason", cluster.refuse("compute/0", "node-config", parameters=parameters))
    assert cluster.root("compute/0", "cat", "/etc/default/slurmd") == before
    assert cluster.act("compute/0", "node-config")["user-supplied-node-parameters"] == ""


@pytest.mark.parametrize("damage", ["chmod 644 {}", slow("echo garbage >{}")])
def test_slurmd_comes_back_by_itself_from_a_damaged_key(cluster, job, damage):
    """slurmd neither starts nor fails then: its unit waits, and so would everybody."""
    key = "/etc/slurm/slurm.jwks"
    cluster.shell("compute/0", damage.format(key))
    kill(cluster, "compute/0")
    eventually(lambda: runs(cluster, "compute/0"), lambda seen: seen == "active", "slurmd", 90)
    assert cluster.root("compute/0", "stat", "--format=%a %U", key).split() == ["600", "root"]
    cluster.await_message("compute/0", UP)


def test_a_key_that_was_written_anew_is_loaded_once(cluster, job):
    """A slurmd that goes on with the key of before is lost when the controllers drop that key."""
    key = "/etc/slurm/slurm.jwks"
    pid = lambda: cluster.root("compute/0", "systemctl", "show", "--property=MainPID", "slurmd")  # noqa: E731
    before = pid()
    cluster.shell("compute/0", f"chmod 644 {key}")
    cluster.fire("compute/0")
    # A reload replaces the process.
    after = eventually(pid, lambda seen: seen != before, "slurmd", 20)
    cluster.await_message("compute/0", UP)
    for _ in range(3):
        cluster.fire("compute/0")
    assert pid() == after
    cluster.assert_unharmed(job)


@pytest.mark.slow
def test_a_slurmd_comes_back_with_its_lost_program(cluster, job):
    program = cluster.on("compute/0", "readlink", "--canonicalize", "/usr/sbin/slurmd").strip()
    cluster.root("compute/0", "mv", program, f"{program}.away")
    try:
        kill(cluster, "compute/0")
        cluster.await_message("compute/0", "^blocked: .*slurmd", seconds=40)
        cluster.fire("compute/0")
    finally:
        cluster.root("compute/0", "mv", f"{program}.away", program)
    cluster.await_message("compute/0", UP, seconds=120)


@pytest.mark.slow
def test_slurmd_lives_on_the_controllers_machine_too(cluster):
    cluster.deploy_compute("head", to=cluster.machine_of(cluster.controller))
    cluster.juju.integrate("head", "slurmctld")
    cluster.settle(head=1, slurmctld=1)
    access = lambda: cluster.root(cluster.controller, "stat", "--format=%a %U %Y", "/etc/slurm/slurm.jwks")
    before = access()
    for unit in ("head/0", cluster.controller) * 2:
        cluster.fire(unit)
    assert access() == before, "two charms quarrel about one key"
    cluster.root(cluster.controller, "systemctl", "restart", "slurmctld")
    cluster.root("head/0", "systemctl", "restart", "slurmd")
    assert cluster.srun(partition="head").split() == [cluster.machines()[cluster.machine_of("head/0")]]


@pytest.mark.slow
def test_many_units_at_once_change_nothing_on_the_controller(cluster, job):
    cluster.quiet()
    before = cluster.controller_state()
    cluster.add_unit("compute", units=6)
    cluster.settle(compute=8, timeout=300)
    assert cluster.controller_state() == before
    states = json.loads(cluster.on(cluster.controller, "scontrol", "show", "nodes", "--json=v0.0.42"))["nodes"]
    assert sum(node["name"].startswith("compute-") for node in states) == 8


@pytest.mark.slow
def test_a_job_that_died_with_its_machine_is_not_waited_for(cluster):
    """Its socket outlives it for ten minutes, and Slurm takes that for a job."""
    job = cluster.start_job("compute-1")
    cluster.await_saved(job)
    machine = cluster.machine_of("compute/1")
    cluster.local("machine", "poweroff", machine)
    cluster.local("machine", "poweron", machine)
    eventually(lambda: runs(cluster, "compute/1"), lambda seen: seen == "active", "slurmd", 60)
    cluster.quiet()
    cluster.cancel(job)
    assert cluster.act("compute/1", "destroy-jobs", dry_run=True)["jobs"] == ""
    answer = cluster.juju.run("compute/1", "drain", {"reason": "looks for jobs", "wait": True}, wait=60)
    assert answer.results["status"] == "drained"
    cluster.act("compute/1", "resume")


@pytest.mark.slow
def test_a_slurm_conf_of_another_cluster_does_not_hide_this_one(cluster, job):
    """Slurm's clients read it first; slurmd fetched another one."""
    conf = "/etc/slurm/slurm.conf"
    cluster.shell(
        "compute/0", f"printf 'ClusterName=old\\nSlurmctldHost=gone\\nNodeName=x\\nPartitionName=p Nodes=x\\n' >{conf}"
    )
    try:
        cluster.fire("compute/0")
        assert re.search(UP, cluster.message("compute/0"))
        assert cluster.act("compute/0", "show-node")["node"] == "compute-0"
    finally:
        cluster.root("compute/0", "rm", conf)


@pytest.mark.slow
def test_a_full_disk_does_not_leave_the_node_closed(cluster):
    """The change of the node's description begins, and its new options cannot be written."""
    cluster.shell(
        "compute/1",
        "cp -a /etc/default /run/kept; mount -t tmpfs -o size=64k tmpfs /etc/default; cp -a /run/kept/. /etc/default/;"
        "dd if=/dev/zero of=/etc/default/full bs=1k 2>/dev/null || true",
    )
    try:
        cluster.refuse("compute/1", "node-config", parameters="RealMemory=2000")
        assert "No space left" in cluster.await_message("compute/1", "^waiting: retrying after error")
    finally:
        cluster.shell("compute/1", "umount /etc/default; rm -r /run/kept")
    eventually(
        lambda: (cluster.node("compute-1")["real_memory"], cluster.state("compute-1")),
        lambda seen: seen == (2000, "IDLE"),
        "the node",
        120,
    )
    cluster.await_message("compute/1", UP)
    cluster.act("compute/1", "node-config", reset=True)


@pytest.mark.slow
def test_a_node_whose_address_changed_is_found_again(cluster, job):
    """Juju tells a unit of another address of its machine with a config-changed."""
    address = lambda: cluster.node("compute-0")["address"]
    own, other = address(), "198.51.100.7"
    # With a route back, as the network would have one.
    bridge = cluster.shell(
        "compute/0", f"ip -o route get {own.rsplit('.', 1)[0]}.1 | sed 's/.* dev \\([^ ]*\\).*/\\1/'"
    ).strip()
    cluster.shell(cluster.controller, f"ip route add {other}/32 via {own}")
    cluster.shell(
        "compute/0",
        f"ip addr add {other}/32 dev {bridge}; ip route replace {own.rsplit('.', 1)[0]}.0/24 dev {bridge} src {other};"
        " systemctl reset-failed slurmd; systemctl restart slurmd",
    )
    eventually(address, lambda seen: seen == other, "address of compute-0", 30)
    cluster.shell(
        "compute/0",
        f"ip route replace {own.rsplit('.', 1)[0]}.0/24 dev {bridge} src {own}; ip addr del {other}/32 dev {bridge}",
    )
    cluster.shell(cluster.controller, f"ip route del {other}/32")
    cluster.fire("compute/0", "config-changed")
    eventually(address, lambda seen: seen == own, "address of compute-0", 30)
