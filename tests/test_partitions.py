"""What becomes of `partition-config`: two applications, their partitions, defaults, and values that are wrong.

The compute applications are there before the controller, and are integrated the other way round.
"""
import pytest

from cluster import eventually, slow


@pytest.fixture(scope="module")
def cluster(new_cluster):
    cluster = new_cluster()
    cluster.deploy_compute("compute", units=2)
    cluster.deploy_compute("debug", units=1, config={"partition-config": "MaxTime=15 DefaultTime=5"})
    cluster.await_message("compute/0", "^blocked: no controller", seconds=300)
    cluster.deploy_controller(config={"cluster-name": "lab"})
    cluster.juju.integrate("compute", "slurmctld")
    cluster.juju.integrate("debug", "slurmctld")
    cluster.settle(slurmctld=1, compute=2, debug=1)
    return cluster


def configure(cluster, text, application="compute"):
    """Sets `partition-config`; an empty text means the default."""
    if text:
        cluster.juju.config(application, {"partition-config": text})
    else:
        cluster.restore(application, "partition-config")


def await_partition(cluster, expected, name="compute"):
    """Waits until the partition has all of these values."""
    fits = lambda seen: all(seen.get(key) == value for key, value in expected.items())
    return eventually(lambda: cluster.partition(name), fits, f"partition {name} with {expected}", 60)


@pytest.mark.core
def test_a_controller_that_comes_later_makes_the_same_cluster(cluster):
    assert cluster.setting("ClusterName") == "lab"
    assert cluster.partitions() == ["compute", "debug"]
    assert len(set(cluster.hosts(nodes=2))) == 2
    assert len(cluster.hosts(nodes=1, partition="debug")) == 1


def test_each_application_has_its_own_options(cluster):
    assert cluster.partition("debug")["MaxTime"] == "00:15:00"
    assert cluster.partition("debug")["DefaultTime"] == "00:05:00"
    assert cluster.partition("compute")["MaxTime"] == "UNLIMITED"


@pytest.mark.core
def test_a_changed_option_reaches_slurm_without_a_change_of_nodes(cluster):
    job = cluster.start_job("compute-0")
    configure(cluster, "MaxTime=2:00:00 PriorityTier=10")
    await_partition(cluster, {"MaxTime": "02:00:00", "PriorityTier": "10"})
    cluster.quiet()
    assert cluster.partition("debug")["MaxTime"] == "00:15:00"
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_any_letter_case_and_a_changed_order_are_the_same(cluster):
    configure(cluster, "prioritytier=10   MAXTIME=2:00:00")
    cluster.quiet()
    before = cluster.reconfigures()
    configure(cluster, "MaxTime=2:00:00 PriorityTier=10")
    cluster.quiet()
    assert cluster.partition("compute")["MaxTime"] == "02:00:00"
    assert cluster.reconfigures() == before, "the same partition in other words was reconfigured"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("MaxTim=60", "MaxTim"),
        slow("MaxTime=soon", "MaxTime"),
        ("PartitionName=other", "PartitionName"),
        slow("Nodes=ALL", "Nodes"),
        ("MaxTime=60\nPartitionName=evil Nodes=ALL", "partition-config"),
        slow("just words", "just"),
    ],
)
def test_a_wrong_value_is_named_before_anything_changes(cluster, text, named):
    before = (cluster.slurm_conf(), cluster.reconfigures(), cluster.databags())
    configure(cluster, text)
    try:
        leader = cluster.leader("compute")
        message = cluster.await_message(leader, "^blocked: .*partition-config")
        assert named.lower() in message.lower(), message
        cluster.quiet()
        assert (cluster.slurm_conf(), cluster.reconfigures(), cluster.databags()) == before
        assert cluster.partition("compute")["MaxTime"] == "02:00:00"
        # It costs nobody anything: jobs run on, and the other application is fine.
        assert len(cluster.hosts(nodes=2)) == 2
        assert cluster.message("debug/0").startswith("active: ")
    finally:
        configure(cluster, "MaxTime=2:00:00 PriorityTier=10")
    cluster.settle(slurmctld=1, compute=2, debug=1)


def test_a_value_that_only_slurm_can_judge_costs_one_application_its_change(cluster):
    # Readable for the parser, and yet slurmctld does not take it.
    configure(cluster, "MaxTime=2:00:00 TRESBillingWeights=CPU=abc", "debug")
    try:
        cluster.quiet()
        statuses = [cluster.message(unit) for unit in ("slurmctld/0", "debug/0")]
        assert any(
            "debug" in one or "partition-config" in one for one in statuses if not one.startswith("active")
        ), statuses
        assert cluster.partition("debug")["MaxTime"] == "00:15:00"
        assert cluster.partition("compute")["MaxTime"] == "02:00:00"
        configure(cluster, "MaxTime=3:00:00 PriorityTier=10")
        await_partition(cluster, {"MaxTime": "03:00:00"})
    finally:
        configure(cluster, "MaxTime=15 DefaultTime=5", "debug")
        configure(cluster, "MaxTime=2:00:00 PriorityTier=10")
    cluster.settle(slurmctld=1, compute=2, debug=1)
    await_partition(cluster, {"MaxTime": "02:00:00"})


def test_an_empty_option_gives_the_defaults_back(cluster):
    configure(cluster, "")
    await_partition(cluster, {"MaxTime": "UNLIMITED", "PriorityTier": "1"})


def test_the_default_partition_takes_jobs_that_name_none(cluster):
    cluster.juju.config("slurmctld", {"default-partition": "debug"})
    await_partition(cluster, {"Default": "YES"}, "debug")
    assert cluster.partition("compute")["Default"] == "NO"
    job = cluster.on(
        "slurmctld/0", "sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--wrap", "true"
    ).strip()
    assert cluster.job(job)["Partition"] == "debug"
    cluster.juju.config("slurmctld", {"default-partition": "compute"})
    await_partition(cluster, {"Default": "YES"}, "compute")
    assert cluster.partition("debug")["Default"] == "NO"


def test_a_default_partition_that_is_not_there_is_named(cluster):
    cluster.juju.config("slurmctld", {"default-partition": "nosuch"})
    try:
        cluster.await_message("slurmctld/0", "^(blocked|waiting): (?=.*default-partition).*nosuch")
        assert len(cluster.hosts(nodes=2)) == 2
    finally:
        cluster.restore("slurmctld", "default-partition")
    cluster.settle(slurmctld=1, compute=2, debug=1)


def test_two_defaults_are_named_and_settled_by_the_option(cluster):
    configure(cluster, "Default=YES")
    configure(cluster, "Default=YES MaxTime=15 DefaultTime=5", "debug")
    try:
        message = cluster.await_message("slurmctld/0", "^blocked: .*compute")
        assert "debug" in message, message
        cluster.juju.config("slurmctld", {"default-partition": "debug"})
        await_partition(cluster, {"Default": "YES"}, "debug")
        cluster.await_message("slurmctld/0", "^active: ")
        assert cluster.partition("compute")["Default"] == "NO"
    finally:
        configure(cluster, "")
        configure(cluster, "MaxTime=15 DefaultTime=5", "debug")
        cluster.restore("slurmctld", "default-partition")
    cluster.settle(slurmctld=1, compute=2, debug=1)


def test_one_reconfigure_serves_all_that_one_hook_sees(cluster):
    before = cluster.reconfigures()
    cluster.juju.config("slurmctld", {"default-partition": "debug"})
    await_partition(cluster, {"Default": "YES"}, "debug")
    cluster.quiet()
    # Both partitions change, Slurm reads its files once. Each reconfigure says so twice in the journal.
    assert cluster.reconfigures() - before == reconfigure_lines(cluster)


def reconfigure_lines(cluster):
    """How many lines one `scontrol reconfigure` leaves in the journal."""
    before = cluster.reconfigures()
    cluster.reconfigure()
    return eventually(lambda: cluster.reconfigures() - before, bool, "lines of a reconfigure", 10)


def test_a_partition_written_over_two_lines_closes_only_itself(cluster):
    """A backslash continues a line of slurm.conf: what follows belongs to that partition alone."""
    before = cluster.slurm_conf()
    lines = "PartitionName=byhand Nodes=compute \\\n  State=DOWN\n"
    cluster.root("slurmctld/0", "tee", "--append", "/etc/slurm/slurm.conf", stdin=lines)
    try:
        cluster.fire("slurmctld/0")
        await_partition(cluster, {"State": "DOWN"}, "byhand")
        cluster.quiet()
        states = {name: cluster.partition(name)["State"] for name in ("byhand", "compute", "debug")}
        assert states == {"byhand": "DOWN", "compute": "UP", "debug": "UP"}
        assert len(cluster.hosts(nodes=2)) == 2
    finally:
        cluster.root("slurmctld/0", "tee", "/etc/slurm/slurm.conf", stdin=before)
        cluster.fire("slurmctld/0")
        for name in ("compute", "debug"):
            cluster.scontrol("update", f"partitionname={name}", "state=up")
    eventually(cluster.partitions, lambda seen: "byhand" not in seen, "partitions", 60)


def test_a_reserved_name_is_refused(cluster):
    # Slurm takes a partition called DEFAULT for the defaults of all others. Juju allows the name in small letters.
    cluster.deploy_compute("default", units=1)
    cluster.juju.integrate("default", "slurmctld")
    seen = lambda: [cluster.message(unit) for unit in ("default/0", "slurmctld/0")]
    named = lambda messages: any(one.startswith("blocked: ") and "default" in one for one in messages)
    eventually(seen, named, "statuses", 120)
    assert cluster.partitions() == ["compute", "debug"]
    assert len(cluster.hosts(nodes=2)) == 2
    cluster.juju.remove_application("default", destroy_storage=True, force=True)
