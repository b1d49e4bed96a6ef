"""Nodes, relations and applications that leave, with jobs that must not notice. `cargo xtask test leaving` runs these.

What a story is told with is in `leaving.py`; beside whom else a unit leaves in `test_leaving_neighbours.py`.
"""
import time

import jubilant
import pytest

import host
from cluster import charm_file, eventually, for_a_while
from leaving import REASON, SHARE, make

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs a directory that the machines share")


@pytest.fixture(scope="module")
def stage(new_cluster):
    return make(new_cluster)


@pytest.fixture(scope="module")
def old_stage(new_cluster):
    """The same on Juju 3.6, where the other side hears of a leaver before the leaver itself has done anything."""
    return make(new_cluster, "3.6")


@pytest.fixture(autouse=True)
def no_job_stays(request):
    yield
    for name in ("stage", "old_stage"):
        stage = (request.node.funcargs or {}).get(name)
        if stage:
            stage.cluster.root(stage.cluster.controller, "scancel", "--user=ubuntu")
            stage.jobs.clear()


def remove_a_unit_with_a_job(stage):
    cluster = stage.cluster
    unit, node = stage.new_unit()
    job = stage.start(node, 45)
    cluster.juju.remove_unit(unit)
    cluster.await_message(unit, r"^maintenance: draining: 1 job, ends in \d+:\d\d:\d\d", 30)
    assert "DRAIN" in cluster.state(node) and cluster.node(node)["reason"] == REASON
    # Events come and go meanwhile, and the controller has to leave the node alone.
    for _ in range(3):
        cluster.fire(cluster.controller)
        assert cluster.job(job)["JobState"] == "RUNNING"
        time.sleep(2)
    machine = cluster.machine_of(unit)
    stage.assert_well(job)
    stage.await_gone(unit)
    eventually(lambda: cluster.machines(), lambda seen: machine not in seen, f"machines without {machine}", 60)
    stage.assert_whole(node)
    cluster.await_message(cluster.controller, "^active: primary - UP$", 120)


def test_a_unit_that_is_removed_waits_for_its_job(stage):
    remove_a_unit_with_a_job(stage)


def test_a_unit_that_is_removed_waits_for_its_job_on_juju_3_6(old_stage):
    remove_a_unit_with_a_job(old_stage)


def test_destroy_jobs_ends_the_wait(stage):
    cluster = stage.cluster
    unit, node = stage.new_unit()
    other = stage.start("compute-0", 30)
    job = stage.start(node, 600)
    cluster.juju.remove_unit(unit)
    cluster.await_message(unit, "^maintenance: draining: 1 job", 30)
    told = cluster.act(cluster.controller, "destroy-jobs", nodes=node, dry_run=True)
    assert job in told["jobs"] and "ubuntu" in told["details"], told
    cluster.act(cluster.controller, "destroy-jobs", nodes=node)
    stage.await_gone(unit)
    stage.await_end(job, "CANCELLED", node)
    stage.jobs.pop(job)
    stage.assert_well(other)
    stage.assert_whole(node)


def test_a_relation_that_is_removed_lets_jobs_end(stage):
    cluster = stage.cluster
    stage.new_application("short")
    job = stage.start("short-0", 40, partition="short")
    cluster.juju.remove_relation("slurmctld", "short")
    cluster.await_message("short/0", "^maintenance: draining: 1 job", 30)
    state = lambda: cluster.partition("short")["State"]
    eventually(state, lambda seen: seen == "INACTIVE", "state of the partition", 30)
    with pytest.raises(jubilant.CLIError):
        cluster.submit("true", partition="short")
    stage.assert_well(job)
    cluster.await_message("short/0", "^blocked: no controller", 120)
    stage.await_no_partition("short")
    with pytest.raises(jubilant.CLIError):
        cluster.root("short/0", "systemctl", "is-active", "slurmd")
    assert cluster.unit("short/0").open_ports == []
    for path in ("/etc/slurm/slurm.jwks", "/run/slurm/conf/slurm.conf", "/var/lib/slurm/slurmd/conf-cache/slurm.conf"):
        with pytest.raises(jubilant.CLIError):
            cluster.root("short/0", "test", "-e", path)
    stage.assert_whole("short-0")
    cluster.await_message(cluster.controller, "^active: primary - UP$", 120)
    cluster.juju.remove_application("short")


def test_integrating_again_takes_a_node_back(stage):
    cluster = stage.cluster
    stage.new_application("again")
    job = stage.start("again-0", 80, partition="again")
    cluster.juju.remove_relation("slurmctld", "again")
    cluster.await_message("again/0", "^maintenance: draining: 1 job", 30)
    eventually(lambda: integrated(cluster, "again"), bool, "integrated again", 60)
    cluster.await_message("again/0", "^active: (mixed|allocated), partition again", 120)
    eventually(lambda: cluster.partition("again")["State"], lambda seen: seen == "UP", "state of the partition", 120)
    assert "DRAIN" not in cluster.state("again-0")
    stage.assert_well(job)
    assert len(cluster.hosts(nodes=1, partition="again")) == 1
    cluster.juju.remove_application("again")
    stage.await_no_partition("again")
    stage.assert_whole("again-0")


def integrated(cluster, application):
    """Juju refuses a relation for some seconds after the same one was removed."""
    try:
        cluster.juju.integrate("slurmctld", application)
        return True
    except jubilant.CLIError as error:
        assert "already exists" in error.stderr, error.stderr
        return False


def test_an_application_with_pending_jobs_waits_for_the_operator(stage):
    cluster = stage.cluster
    stage.new_application("apart")
    job = stage.start("apart-0", 25, partition="apart")
    pending = cluster.submit("true", "--begin=now+1hour", partition="apart")
    cluster.juju.remove_application("apart")
    stage.assert_well(job)
    stage.await_gone("apart/0")
    cluster.await_message(cluster.controller, rf"apart leaves: pending jobs? {pending}", 120)
    assert cluster.job(pending)["JobState"] == "PENDING" and "apart" in cluster.partitions()
    stage.assert_whole("apart-0")
    cluster.on(cluster.controller, "scancel", pending)
    stage.await_no_partition("apart")
    stage.assert_whole("apart-0")
    cluster.await_message(cluster.controller, "^active: primary - UP$", 120)


def test_the_record_of_a_unit_removed_by_force_goes_and_no_other(stage):
    cluster = stage.cluster
    (other, other_node), (unit, node) = stage.new_unit(), stage.new_unit()
    job = stage.start("compute-0", 60)
    # This one is only down.
    cluster.scontrol("update", f"nodename={other_node}", "state=down", "reason=disk")
    cluster.juju.cli("remove-unit", "--force", "--no-prompt", unit)
    stage.await_gone(unit)

    def nodes():
        cluster.fire(cluster.controller)
        return stage.nodes()

    # Slurm itself has to notice first that nobody is there any more.
    cluster.scontrol("update", f"nodename={node}", "state=down", "reason=gone")
    eventually(nodes, lambda seen: node not in seen, f"nodes without {node}", 120)
    for_a_while(nodes, lambda seen: {"compute-0", other_node} <= seen, "nodes that stay", 5)
    cluster.scontrol("update", f"nodename={other_node}", "state=resume")
    cluster.juju.remove_unit(other)
    stage.await_gone(other)
    stage.assert_well(job)
    stage.assert_whole(node)


# What takes longer, or needs a fault


@pytest.mark.slow
@pytest.mark.parametrize("holder", ["pending job", "array", "reservation"])
def test_whoever_names_the_node_holds_it(stage, holder):
    cluster = stage.cluster
    unit, node = stage.new_unit()
    cluster.scontrol("update", f"nodename={node}", "state=drain", "reason=test")
    if holder == "reservation":
        when = ("starttime=now+1day", "duration=60")
        cluster.scontrol("create", "reservation=maint", *when, "user=root", f"nodes={node}")
        words = "reservation maint over this node"
    else:
        options = ["--array=1-2"] if holder == "array" else []
        job = cluster.submit("true", f"--nodelist={node}", *options)
        words = rf"pending jobs? {job}\S* asks? for this node"
    cluster.juju.remove_unit(unit)
    cluster.await_message(unit, f"^waiting: leaving: {words}", 60)
    # Nothing was deleted, so nothing can be lost by a restart.
    stage.restart()
    if holder == "reservation":
        cluster.scontrol("delete", "reservation=maint")
    else:
        assert cluster.job(job)["JobState"] == "PENDING"
        told = cluster.act(cluster.controller, "destroy-jobs", nodes=node)
        assert job in told["pending"], told
    stage.await_gone(unit)
    stage.assert_whole(node)


@pytest.mark.slow
def test_a_silent_controller_is_waited_for(stage):
    cluster = stage.cluster
    unit, node = stage.new_unit()
    job = stage.start(node, 40)
    cluster.root(cluster.controller, "systemctl", "stop", "slurmctld")
    cluster.juju.remove_unit(unit)
    cluster.await_message(unit, "^waiting: leaving: slurmctld does not answer", 60)
    cluster.root(cluster.controller, "systemctl", "start", "slurmctld")
    stage.assert_well(job)
    stage.await_gone(unit)
    stage.assert_whole(node)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["agent killed", "hook killed", "slurmctld restarted", "slurmd killed"])
def test_a_wait_that_is_disturbed_goes_on(stage, fault):
    cluster = stage.cluster
    unit, node = stage.new_unit()
    job = stage.start(node, 50)
    cluster.juju.remove_unit(unit)
    cluster.await_message(unit, "^maintenance: draining: 1 job", 30)
    machine = cluster.machine_of(unit)
    match fault:
        case "agent killed":
            cluster.root(machine, "systemctl", "kill", "--signal=KILL", f"jujud-machine-{machine}")
        case "hook killed":
            cluster.root(machine, "pkill", "--signal", "KILL", "--full", "^./dispatch|/dispatch$")
        case "slurmctld restarted":
            stage.restart()
        case "slurmd killed":
            cluster.root(machine, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmd")
    stage.assert_well(job)
    stage.await_gone(unit, 180)
    stage.assert_whole(node)


@pytest.mark.slow
def test_a_unit_that_leaves_after_its_relation_waits_for_its_job(stage):
    """Without a peer relation Juju 4 would take the machine within seconds."""
    cluster = stage.cluster
    stage.new_application("late", units=2)
    job = stage.start("late-0", 60, partition="late")
    cluster.juju.remove_relation("slurmctld", "late")
    cluster.await_message("late/0", "^maintenance: draining: 1 job", 30)
    cluster.juju.remove_application("late")
    stage.assert_well(job)
    stage.await_gone("late/0")
    stage.await_no_partition("late")
    stage.assert_whole("late-0", "late-1")


@pytest.mark.slow
def test_a_charm_that_is_refreshed_in_the_middle_goes_on(stage):
    cluster = stage.cluster
    stage.new_application("fresh")
    job = stage.start("fresh-0", 45, partition="fresh")
    cluster.juju.remove_relation("slurmctld", "fresh")
    cluster.await_message("fresh/0", "^maintenance: draining: 1 job", 30)
    cluster.juju.refresh("fresh", path=charm_file("slurmd"))
    cluster.juju.refresh("slurmctld", path=charm_file("slurmctld"))
    stage.assert_well(job)
    cluster.await_message("fresh/0", "^blocked: no controller", 120)
    stage.await_no_partition("fresh")
    stage.assert_whole("fresh-0")
    cluster.juju.remove_application("fresh")


@pytest.mark.slow
def test_jobs_are_cancelled_when_drain_timeout_is_over(stage):
    cluster = stage.cluster
    cluster.juju.config("compute", {"drain-timeout": 10, "drain-policy": "cancel"})
    try:
        unit, node = stage.new_unit()
        job, other = stage.start(node, 600), stage.start("compute-0", 40)
        cluster.juju.remove_unit(unit)
        stage.await_gone(unit)
        stage.await_end(job, "CANCELLED", node)
        stage.jobs.pop(job)
        stage.assert_well(other)
        stage.assert_whole(node)
    finally:
        cluster.restore("compute", "drain-timeout")
        cluster.restore("compute", "drain-policy")


@pytest.mark.slow
def test_a_lost_departed_changes_nothing(stage):
    cluster = stage.cluster
    cluster.local("lose", "departed", "secret-content")
    try:
        unit, node = stage.new_unit()
        job = stage.start(node, 20)
        cluster.juju.remove_unit(unit)
        stage.assert_well(job)
        stage.await_gone(unit)
        stage.assert_whole(node)
        cluster.fire(cluster.controller)
        cluster.await_message(cluster.controller, "^active: primary - UP$", 120)
        unit, node = stage.new_unit()
        cluster.juju.remove_unit(unit)
        stage.await_gone(unit)
    finally:
        cluster.local("lose", "nothing")


@pytest.mark.slow
def test_ten_units_leave_at_once(stage):
    cluster = stage.cluster
    known = stage.units("compute")
    cluster.add_unit("compute", units=10)
    new = eventually(lambda: stage.units("compute") - known, lambda seen: len(seen) == 10, "new units", 60)
    for unit in new:
        cluster.await_message(unit, "^active: idle", 180)
    stage.share(*new)
    # It takes a while until all of them run, and all have to be there when they are removed.
    jobs = [stage.submit(unit.replace("/", "-"), 150) for unit in new]
    for job in jobs:
        stage.await_begun(job)
    assert stage.running() == sorted(f"{job} RUNNING" for job in jobs)
    cluster.juju.cli("remove-unit", "--no-prompt", *new)
    for job in jobs:
        stage.assert_well(job)
    for unit in new:
        stage.await_gone(unit, 240)
    stage.assert_whole(*(unit.replace("/", "-") for unit in new))


@pytest.mark.slow
def test_nodes_outlive_their_controllers(new_cluster):
    """The controllers go first: compute units wait for what runs on their machines."""
    stage = make(new_cluster)
    cluster = stage.cluster
    job = stage.start("compute-0", 60)
    cluster.juju.remove_application("slurmctld")
    cluster.await_message("compute/0", "^maintenance: (draining|leaving): 1 job", 90)
    cluster.juju.remove_application("compute")
    text = lambda: cluster.root("compute/0", "sh", "-c", f"cat {SHARE}/{job}; ls {SHARE}")
    for_a_while(text, lambda seen: len(seen.split()) > 1, "heartbeats", 3)
    eventually(lambda: f"{job}.end" in alive(text), bool, f"end of job {job}", 120)
    stage.await_gone("compute/0", 120)


def alive(read):
    """What can be read, or the mark of an end where the machine has just gone."""
    try:
        return read()
    except jubilant.CLIError as error:
        return f"{error.stderr}{error.stdout}"


@pytest.mark.slow
def test_a_model_is_destroyed_when_its_jobs_have_ended(new_cluster):
    stage = make(new_cluster)
    cluster = stage.cluster
    stage.start("compute-0", 40)
    began = time.monotonic()
    cluster.juju.cli("destroy-model", cluster.juju.model, "--no-prompt", include_model=False)
    assert time.monotonic() - began > 25, "the job was not waited for"
    cluster.juju.model = None
