"""Machines are rebooted by Slurm, one at a time, and come back as they were; jobs that Slurm forgets are named."""
import json
import shlex
import time

import pytest

from cluster import eventually

CONTROLLER = "slurmctld/0"
# A container shows the boot time of its host. So Slurm waits for a boot that it never sees until this is over, in
# seconds, and looks every half minute or so.
RESUME_TIMEOUT = 5
WAIT = 150
# The claim of a fresh boot, as on real iron.
CLAIM = """
printf '%s\\n' '[Service]' 'ExecStartPre=/bin/sleep 2' 'ExecStart=' \\
    'ExecStart=/usr/sbin/slurmd --systemd -b $SLURMD_OPTIONS' >/etc/systemd/system/slurmd.service.d/99-boot-time.conf
"""


def boots(cluster, unit):
    """What is another one after each boot of the unit's machine."""
    return cluster.on(unit, "cut", "-d", " ", "-f", "22", "/proc/1/stat").strip()


def remarks(cluster):
    nodes = json.loads(cluster.act(CONTROLLER, "show-nodes")["nodes"])
    return {node["node"]: node.get("remarks", "") for node in nodes}


def await_reboots(cluster, seconds=WAIT):
    cluster.await_message(CONTROLLER, "^active: primary - UP$", seconds)


def test_nodes_reboot_once_and_are_as_they_were(cluster):
    """compute-0 has a job, and compute-1 is drained by its operator."""
    cluster.juju.config("slurmctld", {"slurm-conf-parameters": f"ResumeTimeout={RESUME_TIMEOUT}"})
    eventually(lambda: cluster.setting("ResumeTimeout"), lambda seen: seen == f"{RESUME_TIMEOUT} sec", "timeout", 60)
    cluster.settle(slurmctld=1)
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=loud fan")
    job = cluster.start_job("compute-0")
    before = {unit: boots(cluster, unit) for unit in ("compute/0", "compute/1")}
    done = cluster.act(CONTROLLER, "reboot", nodes="compute-[0-1]", reason="new kernel")
    assert done["nodes"] == "compute-0,compute-1", done
    assert "reboots: 1 of 2 away, 1 to go" in cluster.message(CONTROLLER)
    assert "REBOOT_REQUESTED" in cluster.state("compute-0") and cluster.node("compute-0")["reason"] == "new kernel"
    shown = remarks(cluster)
    assert shown["compute-0"].startswith("reboot requested") and shown["compute-1"] == "reboot queued", shown
    # Once more is no second reboot.
    assert cluster.act(CONTROLLER, "reboot", nodes="compute-0")["queued-before"] == "compute-0"
    cluster.assert_unharmed(job)
    assert {unit: boots(cluster, unit) for unit in before} == before
    cluster.cancel(job)
    await_reboots(cluster, 2 * WAIT)
    after = {unit: boots(cluster, unit) for unit in before}
    assert all(after[unit] != before[unit] for unit in before), (before, after)
    cluster.await_state("compute-0", "IDLE")
    cluster.await_state("compute-1", "IDLE+DRAIN")
    assert cluster.node("compute-1")["reason"] == "loud fan"
    cluster.scontrol("update", "nodename=compute-1", "state=resume")
    cluster.await_state("compute-1", "IDLE")
    assert not any(remarks(cluster).values())
    assert len(cluster.hosts(nodes=2)) == 2
    assert {unit: boots(cluster, unit) for unit in before} == after, "rebooted twice"


def test_a_reboot_is_taken_back_and_a_drain_stays(cluster):
    cluster.scontrol("update", "nodename=compute-0", "state=drain", "reason=disk")
    job = cluster.start_job("compute-1")
    before = boots(cluster, "compute/1")
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=fan")
    cluster.act(CONTROLLER, "reboot", nodes="compute-1")
    cluster.act(CONTROLLER, "reboot", nodes="compute-0")
    assert "REBOOT_REQUESTED" in cluster.state("compute-1")
    cluster.act(CONTROLLER, "reboot", nodes="compute-[0-1]", cancel=True)
    assert "DRAIN" in cluster.state("compute-1") and "REBOOT" not in cluster.state("compute-1")
    assert cluster.node("compute-1")["reason"] == "fan" and cluster.node("compute-0")["reason"] == "disk"
    await_reboots(cluster, 30)
    cluster.assert_unharmed(job)
    assert boots(cluster, "compute/1") == before
    cluster.cancel(job)
    cluster.act(CONTROLLER, "resume", nodename="compute-[0-1]")
    for node in ("compute-0", "compute-1"):
        cluster.await_state(node, "IDLE")


def test_what_cannot_be_rebooted_is_refused(cluster):
    assert "nosuch-0" in cluster.refuse(CONTROLLER, "reboot", nodes="compute-0,nosuch-0")
    assert "nodes" in cluster.refuse(CONTROLLER, "reboot", nodes="")


@pytest.mark.slow
def test_a_boot_that_slurm_sees_brings_a_node_back_at_once(cluster):
    """With the claim of a fresh boot, as on real iron; and slurmctld dies in between."""
    cluster.restore("slurmctld", "slurm-conf-parameters")
    eventually(lambda: cluster.setting("ResumeTimeout"), lambda seen: seen == "60 sec", "timeout", 60)
    cluster.settle(slurmctld=1)
    before = boots(cluster, "compute/0")
    cluster.shell("compute/0", CLAIM)
    try:
        cluster.act(CONTROLLER, "reboot", nodes="compute-0")
        cluster.root(CONTROLLER, "systemctl", "kill", "--signal=KILL", "slurmctld")
        await_reboots(cluster)
        cluster.await_state("compute-0", "IDLE")
        assert boots(cluster, "compute/0") != before
    finally:
        cluster.shell("compute/0", "rm /etc/systemd/system/slurmd.service.d/99-boot-time.conf; systemctl daemon-reload")
    assert len(cluster.hosts(nodes=2)) == 2


# A job may be without a process for so long, in seconds: its launch may be under way.
LAUNCH = 60
# Slurm counts what a node says about its jobs so many seconds after it has started, and no earlier.
HEARD_AFTER = 30


@pytest.mark.slow
def test_a_job_that_slurm_takes_for_running_and_no_node_knows_is_named(cluster):
    """Its processes die while slurmctld is away, and slurmd has nobody to tell.

    Of another one the tasks on one of its nodes have ended by themselves, about which Slurm says the same.
    """
    lost, sound = cluster.start_job("compute-0"), cluster.start_job("compute-1")
    tasks = "if [ $SLURM_PROCID = 0 ]; then sleep 1; else sleep 600; fi"
    words = ["srun", "--partition=compute", "--nodes=2", "--mem=50", "--job-name=uneven", "sh", "-c", tasks]
    begin = "systemd-run --quiet --collect --uid=ubuntu --working-directory=/tmp"
    cluster.shell(CONTROLLER, f"{begin} {shlex.join(words)}")
    listed = lambda: cluster.on(CONTROLLER, "squeue", "--noheader", "--name=uneven", "--state=running", "--format=%A")
    uneven = eventually(listed, str.strip, "the uneven job runs", 60).strip()
    began = time.time()
    cluster.await_saved(uneven)
    explained = lambda job: cluster.act(CONTROLLER, "explain", job=int(job))["why"]
    cluster.root(CONTROLLER, "systemctl", "stop", "slurmctld")
    cluster.shell("compute/0", "pkill -9 slurmstepd; pkill -9 sleep")
    cluster.root(CONTROLLER, "systemctl", "start", "slurmctld")
    eventually(lambda: cluster.message(CONTROLLER), lambda seen: seen.endswith(" - UP"), "controller", 60)
    assert cluster.job(lost)["JobState"] == "RUNNING"
    # It could be in its Prolog.
    if time.time() < began + LAUNCH - 10:
        assert "no process" not in explained(lost)
    time.sleep(max(0, began + LAUNCH + HEARD_AFTER - time.time()))
    assert "no process on compute-0" in explained(lost)
    assert explained(sound) == "it runs on compute-1"
    assert explained(uneven) == "it runs on compute-[0-1]"
    cluster.cancel(uneven)
    assert remarks(cluster) == {"compute-0": f"job {lost} has no process here", "compute-1": ""}
    assert cluster.job(lost)["JobState"] == "RUNNING", "nothing is done about it"
    # The advice.
    cluster.root("compute/0", "systemctl", "reload", "slurmd")
    eventually(lambda: cluster.job(lost)["JobState"], lambda seen: seen != "RUNNING", f"state of job {lost}", 60)
    cluster.assert_unharmed(sound)
